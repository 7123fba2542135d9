"""Gemini's contents as clients write them: read as neutral messages, with calls and responses paired.

Google accepts every key in camelCase and in snake_case, and its SDK puts most fields of a request under `config`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from brimful.core.content import OPAQUE_TYPE, Media, Modality, Part, Text, ToolCall, ToolResult
from brimful.core.prompt import Message, Request, Tool
from brimful.core.validation import clean_text, is_whole_number
from brimful.wires.gemini import MIME_FAMILIES
from brimful.wires.parts import read_tool_definition, read_unknown, text_or_empty
from brimful.wires.reasoning import GEMINI_SIGNATURES
from brimful.wires.tools import json_text

_SNAKE: Final = {
    "cachedContent": "cached_content",
    "codeExecutionResult": "code_execution_result",
    "executableCode": "executable_code",
    "fileData": "file_data",
    "fileUri": "file_uri",
    "functionCall": "function_call",
    "functionDeclarations": "function_declarations",
    "functionResponse": "function_response",
    "generationConfig": "generation_config",
    "inlineData": "inline_data",
    "maxOutputTokens": "max_output_tokens",
    "mediaResolution": "media_resolution",
    "mimeType": "mime_type",
    "parametersJsonSchema": "parameters_json_schema",
    "systemInstruction": "system_instruction",
    "thoughtSignature": "thought_signature",
}
_RESPONSE_TEXTS: Final = ("output", "result", "content", "error")  # keys of a response that is just a text
_CONFIG: Final = "config"  # the field of Google's SDK
NAME_ID: Final = "function "  # starts the id of a call that has none


def read_content(content: Mapping[str, Any], *, current: bool) -> tuple[Message, ...]:
    """Read a content: function responses first, then everything else."""
    del current
    parts = [part for each in _list_parts(content) for part in _read_part(each)]
    own, results = _split_results(number_calls(parts))
    turn = Message(role="assistant" if content.get("role") == "model" else "user", parts=tuple(own))
    if not results:
        return (turn,)
    answers = Message(role="tool", parts=tuple(results))
    return (answers, turn) if own else (answers,)


def read_instruction(value: object) -> tuple[Message, ...]:
    """Read a system instruction: a content, a list of parts or a string."""
    parts = [part for each in _list_parts(_instruction(value)) for part in _read_part(each)]
    return (Message(role="system", parts=tuple(parts)),)


def instruction_field(request: Request) -> str:
    """Return the field that holds the system instruction, or an empty string."""
    for field in ("systemInstruction", "system_instruction"):
        if request.get(field):
            return field
    return _CONFIG if _get(request.get(_CONFIG), "systemInstruction") else ""


def read_declarations(offered: Mapping[str, Any]) -> Iterator[Tool]:
    """Read the tools. Those that Google runs itself are counted as JSON."""
    tools = offered.get("tools") or _get(offered.get(_CONFIG), "tools")
    for tool in tools if isinstance(tools, list) else ():
        declared = _get(tool, "functionDeclarations")
        for each in declared if isinstance(declared, list) else [tool]:
            if isinstance(each, dict):
                named = next((key for key in ("parametersJsonSchema", "parameters_json_schema") if each.get(key)), "")
                yield read_tool_definition(each, named or "parameters")


def read_max_output(request: Request) -> int | None:
    """Return the request's output limit, if it is a valid number."""
    configs = (_get(request, "generationConfig"), request.get(_CONFIG))
    limits = (_get(config, "maxOutputTokens") for config in configs)
    return next((int(limit) for limit in limits if is_whole_number(limit)), None)


def write_max_output(request: Request, tokens: int) -> Request:
    """Return a request with an output limit, unless it has one of its own.

    >>> write_max_output({"generation_config": {"temperature": 0}}, 100)
    {'generation_config': {'temperature': 0, 'max_output_tokens': 100}}
    """
    if read_max_output(request) is not None:
        return request
    field = next((field for field in (_CONFIG, "generation_config") if field in request), "generationConfig")
    limit = {"maxOutputTokens" if field == "generationConfig" else "max_output_tokens": tokens}
    config = request.get(field)
    return {**request, field: {**(config if isinstance(config, Mapping) else {}), **limit}}


def has_cached_content(request: Request) -> bool:
    """Whether a request adds content that only Google has."""
    return bool(_get(request, "cachedContent") or _get(request.get(_CONFIG), "cachedContent"))


def without_response_texts(content: dict[str, Any]) -> dict[str, Any]:
    """Return a content without texts among the media of a response, where no text is allowed."""
    parts = content.get("parts")
    if not isinstance(parts, list) or not any(_get(_get(part, "functionResponse"), "parts") for part in parts):
        return content
    return {**content, "parts": [_without_texts(part) for part in parts]}


def _without_texts(part: Any) -> Any:
    media = _get(_get(part, "functionResponse"), "parts")
    if not isinstance(media, list):
        return part
    key = "functionResponse" if "functionResponse" in part else "function_response"
    return {**part, key: {**part[key], "parts": [each for each in media if not isinstance(_get(each, "text"), str)]}}


