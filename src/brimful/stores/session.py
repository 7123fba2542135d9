"""A transaction of one tenant. All SQL goes through it, and every statement is bound to the tenant."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Protocol

from brimful.core.validation import preview
from brimful.errors import InvalidValue
from brimful.records.search import VectorHit
from brimful.stores.encryption.tenant_keys import TenantKeys

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from brimful.protocols import Vectors

    Occurrences = npt.NDArray[np.int64]
    """Four rows: documents that hold a token, their `seq`, their length, and how often each holds it."""

Row = tuple[Any, ...]
DocumentRef = tuple[int, int, str]
"""A document as vectors know it: its number, the number of its scope, its passage's address."""
Values = dict[str, Any]
_MAX_INTEGER: Final = 2**63 - 1


class Cursor(Protocol):
    """What `sqlite3` and `psycopg` share."""

    @property
    def rowcount(self) -> int:
        """How many rows the last statement changed."""
        ...

    def execute(self, sql: Any, values: Any = ..., /) -> object:
        """Run a statement."""
        ...

    def executemany(self, sql: Any, values: Any, /) -> object:
        """Run a statement for each row."""
        ...

    def fetchall(self) -> list[Row]:
        """Return all rows of the last statement."""
        ...


class Dialect(Protocol):
    """Where the databases differ."""

    @property
    def name(self) -> str:
        """`sqlite` or `postgres`."""
        ...

    @property
    def lexicon(self) -> "TextIndex":
        """The full-text index."""
        ...

    @property
    def nearness(self) -> "VectorIndex":
        """The vector index."""
        ...

    def statement(self, sql: str) -> str:
        """Return the statement as the database wants it; `IN :names` takes a list."""
        ...

    def written(self, given: list[Any]) -> Any:
        """Return a list as the database takes it."""
        ...

    def listed(self, stored: Any) -> list[str]:
        """Return a list that the database gave."""
        ...

    def next_documents(self, session: "Session", count: int) -> list[int]:
        """Return numbers for documents, larger than all before, which nobody else gets."""
        ...

    def advance(self, session: "Session", table: str, number: int) -> None:
        """Let numbers of a table go on after this one, which was given by hand."""
        ...

    def alone(self, session: "Session", what: str) -> None:
        """Let no other transaction of the tenant do the same before this one ends."""
        ...

    def together(self, session: "Session", what: str) -> None:
        """Do the same as others of the tenant, while nobody does it alone."""
        ...


class TextIndex(Protocol):
    """The full-text index: which documents hold a token, and how often. A token belongs to one scope."""

    def add(self, session: "Session", documents: Sequence[tuple[int, Sequence[str]]]) -> None:
        """Take up documents with their tokens, repeats kept."""
        ...

    def remove(self, session: "Session", documents: Sequence[tuple[int, Sequence[str]]]) -> None:
        """Take documents out again."""
        ...

    def places(self, session: "Session", tokens: Sequence[str]) -> "dict[str, Occurrences]":
        """Return all documents that hold each token, the oldest first."""
        ...

    def newest(self, session: "Session", token: str, most: int) -> "Occurrences":
        """Return the newest documents that hold a token, the oldest of them first."""
        ...

    def miscounted(self, session: "Session") -> int:
        """Return of how many tokens it is not known how many documents hold them."""
        ...

    def purge(self, session: "Session") -> None:
        """Let nothing of tokens stay that were removed."""
        ...


class VectorIndex(Protocol):
    """The vector index: which documents have a vector, and which are near."""

    def keep(self, session: "Session", embedder: str, passages: Sequence[str], vectors: "Vectors") -> None:
        """Keep one vector for each passage."""
        ...

    def place(self, session: "Session", embedder: str, documents: Sequence[DocumentRef]) -> set[str]:
        """Take up documents whose passage has a vector, and return those passages."""
        ...

    def displace(self, session: "Session", embedder: str, documents: Sequence[DocumentRef]) -> None:
        """Take documents out again."""
        ...

    def kept(self, session: "Session", embedder: str, after: str, limit: int) -> "tuple[list[str], Vectors]":
        """Return passages after one of them, and their vectors."""
        ...

    def rename(self, session: "Session", embedder: str, passages: Mapping[str, str]) -> None:
        """Give vectors the new addresses of their passages; without a new one, a vector is removed."""
        ...

    def drop(self, session: "Session", embedder: str) -> None:
        """Forget all that is kept for an embedder."""
        ...

    def nearest(
        self, session: "Session", embedder: str, scopes: Sequence[int], query: "Vectors", limit: int
    ) -> list[VectorHit]:
        """Return the documents nearest to a query of length 1, nearest first."""
        ...


class Session:
    """One transaction of one tenant. Every statement names `:tenant`, and gets its value from here."""

    __slots__ = ("_cursor", "dialect", "keys", "tenant")

    def __init__(self, cursor: Cursor, dialect: Dialect, tenant: str) -> None:
        """Bind the cursor of an open transaction to a tenant."""
        self._cursor = cursor
        self.dialect = dialect
        self.tenant = tenant
        self.keys: TenantKeys | None = None  # without them, nothing is sealed

    def rows(self, sql: str, **values: Any) -> list[Row]:
        """Return all rows of a statement."""
        self._cursor.execute(self._spoken(sql), self._bound(values))
        return self._cursor.fetchall()

    def row(self, sql: str, **values: Any) -> Row | None:
        """Return the first row of a statement, or None."""
        found = self.rows(sql, **values)
        return found[0] if found else None

    def run(self, sql: str, **values: Any) -> int:
        """Run a statement, and return how many rows it changed."""
        self._cursor.execute(self._spoken(sql), self._bound(values))
        return self._cursor.rowcount

    def many(self, sql: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Run a statement once for each row."""
        bound = [{"tenant": self.tenant, **row} for row in rows]
        if not bound:
            return
        for row in bound:
            for name, value in row.items():
                if type(value) is str:
                    _check_string(name, value)
                elif type(value) is list:
                    row[name] = self._written(name, value)
        self._cursor.executemany(self._spoken(sql), bound)

    def _spoken(self, sql: str) -> str:
        require_tenant(sql)
        return self.dialect.statement(sql)

    def _bound(self, values: Values) -> Values:
        for name, value in values.items():
            if type(value) is str:
                _check_string(name, value)
            elif type(value) is list:
                values[name] = self._written(name, value)
            elif type(value) is int and not -_MAX_INTEGER <= value <= _MAX_INTEGER:
                raise InvalidValue(name, f"is {preview(value)}: no database holds such a number")
        values["tenant"] = self.tenant
        return values

    def _written(self, name: str, given: list[Any]) -> Any:
        for value in given:
            if type(value) is str:
                _check_string(name, value)
        return self.dialect.written(given)


def _check_string(name: str, text: str) -> None:
    """Refuse what one database would keep and another would not take."""
    if "\0" in text:
        raise InvalidValue(name, "has a null character, which no name may have")


@lru_cache(maxsize=512)
def require_tenant(sql: str) -> None:
    """Refuse a statement that is not bound to a tenant.

    >>> require_tenant("SELECT body FROM contents")
    Traceback (most recent call last):
    ...
    ValueError: a statement without :tenant: SELECT body FROM contents
    """
    if ":tenant" not in sql:
        raise ValueError(f"a statement without :tenant: {sql}")
