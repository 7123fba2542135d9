"""Built contexts: snapshots with every decision, and their one-line summaries."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import msgspec

from brimful.core.budget import rules_digest
from brimful.core.context import Context
from brimful.core.validation import MAX_INTEGER, is_whole_number, preview
from brimful.errors import InvalidValue, NotRecorded
from brimful.packagers.records import MEMORY_TYPE_KEY, qualified_id
from brimful.records import Inclusion, Snapshot
from brimful.records.contexts import Build, Rating, is_sampled
from brimful.stores.encryption.cipher import decrypt, encrypt
from brimful.stores.log import event_log
from brimful.stores.log.agent_runs import Place, find_place
from brimful.stores.log.candidates import (
    clean_name,
    find_contexts,
    hash_items,
    message_ids,
    message_seqs,
    remove_unused_items,
    save_items,
)
from brimful.stores.log.context_codec import (
    NO_ADDRESSES,
    NO_BODY,
    candidate_names,
    decode_addresses,
    decode_context,
    encode_addresses,
    encode_context,
    read_decisions,
    read_names,
    read_relevance,
    resolve_name,
    shared_inputs,
)
from brimful.stores.log.event_log import LogEvent
from brimful.stores.log.tallies import TallyKey, day_of, tally_build
from brimful.stores.session import Row, Session, validate_limit, validate_optional_time
from brimful.stores.tables.contents import get_contents, hash_content, save_context_contents
from brimful.stores.tables.memories import record_access

_READ_BUILDS: Final = """
SELECT l.position, s.id, s.room, s.digest
FROM log l JOIN snapshots s ON s.tenant = l.tenant AND s.id = l.item
WHERE l.tenant = :tenant AND l.kind = 'build'
"""
_RATED: Final = (
    "s.id IN (SELECT r.context FROM responses r WHERE r.tenant = s.tenant AND r.feedback IS NOT NULL"
    " AND r.feedback = :feedback)"
)
_REFS: Final = "SELECT number, refs FROM snapshots WHERE tenant = :tenant AND number > :last ORDER BY number LIMIT 100"
_NEWEST: Final = "SELECT id, room, at, refs, body FROM snapshots WHERE tenant = :tenant"
_NEWEST_OF_RUN: Final = """
AND l.position = (
  SELECT max(n.position) FROM log n WHERE n.tenant = l.tenant AND n.run = l.run AND n.kind = 'build'
)
"""
_NEWEST_OF_MODEL: Final = _NEWEST_OF_RUN.replace("'build'", "'build' AND n.model = l.model")
_DECODER: Final = msgspec.json.Decoder(Build)
_INSERT: Final = """
INSERT INTO snapshots (tenant, id, room, persona, at, message, task, digest, items, refs, body)
VALUES (:tenant, :id, :room, :persona, :at, :message, :task, :digest, :items, :refs, :body)
ON CONFLICT DO NOTHING RETURNING 1
"""


def make_build(snapshot: Snapshot, place: Place, *, recorded: bool = True) -> Build:
    """Summarize a snapshot, which has this place in a run, in one line."""
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
        candidates=context.offered,
        left_out=context.left_out,
        naive=context.naive,
        warnings=context.warnings,
        degraded=context.inputs.degraded,
        history=context.history,
        rules=rules_digest(context.inputs.policy, context.inputs.allocate()),
        user=snapshot.user,
        key=snapshot.key,
        recorded=recorded,
        lines=context.lines,
        run=place.run,
        question=place.task.question,
        calls=place.task.calls,
        build_seconds=snapshot.build_seconds,
        search_seconds=snapshot.search_seconds,
    )


def list_builds(  # noqa: PLR0913 - one argument per filter
    session: Session,
    *,
    room: str | None = None,
    persona: str | None = None,
    model: str | None = None,
    user: str | None = None,
    message: str | None = None,
    messages: Sequence[str] | None = None,
    run: str | None = None,
    by_run: bool = False,
    feedback: Rating | None = None,
    since: float | None = None,
    until: float | None = None,
    before: int | None = None,
    limit: int = 100,
) -> list[Build]:
    """Return the builds that match all filters, newest first.

    `message` is the id of the message they answer, or `messages` the ids of several; `feedback` is that on an answer to
    them; `before` is the number of a build. With `by_run`, only the newest build of each run is returned, of those with
    that model if there is a filter.
    """
    if before is not None and not is_whole_number(before, 0):
        raise InvalidValue("before", f"must be the number of a build, not {preview(before)}")
    conditions: dict[str, Any] = {
        "l.room = :room": room,
        "l.persona = :persona": persona,
        "l.model = :model": model,
        "l.user_id <> '' AND l.user_id = :user": user,
        "s.message = :message": message,
        "s.message IN :messages": messages,
        "l.run = :run": run,
        _RATED: feedback,
        "l.at >= :since": validate_optional_time("since", since),
        "l.at < :until": validate_optional_time("until", until),
    }
    if before is None and all(value is None for value in conditions.values()):
        before = MAX_INTEGER  # without a range of positions, SQLite would read and sort all builds
    conditions["l.position < :before"] = before
    newest = (_NEWEST_OF_MODEL if model else _NEWEST_OF_RUN) if by_run else ""
    order = _order(room or persona or model or user or run, message or messages or feedback, since)
    rows = session.select(
        _READ_BUILDS, conditions, f"{newest} ORDER BY {order} DESC LIMIT :limit", limit=validate_limit(limit)
    )
    return [_decode_build(session, row) for row in rows]


def builds_at_positions(session: Session, positions: Iterable[int]) -> dict[int, Build]:
    """Return builds by log position; missing ones are omitted."""
    rows = session.rows(f"{_READ_BUILDS} AND l.position IN :positions", positions=list(positions))
    return {row[0]: _decode_build(session, row) for row in rows}


def get_build(session: Session, id: str) -> Build | None:
    row = session.row(f"{_READ_BUILDS} AND l.item = :id", id=id)
    return None if row is None else _decode_build(session, row)


def remove_context(session: Session, id: str) -> bool:
    """Remove a context with its responses. Returns False if there is none.

    Statistics are kept. Contents that only this context refers to are removed when contexts are pruned next.
    """
    rooms = session.rows("DELETE FROM snapshots WHERE tenant = :tenant AND id = :id RETURNING room", id=id)
    if not rooms:
        return False
    remove_unused_items(session, [room for (room,) in rooms])
    answers = session.rows("DELETE FROM responses WHERE tenant = :tenant AND context = :id RETURNING id", id=id)
    event_log.clear_items(session, "build", [id])
    event_log.clear_items(session, "response", [answer for (answer,) in answers])
    return True


def find_unreferenced(session: Session, addresses: Iterable[str]) -> set[str]:
    """Return the addresses that no context refers to."""
    left, last = set(addresses), 0
    while left and (rows := session.rows(_REFS, last=last)):
        for number, refs in rows:
            left.difference_update(decode_addresses(refs))
            last = number
    return left


def _order(key: str | None, message: str | Sequence[str] | None, since: float | None) -> str:
    """Return the ORDER BY column. The `+` keeps SQLite from using the position index where another one is better."""
    return "+l.position" if message is not None or (since is not None and key is None) else "l.position"


def _decode_build(session: Session, row: Row) -> Build:
    position, id, room, digest = row
    build = _DECODER.decode(decrypt(session, digest, "snapshots", id, room))
    return msgspec.structs.replace(build, number=position)


def encrypt_build(session: Session, build: Build) -> bytes:
    """Encode and encrypt a build: its warnings may quote contents."""
    return encrypt(session, msgspec.json.encode(build), "snapshots", build.id, build.room)


def save_snapshots(session: Session, snapshots: Sequence[Snapshot]) -> None:
    """Save snapshots, and log them. If there is one with the same id, it stays.

    The log comes last, because it is locked until the transaction ends.
    """
    entries = [saved[1] for each in snapshots if (saved := save_snapshot(session, each)) is not None]
    event_log.append_events(session, entries)


def get_snapshot(session: Session, id: str) -> Snapshot | None:
    """Return a snapshot as it was built, or None. Contents that were erased since are empty.

    Raises `NotRecorded` if only its summary was stored.
    """
    sql = "SELECT room, persona, at, message, digest, refs, body FROM snapshots WHERE tenant = :tenant AND id = :id"
    found = session.row(sql, id=id)
    if found is None:
        return None
    room, persona, at, message, digest, refs, body = found
    if refs == NO_ADDRESSES:
        raise NotRecorded(id)
    addresses = decode_addresses(refs)
    packed = decrypt(session, body, "snapshots", id, room, refs)
    ids = message_ids(session, room, read_names(packed))
    context = decode_context(packed, addresses, get_contents(session, addresses), ids)
    build = _DECODER.decode(decrypt(session, digest, "snapshots", id, room))
    return Snapshot(
        id=id,
        room=room,
        context=context,
        persona=persona,
        user=build.user,
        key=build.key,
        at=at,
        message=message,
        build_seconds=build.build_seconds,
        search_seconds=build.search_seconds,
    )


def list_inclusions(
    session: Session, *, item: str | None = None, snapshot: str | None = None, limit: int = 1000
) -> list[Inclusion]:
    """Return the decisions about an item in each context, or about all items of one context, newest first."""
    validate_limit(limit)
    if item is not None:
        name, contexts = clean_name(item), find_contexts(session, [item])
        which: Iterable[tuple[str, str, float, bytes]] = (
            (each.id, each.room, each.at, each.body) for each in contexts if snapshot in (None, each.id)
        )
    else:
        name, which = None, _read_contexts(session, snapshot, limit)
    found = (each for context in which for each in _read_inclusions(session, *context) if name in (None, each.item))
    return list(islice(found, limit))


def _read_contexts(session: Session, id: str | None, limit: int) -> Iterator[tuple[str, str, float, bytes]]:
    rows = session.select(_NEWEST, {"id = :id": id}, "ORDER BY at DESC, number DESC LIMIT :limit", limit=limit)
    for each, room, at, refs, body in rows:
        if refs != NO_ADDRESSES:
            yield each, room, at, decrypt(session, body, "snapshots", each, room, refs)


def _read_inclusions(session: Session, id: str, room: str, at: float, body: bytes) -> Iterator[Inclusion]:
    written = read_names(body)
    ids = message_ids(session, room, written)
    names = [clean_name(resolve_name(name, ids)) for name in written]
    relevance = dict(zip(names, read_relevance(body), strict=False))
    for decision in read_decisions(body):
        item = names[decision["id"]]
        yield Inclusion(
            snapshot=id,
            item=item,
            kind=clean_name(decision["kind"]),
            outcome=decision["outcome"],
            reason=decision["reason"],
            tokens=decision["tokens"],
            relevance=relevance.get(item),
            at=at,
        )


def save_snapshot(session: Session, snapshot: Snapshot, *, share: float = 1.0) -> tuple[Build, LogEvent] | None:
    """Save a snapshot, and return its summary and its log event; None if there is one with this id.

    Of contexts that `share` leaves out, only the summary and hashes of what was included are saved. Of requests that
    the client wrote itself, no candidates can be looked up: they are only positions in the request.
    """
    context = snapshot.context
    recorded = is_sampled(context, share)
    names = candidate_names(context) if recorded else [each.id for each in context.decisions if each.included]
    searchable = [] if context.inputs.is_fitted else names
    seqs = message_seqs(session, snapshot.room, searchable)
    body, refs = _save_body(session, snapshot, names, seqs) if recorded else (NO_BODY, NO_ADDRESSES)
    place = find_place(session, snapshot)
    digest = make_build(snapshot, place, recorded=recorded)
    row = session.row(
        _INSERT,
        id=snapshot.id,
        room=snapshot.room,
        persona=snapshot.persona,
        at=snapshot.at,
        message=snapshot.message,
        task=place.address,
        digest=encrypt_build(session, digest),
        items=hash_items(searchable),
        refs=refs,
        body=encrypt(session, body, "snapshots", snapshot.id, snapshot.room, refs),
    )
    if row is None:
        return None
    save_items(session, snapshot.room, searchable, seqs)
    record_access(session, _included_memories(context), at=snapshot.at)
    return digest, build_event(digest, context)


def _save_body(
    session: Session, snapshot: Snapshot, names: Sequence[str], seqs: Mapping[str, int]
) -> tuple[bytes, bytes]:
    """Save the contents of a snapshot. Returns its body and the addresses of the contents."""
    context = snapshot.context
    contents = [package.content for package in context.inputs.packages]
    hashes = list(map(hash_content, contents))
    addresses = save_context_contents(session, contents, hashes, shared_inputs(context), day=day_of(snapshot.at))
    return encode_context(context, names, seqs, hashes), encode_addresses(addresses)


def _included_memories(context: Context) -> list[str]:
    """Return the ids of the memories that are in a context."""
    ids = {each.id for each in context.decisions}
    memories = {each.id for each in context.inputs.packages if MEMORY_TYPE_KEY in each.metadata}
    included = [
        each.id
        for each in context.decisions
        if each.included and (each.kind.startswith("memory-") or (each.kind == "summary" and each.id in memories))
    ]
    return [own if (own := id.removeprefix(qualified_id("memory", ""))) in ids else id for id in included]


def build_event(build: Build, context: Context) -> LogEvent:
    return LogEvent(
        kind="build",
        item=build.id,
        room=build.room,
        at=build.at,
        key=tally_key(build),
        tally=tally_build(build, context),
        run=build.run,
    )


def tally_key(build: Build) -> TallyKey:
    return TallyKey(
        build.persona or "", clean_name(build.model), clean_name(build.policy), build.user or "", build.key or ""
    )
