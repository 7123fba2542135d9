"""Remove a user, persona, room or lorebook and everything that belongs to it."""

from collections import Counter
from collections.abc import Callable
from typing import Final

from brimful.packagers.records import janitor_session, learning_session
from brimful.records import Entity, Lorebook, Persona, Room, User, memory_scope
from brimful.records.removal import RemovalReport
from brimful.stores.admin.limits import forget_name
from brimful.stores.index import documents
from brimful.stores.log import event_log
from brimful.stores.log.candidates import remove_room_items, remove_unused_items
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
_CONTEXTS_OF_USER: Final = """
SELECT item FROM log
WHERE tenant = :tenant AND user_id = :id AND user_id <> '' AND kind = 'build' AND item IS NOT NULL
"""
_MEMORY_SCOPES: Final = """
SELECT scope FROM scopes WHERE tenant = :tenant AND scope >= 'memory:' AND scope < 'memory;'
UNION
SELECT scope FROM learned_messages WHERE tenant = :tenant AND scope >= 'memory:' AND scope < 'memory;'
"""
_Counts = Counter[str]
"""Removed records, by the fields of `RemovalReport`."""


def remove_entity(session: Session, kind: type[Entity], id: str) -> RemovalReport:
    """Remove a record and everything that belongs to it. What belongs to a user needs no record of them."""
    session.dialect.lock(session, "remove")
    session.erases = True
    counts: _Counts = Counter()
    _remove(session, kind, id, counts)
    return RemovalReport(**counts)


def _remove(session: Session, kind: type[Entity], id: str, counts: _Counts) -> None:
    table = ENTITY_TABLES[kind]
    exists = session.lock_rows(_EXISTS[table], id=id)  # nobody adds messages to a room meanwhile
    if exists or kind is User:
        _DEPENDENTS[kind](session, id, counts)
        counts[table] += session.run(_DELETE[table], id=id)


def _remove_user_data(session: Session, id: str, counts: _Counts) -> None:
    _remove_memories(session, "user_id", id, counts)
    forget_name(session, "user", id)
    _remove_contexts_of_room(session, learning_session(id), counts)
    for (room,) in session.rows("SELECT id FROM rooms WHERE tenant = :tenant AND owner = :id", id=id):
        _remove(session, Room, room, counts)
    _remove_contexts_of_user(session, id, counts)
    event_log.clear_user(session, id)
    counts["api_keys"] += session.run("DELETE FROM api_keys WHERE tenant = :tenant AND user_id = :id", id=id)
    owner = memory_scope(None, id, None).split(":")[2]
    scopes = [scope for (scope,) in session.rows(_MEMORY_SCOPES) if scope.split(":")[2:3] == [owner]]
    for table in ("scopes", "learned_messages"):
        session.run(f"DELETE FROM {table} WHERE tenant = :tenant AND scope IN :scopes", scopes=scopes)  # noqa: S608


def _remove_contexts_of_user(session: Session, id: str, counts: _Counts) -> None:
    """Remove the contexts of a user in rooms that are not theirs, and contents that no other context refers to."""
    contexts = [item for (item,) in session.rows(_CONTEXTS_OF_USER, id=id)]
    sql = "DELETE FROM snapshots WHERE tenant = :tenant AND id IN :ids RETURNING room, refs"
    deleted = session.rows(sql, ids=contexts)
    counts["contexts"] += len(deleted)
    erase_unused(
        session, sorted(find_unreferenced(session, {each for _, refs in deleted for each in decode_addresses(refs)}))
    )
    remove_unused_items(session, [room for room, _ in deleted])
    sql = "DELETE FROM responses WHERE tenant = :tenant AND context IN :ids RETURNING id"
    answers = [answer for (answer,) in session.rows(sql, ids=contexts)]
    counts["answers"] += len(answers)
    event_log.clear_items(session, "build", contexts)
    event_log.clear_items(session, "response", answers)


def _remove_room_data(session: Session, id: str, counts: _Counts) -> None:
    _remove_memories(session, "room", id, counts)
    number = "(SELECT number FROM rooms WHERE tenant = :tenant AND id = :id)"
    session.run(f"DELETE FROM room_counts WHERE tenant = :tenant AND room = {number}", id=id)  # noqa: S608 - our own
    messages = session.rows(
        f"DELETE FROM messages WHERE tenant = :tenant AND room = {number} RETURNING id, hash, deleted",  # noqa: S608
        id=id,
    )
    counts["messages"] += len(messages)
    documents.remove_documents(session, "message", [row[0] for row in messages])
    release_contents(session, [hash for _, hash, deleted in messages if not deleted], erase=True)
    erase_unused(session, [hash for _, hash, deleted in messages if deleted])
    summaries = session.rows("DELETE FROM summaries WHERE tenant = :tenant AND room = :id RETURNING id, hash", id=id)
    counts["summaries"] += len(summaries)
    documents.remove_documents(session, "summary", [row[0] for row in summaries])
    release_contents(session, [hash for _, hash in summaries], erase=True)
    session.run("DELETE FROM janitor_undo WHERE tenant = :tenant AND room = :id", id=id)
    for room in (id, janitor_session(id)):
        _remove_contexts_of_room(session, room, counts)
    session.run("DELETE FROM scopes WHERE tenant = :tenant AND scope = :scope", scope=f"room:{id}")


def _remove_contexts_of_room(session: Session, room: str, counts: _Counts) -> None:
    contexts, answers = remove_contexts(session, room)
    counts.update(contexts=contexts, answers=answers)


def remove_contexts(session: Session, room: str) -> tuple[int, int]:
    """Remove the contexts of a room and their responses, and contents that only they refer to. Returns both numbers."""
    deleted = session.rows("DELETE FROM snapshots WHERE tenant = :tenant AND room = :room RETURNING refs", room=room)
    seen = {address for (refs,) in deleted for address in package_addresses(refs)}
    shared = {address for (refs,) in deleted for address in decode_addresses(refs)} - seen
    erase_unused(session, sorted(seen | find_unreferenced(session, shared)))
    remove_room_items(session, room)
    answers = session.run("DELETE FROM responses WHERE tenant = :tenant AND room = :room", room=room)
    clear_room(session, room)
    event_log.clear_room(session, room)
    return len(deleted), answers


def _remove_lorebook_data(session: Session, id: str, counts: _Counts) -> None:
    entries = session.rows(
        "DELETE FROM lore_entries WHERE tenant = :tenant AND lorebook = :id RETURNING id, hash", id=id
    )
    counts["lore_entries"] += len(entries)
    documents.remove_documents(session, "lore", [row[0] for row in entries])
    release_contents(session, [hash for _, hash in entries], erase=True)
    session.run("DELETE FROM scopes WHERE tenant = :tenant AND scope = :scope", scope=f"lorebook:{id}")


def _remove_memories(session: Session, owner: str, id: str, counts: _Counts) -> None:
    deleted = session.rows(_DELETE_MEMORIES[owner], id=id)
    counts["memories"] += len(deleted)
    documents.remove_documents(session, "memory", [row[0] for row in deleted])
    release_contents(session, [hash for _, hash in deleted], erase=True)


_DEPENDENTS: Final[dict[type[Entity], Callable[[Session, str, _Counts], None]]] = {
    User: _remove_user_data,
    Persona: lambda session, persona, counts: _remove_memories(session, "persona", persona, counts),
    Room: _remove_room_data,
    Lorebook: _remove_lorebook_data,
}
