"""Package the messages of a client's request, so that the oldest turns are dropped first."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from itertools import chain, takewhile
from typing import Any, Final, Literal

import msgspec

from brimful.cache import content_bytes, memoize
from brimful.core.content import (
    MAX_PRIORITY,
    ContentPackage,
    Flex,
    Media,
    Part,
    Text,
    ToolCall,
    ToolResult,
    group_tool_results,
)
from brimful.core.cost import OWN_KEY, REASONING_KEY, count_content
from brimful.core.frame import SYSTEM_ID, Frame, editable_holes, message_id, part_text
from brimful.core.handles import MARK_KEY
from brimful.core.own_output import is_own_message, message_mark, with_handles
from brimful.core.prompt import Message, TokenCounter
from brimful.core.units import find_leaders
from brimful.packagers.package import get_defaults

_MAX_CACHED_CHARACTERS: Final = 32_768  # of a message; most are shorter
_PACKAGE_BYTES: Final = 1_600  # memory of a package without its content, and of its key

_Place = Literal["opening", "between", "last"]
"""Where a message is in a request: among the system prompts that open it, or the last one."""
_Treatment = Literal["optional", "required", "pinned"]
"""Whether a message may be left out. A pinned one is not shortened either."""


class _Item(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A message with its position, the index of its first part in the turn, its group, and its parts with reasoning.

    `own` says that Brimful wrote it in an earlier round.
    """

    id: str
    position: int
    message: Message
    first_part: int = 0
    group: str | None = None
    reasoning: tuple[int, ...] = ()
    own: bool = False


def package_turns(  # noqa: PLR0913 - most have a default
    system: Sequence[Message],
    turns: Sequence[Sequence[Message]],
    frame: Frame,
    *,
    counter: TokenCounter,
    names: bool,
    min_tokens: int | None = None,
    pinned: Collection[int] = (),
    ties: Sequence[Sequence[int]] = (),
    reasoning: Sequence[tuple[int, ...]] = (),
) -> tuple[ContentPackage, ...]:
    """Package a separate system prompt and turns in order, each of one or two messages.

    System messages, the last user message and the last message are required. `names` says whether speakers' names are
    sent. Messages may be shortened if their frame allows it, with `min_tokens` whatever the policy says. The turns at
    the indices `pinned` are required and never shortened, and the turns of each of the `ties` are kept or dropped
    together. `reasoning` are the parts of each turn that the provider does not need.
    """
    items = [_Item(id=SYSTEM_ID, position=-1, message=message) for message in system] + list(
        _with_groups(tuple(_list_items(turns)), ties)
    )
    items = _with_own(items, pinned)

    @cache
    def editable(position: int) -> frozenset[int]:
        return frozenset(editable_holes(frame.messages[position]))

    required = _required_positions(items)
    leading = len(list(takewhile(lambda each: each.message.role == "system", items)))
    framed, last = frame.messages, len(items) - 1
    packages = []
    for index, each in enumerate(items):
        position = each.position
        is_pinned = position in pinned
        if reasoning and not is_pinned and position >= 0 and reasoning[position]:
            each = msgspec.structs.replace(each, reasoning=reasoning[position])  # noqa: PLW2901 - with its parts
        place: _Place = "opening" if index < leading else "last" if index == last else "between"
        treatment: _Treatment = "pinned" if is_pinned else "required" if index in required else "optional"
        holes = None if position < 0 or framed[position] is None else editable(position)
        make = _cached_package if _length(each.message) <= _MAX_CACHED_CHARACTERS else _package
        packages.append(make(each, place, treatment, holes, names, min_tokens, counter))
    return with_handles(packages)


def _with_own(items: list[_Item], pinned: Collection[int]) -> list[_Item]:
    """Return the items, with those marked that Brimful wrote in an earlier round. Neither the last one nor pins are."""
    for index, each in enumerate(items[:-1]):
        if is_own_message(each.message) and each.position not in pinned:
            items[index] = msgspec.structs.replace(each, own=True)
    return items


def _length(message: Message) -> int:
    return sum([len(part_text(part)) for part in message.parts])


def _package(  # noqa: PLR0917 - together they are the cache key
    item: _Item,
    place: _Place,
    treatment: _Treatment,
    holes: frozenset[int] | None,
    names: bool,  # noqa: FBT001 - likewise
    min_tokens: int | None,
    counter: TokenCounter,
) -> ContentPackage:
    message, can_drop = item.message, treatment == "optional"
    kind = "system-prompt" if place == "opening" else _kind(message, last=place == "last")
    can_shrink = treatment != "pinned" and not item.own and _can_shorten(item, holes)
    match message.parts:
        case (Text(text=text),):
            content: str | tuple[Part, ...] = text
        case parts:
            content = parts
    return ContentPackage(
        id=item.id,
        kind=kind,
        content=content,
        tokens=count_content(content, counter),
        role=message.role,
        name=message.name if names else "",
        importance=get_defaults(kind).importance,
        position=max(0, item.position),
        flex=Flex(
            can_drop=can_drop,
            priority=get_defaults(kind).priority if can_drop else MAX_PRIORITY,
            min_tokens=min_tokens if can_shrink else None,
            can_shrink=can_shrink,
        ),
        group=item.group,
        metadata=_make_metadata(item),
    )


