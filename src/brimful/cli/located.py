"""Which context is meant: a file, the id of a context in the store, or the id of a message that was answered or is one.

What stands in a store is told with all that is known of it there: who built it, what was asked, what came of it.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from brimful.cli.failure import Failure
from brimful.cli.opened import ask_store, has_store
from brimful.cli.source import STDIN, read_context
from brimful.core.content import clean_text
from brimful.core.context import PREFIX, Context
from brimful.errors import UnknownRecord
from brimful.records import Inclusion, Persona, Response, Room, Snapshot

if TYPE_CHECKING:
    from brimful.protocols import Store

MOST_ANSWERS: Final = 20
LAST_BUILDS: Final = 20  # in which an item is looked for
MOST_CONTEXTS: Final = 20  # that one message may have been answered from


class Located(msgspec.Struct, frozen=True, kw_only=True):
    """A context, and what its store knows of it; of a file, the context is all.

    `room_name` is empty where the room has none or is gone. `message` is the id that it was found by, where that is a
    message's. `others` are contexts that the same id may mean
    as well, and `inclusions` tell what became of one candidate in the last builds; `absence` is why something in the
    store was no candidate at all.
    """

    context: Context
    persona: str = ""
    room: str = ""
    room_name: str = ""
    at: float = 0.0
    message: str | None = None
    answers: tuple[Response, ...] = ()
    others: tuple[str, ...] = ()
    inclusions: tuple[Inclusion, ...] = ()
    absence: str = ""

    @property
    def stored(self) -> bool:
        """Whether it stands in a store."""
        return bool(self.room)


def locate(name: str, *, db: str, tenant: str, item: str | None = None) -> Located:
    """Find a context by what a user calls it; with `item`, also what became of that candidate in the last builds."""
    if name == STDIN or _is_file(name) or not (name.startswith(PREFIX) or has_store(db)):
        return Located(context=read_context(name))

    return ask_store(lambda store: in_store(store, clean_text(name), item), db=db, tenant=tenant)


async def in_store(store: "Store", name: str, item: str | None = None) -> Located:
    """Find a context by its id, or by that of the message that is its answer, or that it answers."""
    ids = [name] if name.startswith(PREFIX) else await _of_message(store, name)
    if not ids:
        raise Failure(f"{name}: no such file, and no context or answered message of that id in the store")
    snapshot = await store.snapshot(ids[0])
    if snapshot is None:
        raise UnknownRecord("context", ids[0])
    who = None if snapshot.persona is None else await store.get(Persona, snapshot.persona)
    where = await store.get(Room, snapshot.room)
    seen = [] if item is None else await store.inclusions(item=item, limit=LAST_BUILDS)
    return Located(
        context=snapshot.context,
        persona=who.called if who else snapshot.persona or "",
        room=snapshot.room,
        room_name=where.name if where else "",
        at=snapshot.at,
        message=None if name == ids[0] else name,
        answers=tuple(await store.responses(context=ids[0], limit=MOST_ANSWERS)),
        others=tuple(ids[1:]),
        inclusions=tuple(seen),
        absence=await _absence(store, snapshot, item),
    )


async def _absence(store: "Store", snapshot: Snapshot, item: str | None) -> str:
    if item is None or any(decision.id == item for decision in snapshot.context.decisions):
        return ""
    from brimful.engine.absence import absence_of  # noqa: PLC0415 - the engine is heavy, and most commands need none

    absence = await absence_of(store, snapshot, item)
    return "" if absence is None else absence.why


async def _of_message(store: "Store", id: str) -> list[str]:
    """Return the contexts behind a message that is an answer, then those of answers to it, each the newest first."""
    answers = await store.responses(message=id, limit=MOST_CONTEXTS)
    answers += await store.responses(message=f"{id}/message", limit=MOST_CONTEXTS)  # the answer's own id
    builds = await store.builds(message=id, limit=MOST_CONTEXTS)
    return list(dict.fromkeys([*(answer.context for answer in answers), *(build.id for build in builds)]))


def _is_file(name: str) -> bool:
    try:
        return Path(name).exists()
    except (OSError, ValueError):  # no name that a file could have
        return False
