"""Clean up rooms: summarize days, roll up months and years, and archive messages that no context used."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import msgspec

from brimful.assembly.assemble import package
from brimful.core.content import ContentPackage
from brimful.core.context import Context
from brimful.core.model import ModelInfo
from brimful.core.notice import Notice
from brimful.core.validation import preview, to_finite_float
from brimful.engine.events import Emitter
from brimful.engine.exchange import describe_overflow, get_retry_window
from brimful.engine.indexer import Indexer
from brimful.engine.options import BuildRequest, EngineSettings
from brimful.engine.own_calls import OwnCalls
from brimful.engine.writer import Writer, new_id
from brimful.errors import BrimfulError, ContextOverflow, InvalidValue, ProviderError, SpendingLimitReached
from brimful.janitor import summaries as _summaries
from brimful.janitor.audit import CLEANED, Finding, audit_memories
from brimful.janitor.days import Day, merge_spans, spans_contain
from brimful.janitor.extractive import ExtractiveSummarizer
from brimful.janitor.families import find_duplicate_memories
from brimful.janitor.schedule import (
    DueDay,
    RollUp,
    find_due_days,
    find_roll_ups,
    is_roll_up,
    janitor_summaries,
    summary_level,
)
from brimful.janitor.topics import Topics, group_by_thread, merge_by_subject
from brimful.packagers.records import JANITOR, janitor_session, plain_text
from brimful.protocols import Digest, Embedder, Passage, Provider, Summarizer
from brimful.records import Memory, Message, Persona, Room, Summary
from brimful.records.base import parse_duration
from brimful.records.reply import Reply
from brimful.records.runs import JanitorChange, JanitorRun
from brimful.retrieval.analyzer import analyze
from brimful.retrieval.documents import make_document
from brimful.retrieval.retriever import embed_checked
from brimful.retrieval.small_talk import is_small_talk
from brimful.stores import Store
from brimful.stores.admin.runs import JanitorStore
from brimful.threads import run_in_thread

_WORDS_PER_TOKEN: Final = 0.7
_CHARS_PER_TOKEN: Final = 8  # a summary with more characters than its tokens could have is cut
_MAX_RETRIES: Final = 3  # of a request that the provider refuses as too long, each for a smaller window
_MIN_TOKENS: Final = 64  # of a passage that is larger than the window
MIN_BUILDS: Final = 20  # contexts of a room on record before any message counts as unused
MAX_EMBEDDED_THREADS: Final = 2_000  # per day; more are not compared by meaning
_MAX_EMBEDDED_CHARS: Final = 2_000  # of a thread
JANITOR_LEASE: Final = 90.0  # seconds after which a janitor without a heartbeat counts as dead
HEARTBEAT: Final = 20.0  # seconds between two heartbeats
_PAGE_RECORDS: Final = 500  # rooms or memories per read
_MAX_MEMORIES_IN_SCOPE: Final = 20_000  # memories of one scope that are compared with each other


Build = Callable[[BuildRequest], Awaitable[Context]]
"""Builds a context and saves its record."""


class ModelSummarizer:
    """Summarizes with a language model, as many passages at a time as fit its window, extending the summary so far.

    It works in a session of its own, whose contexts are built and recorded like all others. The room of the session is
    `janitor_session(room)`; its persona is the janitor's.
    """

    incremental: Final = True

    def __init__(
        self, model: ModelInfo, provider: Provider, *, build: Build, own_calls: OwnCalls, window: int | None = None
    ) -> None:
        """Use this model; `window` overrides the model's own."""
        self._model = model
        self._provider = provider
        self._build = build
        self._send = partial(own_calls.send, "summary", provider)
        self._window = window

    async def summarize(self, digest: Digest) -> str:
        """Return a summary of the passages."""
        remaining = [passage for topic in digest.topics for passage in topic]
        text = digest.previous
        while remaining:
            reply, _, count = await send_passages(
                remaining,
                partial(self._make_request, digest, text),
                send=self._send,
                build=self._build,
                window=self._window,
            )
            text = reply.text.strip()[: digest.tokens * _CHARS_PER_TOKEN]
            if not text:
                raise ProviderError(self._provider.route, "returned an empty summary")
            remaining = remaining[count:]
        return text

    def _make_request(self, digest: Digest, previous: str, passages: Sequence[Passage]) -> BuildRequest:
        words = int(digest.tokens * _WORDS_PER_TOKEN)
        instruction = f"Summarize the messages above ({digest.title}) in at most {words} words."
        if digest.focus:
            where = f'Messages under a heading with "in {digest.room}" are from before: do not summarize them.'
            instruction = f"{instruction} Pay attention to {digest.focus}. {where}"
        packages = [package_passage(i, passage, self._model) for i, passage in enumerate(passages)]
        if previous:
            packages.append(package("summary", previous, model=self._model, id="previous", can_drop=False))
        return BuildRequest(
            room=janitor_session(digest.room) if digest.room else JANITOR,
            persona=JANITOR,
            message=instruction,
            model=self._model,
            focus=digest.focus,
            # Without a focus, there is nothing to search for, and nothing but the passages belongs in the summary.
            retrieval=None if digest.focus else {"memories": False, "lore": False, "max_results": 0},
            search_room=digest.room,
            now=max((passage.at for passage in passages), default=0.0),
            wire=self._provider.wire,
            route=self._provider.route,
            packages=tuple(packages),
        )


