"""A record → how it is found: its terms, and the passage that is embedded."""

from brimful.answers import Indexed
from brimful.core.check import shown
from brimful.core.label import iso_date
from brimful.errors import InvalidValue
from brimful.packagers.stored import plain_text
from brimful.records import LoreEntry, Memory, Message, Summary
from brimful.retrieval.analyze import analyze

Searchable = Message | Memory | LoreEntry | Summary

LONGEST_READ = (
    20_000  # characters of a text that are indexed; what follows is stored, and found by what stands before it
)


def indexed(record: Searchable) -> Indexed:
    """Return the terms of a record and the passage that stands for it.

    >>> found = indexed(Message(id="m1", room="r", sender="Ada", content="The demo is on Thursday.", at=1_700_000_000))
    >>> found.terms
    ('demo', 'thursday', 'ada', '2023', 'novemb', '14')
    >>> found.passage
    'The demo is on Thursday.'
    """
    match record:
        case Message():
            return _indexed(plain_text(record.content), record.sender, record.at)
        case Memory():
            return _indexed(record.content, "", record.at)
        case LoreEntry():
            return _indexed("\n".join([record.name, " ".join(record.keys), record.content]).strip(), "", 0.0)
        case Summary():
            return _indexed(record.content, "", record.at)
        case _:
            raise InvalidValue("record", f"must be a Message, Memory, LoreEntry or Summary, not {shown(record)}")


def _indexed(text: str, speaker: str, at: float) -> Indexed:
    read = text[:LONGEST_READ]
    day = at if iso_date(at) else None  # a time that no calendar holds is no day
    # Who said it and when are found by the terms; in a vector they would draw near whatever sounds like a name.
    return Indexed(terms=tuple(analyze(read, speaker, day)), passage=read)
