"""Convert a record into its searchable document: index terms plus the passage to embed."""

from brimful.core.labels import iso_date
from brimful.core.validation import preview
from brimful.errors import InvalidValue
from brimful.packagers.records import plain_text
from brimful.records import LoreEntry, Memory, Message, Summary
from brimful.records.search import IndexEntry
from brimful.retrieval.analyzer import analyze

Searchable = Message | Memory | LoreEntry | Summary

MAX_INDEXED_CHARS = 20_000  # the rest of a longer text is stored but not indexed


def make_document(record: Searchable) -> IndexEntry:
    """Return the index terms of a record, and the passage to embed.

    >>> message = Message(id="m1", room="r", sender="Ada", content="The demo is on Thursday.", at=1_700_000_000)
    >>> document = make_document(message)
    >>> document.terms
    ('demo', 'thursday', 'ada', '2023', 'novemb', '14')
    >>> document.passage
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
    passage = text[:MAX_INDEXED_CHARS]
    date = at if iso_date(at) else None  # some timestamps are outside the calendar
    # Speaker and date are terms only: in the vector they would attract every text with a similar name.
    return IndexEntry(terms=tuple(analyze(passage, speaker, date)), passage=passage)
