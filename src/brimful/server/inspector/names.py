"""What rooms and personas are called: contexts know them by their ids, and people by their names."""

from collections.abc import Iterable

import msgspec

from brimful.answers import Build
from brimful.protocols import Store
from brimful.records import Persona, Room, Snapshot


class Names(msgspec.Struct, frozen=True, kw_only=True):
    """Names by id. Who has none, or is gone, is not among them."""

    rooms: dict[str, str] = {}
    personas: dict[str, str] = {}

    def room(self, id: str) -> str:
        """Return what a room is called, or nothing."""
        return self.rooms.get(id, "")

    def persona(self, id: str | None) -> str:
        """Return what a persona is called, or nothing."""
        return "" if id is None else self.personas.get(id, "")


async def names_in(store: Store, contexts: Iterable[Build | Snapshot]) -> Names:
    """Look up the names of all rooms and personas of some contexts, each once."""
    every = list(contexts)
    return Names(
        rooms=await _names(store, Room, {each.room for each in every}),
        personas=await _names(store, Persona, {each.persona for each in every if each.persona is not None}),
    )


async def _names(store: Store, kind: type[Room] | type[Persona], ids: Iterable[str]) -> dict[str, str]:
    found = {id: await store.get(kind, id) for id in ids}
    return {id: record.name for id, record in found.items() if record is not None and record.name}
