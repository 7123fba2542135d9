"""Package the messages of a client's request, so that the oldest turns are dropped first."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import Final, cast

import msgspec

from brimful.core.content import MAX_PRIORITY, ContentPackage, Flex, Part, Text, ToolCall, ToolResult
from brimful.core.cost import count_content
from brimful.core.counter import TokenCounter
from brimful.core.frame import SYSTEM_ID, Frame, has_editable_hole, message_id, part_text
from brimful.core.prompt import Message
from brimful.packagers.package import get_defaults

_MAX_CACHED_CHARACTERS: Final = 4_096  # characters of a message whose package is worth remembering: most are shorter


class _Item(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A message, where it stands, and what binds it to others."""

    id: str
    place: int
    message: Message
    group: str | None = None


def package_turns(
    system: Sequence[Message],
    turns: Sequence[Sequence[Message]],
    frame: Frame,
    *,
    counter: TokenCounter,
    names: bool,
    min_tokens: int | None = None,
) -> tuple[ContentPackage, ...]:
    """Package a system prompt that stands apart, and turns in their order, each of one message or two.

    System messages are required, and so are the last words of the user and whatever ends the conversation. `names` says
    that names of speakers are sent. With `min_tokens`, what can be cut in its frame may be.
    """
    said = [_Item(id=SYSTEM_ID, place=-1, message=message) for message in system] + list(
        _with_groups(tuple(_list_items(turns)))
    )
    required = _required_positions(said)
    leading = len(list(takewhile(lambda each: each.message.role == "system", said)))
    packages = []
    for at, each in enumerate(said):
        kind = "system-prompt" if at < leading else _kind(each.message, last=at == len(said) - 1)
        least = min_tokens if min_tokens is not None and _can_shorten(each, frame) else None
        make = (
            _cached_package
            if sum(len(part_text(part)) for part in each.message.parts) <= _MAX_CACHED_CHARACTERS
            else _package
        )
        packages.append(make(each, kind, at in required, names, least, counter))
    return tuple(packages)


def _package(
    said: _Item,
    kind: str,
    required: bool,  # noqa: FBT001 - keys of the memo
    names: bool,  # noqa: FBT001
    least: int | None,
    counter: TokenCounter,
) -> ContentPackage:
    message, implied = said.message, get_defaults(kind)
    match message.parts:
        case (Text(text=text),):
            content: str | tuple[Part, ...] = text
        case parts:
            content = parts
    return ContentPackage(
        id=said.id,
        kind=kind,
        content=content,
        tokens=count_content(content, counter),
        role=message.role,
        name=message.name if names else "",
        importance=implied.importance,
        position=max(0, said.place),
        flex=Flex(can_drop=not required, priority=MAX_PRIORITY if required else implied.priority, min_tokens=least),
        group=said.group,
    )


_Make = Callable[[_Item, str, bool, bool, int | None, TokenCounter], ContentPackage]
_cached_package: Final = cast("_Make", lru_cache(16_384)(_package))
"""A conversation comes again with every turn: nearly all of it was packaged before."""


def _list_items(turns: Sequence[Sequence[Message]]) -> Iterator[_Item]:
    for place, turn in enumerate(turns):
        for part, message in enumerate(turn):
            yield _Item(id=message_id(place, part), place=place, message=message)


def _with_groups(said: Sequence[_Item]) -> Iterator[_Item]:
    """Yield all with the group of what shares its fate; in a group that lacks a half of a call, all as plain text.

    Whether such a request is right is for its provider to say. Here it only has to stay as right as it was.
    """
    ties, broken = _find_ties(said)
    leaders = _group_leaders(len(said), ties)
    members = Counter(leaders)
    lame = {leaders[at] for at in broken}
    for each, leader in zip(said, leaders, strict=True):
        message = _as_plain_text(each.message) if leader in lame else each.message
        group = said[leader].id if members[leader] > 1 else None
        yield msgspec.structs.replace(each, message=message, group=group)


def _find_ties(said: Sequence[_Item]) -> tuple[list[tuple[int, int]], set[int]]:
    """Return which messages belong together, by their turn or as a result and its call, and which lack a half."""
    ties = [(at - 1, at) for at in range(1, len(said)) if said[at].place == said[at - 1].place]
    waiting: dict[str, int] = {}
    broken: set[int] = set()
    for at, each in enumerate(said):
        for part in each.message.parts:
            if isinstance(part, ToolCall):
                broken.update([waiting[part.id]] if part.id in waiting else [])
                waiting[part.id] = at
            elif isinstance(part, ToolResult):
                ties.append((waiting.get(part.id, at), at))
                broken.update([] if part.id in waiting else [at])
                waiting.pop(part.id, None)
    return ties, broken.union(waiting.values())


def _group_leaders(count: int, ties: Sequence[tuple[int, int]]) -> list[int]:
    """Return for each the first of those it is tied to, directly or through others."""
    leader = list(range(count))

    def find(at: int) -> int:
        while leader[at] != at:
            leader[at] = leader[leader[at]]
            at = leader[at]
        return at

    for one, other in ties:
        first, second = sorted((find(one), find(other)))
        leader[second] = first
    return [find(at) for at in range(count)]


def _as_plain_text(message: Message) -> Message:
    role = "user" if message.role == "tool" else message.role
    return msgspec.structs.replace(message, role=role, parts=tuple(Text(text=part_text(p)) for p in message.parts))


def _required_positions(said: Sequence[_Item]) -> set[int]:
    last_user = max((at for at, each in enumerate(said) if each.message.role == "user"), default=-1)
    systems = {at for at, each in enumerate(said) if each.message.role == "system"}
    return systems | {last_user, len(said) - 1}


def _kind(message: Message, *, last: bool) -> str:
    if message.role == "tool":
        return "tool-result"
    if any(isinstance(part, ToolCall) for part in message.parts):
        return "tool-call"
    return "message-current" if last and message.role == "user" else "message-recent"


def _can_shorten(said: _Item, frame: Frame) -> bool:
    if said.message.role == "system" or len(said.message.parts) != 1 or not part_text(said.message.parts[0]):
        return False
    framed = frame.messages[said.place]
    return framed is None or has_editable_hole(framed)
