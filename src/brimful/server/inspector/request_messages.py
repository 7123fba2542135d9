"""The messages of a request with their items, and where something was left out between them."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Final

from brimful.core.content import ContentPackage, Part, Text, ToolCall, ToolResult
from brimful.core.context import Context, scale_to_total
from brimful.core.cost import count_content, region_of
from brimful.core.decision import Decision, Region
from brimful.core.prompt import Message, TokenCounter
from brimful.core.toolset import TOOL_KIND
from brimful.core.units import TimeKey, time_key
from brimful.core.verify import restore_media_sizes
from brimful.server.inspector.context_cache import CachedContext
from brimful.server.inspector.views import View, content_text, packages_by_id, parse_request
from brimful.views.picture import band_name

_STABLE: Final = ("system", "pinned")
_CONVERSATION: Final = ("history", "current")
_MAX_AHEAD: Final = 8  # messages among which the next one is looked for, if the provider's format joins some


class RequestMessage(View, frozen=True, kw_only=True):
    """A message of the request as sent, with its tokens and the ids of the candidates in it, in order."""

    role: str
    name: str
    text: str
    tokens: int
    items: tuple[str, ...]


class Omission(View, frozen=True, kw_only=True):
    """Candidates that are not in the request, where they would have been.

    `index` is that of the message before which they would have been. `summary` is the id of the summary that is there
    instead, or empty. `count` is larger than the number of `items` if messages were not even loaded.
    """

    index: int
    component: str
    summary: str
    count: int
    tokens: int
    items: tuple[str, ...]


class RequestMessages(View, frozen=True, kw_only=True):
    """The messages of a request, in its order, and what is not in it.

    `other_tokens` are those of the tools and of the request itself: with those of the messages, they are all of it.
    """

    messages: tuple[RequestMessage, ...]
    omissions: tuple[Omission, ...]
    other_tokens: int


def request_messages(cached: CachedContext) -> RequestMessages:
    """Return the messages of a context's request, by choosing its contents again."""
    context, candidates = cached.snapshot.context, cached.prepare(cached.snapshot.context.inputs)
    arranged = cached.chosen.arrangement.prompt
    sent = restore_media_sizes(parse_request(context), arranged).messages
    indices = _find_indices(context, arranged.messages, sent)
    items: list[list[str]] = [[] for _ in sent]
    for id, index in indices.items():
        items[index].append(id)
    tokens = _count_messages(sent, candidates.counter, context.tokens)
    messages = [
        RequestMessage(
            role=message.role, name=message.name, text=content_text(message.parts), tokens=count, items=tuple(inside)
        )
        for message, count, inside in zip(sent, tokens, items, strict=True)
    ]
    return RequestMessages(
        messages=tuple(messages),
        omissions=tuple(_find_omissions(context, indices, len(sent))),
        other_tokens=context.tokens - sum(tokens),
    )


def _count_messages(messages: Sequence[Message], counter: TokenCounter, whole: int) -> list[int]:
    """Return the tokens of each message; rounded up one by one, they may come to more than the whole request."""
    tokens = {
        str(index): count_content(message.content, counter).upper + counter.message_overhead(message.role, message.name)
        for index, message in enumerate(messages)
    }
    return list(scale_to_total(tokens, whole).values())


# -- where items are -------------------------------------------------------------------------------------------------


def _find_indices(context: Context, arranged: Sequence[Message], sent: Sequence[Message]) -> dict[str, int]:
    """Return the index of the message that each included candidate is in, in the order of the request."""
    if not sent:  # it cannot be read, since something in it was erased
        return {}
    places = zip(arranged, _match_messages(arranged, sent), strict=True)
    by_source = {id: index for message, index in places for id in message.sources}
    placed = [each for each in context.decisions if each.position is not None]
    indices: dict[str, int] = {}
    index = 0
    for decision in sorted(placed, key=attrgetter("position")):
        index = by_source.get(decision.id, index)  # media are in the message before them
        indices[decision.id] = index
    return indices


