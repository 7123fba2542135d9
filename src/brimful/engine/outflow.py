"""What a store holds as it goes out: as records that `brimful import` reads again, or in the forms of others."""

from collections.abc import AsyncIterator
from typing import Any, Final, TypeVar

from brimful.errors import UnknownRecord
from brimful.exporters import card_of, head_of, line_of, spoken
from brimful.exporters.card import book_of
from brimful.importers import Imported
from brimful.protocols import Store
from brimful.records import Lorebook, Message, Persona, Plain, Room, User

R = TypeVar("R", bound=Plain)

PAGE: Final = 500  # records read at once


async def wanted(store: Store, kind: type[R], id: str) -> R:
    """Return a record that is asked for by name."""
    record = await store.get(kind, id)
    if record is None:
        raise UnknownRecord(str(kind.__struct_config__.tag), id)
    return record


async def said_in(store: Store, room: Room) -> AsyncIterator[Message]:
    """Yield the messages of a room in the order in which they were said, those that are set aside included."""
    newest = await store.history(room.id, limit=1, aside=True)
    last = newest[0].message.seq if newest else 0
    for first in range(1, last + 1, PAGE):
        for said in await store.messages_at(room.id, range(first, min(first + PAGE, last + 1)), aside=True):
            yield said.message


async def records_of_room(store: Store, room: Room) -> AsyncIterator[Imported]:
    """Yield a room, its messages, and its summaries."""
    yield room
    async for message in said_in(store, room):
        yield message
    for summary in reversed(await store.summaries(room.id)):
        yield summary


async def records_of_book(store: Store, book: Lorebook) -> AsyncIterator[Imported]:
    """Yield a lorebook and its entries."""
    yield book
    for entry in await store.lore([book.id]):
        yield entry


async def records_of_persona(store: Store, persona: Persona) -> AsyncIterator[Imported]:
    """Yield a persona and its lorebooks."""
    yield persona
    for id in dict.fromkeys([*persona.lorebooks, *filter(None, [book_of(persona)])]):
        book = await store.get(Lorebook, id)
        if book is not None:
            async for record in records_of_book(store, book):
                yield record


async def conversation(store: Store, room: Room) -> dict[str, Any]:
    """Return a room as a conversation in OpenAI's form."""
    messages = [told async for message in said_in(store, room) for told in spoken(message)]
    tools = room.metadata.get("tools")
    return {"id": room.id, "messages": messages, **({"tools": tools} if tools else {})}


async def chat_lines(store: Store, room: Room) -> AsyncIterator[dict[str, Any]]:
    """Yield a room as the lines of a chat of SillyTavern."""
    user = await store.get(User, room.user) if room.user else None
    persona = await store.get(Persona, room.persona) if room.persona else None
    yield head_of(
        room,
        user=(user.name if user else "") or room.user or "User",
        character=persona.called if persona else room.persona or room.name or room.id,
    )
    async for message in said_in(store, room):
        yield line_of(message)


async def card(store: Store, persona: Persona) -> dict[str, Any]:
    """Return a persona as a character card, with its book."""
    id = book_of(persona)
    book = await store.get(Lorebook, id) if id else None
    return card_of(persona, book, await store.lore([book.id]) if book else ())
