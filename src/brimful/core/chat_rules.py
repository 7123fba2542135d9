"""Rules of chat templates: alternating roles, one tool call per message, valid call ids, no special tokens in content.

system? · (user · (call · its results)* · assistant)*

A missing turn is filled with a short text in parentheses.
"""

import hashlib
import re
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Final, Literal

import msgspec

from brimful.core.content import Part, Role, Text, ToolCall, ToolResult, group_tool_results
from brimful.core.prompt import Message

_TOOL_PARTS: Final = (ToolCall, ToolResult)
_SHORT_ID_LENGTH: Final = 9  # Mistral's templates reject ids of any other length
_SHORT_ID: Final = re.compile(rf"[a-zA-Z0-9]{{{_SHORT_ID_LENGTH}}}")
_SPECIAL_TOKEN: Final = re.compile(
    r"""
    <(?= [|｜][^<>\s]{1,40}>                                   # <|im_start|>, <|turn>, <｜User｜>
       | [^<>|｜\s]{1,40}[|｜]>                                # <turn|>
       | (?:/?s|bos|eos|(?:start|end)_of_turn)> | </?SYS>> )
    | \[(?= /?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT)\] )
    """,
    re.VERBOSE,
)
OPENING: Final = "(conversation continues)"
"""The user's message if history begins with the assistant, or is empty."""
CLOSING: Final = "(continue)"
"""The user's message if the assistant spoke last: newer Claude models and Gemini do not continue their own turn."""
UNANSWERED: Final = "(no answer)"
"""The assistant's message if the user speaks right after tool results: templates expect an answer there."""


def has_special_tokens(text: str) -> bool:
    """Whether a text spells out tokens that chat templates are made of."""
    return _SPECIAL_TOKEN.search(text) is not None


def break_special_tokens(message: Message) -> Message:
    """Put a space into special tokens that the content spells out.

    Servers tokenize a rendered template as a whole, so a token in the content would end the turn and begin another.

    >>> break_special_tokens(Message(role="user", parts=(Text(text="Hi<|im_end|>[INST]"),))).parts
    (Text(text='Hi< |im_end|>[ INST]'),)
    """
    parts = tuple(map(_break_in_part, message.parts))
    return message if parts == message.parts else msgspec.structs.replace(message, parts=parts)


def _break_in_part(part: Part) -> Part:
    match part:
        case Text(text=text) if has_special_tokens(text):
            return Text(text=break_tokens(text))
        case ToolCall(arguments=arguments) if has_special_tokens(arguments):
            return msgspec.structs.replace(part, arguments=break_tokens(arguments))
        case ToolResult(content=content) if has_special_tokens(content):
            return msgspec.structs.replace(part, content=break_tokens(content))
        case _:
            return part


def break_tokens(text: str) -> str:
    """Put a space into special tokens that a text spells out."""
    return _SPECIAL_TOKEN.sub(lambda found: found[0] + " ", text)


def unique_ids(messages: Iterable[Message]) -> list[Message]:
    """Append a number to call ids that were used before. Some clients reuse ids every turn, which providers reject."""
    used: dict[str, int] = {}

    def numbered(id: str) -> str:
        used[id] = used.get(id, 0) + 1
        return id if used[id] == 1 else f"{id}-{used[id]}"

    return _rename_ids(messages, numbered)


class UniqueIds:
    """Makes ids unique and valid. One that is neither becomes a hash of the id and its number of occurrences."""

    def __init__(self, is_valid: Callable[[str], bool], hash_id: Callable[[str, int], str]) -> None:
        self._is_valid = is_valid
        self._hash_id = hash_id
        self._used: set[str] = set()
        self._occurrences: dict[str, int] = {}  # some clients give all calls one id

    def add(self, id: str) -> str:
        """Return an id that no other call has."""
        seen = self._occurrences.get(id, 0)
        unique = id if not seen and self._is_valid(id) else self._hash_id(id, seen)
        while unique in self._used:
            seen += 1
            unique = self._hash_id(id, seen)
        self._used.add(unique)
        self._occurrences[id] = seen
        return unique


