"""Recent history, read newest first in pages with stored counts, until the budget is met."""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Sequence
from typing import Final

import msgspec

from brimful.cache import LRU, content_bytes
from brimful.core.budget import ContextBudget
from brimful.core.content import ContentPackage
from brimful.core.cost import role_of, speaker_name
from brimful.core.counter import TokenCounter
from brimful.core.policy import Policy
from brimful.counting import texts_in
from brimful.engine.counts import ensure_counts, ensure_history_counts, run_in_thread_if_long
from brimful.engine.personas import as_seen_by
from brimful.engine.plan import find_pool
from brimful.packagers.records import package_message
from brimful.records import Message, Persona, Summary
from brimful.stores import Store

FIRST_PAGE: Final = 64  # messages; each next page is twice as long, so that any budget is met in a few reads
MAX_PAGE: Final = 1024
_MAX_USER_PAGES: Final = 20  # read back for what a person said last, and no more
_EXTRA_MESSAGES: Final = 4  # read beyond what met a reach last time
MAX_PACKAGES: Final = 16_384  # packages of messages that a process keeps at hand
MAX_PACKAGE_BYTES: Final = 64 * 2**20  # of their contents


class RecentHistory(msgspec.Struct, frozen=True, kw_only=True):
    """The newest messages of a room, newest first, and their packages.

    From the place `sure` on, they will be in the window: there is no use in searching them. `counted` tells how many
    had to be tokenized, and `parted` names the clusters of which there is more than these messages.
    """

    messages: tuple[Message, ...] = ()
    packages: tuple[ContentPackage, ...] = ()
    sure: int | None = None
    counted: int = 0
    parted: frozenset[str] = frozenset()

    def searched_to(self, begins: str) -> int | None:
        """Return the place up to which to search: history stays with the message `begins`, and so may end before."""
        stays = next((message.seq for message in self.messages if message.id == begins), None)
        return self.sure if stays is None or self.sure is None else max(self.sure, stays)


class HistoryReach(msgspec.Struct, frozen=True, kw_only=True):
    """How far back to read: so many tokens, and so many messages at most. `sure` tokens of them will be in."""

    tokens: int
    sure: int
    messages: int | None = None


def get_history_reach(policy: Policy, budget: ContextBudget) -> HistoryReach:
    """Return how much history could ever get in: what its pool may take, or all there is where the pool may borrow."""
    pool = find_pool(policy, "message-recent")
    if pool is None:
        return HistoryReach(tokens=0, sure=0, messages=0)
    limit = budget.limit(pool.name)
    low_water = 1.0 if pool.low_water is None else pool.low_water
    return HistoryReach(
        tokens=budget.available if pool.borrow else limit, sure=int(limit * low_water), messages=pool.max_items
    )


