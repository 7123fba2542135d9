"""A transaction of one tenant. All SQL goes through it, and every statement is bound to the tenant."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from brimful.core.validation import is_whole_number, preview, require_timestamp
from brimful.errors import InvalidValue
from brimful.records.search import VectorHit
from brimful.stores.encryption.tenant_keys import TenantKeys
from brimful.stores.tuning import Tuning

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from brimful.protocols import Vectors

    Occurrences = npt.NDArray[np.int64]
    """Four rows: the documents that contain a token, their `seq`, their length, and the frequency of the token."""

Row = tuple[Any, ...]


class IndexedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document of the full-text index: the number of its scope, and its tokens with repeats."""

    doc: int
    scope: int
    seq: int
    length: int
    tokens: list[str]


DocumentRef = tuple[int, int, str]
"""The number of a document, the number of its scope, and the address of its passage."""
Values = dict[str, Any]
_MAX_INTEGER: Final = 2**63 - 1
_LAST_CHARACTER: Final = "\U0010ffff"
_VALUES: Final = re.compile(r"(?<=VALUES )(\([^()]*\))")
INSERTED_ROWS: Final = 100  # by one statement
_FIRST_SURROGATE, _LAST_SURROGATE = 0xD800, 0xDFFF  # no database stores them


class Cursor(Protocol):
    """The part of a cursor that `sqlite3` and `psycopg` share."""

    @property
    def rowcount(self) -> int:
        """The number of rows that the last statement changed."""

    def execute(self, sql: Any, values: Any = ..., /) -> object:
        """Run a statement."""

    def executemany(self, sql: Any, values: Any, /) -> object:
        """Run a statement once for each row."""

    def fetchall(self) -> list[Row]:
        """Return all rows of the last statement."""


class Dialect(Protocol):
    """The differences between databases."""

    @property
    def name(self) -> str:
        """`sqlite` or `postgres`."""

    @property
    def tuning(self) -> Tuning:
        """Sizes and thresholds."""

    @property
    def text_index(self) -> "TextIndex":
        """The full-text index."""

    @property
    def vector_index(self) -> "VectorIndex": ...

    @property
    def row_lock(self) -> str:
        """The end of a SELECT that locks its rows for writing."""

    def statement(self, sql: str) -> str:
        """Translate a statement. `IN :names` takes a list."""

    def insert(self, cursor: "Cursor", sql: str, batches: Sequence[Sequence[Row]]) -> None:
        """Run an INSERT for each batch of rows, whose values are in the order of the statement's parameters."""

    def encode_list(self, values: list[Any]) -> Any:
        """Return a list as a query parameter."""

    def encode_terms(self, tokens: list[str]) -> list[str]:
        """Return the tokens of a document as a list to store."""

    def decode_terms(self, scope: int, stored: Any) -> list[str]:
        """Return the tokens of a stored document of a scope, in any order."""

    def next_doc_numbers(self, session: "Session", count: int) -> list[int]:
        """Reserve unique document numbers, larger than all before."""

    def advance_sequence(self, session: "Session", table: str, number: int) -> None:
        """Let a table's automatic numbers continue after this one, which was inserted explicitly."""

    def lock(self, session: "Session", name: str) -> None:
        """Take the tenant's lock of that name until the transaction ends."""

    def lock_shared(self, session: "Session", name: str) -> None:
        """Take it shared: it excludes `lock`, not other shared locks."""


class TermLookup(Protocol):
    """Tokens that were looked up."""

    @property
    def totals(self) -> Mapping[str, int]:
        """The number of documents that contain each token. Unknown tokens may be omitted."""

    def occurrences(self, tokens: Sequence[str]) -> "dict[str, Occurrences]":
        """Return all documents that contain each of some tokens, oldest first."""

    def newest(self, token: str, limit: int) -> "Occurrences":
        """Return the newest documents that contain a token, oldest first."""


class TextIndex(Protocol):
    """The full-text index: which documents contain a token, and how often. A token belongs to one scope."""

    def add(self, session: "Session", documents: Sequence[IndexedDocument]) -> None:
        """Add documents, any number of them."""

    def remove(self, session: "Session", documents: Sequence[IndexedDocument]) -> None:
        """Remove documents. Their tokens must be those they were added with."""

    def find(self, session: "Session", tokens: Sequence[str]) -> TermLookup:
        """Look up tokens."""

    def count_mismatches(self, session: "Session") -> int:
        """Return the number of tokens whose documents in the index are wrong, or their number."""

    def compact(self, session: "Session") -> None:
        """Erase remnants of removed tokens."""


