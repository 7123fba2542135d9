"""Import and export of records.

An import writes batches, one transaction each, so that an interrupted import can be resumed. Ids are idempotency keys
and existing records are kept: importing the same file twice adds nothing. An export writes JSON Lines that `brimful
import` reads, or the formats of other programs.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final

import msgspec

from brimful.core.validation import preview
from brimful.engine.engine import Engine
from brimful.errors import InvalidValue
from brimful.formats import (
    ImportedItem,
    ImportedRecord,
    Reader,
    Replaces,
    Skipped,
    check_files,
    read_checked,
    write_card,
    write_chat_head,
    write_chat_line,
    write_openai_messages,
)
from brimful.formats.character_card import CARD_KEY, card_lorebook_id
from brimful.lore import check_keywords
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
from brimful.records.memory import MemoryFilters
from brimful.records.usage import UsageReport
from brimful.stores import Store
from brimful.stores.admin.export import WRITE_RECORDS

MAX_REASONS = 50  # further reasons are counted together
MAX_LOCATIONS = 5  # locations listed per reason
OTHER_REASONS = "other reasons"
MAX_ID_SHOWN: Final = 80  # characters of an id in the report
MAX_ID_BYTES: Final = 2000  # an index of PostgreSQL takes a little more
_MESSAGE_BYTES: Final = 200  # about, besides its content
ID_TAKEN: Final = "another message has this id"
ID_TOO_LONG: Final = f"an id is longer than {MAX_ID_BYTES:,} bytes"
ENTRY_DIFFERS: Final = "the entry differs from the stored one; `brimful lorebook import` replaces it"
CARD_DIFFERS: Final = "a persona of this name came from another card; remove it first with `brimful persona remove`"
WAS_DELETED: Final = "it was deleted before"
WRITE_ORDER: Final = (
    *(User, Persona, Lorebook, Room, LoreEntry, Message, Summary),
    *(Snapshot, Response, UsageReport, Memory),
)
"""The kinds of records in the order in which they are written."""


class SkippedGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Items that were skipped for one reason: their number and the first locations."""

    reason: str
    count: int
    locations: tuple[str, ...]


class ImportReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an import: new records by kind, new messages by role, known records, skipped items.

    `updated` memories were older in the store, and `archived` ones are gone from their file.
    """

    rooms: int
    records: dict[str, int]
    roles: dict[str, int]
    known: int
    updated: int = 0
    archived: int = 0
    skipped: tuple[SkippedGroup, ...]

    @property
    def read(self) -> int:
        """Number of records that could be read, new or not."""
        return sum(self.records.values()) + self.known + self.updated + self.archived


class ImportTally:
    """Counts the records of an import."""

    def __init__(self) -> None:
        self._rooms: set[str] = set()
        self._records: Counter[str] = Counter()
        self._roles: Counter[str] = Counter()
        self._known = 0
        self._updated = 0
        self._archived = 0
        self._skips: Counter[str] = Counter()
        self._locations: dict[str, list[str]] = {}

    def add_new(self, records: Iterable[ImportedRecord]) -> None:
        for record in records:
            self._note(record)
            self._records[get_record_kind(record)] += 1
            if isinstance(record, Message):
                self._roles[record.role] += 1

    def add_known(self, records: Iterable[ImportedRecord]) -> None:
        """Count records that were in the store already."""
        for record in records:
            self._note(record)
            self._known += 1

    def add_updated(self, memories: Iterable[Memory]) -> None:
        """Count memories that are newer than those in the store."""
        self._updated += sum(1 for _ in memories)

    def add_archived(self, memories: Iterable[Memory]) -> None:
        """Count memories that are gone from their file."""
        self._archived += sum(1 for _ in memories)

    def add_skipped(self, skipped: Skipped) -> None:
        """Count an item that was skipped, by its reason."""
        reason = (
            skipped.reason if skipped.reason in self._locations or len(self._locations) < MAX_REASONS else OTHER_REASONS
        )
        self._skips[reason] += 1
        locations = self._locations.setdefault(reason, [])
        if len(locations) < MAX_LOCATIONS:
            locations.append(skipped.location)

    def make_report(self) -> ImportReport:
        """Return the counts; the most frequent reasons first."""
        return ImportReport(
            rooms=len(self._rooms),
            records=dict(self._records),
            roles=dict(self._roles.most_common()),
            known=self._known,
            updated=self._updated,
            archived=self._archived,
            skipped=tuple(
                SkippedGroup(reason=reason, count=count, locations=tuple(self._locations[reason]))
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
    """Return the kind of a record.

    >>> get_record_kind(Room(id="r"))
    'room'
    """
    return str(record.__struct_config__.tag)


ImportItems = Iterator[ImportedItem]
BatchCallback = Callable[[], None]
LocationCallback = Callable[[], str]
"""Returns the location of the last item, as `file:line` or `file[index]`; empty if unknown."""
Locations = dict[tuple[type[ImportedRecord], str], str]


class BatchLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a transaction. Messages may hold whole pictures, so bytes are limited, too."""

    max_records: int = WRITE_RECORDS
    max_bytes: int = 16 * 2**20


