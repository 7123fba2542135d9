"""Recent history: newest to oldest in pages by key, with stored counts, until the budget is met."""

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from typing import Final

import msgspec

from brimful.core.budget import ContextBudget
from brimful.core.content import ContentPackage
from brimful.core.cost import role_of, speaker
from brimful.core.policy import Policy
from brimful.core.tokens import TokenCounter
from brimful.counting import texts_of
from brimful.engine.company import as_seen
from brimful.engine.counts import aside, know, know_history
from brimful.engine.plan import pool_of
from brimful.packagers.stored import said
from brimful.protocols import Store
from brimful.records import Message, Persona, Summary

FIRST_PAGE: Final = 64  # messages; each next page is twice as long, so that any budget is met in a few reads
LONGEST_PAGE: Final = 1024
_PAGES_FOR_WORDS: Final = 20  # read back for what a person said last, and no more
_MORE: Final = 4  # read beyond what met a reach last time
KEPT: Final = 16_384  # packages of messages that a process keeps at hand


class Recent(msgspec.Struct, frozen=True, kw_only=True):
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


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """How far back to read: so many tokens, and so many messages at most. `sure` tokens of them will be in."""

    tokens: int
    sure: int
    messages: int | None = None


def reach_of(policy: Policy, budget: ContextBudget) -> Reach:
    """Return how much history could ever get in: what its pool may take, or all there is where the pool may borrow."""
    pool = pool_of(policy, "message-recent")
    if pool is None:
        return Reach(tokens=0, sure=0, messages=0)
    limit = budget.limit(pool.name)
    low_water = 1.0 if pool.low_water is None else pool.low_water
    return Reach(tokens=budget.available if pool.borrow else limit, sure=int(limit * low_water), messages=pool.most)


class Packaged:
    """The packages of messages that were read before: from one build to the next, nearly all of a history is the same.

    A message is what it was as long as it stands at its place and says the same. How many messages met a reach is kept
    as well, so that the next build reads as many at once.
    """

    def __init__(self, kept: int = KEPT) -> None:
        """Keep so many, least recently used first to go."""
        self._kept = kept
        self._known: OrderedDict[tuple[object, ...], tuple[ContentPackage, int]] = OrderedDict()
        self._met: OrderedDict[tuple[str, Reach], int] = OrderedDict()

    def first_page(self, room: str, reach: Reach) -> int:
        """Return how many messages to read first: what it took last time, and a few more."""
        took = self._met.get((room, reach), 0)
        return min(LONGEST_PAGE, max(FIRST_PAGE, took + took // 16 + _MORE)) if took else FIRST_PAGE

    def met(self, room: str, reach: Reach, messages: int) -> None:
        """Note how many messages met a reach."""
        self._met[room, reach] = messages
        self._met.move_to_end((room, reach))
        if len(self._met) > self._kept:
            self._met.popitem(last=False)

    async def package(self, message: Message, counter: TokenCounter, cluster: str | None) -> tuple[ContentPackage, int]:
        """Return a message's package, and what it costs where it stands."""
        said_by = (message.id, message.room, message.seq, message.sender, message.role, message.at, message.edited)
        key = (*said_by, message.content, cluster, counter)
        known = self._known.get(key)
        if known is None:
            known = await aside(texts_of(message.content), _placed, message, counter, cluster)
            self._known[key] = known
            if len(self._known) > self._kept:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(key)
        return known


def _placed(message: Message, counter: TokenCounter, cluster: str | None) -> tuple[ContentPackage, int]:
    package = said(message, counter=counter, cluster=cluster)
    return package, package.tokens.upper + counter.message_overhead(role_of(package), speaker(package))


async def load_recent(  # noqa: PLR0913 - all that a history hangs on
    store: Store,
    room: str,
    *,
    counter: TokenCounter,
    vocabulary: str | None,
    reach: Reach,
    packaged: Packaged,
    persona: Persona | None = None,
    summaries: Sequence[Summary] = (),
    asked: Message | None = None,
    asker: bool = False,
) -> Recent:
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
    while _more(messages, tokens, reach):
        page = await store.history(room, before=before, limit=page_size, tokenizer=vocabulary or "")
        counted += await know_history(store, vocabulary, page)
        read += [entry.message.seq for entry in page]
        seen = [each for each in as_seen([entry.message for entry in page], persona) if not each.hidden]
        if asked is not None and _answered_since(asked, seen):
            messages, packages, tokens, sure, before, asked = [], [], 0, None, asked.seq, None
            continue
        for each in seen:
            if asked is not None and each.id == asked.id:
                continue
            message = in_order(each, messages)
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
        before, page_size = page[-1].message.seq, min(2 * page_size, LONGEST_PAGE)
    packaged.met(room, reach, len(messages))
    parted = clusters.parted(messages, read)
    packages = clusters.whole(packages, parted, sure)
    if asker and (words := await _last_words(store, room, messages)):
        counted += await know(store, vocabulary, [words.content])
        messages.append(words)
        packages.append((await packaged.package(words, counter, None))[0])
    return Recent(
        messages=tuple(messages), packages=tuple(packages), sure=sure, counted=counted, parted=frozenset(parted)
    )


def _answered_since(asked: Message, seen: Sequence[Message]) -> bool:
    """Say whether who answers has spoken after the message that is asked: then it was asked before."""
    return any(each.role == "assistant" and each.seq > asked.seq for each in seen)


def in_order(message: Message, newer: Sequence[Message]) -> Message:
    """Return a message with a time that is not after those of the newer ones: its place in the room is what counts.

    Clocks differ, and old messages are posted late; a prompt tells them as the room does.
    """
    if not newer or message.at <= newer[-1].at:
        return message
    return msgspec.structs.replace(message, at=newer[-1].at)


def _more(messages: Sequence[Message], tokens: int, reach: Reach) -> bool:
    """Say whether to read on: as long as there is room, and until results have their call."""
    if messages and messages[-1].role == "tool":
        return True
    return tokens <= reach.tokens and (reach.messages is None or len(messages) < reach.messages)


async def _last_words(store: Store, room: str, loaded: Sequence[Message]) -> Message | None:
    """Return what a person said last, if it lies before all that was loaded: an agent's steps may have filled it."""
    if not loaded or any(message.role == "user" for message in loaded):
        return None
    before = loaded[-1].seq
    for _ in range(_PAGES_FOR_WORDS):
        page = [entry.message for entry in await store.history(room, before=before, limit=LONGEST_PAGE)]
        said_by_person = next((each for each in page if each.role == "user" and not each.hidden), None)
        if said_by_person or len(page) < LONGEST_PAGE:
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
