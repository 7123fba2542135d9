"""The part of a tenant's store that is its log: builds, answers, what requests came to, and figures of all that."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import get_args

from brimful.answers import Accuracy, Build, Followed, Pruned
from brimful.core import check
from brimful.errors import InvalidValue
from brimful.observation import Observation
from brimful.records import Inclusion, Response, Snapshot
from brimful.statistics import Grouping, Statistics
from brimful.stores import builds as _builds
from brimful.stores import figures, following, pruning, settling
from brimful.stores import observations as _observations
from brimful.stores import responses as _responses
from brimful.stores import snapshots as _snapshots
from brimful.stores.transactions import Transactions, limited


class Logbook(Transactions):
    """Keeps what was built and answered. See `brimful.protocols.Log` for what each method promises."""

    _settled = False

    # -- contexts ----------------------------------------------------------------------------------------------------

    async def save(self, snapshot: Snapshot, response: Response | None = None) -> None:
        """Keep a build with every decision, and its answer if that is known."""
        if response is None:
            await self._write(lambda session: _snapshots.save(session, [snapshot]))
        else:
            await self._write(lambda session: _responses.save_answered(session, snapshot, response))

    async def snapshot(self, id: str) -> Snapshot | None:
        """Return a build as it was; content that was erased since then is empty."""
        return await self._read(lambda session: _snapshots.snapshot(session, id))

    async def build(self, id: str) -> Build | None:
        """Return a build in one line."""
        return await self._read(lambda session: _builds.build_named(session, id))

    async def builds(
        self,
        *,
        room: str | None = None,
        persona: str | None = None,
        model: str | None = None,
        message: str | None = None,
        since: float | None = None,
        until: float | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> list[Build]:
        """Return builds that meet all that is said, newest first; `message` is what they answer, `before` a number."""
        most, begin, end = limited(limit), _moment("since", since), _moment("until", until)
        if before is not None and not check.is_whole(before, 0):
            raise InvalidValue("before", f"must be the number of a build, not {check.shown(before)}")
        return await self._read(
            lambda session: _builds.builds(
                session,
                room=room,
                persona=persona,
                model=model,
                message=message,
                since=begin,
                until=end,
                before=before,
                limit=most,
            )
        )

    async def inclusions(
        self, *, item: str | None = None, snapshot: str | None = None, limit: int = 1000
    ) -> list[Inclusion]:
        """Return what became of an item in each build, or of all items in one, newest first."""
        most = limited(limit)
        return await self._read(lambda session: _snapshots.inclusions(session, item, snapshot, most))

    async def respond(self, response: Response) -> None:
        """Keep an answer, linked to its context."""
        await self._write(lambda session: _responses.respond(session, [response]))

    async def responses(
        self, *, room: str | None = None, context: str | None = None, message: str | None = None, limit: int = 100
    ) -> list[Response]:
        """Return answers of a room, to a context, or the one that is a message, newest first."""
        most = limited(limit)
        if message is not None:
            await self._settle()
        return await self._read(
            lambda session: _responses.responses(session, room=room, context=context, message=message, limit=most)
        )

    # -- the log -----------------------------------------------------------------------------------------------------

    async def follow(self, cursor: str = "", *, limit: int = 100) -> Followed:
        """Return builds and answers that came after a place in the log, in the order of arrival."""
        most = limited(limit)
        return await self._read(lambda session: following.follow(session, cursor, most))

    async def statistics(
        self,
        *,
        since: float | None = None,
        until: float | None = None,
        persona: str | None = None,
        room: str | None = None,
        by: Grouping = "",
    ) -> list[Statistics]:
        """Return the figures of a time, told apart by what is said."""
        if by not in get_args(Grouping):
            known = ", ".join(filter(None, get_args(Grouping)))
            raise InvalidValue("by", f"must be one of {known}, not {check.shown(by)}")
        begin, end = _moment("since", since), _moment("until", until)
        await self._settle()
        return await self._read(
            lambda session: figures.statistics(session, since=begin, until=end, persona=persona, room=room, by=by)
        )

    async def prune(
        self, *, before: float, dry_run: bool = False, told: Callable[[Pruned], None] = lambda _: None
    ) -> Pruned:
        """Remove what was built and answered before the whole hour of a time; return what went, or would go."""
        hour = pruning.whole_hour(check.timestamp("before", before, InvalidValue))
        await self._settle()
        if dry_run:
            return await self._read(lambda session: pruning.prunable(session, hour))
        parts: list[Pruned] = []
        for step in (pruning.prune_events, pruning.prune_contents):
            while (part := await self._write(partial(step, before=hour))) is not None:
                parts.append(part)
                told(pruning.together(hour, parts))
        return pruning.together(hour, parts)

    async def _settle(self) -> None:
        """Take up what an older version of Brimful has logged, once."""
        if not self._settled and await self._read(settling.unsettled):
            while await self._write(settling.settle_some):
                continue
        self._settled = True

    # -- what requests came to ---------------------------------------------------------------------------------------

    async def observe(self, observation: Observation) -> None:
        """Keep what became of a request; the first of an id stands."""
        await self._write(lambda session: _observations.observe(session, observation))

    async def observations(
        self,
        model: str | None = None,
        route: str | None = None,
        *,
        ids: Sequence[str] | None = None,
        before: float | None = None,
        unusual: bool = False,
        limit: int = 256,
    ) -> list[Observation]:
        """Return what was observed (of a model, on a route), newest first; `unusual` are overflows and cuts alone."""
        most = limited(limit)
        return await self._read(
            lambda session: _observations.observations(
                session, model=model, route=route, ids=ids, before=before, unusual=unusual, limit=most
            )
        )

    async def accuracy(self, *, since: float | None = None, model: str | None = None) -> list[Accuracy]:
        """Return how well prompts were counted since a time, by model and route."""
        return await self._read(lambda session: _observations.accuracy(session, since, model))


def _moment(field: str, value: float | None) -> float | None:
    return None if value is None else check.timestamp(field, value, InvalidValue)