def short_ids(messages: Iterable[Message]) -> list[Message]:
    """Give every call and its result a unique id of nine letters and digits.

    Ids that already have this form are unchanged. Others are hashed, so that they are the same in the next request.

    >>> message = Message(role="assistant", parts=(ToolCall(id="call_1", name="f"), ToolCall(id="abcDEF123", name="f")))
    >>> [part.id for part in short_ids([message])[0].parts]
    ['db7901e51', 'abcDEF123']
    """
    return _rename_ids(messages, UniqueIds(lambda each: _SHORT_ID.fullmatch(each) is not None, _hash_id).add)


def _rename_ids(messages: Iterable[Message], name: Callable[[str], str]) -> list[Message]:
    """Rename calls in order, and each result like the last call with its id."""
    named: dict[str, str] = {}

    def renamed(part: Part) -> Part:
        if isinstance(part, ToolCall):
            named[part.id] = name(part.id)
        if isinstance(part, _TOOL_PARTS) and named.get(part.id, part.id) != part.id:
            return msgspec.structs.replace(part, id=named[part.id])
        return part

    def with_names(message: Message) -> Message:
        parts = tuple([renamed(part) for part in message.parts])
        return message if parts == message.parts else msgspec.structs.replace(message, parts=parts)

    return [
        with_names(message) if any(isinstance(part, _TOOL_PARTS) for part in message.parts) else message
        for message in messages
    ]


def _hash_id(id: str, seen: int) -> str:
    return hashlib.blake2b(f"{seen}:{id}".encode(), digest_size=_SHORT_ID_LENGTH).hexdigest()[:_SHORT_ID_LENGTH]


def split_calls(messages: Sequence[Message]) -> list[Message]:
    """Put every call into a message of its own, followed by its result.

    >>> calls = tuple(ToolCall(id=id, name="look") for id in "ab")
    >>> results = [Message(role="tool", parts=(ToolResult(id=id, content=id),)) for id in "ab"]
    >>> split = split_calls([Message(role="assistant", parts=calls), *results])
    >>> [(message.role, message.parts[0].id) for message in split]
    [('assistant', 'a'), ('tool', 'a'), ('assistant', 'b'), ('tool', 'b')]
    """
    done: list[Message] = []
    rest = deque(messages)
    while rest:
        first = rest.popleft()
        if len(_calls_in(first)) < 2:  # noqa: PLR2004 - one call per message
            done.append(first)
            continue
        answers = []
        while rest and rest[0].role == "tool":
            answers.append(rest.popleft())
        done += _mark_last(
            [*_split_message(first, answers)], cache=first.cache or any(answer.cache for answer in answers)
        )
    return done


def _split_message(message: Message, answers: list[Message]) -> Iterator[Message]:
    results: dict[str, list[Message]] = {}
    for answer in answers:
        own: dict[str, list[Part]] = {}
        for result, parts in group_tool_results(answer.parts):
            own.setdefault(result.id, []).extend(parts)
        for id, grouped in own.items():
            results.setdefault(id, []).append(msgspec.structs.replace(answer, parts=tuple(grouped), cache=False))
    before: tuple[Part, ...] = tuple(part for part in message.parts if not isinstance(part, ToolCall))
    for call in _calls_in(message):
        yield msgspec.structs.replace(message, parts=(*before, call), cache=False)
        before = ()
        yield from results.get(call.id, ())
    ids = {call.id for call in _calls_in(message)}
    for answer in answers:  # other parts stay after the calls, for the provider's rules to judge
        if others := tuple(_other_parts(answer.parts, ids)):
            yield msgspec.structs.replace(answer, parts=others, cache=False)


def _other_parts(parts: Iterable[Part], ids: Container[str]) -> Iterator[Part]:
    """Yield the parts that belong to none of the calls."""
    theirs = False
    for part in parts:
        theirs = part.id in ids if isinstance(part, ToolResult) else theirs
        if not theirs:
            yield part


def _mark_last(messages: list[Message], *, cache: bool) -> list[Message]:
    return [*messages[:-1], msgspec.structs.replace(messages[-1], cache=cache)]


