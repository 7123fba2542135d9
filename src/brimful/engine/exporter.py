"""Export records from a store: as JSON Lines that `brimful import` reads, or in the formats of other programs."""

from collections.abc import AsyncIterator
from typing import Any, Final, TypeVar

from brimful.errors import UnknownRecord
from brimful.formats import ImportedRecord, write_card, write_chat_head, write_chat_line, write_openai_messages
from brimful.formats.character_card import card_lorebook_id
from brimful.records import Entity, Lorebook, Message, Persona, Room, User
from brimful.stores import Store

R = TypeVar("R", bound=Entity)

PAGE_RECORDS: Final = 500  # records per read


async def get_record(store: Store, kind: type[R], id: str) -> R:
    """Return a record; raise `UnknownRecord` if there is none."""
    record = await store.get(kind, id)
    if record is None:
        raise UnknownRecord(str(kind.__struct_config__.tag), id)
    return record


async def read_messages(store: Store, room: Room) -> AsyncIterator[Message]:
    """Yield the messages of a room in order, including archived ones."""
    newest = await store.history(room.id, limit=1, include_archived=True)
    last = newest[0].message.seq if newest else 0
    for first in range(1, last + 1, PAGE_RECORDS):
        positions = range(first, min(first + PAGE_RECORDS, last + 1))
        for entry in await store.messages_at(room.id, positions, include_archived=True):
            yield entry.message


async def export_room(store: Store, room: Room) -> AsyncIterator[ImportedRecord]:
    """Yield a room, its messages, and its summaries."""
    yield room
    async for message in read_messages(store, room):
        yield message
    for summary in reversed(await store.summaries(room.id)):
        yield summary


async def export_lorebook(store: Store, book: Lorebook) -> AsyncIterator[ImportedRecord]:
    """Yield a lorebook and its entries."""
    yield book
    for entry in await store.lore([book.id]):
        yield entry


async def export_persona(store: Store, persona: Persona) -> AsyncIterator[ImportedRecord]:
    """Yield a persona and its lorebooks."""
    yield persona
    for id in dict.fromkeys([*persona.lorebooks, *filter(None, [card_lorebook_id(persona)])]):
        book = await store.get(Lorebook, id)
        if book is not None:
            async for record in export_lorebook(store, book):
                yield record


async def export_conversation(store: Store, room: Room) -> dict[str, Any]:
    """Return a room as a conversation in OpenAI's format."""
    messages = [row async for message in read_messages(store, room) for row in write_openai_messages(message)]
    tools = room.metadata.get("tools")
    return {"id": room.id, "messages": messages, **({"tools": tools} if tools else {})}


async def export_chat_lines(store: Store, room: Room) -> AsyncIterator[dict[str, Any]]:
    """Yield a room as the lines of a SillyTavern chat."""
    user = await store.get(User, room.user) if room.user else None
    persona = await store.get(Persona, room.persona) if room.persona else None
    yield write_chat_head(
        room,
        user=(user.name if user else "") or room.user or "User",
        character=persona.called if persona else room.persona or room.name or room.id,
    )
    async for message in read_messages(store, room):
        yield write_chat_line(message)


async def export_card(store: Store, persona: Persona) -> dict[str, Any]:
    """Return a persona as a character card, with its lorebook."""
    id = card_lorebook_id(persona)
    book = await store.get(Lorebook, id) if id else None
    return write_card(persona, book, await store.lore([book.id]) if book else ())
