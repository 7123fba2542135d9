"""The part of a store that is its log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from brimful.records import Inclusion, Response, Snapshot
from brimful.records.search import Accuracy, Build, LogPage, PruneReport
from brimful.records.statistics import Grouping, Statistics
from brimful.records.usage import UsageReport


class Log(Protocol):
    """What was built and answered, and what requests came to."""

    # -- contexts ----------------------------------------------------------------------------------------------------

    async def save(self, snapshot: Snapshot, response: Response | None = None) -> None:
        """Keep a build with every decision: content by reference, inclusions, and an access of each memory in it.

        An answer to it that is known by then is kept in the same transaction. Of a caller's own request no inclusions
        are kept: its items are places in it, and its decisions stand in the build.
        """
        ...

    async def snapshot(self, id: str) -> Snapshot | None:
        """Return a build as it was; content that was erased since then is empty."""
        ...

    async def build(self, id: str) -> Build | None:
        """Return a build in one line."""
        ...

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
        ...

    async def inclusions(
        self, *, item: str | None = None, snapshot: str | None = None, limit: int = 1000
    ) -> list[Inclusion]:
        """Return what became of an item in each build, or of all items in one, newest first."""
        ...

    async def respond(self, response: Response) -> None:
        """Keep an answer, linked to its context."""
        ...

    async def responses(
        self, *, room: str | None = None, context: str | None = None, message: str | None = None, limit: int = 100
    ) -> list[Response]:
        """Return answers of a room, to a context, or the one that is a message, newest first."""
        ...

    # -- the log -----------------------------------------------------------------------------------------------------

    async def follow(self, cursor: str = "", *, limit: int = 100) -> LogPage:
        """Return builds and answers that came after a place in the log, in the order of arrival.

        They may come from any process that shares the store: nothing is missed, and nothing comes twice. Without a
        cursor there is nothing yet but the present end of the log; `"0"` is its beginning.
        """
        ...

    async def statistics(
        self,
        *,
        since: float | None = None,
        until: float | None = None,
        persona: str | None = None,
        room: str | None = None,
        by: Grouping = "",
    ) -> list[Statistics]:
        """Return the figures of a time, told apart by what is said; how many builds there are hardly matters.

        They are exact. Only of hours that were pruned nothing but sums is left: such an hour counts where it begins.
        """
        ...

    async def prune(
        self, *, before: float, dry_run: bool = False, told: Callable[[PruneReport], None] = ...
    ) -> PruneReport:
        """Remove what was built and answered before the whole hour of a time, and contents that nothing else refers to.

        Figures stay. Return what went, or with `dry_run` what would go; `told` hears how far it has come.
        """
        ...

    # -- what requests came to ---------------------------------------------------------------------------------------

    async def observe(self, observation: UsageReport) -> None:
        """Keep what became of a request; the first of an id stands."""
        ...

    async def observations(
        self,
        model: str | None = None,
        route: str | None = None,
        *,
        ids: Sequence[str] | None = None,
        before: float | None = None,
        unusual: bool = False,
        limit: int = 256,
    ) -> list[UsageReport]:
        """Return what was observed (of a model, on a route), newest first; `unusual` are overflows and cuts alone."""
        ...

    async def accuracy(self, *, since: float | None = None, model: str | None = None) -> list[Accuracy]:
        """Return how well prompts were counted since a time, by model and route."""
        ...
