"""Recent history, read newest first in pages with stored counts, until the budget is met."""

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

import msgspec

from brimful.cache import LRU, content_bytes
from brimful.core.budget import ContextBudget
from brimful.core.content import ContentPackage
from brimful.core.cost import role_of, sender_of
from brimful.core.media import media_parts
from brimful.core.policy import Policy
from brimful.core.prompt import TokenCounter
from brimful.core.select import ITEM_SHARE
from brimful.counting import texts_in
from brimful.engine.counts import ensure_counts, ensure_history_counts, run_in_thread_if_long
from brimful.engine.personas import as_seen_by
from brimful.packagers.records import package_message
from brimful.records import Message, Persona, Summary
from brimful.records.search import CountedMessage
from brimful.stores import Store

FIRST_PAGE: Final = 64  # messages; each further page is twice as long, so that any budget is filled in a few reads
MAX_PAGE: Final = 1024
_MAX_USER_PAGES: Final = 20  # searched for the last user message
_EXTRA_MESSAGES: Final = 4  # read beyond what filled the budget last time
_MAX_SPAN: Final = 2_048  # messages for a ledger; what is older is only found by search
_LINE_TOKENS: Final = 4  # of the window for each of these messages: if there are more, their steps have no line
_WHOLE_SHARE: Final = 0.5  # of the room for an agent's steps, that they have in any case
MAX_PACKAGES: Final = 16_384  # cached packages of messages
_PACKAGE_BYTES: Final = 1_200  # memory of a package without its content, and of its key
_REACH_BYTES: Final = 600  # memory of a room and how far back to read in it


class RecentHistory(msgspec.Struct, frozen=True, kw_only=True):
    """The newest messages of a room, newest first, and their packages.

    Messages from position `sure` on will be in the window, so they need not be searched. Of the others, `whole` are the
    ids of messages that will be in it unshortened, if long messages between them are shortened. `counted` texts had to
    be tokenized. `partial_clusters` have more messages than these.
    """

    messages: tuple[Message, ...] = ()
    packages: tuple[ContentPackage, ...] = ()
    sure: int | None = None
    counted: int = 0
    partial_clusters: frozenset[str] = frozenset()
    whole: frozenset[str] = frozenset()

    def make_filter(self, history_start: str) -> Callable[[object], bool]:
        """Return a function that says whether a record is a message that will be in the window anyway, all of it."""
        start = self._position(history_start) or 0
        return lambda record: isinstance(record, Message) and record.id in self.whole and record.seq >= start

    def search_end(self, history_start: str) -> int | None:
        """Return the position before which to search.

        History keeps starting with the message `history_start`, which may be newer than `sure`.
        """
        start = self._position(history_start)
        return self.sure if start is None or self.sure is None else max(self.sure, start)

    def _position(self, id: str) -> int | None:
        return next((message.seq for message in self.messages if message.id == id), None)


