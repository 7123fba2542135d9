"""Shorten text to a number of tokens by what it is: prose, JSON, a table, a log, code, a diff or HTML.

Pure, and independent of everything else: a function counts tokens, and a query says what matters.
"""

from collections.abc import Callable
from typing import Final

from brimful.shorten.detect import detect
from brimful.shorten.json_data import JsonShortener
from brimful.shorten.lines import fold_log, split_code, split_diff, split_log, split_table
from brimful.shorten.matching import word_set
from brimful.shorten.prose import cut_text, extract_html, split_prose
from brimful.shorten.segments import GAP_MARK, Segment, Segments, Shortened

__all__ = ["GAP_MARK", "Shortened", "Shortener", "cut_text", "detect", "shorten", "word_set"]

_SPLITTERS: Final[dict[str, Callable[[str], list[Segment]]]] = {
    "table": split_table,
    "log": split_log,
    "code": split_code,
    "diff": split_diff,
}
MAX_LENGTH: Final = 1_000_000  # characters; of a longer text, only the beginning and the end are considered
_PASSAGES: Final = 6  # that should fit
_PASSAGE_SIZES: Final = (40, 70, 120)  # characters
_TRANSFORMS: Final[dict[str, Callable[[str], str]]] = {"html": extract_html, "log": fold_log}


def shorten(text: str, limit: int, count: Callable[[str], int], query: str = "") -> Shortened | None:
    """Return the parts of the text that matter most for the query, in order, in at most `limit` tokens.

    Without a query, the beginning, the end, headings, errors and signatures matter most. Gaps are marked. JSON stays
    valid JSON. Returns None if nothing sensible fits.

    >>> text = "The kettle is green. " + "Nothing happened that day. " * 40 + "The ladder cost 80 euros."
    >>> shorten(text, 120, len, query="What did the ladder cost?").text
    'The kettle is green. Nothing happened that day. […] Nothing happened that day. The ladder cost 80 euros.'
    >>> shorten('{"id": 7, "log": "' + "x" * 500 + '"}', 60, len).text
    '{"id":7,"log":"xxxxxxxxxxxxxxxxxxxxxxxx… (+476 characters)"}'
    """
    return Shortener(text, count, query).shorten(limit)


class Shortener:
    """Shortens one text to several lengths. What does not depend on the length is done once."""

    def __init__(self, text: str, count: Callable[[str], int], query: str = "") -> None:
        self._count = count
        self._query = query
        if len(text) > MAX_LENGTH:
            text = f"{text[: MAX_LENGTH // 2]}\n{GAP_MARK}\n{text[-MAX_LENGTH // 2 :]}"
        self._kind = detect(text)
        self._json: JsonShortener | None = None
        if self._kind == "json":
            try:
                self._json = JsonShortener(text, query)
            except (ValueError, RecursionError):
                self._kind = "prose"  # it only looks like JSON
        transform = _TRANSFORMS.get(self._kind)
        self._text = transform(text) if transform else text
        self._tokens = 0 if self._json else count(self._text)
        self._segments: dict[int, Segments] = {}

    def shorten(self, limit: int) -> Shortened | None:
        """Return the text in at most `limit` tokens, or None if nothing sensible fits."""
        if limit <= 0:
            return None
        if self._json is not None:
            return self._json.shorten(limit, self._count)
        if self._tokens <= limit:
            return Shortened(self._text, self._kind, 1.0)
        picked = self._segments_for(limit).pick(limit, self._tokens, self._count)
        if picked is not None:
            return Shortened(picked[0], self._kind, picked[1])
        cut = cut_text(self._text, limit, self._count)
        return None if cut is None else Shortened(cut, self._kind, len(cut) / len(self._text))

    def _segments_for(self, limit: int) -> Segments:
        """Return the segments. Passages of prose are shorter for a small limit, so that several fit."""
        splitter = _SPLITTERS.get(self._kind)
        room = limit * len(self._text) // self._tokens // _PASSAGES
        size = 0 if splitter else next((size for size in _PASSAGE_SIZES if room <= size), _PASSAGE_SIZES[-1])
        if size not in self._segments:
            segments = splitter(self._text) if splitter else split_prose(self._text, size)
            self._segments[size] = Segments(self._text, segments, self._query, by_lines=splitter is not None)
        return self._segments[size]
