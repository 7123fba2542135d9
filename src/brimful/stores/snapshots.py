"""Builds, with every decision."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from brimful.answers import Build
from brimful.records import Inclusion, Snapshot
from brimful.stores.contents import contents_at, keep_contents
from brimful.stores.memories import touch
from brimful.stores.sealing import seal, unseal
from brimful.stores.session import Session
from brimful.stores.stripping import restore, strip

_INSERT: Final = """
INSERT INTO snapshots (tenant, id, room, persona, at, message, digest, refs, body)
VALUES (:tenant, :id, :room, :persona, :at, :message, :digest, :refs, :body)
ON CONFLICT DO NOTHING RETURNING number
"""
_INCLUDE: Final = """
INSERT INTO inclusions (tenant, snapshot, place, item, kind, outcome, reason, tokens, relevance)
VALUES (:tenant, :snapshot, :place, :item, :kind, :outcome, :reason, :tokens, :relevance)
"""
_INCLUSIONS: Final = """
SELECT s.id, i.item, i.kind, i.outcome, i.reason, i.tokens, i.relevance, s.at
FROM inclusions i JOIN snapshots s ON s.tenant = i.tenant AND s.number = i.snapshot
WHERE i.tenant = :tenant
"""


def save(session: Session, snapshot: Snapshot) -> None:
    """Keep a build: content by reference, inclusions, and an access of each memory in it. The first of an id stands."""
    context = snapshot.context
    packed, contents = strip(context)
    refs = msgspec.json.encode(keep_contents(session, contents))
    row = session.row(
        _INSERT,
        id=snapshot.id,
        room=snapshot.room,
        persona=snapshot.persona,
        at=snapshot.at,
        message=snapshot.message,
        digest=msgspec.json.encode(_digest(snapshot)),
        refs=refs,
        body=seal(session, packed, "snapshots", snapshot.id, snapshot.room, refs),
    )
    if row is not None:
        session.many(_INCLUDE, _inclusions(snapshot, row[0]))
        kept = [each.id for each in context.decisions if each.included and each.kind.startswith("memory-")]
        touch(session, kept, snapshot.at)


def snapshot(session: Session, id: str) -> Snapshot | None:
    """Return a build as it was; content that was erased since then is empty."""
    found = session.row(
        "SELECT room, persona, at, message, refs, body FROM snapshots WHERE tenant = :tenant AND id = :id", id=id
    )
    if found is None:
        return None
    room, persona, at, message, refs, body = found
    addresses = msgspec.json.decode(refs, type=list[str])
    packed = unseal(session, body, "snapshots", id, room, refs)
    context = restore(packed, addresses, contents_at(session, addresses))
    return Snapshot(id=id, room=room, context=context, persona=persona, at=at, message=message)


def snapshots(session: Session, room: str, persona: str | None, before: float | None, limit: int) -> list[Build]:
    """Return the builds of a room (of a persona), newest first."""
    which = "" if persona is None else " AND persona = :persona"
    which += "" if before is None else " AND at < :before"
    found = session.rows(
        "SELECT digest FROM snapshots WHERE tenant = :tenant AND room = :room"  # noqa: S608 - our own conditions
        f"{which} ORDER BY at DESC, number DESC LIMIT :limit",
        room=room,
        persona=persona,
        before=before,
        limit=limit,
    )
    return [msgspec.json.decode(digest, type=Build) for (digest,) in found]


def inclusions(session: Session, item: str | None, snapshot: str | None, limit: int) -> list[Inclusion]:
    """Return what became of an item in each build, or of all items in one, newest first."""
    which = "" if item is None else " AND i.item = :item"
    which += "" if snapshot is None else " AND s.id = :snapshot"
    found = session.rows(
        f"{_INCLUSIONS}{which} ORDER BY s.at DESC, i.snapshot DESC, i.place LIMIT :limit",
        item=None if item is None else _named(item),
        snapshot=snapshot,
        limit=limit,
    )
    return [Inclusion(**dict(zip(Inclusion.__struct_fields__, row, strict=True))) for row in found]


def _digest(snapshot: Snapshot) -> Build:
    context = snapshot.context
    return Build(
        id=snapshot.id,
        room=snapshot.room,
        persona=snapshot.persona,
        at=snapshot.at,
        model=context.inputs.model.id,
        policy=context.inputs.policy.name,
        tokens=context.tokens,
        window=context.budget.window,
        degraded=context.inputs.degraded,
        history=context.history,
    )


def _inclusions(snapshot: Snapshot, number: int) -> Iterator[dict[str, Any]]:
    relevance = {package.id: package.relevance for package in snapshot.context.inputs.packages}
    for place, decision in enumerate(snapshot.context.decisions):
        yield {
            "snapshot": number,
            "place": place,
            "item": _named(decision.id),
            "kind": _named(decision.kind),
            "outcome": decision.outcome,
            "reason": decision.reason,
            "tokens": decision.tokens,
            "relevance": relevance.get(decision.id),
        }


def _named(text: str) -> str:
    """Return a package's id or kind as a database holds it: those may have a null character, ids of records may not."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}") if "\0" in text else text
