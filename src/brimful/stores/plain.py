"""Users, personas, rooms and lorebooks: whatever is put, got and listed by its id alone."""

from typing import Final, TypeVar

import msgspec

from brimful.records import Lorebook, Persona, Plain, Room, User
from brimful.stores.sealing import seal, unseal
from brimful.stores.session import Session

R = TypeVar("R", bound=Plain)

TABLES: Final[dict[type[msgspec.Struct], str]] = {
    User: "users",
    Persona: "personas",
    Room: "rooms",
    Lorebook: "lorebooks",
}

_PUT: Final = {
    table: f"""
INSERT INTO {table} (tenant, id, body, key) VALUES (:tenant, :id, :body, :key)
ON CONFLICT (tenant, id) DO UPDATE SET body = excluded.body, key = excluded.key
"""  # noqa: S608 - the names of our own tables
    for table in TABLES.values()
}
_PUT_ROOM: Final = """
INSERT INTO rooms (tenant, id, body, key, owner) VALUES (:tenant, :id, :body, :key, :owner)
ON CONFLICT (tenant, id) DO UPDATE SET body = excluded.body, key = excluded.key, owner = excluded.owner
"""
_GET: Final = {
    table: f"SELECT body, key FROM {table} WHERE tenant = :tenant AND id = :id"  # noqa: S608 - our own tables
    for table in TABLES.values()
}
_LIST: Final = {
    table: f"SELECT body, key FROM {table} WHERE tenant = :tenant AND id > :after ORDER BY id LIMIT :limit"  # noqa: S608
    for table in TABLES.values()
}


def put(session: Session, record: Plain) -> None:
    """Write a record in the place of the one with its id."""
    body, key = seal(session, msgspec.json.encode(record))
    if isinstance(record, Room):
        session.run(_PUT_ROOM, id=record.id, body=body, key=key, owner=record.user)
    else:
        session.run(_PUT[TABLES[type(record)]], id=record.id, body=body, key=key)


def get(session: Session, kind: type[R], id: str) -> R | None:
    """Return the record of that id."""
    found = session.row(_GET[TABLES[kind]], id=id)
    return msgspec.json.decode(unseal(session, *found), type=kind) if found else None


def listed(session: Session, kind: type[R], after: str, limit: int) -> list[R]:
    """Return records by id, from the first one after `after`."""
    found = session.rows(_LIST[TABLES[kind]], after=after, limit=limit)
    return [msgspec.json.decode(unseal(session, *row), type=kind) for row in found]
