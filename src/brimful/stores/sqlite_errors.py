"""What SQLite says → what it means, and what to do."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from brimful.errors import InvalidValue, StoreCorrupt, StoreError, StoreUnavailable

_BUSY: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_CORRUPT: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_UNAVAILABLE: Final = {
    sqlite3.SQLITE_FULL: "the disk is full; make room and try again",
    sqlite3.SQLITE_READONLY: "the database may not be written; check the rights of the file and of its folder",
    sqlite3.SQLITE_PERM: "the database may not be used; check the rights of the file and of its folder",
    sqlite3.SQLITE_AUTH: "the database may not be used; check the rights of the file and of its folder",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; check that the folder exists and may be written",
    sqlite3.SQLITE_IOERR: "reading or writing failed; check the disk and how much room it has",
    sqlite3.SQLITE_NOMEM: "there is not enough memory",
    sqlite3.SQLITE_TOOBIG: "a value is larger than SQLite can hold",
}


@contextmanager
def told(store: str) -> Iterator[None]:
    """Raise errors of SQLite as our own."""
    try:
        yield
    except sqlite3.Error as error:
        raise _meaning(store, error) from error
    except UnicodeEncodeError as error:
        raise InvalidValue("text", f"has a lone surrogate at character {error.start}") from None


def is_busy(error: sqlite3.Error) -> bool:
    """Say whether another connection is in the way."""
    return _kind(error) in _BUSY


def _kind(error: sqlite3.Error) -> int:
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF  # the lower byte is the kind of error


def _meaning(store: str, error: sqlite3.Error) -> StoreError:
    code = _kind(error)
    if code in _BUSY:
        return StoreUnavailable(store, "another process holds the lock; try again", retriable=True)
    if code in _CORRUPT:
        return StoreCorrupt(store, f"not a database, or a damaged one ({error}); restore a backup")
    if code in _UNAVAILABLE:
        return StoreUnavailable(store, f"{_UNAVAILABLE[code]} ({error})")
    return StoreError(store, str(error))