_LIMITS: Final = BatchLimits()


async def import_records(
    engine: Engine,
    items: ImportItems,
    tally: ImportTally,
    *,
    on_batch: BatchCallback = lambda: None,
    get_location: LocationCallback = lambda: "",
    limits: BatchLimits = _LIMITS,
    index: bool = True,
) -> None:
    """Write all records. Files are read and parsed in a thread; `on_batch` is called after each batch.

    Messages are written first and indexed after that, so that an import that is interrupted has written as much as it
    could. Without `index`, they are indexed in the background, or by `engine.index_deferred()`.
    """
    async with aclosing(_read_ahead(_make_batches(items, get_location, limits), tally)) as batches:
        async for batch in batches:
            for records in batch.in_write_order():
                await _write_batch(engine, records, batch.locations, tally)
            for replaced in batch.replaced:
                gone, back = await _find_replaced(engine.store, replaced)
                await engine.load([*gone, *back])
                tally.add_archived(gone)
                tally.add_updated(back)
            on_batch()
    if index:
        await engine.index_deferred()


class ImportFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file, folder or archive that a worker imports: its path in the worker's folder, and how to read it."""

    path: str
    room: str | None = None
    format: str | None = None
    user: str | None = None
    salvage: bool = False

    def resolve(self, folder: Path) -> Path:
        """Return the path in a folder; raise if it leads out of it."""
        path = (folder / self.path).resolve()
        if not path.is_relative_to(folder.resolve()):
            raise InvalidValue("path", f"must be in the folder of the worker, not {preview(self.path)}")
        return path


async def import_file(
    engine: Engine, file: ImportFile, folder: Path, *, on_batch: BatchCallback = lambda: None
) -> ImportReport:
    """Import a file, and index its messages. What an earlier attempt imported is not imported again."""
    tally = ImportTally()
    with Reader([str(file.resolve(folder))], room=file.room, format=file.format, user=file.user) as reader:
        if not file.salvage:
            await asyncio.to_thread(check_files, reader, on_progress=on_batch)
        records = reader.records() if file.salvage else read_checked(reader)
        await import_records(
            engine, records, tally, on_batch=on_batch, get_location=lambda: reader.location, index=False
        )
    report = tally.make_report()
    if not report.read:
        raise InvalidValue("path", f"{preview(file.path)} has nothing to import")
    await engine.index_deferred(lambda _: on_batch())
    return report


async def preview_import(
    store: Store | None,
    items: ImportItems,
    tally: ImportTally,
    *,
    on_batch: BatchCallback = lambda: None,
    get_location: LocationCallback = lambda: "",
) -> None:
    """Count what an import would add to a store, and what is there already. None is a store that does not exist."""
    async with aclosing(_read_ahead(_make_batches(items, get_location, _LIMITS), tally)) as batches:
        async for batch in batches:
            for records in batch.in_write_order():
                new, newer = await _select_new(store, records, batch.locations, tally) if store else (records, [])
                tally.add_new(new)
                tally.add_updated(newer)
            for replaced in batch.replaced:
                gone, back = await _find_replaced(store, replaced) if store else ([], [])
                tally.add_archived(gone)
                tally.add_updated(back)
            on_batch()


