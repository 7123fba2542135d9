"""The runs of agents: contexts that were built for the same task, from the user's message to the answer."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from brimful.core.task import Task, find_task
from brimful.records import Content, Snapshot
from brimful.records.contexts import AgentRun
from brimful.stores.encryption.cipher import decrypt, storage_address
from brimful.stores.log.context_codec import decode_addresses
from brimful.stores.log.tallies import Tally, decode_tally, make_statistics
from brimful.stores.session import Session
from brimful.stores.tables.contents import get_contents, hash_content

_NEWEST: Final = """
SELECT id, room, at, message, digest FROM snapshots
WHERE tenant = :tenant AND task = :task ORDER BY number DESC LIMIT 1
"""
_EVENTS: Final = "SELECT run, at, model, body FROM log WHERE tenant = :tenant AND run IN :runs"
_CONTEXTS: Final = """
SELECT item FROM log WHERE tenant = :tenant AND run = :run AND kind = 'build' ORDER BY position
"""
_REFS: Final = "SELECT id, refs FROM snapshots WHERE tenant = :tenant AND id IN :ids"


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """The place of a context in a run: its task, the address by which the next context finds it, and the run."""

    task: Task
    address: str
    run: str


class _RunOf(msgspec.Struct, frozen=True):
    """The part of a build that says its run."""

    run: str = ""


_DECODER: Final = msgspec.json.Decoder(_RunOf)


def find_place(session: Session, snapshot: Snapshot) -> Place:
    """Return the place of a new context.

    If the model goes on with its task, that is the run of the newest context with the same one. Otherwise it is a new
    run, unless the same request was built again, such as for a smaller window.
    """
    task = find_task(snapshot.context.inputs.packages)
    address = storage_address(session, _hash_task(snapshot, task))
    row = session.row(_NEWEST, task=address)
    if row is not None:
        id, room, at, message, digest = row
        is_fitted = snapshot.context.inputs.is_fitted
        is_same = at == snapshot.at and message == snapshot.message and (is_fitted or message is not None)
        if task.goes_on or is_same:
            run = _DECODER.decode(decrypt(session, digest, "snapshots", id, room)).run
            return Place(task=task, address=address, run=run or id)
    return Place(task=task, address=address, run=snapshot.id)


def _hash_task(snapshot: Snapshot, task: Task) -> str:
    """Return what tells tasks apart that run at the same time.

    A stored room has one at a time. A fitted request may be of any conversation, which is told by its first message.
    """
    inputs = snapshot.context.inputs
    which: list[str | None] = [snapshot.room, snapshot.persona, snapshot.user]
    if inputs.is_fitted:
        indexes = (task.opening, task.question)
        which += [None if index is None else hash_content(inputs.packages[index].content)[0] for index in indexes]
    return hashlib.blake2b(msgspec.json.encode(which), digest_size=16).hexdigest()


def read_runs(session: Session, ids: Iterable[str]) -> dict[str, AgentRun]:
    """Return runs by id, with sums over their contexts and responses. Missing ones are omitted."""
    times: dict[str, list[float]] = {}
    models: dict[str, dict[str, Tally]] = {}
    for run, at, model, body in session.rows(_EVENTS, runs=list(dict.fromkeys(ids))):
        times.setdefault(run, []).append(at)
        models.setdefault(run, {}).setdefault(model, Tally()).add(decode_tally(body))
    return {
        run: AgentRun(id=run, begin=min(at), end=max(at), statistics=make_statistics(run, min(at), models[run]))
        for run, at in times.items()
    }


def list_run_contexts(session: Session, run: str) -> list[str]:
    """Return the ids of the contexts of a run, oldest first."""
    return [id for (id,) in session.rows(_CONTEXTS, run=run)]


def read_candidates(session: Session, positions: Mapping[str, Sequence[int]]) -> dict[str, list[Content]]:
    """Return contents of candidates by context, from their positions among the candidates of each context.

    What was erased is empty. Contexts that were not recorded are omitted.
    """
    addresses: dict[str, list[str]] = {}
    for id, refs in session.rows(_REFS, ids=list(positions)):
        every = decode_addresses(refs)
        if every:
            addresses[id] = [every[index] for index in positions[id]]
    contents = get_contents(session, [address for each in addresses.values() for address in each])
    return {id: [contents.get(address, "") for address in each] for id, each in addresses.items()}