def _passage_id(index: int) -> str:
    return f"{JANITOR}/passage-{index}"


async def send_passages(
    passages: Sequence[Passage],
    make_request: Callable[[Sequence[Passage]], BuildRequest],
    *,
    send: Callable[[Context], Awaitable[Reply]],
    build: Build,
    window: int | None,
) -> tuple[Reply, Context, int]:
    """Send as many passages as fit whole. Returns the reply, the context and their number.

    If the provider refuses them as too long, fewer are sent.
    """
    notices: tuple[Notice, ...] = ()
    while True:
        context, count = await _fit_passages(passages, make_request, build, window, notices)
        try:
            return await send(context), context, count
        except ContextOverflow as overflow:
            if len(notices) == _MAX_RETRIES:
                raise
            window = get_retry_window(context, overflow)
            notices = (*notices, describe_overflow(context, overflow))


async def _fit_passages(
    passages: Sequence[Passage],
    make_request: Callable[[Sequence[Passage]], BuildRequest],
    build: Build,
    window: int | None,
    notices: tuple[Notice, ...],
) -> tuple[Context, int]:
    """Return a context with as many passages as fit whole, and their number."""
    count = len(passages)
    while True:
        request = msgspec.structs.replace(make_request(passages[:count]), window=window, notices=notices)
        context = await build(msgspec.structs.replace(request, save=False))
        included = {decision.id for decision in context.decisions if decision.outcome in ("kept", "duplicate")}
        if count == 1 or all(_passage_id(i) in included for i in range(count)):
            return await build(request), count
        count = max(1, min(count // 2, len(included)))


def package_passage(index: int, passage: Passage, model: ModelInfo) -> ContentPackage:
    """Package a passage for `send_passages`."""
    return package(
        "message-older",
        passage.text,
        model=model,
        id=_passage_id(index),
        name=passage.speaker,
        timestamp=passage.at,
        position=index,
        relevance=1.0,
        min_tokens=_MIN_TOKENS,
    )


class RoomReport(msgspec.Struct, frozen=True, kw_only=True):
    """What the janitor did in a room.

    `floods` are the lines that now replace floods. `summaries` were written, `rolled_up` of them for months and years.
    `messages` were archived, `unused` of them because no context included them. `pending` days, months and years are
    left to summarize. `notes` say what could not be done. `postponed_until` is set if own calls have reached their
    daily limit: then the rest of the days can be summarized.
    """

    room: str
    floods: tuple[str, ...] = ()
    summaries: int = 0
    rolled_up: int = 0
    messages: int = 0
    unused: int = 0
    pending: int = 0
    notes: tuple[str, ...] = ()
    postponed_until: float | None = None

    def with_change(self, change: JanitorChange) -> "RoomReport":
        fresh = [each for each in change.write if not is_roll_up(each)]
        lines = tuple(each.content for each in fresh if summary_level(each) == "family")
        return msgspec.structs.replace(
            self,
            floods=(*self.floods, *lines),
            summaries=self.summaries + len(change.write),
            rolled_up=self.rolled_up + len(change.write) - len(fresh),
            messages=self.messages + len(change.messages),
        )

    def __bool__(self) -> bool:
        """Whether anything was done, is left to do, or could not be done."""
        return bool(self.summaries or self.messages or self.pending or self.notes)


class JanitorReport(msgspec.Struct, frozen=True, kw_only=True):
    """What the janitor did, or with `dry_run` would do.

    `run` is the number of the run, None if there was nothing to do. `memories` were archived as duplicates. `purged`
    counts records archived by earlier runs and now deleted.
    """

    run: int | None = None
    dry_run: bool = False
    rooms: tuple[RoomReport, ...] = ()
    memories: int = 0
    purged: int = 0

    @property
    def pending(self) -> int:
        """The number of days, months and years that are left to summarize."""
        return sum(room.pending for room in self.rooms)

    @property
    def postponed_until(self) -> float | None:
        """When the rest can be summarized, if own calls have reached their daily limit."""
        return max((room.postponed_until for room in self.rooms if room.postponed_until is not None), default=None)

    @property
    def facts(self) -> dict[str, int]:
        return {
            "rooms": sum(bool(room.summaries or room.messages) for room in self.rooms),
            "floods": sum(len(room.floods) for room in self.rooms),
            "summaries": sum(room.summaries for room in self.rooms),
            "messages": sum(room.messages for room in self.rooms),
            "memories": self.memories,
        }


class AuditReport(msgspec.Struct, frozen=True, kw_only=True):
    """What an audit of memories found: how many were read, and what is not worth having.

    `run` is the number of the run that archived duplicates and junk, None if none did.
    """

    memories: int
    findings: tuple[Finding, ...]
    run: int | None = None


ApplyChange = Callable[[JanitorChange], Awaitable[None]]
JanitorCallback = Callable[[float], None]
"""Is called with the share of the work that is done, from 0 to 1."""

_log = logging.getLogger("brimful")


class RoomSweep:
    """Cleans up rooms, one after the other. Messages older than `min_age` seconds may be archived; None: none are.

    Without `summarize`, it only collapses floods, and counts what is left to summarize.
    """

    def __init__(  # noqa: PLR0913 - as `Engine.run_janitor`
        self,
        store: Store,
        housekeeping: JanitorStore,
        summarizer: Summarizer,
        embedder: Embedder | None,
        *,
        now: float,
        min_age: float | None,
        summarize: bool,
        focus: str,
        fallback: bool,
    ) -> None:
        self._store = store
        self._housekeeping = housekeeping
        self._summarizer = summarizer
        self._embedder = embedder
        self._now = now
        self._min_age = min_age
        self._summarize = summarize
        self._focus = focus
        self._fallback = ExtractiveSummarizer(analyze) if fallback else None
        self._limit: SpendingLimitReached | None = None  # from then on, nothing is summarized

    async def clean(self, room: str, apply: ApplyChange, on_progress: JanitorCallback) -> RoomReport:
        """Clean up a room, change by change."""
        positions = await self._housekeeping.positions(room)
        known = {summary.id: summary for summary in janitor_summaries(await self._store.summaries(room))}
        report = RoomReport(room=room)
        notes: list[str] = []
        pending = 0

        async def change_room(change: JanitorChange) -> RoomReport:
            if change:
                await apply(change)
                _update_summaries(known, change)
            return report.with_change(change)

        due = await run_in_thread(find_due_days, positions, tuple(known.values()))
        for index, day in enumerate(due):
            change, is_pending = await self._change_day(room, day, notes)
            pending += is_pending
            report = await change_room(change)
            on_progress((index + 1) / (len(due) + 1))
        while roll_ups := find_roll_ups(positions, tuple(known.values()), self._now):
            try:
                for roll_up in roll_ups if self._summarizes else ():
                    report = await change_room(await self._roll_up(room, roll_up, notes))
            except SpendingLimitReached as limit:
                self._limit = limit
            if not self._summarizes:
                pending += len(find_roll_ups(positions, tuple(known.values()), self._now))
                break
        unused = await self._find_unused(room, known.values(), notes)
        report = await change_room(JanitorChange(messages=unused))
        if pending and self._limit is not None:
            notes.append(f"{pending} days, months and years are not summarized yet: {self._limit}")
            report = msgspec.structs.replace(report, postponed_until=self._limit.until)
        return msgspec.structs.replace(report, unused=len(unused), pending=pending, notes=tuple(dict.fromkeys(notes)))

    @property
    def _summarizes(self) -> bool:
        return self._summarize and self._limit is None

    async def _change_day(self, room: str, day: DueDay, notes: list[str]) -> tuple[JanitorChange, bool]:
        """Return the change for a day, and whether the day has to be summarized later."""
        if self._summarizes:
            try:
                return await self._summarize_day(room, day, notes), False
            except SpendingLimitReached as limit:
                self._limit = limit
        return await self._collapse_floods(room, day)

    async def _separate_floods(self, room: str, day: Day) -> _summaries.DayContents:
        messages = await self._housekeeping.messages(room, [position.seq for position in day.positions])
        return await run_in_thread(_summaries.separate_floods, messages)

    async def _collapse_floods(self, room: str, due: DueDay) -> tuple[JanitorChange, bool]:
        """Return the change for the floods of a day, and whether the day has to be summarized as well."""
        if any(map(is_roll_up, due.summaries)):  # its floods are part of the summary of a month or a year
            return JanitorChange(), True
        separated = await self._separate_floods(room, due.day)
        unaffected = _summaries.unaffected_summaries(due, separated)
        new = [*_summaries.flood_summaries(room, due.day.name, separated, self._now), *unaffected]
        return _summaries.make_day_change(due, separated, new), bool(separated.rest or unaffected)

    async def _summarize_day(self, room: str, due: DueDay, notes: list[str]) -> JanitorChange:
        day = due.day
        separated = await self._separate_floods(room, day)
        new = _summaries.flood_summaries(room, day.name, separated, self._now)
        if separated.rest:
            previous = _summaries.extendable_summary(due, separated) if self._summarizer.incremental else None
            topics = await self._group_topics(separated.rest, notes)
            digest = _summaries.make_digest(topics, separated.rest, previous)
            text = await self._write_summary(room, digest, notes)
            new.append(_summaries.make_day_summary(room, day.name, separated, digest, text, now=self._now))
        return _summaries.make_day_change(due, separated, new)

    async def _roll_up(self, room: str, roll_up: RollUp, notes: list[str]) -> JanitorChange:
        digest = _summaries.make_roll_up_digest(roll_up)
        text = await self._write_summary(room, digest, notes) if roll_up.parts else ""
        return _summaries.make_roll_up_change(room, roll_up, digest, text, now=self._now)

    async def _write_summary(self, room: str, digest: Digest, notes: list[str]) -> str:
        """Let the summarizer write; if it fails and there is a fallback, quote messages instead and note that."""
        digest = msgspec.structs.replace(digest, room=room, focus=self._focus)
        try:
            return await self._summarizer.summarize(digest)
        except SpendingLimitReached:
            raise
        except BrimfulError as error:
            if self._fallback is None:
                raise
            notes.append(f"summaries quote messages because the summarizer failed ({error})")
            fresh = await self._fallback.summarize(digest)
            return "\n".join(text for text in (digest.previous, fresh) if text)

    async def _group_topics(self, messages: Sequence[Message], notes: list[str]) -> Topics:
        """Group messages by thread, and threads by subject if there is an embedder."""
        threads = group_by_thread(messages)
        if self._embedder is None or not 1 < len(threads) <= MAX_EMBEDDED_THREADS:
            return threads
        texts = ["\n".join(plain_text(each.content) for each in thread)[:_MAX_EMBEDDED_CHARS] for thread in threads]
        try:
            vectors = await embed_checked(self._embedder, texts, "passage")
        except Exception as error:  # noqa: BLE001 - an embedder may be user code, and topics are not worth a failure
            _log.warning("topics are grouped by thread only: %s: %s", type(error).__name__, error)
            notes.append(f"topics are grouped by thread only because the embedder failed ({type(error).__name__})")
            return threads
        return await run_in_thread(merge_by_subject, threads, vectors)

    async def _find_unused(self, room: str, summaries: Iterable[Summary], notes: list[str]) -> tuple[str, ...]:
        """Return old messages that a summary covers and that no recorded context included."""
        if self._min_age is None:
            return ()
        builds = await self._housekeeping.count_builds(room)
        if builds < MIN_BUILDS:
            notes.append(f"only {builds} contexts are on record; unused messages are known from {MIN_BUILDS} on")
            return ()
        covered = merge_spans(span for each in summaries if summary_level(each) != "family" for span in each.spans)
        found = await self._housekeeping.unused_messages(room, before=self._now - self._min_age)
        return tuple(id for seq, id in found if spans_contain(covered, seq))


def _update_summaries(known: dict[str, Summary], change: JanitorChange) -> None:
    for id in change.remove:
        known.pop(id, None)
    known.update({summary.id: summary for summary in change.write})


class Janitor:
    """Cleans up the rooms and memories of one tenant. Every run can be undone."""

    def __init__(
        self,
        store: Store,
        housekeeping: JanitorStore,
        embedder: Embedder | None,
        settings: EngineSettings,
        *,
        writer: Writer,
        indexer: Indexer | None,
        events: Emitter,
    ) -> None:
        self._store = store
        self._housekeeping = housekeeping
        self._embedder = embedder
        self._settings = settings
        self._writer = writer
        self._indexer = indexer
        self._events = events

    async def run(  # noqa: PLR0913 - as `Engine.run_janitor`
        self,
        room: str | None,
        *,
        min_age: float | None,
        dry_run: bool,
        purge: bool,
        summarize: bool,
        summarizer: Summarizer | None,
        fallback: bool,
        focus: str,
        now: float,
        on_progress: JanitorCallback,
    ) -> JanitorReport:
        """Clean up a room or all rooms, and report what was done."""
        rooms = await self._list_rooms(room)
        sweep = RoomSweep(
            self._store,
            self._housekeeping,
            summarizer or ExtractiveSummarizer(analyze),
            self._embedder,
            now=now,
            min_age=min_age,
            summarize=summarize,
            focus=focus or await self._find_focus(),
            fallback=fallback,
        )
        if dry_run:
            report = await self._sweep(sweep, rooms, _skip_change, on_progress)
            duplicates = await self._find_duplicates(now, min_age) if room is None else ()
            return msgspec.structs.replace(report, dry_run=True, memories=len(duplicates))
        clock = self._settings.clock
        run = await self._housekeeping.begin(holder=new_id("janitor"), now=clock(), lease=JANITOR_LEASE)
        report = JanitorReport()
        try:
            async with self._heartbeat(run):

                async def apply(change: JanitorChange) -> None:
                    await self._housekeeping.apply(run, change, make_document, now=clock())
                    await self._writer.process_new(change.write)

                report = await self._sweep(sweep, rooms, apply, on_progress)
                duplicates = await self._find_duplicates(now, min_age) if room is None else ()
                await apply(JanitorChange(memories=duplicates))
                # Days with purged messages could not be summarized later.
                purges = purge and report.postponed_until is None
                purged = await self._housekeeping.purge(before=run.number) if purges else 0
                report = msgspec.structs.replace(report, memories=len(duplicates), purged=purged)
        finally:  # an interrupted run, too, is consistent and can be undone
            ended = await self._housekeeping.end(run, report.facts, now=clock())
        report = msgspec.structs.replace(report, run=ended.number if ended else None)
        await self._events.emit("janitor_ran", room, run=report.run, **report.facts)
        return report

    async def audit(self, user: str | None, *, unused_for: float, apply: bool, now: float) -> AuditReport:
        """Find memories that are not worth having, of all users or one, and archive duplicates and junk."""
        scopes: dict[str, list[Memory]] = {}
        async for memory in self._read_memories():
            if user in {None, memory.user}:
                scopes.setdefault(memory.scope, []).append(memory)
        findings: list[Finding] = []
        for memories in scopes.values():
            found = await run_in_thread(
                audit_memories, memories, is_small_talk=is_small_talk, unused_before=now - unused_for
            )
            findings += found
        report = AuditReport(memories=sum(map(len, scopes.values())), findings=tuple(findings))
        run = await self.archive([each.id for each in findings if each.kind in CLEANED]) if apply else None
        return msgspec.structs.replace(report, run=run.number if run else None)

    async def archive(self, ids: Sequence[str]) -> JanitorRun | None:
        """Archive memories, but no pinned ones. Returns the run, None if there was nothing to archive."""
        clock = self._settings.clock
        archive: list[str] = []
        for page in _pages(ids):
            known = await self._store.memories(ids=page, archived=False, pinned=False, limit=_PAGE_RECORDS)
            archive += [memory.id for memory in known]
        if not archive:
            return None
        run = await self._housekeeping.begin(holder=new_id("janitor"), now=clock(), lease=JANITOR_LEASE)
        try:
            for page in _pages(archive):
                await self._housekeeping.apply(run, JanitorChange(memories=page), make_document, now=clock())
        finally:
            ended = await self._housekeeping.end(run, {"memories": len(archive)}, now=clock())
        return ended

    async def _read_memories(self) -> AsyncIterator[Memory]:
        before: float | None = None
        after = ""
        while page := await self._store.memories(before=before, after=after, limit=_PAGE_RECORDS):
            for memory in page:
                yield memory
            before, after = page[-1].at, page[-1].id

    async def undo(self, number: int | None) -> JanitorRun | None:
        """Undo the last run, which must be the one with this number, and return it; None if there is none."""
        run = await self._housekeeping.undo(
            make_document, holder=new_id("janitor"), now=self._settings.clock(), lease=JANITOR_LEASE, number=number
        )
        if run is not None and self._indexer is not None:
            self._indexer.wake()
        return run

    async def _find_focus(self) -> str:
        persona = await self._store.get(Persona, JANITOR)
        return persona.focus if persona else ""

    async def _list_rooms(self, room: str | None) -> list[str]:
        if room is not None:
            await self._store.require(Room, room)
            return [room]
        ids: list[str] = []
        while page := await self._store.list_records(Room, after=ids[-1] if ids else "", limit=_PAGE_RECORDS):
            ids += [each.id for each in page]
        return ids

    async def _sweep(
        self, sweep: RoomSweep, rooms: Sequence[str], apply: ApplyChange, on_progress: JanitorCallback
    ) -> JanitorReport:
        reports: list[RoomReport] = []
        for index, room in enumerate(rooms):

            def on_room_progress(share: float, index: int = index) -> None:
                on_progress((index + share) / len(rooms))

            reports.append(await sweep.clean(room, apply, on_room_progress))
            on_room_progress(1.0)
        return JanitorReport(rooms=tuple(report for report in reports if report))

    async def _find_duplicates(self, now: float, min_age: float | None) -> tuple[str, ...]:
        """Return old memories that no context used and that duplicate another memory."""
        if min_age is None:
            return ()
        scopes: dict[str, list[str]] = {}
        after = ""
        while page := await self._housekeeping.unused_memories(before=now - min_age, after=after, limit=_PAGE_RECORDS):
            for memory in page:
                scopes.setdefault(memory.scope, []).append(memory.id)
            after = page[-1].id
        duplicates: list[str] = []
        for scope, unused in scopes.items():
            memories = await self._store.memories(scopes=[scope], limit=_MAX_MEMORIES_IN_SCOPE)
            duplicates += [memory.id for memory in find_duplicate_memories(memories, unused)]
        return tuple(duplicates)

    @asynccontextmanager
    async def _heartbeat(self, run: JanitorRun) -> AsyncIterator[None]:
        """Send heartbeats while something takes long, such as a model that writes a summary."""

        async def beat() -> None:
            while True:
                await asyncio.sleep(HEARTBEAT)
                await self._housekeeping.heartbeat(run, now=self._settings.clock())

        task = asyncio.create_task(beat(), name="brimful-janitor")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def _pages(ids: Sequence[str]) -> list[tuple[str, ...]]:
    return [tuple(ids[start : start + _PAGE_RECORDS]) for start in range(0, len(ids), _PAGE_RECORDS)]


async def _skip_change(change: JanitorChange) -> None:
    del change


def parse_age(age: str | float | None, name: str = "older_than") -> float | None:
    """Return an age in seconds.

    >>> parse_age("180d"), parse_age(60), parse_age(None)
    (15552000.0, 60.0, None)
    """
    if age is None:
        return None
    seconds = parse_duration(age, name) if isinstance(age, str) else to_finite_float(age)
    if seconds is None or seconds < 0:
        raise InvalidValue(name, f"must be a duration such as '180d' or a number of seconds, not {preview(age)}")
    return seconds
