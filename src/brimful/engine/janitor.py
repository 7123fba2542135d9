"""Clean up rooms: summarize days, roll up months and years, and archive messages that no context used."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

import msgspec

from brimful.assembly.assemble import assemble, package
from brimful.core.content import ContentPackage
from brimful.core.context import Context
from brimful.core.model import ModelInfo
from brimful.errors import BrimfulError, ProviderError
from brimful.janitor import summaries as _summaries
from brimful.janitor.days import merge_spans, spans_contain
from brimful.janitor.extractive import ExtractiveSummarizer
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
from brimful.packagers.records import plain_text
from brimful.protocols import Embedder, Housekeeping, Provider, Store, Summarizer
from brimful.protocols.summarizer import Digest, Passage
from brimful.records import Message, Summary
from brimful.records.janitor import JanitorChange
from brimful.retrieval.analyzer import analyze
from brimful.retrieval.retriever import embed_checked

INSTRUCTIONS: Final = (
    "You keep the minutes of a conversation. Tell what somebody must still know of it later: decisions, facts, names, "
    "numbers, dates, open questions, and who said what. Leave out greetings and small talk. Write plain sentences, "
    "without headings, and nothing else. If there is a summary of what came before, keep of it whatever still holds."
)
_WORDS_PER_TOKEN: Final = 0.7
_CHARS_PER_TOKEN: Final = 8  # characters; a summary that is longer than its tokens could be is cut
_MIN_TOKENS: Final = 64  # to which a passage that is larger than the window may be cut


class ModelSummarizer:
    """Lets a model tell what was said, as much at a time as its window holds, and goes on from what it told."""

    incremental: Final = True

    def __init__(self, model: ModelInfo, provider: Provider, *, window: int | None = None) -> None:
        """Ask this model at this provider; `window` stands in the place of the model's own."""
        self._model = model
        self._provider = provider
        self._window = window

    async def summarize(self, digest: Digest) -> str:
        """Return what the passages say, told by the model."""
        waiting = [passage for topic in digest.topics for passage in topic]
        text = digest.previous
        while waiting:
            context, taken = await asyncio.to_thread(self._most, digest, text, waiting)
            reply = await self._provider.send(context.request)
            text = reply.text.strip()[: digest.tokens * _CHARS_PER_TOKEN]
            if not text:
                raise ProviderError(self._provider.route, "answered with nothing when asked for a summary")
            waiting = waiting[taken:]
        return text

    def _most(self, digest: Digest, previous: str, waiting: Sequence[Passage]) -> tuple[Context, int]:
        """Return a request with as many of the passages as fit whole, and how many they are."""
        taken = len(waiting)
        while True:
            context = self._request(digest, previous, waiting[:taken])
            inside = {decision.id for decision in context.decisions if decision.outcome in ("kept", "duplicate")}
            if taken == 1 or all(f"passage-{at}" in inside for at in range(taken)):
                return context, taken
            taken = max(1, min(taken // 2, len(inside)))

    def _request(self, digest: Digest, previous: str, passages: Sequence[Passage]) -> Context:
        words = int(digest.tokens * _WORDS_PER_TOKEN)
        asked = f"Sum up what was said ({digest.title}) in at most {words} words."
        packages = [
            package("system-prompt", INSTRUCTIONS, model=self._model, id="instructions"),
            *(self._packaged(at, passage) for at, passage in enumerate(passages)),
            package("message-current", asked, model=self._model, id="asked", role="user", position=len(passages) + 1),
        ]
        if previous:
            packages.append(package("summary", previous, model=self._model, id="previous", can_drop=False))
        now = max((passage.at for passage in passages), default=0.0)
        return assemble(
            packages, model=self._model, policy="default", now=now, window=self._window, wire=self._provider.wire
        )

    def _packaged(self, at: int, passage: Passage) -> ContentPackage:
        return package(
            "message-older",
            passage.text,
            model=self._model,
            id=f"passage-{at}",
            name=passage.speaker,
            timestamp=passage.at,
            position=at,
            relevance=1.0,
            min_tokens=_MIN_TOKENS,
        )


class RoomReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was done in a room.

    `floods` are the lines that stand for floods now; `summaries` were written, `rolled_up` of them for months and
    years; so many `messages` were set aside, of them `unused` ones since no context ever had them. `notes` say what
    could not be done.
    """

    room: str
    floods: tuple[str, ...] = ()
    summaries: int = 0
    rolled_up: int = 0
    messages: int = 0
    unused: int = 0
    notes: tuple[str, ...] = ()

    def with_change(self, change: JanitorChange) -> "RoomReport":
        """Return it with one more change counted."""
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
        """Say whether anything was done, or could not be."""
        return bool(self.summaries or self.messages or self.notes)


class JanitorReport(msgspec.Struct, frozen=True, kw_only=True):
    """What the janitor did, or with `dry_run` would do: in rooms, and with `memories` that say the same twice.

    `run` is the number under which it can be undone, None if there was nothing to do. So many records that earlier runs
    had set aside were `purged`.
    """

    run: int | None = None
    dry_run: bool = False
    rooms: tuple[RoomReport, ...] = ()
    memories: int = 0
    purged: int = 0

    @property
    def facts(self) -> dict[str, int]:
        """What was done, in numbers."""
        return {
            "rooms": sum(bool(room.summaries or room.messages) for room in self.rooms),
            "floods": sum(len(room.floods) for room in self.rooms),
            "summaries": sum(room.summaries for room in self.rooms),
            "messages": sum(room.messages for room in self.rooms),
            "memories": self.memories,
        }


MIN_BUILDS: Final = 20  # of a room on record before anything is called unused
MAX_EMBEDDED_THREADS: Final = 2_000  # threads of a day that are compared by what they mean
_MAX_EMBEDDED_CHARS: Final = 2_000  # characters of a thread

ApplyChange = Callable[[JanitorChange], Awaitable[None]]
JanitorCallback = Callable[[float], None]

_log = logging.getLogger("brimful")


class RoomSweep:
    """Puts rooms in order, one after the other."""

    def __init__(
        self,
        store: Store,
        house: Housekeeping,
        summarizer: Summarizer,
        embedder: Embedder | None,
        *,
        now: float,
        older: float | None,
    ) -> None:
        """Read from this store; let this summarizer write. `older` are seconds, None if nothing is to be set aside."""
        self._store = store
        self._house = house
        self._summarizer = summarizer
        self._embedder = embedder
        self._now = now
        self._older = older
        self._plain = ExtractiveSummarizer(analyze)

    async def room(self, room: str, do: ApplyChange, far: JanitorCallback) -> RoomReport:
        """Put a room in order, change by change."""
        places = await self._house.places(room)
        known = {summary.id: summary for summary in janitor_summaries(await self._store.summaries(room))}
        done = RoomReport(room=room)
        notes: list[str] = []

        async def changed(change: JanitorChange) -> RoomReport:
            if change:
                await do(change)
                _update_summaries(known, change)
            return done.with_change(change)

        waiting = await asyncio.to_thread(find_due_days, places, tuple(known.values()))
        for at, day in enumerate(waiting):
            done = await changed(await self._day(room, day, notes))
            far((at + 1) / (len(waiting) + 1))
        while past := find_roll_ups(places, tuple(known.values()), self._now):
            for each in past:
                done = await changed(await self._rolled(room, each, notes))
        unused = await self._unused(room, known.values(), notes)
        done = await changed(JanitorChange(messages=unused))
        return msgspec.structs.replace(done, unused=len(unused), notes=tuple(dict.fromkeys(notes)))

    async def _day(self, room: str, waiting: DueDay, notes: list[str]) -> JanitorChange:
        day = waiting.day
        said = await self._house.said(room, [place.seq for place in day.places])
        found = await asyncio.to_thread(_summaries.separate_floods, said)
        made = _summaries.flood_summaries(room, day.name, found, self._now)
        if found.rest:
            previous = _summaries.extendable_summary(waiting, found) if self._summarizer.incremental else None
            digest = _summaries.make_digest(await self._topics(found.rest, notes), found.rest, previous)
            text = await self._text(digest, notes)
            made.append(_summaries.make_day_summary(room, day.name, found, digest, text, now=self._now))
        return _summaries.make_day_change(waiting, found, made)

    async def _rolled(self, room: str, past: RollUp, notes: list[str]) -> JanitorChange:
        digest = _summaries.make_roll_up_digest(past)
        text = await self._text(digest, notes) if past.parts else ""
        return _summaries.make_roll_up_change(room, past, digest, text, now=self._now)

    async def _text(self, digest: Digest, notes: list[str]) -> str:
        """Let the summarizer write; where it cannot, quote what was said, and say so."""
        try:
            return await self._summarizer.summarize(digest)
        except BrimfulError as error:
            notes.append(f"summaries quote what was said, since their writer failed ({error})")
            fresh = await self._plain.summarize(digest)
            return "\n".join(text for text in (digest.previous, fresh) if text)

    async def _topics(self, messages: Sequence[Message], notes: list[str]) -> Topics:
        """Return messages by thread, and threads of one subject together where there is an embedder."""
        found = group_by_thread(messages)
        if self._embedder is None or not 1 < len(found) <= MAX_EMBEDDED_THREADS:
            return found
        texts = ["\n".join(plain_text(each.content) for each in thread)[:_MAX_EMBEDDED_CHARS] for thread in found]
        try:
            vectors = await embed_checked(self._embedder, texts, "passage")
        except Exception as error:  # noqa: BLE001 - an embedder is anybody's code, and topics are not worth a failure
            _log.warning("topics are told by threads alone: %s: %s", type(error).__name__, error)
            notes.append(f"topics are told by threads alone, since the embedder failed ({type(error).__name__})")
            return found
        return await asyncio.to_thread(merge_by_subject, found, vectors)

    async def _unused(self, room: str, summaries: Iterable[Summary], notes: list[str]) -> tuple[str, ...]:
        """Return messages that lie back, are covered, and were in no context on record."""
        if self._older is None:
            return ()
        builds = await self._house.builds(room)
        if builds < MIN_BUILDS:
            notes.append(f"{builds} contexts are on record; what no context has is known from {MIN_BUILDS} on")
            return ()
        covered = merge_spans(span for each in summaries if summary_level(each) != "family" for span in each.spans)
        found = await self._house.unused(room, before=self._now - self._older)
        return tuple(id for seq, id in found if spans_contain(covered, seq))


def _update_summaries(known: dict[str, Summary], change: JanitorChange) -> None:
    for id in change.remove:
        known.pop(id, None)
    known.update({summary.id: summary for summary in change.write})
