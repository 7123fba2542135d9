"""Prompt → generateContent request.

Parts of a content are read as one text without anything between them, so neighbouring texts of a turn are joined with
an empty line. The body names the model as `models/…`, as countTokens takes it too.
"""

import re
from collections.abc import Iterable
from typing import Any, Final

from brimful.core.prompt import Media, Message, Part, Prompt, Request, Text, Tool, ToolCall, ToolResult
from brimful.render.canonical import arguments_object, object_schema
from brimful.render.media import mime_type
from brimful.render.names import name_in_text
from brimful.render.prepare import join_texts, prepare
from brimful.render.turns import Turn, split_system, take_turns

_UNSIGNED: Final = re.compile(r"gemini-[12](?!\d)")
"""Models that know no thought signatures. All later ones refuse a call in the current turn that has none."""

_NO_SIGNATURE: Final = "skip_thought_signature_validator"
"""Google's word for a call whose signature is not at hand."""

MIME_FAMILIES: Final = ("image/", "audio/", "video/")
_ROLES: Final = {"user": "user", "assistant": "model"}


def write_request(prompt: Prompt) -> Request:
    """Write the request.

    >>> said = Message(role="user", name="Ada", parts=(Text(text="Hi"),))
    >>> write_request(Prompt(model="gemini-3-pro", messages=(said,), max_output=99))
    ... # doctest: +NORMALIZE_WHITESPACE
    {'model': 'models/gemini-3-pro', 'generationConfig': {'maxOutputTokens': 99},
     'contents': [{'role': 'user', 'parts': [{'text': 'Ada: Hi'}]}]}
    """
    messages = [name_in_text(message) for message in prepare(prompt.messages, carries)]
    first, rest = split_system(messages)
    request: Request = {"model": prompt.model if "/" in prompt.model else f"models/{prompt.model}"}
    if prompt.max_output is not None:
        request["generationConfig"] = {"maxOutputTokens": prompt.max_output}
    if prompt.tools:
        request["tools"] = [{"functionDeclarations": [_tool(tool) for tool in prompt.tools]}]
    if first:
        request["systemInstruction"] = {"parts": _parts(_all_parts(first))}
    signed = _UNSIGNED.search(prompt.model) is None
    request["contents"] = [_content(turn, signed=signed) for turn in take_turns(rest)]
    return request


def function_name(name: str) -> str:
    """Return the name of a past call as Gemini takes it: it may not begin with a digit or a dash.

    >>> function_name("look_up"), function_name("2fa")
    ('look_up', '_2fa')
    """
    return name if name[0].isalpha() or name[0] == "_" else f"_{name}"[:64]


def carries(media: Media) -> bool:
    """Say whether the wire takes this medium."""
    known = mime_type(media).startswith(MIME_FAMILIES)
    return known and (bool(media.data) or media.url.startswith(("https://", "gs://")))


def _tool(tool: Tool) -> dict[str, Any]:
    described = {"description": tool.description} if tool.description else {}
    return {"name": tool.name, **described, "parametersJsonSchema": object_schema(tool.parameters)}


def _all_parts(messages: Iterable[Message]) -> Iterable[Part]:
    return (part for message in messages for part in message.parts)


def _content(turn: Turn, *, signed: bool) -> dict[str, Any]:
    parts = _parts(turn.parts)
    first_call = next((part for part in parts if "functionCall" in part), None)
    if signed and first_call is not None:
        first_call["thoughtSignature"] = _NO_SIGNATURE
    return {"role": _ROLES[turn.speaker], "parts": parts}


def _parts(parts: Iterable[Part]) -> list[dict[str, Any]]:
    return [_part(part) for part in join_texts(parts)]


def _part(part: Part) -> dict[str, Any]:
    match part:
        case Text(text=text):
            return {"text": text}
        case Media(url=""):
            return {"inlineData": {"mimeType": mime_type(part), "data": part.data}}
        case Media():
            return {"fileData": {"mimeType": mime_type(part), "fileUri": part.url}}
        case ToolCall():
            args = arguments_object(part.arguments)
            return {"functionCall": {"id": part.id, "name": function_name(part.name), "args": args}}
        case ToolResult():
            response = {"error" if part.is_error else "output": part.content}
            return {"functionResponse": {"id": part.id, "name": function_name(part.name), "response": response}}
