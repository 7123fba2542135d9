"""Chat completions request → prompt, for counting. The request has passed the rules."""

from collections.abc import Iterator
from typing import Any, Final

from brimful.core.prompt import Media, Message, Part, Prompt, Request, Role, Text, ToolCall, ToolResult
from brimful.render.functions import read_function
from brimful.render.media import inline

_ROLES: Final[dict[str, Role]] = {"developer": "system", "system": "system", "user": "user", "assistant": "assistant"}
_AUDIO_TYPES: Final = {"wav": "audio/wav", "mp3": "audio/mpeg"}


def read_request(request: Request) -> Prompt:
    """Read the request. Neighbouring tool messages stay messages of their own, as they are billed.

    >>> read_request({"model": "m", "messages": [{"role": "user", "content": "Hi"}]}).messages[0].parts
    (Text(text='Hi'),)
    """
    names = _names_of_calls(request["messages"])
    return Prompt(
        model=request["model"],
        messages=tuple(_message(message, names) for message in request["messages"]),
        tools=tuple(read_function(tool["function"]) for tool in request.get("tools") or ()),
        max_output=request.get("max_completion_tokens") or request.get("max_tokens"),
    )


def _names_of_calls(messages: list[dict[str, Any]]) -> dict[str, str]:
    calls = (call for message in messages for call in message.get("tool_calls") or ())
    return {call["id"]: call["function"]["name"] for call in calls}


def _message(message: dict[str, Any], names: dict[str, str]) -> Message:
    content = message.get("content")
    if message["role"] == "tool":
        id = message["tool_call_id"]
        said = list(_parts(content))
        text = "".join(part.text for part in said if isinstance(part, Text))
        shown = (part for part in said if isinstance(part, Media))
        return Message(role="tool", parts=(ToolResult(id=id, content=text, name=names.get(id, "")), *shown))
    role, name = _ROLES[message["role"]], message.get("name") or ""
    if isinstance(content, str) and not message.get("tool_calls"):
        return Message(role=role, name=name, parts=(Text(text=content),))
    calls = (
        ToolCall(id=call["id"], name=call["function"]["name"], arguments=call["function"]["arguments"])
        for call in message.get("tool_calls") or ()
    )
    parts = (*_parts(content), *calls)
    return Message(role=role, name=name, parts=parts)


def _parts(content: str | list[dict[str, Any]] | None) -> Iterator[Part]:
    if isinstance(content, str):
        yield Text(text=content)
        return
    for block in content or ():
        match block["type"]:
            case "text":
                yield Text(text=block["text"])
            case "image_url":
                image = block["image_url"]
                yield inline(Media(modality="image", url=image["url"], detail=image.get("detail") or "auto"))
            case _:
                sound = block["input_audio"]
                yield Media(modality="audio", data=sound["data"], media_type=_AUDIO_TYPES[sound["format"]])
