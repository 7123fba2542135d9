"""How SQLite wants things said."""

import re
from functools import lru_cache
from typing import Any, Final

import msgspec

from brimful.stores.session import Session
from brimful.stores.sqlite_lexicon import SqliteLexicon
from brimful.stores.sqlite_nearness import SqliteNearness

_LISTS: Final = re.compile(r"\bIN :(\w+)")


class SqliteDialect:
    """SQL as it is written; a list is a JSON array."""

    name = "sqlite"

    def __init__(self) -> None:
        """Hold what searches."""
        self.lexicon = SqliteLexicon()
        self.nearness = SqliteNearness()

    def statement(self, sql: str) -> str:
        """Return the statement with its lists unfolded."""
        return _unfolded(sql)

    def written(self, given: list[Any]) -> str:
        """Return a list as JSON."""
        return msgspec.json.encode(given).decode()

    def listed(self, stored: str) -> list[str]:
        """Return a list that was written as JSON."""
        return msgspec.json.decode(stored, type=list[str])

    def next_documents(self, session: Session, count: int) -> list[int]:
        """Return the numbers after the largest there ever was; the write lock keeps others away."""
        row = session.row("SELECT seq FROM sqlite_sequence WHERE name = 'documents' AND :tenant = :tenant")
        first = row[0] + 1 if row else 1
        return list(range(first, first + count))

    def advance(self, session: Session, table: str, number: int) -> None:
        """Do nothing: numbers go on after the largest there ever was."""

    def alone(self, session: Session, what: str) -> None:
        """Do nothing: whoever writes holds the one write lock."""

    def together(self, session: Session, what: str) -> None:
        """Do nothing, for the same reason."""


@lru_cache(maxsize=512)
def _unfolded(sql: str) -> str:
    """Return a statement whose lists are read from JSON.

    >>> _unfolded("SELECT body FROM users WHERE id IN :ids")
    'SELECT body FROM users WHERE id IN (SELECT value FROM json_each(:ids))'
    """
    return _LISTS.sub(r"IN (SELECT value FROM json_each(:\1))", sql)