class _Batch:
    """Records to write together, with their locations, and what was skipped between them."""

    def __init__(self) -> None:
        self.groups: dict[tuple[type[ImportedRecord], str], list[ImportedRecord]] = {}
        self.locations: Locations = {}
        self.skipped: list[Skipped] = []
        self.replaced: list[Replaces] = []
        self.size = 0

    def is_full(self, limits: BatchLimits) -> bool:
        return len(self.locations) + len(self.skipped) >= limits.max_records or self.size >= limits.max_bytes

    def in_write_order(self) -> list[list[ImportedRecord]]:
        """Return the records by kind: referenced kinds first, memories last, since contexts count their accesses."""
        return [self.groups[key] for key in sorted(self.groups, key=lambda key: (WRITE_ORDER.index(key[0]), key[1]))]


async def _read_ahead(batches: Iterator[_Batch], tally: ImportTally) -> AsyncGenerator[_Batch]:
    """Yield batches, and count what was skipped. The next batch is read in a thread while this one is written."""
    following = asyncio.ensure_future(asyncio.to_thread(next, batches, None))
    try:
        while batch := await following:
            following = asyncio.ensure_future(asyncio.to_thread(next, batches, None))
            for skipped in batch.skipped:
                tally.add_skipped(skipped)
            yield batch
    finally:
        await asyncio.gather(following, return_exceptions=True)  # it still uses the files


def _make_batches(items: ImportItems, get_location: LocationCallback, limits: BatchLimits) -> Iterator[_Batch]:
    """Yield batches. No two records of a kind in a batch have the same id."""
    batch = _Batch()
    for item in items:
        if batch.is_full(limits):
            yield batch
            batch = _Batch()
        if isinstance(item, Skipped):
            batch.skipped.append(item)
            continue
        if isinstance(item, Replaces):
            batch.replaced.append(item)
            continue
        if refusal := _find_refusal(item):
            prefix = f"{get_location()}: " if get_location() else ""
            name = item.id if len(item.id) <= MAX_ID_SHOWN else f"{item.id[:MAX_ID_SHOWN]}…"
            batch.skipped.append(Skipped(f"{prefix}{name}", refusal))
            continue
        key = (type(item), item.id)
        if key in batch.locations:
            yield batch
            batch = _Batch()
        batch.locations[key] = get_location()
        batch.groups.setdefault(_group_key(item), []).append(item)
        batch.size += _estimate_bytes(item)
    yield batch


def _estimate_bytes(record: ImportedRecord) -> int:
    """Return about how large a record is. A plain text need not be encoded for that."""
    if isinstance(record, Message) and isinstance(record.content, str) and not record.metadata:
        return _MESSAGE_BYTES + len(record.content)
    return len(msgspec.json.encode(record))


def _find_refusal(record: ImportedRecord) -> str:
    """Return why a record cannot be written, or an empty string. Such a record must not fail its whole batch."""
    if isinstance(record, Message):
        return ID_TOO_LONG if max(len(record.id), len(record.room)) > MAX_ID_BYTES // 4 and _has_long_id(record) else ""
    if _has_long_id(record):
        return ID_TOO_LONG
    if isinstance(record, LoreEntry):
        try:
            check_keywords(record)
        except InvalidValue as error:
            return error.reason
    return ""


def _has_long_id(record: ImportedRecord) -> bool:
    names = (getattr(record, field, None) for field in ("id", "room", "lorebook", "context", "user"))
    return any(isinstance(name, str) and len(name.encode()) > MAX_ID_BYTES for name in names)


def _group_key(record: ImportedRecord) -> tuple[type[ImportedRecord], str]:
    """Return a key that is equal for records that are written together."""
    return type(record), record.context if isinstance(record, Response) else ""


