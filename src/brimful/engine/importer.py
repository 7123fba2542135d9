"""Import records into a store in batches, one transaction each, so that an interrupted import can be resumed.

Ids are idempotency keys and existing records are kept: importing the same file twice adds nothing.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

import msgspec

from brimful.engine.engine import Writing
from brimful.formats import ImportedRecord, Skipped
from brimful.formats.character_card import CARD_KEY
from brimful.protocols import Store
from brimful.records import (
    Lorebook,
    LoreEntry,
    Memory,
    Message,
    Persona,
    Record,
    Response,
    Room,
    Snapshot,
    Summary,
    User,
)
from brimful.records.usage import UsageReport

MAX_REASONS = 50  # that are told apart; what is skipped for others is counted together
MAX_PLACES = 5  # that are named of one reason
OTHER_REASONS = "other reasons"


class SkippedGroup(msgspec.Struct, frozen=True, kw_only=True):
    """What was skipped for one reason: how much, and the first places."""

    reason: str
    count: int
    places: tuple[str, ...]


class ImportReport(msgspec.Struct, frozen=True, kw_only=True):
    """What an import brought: new records by kind, new messages by role, what was there already, what was skipped."""

    rooms: int
    records: dict[str, int]
    roles: dict[str, int]
    known: int
    skipped: tuple[SkippedGroup, ...]

    @property
    def read(self) -> int:
        """How many records could be read, new or not."""
        return sum(self.records.values()) + self.known


class ImportTally:
    """Counts what comes."""

    def __init__(self) -> None:
        """Begin at nothing."""
        self._rooms: set[str] = set()
        self._records: Counter[str] = Counter()
        self._roles: Counter[str] = Counter()
        self._known = 0
        self._skips: Counter[str] = Counter()
        self._places: dict[str, list[str]] = {}

    def take(self, records: Iterable[ImportedRecord]) -> None:
        """Count new records."""
        for record in records:
            self._note(record)
            self._records[get_record_kind(record)] += 1
            if isinstance(record, Message):
                self._roles[record.role] += 1

    def know(self, records: Iterable[ImportedRecord]) -> None:
        """Count records that were there already."""
        for record in records:
            self._note(record)
            self._known += 1

    def skip(self, skipped: Skipped) -> None:
        """Count what could not be taken, by its reason."""
        reason = skipped.reason if skipped.reason in self._places or len(self._places) < MAX_REASONS else OTHER_REASONS
        self._skips[reason] += 1
        places = self._places.setdefault(reason, [])
        if len(places) < MAX_PLACES:
            places.append(skipped.place)

    def intake(self) -> ImportReport:
        """Return what was counted; the reasons for most skips first."""
        return ImportReport(
            rooms=len(self._rooms),
            records=dict(self._records),
            roles=dict(self._roles.most_common()),
            known=self._known,
            skipped=tuple(
                SkippedGroup(reason=reason, count=count, places=tuple(self._places[reason]))
                for reason, count in self._skips.most_common()
            ),
        )

    def _note(self, record: ImportedRecord) -> None:
        match record:
            case Message():
                self._rooms.add(record.room)
            case Room():
                self._rooms.add(record.id)


def get_record_kind(record: Record) -> str:
    """Return what kind of record it is.

    >>> get_record_kind(Room(id="r"))
    'room'
    """
    return str(record.__struct_config__.tag)


BATCH_RECORDS: Final = 500  # records a transaction
BATCH_BYTES: Final = 16 * 2**20  # … or so much of them, for messages may hold whole pictures
ID_TAKEN: Final = "another message has its id"
MAX_ID_BYTES: Final = 2000  # bytes: an index of PostgreSQL takes a little more
ID_TOO_LONG: Final = f"its id, or one that it names, is longer than {MAX_ID_BYTES:,} bytes"
ENTRY_DIFFERS: Final = (
    "it is another entry, or was changed here; `brimful lorebook import` puts the file's in its place"
)
CARD_DIFFERS: Final = "another card made the persona of that name; `brimful persona remove` makes way for it"
WAS_DELETED: Final = "it was deleted before"

WRITE_ORDER: Final = (
    *(User, Persona, Lorebook, Room, LoreEntry, Message, Summary),
    *(Snapshot, Response, UsageReport, Memory),
)
"""The kinds of records, as they are written."""

ImportItems = Iterator[ImportedRecord | Skipped]
BatchCallback = Callable[[], None]
LocationCallback = Callable[[], str]
"""Says where it stands what was found last, as `file:line` or `file[index]`; empty if nobody knows."""
Locations = dict[tuple[type[ImportedRecord], str], str]


async def import_records(
    engine: Writing,
    found: ImportItems,
    tally: ImportTally,
    *,
    told: BatchCallback = lambda: None,
    where: LocationCallback = lambda: "",
) -> None:
    """Write all records that are found, telling after each batch. Reading and parsing is done on another thread."""
    batches = _batches(found, tally, where)
    while batch := await asyncio.to_thread(next, batches, None):
        for _, group in groupby(batch[0], key=_group_key):
            await _write_batch(engine, list(group), batch[1], tally)
        told()


async def preview_import(
    store: Store | None,
    found: ImportItems,
    tally: ImportTally,
    *,
    told: BatchCallback = lambda: None,
    where: LocationCallback = lambda: "",
) -> None:
    """Count what would come to a store, and what it has already; None is one that is not there yet."""
    batches = _batches(found, tally, where)
    while batch := await asyncio.to_thread(next, batches, None):
        for _, group in groupby(batch[0], key=_group_key):
            given = list(group)
            tally.take(await _select_new(store, given, batch[1], tally) if store else given)
        told()


def _batches(
    found: ImportItems, tally: ImportTally, where: LocationCallback = lambda: ""
) -> Iterator[tuple[list[ImportedRecord], Locations]]:
    """Yield records, no two of a kind with the same id, in an order in which they can be written, and where they stand.

    What is skipped is counted.
    """
    batch: dict[tuple[type[ImportedRecord], str], ImportedRecord] = {}
    places: Locations = {}
    size = 0
    for record in found:
        if isinstance(record, Skipped) or _is_too_long(record):
            place = f"{where()}: " if where() else ""
            tally.skip(record if isinstance(record, Skipped) else Skipped(f"{place}{record.id[:80]}…", ID_TOO_LONG))
            continue
        key = (type(record), record.id)
        if key in batch:
            yield sorted(batch.values(), key=_write_rank), places
            batch, places, size = {}, {}, 0
        batch[key], places[key] = record, where()
        size += len(msgspec.json.encode(record))
        if len(batch) >= BATCH_RECORDS or size >= BATCH_BYTES:
            yield sorted(batch.values(), key=_write_rank), places
            batch, places, size = {}, {}, 0
    if batch:
        yield sorted(batch.values(), key=_write_rank), places


def _is_too_long(record: ImportedRecord) -> bool:
    """Say whether no index would take a record: it must not cost the batch in which it stands."""
    names = (getattr(record, field, None) for field in ("id", "room", "lorebook", "context", "user"))
    return any(isinstance(name, str) and len(name.encode()) > MAX_ID_BYTES for name in names)


def _write_rank(record: ImportedRecord) -> tuple[int, str]:
    """Return a record's place: what is referred to comes first, and memories last, for builds count their accesses."""
    kind, within = _group_key(record)
    return WRITE_ORDER.index(kind), within


