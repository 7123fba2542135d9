"""Builds, with every decision."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from brimful.answers import Build
from brimful.core.context import Context
from brimful.packagers.ids import told_apart
from brimful.records import Inclusion, Snapshot
from brimful.stores import log
from brimful.stores.builds import digest_of, sealed_digest
from brimful.stores.contents import contents_at, keep_contents
from brimful.stores.log import Entry
from brimful.stores.memories import touch
from brimful.stores.sealing import seal, unseal
from brimful.stores.session import Session
from brimful.stores.stripping import restore, strip
from brimful.stores.tallies import Sort, day_of
from brimful.stores.tally import tally_of_build

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


def save(session: Session, given: Sequence[Snapshot]) -> None:
    """Keep builds: content by reference, inclusions, and an access of each memory in them. The first of an id stands.

    The log comes last: whoever holds its end should not wait for anything else.
    """
    entries = [entry for each in given if (entry := keep(session, each)) is not None]
    log.append(session, entries)


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


def inclusions(session: Session, item: str | None, snapshot: str | None, limit: int) -> list[Inclusion]:
    """Return what became of an item in each build, or of all items in one, newest first."""
    which = "" if item is None else " AND i.item = :item"
    which += "" if snapshot is None else " AND s.id = :snapshot"
    found = session.rows(
        f"{_INCLUSIONS}{which} ORDER BY s.at DESC, i.snapshot DESC, i.place LIMIT :limit",
        item=None if item is None else storable(item),
        snapshot=snapshot,
        limit=limit,
    )
    return [Inclusion(**dict(zip(Inclusion.__struct_fields__, row, strict=True))) for row in found]


def keep(session: Session, snapshot: Snapshot) -> Entry | None:
    """Keep a build, and return what the log is to say of it; None if there is one of that id.

    What a place in a caller's own request held is not looked for in others: that would tell of other conversations,
    and an index of it would write more than all else.
    """
    context = snapshot.context
    packed, contents = strip(context)
    refs = msgspec.json.encode(keep_contents(session, contents, day=day_of(snapshot.at)))
    digest = digest_of(snapshot)
    row = session.row(
        _INSERT,
        id=snapshot.id,
        room=snapshot.room,
        persona=snapshot.persona,
        at=snapshot.at,
        message=snapshot.message,
        digest=sealed_digest(session, digest),
        refs=refs,
        body=seal(session, packed, "snapshots", snapshot.id, snapshot.room, refs),
    )
    if row is None:
        return None
    if not context.inputs.given:
        session.many(_INCLUDE, _inclusions(snapshot, row[0]))
    touch(session, _memories_in(context), snapshot.at)
    return entry_of(digest, context)


def _memories_in(context: Context) -> list[str]:
    """Return the ids of the memories that are in a context."""
    ids = {each.id for each in context.decisions}
    kept = [each.id for each in context.decisions if each.included and each.kind.startswith("memory-")]
    return [own if (own := id.removeprefix(told_apart("memory", ""))) in ids else id for id in kept]


def entry_of(build: Build, context: Context) -> Entry:
    """Return what the log says of a build."""
    return Entry(
        kind="build",
        item=build.id,
        room=build.room,
        at=build.at,
        sort=sort_of(build),
        tally=tally_of_build(build, context),
    )


def sort_of(build: Build) -> Sort:
    """Return with what a build is counted."""
    return Sort(build.persona or "", storable(build.model), storable(build.policy))


def _inclusions(snapshot: Snapshot, number: int) -> Iterator[dict[str, Any]]:
    relevance = {package.id: package.relevance for package in snapshot.context.inputs.packages}
    for place, decision in enumerate(snapshot.context.decisions):
        yield {
            "snapshot": number,
            "place": place,
            "item": storable(decision.id),
            "kind": storable(decision.kind),
            "outcome": decision.outcome,
            "reason": decision.reason,
            "tokens": decision.tokens,
            "relevance": relevance.get(decision.id),
        }


def storable(text: str) -> str:
    """Return a name as a database holds it: packages, kinds and models may have a null character, records may not."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}") if "\0" in text else text
