"""Remove a user, persona, room or lorebook and everything that belongs to it."""

from collections.abc import Callable
from typing import Final

from brimful.packagers.records import janitor_session, learning_session
from brimful.records import Entity, Lorebook, Persona, Room, User
from brimful.stores.admin.limits import forget_name
from brimful.stores.index import documents
from brimful.stores.log import event_log
from brimful.stores.log.candidates import remove_room_items
from brimful.stores.log.context_codec import decode_addresses, package_addresses
from brimful.stores.log.contexts import find_unreferenced
from brimful.stores.log.usage import clear_room
from brimful.stores.session import Session
from brimful.stores.tables.contents import erase_unused, release_contents
from brimful.stores.tables.entities import ENTITY_TABLES

_EXISTS: Final = {
    table: f"SELECT 1 FROM {table} WHERE tenant = :tenant AND id = :id"  # noqa: S608 - our own tables
    for table in ENTITY_TABLES.values()
}
_DELETE: Final = {
    table: f"DELETE FROM {table} WHERE tenant = :tenant AND id = :id"  # noqa: S608 - our own tables
    for table in ENTITY_TABLES.values()
}
_DELETE_MEMORIES: Final = {
    owner: f"DELETE FROM memories WHERE tenant = :tenant AND {owner} = :id RETURNING id, hash"  # noqa: S608 - ours
    for owner in ("persona", "user_id", "room")
}


def remove_entity(session: Session, kind: type[Entity], id: str) -> bool:
    """Remove a record and everything that belongs to it. Returns False if there is none."""
    session.dialect.lock(session, "remove")
    if not session.lock_rows(_EXISTS[ENTITY_TABLES[kind]], id=id):  # nobody adds messages to a room meanwhile
        return False
    _DEPENDENTS[kind](session, id)
    session.run(_DELETE[ENTITY_TABLES[kind]], id=id)
    return True


def _remove_user_data(session: Session, id: str) -> None:
    _remove_memories(session, "user_id", id)
    forget_name(session, "user", id)
    remove_contexts(session, learning_session(id))
    for (room,) in session.rows("SELECT id FROM rooms WHERE tenant = :tenant AND owner = :id", id=id):
        remove_entity(session, Room, room)


def _remove_room_data(session: Session, id: str) -> None:
    _remove_memories(session, "room", id)
    number = "(SELECT number FROM rooms WHERE tenant = :tenant AND id = :id)"
    session.run(f"DELETE FROM room_counts WHERE tenant = :tenant AND room = {number}", id=id)  # noqa: S608 - our own
    messages = session.rows(
        f"DELETE FROM messages WHERE tenant = :tenant AND room = {number} RETURNING id, hash, deleted",  # noqa: S608
        id=id,
    )
    documents.remove_documents(session, "message", [row[0] for row in messages])
    release_contents(session, [hash for _, hash, deleted in messages if not deleted], erase=True)
    erase_unused(session, [hash for _, hash, deleted in messages if deleted])
    summaries = session.rows("DELETE FROM summaries WHERE tenant = :tenant AND room = :id RETURNING id, hash", id=id)
    documents.remove_documents(session, "summary", [row[0] for row in summaries])
    release_contents(session, [hash for _, hash in summaries], erase=True)
    session.run("DELETE FROM janitor_undo WHERE tenant = :tenant AND room = :id", id=id)
    for room in (id, janitor_session(id)):
        remove_contexts(session, room)
    session.run("DELETE FROM scopes WHERE tenant = :tenant AND scope = :scope", scope=f"room:{id}")


def remove_contexts(session: Session, room: str) -> None:
    """Remove the contexts of a room and their responses, and contents that only they refer to."""
    deleted = session.rows("DELETE FROM snapshots WHERE tenant = :tenant AND room = :room RETURNING refs", room=room)
    seen = {address for (refs,) in deleted for address in package_addresses(refs)}
    shared = {address for (refs,) in deleted for address in decode_addresses(refs)} - seen
    erase_unused(session, sorted(seen | find_unreferenced(session, shared)))
    remove_room_items(session, room)
    session.run("DELETE FROM responses WHERE tenant = :tenant AND room = :room", room=room)
    clear_room(session, room)
    event_log.clear_room(session, room)


def _remove_lorebook_data(session: Session, id: str) -> None:
    entries = session.rows(
        "DELETE FROM lore_entries WHERE tenant = :tenant AND lorebook = :id RETURNING id, hash", id=id
    )
    documents.remove_documents(session, "lore", [row[0] for row in entries])
    release_contents(session, [hash for _, hash in entries], erase=True)
    session.run("DELETE FROM scopes WHERE tenant = :tenant AND scope = :scope", scope=f"lorebook:{id}")


def _remove_memories(session: Session, owner: str, id: str) -> None:
    deleted = session.rows(_DELETE_MEMORIES[owner], id=id)
    documents.remove_documents(session, "memory", [row[0] for row in deleted])
    release_contents(session, [hash for _, hash in deleted], erase=True)


_DEPENDENTS: Final[dict[type[Entity], Callable[[Session, str], None]]] = {
    User: _remove_user_data,
    Persona: lambda session, persona: _remove_memories(session, "persona", persona),
    Room: _remove_room_data,
    Lorebook: _remove_lorebook_data,
}
