"""Rooms and personas: with what their own texts cost in every context."""

from collections.abc import Callable, Sequence

from brimful.character import Character
from brimful.protocols import Store
from brimful.records import Persona, Room
from brimful.server.inspector.kept import PersonaList, PersonaView, RoomList, RoomView
from brimful.server.inspector.loaded import Loaded
from brimful.server.inspector.shelf import Shelf, shown_as
from brimful.server.inspector.tokens import Tokens
from brimful.server.tenants import Tenants


def rooms(tenants: Tenants, tokens: Tokens, loaded: Loaded, *, clock: Callable[[], float]) -> Shelf[Room]:
    """Return the rooms of all tenants."""

    async def views(store: Store, records: Sequence[Room], model: str | None) -> list[RoomView]:
        del store
        counts = await tokens.of([_said_in(room) for room in records], model)
        return [shown_as(RoomView, room, tokens=count) for room, count in zip(records, counts, strict=True)]

    def listed(found: tuple[RoomView, ...], after: str | None) -> RoomList:
        return RoomList(rooms=found, next=after)

    return Shelf(Room, views, listed, tenants=tenants, loaded=loaded, begin=lambda: {"created": clock()})


def personas(tenants: Tenants, tokens: Tokens, loaded: Loaded) -> Shelf[Persona]:
    """Return the personas of all tenants."""

    async def views(store: Store, records: Sequence[Persona], model: str | None) -> list[PersonaView]:
        del store
        counts = await tokens.of([_said_of(persona) for persona in records], model)
        return [shown_as(PersonaView, each, tokens=count) for each, count in zip(records, counts, strict=True)]

    def listed(found: tuple[PersonaView, ...], after: str | None) -> PersonaList:
        return PersonaList(personas=found, next=after)

    return Shelf(Persona, views, listed, tenants=tenants, loaded=loaded)


def _said_in(room: Room) -> str:
    """Return the texts of a room that its contexts hold: its goal, its headers, its notes, and who answers in it."""
    here = room.character or Character()
    told = (here.prompt, here.sheet, here.examples)
    return _joined(*told, room.goal, *room.headers, *(note.text for note in room.notes))


def _said_of(persona: Persona) -> str:
    """Return the texts of a persona that its contexts hold: its prompt, who it is, and its notes."""
    who = persona.character
    prompt = persona.prompt or (who.prompt if who else "")
    own = (prompt, who.sheet, who.examples) if who else (prompt,)
    return _joined(*own, *(note.text for note in persona.notes))


def _joined(*texts: str) -> str:
    return "\n".join(text for text in texts if text)
