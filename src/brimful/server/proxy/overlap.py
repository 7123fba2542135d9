"""Detect which of a client's messages are already stored.

Clients may resend the full history, a suffix of it, or only new messages.
"""

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any

import msgspec

from brimful.core.content import MAX_NORMALIZED_LENGTH, Media, Part, Text, ToolCall, ToolResult
from brimful.core.prompt import Message as PromptMessage
from brimful.core.validation import decode_json
from brimful.records import Content, Message
from brimful.stores import Store
from brimful.wires.call_names import pair_by_name
from brimful.wires.normalize import join_texts

_MIN_MATCHES = 2  # a single match may be a coincidence


class RoomTail(msgspec.Struct, frozen=True, kw_only=True):
    """The last messages of a room, oldest first; `whole` if complete. `left` is the `seq` of the last hidden one."""

    messages: tuple[Message, ...]
    left: int
    whole: bool


async def load_tail(store: Store, room: str, limit: int) -> RoomTail:
    """Load the last visible messages of a room."""
    visible: list[Message] = []
    left, before, whole = 0, None, False
    while len(visible) < limit and not whole:
        page = [entry.message for entry in await store.history(room, before=before, limit=limit)]
        visible += [message for message in page if not message.hidden]
        left = max([left, *(message.seq for message in page if message.hidden)])
        before, whole = page[-1].seq if page else before, len(page) < limit
    return RoomTail(messages=tuple(reversed(visible)), left=left, whole=whole)


_MessageKey = tuple[Any, ...]


class Overlap(msgspec.Struct, frozen=True, kw_only=True):
    """How a client's messages match a room: those before `new` are stored, and `after` is the last stored match.

    `left` are the stored messages after it, which are no longer part of the conversation.
    """

    new: int
    after: Message | None
    left: tuple[Message, ...] = ()


def find_overlap(
    sent: Sequence[Message], tail: Sequence[Message], *, broken_off: bool = False, by_name: bool = False
) -> Overlap:
    """Compare a client's messages with the end of a room, both oldest first.

    A single message is new, even if it repeats an earlier one. It is a retry only if it was not answered, the answer
    was `broken_off`, or it is the only question in the room. A client that sends several messages resends the history:
    answers that differ in wording or repeat are not stored again. A repeated message matches its last occurrence, so
    that as little as possible is abandoned.

    >>> def message(role, text): return Message(id=text, room="r", role=role, content=text)
    >>> turns = [("user", "Tea?"), ("assistant", "Yes."), ("user", "Now?"), ("assistant", "Later.")]
    >>> room = [message(role, text) for role, text in turns]
    >>> find_overlap([*room, message("user", "When?")], room).new
    4
    >>> find_overlap([message("user", "Now?")], room).new, find_overlap([message("user", "Now?")], room[:3]).new
    (0, 1)
    """
    theirs = [_message_key(message, by_name=by_name) for message in sent]
    ours = [_message_key(message, by_name=by_name) for message in tail]
    end = tail[-1] if tail else None
    if len(sent) == 1:
        same = _repeated_question(theirs[0], ours, tail, broken_off=broken_off)
        return (
            Overlap(new=0, after=end)
            if same is None
            else Overlap(new=1, after=tail[same], left=tuple(tail[same + 1 :]))
        )
    matcher = SequenceMatcher(None, theirs[::-1], ours[::-1], autojunk=False)
    blocks = [block for block in matcher.get_matching_blocks() if block.size]
    if not blocks:
        return Overlap(new=0, after=end)
    new, last = len(theirs) - blocks[0].a, len(ours) - blocks[0].b - 1
    is_proven = _count_matching(theirs[:new], ours[: last + 1]) >= _MIN_MATCHES
    answered = any(message.role == "assistant" for message in tail[last + 1 :])
    ends_with_question = all(message.role != "user" for message in tail[last + 1 :])
    continues = not answered or (new < len(sent) and sent[new].role == "assistant")
    if sum(block.size for block in blocks) < _MIN_MATCHES and not (ends_with_question and continues):
        return Overlap(new=0, after=end)
    resent = new
    while answered and new < len(sent) and sent[new].role == "assistant":
        new += 1
    left = _abandoned(sent[new - 1 :], tail[last + 1 :], replaced=new > resent) if is_proven else ()
    return Overlap(new=new, after=tail[last], left=left)


