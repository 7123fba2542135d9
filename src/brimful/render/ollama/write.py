"""Prompt → /api/chat request.

Ollama cuts a prompt that does not fit and says nothing. So every request names its window, and asks for an error in
place of a cut (`truncate`, `shift`; servers that do not know them take no notice). A message's images stand beside its
text, not within it.
"""

from collections.abc import Iterator
from typing import Any

from brimful.core.alternate import OPENING
from brimful.core.prompt import Media, Message, Prompt, Request, Text, ToolCall, ToolResult
from brimful.render.canonical import arguments_object
from brimful.render.functions import function_tool
from brimful.render.names import name_in_text
from brimful.render.prepare import prepare


def write_request(prompt: Prompt, window: int) -> Request:
    """Write the request.

    >>> said = Message(role="user", name="Ada", parts=(Text(text="Hi"),))
    >>> request = write_request(Prompt(model="qwen3", messages=(said,), max_output=99), 8192)
    >>> request["options"], request["messages"]
    ({'num_ctx': 8192, 'num_predict': 99}, [{'role': 'user', 'content': 'Ada: Hi'}])
    """
    options = {"num_ctx": window}
    if prompt.max_output is not None:
        options["num_predict"] = prompt.max_output
    request: Request = {
        "model": prompt.model,
        "stream": False,
        "truncate": False,
        "shift": False,
        "options": options,
    }
    if prompt.tools:
        request["tools"] = [function_tool(tool) for tool in prompt.tools]
    messages = [name_in_text(message) for message in prepare(prompt.messages, carries)]
    written = [wire_message for message in messages for wire_message in _messages(message)]
    request["messages"] = written or [{"role": "user", "content": OPENING}]
    return request


def carries(media: Media) -> bool:
    """Say whether the wire takes this medium."""
    return media.modality == "image" and bool(media.data)


def _messages(message: Message) -> Iterator[dict[str, Any]]:
    if message.role != "tool":
        yield _spoken(message)
        return
    for part in message.parts:
        if isinstance(part, ToolResult):
            yield {"role": "tool", "tool_name": part.name, "tool_call_id": part.id, "content": part.content}


def _spoken(message: Message) -> dict[str, Any]:
    texts = [part.text for part in message.parts if isinstance(part, Text)]
    images = [part.data for part in message.parts if isinstance(part, Media)]
    calls = [_call(part) for part in message.parts if isinstance(part, ToolCall)]
    written: dict[str, Any] = {"role": message.role, "content": "\n\n".join(texts)}
    if images:
        written["images"] = images
    if calls:
        written["tool_calls"] = calls
    return written


def _call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "function": {"name": call.name, "arguments": arguments_object(call.arguments)}}
