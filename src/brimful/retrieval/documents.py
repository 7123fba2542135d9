"""Convert a record into its searchable document: index terms plus the passage to embed."""

from brimful.core.labels import iso_date
from brimful.core.validation import preview
from brimful.errors import InvalidValue
from brimful.packagers.records import plain_text
from brimful.records import LoreEntry, Memory, Message, Summary
from brimful.records.search import IndexEntry
from brimful.retrieval.analyzer import analyze

Searchable = Message | Memory | LoreEntry | Summary

MAX_INDEXED_CHARS = (
    20_000  # characters of a text that are indexed; what follows is stored, and found by what stands before it
)


def make_document(record: Searchable) -> IndexEntry:
    """Return the terms of a record and the passage that stands for it.

    >>> message = Message(id="m1", room="r", sender="Ada", content="The demo is on Thursday.", at=1_700_000_000)
    >>> found = make_document(message)
    >>> found.terms
    ('demo', 'thursday', 'ada', '2023', 'novemb', '14')
    >>> found.passage
    'The demo is on Thursday.'
    """
    match record:
        case Message():
            return _make_document(plain_text(record.content), record.sender, record.at)
        case Memory():
            return _make_document(record.content, "", record.at)
        case LoreEntry():
            return _make_document("\n".join([record.name, " ".join(record.keys), record.content]).strip(), "", 0.0)
        case Summary():
            return _make_document(record.content, "", record.at)
        case _:
            raise InvalidValue("record", f"must be a Message, Memory, LoreEntry or Summary, not {preview(record)}")


def _make_document(text: str, speaker: str, at: float) -> IndexEntry:
    read = text[:MAX_INDEXED_CHARS]
    day = at if iso_date(at) else None  # a time that no calendar holds is no day
    # Who said it and when are found by the terms; in a vector they would draw near whatever sounds like a name.
    return IndexEntry(terms=tuple(analyze(read, speaker, day)), passage=read)
