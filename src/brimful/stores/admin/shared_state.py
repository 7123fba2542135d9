"""What several servers have to know of each other: how many requests a key has left, and where trimmed requests began.

It is worth nothing after a day, so backups leave it out.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from brimful.stores.encryption.cipher import storage_address
from brimful.stores.session import Session
from brimful.stores.transactions import ReadMethod, Transactions, WriteMethod

START_SECONDS: Final = 86_400.0  # no provider caches a prompt longer than a day
_MINUTE: Final = 60.0  # seconds
_READ_LIMIT: Final = "SELECT remaining, at FROM rate_limits WHERE tenant = :tenant AND name = :name"
_SAVE_LIMIT: Final = """
INSERT INTO rate_limits (tenant, name, remaining, at) VALUES (:tenant, :name, :remaining, :at)
ON CONFLICT (tenant, name) DO UPDATE SET remaining = excluded.remaining, at = excluded.at
"""
_FIND_STARTS: Final = "SELECT digest, body FROM trimmed_requests WHERE tenant = :tenant AND digest IN :digests"
_SAVE_START: Final = """
INSERT INTO trimmed_requests (tenant, digest, body, at) VALUES (:tenant, :digest, :body, :at)
ON CONFLICT (tenant, digest) DO UPDATE SET body = excluded.body, at = excluded.at
"""


class Grant(msgspec.Struct, frozen=True):
    """How many requests may be served now, and if none, after how many seconds the next one may."""

    requests: int
    wait: float = 0.0


def _take_requests(session: Session, name: str, *, count: int, per_minute: int, now: float) -> Grant:
    """Take up to `count` requests from the allowance of a key, which refills continuously."""
    session.dialect.lock(session, f"rate limit {name}")
    remaining, at = session.row(_READ_LIMIT, name=name) or (float(per_minute), now)
    latest = max(at, now)  # the clocks of servers differ
    remaining = min(float(per_minute), remaining + (latest - at) * per_minute / _MINUTE)
    granted = min(count, int(remaining))
    session.run(_SAVE_LIMIT, name=name, remaining=remaining - granted, at=latest)
    return Grant(granted) if granted else Grant(0, (1 - remaining) * _MINUTE / per_minute)


def _find_start(session: Session, digests: Sequence[str]) -> tuple[str, bytes] | None:
    """Return the last of these digests with a stored start, and that start."""
    by_address = {storage_address(session, digest): digest for digest in digests}
    found = {by_address[address]: bytes(body) for address, body in session.rows(_FIND_STARTS, digests=list(by_address))}
    return next(((digest, found[digest]) for digest in reversed(digests) if digest in found), None)


def _save_start(session: Session, digest: str, body: bytes, *, now: float) -> None:
    """Store where the history of a trimmed request began, and delete old rows."""
    session.run("DELETE FROM trimmed_requests WHERE tenant = :tenant AND at < :limit", limit=now - START_SECONDS)
    session.run(_SAVE_START, digest=storage_address(session, digest), body=body, at=now)


class SharedState(Transactions):
    """What the servers of one tenant share."""

    take_requests = WriteMethod(_take_requests)
    find_start = ReadMethod(_find_start)
    save_start = WriteMethod(_save_start)
