"""A walk over the rows of a tenant, one transaction a batch, so that nobody waits long for it."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec

from brimful.stores.session import Session

Batch = Callable[[Session, Any], tuple[Any, int]]
"""Changes the next rows after a place; returns the place to go on from, None at the end, and how many it changed."""
Write = Callable[[Callable[[Session], tuple[Any, int]]], Awaitable[tuple[Any, int]]]


class Walk(msgspec.Struct, frozen=True):
    """What is walked, from where, and what is done with a batch of it."""

    name: str
    start: Any
    batch: Batch


class Sealed(msgspec.Struct, frozen=True, kw_only=True):
    """How far it has come: what is walked now, and how many rows were changed in all."""

    step: str
    rows: int


Told = Callable[[Sealed], None]


async def walk(write: Write, given: Walk, told: Told, done: int) -> int:
    """Walk to the end, and return how many rows were changed, with those `done` before."""
    after = given.start
    while after is not None:
        after, changed = await write(partial(_alone, given.batch, after))
        if changed:
            done += changed
            told(Sealed(step=given.name, rows=done))
    return done


def _alone(batch: Batch, after: Any, session: Session) -> tuple[Any, int]:
    session.dialect.alone(session, "seal")
    return batch(session, after)
