"""Bringing a file into a store: in batches, each one transaction, so that a killed import goes on where it ended.

Ids are idempotency keys, and what is there stays as it is: the same file twice adds nothing.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Final

import msgspec

from brimful.engine.tally import Tally
from brimful.engine.writing import Writing
from brimful.importers import Imported, Skipped
from brimful.importers.cards import CARD
from brimful.observation import Observation
from brimful.protocols import Store
from brimful.records import (
    Lorebook,
    LoreEntry,
    Memory,
    Message,
    Persona,
    Response,
    Room,
    Snapshot,
    Summary,
    User,
)

BATCH: Final = 500  # records a transaction
BATCH_BYTES: Final = 16 * 2**20  # … or so much of them, for messages may hold whole pictures
ANOTHER: Final = "another message has its id"
LONGEST_ID: Final = 2000  # bytes: an index of PostgreSQL takes a little more
TOO_LONG: Final = f"its id, or one that it names, is longer than {LONGEST_ID:,} bytes"
ANOTHER_ENTRY: Final = (
    "it is another entry, or was changed here; `brimful lorebook import` puts the file's in its place"
)
ANOTHER_CARD: Final = "another card made the persona of that name; `brimful persona remove` makes way for it"
DELETED: Final = "it was deleted before"

ORDER: Final = (
    *(User, Persona, Lorebook, Room, LoreEntry, Message, Summary),
    *(Snapshot, Response, Observation, Memory),
)
"""The kinds of records, as they are written."""

Found = Iterator[Imported | Skipped]
Told = Callable[[], None]
Where = Callable[[], str]
"""Says where it stands what was found last, as `file:line` or `file[index]`; empty if nobody knows."""
Places = dict[tuple[type[Imported], str], str]


async def take_in(
    engine: Writing, found: Found, tally: Tally, *, told: Told = lambda: None, where: Where = lambda: ""
) -> None:
    """Write all records that are found, telling after each batch. Reading and parsing is done on another thread."""
    batches = _batches(found, tally, where)
    while batch := await asyncio.to_thread(next, batches, None):
        for _, group in groupby(batch[0], key=_sort):
            await _write(engine, list(group), batch[1], tally)
        told()


async def look_through(
    store: Store | None, found: Found, tally: Tally, *, told: Told = lambda: None, where: Where = lambda: ""
) -> None:
    """Count what would come to a store, and what it has already; None is one that is not there yet."""
    batches = _batches(found, tally, where)
    while batch := await asyncio.to_thread(next, batches, None):
        for _, group in groupby(batch[0], key=_sort):
            given = list(group)
            tally.take(await _fresh(store, given, batch[1], tally) if store else given)
        told()


def _batches(found: Found, tally: Tally, where: Where = lambda: "") -> Iterator[tuple[list[Imported], Places]]:
    """Yield records, no two of a kind with the same id, in an order in which they can be written, and where they stand.

    What is skipped is counted.
    """
    batch: dict[tuple[type[Imported], str], Imported] = {}
    places: Places = {}
    size = 0
    for record in found:
        if isinstance(record, Skipped) or _is_too_long(record):
            place = f"{where()}: " if where() else ""
            tally.skip(record if isinstance(record, Skipped) else Skipped(f"{place}{record.id[:80]}…", TOO_LONG))
            continue
        key = (type(record), record.id)
        if key in batch:
            yield sorted(batch.values(), key=_rank), places
            batch, places, size = {}, {}, 0
        batch[key], places[key] = record, where()
        size += len(msgspec.json.encode(record))
        if len(batch) >= BATCH or size >= BATCH_BYTES:
            yield sorted(batch.values(), key=_rank), places
            batch, places, size = {}, {}, 0
    if batch:
        yield sorted(batch.values(), key=_rank), places


def _is_too_long(record: Imported) -> bool:
    """Say whether no index would take a record: it must not cost the batch in which it stands."""
    names = (getattr(record, field, None) for field in ("id", "room", "lorebook", "context", "user"))
    return any(isinstance(name, str) and len(name.encode()) > LONGEST_ID for name in names)


def _rank(record: Imported) -> tuple[int, str]:
    """Return a record's place: what is referred to comes first, and memories last, for builds count their accesses."""
    kind, within = _sort(record)
    return ORDER.index(kind), within


def _sort(record: Imported) -> tuple[type[Imported], str]:
    """Return what records share that are written together."""
    return type(record), record.context if isinstance(record, Response) else ""


async def _write(engine: Writing, batch: Sequence[Imported], places: Places, tally: Tally) -> None:
    fresh = await _fresh(engine.store, batch, places, tally)
    if fresh:
        await engine.load(fresh)
        await _count_written(engine.store, fresh, places, tally)


async def _fresh(store: Store, batch: Sequence[Imported], places: Places, tally: Tally) -> list[Imported]:
    """Return the records that are not in the store; count the others."""
    known = await _known(store, batch)
    for record in batch:
        if record.id in known:
            _recognise(record, known[record.id], _place(record, places), tally)
    return [record for record in batch if record.id not in known]


def _place(record: Imported, places: Places) -> str:
    """Return where a record stands, and its id."""
    return ": ".join(filter(None, (places.get((type(record), record.id)), record.id)))


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


def _recognise(record: Imported, held: Imported, place: str, tally: Tally) -> None:
    """Count a record that is there; one that is something else under the same id is skipped."""
    match record, held:
        case Message(), Message() if _differs(record, held):
            tally.skip(Skipped(place, ANOTHER))
        case Persona(), Persona() if held.metadata.get(CARD) != record.metadata.get(CARD):
            tally.skip(Skipped(place, ANOTHER_CARD))
        case LoreEntry(), LoreEntry() if held != record:
            tally.skip(Skipped(place, ANOTHER_ENTRY))
        case (Room(), Room()) | (User(), User()) if missing := _missing(record, held):
            tally.skip(Skipped(place, f"it is there and stays as it is; the file says otherwise: {missing}"))
        case _:
            tally.know([record])


def _missing(record: Imported, held: Imported) -> str:
    """Return what a file says of a room or a user that is there, and that the store does not say."""
    told = {"user": "owner", "lorebooks": "lorebooks", "notes": "notes", "character": "character"}
    news = ((getattr(record, field, None), getattr(held, field, None), name) for field, name in told.items())
    return ", ".join(name for said, known, name in news if said and said != known)


def _differs(message: Message, held: Message) -> bool:
    return held.edited is None and (held.room, held.content) != (message.room, message.content)


async def _count_written(store: Store, given: Sequence[Imported], places: Places, tally: Tally) -> None:
    """Count records that are there now: a message that was deleted stays so, and its id is taken."""
    there = await _known(store, given) if isinstance(given[0], Message) else {record.id: record for record in given}
    tally.take(record for record in given if record.id in there)
    for record in given:
        if record.id not in there:
            tally.skip(Skipped(_place(record, places), DELETED))
