"""Messages → packages. The current one is fixed; a tool call and its results are one unit."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import takewhile
from typing import Unpack

from brimful.core import validation
from brimful.core.content import ContentPackage, Media, Part, Text, ToolCall, ToolResult, group_tool_results
from brimful.core.prompt import Message, TokenCounter
from brimful.errors import InvalidPackage, InvalidValue
from brimful.packagers.package import PackageOptions, derived_id, package, to_timestamp


def message(
    content: str | tuple[Part, ...], *, counter: TokenCounter, current: bool = False, **options: Unpack[PackageOptions]
) -> ContentPackage:
    """Package one message, from the user by default; `name` is the sender's.

    If a provider has no field for a name, the message is sent as "name: text".
    """
    kind = "message-current" if current else "message-recent"
    whole: PackageOptions = {"role": "user", **options}
    return package(kind, content, counter=counter, **whole)


def tool_turn(
    calls: Sequence[ToolCall],
    results: Sequence[ToolResult | Media],
    *,
    counter: TokenCounter,
    text: str = "",
    **options: Unpack[PackageOptions],
) -> list[ContentPackage]:
    """Package an assistant's tool calls and their results as one unit, which is kept or dropped as a whole.

    Media that a tool returned follow its result. The default id is derived from all parts and the time, because some
    clients reuse the ids of calls.
    """
    _check_turn(calls, results)
    parts: tuple[Part, ...] = (Text(text=text), *calls) if text else tuple(calls)
    name = options["id"] if "id" in options else derived_id("tool-call", (*parts, *results), options)
    position = options.get("position", 0)
    validation.require_position(position)
    call: PackageOptions = {"group": name, **options, "id": name, "position": position}
    turn = [package("tool-call", parts, counter=counter, **call)]
    for step, (result, with_media) in enumerate(group_tool_results(results), start=1):
        answer: PackageOptions = {**call, "id": f"{name}/{result.id}", "position": position + step}
        turn.append(package("tool-result", with_media, counter=counter, **answer))
    return turn


def conversation(
    messages: Iterable[Message],
    *,
    counter: TokenCounter,
    start: float | datetime = 0.0,
    id_prefix: str = "msg-",
    min_tokens: int | None = None,
) -> list[ContentPackage]:
    """Package a whole conversation, oldest first.

    System messages, the last user message and whatever ends the conversation are required. System messages at the start
    are the system prompt; later ones keep their position. With `min_tokens`, messages may be shortened to that many
    tokens.
    """
    turns = _require_messages(messages)
    when = to_timestamp(start)
    leading = len(list(takewhile(lambda entry: entry.role == "system", turns)))
    last_user = max((i for i, m in enumerate(turns) if m.role == "user"), default=-1)
    required = {last_user, *_last_turn(turns)}
    packages = []
    for index, entry in enumerate(turns):
        kind = "system-prompt" if index < leading else _kind(entry, current=index == last_user == len(turns) - 1)
        options: PackageOptions = {
            "id": f"{id_prefix}{index:06d}",
            "role": entry.role,
            "name": entry.name,
            "timestamp": when,
            "position": index,
            "can_drop": entry.role != "system" and index not in required,
        }
        if min_tokens is not None and entry.role != "system":
            options["min_tokens"] = min_tokens
        packages.append(package(kind, _message_content(entry), counter=counter, **options))
    return packages


def _check_turn(calls: object, results: object) -> None:
    for name, parts, kind in (("calls", calls, ToolCall), ("results", results, ToolResult | Media)):
        if not isinstance(parts, Sequence) or not all(isinstance(part, kind) for part in parts):
            expected = "ToolCall" if name == "calls" else "ToolResult, each followed by its Media"
            raise InvalidPackage(name, f"must be a list of {expected}, not {validation.preview(parts)}")
        if name == "results" and parts and isinstance(parts[0], Media):
            raise InvalidPackage(name, "must start with a ToolResult; media follow the result they belong to")
    if not calls:
        raise InvalidPackage("calls", "must not be empty")


def _require_messages(messages: object) -> list[Message]:
    if isinstance(messages, str) or not isinstance(messages, Iterable):
        raise InvalidValue("messages", f"must be a list of messages, not {validation.preview(messages)}")
    turns = list(messages)
    for index, entry in enumerate(turns):
        if not isinstance(entry, Message):
            reason = f"must be a Message, not {validation.preview(entry)}; brimful.conversation() reads OpenAI's form"
            raise InvalidValue(f"messages[{index}]", reason)
        if not isinstance(entry.parts, tuple):
            raise InvalidValue(
                f"messages[{index}].parts", f"must be a tuple of parts, not {validation.preview(entry.parts)}"
            )
    return turns


def _message_content(entry: Message) -> str | tuple[Part, ...]:
    """Return a single text as a string: its count depends on the tokenizer only, not on the model."""
    first = entry.parts[0] if len(entry.parts) == 1 else None
    return first.text if isinstance(first, Text) else entry.parts


def _last_turn(messages: Sequence[Message]) -> Iterator[int]:
    """Yield the positions of the end of the conversation: one message, or a tool call and its results."""
    start = len(messages) - 1
    while start >= 0 and messages[start].role == "tool":
        start -= 1
    if start >= 0 and (start == len(messages) - 1 or _kind(messages[start], current=False) == "tool-call"):
        yield from range(start, len(messages))


def _kind(entry: Message, *, current: bool) -> str:
    if entry.role == "tool":
        return "tool-result"
    if any(isinstance(part, ToolCall) for part in entry.parts):
        return "tool-call"
    return "message-current" if current else "message-recent"
