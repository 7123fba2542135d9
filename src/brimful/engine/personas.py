"""Personas in a room: their prompts, the names in their texts, and how one persona sees the others' messages."""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import msgspec

from brimful.core.content import ToolCall, ToolResult
from brimful.errors import InvalidValue
from brimful.packagers.records import JANITOR, plain_text
from brimful.records import Memory, Message, Persona, Room, User
from brimful.records.character import (
    DEFAULT_PERSONA_NAME,
    DEFAULT_USER_NAME,
    TEXT_FIELDS,
    Character,
    expand_macros,
    has_macros,
)
from brimful.stores import Store

JANITOR_PERSONA: Final = Persona(
    id=JANITOR,
    name="Janitor",
    prompt="You take the minutes of a conversation. Record what will matter later: decisions, facts, names, numbers, "
    "dates, open questions, and who said what. Leave out greetings and small talk. Write plain sentences without "
    "headings and nothing else. If there is a summary of earlier messages, keep whatever in it still holds.",
)
"""The janitor, unless there is a persona with its id in the store."""


def as_seen_by(messages: Sequence[Message], persona: Persona | None) -> list[Message]:
    """Return messages, newest first, as a persona sees them.

    Messages of other personas become user messages, and their tool calls become text.
    """
    if persona is None or not any(_is_from_other_persona(message, persona) for message in messages):
        return list(messages)
    callers = {
        part.id: message.sender
        for message in messages
        if _is_from_other_persona(message, persona)
        for part in message.content
        if isinstance(part, ToolCall)
    }
    return [_view(message, persona, callers) for message in messages]


def _view(message: Message, persona: Persona, callers: dict[str, str]) -> Message:
    if _is_from_other_persona(message, persona):
        return _as_user_message(message, message.sender)
    results = [part.id for part in message.content if isinstance(part, ToolResult)] if message.role == "tool" else []
    caller = next((callers[id] for id in results if id in callers), None)
    return message if caller is None else _as_user_message(message, caller)


def _is_from_other_persona(message: Message, persona: Persona) -> bool:
    if message.role != "assistant":
        return False
    if message.persona is not None:
        return message.persona != persona.id
    return message.sender not in ("", persona.id, persona.name)


def _as_user_message(message: Message, sender: str) -> Message:
    content = message.content
    if not isinstance(content, str) and any(isinstance(part, ToolCall | ToolResult) for part in content):
        content = plain_text(content)
    persona = message.persona or sender  # packages say that a persona wrote it
    return msgspec.structs.replace(message, role="user", sender=sender, persona=persona, content=content)


R = TypeVar("R", Room, Persona, User)
NameFiller = Callable[[str], str]


def apply_system_prompt(room: Room, persona: Persona | None, system: str | None) -> tuple[Room, Persona | None]:
    """Replace the persona's prompt by a call's; without a persona, it becomes the room's first header."""
    if system is None:
        return room, persona
    if persona is not None:
        return room, msgspec.structs.replace(persona, prompt=system)
    return msgspec.structs.replace(room, headers=(system, *room.headers) if system else room.headers), None


def apply_room_character(persona: Persona, room: Room | None) -> Persona:
    """Return a persona with the room's character, which overrides its own field by field."""
    here = room.character if room else None
    if here is None:
        return persona
    prompt = here.prompt or persona.prompt
    return msgspec.structs.replace(persona, prompt=prompt, character=here.instead(persona.character))


def get_char_name(persona: Persona | None) -> str:
    """Return the name for `{{char}}`: the character's nickname, or the persona's name."""
    if persona is None:
        return DEFAULT_PERSONA_NAME
    return (persona.character.nickname if persona.character else "") or persona.called


def get_speaker_name(known: Persona | None, persona: str | None) -> str:
    """Return the sender name of a persona's messages."""
    return known.called if known else persona or ""


def make_name_filler(persona: Persona | None, user: User | None) -> NameFiller:
    """Return a function that fills in the names of the persona and the user."""
    char = get_char_name(persona)
    user_name = (user.name or user.id) if user else DEFAULT_USER_NAME
    return lambda text: expand_macros(text, char=char, user=user_name) if has_macros(text) else text


def fill_persona_names(persona: Persona, fill: NameFiller) -> Persona:
    character = persona.character
    if character is not None:
        texts = {field: fill(getattr(character, field)) for field in TEXT_FIELDS}
        character = Character(**texts, greetings=tuple(map(fill, character.greetings)))
    return fill_note_names(msgspec.structs.replace(persona, prompt=fill(persona.prompt), character=character), fill)


def get_greeting(persona: Persona, index: int) -> str:
    """Return a greeting of a persona: 0 is the main one, the alternatives start at 1."""
    character = persona.character or Character()
    greetings = (character.greeting, *character.greetings)
    if not 0 <= index < len(greetings):
        raise InvalidValue("greeting", f"must be from 0 to {len(character.greetings)}, not {index}")
    return greetings[index]


def fill_note_names(record: R, fill: NameFiller) -> R:
    """Fill names into the notes of a room, a persona or a user."""
    if not any(has_macros(note.text) for note in record.notes):
        return record
    notes = tuple(msgspec.structs.replace(note, text=fill(note.text)) for note in record.notes)
    return msgspec.structs.replace(record, notes=notes)


def fill_memory_names(memory: Memory, fill: NameFiller) -> Memory:
    return msgspec.structs.replace(memory, content=fill(memory.content)) if has_macros(memory.content) else memory


async def get_user(store: Store, user: str | None) -> User | None:
    """Return a user; if it is not stored, one with only an id."""
    return None if user is None else await store.get(User, user) or User(id=user)


async def get_user_name(store: Store, user: str | None) -> str:
    known = await get_user(store, user)
    return (known.name or known.id) if known else DEFAULT_USER_NAME
