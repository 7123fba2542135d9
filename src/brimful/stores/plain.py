"""Users, personas, rooms and lorebooks: whatever is put, got and listed by its id alone."""

from typing import Final, TypeVar

import msgspec

from brimful.core.check import shown
from brimful.errors import InvalidValue
from brimful.records import Lorebook, Persona, Plain, Room, User
from brimful.stores.sealing import seal, unseal
from brimful.stores.session import Row, Session

R = TypeVar("R", bound=Plain)

TABLES: Final[dict[type[msgspec.Struct], str]] = {
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
    for table in TABLES.values()
}
_PUT_ROOM: Final = """
INSERT INTO rooms (tenant, id, body, owner) VALUES (:tenant, :id, :body, :owner)
ON CONFLICT (tenant, id) DO UPDATE SET body = excluded.body, owner = excluded.owner
"""
_GET: Final = {
    table: f"SELECT id, body FROM {table} WHERE tenant = :tenant AND id = :id"  # noqa: S608 - our own tables
    for table in TABLES.values()
}
_LIST: Final = {
    table: f"SELECT id, body FROM {table} WHERE tenant = :tenant AND id > :after ORDER BY id LIMIT :limit"  # noqa: S608
    for table in TABLES.values()
}


def put(session: Session, record: Plain) -> None:
    """Write a record in the place of the one with its id."""
    table = _table(type(record), "record")
    body = seal(session, msgspec.json.encode(record), table, record.id)
    if isinstance(record, Room):
        session.run(_PUT_ROOM, id=record.id, body=body, owner=record.user)
    else:
        session.run(_PUT[table], id=record.id, body=body)


def get(session: Session, kind: type[R], id: str) -> R | None:
    """Return the record of that id."""
    found = session.row(_GET[_table(kind, "kind")], id=id)
    return opened(session, kind, found) if found else None


def listed(session: Session, kind: type[R], after: str, limit: int) -> list[R]:
    """Return records by id, from the first one after `after`."""
    found = session.rows(_LIST[_table(kind, "kind")], after=after, limit=limit)
    return [opened(session, kind, row) for row in found]


def opened(session: Session, kind: type[R], row: Row) -> R:
    """Return the record of a row of its id and body."""
    id, body = row
    return msgspec.json.decode(unseal(session, body, TABLES[kind], id), type=kind)


def _table(kind: object, field: str) -> str:
    table = TABLES.get(kind) if isinstance(kind, type) else None
    if table is None:
        named = ", ".join(each.__name__ for each in TABLES)
        raise InvalidValue(field, f"must be one of {named}, not {getattr(kind, '__name__', shown(kind))}")
    return table