class VectorIndex(Protocol):
    """The vector index: which documents have a vector, and which are nearest to a query."""

    def save(self, session: "Session", embedder: str, passages: Sequence[str], vectors: "Vectors") -> None:
        """Store one vector for each passage."""

    def add(self, session: "Session", embedder: str, documents: Sequence[DocumentRef]) -> set[str]:
        """Index the documents whose passage has a vector, and return those passages."""

    def remove(self, session: "Session", embedder: str, documents: Sequence[DocumentRef]) -> None: ...

    def read(self, session: "Session", embedder: str, after: str, limit: int) -> "tuple[list[str], Vectors]":
        """Return the next passages after one of them, with their vectors."""

    def rename(self, session: "Session", embedder: str, passages: Mapping[str, str]) -> None:
        """Move vectors to new passage addresses. A vector whose new address is empty is deleted."""

    def drop(self, session: "Session", embedder: str) -> None:
        """Delete the index of an embedder."""

    def nearest(
        self, session: "Session", embedder: str, scopes: Mapping[int, int], query: "Vectors", limit: int
    ) -> list[VectorHit]:
        """Return the documents nearest to a unit vector, nearest first. `scopes` are numbers of documents by scope."""


class Session:
    """One transaction of one tenant. Every statement must use `:tenant`, which is bound here.

    If it `erases` texts, they must be gone from the files of the database as well, as far as it can do that.
    """

    __slots__ = ("_cursor", "dialect", "erases", "keys", "tenant")

    def __init__(self, cursor: Cursor, dialect: Dialect, tenant: str) -> None:
        """Bind the cursor of an open transaction to a tenant."""
        self._cursor = cursor
        self.dialect = dialect
        self.tenant = tenant
        self.keys: TenantKeys | None = None  # None: nothing is encrypted
        self.erases = False

    def rows(self, sql: str, **values: Any) -> list[Row]:
        """Return all rows of a statement."""
        self._cursor.execute(self._translate(sql), self._bind(values))
        return self._cursor.fetchall()

    def select(self, sql: str, conditions: Mapping[str, Any], then: str, **values: Any) -> list[Row]:
        """Return the rows that meet conditions such as `{"room = :room": room}`. None means any value."""
        used = {condition: value for condition, value in conditions.items() if value is not None}
        names = {condition: condition.rpartition(":")[2].rstrip(")") for condition in used}
        named = {names[each]: list(value) if " IN :" in each else value for each, value in used.items()}
        where = "".join(f" AND {condition}" for condition in used)
        return self.rows(f"{sql}{where} {then}", **named, **values)

    def row(self, sql: str, **values: Any) -> Row | None:
        """Return the first row of a statement, or None."""
        found = self.rows(sql, **values)
        return found[0] if found else None

    def run(self, sql: str, **values: Any) -> int:
        """Run a statement and return the number of rows it changed."""
        self._cursor.execute(self._translate(sql), self._bind(values))
        return self._cursor.rowcount

    def lock_rows(self, sql: str, **values: Any) -> list[Row]:
        """Return all rows of a SELECT, locked for writing in its order until the transaction ends."""
        return self.rows(sql + self.dialect.row_lock, **values)

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
                    row[name] = self._encode_list(name, value)
        if len(bound) == 1:  # without a pipeline, which psycopg starts for several
            self._cursor.execute(self._translate(sql), bound[0])
        else:
            self._cursor.executemany(self._translate(sql), bound)

    def insert(self, sql: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Run an INSERT for all rows, many with each statement. No two rows may have the same key."""
        listed = list(rows)
        if listed:
            require_tenant(sql)
            columns = [self._bind_column(name, listed) for name in insert_parameters(sql)]
            values = list(zip(*columns, strict=True))
            starts = range(0, len(values), INSERTED_ROWS)
            self.dialect.insert(self._cursor, sql, [values[start : start + INSERTED_ROWS] for start in starts])

    def _translate(self, sql: str) -> str:
        require_tenant(sql)
        return self.dialect.statement(sql)

    def _bind(self, values: Values) -> Values:
        for name, value in values.items():
            if type(value) is str:
                _check_string(name, value)
            elif type(value) is list:
                values[name] = self._encode_list(name, value)
            elif type(value) is int and not -_MAX_INTEGER <= value <= _MAX_INTEGER:
                raise InvalidValue(name, f"{preview(value)} is too large for a database")
        values["tenant"] = self.tenant
        return values

    def _bind_column(self, name: str, rows: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Return the values of a parameter in many rows. Checking them together takes a fraction of the time."""
        if name == "tenant":
            return [self.tenant] * len(rows)
        column = list(map(itemgetter(name), rows))
        types = set(map(type, column))
        if types == {str}:
            _check_string(name, "".join(column))
        elif types == {list}:
            column = [self._encode_list(name, value) for value in column]
        elif not types <= {int, float, bytes} or (
            int in types and not -_MAX_INTEGER <= min(column) <= max(column) <= _MAX_INTEGER
        ):
            column = [self._bind({name: value})[name] for value in column]
        return column

    def _encode_list(self, name: str, values: list[Any]) -> Any:
        encoded = self.dialect.encode_list(values)
        if "\0" in encoded or r"\u0000" in encoded:
            _check_string(name, "".join(value for value in values if type(value) is str))
        return encoded


@lru_cache
def insert_parameters(sql: str) -> tuple[str, ...]:
    """Return the parameters of an INSERT, in order.

    >>> insert_parameters("INSERT INTO users (tenant, id) VALUES (:tenant, :id) ON CONFLICT DO NOTHING")
    ('tenant', 'id')
    """
    values = _VALUES.split(sql, maxsplit=1)[1]
    return tuple(name.strip().removeprefix(":") for name in values.strip("()").split(","))


@lru_cache(maxsize=512)
def repeat_values(sql: str, rows: int, sign: str) -> str:
    """Return an INSERT of several rows. Its parameters are numbers after a sign, or question marks for SQLite.

    >>> repeat_values("INSERT INTO users (tenant, id) VALUES (:tenant, :id)", 2, "$")
    'INSERT INTO users (tenant, id) VALUES ($1, $2), ($3, $4)'
    >>> repeat_values("INSERT INTO users (tenant, id) VALUES (:tenant, :id)", 2, "?")
    'INSERT INTO users (tenant, id) VALUES (?, ?), (?, ?)'
    """
    before, _, after = _VALUES.split(sql, maxsplit=1)
    count = len(insert_parameters(sql))
    # From Python 3.14, SQLite refuses ?1 for values without names.
    names = ["?" if sign == "?" else f"{sign}{number}" for number in range(1, rows * count + 1)]
    repeated = [", ".join(names[start : start + count]) for start in range(0, rows * count, count)]
    return f"{before}({'), ('.join(repeated)}){after}"


def validate_limit(limit: int) -> int:
    """Return a limit, or raise if it is not a whole number."""
    if not is_whole_number(limit, 0):
        raise InvalidValue("limit", f"must be a whole number from 0, not {preview(limit)}")
    return limit


def prefix_end(prefix: str) -> str | None:
    r"""Return the first string after all that start with this prefix; None if there is none.

    >>> prefix_end("team/"), prefix_end("a\U0010ffff"), prefix_end("")
    ('team0', 'b', None)
    """
    stem = prefix.rstrip(_LAST_CHARACTER)
    if not stem:
        return None
    following = ord(stem[-1]) + 1
    return stem[:-1] + chr(following if following != _FIRST_SURROGATE else _LAST_SURROGATE + 1)


def validate_optional_time(field: str, value: float | None) -> float | None:
    """Return a timestamp or None, or raise."""
    return None if value is None else require_timestamp(field, value, InvalidValue)


def _check_string(name: str, text: str) -> None:
    """Reject strings that only some databases can store."""
    if "\0" in text:
        raise InvalidValue(name, "must not contain a null character")


@lru_cache(maxsize=512)
def require_tenant(sql: str) -> None:
    """Reject a statement that is not bound to a tenant.

    >>> require_tenant("SELECT body FROM contents")
    Traceback (most recent call last):
    ...
    ValueError: a statement without :tenant: SELECT body FROM contents
    """
    if ":tenant" not in sql:
        raise ValueError(f"a statement without :tenant: {sql}")