def _group_key(record: ImportedRecord) -> tuple[type[ImportedRecord], str]:
    """Return what records share that are written together."""
    return type(record), record.context if isinstance(record, Response) else ""


async def _write_batch(engine: Writing, batch: Sequence[ImportedRecord], places: Locations, tally: ImportTally) -> None:
    fresh = await _select_new(engine.store, batch, places, tally)
    if fresh:
        await engine.load(fresh)
        await _count_written(engine.store, fresh, places, tally)


async def _select_new(
    store: Store, batch: Sequence[ImportedRecord], places: Locations, tally: ImportTally
) -> list[ImportedRecord]:
    """Return the records that are not in the store; count the others."""
    known = await _find_existing(store, batch)
    for record in batch:
        if record.id in known:
            _count_existing(record, known[record.id], _describe_location(record, places), tally)
    return [record for record in batch if record.id not in known]


def _describe_location(record: ImportedRecord, places: Locations) -> str:
    """Return where a record stands, and its id."""
    return ": ".join(filter(None, (places.get((type(record), record.id)), record.id)))


async def _find_existing(store: Store, batch: Sequence[ImportedRecord]) -> dict[str, ImportedRecord]:
    """Return those that are in the store already."""
    ids = [record.id for record in batch]
    found: Sequence[ImportedRecord]
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
        case UsageReport():
            found = await store.observations(ids=ids, limit=len(ids))
        case plain:
            gotten = [await store.get(type(plain), id) for id in ids]
            found = [record for record in gotten if record is not None]
    return {record.id: record for record in found}


def _count_existing(record: ImportedRecord, held: ImportedRecord, place: str, tally: ImportTally) -> None:
    """Count a record that is there; one that is something else under the same id is skipped."""
    match record, held:
        case Message(), Message() if _differs(record, held):
            tally.skip(Skipped(place, ID_TAKEN))
        case Persona(), Persona() if held.metadata.get(CARD_KEY) != record.metadata.get(CARD_KEY):
            tally.skip(Skipped(place, CARD_DIFFERS))
        case LoreEntry(), LoreEntry() if held != record:
            tally.skip(Skipped(place, ENTRY_DIFFERS))
        case (Room(), Room()) | (User(), User()) if missing := _list_differences(record, held):
            tally.skip(Skipped(place, f"it is there and stays as it is; the file says otherwise: {missing}"))
        case _:
            tally.know([record])


def _list_differences(record: ImportedRecord, held: ImportedRecord) -> str:
    """Return what a file says of a room or a user that is there, and that the store does not say."""
    told = {"user": "owner", "lorebooks": "lorebooks", "notes": "notes", "character": "character"}
    news = ((getattr(record, field, None), getattr(held, field, None), name) for field, name in told.items())
    return ", ".join(name for said, known, name in news if said and said != known)


def _differs(message: Message, held: Message) -> bool:
    return held.edited is None and (held.room, held.content) != (message.room, message.content)


async def _count_written(store: Store, given: Sequence[ImportedRecord], places: Locations, tally: ImportTally) -> None:
    """Count records that are there now: a message that was deleted stays so, and its id is taken."""
    there = (
        await _find_existing(store, given) if isinstance(given[0], Message) else {record.id: record for record in given}
    )
    tally.take(record for record in given if record.id in there)
    for record in given:
        if record.id not in there:
            tally.skip(Skipped(_describe_location(record, places), WAS_DELETED))
