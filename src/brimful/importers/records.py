"""Records of ours, one JSON object a line, as `brimful export` writes them. Ids, places and times are kept."""

from collections.abc import Iterator
from typing import Final

import msgspec

from brimful.errors import BrimfulError
from brimful.importers.importer import Imported, Importer
from brimful.importers.source import Skipped, Source


def recognises(source: Source) -> bool:
    """Say whether objects tell what record they are."""
    return {"record", "id"} <= source.keys


def read(source: Source) -> Iterator[Imported | Skipped]:
    """Yield the records."""
    for entry in source.entries():
        if isinstance(entry, Skipped):
            yield entry
            continue
        try:
            yield msgspec.convert(entry.data, Imported)
        except (msgspec.ValidationError, BrimfulError) as error:
            yield Skipped(entry.place, str(error))


IMPORTER: Final = Importer(
    name="records",
    description="records as `brimful export` writes them, one a line",
    recognises=recognises,
    read=read,
)
