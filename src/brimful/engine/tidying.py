"""Tidying: floods become a line, days a summary, months and years one; what nothing needs is set aside."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Final

import msgspec

from brimful.core.check import finite, shown
from brimful.core.model import ModelInfo
from brimful.engine.responding import Responding
from brimful.engine.summarizing import ModelSummarizer
from brimful.engine.sweeping import Do, Far, Sweep
from brimful.engine.tidied import RoomTidied, Tidied
from brimful.engine.writing import new_id
from brimful.errors import InvalidValue, UnknownRecord
from brimful.fields import duration
from brimful.janitor.extract import Extractive
from brimful.janitor.memories import doubles
from brimful.protocols import Housekeeping, Provider, Summarizer
from brimful.protocols.housekeeping import Change, Run
from brimful.records import Room
from brimful.retrieval.analyze import analyze
from brimful.retrieval.indexed import indexed

LEASE: Final = 90.0  # seconds after which a janitor of whom nothing is heard is taken for dead
BEAT: Final = 20.0  # seconds between two signs of life
_PAGE: Final = 500  # rooms or memories read at once
_MOST_IN_SCOPE: Final = 20_000  # memories of one scope that are compared with each other


class Tidying(Responding):
    """Keeps rooms in order, between conversations."""

    async def tidy(
        self,
        room: str | None = None,
        *,
        older: str | float | None = None,
        dry_run: bool = False,
        purge: bool = False,
        summarizer: Summarizer | None = None,
        now: float | datetime | None = None,
        told: Far = lambda _: None,
    ) -> Tidied:
        """Put a room in order, or all of them, and say what was done; with `dry_run`, what would be done.

        Floods give way to a line, days get a summary, months and years that lie back one for all. With `older`,
        a time such as `180d` or a number of seconds, messages that are covered by a summary, are older, and were in no
        context on record, are set aside, and memories that say again what another says. With `purge`, what earlier
        runs set aside is let go for good.
        `summarizer` writes the summaries; without one, what was said is quoted. `told` is told how much is done.
        """
        moment = self._moment(now)
        age = None if older is None else _seconds(older)
        rooms = await self._rooms(room)
        house = self._housekeeping
        sweep = Sweep(self.store, house, summarizer or Extractive(analyze), self._embedder, now=moment, older=age)
        if dry_run:
            done = await self._swept(sweep, rooms, self._dry, told)
            spare = await self._doubles(house, moment, age) if room is None else ()
            return msgspec.structs.replace(done, dry_run=True, memories=len(spare))
        run = await house.begin(holder=new_id("janitor"), now=self._clock(), lease=LEASE)
        done = Tidied()
        try:
            async with self._alive(house, run):

                async def do(change: Change) -> None:
                    await house.tidy(run, change, indexed, now=self._clock())
                    await self._written([summary.content for summary in change.write])

                done = await self._swept(sweep, rooms, do, told)
                spare = await self._doubles(house, moment, age) if room is None else ()
                await do(Change(memories=spare))
                purged = await house.purge(before=run.number) if purge else 0
                done = msgspec.structs.replace(done, memories=len(spare), purged=purged)
        finally:  # also of one that is broken off: what it did is whole, and can be undone
            ended = await house.end(run, done.facts, now=self._clock())
        done = msgspec.structs.replace(done, run=ended.number if ended else None)
        await self._tell("tidied", room, run=done.run, **done.facts)
        return done

    async def untidy(self) -> Run | None:
        """Undo the last run of the janitor, and return it; None if none is left. Done again, it goes further back."""
        run = await self._housekeeping.undo(indexed, holder=new_id("janitor"), now=self._clock(), lease=LEASE)
        if run is not None and self._parts.indexer is not None:
            self._parts.indexer.wake()
        return run

    async def tidyings(self, *, limit: int = 20) -> list[Run]:
        """Return the runs of the janitor, newest first."""
        return await self._housekeeping.runs(limit=limit)

    async def aside(self) -> dict[str, int]:
        """Return how many messages and memories are set aside."""
        return await self._housekeeping.aside()

    def summarizer(
        self, model: str | ModelInfo | None = None, *, provider: str | Provider | None = None, window: int | None = None
    ) -> Summarizer:
        """Return a summarizer that asks a language model: this one, or the engine's."""
        info = self._model_of(model, None)
        return ModelSummarizer(info, self._providers.find(provider, None, info), window=window)

    @property
    def _housekeeping(self) -> Housekeeping:
        self._parts  # noqa: B018 - says so if the engine is not open
        return self._database.housekeeping(self._tenant)

    async def _rooms(self, room: str | None) -> list[str]:
        if room is not None:
            if await self.store.get(Room, room) is None:
                raise UnknownRecord("room", room)
            return [room]
        found: list[str] = []
        while page := await self.store.listed(Room, after=found[-1] if found else "", limit=_PAGE):
            found += [each.id for each in page]
        return found

    async def _swept(self, sweep: Sweep, rooms: Sequence[str], do: Do, told: Far) -> Tidied:
        done: list[RoomTidied] = []
        for at, room in enumerate(rooms):

            def far(part: float, at: int = at) -> None:
                told((at + part) / len(rooms))

            done.append(await sweep.room(room, do, far))
            far(1.0)
        return Tidied(rooms=tuple(each for each in done if each))

    async def _doubles(self, house: Housekeeping, now: float, older: float | None) -> tuple[str, ...]:
        """Return memories, of those that nothing ever used, that say again what another says."""
        if older is None:
            return ()
        scopes: dict[str, list[str]] = {}
        after = ""
        while page := await house.unread(before=now - older, after=after, limit=_PAGE):
            for memory in page:
                scopes.setdefault(memory.scope, []).append(memory.id)
            after = page[-1].id
        found: list[str] = []
        for scope, unread in scopes.items():
            known = await self.store.memories(scopes=[scope], limit=_MOST_IN_SCOPE)
            found += [memory.id for memory in doubles(known, unread)]
        return tuple(found)

    async def _dry(self, change: Change) -> None:
        """Do nothing."""

    @contextlib.asynccontextmanager
    async def _alive(self, house: Housekeeping, run: Run) -> AsyncIterator[None]:
        """Give signs of life while something takes long, such as a model that is asked."""

        async def beat() -> None:
            while True:
                await asyncio.sleep(BEAT)
                await house.beat(run, now=self._clock())

        task = asyncio.create_task(beat(), name="brimful-janitor")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def _seconds(older: str | float) -> float:
    seconds = duration(older, "older") if isinstance(older, str) else finite(older)
    if seconds is None or seconds < 0:
        raise InvalidValue("older", f"must be a time such as '180d', or a number of seconds, not {shown(older)}")
    return seconds
