"""One room put in order: its days told, its months rolled up, and what no context ever had set aside."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

import msgspec

from brimful.engine.tidied import RoomTidied
from brimful.errors import BrimfulError
from brimful.janitor import telling
from brimful.janitor.extract import Extractive
from brimful.janitor.rooms import Due, Past, due, level_of, own, rolled_up
from brimful.janitor.spans import holds, joined
from brimful.janitor.topics import Topics, subjects, threads
from brimful.packagers.stored import plain_text
from brimful.protocols import Embedder, Housekeeping, Store, Summarizer
from brimful.protocols.housekeeping import Change
from brimful.protocols.summarizer import Digest
from brimful.records import Message, Summary
from brimful.retrieval.analyze import analyze
from brimful.retrieval.embedded import embedded

ENOUGH_BUILDS: Final = 20  # of a room on record before anything is called unused
MOST_EMBEDDED: Final = 2_000  # threads of a day that are compared by what they mean
_LONGEST_EMBEDDED: Final = 2_000  # characters of a thread

Do = Callable[[Change], Awaitable[None]]
Far = Callable[[float], None]

_log = logging.getLogger("brimful")


class Sweep:
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
        self._plain = Extractive(analyze)

    async def room(self, room: str, do: Do, far: Far) -> RoomTidied:
        """Put a room in order, change by change."""
        places = await self._house.places(room)
        known = {summary.id: summary for summary in own(await self._store.summaries(room))}
        done = RoomTidied(room=room)
        notes: list[str] = []

        async def changed(change: Change) -> RoomTidied:
            if change:
                await do(change)
                _apply(known, change)
            return done.with_change(change)

        waiting = await asyncio.to_thread(due, places, tuple(known.values()))
        for at, day in enumerate(waiting):
            done = await changed(await self._day(room, day, notes))
            far((at + 1) / (len(waiting) + 1))
        while past := rolled_up(places, tuple(known.values()), self._now):
            for each in past:
                done = await changed(await self._rolled(room, each, notes))
        unused = await self._unused(room, known.values(), notes)
        done = await changed(Change(messages=unused))
        return msgspec.structs.replace(done, unused=len(unused), notes=tuple(dict.fromkeys(notes)))

    async def _day(self, room: str, waiting: Due, notes: list[str]) -> Change:
        day = waiting.day
        said = await self._house.said(room, [place.seq for place in day.places])
        found = await asyncio.to_thread(telling.sort_out, said)
        made = telling.flood_lines(room, day.name, found, self._now)
        if found.rest:
            previous = telling.grown_from(waiting, found) if self._summarizer.incremental else None
            digest = telling.digest_of(await self._topics(found.rest, notes), found.rest, previous)
            text = await self._text(digest, notes)
            made.append(telling.day_summary(room, day.name, found, digest, text, now=self._now))
        return telling.change_of(waiting, found, made)

    async def _rolled(self, room: str, past: Past, notes: list[str]) -> Change:
        digest = telling.rolled_digest(past)
        text = await self._text(digest, notes) if past.parts else ""
        return telling.rolled(room, past, digest, text, now=self._now)

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
        found = threads(messages)
        if self._embedder is None or not 1 < len(found) <= MOST_EMBEDDED:
            return found
        texts = ["\n".join(plain_text(each.content) for each in thread)[:_LONGEST_EMBEDDED] for thread in found]
        try:
            vectors = await embedded(self._embedder, texts, "passage")
        except Exception as error:  # noqa: BLE001 - an embedder is anybody's code, and topics are not worth a failure
            _log.warning("topics are told by threads alone: %s: %s", type(error).__name__, error)
            notes.append(f"topics are told by threads alone, since the embedder failed ({type(error).__name__})")
            return found
        return await asyncio.to_thread(subjects, found, vectors)

    async def _unused(self, room: str, summaries: Iterable[Summary], notes: list[str]) -> tuple[str, ...]:
        """Return messages that lie back, are covered, and were in no context on record."""
        if self._older is None:
            return ()
        builds = await self._house.builds(room)
        if builds < ENOUGH_BUILDS:
            notes.append(f"{builds} contexts are on record; what no context has is known from {ENOUGH_BUILDS} on")
            return ()
        covered = joined(span for each in summaries if level_of(each) != "family" for span in each.spans)
        found = await self._house.unused(room, before=self._now - self._older)
        return tuple(id for seq, id in found if holds(covered, seq))


def _apply(known: dict[str, Summary], change: Change) -> None:
    for id in change.remove:
        known.pop(id, None)
    known.update({summary.id: summary for summary in change.write})
