"""Brimful's own records, one JSON object per line, as `brimful export` writes them.

Ids, positions and times are preserved.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from brimful.errors import BrimfulError
from brimful.formats.source import Format, ImportedRecord, Skipped, Source


def recognizes(source: Source) -> bool:
    """Return whether objects have a record type and an id."""
    return {"record", "id"} <= source.keys


def read(source: Source) -> Iterator[ImportedRecord | Skipped]:
    for entry in source.entries():
        if isinstance(entry, Skipped):
            yield entry
            continue
        try:
            yield msgspec.convert(entry.data, ImportedRecord)
        except (msgspec.ValidationError, BrimfulError) as error:
            yield Skipped(entry.location, str(error))


FORMAT: Final = Format(
    name="records",
    description="records written by `brimful export`, one per line",
    recognizes=recognizes,
    read=read,
)