async def _write_batch(
    engine: Engine, batch: Sequence[ImportedRecord], locations: Locations, tally: ImportTally
) -> None:
    new, newer = await _select_new(engine.store, batch, locations, tally)
    if new or newer:
        await engine.load([*new, *newer], defer=True)
        tally.add_updated(newer)
    if new:
        await _count_written(engine.store, new, locations, tally)


async def _select_new(
    store: Store, batch: Sequence[ImportedRecord], locations: Locations, tally: ImportTally
) -> tuple[list[ImportedRecord], list[Memory]]:
    """Return the records that are not in the store, and the memories that are older there. Count the others."""
    known = await _find_existing(store, batch)
    newer = []
    for record in batch:
        stored = known.get(record.id)
        if isinstance(record, Memory) and isinstance(stored, Memory) and (update := _find_update(record, stored)):
            newer.append(update)
        elif stored is not None:
            _count_existing(record, stored, _describe_location(record, locations), tally)
    return [record for record in batch if record.id not in known], newer


def _find_update(memory: Memory, stored: Memory) -> Memory | None:
    """Return a memory as it is in a file, if it was changed there after it was changed in the store; otherwise None.

    A file that says nothing of updates only has the time of the file.
    """
    changed = memory.at if memory.edited is None else memory.edited
    if changed <= (stored.at if stored.edited is None else stored.edited):
        return None
    at = stored.at if memory.edited is None else memory.at
    same = msgspec.structs.replace(
        memory, at=at, edited=stored.edited, accesses=stored.accesses, accessed=stored.accessed
    )
    return None if same == stored else msgspec.structs.replace(same, edited=changed)


async def _find_replaced(store: Store, replaced: Replaces) -> tuple[list[Memory], list[Memory]]:
    """Return the memories that are gone from a file, archived, and those that are in it again."""
    gone, back = [], []
    async for memory in read_memories(store, prefix=replaced.prefix):
        if memory.id not in replaced.keep and not memory.archived:
            gone.append(msgspec.structs.replace(memory, archived=True, ended=replaced.at))
        elif memory.id in replaced.keep and memory.archived and memory.ended is not None:
            back.append(msgspec.structs.replace(memory, archived=False, ended=None))
    return gone, back


def _describe_location(record: ImportedRecord, locations: Locations) -> str:
    return ": ".join(filter(None, (locations.get((type(record), record.id)), record.id)))


async def _find_existing(store: Store, batch: Sequence[ImportedRecord]) -> dict[str, ImportedRecord]:
    """Return the records that are in the store already, by id."""
    ids = [record.id for record in batch]
    found: Sequence[ImportedRecord]
    match batch[0]:
        case Message():
            found = await store.messages(ids)
        case Memory():
            found = await store.memories(ids=ids, state=None, limit=len(ids))
        case LoreEntry():
            found = await store.lore(ids=ids)
        case Summary():
            found = await store.summaries(ids=ids)
        case Snapshot():
            found = [record for record in batch if await store.build(record.id) is not None]
        case Response(context=context):
            found = await store.responses(context=context)
        case UsageReport():
            found = await store.usage_reports(ids=ids, summaries=True, limit=len(ids))
        case plain:
            found = await store.get_many(type(plain), ids)
    return {record.id: record for record in found}


def _count_existing(record: ImportedRecord, stored: ImportedRecord, location: str, tally: ImportTally) -> None:
    """Count a record that is in the store; if the stored one differs, count it as skipped."""
    match record, stored:
        case Message(), Message() if _differs(record, stored):
            tally.add_skipped(Skipped(location, ID_TAKEN))
        case Persona(), Persona() if stored.metadata.get(CARD_KEY) != record.metadata.get(CARD_KEY):
            tally.add_skipped(Skipped(location, CARD_DIFFERS))
        case LoreEntry(), LoreEntry() if stored != record:
            tally.add_skipped(Skipped(location, ENTRY_DIFFERS))
        case (Room(), Room()) | (User(), User()) if missing := _list_differences(record, stored):
            tally.add_skipped(Skipped(location, f"it exists and was not changed; the file differs in: {missing}"))
        case _:
            tally.add_known([record])


