"""How a persona is introduced to its model: by whose prompt, and with which names in it."""

from typing import Final

import msgspec

from brimful.character import Character, has_names, with_names
from brimful.protocols import Store
from brimful.records import Persona, Room, User

ANSWERER: Final = "Assistant"  # who answers, where no persona does
SOMEBODY: Final = "User"  # whom a character talks to, where nobody is named


def told_to(room: Room, persona: Persona | None, system: str | None) -> tuple[Room, Persona | None]:
    """Put a call's system prompt in the place of the persona's; without a persona, it is the room's first header."""
    if system is None:
        return room, persona
    if persona is not None:
        return room, msgspec.structs.replace(persona, prompt=system)
    return msgspec.structs.replace(room, headers=(system, *room.headers) if system else room.headers), None


def speaks_of_user(persona: Persona) -> bool:
    """Say whether a persona's texts ask for names."""
    return any(map(has_names, (persona.prompt, *msgspec.structs.astuple(persona.character or Character()))))


def named(persona: Persona, user: str) -> Persona:
    """Put the names of the persona and of the user where its texts ask for them."""

    def filled(said: str) -> str:
        return with_names(said, char=persona.called, user=user)

    character = persona.character
    if character is not None:
        texts = {field: filled(said) for field, said in msgspec.structs.asdict(character).items()}
        character = Character(**texts)
    return msgspec.structs.replace(persona, prompt=filled(persona.prompt), character=character)


async def name_of(store: Store, user: str | None) -> str:
    """Return what a user is called."""
    known = None if user is None else await store.get(User, user)
    return (known.name if known else "") or user or SOMEBODY
