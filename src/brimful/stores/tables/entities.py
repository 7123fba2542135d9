"""Users, personas, rooms and lorebooks: records that are read and written by id."""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any, Final, TypeVar

import msgspec

from brimful.core.validation import preview
from brimful.errors import InvalidValue
from brimful.records import Entity, Lorebook, Persona, Room, User
from brimful.stores.encryption.cipher import decrypt, encrypt
from brimful.stores.session import Row, Session, validate_limit

R = TypeVar("R", bound=Entity)

ENTITY_TABLES: Final[dict[type[msgspec.Struct], str]] = {
    User: "users",
    Persona: "personas",
    Room: "rooms",
    Lorebook: "lorebooks",
}

_PUT: Final = {
    table: f"""
INSERT INTO {table} (tenant, id, body) VALUES (:tenant, :id, :body)
ON CONFLICT (tenant, id) DO UPDATE SET body = excluded.body
"""  # noqa: S608 - the names of our own tables
    for table in ENTITY_TABLES.values()
}
_PUT_ROOM: Final = """
INSERT INTO rooms (tenant, id, body, owner) VALUES (:tenant, :id, :body, :owner)
ON CONFLICT (tenant, id) DO UPDATE SET body = excluded.body, owner = excluded.owner
"""
_GET: Final = {
    table: f"SELECT id, body FROM {table} WHERE tenant = :tenant AND id = :id"  # noqa: S608 - our own tables
    for table in ENTITY_TABLES.values()
}
_GET_MANY: Final = {
    table: f"SELECT id, body FROM {table} WHERE tenant = :tenant AND id IN :ids"  # noqa: S608 - our own tables
    for table in ENTITY_TABLES.values()
}
_LIST: Final = {
    table: f"SELECT id, body FROM {table} WHERE tenant = :tenant AND id > :after ORDER BY id LIMIT :limit"  # noqa: S608
    for table in ENTITY_TABLES.values()
}
_READ_ROOMS: Final = "SELECT id, body FROM rooms WHERE tenant = :tenant"
_LOCK: Final = """
SELECT id, number, last, last_message_at, unindexed FROM rooms WHERE tenant = :tenant AND id IN :ids ORDER BY id
"""
_UNINDEXED: Final = """
SELECT id, unindexed, last FROM rooms WHERE tenant = :tenant AND unindexed IS NOT NULL ORDER BY number LIMIT :limit
"""
_CREATE: Final = """
INSERT INTO rooms (tenant, id, body) VALUES (:tenant, :id, :body) ON CONFLICT DO NOTHING
"""
_COUNT_MESSAGES: Final = """
SELECT r.id, (SELECT count(*) FROM messages m WHERE m.tenant = r.tenant AND m.room = r.number AND m.deleted = 0)
FROM rooms r WHERE r.tenant = :tenant AND r.id IN :ids
"""


def put_entity(session: Session, record: Entity) -> None:
    """Write a user, persona, room or lorebook, replacing the one with its id."""
    put_entities(session, [record])


def put_entities(session: Session, records: Sequence[Entity]) -> None:
    """Write records of one kind, replacing those with the same ids. Of several with one id, the last is written."""
    table = _table_of(type(records[0]), "record")
    last = {record.id: record for record in records}
    rows = [
        {
            "id": id,
            "body": encrypt(session, msgspec.json.encode(record), table, id),
            **({"owner": record.user} if isinstance(record, Room) else {}),
        }
        for id, record in sorted(last.items())  # sorted, to avoid deadlocks
    ]
    session.insert(_PUT_ROOM if table == "rooms" else _PUT[table], rows)


def get_entity(session: Session, kind: type[R], id: str) -> R | None:
    """Return the record with this id, or None."""
    found = session.row(_GET[_table_of(kind, "kind")], id=id)
    return decode_entity(session, kind, found) if found else None


