"""Detect which of a client's messages are already stored.

Clients may resend the full history, a suffix of it, or only new messages.
"""

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any

import msgspec

from brimful.core.content import MAX_NORMALIZED_LENGTH, Media, Part, Text, ToolCall, ToolResult
from brimful.core.decode import decode_json
from brimful.protocols import Store
from brimful.records import Content, Message


class RoomTail(msgspec.Struct, frozen=True, kw_only=True):
    """The last messages of a room, oldest first; `whole` if these are all. The last hidden one stands at `left`."""

    messages: tuple[Message, ...]
    left: int
    whole: bool


async def load_tail(store: Store, room: str, most: int) -> RoomTail:
    """Read back until there are so many messages, whatever is hidden between them."""
    shown: list[Message] = []
    left, before, whole = 0, None, False
    while len(shown) < most and not whole:
        page = [entry.message for entry in await store.history(room, before=before, limit=most)]
        shown += [message for message in page if not message.hidden]
        left = max([left, *(message.seq for message in page if message.hidden)])
        before, whole = page[-1].seq if page else before, len(page) < most
    return RoomTail(messages=tuple(reversed(shown)), left=left, whole=whole)


_MessageKey = tuple[Any, ...]
_MIN_MATCHES = 2  # messages that must be found: a single one may have been said twice


class Overlap(msgspec.Struct, frozen=True, kw_only=True):
    """How a caller's messages meet a room: those before `new` are there, and `after` is the last that was met there.

    What was `left` stands behind it in the room, and is part of the conversation no more: the caller goes on otherwise.
    """

    new: int
    after: Message | None
    left: tuple[Message, ...] = ()


def find_overlap(sent: Sequence[Message], tail: Sequence[Message], *, broken_off: bool = False) -> Overlap:
    """Compare what was sent, oldest first, with the end of a room, oldest first.

    Who sends one message sends what is new, even if the same was said before; only if nobody answered it, the answer
    was `broken_off`, or it is all that was ever asked, is it taken for another try. Who sends more sends what was said:
    of answers that were told in other words, or given twice, nothing is written again. What was said more than once is
    met where it was said last, so that no more is left than must be.

    >>> def said(role, text): return Message(id=text, room="r", role=role, content=text)
    >>> room = [said("user", "Tea?"), said("assistant", "Yes."), said("user", "Now?"), said("assistant", "Later.")]
    >>> find_overlap([*room, said("user", "When?")], room).new
    4
    >>> find_overlap([said("user", "Now?")], room).new, find_overlap([said("user", "Now?")], room[:3]).new
    (0, 1)
    """
    theirs, ours = [_message_key(message) for message in sent], [_message_key(message) for message in tail]
    end = tail[-1] if tail else None
    if len(sent) == 1:
        at = _repeated_question(theirs[0], ours, tail, broken_off=broken_off)
        return Overlap(new=0, after=end) if at is None else Overlap(new=1, after=tail[at], left=tuple(tail[at + 1 :]))
    matcher = SequenceMatcher(None, theirs[::-1], ours[::-1], autojunk=False)
    blocks = [block for block in matcher.get_matching_blocks() if block.size]
    if not blocks:
        return Overlap(new=0, after=end)
    new, place = len(theirs) - blocks[0].a, len(ours) - blocks[0].b - 1
    proven = _count_matching(theirs[:new], ours[: place + 1]) >= _MIN_MATCHES
    answered = any(message.role == "assistant" for message in tail[place + 1 :])
    asked_last = all(message.role != "user" for message in tail[place + 1 :])
    goes_on = not answered or (new < len(sent) and sent[new].role == "assistant")
    if sum(block.size for block in blocks) < _MIN_MATCHES and not (asked_last and goes_on):
        return Overlap(new=0, after=end)
    told = new
    while answered and new < len(sent) and sent[new].role == "assistant":
        new += 1
    left = _abandoned(sent[new - 1 :], tail[place + 1 :], told=new > told) if proven else ()
    return Overlap(new=new, after=tail[place], left=left)


def _repeated_question(
    asked: _MessageKey, ours: Sequence[_MessageKey], tail: Sequence[Message], *, broken_off: bool
) -> int | None:
    """Return the place of a question that is asked again; None if it is a new one."""
    last = len(ours) - 1 - (broken_off and len(ours) > 1)
    if ours and asked == ours[last]:
        return last
    alone = bool(tail) and tail[0].seq <= 1 and all(message.role != "user" for message in tail[1:])
    return 0 if alone and asked == ours[0] else None


def _count_matching(theirs: Sequence[_MessageKey], ours: Sequence[_MessageKey]) -> int:
    """Return how many messages are the same, back from the last, without a gap; answers may be in other words."""
    met = 0
    for sent, stored in zip(reversed(theirs), reversed(ours), strict=False):
        if sent == stored:
            met += 1
        elif (sent[0], stored[0]) != ("assistant", "assistant"):
            break
    return met


def _abandoned(sent: Sequence[Message], rest: Sequence[Message], *, told: bool) -> tuple[Message, ...]:
    """Return what of the `rest` of a room a caller left behind, who has sent on from the last message that is known.

    Whoever `told` an answer has the stored one in other words; what was asked after it is left.
    """
    if len(sent) == 1 and sent[0].role == "assistant":
        return ()  # it is to be gone on with, which says nothing of what came after it
    first = next((at for at, message in enumerate(rest) if message.role == "user"), len(rest)) if told else 0
    return tuple(rest[first:])


def _message_key(message: Message) -> _MessageKey:
    """Return what a message says, without how it is spaced."""
    return (message.role, *_part_keys(message.content))


def _part_keys(content: Content) -> list[tuple[Any, ...]]:
    parts: Sequence[Part] = (Text(text=content),) if isinstance(content, str) else content
    return [said for part in parts if (said := _part_key(part)) != ("text", "")]


def _part_key(part: Part) -> tuple[Any, ...]:
    match part:
        case Text():
            return ("text", _collapse_spaces(part.text))
        case Media():
            return ("media", part.data or part.url)
        case ToolCall():
            return ("call", part.id, part.name, _canonical_json(part.arguments))
        case ToolResult():
            return ("result", part.id, _collapse_spaces(part.content))


def _collapse_spaces(text: str) -> str:
    """Return a text with single spaces; a very long one as it is, for it would hold up the others."""
    return text if len(text) > MAX_NORMALIZED_LENGTH else " ".join(text.split())


def _canonical_json(arguments: str) -> str:
    """Return arguments as they are written in one form only."""
    try:
        return msgspec.json.encode(decode_json(arguments), order="sorted").decode()
    except ValueError:
        return arguments
