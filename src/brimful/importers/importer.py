"""What an importer is: a name, how it knows its format, and how it turns a file into records."""

from collections.abc import Callable, Iterator

import msgspec

from brimful.importers.source import Skipped, Source
from brimful.observation import Observation
from brimful.records import (
    Lorebook,
    LoreEntry,
    Memory,
    Message,
    Persona,
    Response,
    Room,
    Snapshot,
    Summary,
    User,
)

Imported = User | Persona | Room | Message | Memory | Lorebook | LoreEntry | Summary | Snapshot | Response | Observation
"""What an importer may bring. Ids are idempotency keys: the same file must give the same ones again."""


class Importer(msgspec.Struct, frozen=True, kw_only=True):
    """One format. `recognises` gets the source with its `head`, `outline` and `keys`, and reads no further."""

    name: str
    description: str
    recognises: Callable[[Source], bool]
    read: Callable[[Source], Iterator[Imported | Skipped]]
