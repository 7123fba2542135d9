"""Recent history: newest to oldest in pages by key, with stored counts, until the budget is met."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import msgspec

from brimful.core.budget import ContextBudget
from brimful.core.content import ContentPackage
from brimful.core.cost import role_of, speaker
from brimful.core.policy import Policy, Pool
from brimful.core.tokens import Count, TokenCounter
from brimful.engine.counts import know_history
from brimful.packagers.stored import said
from brimful.protocols import Store
from brimful.records import Message, Summary

FIRST_PAGE: Final = 64  # messages; each next page is twice as long, so that any budget is met in a few reads
LONGEST_PAGE: Final = 1024
KEPT: Final = 16_384  # packages of messages that a process keeps at hand


class Recent(msgspec.Struct, frozen=True, kw_only=True):
    """The newest messages of a room, newest first, and their packages.

    From the place `sure` on, they will be in the window: there is no use in searching them. `counted` tells how many
    had to be tokenized.
    """

    messages: tuple[Message, ...] = ()
    packages: tuple[ContentPackage, ...] = ()
    sure: int | None = None
    counted: int = 0


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """How far back to read: so many tokens, and so many messages at most. `sure` tokens of them will be in."""

    tokens: int
    sure: int
    messages: int | None = None


def reach_of(policy: Policy, budget: ContextBudget) -> Reach:
    """Return how much history could ever get in: what its pool may take, or all there is where the pool may borrow."""
    pool = _history_pool(policy)
    if pool is None:
        return Reach(tokens=0, sure=0, messages=0)
    limit = budget.limit(pool.name)
    low_water = 1.0 if pool.low_water is None else pool.low_water
    return Reach(tokens=budget.available if pool.borrow else limit, sure=int(limit * low_water), messages=pool.most)


class Packaged:
    """The packages of messages that were read before: from one build to the next, nearly all of a history is the same.

    A message is what it was as long as it stands at its place and says the same.
    """

    def __init__(self, kept: int = KEPT) -> None:
        """Keep so many, least recently used first to go."""
        self._kept = kept
        self._known: OrderedDict[tuple[object, ...], tuple[ContentPackage, int]] = OrderedDict()

    def package(self, message: Message, counter: TokenCounter, cluster: str | None) -> tuple[ContentPackage, int]:
        """Return a message's package, and what it costs where it stands."""
        key = (message.room, message.seq, message.edited, message.content, cluster, counter)
        known = self._known.get(key)
        if known is None:
            package = said(message, counter=counter, cluster=cluster)
            cost = package.tokens.upper + counter.message_overhead(role_of(package), speaker(package))
            known = self._known[key] = (package, cost)
            if len(self._known) > self._kept:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(key)
        return known


async def load_recent(
    store: Store,
    room: str,
    *,
    counter: TokenCounter,
    vocabulary: str | None,
    reach: Reach,
    packaged: Packaged,
    summaries: Sequence[Summary] = (),
    without: str | None = None,
) -> Recent:
    """Read back until the reach is met; the message `without` is left out, since it stands elsewhere."""
    clusters = Clusters(summaries)
    messages: list[Message] = []
    packages: list[ContentPackage] = []
    tokens, counted, page_size = 0, 0, FIRST_PAGE
    before: int | None = None
    sure: int | None = None
    while tokens <= reach.tokens and (reach.messages is None or len(messages) < reach.messages):
        page = await store.history(room, before=before, limit=page_size, tokenizer=vocabulary or "")
        counted += await know_history(store, vocabulary, page)
        for message in (entry.message for entry in page):
            if message.id == without:
                continue
            package, cost = packaged.package(message, counter, clusters.of(message))
            messages.append(message)
            packages.append(package)
            tokens += cost
            if tokens <= reach.sure:
                sure = message.seq
            elif tokens > reach.tokens:
                break
        if len(page) < page_size:
            break
        before, page_size = page[-1].message.seq, min(2 * page_size, LONGEST_PAGE)
    return Recent(messages=tuple(messages), packages=tuple(packages), sure=sure, counted=counted)


def _history_pool(policy: Policy) -> Pool | None:
    """Return the pool in which a message of the history competes, by asking with one."""
    probe = ContentPackage(id="probe", kind="message-recent", content="", tokens=Count(tokens=0, basis="exact"))
    return policy.pool_for(probe)


class Clusters:
    """Which cluster a message belongs to: that of the newest summary that covers it."""

    def __init__(self, summaries: Sequence[Summary]) -> None:
        """Read summaries, newest first."""
        self._named: dict[str, str] = {}
        for summary in reversed(summaries):
            self._named.update(dict.fromkeys(summary.covers, summary.cluster))
        self._spans = [(each.first, each.last, each.cluster) for each in summaries if not each.covers and each.last]

    def of(self, message: Message) -> str | None:
        """Return the cluster of a message, if it has one."""
        if not self._named and not self._spans:
            return None
        spans = (cluster for first, last, cluster in self._spans if first <= message.seq <= last)
        return self._named.get(message.id) or next(spans, None)
