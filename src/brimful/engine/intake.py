"""Bringing a file into a store: in batches, each one transaction, so that a killed import goes on where it ended.

Ids are idempotency keys, and what is there stays as it is: the same file twice adds nothing.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from brimful.engine.tally import Tally
from brimful.engine.writing import Writing
from brimful.importers import Imported, Importer, Skipped, Source
from brimful.observation import Observation
from brimful.protocols import Store
from brimful.records import LoreEntry, Memory, Message, Response, Snapshot, Summary

BATCH: Final = 500  # records a transaction
BATCH_BYTES: Final = 16 * 2**20  # … or so much of them, for messages may hold whole pictures
ANOTHER: Final = "another message has its id"
DELETED: Final = "it was deleted before"

Told = Callable[[], None]


async def take_in(
    engine: Writing, source: Source, importer: Importer, tally: Tally, *, told: Told = lambda: None
) -> None:
    """Write all records of a source, telling after each batch. Reading and parsing is done on another thread."""
    batches = _batches(importer.read(source), tally)
    while batch := await asyncio.to_thread(next, batches, None):
        await _write(engine, batch, tally)
        told()


def look_through(source: Source, importer: Importer, tally: Tally, *, told: Told = lambda: None) -> None:
    """Count what a source would bring to an empty store."""
    for batch in _batches(importer.read(source), tally):
        tally.take(batch)
        told()


def _batches(found: Iterator[Imported | Skipped], tally: Tally) -> Iterator[list[Imported]]:
    """Yield records of one kind each time, no id twice; count what is skipped."""
    batch: dict[str, Imported] = {}
    size = 0
    for record in found:
        if isinstance(record, Skipped):
            tally.skip(record)
            continue
        if batch and (_sort(record) != _sort(next(iter(batch.values()))) or record.id in batch):
            yield list(batch.values())
            batch, size = {}, 0
        batch[record.id] = record
        size += len(msgspec.json.encode(record))
        if len(batch) >= BATCH or size >= BATCH_BYTES:
            yield list(batch.values())
            batch, size = {}, 0
    if batch:
        yield list(batch.values())


def _sort(record: Imported) -> tuple[type[Imported], str]:
    """Return what records of one batch share."""
    return type(record), record.context if isinstance(record, Response) else ""


async def _write(engine: Writing, batch: Sequence[Imported], tally: Tally) -> None:
    known = await _known(engine.store, batch)
    fresh = [record for record in batch if record.id not in known]
    for record in batch:
        if record.id in known:
            _recognise(record, known[record.id], tally)
    if fresh:
        await engine.load(fresh)
        await _count_written(engine.store, fresh, tally)


async def _known(store: Store, batch: Sequence[Imported]) -> dict[str, Imported]:
    """Return those that are in the store already."""
    ids = [record.id for record in batch]
    found: Sequence[Imported]
    match batch[0]:
        case Message():
            found = await store.messages(ids)
        case Memory():
            found = await store.memories(ids=ids, limit=len(ids))
        case LoreEntry():
            found = await store.lore(ids=ids)
        case Summary():
            found = await store.summaries(ids=ids)
        case Snapshot():
            found = [snapshot for id in ids if (snapshot := await store.snapshot(id)) is not None]
        case Response(context=context):
            found = await store.responses(context=context)
        case Observation():
            found = await store.observations(ids=ids, limit=len(ids))
        case plain:
            gotten = [await store.get(type(plain), id) for id in ids]
            found = [record for record in gotten if record is not None]
    return {record.id: record for record in found}


def _recognise(record: Imported, held: Imported, tally: Tally) -> None:
    """Count a record that is there; a message that says something else under the same id is skipped."""
    if isinstance(record, Message) and isinstance(held, Message) and _differs(record, held):
        tally.skip(Skipped(record.id, ANOTHER))
    else:
        tally.know([record])


def _differs(message: Message, held: Message) -> bool:
    return held.edited is None and (held.room, held.content) != (message.room, message.content)


async def _count_written(store: Store, given: Sequence[Imported], tally: Tally) -> None:
    """Count records that are there now: a message that was deleted stays so, and its id is taken."""
    there = await _known(store, given) if isinstance(given[0], Message) else {record.id: record for record in given}
    tally.take(record for record in given if record.id in there)
    for record in given:
        if record.id not in there:
            tally.skip(Skipped(record.id, DELETED))
