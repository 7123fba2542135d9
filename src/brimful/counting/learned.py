"""Counts that were made before: a store keeps them, so that no text is tokenized twice, ever."""

from collections.abc import Mapping, Sequence

from brimful.core.content import Part, Text, ToolCall, ToolResult
from brimful.counting.constants import call_json
from brimful.counting.texts import memo_of


def texts_of(content: str | tuple[Part, ...]) -> list[str]:
    """Return every text of a content that a counter may be asked for.

    >>> texts_of("Hello"), texts_of((Text(text="One"), ToolResult(id="c1", content="Two")))
    (['Hello'], ['One', 'Two'])
    """
    if isinstance(content, str):
        return [content]
    return [text for part in content for text in _texts_of_part(part)]


def learn(vocabulary: str, counts: Mapping[str, int]) -> None:
    """Take over counts of texts by a vocabulary: they will not be counted again while they are remembered."""
    memo_of(vocabulary).learn(counts)


def unknown(vocabulary: str, texts: Sequence[str]) -> list[str]:
    """Return the texts whose counts this process does not remember."""
    return memo_of(vocabulary).unknown(texts)


def raw_counts(vocabulary: str, texts: Sequence[str]) -> list[int]:
    """Count texts by a vocabulary, before any calibration: the counts that are worth keeping.

    >>> raw_counts("o200k_base", ["Fill the window.", ""])
    [4, 0]
    """
    return memo_of(vocabulary).counts(texts)


def _texts_of_part(part: Part) -> list[str]:
    match part:
        case Text():
            return [part.text]
        case ToolResult():
            return [part.content]
        case ToolCall():
            return [part.name, part.arguments, call_json(part)]
        case _:
            return []
