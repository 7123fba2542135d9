"""/api/chat request → prompt, for counting. The request has passed the rules."""

from typing import Any

from brimful.core.prompt import Media, Message, Prompt, Request, Text, ToolCall, ToolResult
from brimful.render.canonical import json_text
from brimful.render.functions import read_function


def read_request(request: Request) -> Prompt:
    """Read the request.

    >>> read_request({"model": "m", "options": {"num_ctx": 9}, "messages": [{"role": "user", "content": "Hi"}]}).model
    'm'
    """
    return Prompt(
        model=request["model"],
        messages=tuple(_message(message) for message in request["messages"]),
        tools=tuple(read_function(tool["function"]) for tool in request.get("tools") or ()),
        max_output=request["options"].get("num_predict"),
    )


def _message(message: dict[str, Any]) -> Message:
    content = message.get("content") or ""
    if message["role"] == "tool":
        name = message["tool_name"]
        id = message.get("tool_call_id") or name
        return Message(role="tool", parts=(ToolResult(id=id, name=name, content=content),))
    text = (Text(text=content),) if content else ()
    images = (Media(modality="image", data=data) for data in message.get("images") or ())
    calls = (_call(call) for call in message.get("tool_calls") or ())
    return Message(role=message["role"], parts=(*text, *images, *calls))


def _call(call: dict[str, Any]) -> ToolCall:
    function = call["function"]
    arguments = json_text(function.get("arguments") or {})
    return ToolCall(id=call.get("id") or function["name"], name=function["name"], arguments=arguments)
