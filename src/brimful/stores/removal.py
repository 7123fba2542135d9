"""Removing a user, persona, room or lorebook with all that belongs to it."""

from collections.abc import Callable
from typing import Final

import msgspec

from brimful.records import Lorebook, Persona, Plain, Room, User
from brimful.stores import documents, log
from brimful.stores.contents import erase_unused, release
from brimful.stores.observations import forget_room
from brimful.stores.plain import TABLES
from brimful.stores.session import Session

_HAS: Final = {
    table: f"SELECT 1 FROM {table} WHERE tenant = :tenant AND id = :id"  # noqa: S608 - our own tables
    for table in TABLES.values()
}
_DROP: Final = {
    table: f"DELETE FROM {table} WHERE tenant = :tenant AND id = :id"  # noqa: S608 - our own tables
    for table in TABLES.values()
}


def remove(session: Session, kind: type[Plain], id: str) -> bool:
    """Remove a record and all that belongs to it; False if there is none."""
    session.dialect.alone(session, "remove")
    if session.row(_HAS[TABLES[kind]], id=id) is None:
        return False
    _BELONGINGS[kind](session, id)
    session.run(_DROP[TABLES[kind]], id=id)
    return True


def _of_user(session: Session, id: str) -> None:
    _forget(session, "person", id)
    for (room,) in session.rows("SELECT id FROM rooms WHERE tenant = :tenant AND owner = :id", id=id):
        remove(session, Room, room)


def _of_persona(session: Session, id: str) -> None:
    _forget(session, "persona", id)


def _of_room(session: Session, id: str) -> None:
    _forget(session, "room", id)
    said = session.rows(
        "DELETE FROM messages WHERE tenant = :tenant AND room = "
        "(SELECT number FROM rooms WHERE tenant = :tenant AND id = :id) RETURNING id, hash, deleted",
        id=id,
    )
    documents.remove(session, "message", [row[0] for row in said])
    release(session, [hash for _, hash, deleted in said if not deleted], erase=True)
    erase_unused(session, [hash for _, hash, deleted in said if deleted])
    told = session.rows("DELETE FROM summaries WHERE tenant = :tenant AND room = :id RETURNING id, hash", id=id)
    documents.remove(session, "summary", [row[0] for row in told])
    release(session, [hash for _, hash in told], erase=True)
    session.run("DELETE FROM tidied WHERE tenant = :tenant AND room = :id", id=id)
    _forget_contexts(session, id)
    session.run("DELETE FROM responses WHERE tenant = :tenant AND room = :id", id=id)
    forget_room(session, id)
    log.forget_room(session, id)
    session.run("DELETE FROM scopes WHERE tenant = :tenant AND scope = :scope", scope=f"room:{id}")


def _forget_contexts(session: Session, room: str) -> None:
    """Remove the contexts of a room, and what was seen in them alone: questions that nobody posted, for one."""
    gone = session.rows("DELETE FROM snapshots WHERE tenant = :tenant AND room = :room RETURNING refs", room=room)
    seen = {address for (refs,) in gone for address in msgspec.json.decode(refs, type=list[str])}
    erase_unused(session, sorted(seen))


def _of_lorebook(session: Session, id: str) -> None:
    told = session.rows("DELETE FROM lore_entries WHERE tenant = :tenant AND lorebook = :id RETURNING id, hash", id=id)
    documents.remove(session, "lore", [row[0] for row in told])
    release(session, [hash for _, hash in told], erase=True)
    session.run("DELETE FROM scopes WHERE tenant = :tenant AND scope = :scope", scope=f"lorebook:{id}")


_FORGET: Final = {
    owner: f"DELETE FROM memories WHERE tenant = :tenant AND {owner} = :id RETURNING id, hash"  # noqa: S608 - ours
    for owner in ("persona", "person", "room")
}


def _forget(session: Session, owner: str, id: str) -> None:
    gone = session.rows(_FORGET[owner], id=id)
    documents.remove(session, "memory", [row[0] for row in gone])
    release(session, [hash for _, hash in gone], erase=True)


_BELONGINGS: Final[dict[type[Plain], Callable[[Session, str], None]]] = {
    User: _of_user,
    Persona: _of_persona,
    Room: _of_room,
    Lorebook: _of_lorebook,
}