def get_entities(session: Session, kind: type[R], ids: Sequence[str]) -> list[R]:
    """Return the records with these ids, in any order. Missing ones are omitted."""
    found = session.rows(_GET_MANY[_table_of(kind, "kind")], ids=list(ids))
    return [decode_entity(session, kind, row) for row in found]


def list_entities(session: Session, kind: type[R], *, after: str = "", limit: int = 100) -> list[R]:
    """Return the records whose ids come after `after`, in order of id."""
    found = session.rows(_LIST[_table_of(kind, "kind")], after=after, limit=validate_limit(limit))
    return [decode_entity(session, kind, row) for row in found]


def decode_entity(session: Session, kind: type[R], row: Row) -> R:
    """Return the record of a row with its id and body."""
    id, body = row
    return msgspec.json.decode(decrypt(session, body, ENTITY_TABLES[kind], id), type=kind)


def _table_of(kind: object, field: str) -> str:
    table = ENTITY_TABLES.get(kind) if isinstance(kind, type) else None
    if table is None:
        named = ", ".join(each.__name__ for each in ENTITY_TABLES)
        raise InvalidValue(field, f"must be one of {named}, not {getattr(kind, '__name__', preview(kind))}")
    return table


class RoomState(msgspec.Struct):
    """A room that is locked for appending."""

    number: int
    last: int
    last_message_at: float
    unindexed: int | None  # the first `seq` without an index


def lock_rooms(session: Session, ids: Iterable[str]) -> dict[str, RoomState]:
    """Lock rooms for appending until the transaction ends, and create those that do not exist."""
    wanted = sorted(set(ids))  # sorted, to avoid deadlocks
    if len(wanted) > 1:
        known = {id for (id,) in session.rows("SELECT id FROM rooms WHERE tenant = :tenant AND id IN :ids", ids=wanted)}
        session.insert(_CREATE, (_empty_room(session, id) for id in wanted if id not in known))
    rooms = _lock_known(session, wanted)
    if len(rooms) < len(wanted):
        session.insert(_CREATE, (_empty_room(session, id) for id in wanted if id not in rooms))
        rooms = _lock_known(session, wanted)
    return rooms


def lock_unindexed_rooms(session: Session, messages: int) -> list[RoomState]:
    """Lock the first rooms with this many messages to index, or the first one if it has more; in order of number."""
    found = session.rows(_UNINDEXED, limit=messages)
    totals = accumulate(last - first + 1 for _, first, last in found)
    count = max(1, sum(total <= messages for total in totals))
    locked = _lock_known(session, [id for id, _, _ in found[:count]]).values()
    return sorted((room for room in locked if room.unindexed is not None), key=lambda room: room.number)


def save_room_states(session: Session, rooms: Iterable[RoomState]) -> None:
    """Save the changed state of rooms."""
    session.many(
        "UPDATE rooms SET last = :last, last_message_at = :last_message_at, unindexed = :unindexed "
        "WHERE tenant = :tenant AND number = :number",
        (msgspec.structs.asdict(room) for room in rooms),
    )


def rooms_of_user(session: Session, user: str | None, *, limit: int = 20) -> list[Room]:
    """Return the rooms of a user, or of all users if it is None, most recently active first."""
    which = "" if user is None else "AND owner = :user "
    found = session.rows(
        f"{_READ_ROOMS} {which}ORDER BY last_message_at DESC, id LIMIT :limit",
        limit=validate_limit(limit),
        **({} if user is None else {"user": user}),
    )
    return [decode_entity(session, Room, row) for row in found]


def count_messages(session: Session, ids: Sequence[str]) -> dict[str, int]:
    """Return the number of messages in each of these rooms, including archived ones."""
    return dict(session.rows(_COUNT_MESSAGES, ids=list(ids)))


def _lock_known(session: Session, ids: list[str]) -> dict[str, RoomState]:
    return {id: RoomState(*state) for id, *state in session.lock_rows(_LOCK, ids=ids)}


def _empty_room(session: Session, id: str) -> dict[str, Any]:
    return {"id": id, "body": encrypt(session, msgspec.json.encode(Room(id=id)), "rooms", id)}