def find_reasoning_parts(content: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the indices of parts with thoughts, and of signatures; none if a content has nothing else."""
    kinds: list[bool] = []
    for part in _list_parts(content):
        own = [bool(_get(part, "thought"))] * len(list(_read_part(part)))
        if own and _get(part, "thoughtSignature"):
            own[-1] = True
        kinds += own
    return () if all(kinds) else tuple(at for at, is_reasoning in enumerate(kinds) if is_reasoning)


def pair_calls(turns: Sequence[tuple[Message, ...]]) -> list[tuple[Message, ...]]:
    """Return turns in which every response has the id of its call: by name and order if it names another or none."""
    paired: list[tuple[Message, ...]] = []
    waiting: list[ToolCall] = []
    for messages in turns:
        results = [part for message in messages for part in message.parts if isinstance(part, ToolResult)]
        calls = [part for message in messages for part in message.parts if isinstance(part, ToolCall)]
        ids = _find_call_ids(waiting, results) if results else {}
        paired.append(tuple(_with_result_ids(message, ids) for message in messages) if ids else messages)
        answered = {ids.get(at, result.id) for at, result in enumerate(results)}
        waiting = calls or [call for call in waiting if call.id not in answered]
    return paired


def _find_call_ids(calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> dict[int, str]:
    """Return the ids of the calls that results answer, by the index of the result, if they are not their own."""
    own = {result.id for result in results}
    left = [call for call in calls if call.id not in own]
    known = {call.id for call in calls}
    ids: dict[int, str] = {}
    for at, result in enumerate(results):
        if result.id not in known:
            call = next((call for call in left if result.name in ("", call.name)), None)
            if call is not None:
                ids[at] = call.id
                left.remove(call)
    return ids


def _with_result_ids(message: Message, ids: Mapping[int, str]) -> Message:
    if message.role != "tool":
        return message
    results = [at for at, part in enumerate(message.parts) if isinstance(part, ToolResult)]
    renamed = {results[number]: id for number, id in ids.items()}
    parts = [
        msgspec.structs.replace(part, id=renamed[at]) if at in renamed and isinstance(part, ToolResult) else part
        for at, part in enumerate(message.parts)
    ]
    return msgspec.structs.replace(message, parts=tuple(parts))


def _get(value: object, key: str) -> Any:
    """Return a field in camelCase or in snake_case."""
    if not isinstance(value, Mapping):
        return None
    return value.get(key, value.get(_SNAKE.get(key, key)))


def _instruction(value: object) -> object:
    inner = _get(value, "systemInstruction")
    return value if inner is None else inner


def _list_parts(content: object) -> Sequence[object]:
    parts = content.get("parts", content if "text" in content else ()) if isinstance(content, Mapping) else content
    if isinstance(parts, list | tuple):
        return parts
    return () if parts is None else [parts]


def _read_part(part: object) -> Iterator[Part]:
    if not isinstance(part, Mapping):
        yield from read_unknown(part)
        return
    if isinstance(part.get("text"), str):
        yield Text(text=clean_text(part["text"]))
    elif (call := _get(part, "functionCall")) is not None and isinstance(_get(call, "name"), str):
        id, arguments = text_or_empty(call.get("id")), json_text(call.get("args") or {})
        yield ToolCall(id=id or NAME_ID + clean_text(call["name"]), name=clean_text(call["name"]), arguments=arguments)
    elif (answer := _get(part, "functionResponse")) is not None and isinstance(_get(answer, "name"), str):
        yield from _read_response(answer)
    elif _is_media(data := _get(part, "inlineData"), "data"):
        yield _read_media(part, data, data=clean_text(data["data"]))
    elif _is_media(file := _get(part, "fileData"), "fileUri"):
        yield _read_media(part, file, url=clean_text(_get(file, "fileUri")))
    else:
        known = (*GEMINI_SIGNATURES, "thought")
        yield from read_unknown({key: value for key, value in part.items() if key not in known})
    if signature := text_or_empty(_get(part, "thoughtSignature")):
        yield Media(modality="document", data=signature, media_type=OPAQUE_TYPE)


def _is_media(value: object, key: str) -> bool:
    return bool(text_or_empty(_get(value, key)))


def _read_media(part: Mapping[str, Any], source: Any, *, url: str = "", data: str = "") -> Media:
    mime_type = text_or_empty(_get(source, "mimeType"))
    family = mime_type.partition("/")[0]
    modality = cast("Modality", family) if mime_type.startswith(MIME_FAMILIES) else "document"
    level = text_or_empty(_get(_get(part, "mediaResolution"), "level"))
    detail = level.removeprefix("MEDIA_RESOLUTION_").lower()
    return Media(modality=modality, url=url, data=data, media_type=mime_type, detail=detail or "auto")


def _read_response(answer: Mapping[str, Any]) -> Iterator[Part]:
    name, response = clean_text(answer["name"]), answer.get("response") or {}
    texts = [key for key in _RESPONSE_TEXTS if isinstance(_get(response, key), str)] if len(response) == 1 else []
    yield ToolResult(
        id=text_or_empty(answer.get("id")) or NAME_ID + name,
        name=name,
        content=clean_text(response[texts[0]]) if texts else json_text(response),
        is_error=texts == ["error"],
    )
    media = (part for each in _list_parts(answer.get("parts")) for part in _read_part(each))
    yield from (part for part in media if isinstance(part, Media))


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


def _split_results(parts: Iterator[Part]) -> tuple[list[Part], list[Part]]:
    """Return the other parts, and responses with the media in them."""
    own: list[Part] = []
    results: list[Part] = []
    for part in parts:
        in_response = isinstance(part, ToolResult) or (isinstance(part, Media) and bool(results) and not own)
        (results if in_response else own).append(part)
    return own, results
