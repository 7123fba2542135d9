"""What of a caller's messages a room holds already. Clients send all that was said, some of it, or only what is new."""

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any

import msgspec

from brimful.core.content import LONGEST_NORMALIZED, Media, Part, Text, ToolCall, ToolResult
from brimful.core.lenient import decode_json
from brimful.records import Content, Message

_LEAST_PROOF = 2  # messages that must be found: a single one may have been said twice


class Overlap(msgspec.Struct, frozen=True, kw_only=True):
    """How a caller's messages meet a room: those before `new` are there, and `after` is the last that was met there."""

    new: int
    after: Message | None


def find_overlap(sent: Sequence[Message], tail: Sequence[Message], *, broken_off: bool = False) -> Overlap:
    """Compare what was sent, oldest first, with the end of a room, oldest first.

    Who sends one message sends what is new, even if the same was said before; only if nobody answered it, or the answer
    was `broken_off`, is it taken for another try. Who sends more sends what was said: of answers that were told in
    other words, or given twice, nothing is written again.

    >>> def said(role, text): return Message(id=text, room="r", role=role, content=text)
    >>> room = [said("user", "Tea?"), said("assistant", "Yes."), said("user", "Now?"), said("assistant", "Later.")]
    >>> find_overlap([*room, said("user", "When?")], room).new
    4
    >>> find_overlap([said("user", "Now?")], room).new, find_overlap([said("user", "Now?")], room[:3]).new
    (0, 1)
    """
    theirs, ours = [_key(message) for message in sent], [_key(message) for message in tail]
    end = tail[-1] if tail else None
    if len(sent) == 1:
        at = len(ours) - 1 - (broken_off and len(ours) > 1)
        again = bool(ours) and theirs[0] == ours[at]
        return Overlap(new=1, after=tail[at]) if again else Overlap(new=0, after=end)
    matcher = SequenceMatcher(None, theirs, ours, autojunk=False)
    blocks = [block for block in matcher.get_matching_blocks() if block.size]
    if not blocks:
        return Overlap(new=0, after=end)
    new, place = blocks[-1].a + blocks[-1].size, blocks[-1].b + blocks[-1].size - 1
    answered = any(message.role == "assistant" for message in tail[place + 1 :])
    asked_last = all(message.role != "user" for message in tail[place + 1 :])
    goes_on = not answered or (new < len(sent) and sent[new].role == "assistant")
    if sum(block.size for block in blocks) < _LEAST_PROOF and not (asked_last and goes_on):
        return Overlap(new=0, after=end)
    while answered and new < len(sent) and sent[new].role == "assistant":
        new += 1
    return Overlap(new=new, after=tail[place])


def _key(message: Message) -> tuple[Any, ...]:
    """Return what a message says, without how it is spaced."""
    return (message.role, *_parts(message.content))


def _parts(content: Content) -> list[tuple[Any, ...]]:
    parts: Sequence[Part] = (Text(text=content),) if isinstance(content, str) else content
    return [said for part in parts if (said := _said(part)) != ("text", "")]


def _said(part: Part) -> tuple[Any, ...]:
    match part:
        case Text():
            return ("text", _spaced(part.text))
        case Media():
            return ("media", part.data or part.url)
        case ToolCall():
            return ("call", part.id, part.name, _plain(part.arguments))
        case ToolResult():
            return ("result", part.id, _spaced(part.content))


def _spaced(text: str) -> str:
    """Return a text with single spaces; a very long one as it is, for it would hold up the others."""
    return text if len(text) > LONGEST_NORMALIZED else " ".join(text.split())


def _plain(arguments: str) -> str:
    """Return arguments as they are written in one form only."""
    try:
        return msgspec.json.encode(decode_json(arguments), order="sorted").decode()
    except ValueError:
        return arguments