class HistoryReach(msgspec.Struct, frozen=True, kw_only=True):
    """How far back to read: at most this many tokens and messages. The first `sure` tokens will be in the window.

    A history that is no longer than `whole` tokens will be in it as a whole.

    A message that is longer than `item` tokens will be shortened to that if there is no room for all of it.

    With `span`, at least so many positions are read, and up to a quarter more, so that history does not begin with
    another message on every turn.
    """

    def find_oldest(self, page: Sequence[CountedMessage]) -> int:
        """Return the position of the oldest message to read, given the newest messages."""
        if self.span is None or not page:
            return 0
        step = max(1, self.span // 4)
        return max(0, page[0].message.seq - self.span) // step * step

    tokens: int
    sure: int
    whole: int = 0
    messages: int | None = None
    item: int | None = None
    span: int | None = None


def get_history_reach(policy: Policy, budget: ContextBudget, *, current: bool = False) -> HistoryReach:
    """Return how much history may fit: the limit of its pool, or the whole budget if the pool may borrow.

    A `current` message is one of the messages that the pool may hold.
    """
    pool = policy.pool_for_kind("message-recent")
    if pool is None:
        return HistoryReach(tokens=0, sure=0, messages=0)
    limit = budget.limit(pool.name)
    if pool.ledger is not None:
        span = min(_MAX_SPAN, max(FIRST_PAGE, budget.available // _LINE_TOKENS))
        whole = int(_WHOLE_SHARE * limit * (pool.low_water or 1.0))
        return HistoryReach(tokens=sys.maxsize, sure=0, whole=whole, span=span)
    low_water = 1.0 if pool.low_water is None else pool.low_water
    sure = low_water if pool.need is None else min(low_water, pool.need.min_share)
    tokens = budget.available if pool.borrow else limit
    item = max(policy.forms.over, int(tokens * ITEM_SHARE)) if policy.forms.allow("message-recent", tokens) else None
    most = pool.history.max_items if pool.max_items is None else pool.max_items
    messages = None if most is None else max(0, most - current)
    return HistoryReach(
        tokens=tokens, sure=int(limit * sure), whole=int(limit * low_water), messages=messages, item=item
    )


class PackageCache:
    """Caches the packages of messages, since most of a history stays the same from one build to the next.

    It also remembers how many messages a build needed, so that the next one reads them at once.
    """

    def __init__(self, max_entries: int = MAX_PACKAGES) -> None:
        self._packages: LRU[tuple[object, ...], tuple[ContentPackage, int]] = LRU(
            max_entries=max_entries,
            name="packages",
            size=lambda _, cached: _PACKAGE_BYTES + content_bytes(cached[0].content),
        )
        self._needed: LRU[tuple[str, HistoryReach], int] = LRU(
            max_entries=max_entries, name="conversations", size=lambda _, __: _REACH_BYTES
        )

    def first_page(self, room: str, reach: HistoryReach) -> int:
        """Return how many messages to read first: a few more than needed last time."""
        if reach.messages == 0:
            return 0
        needed = self._needed.get((room, reach), 0)
        return min(MAX_PAGE, max(FIRST_PAGE, needed + needed // 16 + _EXTRA_MESSAGES)) if needed else FIRST_PAGE

    def note_needed(self, room: str, reach: HistoryReach, messages: int) -> None:
        """Remember how many messages were needed."""
        self._needed[room, reach] = messages

    def get(self, message: Message, counter: TokenCounter, cluster: str | None) -> tuple[ContentPackage, int] | None:
        """Return the package of a message and its cost in tokens, if they are cached."""
        return self._packages.get(_package_key(message, counter, cluster))

    async def package(self, message: Message, counter: TokenCounter, cluster: str | None) -> tuple[ContentPackage, int]:
        """Package a message, and return its cost in tokens as well."""
        made = await run_in_thread_if_long(texts_in(message.content), _package_with_cost, message, counter, cluster)
        self._packages[_package_key(message, counter, cluster)] = made
        return made


def _package_key(message: Message, counter: TokenCounter, cluster: str | None) -> tuple[object, ...]:
    identity = (message.id, message.room, message.seq, message.at, message.edited)
    return (*identity, message.sender, message.role, message.persona, message.content, cluster, counter)


def _package_with_cost(message: Message, counter: TokenCounter, cluster: str | None) -> tuple[ContentPackage, int]:
    package = package_message(message, counter=counter, cluster=cluster)
    media = sum(counter.media(part).upper for _, _, part in media_parts(package))  # left out before any message is
    return package, package.tokens.upper - media + counter.message_overhead(role_of(package), sender_of(package))


async def load_history(  # noqa: PLR0913 - everything that history depends on
    store: Store,
    room: str,
    *,
    counter: TokenCounter,
    vocabulary: str | None,
    reach: HistoryReach,
    cache: PackageCache,
    newest: Sequence[CountedMessage] | None,
    persona: Persona | None = None,
    summaries: Sequence[Summary] = (),
    current: Message | None = None,
    include_user: bool = False,
) -> RecentHistory:
    """Read history backwards as far as it may fit, as the persona sees it.

    `newest` is its first page, of the size that the cache says.
    The `current` message is packaged elsewhere. If it was answered before, that answer and everything after it is left
    out. With `include_user`, the last user message is included, however old it is.
    """
    clusters = Clusters(summaries)
    messages: list[Message] = []
    packages: list[ContentPackage] = []
    read: list[int] = []
    tokens, full, counted, page_size = 0, 0, 0, cache.first_page(room, reach)
    whole: list[tuple[str, int]] = []
    before: int | None = None
    sure: int | None = None
    oldest: int | None = None
    while _needs_more(messages, tokens, reach):
        if newest is None:
            newest = await store.history(room, before=before, limit=page_size, tokenizer=vocabulary or "")
        page, newest = newest, None
        oldest = reach.find_oldest(page) if oldest is None else oldest
        page = [entry for entry in page if entry.message.seq >= oldest]
        counted += await ensure_history_counts(store, vocabulary, page)
        read += [entry.message.seq for entry in page]
        posted = current.id if current else None
        seen = as_seen_by([entry.message for entry in page], persona)
        seen = [each for each in seen if not each.hidden and each.id != posted]
        if current is not None and _was_answered(current, seen):
            messages, packages, whole, tokens, full, sure, before, current = [], [], [], 0, 0, None, current.seq, None
            continue
        for each in seen:
            message = clamp_timestamp(each, messages)
            cluster = clusters.find(message)
            package, cost = cache.get(message, counter, cluster) or await cache.package(message, counter, cluster)
            messages.append(message)
            packages.append(package)
            capped = cost if reach.item is None else min(cost, reach.item)
            tokens += capped
            full += cost
            if capped == cost:
                whole.append((message.id, tokens))
            if full <= reach.sure:
                sure = message.seq
            if not _needs_more(messages, tokens, reach):
                break
        if len(page) < page_size:
            break
        before, page_size = page[-1].message.seq, min(2 * page_size, MAX_PAGE)
    cache.note_needed(room, reach, len(messages))
    sure = messages[-1].seq if messages and full <= reach.whole else sure
    certain = reach.whole if tokens <= reach.whole else reach.sure
    partial = clusters.find_partial(messages, read)
    packages = clusters.detach(packages, partial, sure)
    if include_user and (user_message := await _find_last_user_message(store, room, messages)):
        counted += await ensure_counts(store, vocabulary, [user_message.content])
        messages.append(user_message)
        packages.append((await cache.package(user_message, counter, None))[0])
    return RecentHistory(
        messages=tuple(messages),
        packages=tuple(packages),
        sure=sure,
        counted=counted,
        partial_clusters=frozenset(partial),
        whole=frozenset(id for id, until in whole if until <= certain),
    )


def _was_answered(message: Message, others: Sequence[Message]) -> bool:
    return any(each.role == "assistant" and each.seq > message.seq for each in others)


def clamp_timestamp(message: Message, newer: Sequence[Message]) -> Message:
    """Return a message whose time is not later than that of newer messages.

    Clocks differ, and old messages may be posted late. The order in the room counts.
    """
    if not newer or message.at <= newer[-1].at:
        return message
    return msgspec.structs.replace(message, at=newer[-1].at)


def _needs_more(messages: Sequence[Message], tokens: int, reach: HistoryReach) -> bool:
    """Whether to read on: until the budget or the number of messages is reached, and tool results have their call."""
    if messages and messages[-1].role == "tool":
        return True
    return tokens <= reach.tokens and (reach.messages is None or len(messages) < reach.messages)


async def _find_last_user_message(store: Store, room: str, loaded: Sequence[Message]) -> Message | None:
    """Return the last user message if it is not loaded, since an agent's steps may fill the history."""
    if not loaded or any(message.role == "user" for message in loaded):
        return None
    before = loaded[-1].seq
    for _ in range(_MAX_USER_PAGES):
        page = [entry.message for entry in await store.history(room, before=before, limit=MAX_PAGE)]
        found = next((each for each in page if each.role == "user" and not each.hidden), None)
        if found or len(page) < MAX_PAGE:
            return found
        before = page[-1].seq
    return None


class Clusters:
    """Assigns messages to clusters: each to the cluster of the newest summary that covers it.

    Summaries with spans come from the janitor and do not overlap, except those of floods, whose messages are archived.
    """

    def __init__(self, summaries: Sequence[Summary]) -> None:
        """Take summaries, newest first."""
        self._by_id: dict[str, str] = {}
        for summary in reversed(summaries):
            self._by_id.update(dict.fromkeys(summary.covers, summary.cluster))
        by_position = [each for each in summaries if not each.covers]
        self._spans = sorted((first, last, each.cluster) for each in by_position for first, last in each.spans)
        self._ranges = [(each.first, each.last, each.cluster) for each in by_position if each.last and not each.spans]
        self._starts = {each.cluster: each.first for each in by_position if each.first}

    def find(self, message: Message) -> str | None:
        return self._by_id.get(message.id) or (self._find_at(message.seq) if self._spans or self._ranges else None)

    def find_partial(self, messages: Sequence[Message], read: Iterable[int]) -> set[str]:
        """Return the clusters of which some messages are not loaded.

        They start before the oldest message, or some of their positions were not `read` because they are archived.
        """
        if not messages:
            return set()
        newest, oldest = messages[0].seq, messages[-1].seq
        positions = sorted(read)
        partial = {cluster for cluster, first in self._starts.items() if first < oldest}
        for first, last, cluster in self._spans:
            low, high = max(first, oldest), min(last, newest)
            if low <= high and bisect_right(positions, high) - bisect_left(positions, low) < high - low + 1:
                partial.add(cluster)
        return partial

    def detach(
        self, packages: list[ContentPackage], partial: Collection[str], sure: int | None = None
    ) -> list[ContentPackage]:
        """Remove the cluster of messages that their summary must not replace.

        The summary of a partial cluster covers other messages, too, so it competes by itself. And the newest messages,
        from position `sure` on, are worth more than the janitor's summary.
        """
        janitor = {cluster for _, _, cluster in self._spans} if sure is not None else set()
        if not partial and not janitor:
            return packages
        return [
            msgspec.structs.replace(package, cluster=None)
            if package.cluster in partial or (package.cluster in janitor and package.position >= (sure or 0))
            else package
            for package in packages
        ]

    def _find_at(self, seq: int) -> str | None:
        index = bisect_right(self._spans, (seq + 1,)) - 1
        if index >= 0 and self._spans[index][1] >= seq:
            return self._spans[index][2]
        return next((cluster for first, last, cluster in self._ranges if first <= seq <= last), None)
