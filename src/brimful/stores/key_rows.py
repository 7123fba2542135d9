"""The table of wrapped keys."""

from typing import Final

from brimful.stores.session import Session
from brimful.stores.tenant_keys import KeyRow

_READ: Final = """
SELECT number, wrapped, kek, created, retired, mixed FROM keys WHERE tenant = :tenant ORDER BY number
"""
_ADD: Final = """
INSERT INTO keys (tenant, number, wrapped, kek, created, mixed)
VALUES (:tenant, :number, :wrapped, :kek, :created, :mixed) ON CONFLICT DO NOTHING
"""
_WRAP: Final = """
UPDATE keys SET wrapped = :wrapped, kek = :kek, mixed = :mixed WHERE tenant = :tenant AND number = :number
"""


def key_rows(session: Session) -> list[KeyRow]:
    """Return a tenant's keys, wrapped, by number."""
    return [
        KeyRow(number=number, wrapped=wrapped, kek=kek, created=created, retired=retired, mixed=bool(mixed))
        for number, wrapped, kek, created, retired, mixed in session.rows(_READ)
    ]


def add_key(session: Session, row: KeyRow) -> None:
    """Keep a new key; if another process was first, its key stands."""
    session.run(_ADD, number=row.number, wrapped=row.wrapped, kek=row.kek, created=row.created, mixed=int(row.mixed))


def wrap_key(session: Session, row: KeyRow) -> None:
    """Keep a key that was wrapped anew."""
    session.run(_WRAP, number=row.number, wrapped=row.wrapped, kek=row.kek, mixed=int(row.mixed))


def retire_key(session: Session, number: int, now: float) -> None:
    """Note that nothing is sealed with a key any more."""
    session.run("UPDATE keys SET retired = :now WHERE tenant = :tenant AND number = :number", number=number, now=now)
