"""Tool calls and their results: ids that every provider accepts, results in the order of the calls."""

import hashlib
import re
from collections.abc import Iterable
from typing import Final

import msgspec

from brimful.core.prompt import Message, Part, ToolCall, ToolResult
from brimful.render.names import tool_name

_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,40}")  # Anthropic's letters, OpenAI's length


def is_call_id(id: object) -> bool:
    """Whether every provider takes this as the id of a call.

    >>> is_call_id("call_1"), is_call_id("call 1"), is_call_id("")
    (True, False, False)
    """
    return isinstance(id, str) and _ID.fullmatch(id) is not None


def pair_calls(messages: Iterable[Message]) -> list[Message]:
    """Give each call a unique id that every provider accepts; give its result the same id, its name and its place.

    An id that is accepted and new stays. Another becomes a hash of itself and of how often it was seen, so that it is
    the same in the next request of the conversation.

    >>> call = Message(role="assistant", parts=(ToolCall(id="#1", name="look.up"),))
    >>> result = Message(role="tool", parts=(ToolResult(id="#1", content="tea"),))
    >>> [(message.parts[0].id, message.parts[0].name) for message in pair_calls([call, result])]
    [('call_613ca892e9b25f5b', 'look_up'), ('call_613ca892e9b25f5b', 'look_up')]
    """
    used: set[str] = set()
    waiting: list[tuple[str, ToolCall]] = []
    paired: list[Message] = []
    for message in messages:
        parts = message.parts
        if message.role == "tool":
            parts = _answer(parts, waiting)
        else:
            waiting = [(part.id, _accepted(part, used)) for part in parts if isinstance(part, ToolCall)]
            if waiting:
                renamed = iter(call for _, call in waiting)
                parts = tuple(next(renamed) if isinstance(part, ToolCall) else part for part in parts)
        paired.append(message if parts is message.parts else msgspec.structs.replace(message, parts=parts))
    return paired


def _accepted(call: ToolCall, used: set[str]) -> ToolCall:
    seen = 0
    id = call.id if is_call_id(call.id) else _hashed(call.id, seen)
    while id in used:
        seen += 1
        id = _hashed(call.id, seen)
    used.add(id)
    return msgspec.structs.replace(call, id=id, name=tool_name(call.name))


def _answer(parts: tuple[Part, ...], waiting: list[tuple[str, ToolCall]]) -> tuple[Part, ...]:
    """Name each result after its call, and sort by call. A result without one stays, last, for `check` to name."""
    placed: list[tuple[int, Part]] = []
    open_places = list(range(len(waiting)))
    for part in parts:
        if not isinstance(part, ToolResult):
            continue
        place = next((place for place in open_places if waiting[place][0] == part.id), None)
        if place is None:
            id = part.id if is_call_id(part.id) else _hashed(part.id, 0)
            placed.append((len(waiting), msgspec.structs.replace(part, id=id, name=tool_name(part.name))))
            continue
        open_places.remove(place)
        call = waiting[place][1]
        placed.append((place, msgspec.structs.replace(part, id=call.id, name=call.name)))
    return tuple(part for _, part in sorted(placed, key=lambda entry: entry[0]))


def _hashed(id: str, seen: int) -> str:
    return "call_" + hashlib.blake2b(f"{seen}:{id}".encode(), digest_size=8).hexdigest()
