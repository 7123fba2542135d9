"""Builds in one line each, as lists show them."""

from collections.abc import Iterable
from typing import Final

import msgspec

from brimful.answers import Build
from brimful.core.budget import rules_of
from brimful.core.context import Context
from brimful.records import Snapshot
from brimful.stores.sealing import seal, unseal
from brimful.stores.session import Row, Session
from brimful.stores.stripping import restore

_READ: Final = """
SELECT l.place, l.body IS NULL, s.id, s.room, s.digest
FROM log l JOIN snapshots s ON s.tenant = l.tenant AND s.id = l.item
WHERE l.tenant = :tenant AND l.kind = 'build'
"""
_DECODER: Final = msgspec.json.Decoder(Build)


def digest_of(snapshot: Snapshot) -> Build:
    """Return a build in one line."""
    context = snapshot.context
    return Build(
        id=snapshot.id,
        room=snapshot.room,
        persona=snapshot.persona,
        message=snapshot.message,
        at=snapshot.at,
        model=context.inputs.model.id,
        policy=context.inputs.policy.name,
        tokens=context.tokens,
        window=context.budget.window,
        completion=context.budget.completion,
        available=context.budget.available,
        components=context.components,
        candidates=len(context.decisions),
        left_out=sum(not each.included for each in context.decisions),
        naive=context.tokens + _left_out(context),
        warnings=context.warnings,
        degraded=context.inputs.degraded,
        history=context.history,
        rules=rules_of(context.inputs.policy, context.budget),
    )


def builds(  # noqa: PLR0913 - all that may be said of them
    session: Session,
    *,
    room: str | None,
    persona: str | None,
    model: str | None,
    message: str | None,
    since: float | None,
    until: float | None,
    before: int | None,
    limit: int,
) -> list[Build]:
    """Return builds that meet all that is said, newest first."""
    which = "" if room is None else " AND l.room = :room"
    which += "" if persona is None else " AND l.persona = :persona"
    which += "" if model is None else " AND l.model = :model"
    which += "" if message is None else " AND s.message = :message"
    which += "" if since is None else " AND l.at >= :since"
    which += "" if until is None else " AND l.at < :until"
    which += "" if before is None else " AND l.place < :before"
    rows = session.rows(
        f"{_READ}{which} ORDER BY {_order(room or persona or model, message, since)} DESC LIMIT :limit",
        room=room,
        persona=persona,
        model=model,
        message=message,
        since=since,
        until=until,
        before=before,
        limit=limit,
    )
    return [_build_of(session, row) for row in rows]


def builds_at(session: Session, places: Iterable[int]) -> dict[int, Build]:
    """Return builds by their places in the log, those that are there."""
    rows = session.rows(f"{_READ} AND l.place IN :places", places=list(places))
    return {row[0]: _build_of(session, row) for row in rows}


def build_named(session: Session, id: str) -> Build | None:
    """Return the build of an id."""
    row = session.row(f"{_READ} AND l.item = :id", id=id)
    return None if row is None else _build_of(session, row)


def bare(session: Session, id: str) -> Snapshot | None:
    """Return a build without its contents: enough for its numbers, and much quicker."""
    found = session.row(
        "SELECT room, persona, at, message, refs, body FROM snapshots WHERE tenant = :tenant AND id = :id", id=id
    )
    if found is None:
        return None
    room, persona, at, message, refs, body = found
    packed = unseal(session, body, "snapshots", id, room, refs)
    context = restore(packed, msgspec.json.decode(refs, type=list[str]), {})
    return Snapshot(id=id, room=room, context=context, persona=persona, at=at, message=message)


def _order(key: str | None, message: str | None, since: float | None) -> str:
    """Return by what to order. Where a message or only a time is known, its index is to be used, not that of places."""
    return "+l.place" if message is not None or (since is not None and key is None) else "l.place"


def _build_of(session: Session, row: Row) -> Build:
    """Return the build of a row. An older version of Brimful wrote down less of it: that is read from the record."""
    place, old, id, room, digest = row
    snapshot = bare(session, id) if old else None
    build = digest_of(snapshot) if snapshot else _DECODER.decode(unseal(session, digest, "snapshots", id, room))
    return msgspec.structs.replace(build, number=place)


def sealed_digest(session: Session, build: Build) -> bytes:
    """Return a build in one line, as it is kept: what it warns of may quote what was said."""
    return seal(session, msgspec.json.encode(build), "snapshots", build.id, build.room)


def _left_out(context: Context) -> int:
    """Return the tokens of all that the model does not see, and of what was cut from the rest."""
    whole = {package.id: package.tokens.tokens for package in context.inputs.packages}
    gone = sum(each.tokens for each in context.decisions if not each.included)
    cut = (whole.get(each.id, 0) - each.tokens for each in context.decisions if each.outcome == "shrunk")
    return gone + sum(max(0, tokens) for tokens in cut)
