"""A message of ours → messages in OpenAI's form. Ids, times and metadata stand beside, as our importer reads them."""

from collections.abc import Iterator
from typing import Any

from brimful.core.content import Media, Part, Text, ToolCall, ToolResult
from brimful.core.results import results_of
from brimful.records import Message


def spoken(message: Message) -> Iterator[dict[str, Any]]:
    """Yield a message; what several tools answered is a message each, with what the tool showed.

    >>> next(spoken(Message(id="m", room="r", content="Hi", sender="Ada", at=60.0)))
    {'role': 'user', 'name': 'Ada', 'content': 'Hi', 'id': 'm', 'timestamp': 60.0}
    """
    beside = {"timestamp": message.at, **({"metadata": message.metadata} if message.metadata else {})}
    parts = (Text(text=message.content),) if isinstance(message.content, str) else message.content
    results = results_of(parts)
    for number, (result, answer) in enumerate(results):
        id = message.id if number == 0 else f"{message.id}/{number + 1}"
        yield {"role": "tool", "tool_call_id": result.id, "content": _answered(result, answer), "id": id, **beside}
    if results:
        return
    name = {"name": message.sender} if message.sender else {}
    yield {"role": message.role, **name, **_content(message.content), "id": message.id, **beside}


def _answered(result: ToolResult, parts: tuple[Part, ...]) -> str | list[dict[str, Any]]:
    shown = [_part(part) for part in parts if isinstance(part, Text | Media)]
    return [_part(Text(text=result.content)), *shown] if shown else result.content


def _content(content: str | tuple[Part, ...]) -> dict[str, Any]:
    if isinstance(content, str):
        return {"content": content}
    said = [_part(part) for part in content if isinstance(part, Text | Media)]
    calls = [_call(part) for part in content if isinstance(part, ToolCall)]
    return {"content": said or None, **({"tool_calls": calls} if calls else {})}


def _part(part: Text | Media) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if part.modality == "audio" and part.data:
        format = part.media_type.removeprefix("audio/") or "wav"
        return {"type": "input_audio", "input_audio": {"data": part.data, "format": format}}
    url = f"data:{part.media_type or 'image/png'};base64,{part.data}" if part.data else part.url
    shown = {"url": url} if part.detail == "auto" else {"url": url, "detail": part.detail}
    return {"type": "image_url", "image_url": shown}


def _call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
