"""How PostgreSQL wants things said."""

import re
from functools import lru_cache
from typing import Any, Final

from brimful.stores.postgres_lexicon import PostgresLexicon
from brimful.stores.postgres_nearness import PostgresNearness
from brimful.stores.session import Session

_LISTS: Final = re.compile(r"\bIN (:\w+)")
_NAMES: Final = re.compile(r"(?<![:\w]):(\w+)")
_NEXT: Final = """
SELECT nextval(pg_get_serial_sequence('documents', 'doc')) FROM generate_series(1, :count) WHERE :tenant::text <> ''
"""
_ADVANCE: Final = """
SELECT setval(s.name, greatest(:number::bigint, coalesce(pg_sequence_last_value(s.name), 1)))
FROM (SELECT pg_get_serial_sequence(:table, :column)::regclass AS name) s WHERE :tenant::text <> ''
"""


class PostgresDialect:
    """SQL with the names of psycopg; a list is an array."""

    name = "postgres"

    def __init__(self) -> None:
        """Hold what searches."""
        self.lexicon = PostgresLexicon()
        self.nearness = PostgresNearness()

    def statement(self, sql: str) -> str:
        """Return the statement with names and lists as psycopg knows them."""
        return _translated(sql)

    def written(self, given: list[Any]) -> list[Any]:
        """Return a list as it is."""
        return given

    def listed(self, stored: list[str]) -> list[str]:
        """Return a list as it is."""
        return stored

    def next_documents(self, session: Session, count: int) -> list[int]:
        """Return numbers for documents, from their sequence."""
        return [number for (number,) in session.rows(_NEXT, count=count)]

    def advance(self, session: Session, table: str, number: int) -> None:
        """Set a sequence forward, never back."""
        session.rows(_ADVANCE, table=table, column="doc" if table == "documents" else "number", number=number)

    def alone(self, session: Session, what: str) -> None:
        """Let no other transaction of the tenant do the same before this one ends."""
        session.rows("SELECT pg_advisory_xact_lock(hashtextextended(:what || ' ' || :tenant, 0))", what=what)

    def together(self, session: Session, what: str) -> None:
        """Do the same as others of the tenant, while nobody does it alone."""
        session.rows("SELECT pg_advisory_xact_lock_shared(hashtextextended(:what || ' ' || :tenant, 0))", what=what)


@lru_cache(maxsize=512)
def _translated(sql: str) -> str:
    """Return a statement as psycopg takes it.

    >>> _translated("SELECT body FROM users WHERE tenant = :tenant AND id IN :ids AND x::text LIKE 'a%'")
    "SELECT body FROM users WHERE tenant = %(tenant)s AND id = ANY(%(ids)s) AND x::text LIKE 'a%%'"
    """
    return _NAMES.sub(r"%(\1)s", _LISTS.sub(r"= ANY(\1)", sql.replace("%", "%%")))
