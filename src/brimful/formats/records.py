"""Brimful's own records, one JSON object per line, as `brimful export` writes them.

Ids, positions and times are preserved.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from brimful.formats.source import Format, ImportedRecord, Skipped, Source, read_each


def recognizes(source: Source) -> bool:
    """Return whether objects have a record type and an id."""
    return {"record", "id"} <= source.keys


def read(source: Source) -> Iterator[ImportedRecord | Skipped]:
    return read_each(source, lambda entry: [msgspec.convert(entry.data, ImportedRecord)])


FORMAT: Final = Format(
    name="records", description="records written by `brimful export`, one per line", recognizes=recognizes, read=read
)
