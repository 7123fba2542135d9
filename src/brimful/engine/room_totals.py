"""How many messages a room has besides those that are candidates, and their tokens.

A build reads sums from the store, and counts only messages that are in none yet: usually those since the last build.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from brimful.core.content import ContentPackage, Media
from brimful.core.context import Unread
from brimful.core.model import ModelInfo
from brimful.core.prompt import TokenCounter
from brimful.counting import count_raw, find_uncounted, texts_in
from brimful.engine.counts import ensure_history_counts
from brimful.records import Content, Message
from brimful.stores import Store
from brimful.stores.tables.room_counts import MAX_SPAN, RoomCounts, Span, Sum

_MIN_SAVED: Final = 64  # messages; fewer are counted again by the next build, which costs less than a write
_MAX_TOKENIZED: Final = 100  # texts of a build that are in no window; a worker counts the others


class RoomCounter(msgspec.Struct, frozen=True, kw_only=True):
    """Counts the texts and media of messages: without calibration, which changes, and without overhead."""

    model: ModelInfo
    counter: TokenCounter
    vocabulary: str | None

    @property
    def name(self) -> str:
        """The name under which sums are stored."""
        rules = (self.model.image_rule, self.model.audio_rule, self.model.video_rule)
        return " ".join([self.vocabulary or self.counter.tokenizer, *(rule or "-" for rule in rules)])

    def find_uncounted(self, contents: Iterable[Content]) -> frozenset[str]:
        """Return the texts that were never counted."""
        texts = [text for content in contents for text in texts_in(content)]
        return frozenset(find_uncounted(self.vocabulary, texts) if self.vocabulary else ())

    def count(self, contents: Iterable[Content]) -> int:
        """Return the tokens of contents whose texts have been counted before."""
        texts, media = [], 0
        for content in contents:
            texts += texts_in(content)
            parts = () if isinstance(content, str) else content
            media += sum(self.counter.media(part).tokens for part in parts if isinstance(part, Media))
        if self.vocabulary is None:
            return media + sum(count.tokens for count in self.counter.texts(texts))
        return media + sum(count_raw(self.vocabulary, texts))


class RoomTotal(msgspec.Struct, frozen=True, kw_only=True):
    """All visible messages of a room, and their tokens. `sums` have to be saved; `tokenized` texts were counted now."""

    messages: int = 0
    tokens: int = 0
    sums: tuple[Sum, ...] = ()
    tokenized: int = 0


async def count_room(store: Store, counts: RoomCounts, counter: RoomCounter) -> RoomTotal:
    """Count all visible messages of a room, also archived ones.

    The cost must not follow the length of the room. So messages that were not read, or have no stored count, are
    taken to be like the others. Each build reads and counts some more of them.
    """
    read = [each for span in counts.spans for each in span.messages if not each.message.hidden]
    tokenized = await ensure_history_counts(store, counter.vocabulary, read, limit=_MAX_TOKENIZED)
    uncounted = counter.find_uncounted(each.message.content for each in read)
    added, others = [], 0
    for span in counts.spans:
        known, unknown = _split(span, uncounted)
        if known is not None:
            contents = [each.message.content for each in known.messages]
            tokens = counter.count(contents)
            added.append(Sum(first=known.first, last=known.last, messages=len(contents), tokens=tokens))
        others += unknown
    every = [*counts.sums, *added]
    messages, tokens = sum(each.messages for each in every), sum(each.tokens for each in every)
    positions = sum(each.last - each.first + 1 for each in every)
    others += round(messages * counts.rest / positions) if positions else counts.rest
    newest = max((each.last for each in every), default=0)
    is_due = any(each.last < newest for each in added) or sum(each.messages for each in added) >= _MIN_SAVED
    return RoomTotal(
        messages=messages + others,
        tokens=tokens + (round(tokens * others / messages) if messages else 0),
        sums=tuple(_join(counts.sums, added)) if is_due else (),
        tokenized=tokenized,
    )


def find_unread(
    total: RoomTotal, candidates: Mapping[str, Message], packages: Sequence[ContentPackage], counter: RoomCounter
) -> Unread:
    """Return what the room has besides the candidates. `packages` are the counted packages of the recent history.

    Plain texts among them show by how much calibrated counts differ.
    """
    plain = [each for each in packages if isinstance(each.content, str)]
    raw = counter.count(each.content for each in plain)
    factor = sum(each.tokens.tokens for each in plain) / raw if raw else 1.0
    left = total.tokens - counter.count(message.content for message in candidates.values())
    messages = max(0, total.messages - len(candidates))
    return Unread(messages, max(0, round(factor * left))) if messages else Unread()


def _split(span: Span, uncounted: frozenset[str]) -> tuple[Span | None, int]:
    """Return the newest part of a span, in which all texts are counted, and the number of messages before it."""
    visible = [each for each in span.messages if not each.message.hidden]
    is_unknown = (not uncounted.isdisjoint(texts_in(each.message.content)) for each in visible)
    end = next((i for i, unknown in enumerate(is_unknown) if unknown), len(visible))
    if end == len(visible):
        return Span(first=span.first, last=span.last, messages=tuple(visible)), 0
    first = visible[end].message.seq + 1
    known = Span(first=first, last=span.last, messages=tuple(visible[:end])) if first <= span.last else None
    return known, len(visible) - end


def _join(known: Sequence[Sum], added: Sequence[Sum]) -> Iterator[Sum]:
    """Yield the added sums, each together with the known one just before it, if both are small."""
    by_end = {each.last: each for each in known}
    for each in added:
        before = by_end.get(each.first - 1)
        if before is None or before.messages + each.messages > MAX_SPAN:
            yield each
        else:
            messages, tokens = before.messages + each.messages, before.tokens + each.tokens
            yield Sum(first=before.first, last=each.last, messages=messages, tokens=tokens)