def _match_messages(arranged: Sequence[Message], sent: Sequence[Message]) -> list[int]:
    """Return the index of the sent message that has each arranged one. Some formats join messages of one speaker."""
    if len(arranged) == len(sent):
        return list(range(len(sent)))
    texts = [content_text(message.parts) for message in sent]
    indices: list[int] = []
    current, start = 0, 0  # where the next text is looked for
    for message in arranged:
        ahead = range(current, min(current + _MAX_AHEAD, len(sent)))
        ours = [i for i in ahead if (sent[i].role == "assistant") == (message.role == "assistant")]
        first = _first_text(message.parts)
        index = next(
            (i for i in ours if texts[i].find(first, start if i == current else 0) >= 0), next(iter(ours), current)
        )
        if index != current:
            current, start = index, 0
        start = max(start, texts[current].find(first, start) + len(first))
        indices.append(current)
    return indices


def _first_text(parts: Iterable[Part]) -> str:
    """Return what a message begins with, in any format; empty if it has only media."""
    for part in parts:
        match part:
            case Text(text=text) | ToolResult(content=text) if text.strip():
                return text.strip()
            case ToolCall(name=name):
                return name
    return ""


# -- what is not in --------------------------------------------------------------------------------------------------


def _find_omissions(context: Context, indices: dict[str, int], end: int) -> list[Omission]:
    """Return what was left out or summarized, by the message before which it would have been.

    The text of a duplicate is in the request, so it is not left out.
    """
    packages, places = packages_by_id(context), _Places(context, indices, end)
    out = [each for each in context.decisions if each.outcome in ("dropped", "replaced")]
    groups: dict[tuple[int, str, str], list[Decision]] = {}
    for decision in sorted(out, key=lambda each: time_key(packages[each.id])):
        summary = decision.by if decision.outcome == "replaced" else ""
        key = (places.of(packages[decision.id]), band_name(decision), summary)
        groups.setdefault(key, []).append(decision)
    unread = context.inputs.unread
    omissions = [
        Omission(
            index=index,
            component=component,
            summary=summary,
            count=len(decisions),
            tokens=sum(each.tokens for each in decisions),
            items=tuple(each.id for each in decisions),
        )
        for (index, component, summary), decisions in groups.items()
    ]
    if unread.messages:
        omissions.append(
            Omission(
                index=places.history,
                component="recent",
                summary="",
                count=unread.messages,
                tokens=unread.tokens,
                items=(),
            )
        )
    return sorted(omissions, key=lambda each: (each.index, bool(each.items)))


class _Places:
    """The indices of the messages before which something that was left out would have been."""

    def __init__(self, context: Context, indices: dict[str, int], end: int) -> None:
        by_region: dict[Region, list[int]] = {}
        turns: list[tuple[TimeKey, int]] = []
        packages = packages_by_id(context)
        for decision in context.decisions:
            index = indices.get(decision.id)
            if index is None or decision.region is None:
                continue
            by_region.setdefault(decision.region, []).append(index)
            if region_of(packages[decision.id]) in _CONVERSATION:
                turns.append((time_key(packages[decision.id]), index))
        current = min(by_region.get("current", [end]))
        self._stable = max((index + 1 for region in _STABLE for index in by_region.get(region, ())), default=0)
        self._related = max((index + 1 for index in by_region.get("related", ())), default=current)
        self._note = current
        self._turns = sorted(turns)
        self._end = end

    @property
    def history(self) -> int:
        """Where the history begins."""
        return min((index for _, index in self._turns), default=self._end)

    def of(self, package: ContentPackage) -> int:
        """Return the index of the message before which a package would have been."""
        region = region_of(package)
        if package.kind == TOOL_KIND or region in _STABLE:
            return self._stable
        if region == "related":
            return self._related
        if region == "note":
            return self._note
        later = bisect_right(self._turns, (time_key(package), self._end))
        return self._turns[later][1] if later < len(self._turns) else self._end
