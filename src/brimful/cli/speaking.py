"""Who talks in a room, as a command line says it: a new room keeps that, and an old one knows it."""

import time
from typing import TYPE_CHECKING

from brimful.cli import output
from brimful.core.warning import REMARK
from brimful.records import Room, User

if TYPE_CHECKING:
    from brimful.engine import Engine
    from brimful.engine.answer import Answer


async def begun(engine: "Engine", room: str, *, persona: str | None, user: str | None) -> Room:
    """Return a room as it is; one that is new begins now, with who talks in it."""
    known = await engine.store.get(Room, room)
    if known is not None:
        return known
    fresh = Room(id=room, persona=persona, user=user, created=time.time())
    await engine.put(fresh)
    return fresh


async def speaker(engine: "Engine", user: str | None, sender: str | None) -> str:
    """Return under which name something is said: the one that was given, or else that of the user."""
    if sender is not None or user is None:
        return sender or ""
    known = await engine.store.get(User, user)
    return (known.name if known else "") or user


def warn_of(answer: "Answer") -> None:
    """Tell what was amiss with an answer and its context. A remark is true of most turns: the report makes it."""
    for note in (*answer.response.notes, *answer.context.warnings):
        if not note.startswith(REMARK):
            output.warn(note)
