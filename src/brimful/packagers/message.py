"""Messages → packages. The current one is fixed; a tool call and its results are one unit."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Unpack

from brimful.core.content import ContentPackage, Part, Text, ToolCall, ToolResult
from brimful.core.prompt import Message
from brimful.core.tokens import TokenCounter
from brimful.packagers.package import Options, package, seconds


def message(
    content: str | tuple[Part, ...],
    *,
    counter: TokenCounter,
    current: bool = False,
    **options: Unpack[Options],
) -> ContentPackage:
    """Package one message, the user's if no role is given; `name` is its sender's.

    Where a provider has no field for a name, the message is sent as "name: text".
    """
    kind = "message-current" if current else "message-recent"
    whole: Options = {"role": "user", **options}
    return package(kind, content, counter=counter, **whole)


def tool_turn(
    calls: Sequence[ToolCall],
    results: Sequence[ToolResult],
    *,
    counter: TokenCounter,
    text: str = "",
    **options: Unpack[Options],
) -> list[ContentPackage]:
    """Package an assistant's tool calls and what the tools answered: one unit, kept or dropped whole."""
    said: tuple[Part, ...] = (Text(text=text), *calls) if text else tuple(calls)
    name, at = options.get("id", calls[0].id), options.get("position", 0)
    call: Options = {"group": name, **options, "id": name, "position": at}
    turn = [package("tool-call", said, counter=counter, **call)]
    for step, result in enumerate(results, start=1):
        answer: Options = {**call, "id": f"{name}/{result.id}", "position": at + step}
        turn.append(package("tool-result", (result,), counter=counter, **answer))
    return turn


def conversation(
    messages: Sequence[Message],
    *,
    counter: TokenCounter,
    start: float | datetime = 0.0,
    id_prefix: str = "msg-",
    min_tokens: int | None = None,
) -> list[ContentPackage]:
    """Package a whole conversation, oldest first. Its order is kept by position.

    System messages are required, and so is the last message of the user and whatever ends the conversation: without
    them there would be nothing to answer. With `min_tokens`, a message may be cut down to that many tokens: the oldest
    one that is in fills the window to the brim.
    """
    when = seconds(start)
    last_user = max((at for at, m in enumerate(messages) if m.role == "user"), default=-1)
    required = {last_user, *_last_turn(messages)}
    packages = []
    for at, entry in enumerate(messages):
        kind = _kind(entry, current=at == last_user == len(messages) - 1)
        options: Options = {
            "id": f"{id_prefix}{at:06d}",
            "role": entry.role,
            "name": entry.name,
            "timestamp": when,
            "position": at,
            "can_drop": entry.role != "system" and at not in required,
        }
        if min_tokens is not None and entry.role != "system":
            options["min_tokens"] = min_tokens
        packages.append(package(kind, _content(entry), counter=counter, **options))
    return packages


def _content(entry: Message) -> str | tuple[Part, ...]:
    """Return plain text as plain text: it is counted once per tokenizer, where parts hang on the model's rules, too."""
    first = entry.parts[0] if len(entry.parts) == 1 else None
    return first.text if isinstance(first, Text) else entry.parts


def _last_turn(messages: Sequence[Message]) -> Iterator[int]:
    """Yield the positions of what ends the conversation: one message, or a tool call and its results."""
    start = len(messages) - 1
    while start >= 0 and messages[start].role == "tool":
        start -= 1
    if start >= 0 and (start == len(messages) - 1 or _kind(messages[start], current=False) == "tool-call"):
        yield from range(start, len(messages))


def _kind(entry: Message, *, current: bool) -> str:
    if entry.role == "system":
        return "system-prompt"
    if entry.role == "tool":
        return "tool-result"
    if any(isinstance(part, ToolCall) for part in entry.parts):
        return "tool-call"
    return "message-current" if current else "message-recent"