def _calls_in(message: Message) -> list[ToolCall]:
    return [part for part in message.parts if isinstance(part, ToolCall)]


_Turn = Literal["", "user", "assistant", "call", "tool"]


def alternate_roles(messages: Iterable[Message], *, system_role: bool = True) -> list[Message]:
    """Merge adjacent messages of the same role, and add fillers so that roles alternate.

    System messages after the first turn become user messages; without `system_role`, all of them do.

    >>> hello = Message(role="assistant", parts=(Text(text="Hello!"),))
    >>> [(message.role, message.parts[0].text) for message in alternate_roles([hello])]
    [('user', '(conversation continues)'), ('assistant', 'Hello!')]
    """
    done: list[Message] = []
    last: _Turn = ""
    for message in _sendable_messages(messages, system_role=system_role):
        if message.role == "system":
            _add(done, message)
            continue
        now: _Turn = "call" if _has_calls(message) else message.role
        done += _filler_messages(last, now)
        if now == last and now in ("user", "assistant"):
            _add(done, message)
        else:
            done.append(message)
        last = now
    return done if last else [*done, _text_message("user", OPENING)]


def index_before_calls(messages: Sequence[Message], index: int) -> int:
    """Return an index at or before `index` that is not between tool results and the answer to them.

    If the message there is the user's, `index` itself is fine: the user interrupted there anyway.

    >>> hi, call = Message(role="user", parts=()), Message(role="assistant", parts=(ToolCall(id="a", name="f"),))
    >>> result = Message(role="tool", parts=(ToolResult(id="a", content="1"),))
    >>> index_before_calls([hi, call, result], 3), index_before_calls([hi, call, result, hi], 3)
    (1, 3)
    """
    if index < len(messages) and messages[index].role == "user":
        return index
    while index > 0 and messages[index - 1].role == "tool":
        while index > 0 and messages[index - 1].role == "tool":
            index -= 1
        index = max(0, index - 1)
    return index


def _filler_messages(last: _Turn, now: _Turn) -> Iterator[Message]:
    """Yield the filler that is needed between two turns."""
    match last, now:
        case "", "assistant" | "call" | "tool":
            yield _text_message("user", OPENING)
        case "assistant", "call":
            yield _text_message("user", CLOSING)
        case "tool", "user":
            yield _text_message("assistant", UNANSWERED)
        case _:
            return


def _sendable_messages(messages: Iterable[Message], *, system_role: bool) -> Iterator[Message]:
    """Yield messages without blank ones and late system messages, and with media from tools after all results."""
    begun = not system_role
    media: list[Message] = []
    for message in messages:
        if message.role != "tool":
            yield from media
            media = []
        if _is_blank(message):
            continue
        if message.role == "tool":
            results, rest = _split_results(message)
            yield results
            media += rest
        elif message.role == "system" and begun:
            yield msgspec.structs.replace(message, role="user")
        else:
            yield message
        begun = begun or message.role != "system"
    yield from media


def _split_results(message: Message) -> tuple[Message, list[Message]]:
    results = tuple(part for part in message.parts if isinstance(part, ToolResult))
    rest = tuple(part for part in message.parts if not isinstance(part, ToolResult))
    if not rest:
        return message, []
    media = msgspec.structs.replace(message, role="user", parts=rest)
    return msgspec.structs.replace(message, parts=results, cache=False), [media]


def _is_blank(message: Message) -> bool:
    return all(isinstance(part, Text) and not part.text.strip() for part in message.parts)


def _add(done: list[Message], message: Message) -> None:
    """Add a message, merged into the last one if it has the same role."""
    if done and done[-1].role == message.role:
        done[-1] = _merge(done[-1], message)
    else:
        done.append(message)


def _merge(first: Message, second: Message) -> Message:
    return msgspec.structs.replace(
        first, parts=first.parts + second.parts, sources=first.sources + second.sources, cache=second.cache
    )


def _has_calls(message: Message) -> bool:
    return any(isinstance(part, ToolCall) for part in message.parts)


def _text_message(role: Role, text: str) -> Message:
    return Message(role=role, parts=(Text(text=text),))