def _repeated_question(
    question: _MessageKey, ours: Sequence[_MessageKey], tail: Sequence[Message], *, broken_off: bool
) -> int | None:
    """Return the index of a question that is asked again; None if it is new."""
    last = len(ours) - 1 - (broken_off and len(ours) > 1)
    if ours and question == ours[last]:
        return last
    alone = bool(tail) and tail[0].seq <= 1 and all(message.role != "user" for message in tail[1:])
    return 0 if alone and question == ours[0] else None


def _count_matching(theirs: Sequence[_MessageKey], ours: Sequence[_MessageKey]) -> int:
    """Return how many messages match, from the last one back without a gap; answers may differ in wording."""
    matching = 0
    for sent, stored in zip(reversed(theirs), reversed(ours), strict=False):
        if sent == stored:
            matching += 1
        elif (sent[0], stored[0]) != ("assistant", "assistant"):
            break
    return matching


def _abandoned(sent: Sequence[Message], rest: Sequence[Message], *, replaced: bool) -> tuple[Message, ...]:
    """Return the messages of `rest` that a client abandoned by continuing differently.

    If the client's answer `replaced` the stored one, only the next question and what follows is abandoned.
    """
    if len(sent) == 1 and sent[0].role == "assistant":
        return ()  # the client wants it continued, which says nothing about later messages
    first = next((i for i, message in enumerate(rest) if message.role == "user"), len(rest)) if replaced else 0
    return tuple(rest[first:])


def name_results(new: Sequence[Message], tail: Sequence[Message]) -> list[Message]:
    """Return messages whose tool results have the ids of the stored calls that they answer, by the names of the tools.

    >>> call = Message(id="a", room="r", role="assistant", content=(ToolCall(id="call_1", name="look_up"),))
    >>> result = Message(id="b", room="r", role="tool", content=(ToolResult(id="?", name="look_up", content="tea"),))
    >>> name_results([result], [call])[0].content[0].id
    'call_1'
    """
    paired = pair_by_name([(_as_prompt(message),) for message in (*tail, *new)])[len(tail) :]
    return [
        message if isinstance(message.content, str) else msgspec.structs.replace(message, content=each.parts)
        for message, (each,) in zip(new, paired, strict=True)
    ]


def _as_prompt(message: Message) -> PromptMessage:
    return PromptMessage(role=message.role, parts=() if isinstance(message.content, str) else message.content)


def _message_key(message: Message, *, by_name: bool) -> _MessageKey:
    """Return a message's content with normalized spacing."""
    return (message.role, *_part_keys(message.content, by_name=by_name))


def _part_keys(content: Content, *, by_name: bool) -> list[tuple[Any, ...]]:
    """Return the keys of parts. Neighboring texts are one: some clients send an answer in several."""
    parts: Sequence[Part] = (Text(text=content),) if isinstance(content, str) else content
    keys = [_part_key(part, by_name=by_name) for part in join_texts(parts)]
    return [key for key in keys if key != ("text", "")]


def _part_key(part: Part, *, by_name: bool) -> tuple[Any, ...]:
    match part:
        case Text():
            return ("text", _collapse_spaces(part.text))
        case Media():
            return ("media", part.data or part.url)
        case ToolCall():
            return ("call", "" if by_name else part.id, part.name, _canonical_json(part.arguments))
        case ToolResult():
            return ("result", "" if by_name else part.id, _collapse_spaces(part.content))


def _collapse_spaces(text: str) -> str:
    """Collapse white space, except in very long texts, which would block other requests."""
    return text if len(text) > MAX_NORMALIZED_LENGTH else " ".join(text.split())


def _canonical_json(arguments: str) -> str:
    """Return tool arguments in canonical form."""
    try:
        return msgspec.json.encode(decode_json(arguments), order="sorted").decode()
    except ValueError:
        return arguments
