"""Shorten text to a number of tokens by what it is: prose, JSON, a table, a log, code, a diff or HTML.

Pure, and independent of everything else: a function counts tokens, and a query says what matters.
"""

from collections.abc import Callable, Sequence
from math import ceil
from typing import Final

from brimful.shorten.detect import detect
from brimful.shorten.json_data import JsonShortener, JsonText, add_json_note
from brimful.shorten.lines import crop_lines, fold_log, split_code, split_diff, split_log, split_table
from brimful.shorten.matching import word_set
from brimful.shorten.prose import cut_text, extract_html, split_prose
from brimful.shorten.segments import GAP_MARK, Kind, RankedSegments, Segment, Segments, Shortened

__all__ = [
    "GAP_MARK",
    "Shortened",
    "Shortener",
    "TextStructure",
    "add_json_note",
    "cut_text",
    "detect",
    "shorten",
    "word_set",
]

_SPLITTERS: Final[dict[str, Callable[[str], list[Segment]]]] = {
    "table": split_table,
    "log": split_log,
    "code": split_code,
    "diff": split_diff,
}
MAX_LENGTH: Final = 1_000_000  # characters; of a longer text, not all of the middle is considered
_PASSAGES: Final = 6  # that should fit
_PASSAGE_SIZES: Final = (15, 40, 70, 120)  # characters


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
    return Shortener(TextStructure(text, query), count, query).shorten(limit)


class TextStructure:
    """What does not depend on a limit: the kind of a text, and its segments with their words.

    It can be used for several queries. With a `query`, lines of a log that match it are not folded. The `kind` is
    detected, unless it is known.
    """

    def __init__(self, text: str, query: str = "", kind: Kind | None = None) -> None:
        self.length = len(text)
        if len(text) > MAX_LENGTH:
            text = crop_lines(text, MAX_LENGTH)
        self.kind = kind or detect(text)
        self.json: JsonText | None = None
        if self.kind == "json":
            try:
                self.json = JsonText(text)
            except (ValueError, RecursionError):
                self.kind = "prose"  # it only looks like JSON
        if self.kind == "log":
            text = fold_log(text, query)
        self.text = extract_html(text) if self.kind == "html" else text
        self._segments: dict[int, Segments] = {}

    def passage_size(self, characters: int) -> int:
        """Return the size of segments for a limit. Passages are shorter for a small limit, so that several fit."""
        if self.kind in _SPLITTERS:
            return 0
        return next((size for size in _PASSAGE_SIZES if characters // _PASSAGES <= size), _PASSAGE_SIZES[-1])

    def segments(self, size: int) -> Segments:
        if size not in self._segments:
            splitter = _SPLITTERS.get(self.kind)
            segments = splitter(self.text) if splitter else split_prose(self.text, size)
            self._segments[size] = Segments(self.text, segments, by_lines=splitter is not None)
        return self._segments[size]


class Shortener:
    """Shortens one text to several lengths. What does not depend on the length is done once."""

    def __init__(
        self,
        text: str | TextStructure,
        count: Callable[[str], int],
        query: str = "",
        focus: Sequence[tuple[int, int]] = (),
    ) -> None:
        """Shorten this text. `focus` are passages that matter most, as (start, stop)."""
        self._known = TextStructure(text) if isinstance(text, str) else text
        self._count = count
        self._query = query
        self._json = None if self._known.json is None else JsonShortener(self._known.json, query)
        self._tokens = 0 if self._json else count(self._known.text)
        # A transformed text has its passages in about the same places.
        scale = len(self._known.text) / max(1, self._known.length)
        self._focus = [(int(start * scale), ceil(stop * scale)) for start, stop in focus]
        self._ranked: dict[int, RankedSegments] = {}

    def shorten(self, limit: int) -> Shortened | None:
        """Return the text in at most `limit` tokens, or None if nothing sensible fits."""
        kind, text = self._known.kind, self._known.text
        if limit <= 0:
            return None
        if self._json is not None:
            return self._json.shorten(limit, self._count)
        if self._tokens <= limit:
            return Shortened(text, kind, 1.0)
        size = self._known.passage_size(limit * len(text) // self._tokens)
        if size not in self._ranked:
            self._ranked[size] = self._known.segments(size).rank(self._query, self._focus)
        picked = self._ranked[size].pick(limit, self._tokens, self._count)
        if picked is not None:
            return Shortened(picked[0], kind, picked[1])
        cut = cut_text(text, limit, self._count)
        return None if cut is None else Shortened(cut, kind, len(cut) / len(text))
