"""Calls and results that name a function and have no id: number them, and pair them by name and order."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from brimful.core.content import Part, ToolCall, ToolResult
from brimful.core.prompt import Message

NAME_ID: Final = "function "  # starts the id of a call that has none


def number_calls(parts: Sequence[Part]) -> Iterator[Part]:
    """Yield parts in which calls of one function without ids have different ids, as have the responses to them."""
    counts: dict[str, int] = {}
    for part in parts:
        if isinstance(part, ToolCall | ToolResult) and part.id.startswith(NAME_ID):
            counts[part.id] = counts.get(part.id, 0) + 1
            number = counts[part.id]
            yield part if number == 1 else msgspec.structs.replace(part, id=f"{part.id} {number}")
        else:
            yield part


def pair_by_name(turns: Sequence[tuple[Message, ...]]) -> list[tuple[Message, ...]]:
    """Return turns in which every response has the id of its call: by name and order if it names another or none."""
    paired: list[tuple[Message, ...]] = []
    waiting: list[ToolCall] = []
    for messages in turns:
        results = [part for message in messages for part in message.parts if isinstance(part, ToolResult)]
        calls = [part for message in messages for part in message.parts if isinstance(part, ToolCall)]
        ids = _find_call_ids(waiting, results) if results else {}
        paired.append(tuple(_with_result_ids(message, ids) for message in messages) if ids else messages)
        answered = {ids.get(i, result.id) for i, result in enumerate(results)}
        waiting = calls or [call for call in waiting if call.id not in answered]
    return paired


def _find_call_ids(calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> dict[int, str]:
    """Return the ids of the calls that results answer, by the index of the result, if they are not their own."""
    own = {result.id for result in results}
    left = [call for call in calls if call.id not in own]
    known = {call.id for call in calls}
    ids: dict[int, str] = {}
    for index, result in enumerate(results):
        if result.id not in known:
            call = next((call for call in left if result.name in ("", call.name)), None)
            if call is not None:
                ids[index] = call.id
                left.remove(call)
    return ids


def _with_result_ids(message: Message, ids: Mapping[int, str]) -> Message:
    if message.role != "tool":
        return message
    results = [i for i, part in enumerate(message.parts) if isinstance(part, ToolResult)]
    renamed = {results[number]: id for number, id in ids.items()}
    parts = [
        msgspec.structs.replace(part, id=renamed[i]) if i in renamed and isinstance(part, ToolResult) else part
        for i, part in enumerate(message.parts)
    ]
    return msgspec.structs.replace(message, parts=tuple(parts))
