"""A neutral prompt as the messages and tools that chat templates take."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from brimful.core.content import Text, ToolCall, ToolResult
from brimful.core.prompt import Message, Tool
from brimful.counting.templates import WireMessage

_SHORT_ID: Final = 9  # Mistral's templates refuse ids of any other length


def wire_messages(messages: Sequence[Message]) -> list[WireMessage]:
    """Return the messages in the form of the chat completion APIs. Names are not sent: the text already holds them.

    >>> wire_messages([Message(role="user", parts=(Text(text="Hi"),), name="Ada")])
    [{'role': 'user', 'content': 'Hi'}]
    """
    return [sent for message in messages for sent in _sent(message)]


def wire_tools(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """Return the tools in the form of the chat completion APIs."""
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
        }
        for tool in tools
    ]


def with_short_ids(messages: Sequence[WireMessage]) -> list[WireMessage]:
    """Return the messages with ids of tool calls cut or filled to nine characters, as Mistral's servers do.

    >>> with_short_ids([{"role": "tool", "content": "4", "tool_call_id": "call_7"}])[0]["tool_call_id"]
    '000call_7'
    """
    return [_with_short_ids(message) for message in messages]


def _with_short_ids(message: WireMessage) -> WireMessage:
    if "tool_calls" in message:
        return {**message, "tool_calls": [{**call, "id": _short(call["id"])} for call in message["tool_calls"]]}
    if "tool_call_id" in message:
        return {**message, "tool_call_id": _short(message["tool_call_id"])}
    return message


def _short(id: str) -> str:
    return id[-_SHORT_ID:].rjust(_SHORT_ID, "0")


def _sent(message: Message) -> Iterator[WireMessage]:
    results = [part for part in message.parts if isinstance(part, ToolResult)]
    if not results or any(isinstance(part, Text | ToolCall) for part in message.parts):
        yield _turn(message)
    for result in results:
        yield {
            "role": "tool",
            "content": result.content,
            "tool_call_id": result.id,
            **({"name": result.name} if result.name else {}),
        }


def _turn(message: Message) -> WireMessage:
    # Neighbouring texts are joined by an empty line, as the requests' renderers do.
    turn: WireMessage = {
        "role": message.role,
        "content": "\n\n".join(part.text for part in message.parts if isinstance(part, Text)),
    }
    if calls := [part for part in message.parts if isinstance(part, ToolCall)]:
        turn["tool_calls"] = [_call(call) for call in calls]
    return turn


def _call(call: ToolCall) -> dict[str, Any]:
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": _arguments(call.arguments)},
    }


def _arguments(arguments: str) -> object:
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