def _list_differences(record: ImportedRecord, stored: ImportedRecord) -> str:
    """Return the fields of a room or user that differ from the stored ones."""
    names = {"user": "owner", "lorebooks": "lorebooks", "notes": "notes", "character": "character"}
    values = ((name, getattr(record, field, None), getattr(stored, field, None)) for field, name in names.items())
    return ", ".join(name for name, new, old in values if new and new != old)


def _differs(message: Message, stored: Message) -> bool:
    return stored.edited is None and (stored.room, stored.content) != (message.room, message.content)


async def _count_written(
    store: Store, records: Sequence[ImportedRecord], locations: Locations, tally: ImportTally
) -> None:
    """Count records that are in the store now. A message that was deleted stays deleted."""
    is_message = isinstance(records[0], Message)
    deleted = set(await store.deleted_messages([each.id for each in records], purged=True) if is_message else ())
    tally.add_new(record for record in records if record.id not in deleted)
    for record in records:
        if record.id in deleted:
            tally.add_skipped(Skipped(_describe_location(record, locations), WAS_DELETED))


PAGE_RECORDS: Final = 500  # records per read


async def read_messages(store: Store, room: Room) -> AsyncIterator[Message]:
    """Yield the messages of a room in order, including archived ones."""
    newest = await store.history(room.id, limit=1, include_archived=True)
    last = newest[0].message.seq if newest else 0
    for first in range(1, last + 1, PAGE_RECORDS):
        positions = range(first, min(first + PAGE_RECORDS, last + 1))
        for entry in await store.messages_at(room.id, positions, include_archived=True):
            yield entry.message


async def read_memories(store: Store, *, prefix: str = "") -> AsyncIterator[Memory]:
    """Yield all memories whose ids start with a prefix, newest first, including archived and proposed ones."""
    before, after = None, ""
    filters = MemoryFilters(prefix=prefix, archived=None, state=None)
    while page := await store.memories(before=before, after=after, limit=PAGE_RECORDS, **filters):
        for memory in page:
            yield memory
        before, after = page[-1].at, page[-1].id


async def export_room(store: Store, room: Room) -> AsyncIterator[ImportedRecord]:
    """Yield a room, its messages, and its summaries."""
    yield room
    async for message in read_messages(store, room):
        yield message
    for summary in reversed(await store.summaries(room.id)):
        yield summary


async def export_lorebook(store: Store, book: Lorebook) -> AsyncIterator[ImportedRecord]:
    yield book
    for entry in await store.lore([book.id]):
        yield entry


async def export_persona(store: Store, persona: Persona) -> AsyncIterator[ImportedRecord]:
    yield persona
    for id in dict.fromkeys([*persona.lorebooks, *filter(None, [card_lorebook_id(persona)])]):
        book = await store.get(Lorebook, id)
        if book is not None:
            async for record in export_lorebook(store, book):
                yield record


async def export_conversation(store: Store, room: Room) -> dict[str, Any]:
    """Return a room as a conversation in OpenAI's format."""
    messages = [row async for message in read_messages(store, room) for row in write_openai_messages(message)]
    tools = room.metadata.get("tools")
    return {"id": room.id, "messages": messages, **({"tools": tools} if tools else {})}


async def export_chat_lines(store: Store, room: Room) -> AsyncIterator[dict[str, Any]]:
    """Yield a room as the lines of a SillyTavern chat."""
    user = await store.get(User, room.user) if room.user else None
    persona = await store.get(Persona, room.persona) if room.persona else None
    yield write_chat_head(
        room,
        user=(user.name if user else "") or room.user or "User",
        character=persona.called if persona else room.persona or room.name or room.id,
    )
    async for message in read_messages(store, room):
        yield write_chat_line(message)


async def export_card(store: Store, persona: Persona) -> dict[str, Any]:
    """Return a persona as a character card, with its lorebook."""
    id = card_lorebook_id(persona)
    book = await store.get(Lorebook, id) if id else None
    return write_card(persona, book, await store.lore([book.id]) if book else ())
