"""How likely a request is to need each of its tools, by the words and the meaning of what the user asks for."""

import re
from collections.abc import Callable, Iterator, Sequence
from math import log
from typing import Any, Final

from brimful.core.prompt import Tool
from brimful.shorten import word_set

Similarity = Callable[[str, Sequence[str]], Sequence[float]]
"""Returns how similar the meaning of each text is to that of a query, at most 1."""

_FIELD_WEIGHTS: Final = (3.0, 1.5, 0.7)  # of words in a name, a description, and the names and texts of parameters
_SATURATION: Final = 1.2  # BM25's k1: how quickly further fields with a word stop counting
_MEANING: Final = 20.0  # BM25 points of two texts that mean the same; chosen on the even cases of BFCL
_MAX_CHARACTERS: Final = 4_000  # of a query, at its beginning and at its end
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_MIN_NAME: Final = 4  # characters of a name that counts as named if it occurs in a text; others are common words


class ToolRanking:
    """Ranks tools by BM25F over their names, descriptions and parameters, and by similarity of meaning if available."""

    def __init__(self, tools: Sequence[Tool], similarity: Similarity | None) -> None:
        self._names = [tool.name for tool in tools]
        self._fields = [tuple(map(_words, _read_fields(tool))) for tool in tools]
        words = (set().union(*fields) for fields in self._fields)
        self._frequency: dict[str, int] = {}
        for word in (word for each in words for word in each):
            self._frequency[word] = self._frequency.get(word, 0) + 1
        self._similarity = similarity
        self._texts = [_summarize(tool) for tool in tools]

    def score(self, query: str) -> dict[str, float]:
        """Return how well each tool matches a query."""
        query = _clip(query)
        weights = [(word, self._weight(word)) for word in sorted(_words(query)) if word in self._frequency]
        scores = [sum(weight * _strength(word, fields) for word, weight in weights) for fields in self._fields]
        if self._similarity is not None:
            near = self._similarity(query, self._texts)
            scores = [score + _MEANING * max(0.0, each) for score, each in zip(scores, near, strict=True)]
        return dict(zip(self._names, scores, strict=True))

    def find_named(self, query: str) -> list[str]:
        """Return the tools whose names a text spells out."""
        found = set(re.findall(r"[\w.-]+", query))
        return [name for name in self._names if len(name) >= _MIN_NAME and name in found]

    def _weight(self, word: str) -> float:
        frequency = self._frequency[word]
        return log(1 + (len(self._names) - frequency + 0.5) / (frequency + 0.5))


def _strength(word: str, fields: Sequence[set[str]]) -> float:
    found = sum(weight for weight, words in zip(_FIELD_WEIGHTS, fields, strict=True) if word in words)
    return found / (found + _SATURATION)


def _summarize(tool: Tool) -> str:
    """Return the text whose meaning is compared with a query."""
    parameters = tool.parameters.get("properties")
    names = " ".join(map(_spaced, parameters)) if isinstance(parameters, dict) else ""
    return f"{_spaced(tool.name)}. {tool.description} {names}"


def _read_fields(tool: Tool) -> tuple[str, str, str]:
    return tool.name, tool.description, "\n".join(_schema_texts(tool.parameters))


def _schema_texts(schema: Any) -> Iterator[str]:
    """Yield the names, descriptions and choices of parameters."""
    if isinstance(schema, list):
        for item in schema:
            yield from _schema_texts(item)
    elif isinstance(schema, dict):
        for key, value in schema.items():
            # Its keys are names, which may be the same as a keyword: a parameter can be called `description`.
            if key == "properties" and isinstance(value, dict):
                yield from value
                yield from _schema_texts([*value.values()])
            elif key == "description" and isinstance(value, str):
                yield value
            elif key == "enum" and isinstance(value, list):
                yield from (item for item in value if isinstance(item, str))
            else:
                yield from _schema_texts(value)


def _words(text: str) -> set[str]:
    """Return the words of a text, and the parts of names in it.

    >>> sorted(_words("getUserName, list_files"))
    ['fil', 'get', 'list', 'nam', 'user']
    """
    return word_set(_spaced(text))


def _spaced(name: str) -> str:
    return _CAMEL.sub(" ", name).replace("_", " ").replace(".", " ")


def _clip(text: str) -> str:
    return text if len(text) <= 2 * _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}\n{text[-_MAX_CHARACTERS:]}"