def _make_metadata(item: _Item) -> dict[str, Any]:
    metadata: dict[str, Any] = {REASONING_KEY: list(item.reasoning)} if item.reasoning else {}
    if item.own:
        metadata[OWN_KEY] = True
    elif mark := message_mark(item.message):
        metadata[MARK_KEY] = mark
    return metadata


_cached_package: Final = memoize(
    _package, name="packages", size=lambda _, package: _PACKAGE_BYTES + content_bytes(package.content)
)
"""Clients resend the whole conversation with every turn, so nearly all of it was packaged before."""


def _list_items(turns: Sequence[Sequence[Message]]) -> Iterator[_Item]:
    """Yield the messages of all turns. The results of parallel calls are separate, so that each can be shortened."""
    for position, turn in enumerate(turns):
        if len(turn) == 1 and turn[0].role != "tool":  # as most are
            yield _Item(id=message_id(position), position=position, message=turn[0])
            continue
        first_part = 0
        for number, message in enumerate(chain.from_iterable(map(_split_results, turn))):
            id = message_id(position, number)
            yield _Item(id=id, position=position, message=message, first_part=first_part)
            first_part += len(message.parts)


def _split_results(message: Message) -> Sequence[Message]:
    results = group_tool_results(message.parts) if message.role == "tool" and len(message.parts) > 1 else ()
    if len(results) < 2:  # noqa: PLR2004 - nothing to split
        return (message,)
    return [msgspec.structs.replace(message, parts=parts) for _, parts in results]


def _with_groups(items: Sequence[_Item], tied: Sequence[Sequence[int]]) -> Iterator[_Item]:
    """Yield all items with their groups. If a group lacks a call or a result, its messages become plain text.

    The provider decides whether such a request is valid. Here it must only stay as valid as it was.
    """
    ties, broken = _find_ties(items)
    if not ties and not broken and not tied:
        yield from items
        return
    first = {each.position: i for i, each in reversed(list(enumerate(items)))} if tied else {}
    callers = [(first[group[0]], first[position]) for group in tied for position in group[1:]]
    found = find_leaders([*ties, *callers])
    leaders = [found.get(index, index) for index in range(len(items))]
    members = Counter(leaders)
    incomplete = {leaders[i] for i in broken}
    for each, leader in zip(items, leaders, strict=True):
        if members[leader] == 1 and leader not in incomplete:  # as most are
            yield each
            continue
        message = _as_plain_text(each.message) if leader in incomplete else each.message
        group = items[leader].id if members[leader] > 1 else None
        yield msgspec.structs.replace(each, message=message, group=group)


def _find_ties(items: Sequence[_Item]) -> tuple[list[tuple[int, int]], set[int]]:
    """Return which items belong together, by turn or as a call and its result, and which lack their counterpart."""
    ties = [(i - 1, i) for i in range(1, len(items)) if items[i].position == items[i - 1].position]
    waiting: dict[str, int] = {}
    broken: set[int] = set()
    for index, each in enumerate(items):
        for part in each.message.parts:
            if isinstance(part, ToolCall):
                broken.update([waiting[part.id]] if part.id in waiting else [])
                waiting[part.id] = index
            elif isinstance(part, ToolResult):
                ties.append((waiting.get(part.id, index), index))
                broken.update([] if part.id in waiting else [index])
                waiting.pop(part.id, None)
    return ties, broken.union(waiting.values())


def _as_plain_text(message: Message) -> Message:
    role = "user" if message.role == "tool" else message.role
    parts = tuple(p if isinstance(p, Media) and p.is_opaque else Text(text=part_text(p)) for p in message.parts)
    return msgspec.structs.replace(message, role=role, parts=parts)


def _required_positions(items: Sequence[_Item]) -> set[int]:
    last_user = max((i for i, each in enumerate(items) if each.message.role == "user" and not each.own), default=-1)
    systems = {i for i, each in enumerate(items) if each.message.role == "system"}
    return systems | {last_user, len(items) - 1}


def _kind(message: Message, *, last: bool) -> str:
    if message.role == "tool":
        return "tool-result"
    if any(isinstance(part, ToolCall) for part in message.parts):
        return "tool-call"
    return "message-current" if last and message.role == "user" else "message-recent"


def _can_shorten(item: _Item, holes: Collection[int] | None) -> bool:
    """Whether the longest text of a message, which is the one that gets shorter, can be replaced in the request.

    `holes` are the texts of its turn that can be; None means all.
    """
    texts = [len(part_text(part)) if isinstance(part, Text | ToolResult) else 0 for part in item.message.parts]
    if item.message.role == "system" or not any(texts):
        return False
    return holes is None or item.first_part + texts.index(max(texts)) in holes
