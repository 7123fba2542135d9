"""Convert a record into its index entry: for each passage of its text, the terms and the passage to embed."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import msgspec

from brimful.core.labels import iso_date
from brimful.core.validation import preview
from brimful.errors import InvalidValue
from brimful.packagers.records import plain_text
from brimful.records import LoreEntry, Memory, Message, Summary
from brimful.records.search import IndexEntry
from brimful.retrieval.analyzer import analyze
from brimful.shorten.prose import split_prose

Searchable = Message | Memory | LoreEntry | Summary
Span = tuple[int, int]
"""The start and the end of a passage in a text."""

MAX_INDEXED_CHARS: Final = 1_000_000  # the rest of a longer text is stored but not indexed
MIN_DIVIDED_CHARS: Final = 600  # every shorter text is one passage
WHOLE_CHARS: Final = 1_500  # a text up to this length is one passage; ordinary messages are shorter
PIECE_CHARS: Final = 100_000  # indexed in one transaction, so that other writers do not wait long
PASSAGE_CHARS: Final = 1_000  # of a passage of a longer text: about 170 words
_DENSE: Final = 0.4  # of these lengths for scripts without spaces, where a character says more
_MIN_SPACES: Final = 0.05  # of the characters; in most scripts it is a sixth
_SLACK: Final = 0.3  # of a passage, by which its end may move to a paragraph
_MAX_HEAD_CHARS: Final = 200  # of the name and keywords of a lore entry that every passage repeats


def split_passages(text: str, start: int = 0, stop: int = MAX_INDEXED_CHARS) -> list[Span]:
    """Divide a long text into passages of about the same length, at paragraphs or sentences. A short one stays whole.

    Only the text between `start` and `stop` is divided.

    >>> split_passages("The demo is on Thursday.")
    [(0, 24)]
    >>> split_passages("It rained all day in the valley. " * 60)
    [(0, 924), (924, 1980)]
    """
    piece = text[start : min(stop, MAX_INDEXED_CHARS)]
    end = len(piece)
    scale = 1.0 if piece.count(" ") >= _MIN_SPACES * end else _DENSE
    if end <= WHOLE_CHARS * scale:
        return [(start, start + end)]
    count = -(-end // int(PASSAGE_CHARS * scale))
    size = end / count
    ends = [segment.end for segment in split_prose(piece)]
    cuts = [_find_cut(piece, ends, number * size, _SLACK * size) for number in range(1, count)]
    return list(pairwise([start, *(start + cut for cut in cuts), start + end]))


def make_document(record: Searchable, start: int = 0) -> IndexEntry:
    """Return the index entry of a record. Of a very long text, only a piece is indexed at once, from `start` on.

    >>> message = Message(id="m1", room="r", sender="Ada", content="The demo is on Thursday.", at=1_700_000_000)
    >>> document = make_document(message)
    >>> document.terms
    ('demo', 'thursday', 'ada', '2023', 'novemb', '14')
    >>> document.passage
    'The demo is on Thursday.'
    """
    text = searchable_text(record)
    stop = _find_piece_end(text, start)
    spans = split_passages(text, start, stop)
    rest = stop if stop < min(len(text), MAX_INDEXED_CHARS) else 0
    speaker = record.sender if isinstance(record, Message) else ""
    at = 0.0 if isinstance(record, LoreEntry) else record.at
    date = at if iso_date(at) else None  # some timestamps are outside the calendar
    first, *further = [
        _make_entry(passage_text(record, start, stop), speaker, date, start, stop)
        for start, stop in (spans if len(spans) > 1 or start else [(0, 0)])
    ]
    return msgspec.structs.replace(first, further=tuple(further), rest=rest) if further else first


def _make_entry(passage: str, speaker: str, date: float | None, start: int, stop: int) -> IndexEntry:
    # Speaker and date are terms only: in the vector they would attract every text with a similar name.
    return IndexEntry(terms=tuple(analyze(passage, speaker, date)), passage=passage, start=start, stop=stop)


def passage_text(record: Searchable, start: int = 0, stop: int = 0) -> str:
    """Return a passage as it is embedded, or the whole text. For a lore entry, its name and keywords come first."""
    text = searchable_text(record)[start : stop or MAX_INDEXED_CHARS]
    if not isinstance(record, LoreEntry):
        return text
    head = "\n".join([record.name, " ".join(record.keys)])
    return f"{head[:_MAX_HEAD_CHARS] if stop else head}\n{text}".strip()


def searchable_text(record: Searchable) -> str:
    """Return the text of a record that is divided into passages."""
    match record:
        case Message():
            return plain_text(record.content)
        case Memory() | LoreEntry() | Summary():
            return record.content
        case _:
            raise InvalidValue("record", f"must be a Message, Memory, LoreEntry or Summary, not {preview(record)}")


def _find_piece_end(text: str, start: int) -> int:
    """Return where a piece of a very long text ends: at a line or a sentence, if there is one near."""
    stop = start + PIECE_CHARS
    if stop >= min(len(text), MAX_INDEXED_CHARS):
        return min(len(text), MAX_INDEXED_CHARS)
    near = text[stop - PASSAGE_CHARS : stop]
    ends = [segment.end for segment in split_prose(near)]
    return stop - PASSAGE_CHARS + _find_cut(near, ends, PASSAGE_CHARS, PASSAGE_CHARS)


def _find_cut(text: str, ends: Sequence[int], ideal: float, slack: float) -> int:
    """Return the end of a line, or else of a sentence, that is nearest to the ideal position."""
    near = ends[bisect_left(ends, ideal - slack) : bisect_right(ends, ideal + slack)]
    lines = [end for end in near if text[end - 1] == "\n"]
    return min(lines or near, key=lambda end: abs(end - ideal), default=round(ideal))
