"""Turns as the strictest chat templates take them: the user first, then each speaker in turn, and calls within a turn.

system? · (user · (call · its results)* · assistant)*

Whoever is missing where his turn is says a word in parentheses.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal

import msgspec

from brimful.core.content import Role, Text, ToolCall, ToolResult
from brimful.core.prompt import Message

OPENING: Final = "(conversation continues)"
"""What the user says where the history begins with the assistant, or where nobody has said anything."""

CLOSING: Final = "(continue)"
"""What the user says where the assistant spoke last: newer Claude models and Gemini do not continue their own turn."""

UNANSWERED: Final = "(no answer)"
"""What the assistant says where the user speaks right behind results of tools: templates expect an answer there."""

_Last = Literal["", "user", "assistant", "call", "tool"]


def alternating(messages: Iterable[Message], *, system_role: bool = True) -> list[Message]:
    """Merge neighbours of the same role, and let nobody speak out of turn.

    A system message behind the first turn becomes the user's; all of them do without `system_role`.

    >>> hello = Message(role="assistant", parts=(Text(text="Hello!"),))
    >>> [(message.role, message.parts[0].text) for message in alternating([hello])]
    [('user', '(conversation continues)'), ('assistant', 'Hello!')]
    """
    done: list[Message] = []
    last: _Last = ""
    for message in _spoken(messages, system_role=system_role):
        if message.role == "system":
            _add(done, message)
            continue
        now: _Last = "call" if _calls(message) else message.role
        done += _between(last, now)
        if now == last and now in ("user", "assistant"):
            _add(done, message)
        else:
            done.append(message)
        last = now
    return done if last else [*done, _said("user", OPENING)]


def before_calls(said: Sequence[Message], at: int) -> int:
    """Return where the user may say something instead of there: not between results of tools and the answer to them.

    Where the user goes on speaking there anyway, it is as good a place as any.

    >>> hi, call = Message(role="user", parts=()), Message(role="assistant", parts=(ToolCall(id="a", name="f"),))
    >>> result = Message(role="tool", parts=(ToolResult(id="a", content="1"),))
    >>> before_calls([hi, call, result], 3), before_calls([hi, call, result, hi], 3)
    (1, 3)
    """
    if at < len(said) and said[at].role == "user":
        return at
    while at > 0 and said[at - 1].role == "tool":
        while at > 0 and said[at - 1].role == "tool":
            at -= 1
        at = max(0, at - 1)
    return at


def _between(last: _Last, now: _Last) -> Iterator[Message]:
    """Yield what must be said between these two for both to be taken."""
    match last, now:
        case "", "assistant" | "call" | "tool":
            yield _said("user", OPENING)
        case "assistant", "call":
            yield _said("user", CLOSING)
        case "tool", "user":
            yield _said("assistant", UNANSWERED)
        case _:
            return


def _spoken(messages: Iterable[Message], *, system_role: bool) -> Iterator[Message]:
    """Yield what will be sent: nothing blank, no late system message, what tools showed behind all of their results."""
    begun = not system_role
    shown: list[Message] = []
    for message in messages:
        if message.role != "tool":
            yield from shown
            shown = []
        if _blank(message):
            continue
        if message.role == "tool":
            results, rest = _parted(message)
            yield results
            shown += rest
        elif message.role == "system" and begun:
            yield msgspec.structs.replace(message, role="user")
        else:
            yield message
        begun = begun or message.role != "system"
    yield from shown


def _parted(message: Message) -> tuple[Message, list[Message]]:
    results = tuple(part for part in message.parts if isinstance(part, ToolResult))
    rest = tuple(part for part in message.parts if not isinstance(part, ToolResult))
    if not rest:
        return message, []
    shown = msgspec.structs.replace(message, role="user", parts=rest)
    return msgspec.structs.replace(message, parts=results, cache=False), [shown]


def _blank(message: Message) -> bool:
    return all(isinstance(part, Text) and not part.text.strip() for part in message.parts)


def _add(done: list[Message], message: Message) -> None:
    """Add a message, to the last one if that is of the same role."""
    if done and done[-1].role == message.role:
        done[-1] = _merged(done[-1], message)
    else:
        done.append(message)


def _merged(first: Message, second: Message) -> Message:
    return msgspec.structs.replace(
        first, parts=first.parts + second.parts, sources=first.sources + second.sources, cache=second.cache
    )


def _calls(message: Message) -> bool:
    return any(isinstance(part, ToolCall) for part in message.parts)


def _said(role: Role, text: str) -> Message:
    return Message(role=role, parts=(Text(text=text),))
