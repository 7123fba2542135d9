"""Many contexts of a store under other conditions: how many of them would lose something, and how much."""

import hashlib
from collections.abc import AsyncIterator, Callable
from heapq import heappush, heappushpop, nlargest
from typing import TYPE_CHECKING, Final

import msgspec

from brimful.answers import Build
from brimful.core.context import Context
from brimful.core.sections import is_erased
from brimful.errors import BudgetExceeded, InvalidRecord, SealError, StoreCorrupt

if TYPE_CHECKING:
    from brimful.protocols import Store

PAGE: Final = 200  # builds that are listed at once
WORST: Final = 10  # contexts that are told by their ids

Replay = Callable[[Context], Context]


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """Which contexts are meant: those of a time, a room, a persona."""

    since: float | None = None
    room: str | None = None
    persona: str | None = None


class Loss(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """What one context would lose: tokens first, so that the worst is the largest."""

    tokens: int
    items: int
    id: str


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of many contexts under other conditions.

    Of those that were `replayed`, `losing` lost something that was in, or a part of it, and `gaining` won something.
    Of the losing ones, `unfit` cannot be built at all: what is required does not fit. `lost_tokens` are what the others
    lost, with what stood around it in the request. `erased` and `unreadable` were not replayed: their contents are
    gone, or cannot be opened.
    """

    contexts: int = 0
    replayed: int = 0
    losing: int = 0
    gaining: int = 0
    unfit: int = 0
    erased: int = 0
    unreadable: int = 0
    lost_tokens: int = 0
    worst: tuple[Loss, ...] = ()
    unfit_ids: tuple[str, ...] = ()

    @property
    def mean_lost(self) -> float:
        """Tokens that a context loses, on the average of those that lose something and can be built."""
        return self.lost_tokens / (self.losing - self.unfit) if self.losing > self.unfit else 0.0


class Tally:
    """Counts outcomes, in a memory that does not grow with them."""

    def __init__(self) -> None:
        """Begin with none."""
        self._counts = dict.fromkeys(("contexts", "replayed", "losing", "gaining", "unfit", "erased", "unreadable"), 0)
        self._lost = 0
        self._worst: list[Loss] = []
        self._unfit: list[str] = []

    def missing(self, how: str) -> None:
        """Note a context that cannot be replayed: `erased`, or `unreadable`."""
        self._note("contexts", how)

    def replayed(self, before: Context, replay: Replay) -> None:
        """Replay a context, and note what became of it."""
        self._note("contexts", "replayed")
        try:
            after = replay(before)
        except BudgetExceeded:
            self._note("losing", "unfit")
            self._unfit = sorted([*self._unfit, before.id])[:WORST]
            return
        then = {each.id: each.cost for each in before.decisions if each.included}
        now = {each.id: each.cost for each in after.decisions if each.included}
        cut = {each.id for each in after.decisions if each.outcome == "shrunk"}
        lost = [cost - now.get(id, 0) for id, cost in then.items() if id not in now or (id in cut and now[id] < cost)]
        if now.keys() - then.keys():
            self._note("gaining")
        if lost:
            self._note("losing")
            self._lost += sum(lost)
            self._remember(Loss(tokens=sum(lost), items=len(lost), id=before.id))

    def outcome(self) -> Outcome:
        """Return what was counted."""
        worst = tuple(nlargest(WORST, self._worst))
        return Outcome(**self._counts, lost_tokens=self._lost, worst=worst, unfit_ids=tuple(self._unfit))

    def _note(self, *names: str) -> None:
        for name in names:
            self._counts[name] += 1

    def _remember(self, loss: Loss) -> None:
        if len(self._worst) < WORST:
            heappush(self._worst, loss)
        else:
            heappushpop(self._worst, loss)


async def builds_in(store: "Store", span: Span) -> AsyncIterator[Build]:
    """Yield the builds of a span, newest first, page by page."""
    before: int | None = None
    while page := await store.builds(room=span.room, persona=span.persona, since=span.since, before=before, limit=PAGE):
        for build in page:
            yield build
        before = page[-1].number


async def survey(store: "Store", span: Span, sample: int | None) -> tuple[int, list[str] | None]:
    """Return how many contexts there are to replay, and which: None is all of them.

    Of a sample, each id draws a lot of its own: the same contexts are chosen every time, as long as they are there.
    """
    count, kept = 0, list[tuple[int, str]]()
    async for build in builds_in(store, span):
        count += 1
        if sample is not None:
            push = heappush if len(kept) < sample else heappushpop
            push(kept, (-_lot(build.id), build.id))
    if sample is None or count <= sample:
        return count, None
    return sample, [id for _, id in sorted(kept, reverse=True)]


async def replay_all(
    store: "Store", span: Span, ids: list[str] | None, replay: Replay, tell: Callable[[int], None]
) -> Outcome:
    """Replay contexts one after the other, telling how many are done."""
    tally, done = Tally(), 0
    async for id in _ids(store, span, ids):
        try:
            snapshot = await store.snapshot(id)
        except (SealError, StoreCorrupt, InvalidRecord):
            tally.missing("unreadable")
        else:
            if snapshot is not None:  # or it was removed a moment ago
                _settle(tally, snapshot.context, replay)
        done += 1
        tell(done)
    return tally.outcome()


def _settle(tally: Tally, context: Context, replay: Replay) -> None:
    if any(map(is_erased, context.inputs.packages)):
        tally.missing("erased")
    else:
        tally.replayed(context, replay)


async def _ids(store: "Store", span: Span, ids: list[str] | None) -> AsyncIterator[str]:
    if ids is None:
        async for build in builds_in(store, span):
            yield build.id
    else:
        for id in ids:
            yield id


def _lot(id: str) -> int:
    """Draw a lot that depends on the id alone."""
    return int.from_bytes(hashlib.blake2b(id.encode(), digest_size=8).digest(), "big")
