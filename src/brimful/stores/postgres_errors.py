"""What PostgreSQL says → what it means, and what to do."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg
from psycopg import errors
from psycopg_pool import PoolTimeout, TooManyRequests

from brimful.errors import InvalidValue, MigrationError, StoreCorrupt, StoreError, StoreUnavailable

AGAIN: Final = (errors.DeadlockDetected, errors.SerializationFailure, errors.UniqueViolation)
"""Two writers met. Whoever lost begins again, and finds what the other one wrote."""

_LOST: Final = "the connection is lost; call again: what was written twice is there once"
_UNREACHABLE: Final = "cannot be reached; check the address, the user and the password, and that the server runs"
_UNAVAILABLE: Final = (
    ((errors.DiskFull,), "the server's disk is full; make room and try again"),
    ((errors.InsufficientPrivilege, errors.ReadOnlySqlTransaction), "the role may not do this; grant it what it needs"),
)
_TOO_LONG: Final = "an id, or the ids that a record names, are too long for the server's index; give shorter ones"
_LACKING: Final = (errors.FeatureNotSupported, errors.UndefinedFile)
_CORRUPT: Final = (errors.DataCorrupted, errors.IndexCorrupted)
_BUSY: Final = (PoolTimeout, TooManyRequests, errors.TooManyConnections, errors.LockNotAvailable)


@contextmanager
def told(store: str) -> Iterator[None]:
    """Raise errors of PostgreSQL as our own."""
    try:
        yield
    except (psycopg.Error, PoolTimeout, TooManyRequests) as error:
        raise _meaning(store, error) from error
    except UnicodeEncodeError as error:
        raise InvalidValue("text", f"has a lone surrogate at character {error.start}") from None


def unreachable(store: str, error: psycopg.OperationalError) -> StoreUnavailable:
    """Return what to say where there never was a connection: nothing of it is lost."""
    return StoreUnavailable(store, f"{_UNREACHABLE} ({_said(error)})", retriable=True)


def _said(error: Exception) -> str:
    return " ".join(str(error).split())


def _meaning(store: str, error: Exception) -> StoreError:
    said = _said(error)
    for kinds, reason in _UNAVAILABLE:
        if isinstance(error, kinds):
            return StoreUnavailable(store, f"{reason} ({said})")
    if isinstance(error, _LACKING):
        return MigrationError(store, f"the server lacks something; pgvector must be installed there ({said})")
    if isinstance(error, _CORRUPT):
        return StoreCorrupt(store, f"the database is damaged ({said}); restore a backup")
    if isinstance(error, _BUSY):
        return StoreUnavailable(store, "is too busy, or out of reach; try again", retriable=True)
    if isinstance(error, psycopg.OperationalError) and not isinstance(error, errors.ProgramLimitExceeded):
        return StoreUnavailable(store, f"{_LOST} ({said})", retriable=True)
    return StoreError(store, f"{_TOO_LONG} ({said})" if isinstance(error, errors.ProgramLimitExceeded) else said)
