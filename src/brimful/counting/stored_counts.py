"""Counts that a store keeps, so that no text is tokenized twice."""

from collections.abc import Mapping, Sequence

from brimful.core.content import Part, Text, ToolCall, ToolResult
from brimful.counting.fixed_overhead import call_json
from brimful.counting.text_counters import get_count_cache


def texts_in(content: str | tuple[Part, ...]) -> list[str]:
    """Return every text of a content that a counter may be asked for.

    >>> texts_in("Hello"), texts_in((Text(text="One"), ToolResult(id="c1", content="Two")))
    (['Hello'], ['One', 'Two'])
    """
    if isinstance(content, str):
        return [content]
    return [text for part in content for text in _texts_in_part(part)]


def remember_counts(vocabulary: str, counts: Mapping[str, int]) -> None:
    """Take over counts of texts by a vocabulary: they will not be counted again while they are remembered."""
    get_count_cache(vocabulary).add(counts)


def find_uncounted(vocabulary: str, texts: Sequence[str]) -> list[str]:
    """Return the texts whose counts this process does not remember."""
    return get_count_cache(vocabulary).missing(texts)


def count_raw(vocabulary: str, texts: Sequence[str]) -> list[int]:
    """Count texts by a vocabulary, before any calibration: the counts that are worth keeping.

    >>> count_raw("o200k_base", ["Fill the window.", ""])
    [4, 0]
    """
    return get_count_cache(vocabulary).counts(texts)


def _texts_in_part(part: Part) -> list[str]:
    match part:
        case Text():
            return [part.text]
        case ToolResult():
            return [part.content]
        case ToolCall():
            return [part.name, part.arguments, call_json(part)]
        case _:
            return []