class PackageCache:
    """The packages of messages that were read before: from one build to the next, nearly all of a history is the same.

    A message is what it was as long as it stands at its place and says the same. How many messages met a reach is kept
    as well, so that the next build reads as many at once.
    """

    def __init__(self, kept: int = MAX_PACKAGES) -> None:
        """Keep so many, least recently used first to go."""
        self._known: LRU[tuple[object, ...], tuple[ContentPackage, int]] = LRU(
            max_entries=kept, max_size=MAX_PACKAGE_BYTES, size=lambda _, known: content_bytes(known[0].content)
        )
        self._met: LRU[tuple[str, HistoryReach], int] = LRU(max_entries=kept)

    def first_page(self, room: str, reach: HistoryReach) -> int:
        """Return how many messages to read first: what it took last time, and a few more."""
        took = self._met.get((room, reach), 0)
        return min(MAX_PAGE, max(FIRST_PAGE, took + took // 16 + _EXTRA_MESSAGES)) if took else FIRST_PAGE

    def met(self, room: str, reach: HistoryReach, messages: int) -> None:
        """Note how many messages met a reach."""
        self._met[room, reach] = messages

    async def package(self, message: Message, counter: TokenCounter, cluster: str | None) -> tuple[ContentPackage, int]:
        """Return a message's package, and what it costs where it stands."""
        said_by = (message.id, message.room, message.seq, message.sender, message.role, message.at, message.edited)
        key = (*said_by, message.content, cluster, counter)
        known = self._known.get(key)
        if known is None:
            known = await run_in_thread_if_long(
                texts_in(message.content), _package_with_cost, message, counter, cluster
            )
            self._known[key] = known
        return known


def _package_with_cost(message: Message, counter: TokenCounter, cluster: str | None) -> tuple[ContentPackage, int]:
    package = package_message(message, counter=counter, cluster=cluster)
    return package, package.tokens.upper + counter.message_overhead(role_of(package), speaker_name(package))


async def load_history(  # noqa: PLR0913 - all that a history hangs on
    store: Store,
    room: str,
    *,
    counter: TokenCounter,
    vocabulary: str | None,
    reach: HistoryReach,
    packaged: PackageCache,
    persona: Persona | None = None,
    summaries: Sequence[Summary] = (),
    asked: Message | None = None,
    asker: bool = False,
) -> RecentHistory:
    """Read back until the reach is met, as the persona sees it.

    The message that is `asked` stands elsewhere, so not here. If it was answered before, it is asked again: what was
    said since is left out, the other answer first of all. With `asker`, the last words of a person are among the
    messages, however far they lie back.
    """
    clusters = Clusters(summaries)
    messages: list[Message] = []
    packages: list[ContentPackage] = []
    read: list[int] = []
    tokens, counted, page_size = 0, 0, packaged.first_page(room, reach)
    before: int | None = None
    sure: int | None = None
    while _needs_more(messages, tokens, reach):
        page = await store.history(room, before=before, limit=page_size, tokenizer=vocabulary or "")
        counted += await ensure_history_counts(store, vocabulary, page)
        read += [entry.message.seq for entry in page]
        seen = [each for each in as_seen_by([entry.message for entry in page], persona) if not each.hidden]
        if asked is not None and _was_answered(asked, seen):
            messages, packages, tokens, sure, before, asked = [], [], 0, None, asked.seq, None
            continue
        for each in seen:
            if asked is not None and each.id == asked.id:
                continue
            message = clamp_timestamp(each, messages)
            package, cost = await packaged.package(message, counter, clusters.of(message))
            messages.append(message)
            packages.append(package)
            tokens += cost
            if tokens <= reach.sure:
                sure = message.seq
            elif tokens > reach.tokens and message.role != "tool":  # its call stands before it
                break
        if len(page) < page_size:
            break
        before, page_size = page[-1].message.seq, min(2 * page_size, MAX_PAGE)
    packaged.met(room, reach, len(messages))
    parted = clusters.parted(messages, read)
    packages = clusters.whole(packages, parted, sure)
    if asker and (words := await _find_last_user_message(store, room, messages)):
        counted += await ensure_counts(store, vocabulary, [words.content])
        messages.append(words)
        packages.append((await packaged.package(words, counter, None))[0])
    return RecentHistory(
        messages=tuple(messages), packages=tuple(packages), sure=sure, counted=counted, parted=frozenset(parted)
    )


def _was_answered(asked: Message, seen: Sequence[Message]) -> bool:
    """Say whether who answers has spoken after the message that is asked: then it was asked before."""
    return any(each.role == "assistant" and each.seq > asked.seq for each in seen)


def clamp_timestamp(message: Message, newer: Sequence[Message]) -> Message:
    """Return a message with a time that is not after those of the newer ones: its place in the room is what counts.

    Clocks differ, and old messages are posted late; a prompt tells them as the room does.
    """
    if not newer or message.at <= newer[-1].at:
        return message
    return msgspec.structs.replace(message, at=newer[-1].at)


def _needs_more(messages: Sequence[Message], tokens: int, reach: HistoryReach) -> bool:
    """Say whether to read on: as long as there is room, and until results have their call."""
    if messages and messages[-1].role == "tool":
        return True
    return tokens <= reach.tokens and (reach.messages is None or len(messages) < reach.messages)


async def _find_last_user_message(store: Store, room: str, loaded: Sequence[Message]) -> Message | None:
    """Return what a person said last, if it lies before all that was loaded: an agent's steps may have filled it."""
    if not loaded or any(message.role == "user" for message in loaded):
        return None
    before = loaded[-1].seq
    for _ in range(_MAX_USER_PAGES):
        page = [entry.message for entry in await store.history(room, before=before, limit=MAX_PAGE)]
        said_by_person = next((each for each in page if each.role == "user" and not each.hidden), None)
        if said_by_person or len(page) < MAX_PAGE:
            return said_by_person
        before = page[-1].seq
    return None


class Clusters:
    """Which cluster a message belongs to: that of the newest summary that covers it.

    Summaries by spans are the janitor's, of which no two cover the same; a flood's is for messages that are set aside.
    """

    def __init__(self, summaries: Sequence[Summary]) -> None:
        """Read summaries, newest first."""
        self._named: dict[str, str] = {}
        for summary in reversed(summaries):
            self._named.update(dict.fromkeys(summary.covers, summary.cluster))
        plain = [each for each in summaries if not each.covers]
        self._spans = sorted((first, last, each.cluster) for each in plain for first, last in each.spans)
        self._long = [(each.first, each.last, each.cluster) for each in plain if each.last and not each.spans]
        self._first = {each.cluster: each.first for each in plain if each.first}

    def of(self, message: Message) -> str | None:
        """Return the cluster of a message, if it has one."""
        return self._named.get(message.id) or (self._at(message.seq) if self._spans or self._long else None)

    def parted(self, messages: Sequence[Message], read: Iterable[int]) -> set[str]:
        """Return the clusters of which not all is among the messages, newest first.

        They reach further back, or places between the messages were not `read`: the janitor has set them aside.
        """
        if not messages:
            return set()
        newest, oldest = messages[0].seq, messages[-1].seq
        places = sorted(read)
        found = {cluster for cluster, first in self._first.items() if first < oldest}
        for first, last, cluster in self._spans:
            low, high = max(first, oldest), min(last, newest)
            if low <= high and bisect_right(places, high) - bisect_left(places, low) < high - low + 1:
                found.add(cluster)
        return found

    def whole(
        self, packages: list[ContentPackage], parted: Collection[str], sure: int | None = None
    ) -> list[ContentPackage]:
        """Take a cluster off messages that are not to give way to its summary.

        Where there is more of it than these, the summary tells of the others, too: it competes by itself. And the
        newest, from the place `sure` on, are worth more than what the janitor tells of them.
        """
        told = {cluster for _, _, cluster in self._spans} if sure is not None else set()
        if not parted and not told:
            return packages
        return [
            msgspec.structs.replace(package, cluster=None)
            if package.cluster in parted or (package.cluster in told and package.position >= (sure or 0))
            else package
            for package in packages
        ]

    def _at(self, seq: int) -> str | None:
        at = bisect_right(self._spans, (seq + 1,)) - 1
        if at >= 0 and self._spans[at][1] >= seq:
            return self._spans[at][2]
        return next((cluster for first, last, cluster in self._long if first <= seq <= last), None)
