"""Ids of tool calls: each is used once, and has the form that a model's chat template takes."""

import hashlib
import re
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from brimful.core.content import Part, ToolCall, ToolResult
from brimful.core.prompt import Message

_OF_TOOLS: Final = (ToolCall, ToolResult)
_LENGTH: Final = 9  # Mistral's templates refuse ids of any other length
_SHORT: Final = re.compile(rf"[a-zA-Z0-9]{{{_LENGTH}}}")


def unique_ids(messages: Iterable[Message]) -> list[Message]:
    """Give call ids that were used before a number. Some clients begin again with every turn; providers refuse that."""
    used: dict[str, int] = {}

    def numbered(id: str) -> str:
        used[id] = used.get(id, 0) + 1
        return id if used[id] == 1 else f"{id}-{used[id]}"

    return _renamed(messages, numbered)


def short_ids(messages: Iterable[Message]) -> list[Message]:
    """Give every call an id of nine letters and digits that no other has, and its result the same.

    One that is so already stays. Another becomes a hash of itself, so that it is the same in the next request.

    >>> asked = Message(role="assistant", parts=(ToolCall(id="call_1", name="f"), ToolCall(id="abcDEF123", name="f")))
    >>> [part.id for part in short_ids([asked])[0].parts]
    ['db7901e51', 'abcDEF123']
    """
    used: set[str] = set()

    def short(id: str) -> str:
        seen, found = 0, id if _SHORT.fullmatch(id) else _hashed(id, 0)
        while found in used:
            seen += 1
            found = _hashed(id, seen)
        used.add(found)
        return found

    return _renamed(messages, short)


def _renamed(messages: Iterable[Message], name: Callable[[str], str]) -> list[Message]:
    """Rename calls one by one, and each result as the last call of its id."""
    named: dict[str, str] = {}

    def renamed(part: Part) -> Part:
        if isinstance(part, ToolCall):
            named[part.id] = name(part.id)
        if isinstance(part, _OF_TOOLS) and named.get(part.id, part.id) != part.id:
            return msgspec.structs.replace(part, id=named[part.id])
        return part

    return [
        msgspec.structs.replace(message, parts=tuple([renamed(part) for part in message.parts]))
        if any(map(_is_of_tools, message.parts))
        else message
        for message in messages
    ]


def _is_of_tools(part: Part) -> bool:
    return isinstance(part, _OF_TOOLS)


def _hashed(id: str, seen: int) -> str:
    return hashlib.blake2b(f"{seen}:{id}".encode(), digest_size=_LENGTH).hexdigest()[:_LENGTH]
