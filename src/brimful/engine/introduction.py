"""How a persona is introduced to its model: by whose prompt, and with which names in it."""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from brimful.character import ANSWERER, SOMEBODY, TEXTS, Character, has_names, with_names
from brimful.errors import InvalidValue
from brimful.protocols import Store
from brimful.records import Memory, Persona, Room, User

R = TypeVar("R", Room, Persona, User)
Fill = Callable[[str], str]


def told_to(room: Room, persona: Persona | None, system: str | None) -> tuple[Room, Persona | None]:
    """Put a call's system prompt in the place of the persona's; without a persona, it is the room's first header."""
    if system is None:
        return room, persona
    if persona is not None:
        return room, msgspec.structs.replace(persona, prompt=system)
    return msgspec.structs.replace(room, headers=(system, *room.headers) if system else room.headers), None


def cast_in(persona: Persona, room: Room | None) -> Persona:
    """Return a persona as it is in a room: what the room says of the character stands in the place of its own."""
    here = room.character if room else None
    if here is None:
        return persona
    prompt = here.prompt or persona.prompt
    return msgspec.structs.replace(persona, prompt=prompt, character=here.instead(persona.character))


def answerer_name(persona: Persona | None) -> str:
    """Return whom `{{char}}` means: a character may have a name for it that is not its persona's."""
    if persona is None:
        return ANSWERER
    return (persona.character.nickname if persona.character else "") or persona.called


def speaker_of(known: Persona | None, persona: str | None) -> str:
    """Return under which name a persona speaks, so that others in its room know its words from their own."""
    return known.called if known else persona or ""


def names_of(persona: Persona | None, user: User | None) -> Fill:
    """Return what puts the names of who answers and of who asks where a text asks for them."""
    char = answerer_name(persona)
    asker = (user.name or user.id) if user else SOMEBODY
    return lambda said: with_names(said, char=char, user=asker) if has_names(said) else said


def named(persona: Persona, fill: Fill) -> Persona:
    """Put names into all texts of a persona."""
    character = persona.character
    if character is not None:
        texts = {field: fill(getattr(character, field)) for field in TEXTS}
        character = Character(**texts, greetings=tuple(map(fill, character.greetings)))
    return with_named_notes(msgspec.structs.replace(persona, prompt=fill(persona.prompt), character=character), fill)


def greeting_of(persona: Persona, which: int) -> str:
    """Return one of the greetings of a persona: its own with 0, one of the others from 1 on."""
    character = persona.character or Character()
    said = (character.greeting, *character.greetings)
    if not 0 <= which < len(said):
        others = f"0 to {len(character.greetings)}"
        raise InvalidValue("which", f"must be one of the greetings of {persona.called!r}, {others}, not {which}")
    return said[which]


def with_named_notes(record: R, fill: Fill) -> R:
    """Put names into the notes of a room, a persona or a user."""
    if not any(has_names(note.text) for note in record.notes):
        return record
    notes = tuple(msgspec.structs.replace(note, text=fill(note.text)) for note in record.notes)
    return msgspec.structs.replace(record, notes=notes)


def named_memory(memory: Memory, fill: Fill) -> Memory:
    """Put names into a memory."""
    return msgspec.structs.replace(memory, content=fill(memory.content)) if has_names(memory.content) else memory


async def known_user(store: Store, user: str | None) -> User | None:
    """Return the record of a user; one of whom nothing is known has an id alone."""
    return None if user is None else await store.get(User, user) or User(id=user)


async def name_of(store: Store, user: str | None) -> str:
    """Return what a user is called."""
    known = await known_user(store, user)
    return (known.name or known.id) if known else SOMEBODY
