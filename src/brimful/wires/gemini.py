"""Gemini's generateContent: a separate system instruction, alternating `user` and `model` turns, media of every kind.

Gemini reads the parts of a content as one text with nothing between them, so neighbouring texts of a turn are joined
by an empty line. The body names the model as `models/…`, which countTokens accepts too.

Of clients, Google accepts every key in camelCase and in snake_case, and its SDK puts most fields of a request under
`config`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast
from urllib.parse import quote

import msgspec

from brimful.core.content import OPAQUE_TYPE, Media, Modality, Part, Role, Text, ToolCall, ToolResult
from brimful.core.prompt import Message, Prompt, Request, Tool
from brimful.core.validation import clean_text, is_whole_number, preview
from brimful.records import Usage
from brimful.records.reply import FinishReason, Reply, ReplyChunk
from brimful.wires.call_names import NAME_ID, number_calls
from brimful.wires.normalize import (
    Turn,
    alternating_turns,
    join_texts,
    mime_type,
    normalize_messages,
    split_system,
    with_name_in_text,
)
from brimful.wires.parts import read_tool_definition, read_unknown, text_or_empty
from brimful.wires.replies import (
    Draft,
    JsonObject,
    as_count,
    as_object,
    as_objects,
    as_string,
    join_pieces,
    make_usage,
    split_words,
)
from brimful.wires.rounds import BETWEEN, PieceAnswer, add_usage
from brimful.wires.rules import CallPairing, Object, Report, check_tools, describe_value, finds_violations
from brimful.wires.storage import NOT_STORED, Problem, Storage, ToolStep, has_content
from brimful.wires.tools import ChangeFunction, arguments_object, json_text, map_field, object_schema
from brimful.wires.wire import CountRequest, ErrorFacts, ErrorKind, ReasoningRule, Wire, WirePaths, has_role_and_content

_MODELS_WITHOUT_SIGNATURES: Final = re.compile(r"gemini-[12](?!\d)")
"""Models without thought signatures. Later models refuse calls in the current turn that have none."""

_MODELS_WITH_RESOLUTION: Final = re.compile(r"gemini-(?![12](?!\d))")
"""Models that take a media resolution for each part. Earlier models refuse it."""

_RESOLUTIONS: Final = {
    "low": "MEDIA_RESOLUTION_LOW",
    "medium": "MEDIA_RESOLUTION_MEDIUM",
    "high": "MEDIA_RESOLUTION_HIGH",
    "ultra": "MEDIA_RESOLUTION_ULTRA_HIGH",
}

_NO_SIGNATURE: Final = "skip_thought_signature_validator"
"""Google's value for a call whose signature is not available."""

MIME_FAMILIES: Final = ("image/", "audio/", "video/")
_WIRE_ROLES: Final = {"user": "user", "assistant": "model"}
_READ_ROLES: Final[dict[str, Role]] = {"user": "user", "model": "assistant"}
_FUNCTION_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
_ALLOWED: Final = {
    "user": ("text", "inlineData", "fileData", "functionResponse"),
    "model": ("text", "inlineData", "fileData", "functionCall"),
    "system": ("text",),
}
_PART_KINDS: Final = ("text", "inlineData", "fileData", "functionCall", "functionResponse")


def write_request(prompt: Prompt) -> Request:
    """Write the request.

    >>> message = Message(role="user", name="Ada", parts=(Text(text="Hi"),))
    >>> write_request(Prompt(model="gemini-3-pro", messages=(message,), max_output=99))
    ... # doctest: +NORMALIZE_WHITESPACE
    {'model': 'models/gemini-3-pro', 'generationConfig': {'maxOutputTokens': 99},
     'contents': [{'role': 'user', 'parts': [{'text': 'Ada: Hi'}]}]}
    """
    messages = [with_name_in_text(message) for message in normalize_messages(prompt.messages, accepts_media)]
    first, rest = split_system(messages)
    request: Request = {"model": prompt.model if "/" in prompt.model else f"models/{prompt.model}"}
    if prompt.max_output is not None:
        request["generationConfig"] = {"maxOutputTokens": prompt.max_output}
    if prompt.tools:
        request["tools"] = [{"functionDeclarations": [_write_tool(tool) for tool in prompt.tools]}]
    if first:
        request["systemInstruction"] = {"parts": _write_parts(part for message in first for part in message.parts)}
    signed = _MODELS_WITHOUT_SIGNATURES.search(prompt.model) is None
    scaled = _MODELS_WITH_RESOLUTION.search(prompt.model) is not None
    request["contents"] = [_write_content(turn, signed=signed, scaled=scaled) for turn in alternating_turns(rest)]
    return request


def function_name(name: str) -> str:
    """Return a name for a past call that Gemini accepts: it must not start with a digit or a dash.

    >>> function_name("look_up"), function_name("2fa")
    ('look_up', '_2fa')
    """
    return name if name[0].isalpha() or name[0] == "_" else f"_{name}"[:64]


def accepts_media(media: Media) -> bool:
    """Whether the API accepts these media."""
    known = mime_type(media).startswith(MIME_FAMILIES)
    return known and (bool(media.data) or media.url.startswith(("https://", "gs://")))


def _write_tool(tool: Tool) -> JsonObject:
    described = {"description": tool.description} if tool.description else {}
    return {"name": tool.name, **described, "parametersJsonSchema": object_schema(tool.parameters)}


def _write_content(turn: Turn, *, signed: bool, scaled: bool) -> JsonObject:
    parts = _write_parts(turn.parts, scaled=scaled)
    first_call = next((part for part in parts if "functionCall" in part), None)
    if signed and first_call is not None:
        first_call["thoughtSignature"] = _NO_SIGNATURE
    return {"role": _WIRE_ROLES[turn.speaker], "parts": parts}


def _write_parts(parts: Iterable[Part], *, scaled: bool = False) -> list[JsonObject]:
    return [_write_part(part) | (_write_resolution(part) if scaled else {}) for part in join_texts(parts)]


def _write_resolution(part: Part) -> JsonObject:
    if not isinstance(part, Media) or part.modality != "image" or part.detail not in _RESOLUTIONS:
        return {}
    return {"mediaResolution": {"level": _RESOLUTIONS[part.detail]}}


def _write_part(part: Part) -> JsonObject:
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


# -- reading -----------------------------------------------------------------------------------------------------------


def read_request(request: Request) -> Prompt:
    """Read the request. A user's content with function responses becomes a tool message and one with the rest.

    >>> question = {"role": "user", "parts": [{"text": "Hi"}]}
    >>> read_request({"model": "models/gemini-3-pro", "contents": [question]}).model
    'gemini-3-pro'
    """
    system = request.get("systemInstruction")
    first = [Message(role="system", parts=tuple(_read_part(part) for part in system["parts"]))] if system else []
    declared = (tool for tools in request.get("tools") or () for tool in tools["functionDeclarations"])
    config = request.get("generationConfig") or {}
    return Prompt(
        model=request["model"].removeprefix("models/"),
        messages=(*first, *(message for content in request["contents"] for message in _read_content(content))),
        tools=tuple(_read_tool(tool) for tool in declared),
        max_output=config.get("maxOutputTokens"),
    )


def _read_tool(tool: JsonObject) -> Tool:
    schema = tool.get("parametersJsonSchema") or tool.get("parameters") or {}
    return Tool(name=tool["name"], description=tool.get("description") or "", parameters=schema)


def _read_content(content: JsonObject) -> Iterator[Message]:
    parts = [_read_part(part) for part in content["parts"]]
    results = tuple(part for part in parts if isinstance(part, ToolResult))
    rest = tuple(part for part in parts if not isinstance(part, ToolResult))
    if results:
        yield Message(role="tool", parts=results)
    if rest:
        yield Message(role=_READ_ROLES[content["role"]], parts=rest)


def _read_part(part: JsonObject) -> Part:
    match part:
        case {"text": text}:
            return Text(text=text)
        case {"inlineData": data}:
            return _read_media(part, data["mimeType"], data=data["data"])
        case {"fileData": file}:
            return _read_media(part, file["mimeType"], url=file["fileUri"])
        case {"functionCall": call}:
            arguments = json_text(call.get("args") or {})
            return ToolCall(id=call.get("id") or call["name"], name=call["name"], arguments=arguments)
        case _:
            return _read_result(part["functionResponse"])


def _read_media(part: JsonObject, mime_type: str, *, url: str = "", data: str = "") -> Media:
    level = (part.get("mediaResolution") or {}).get("level")
    detail = next((detail for detail, name in _RESOLUTIONS.items() if name == level), "auto")
    modality = cast("Modality", mime_type.partition("/")[0])
    return Media(modality=modality, url=url, data=data, media_type=mime_type, detail=detail)


def _read_result(answer: JsonObject) -> ToolResult:
    response = answer["response"]
    id = answer.get("id") or answer["name"]
    match response:
        case {"output": str(text)} if len(response) == 1:
            return ToolResult(id=id, name=answer["name"], content=text)
        case {"error": str(text)} if len(response) == 1:
            return ToolResult(id=id, name=answer["name"], content=text, is_error=True)
        case _:
            return ToolResult(id=id, name=answer["name"], content=json_text(response))


# -- rules -------------------------------------------------------------------------------------------------------------


@finds_violations
def find_violations(report: Report, body: Object) -> None:
    """Return every violation of the API's rules.

    >>> find_violations({"model": "models/gemini-3-pro", "contents": [{"role": "model", "parts": [{"text": "Hi"}]}]})
    ["contents[0]: the first turn must be the user's", "contents: the last turn must be the user's"]
    """
    _check_config(report, body.get("generationConfig"))
    if body.get("tools") is not None:
        check_tools(report, _check_declarations(report, body["tools"]))
    if body.get("systemInstruction") is not None:
        _check_system(report, body["systemInstruction"])
    _check_contents(report, body.get("contents"))


def _check_config(report: Report, value: object) -> None:
    if value is None:
        return
    config = report.require_object("generationConfig", value)
    if config is not None and config.get("maxOutputTokens") is not None:
        report.require_positive("generationConfig.maxOutputTokens", config["maxOutputTokens"])


def _check_declarations(report: Report, tools: object) -> Iterator[tuple[str, Object]]:
    for path, tool in report.require_objects("tools", tools):
        for item_path, declared in report.require_objects(
            f"{path}.functionDeclarations", tool.get("functionDeclarations")
        ):
            name = declared.get("name")
            if isinstance(name, str) and name[:1].isdigit():
                report.add(f"{item_path}.name", f"must start with a letter or _, {describe_value(name)}")
            for schema in ("parameters", "parametersJsonSchema"):
                if declared.get(schema) is not None:
                    report.require_object(f"{item_path}.{schema}", declared[schema])
            yield item_path, declared


def _check_system(report: Report, value: object) -> None:
    system = report.require_object("systemInstruction", value)
    if system is not None:
        _check_parts(report, CallPairing(report), "systemInstruction", system, "system")


def _check_contents(report: Report, contents: object) -> None:
    pairing = CallPairing(report)
    before = "model"
    for path, content in report.require_objects("contents", contents):
        role = report.require_one_of(f"{path}.role", content.get("role"), ("user", "model"))
        if role is None:
            continue
        if role == before:
            first = path == "contents[0]"
            report.add(path, "the first turn must be the user's" if first else f"two {role} turns in a row")
        before = role
        _check_parts(report, pairing, path, content, role)
        if role == "user":
            pairing.close()
    pairing.close()
    if contents and before == "model":
        report.add("contents", "the last turn must be the user's")


def _check_parts(report: Report, pairing: CallPairing, path: str, content: Object, role: str) -> None:
    for item_path, part in report.require_objects(f"{path}.parts", content.get("parts")):
        kinds = [kind for kind in _PART_KINDS if kind in part]
        if len(kinds) != 1:
            report.add(item_path, f"must have exactly one of {', '.join(_PART_KINDS)}")
        elif kinds[0] not in _ALLOWED[role]:
            report.add(item_path, f"{kinds[0]} is not allowed in a {role} turn")
        else:
            _CHECKS[kinds[0]](report, pairing, f"{item_path}.{kinds[0]}", part[kinds[0]])
            _check_resolution(report, f"{item_path}.mediaResolution", part.get("mediaResolution"))


def _check_resolution(report: Report, path: str, value: object) -> None:
    resolution = None if value is None else report.require_object(path, value)
    if resolution is not None:
        report.require_one_of(f"{path}.level", resolution.get("level"), tuple(_RESOLUTIONS.values()))


def _check_text(report: Report, _: CallPairing, path: str, value: object) -> None:
    report.require_nonblank(path, value)


def _check_data(report: Report, _: CallPairing, path: str, value: object) -> None:
    data = report.require_object(path, value)
    if data is not None:
        _check_type(report, f"{path}.mimeType", data.get("mimeType"))
        report.require_nonblank(f"{path}.data", data.get("data"))


def _check_file(report: Report, _: CallPairing, path: str, value: object) -> None:
    file = report.require_object(path, value)
    if file is not None:
        _check_type(report, f"{path}.mimeType", file.get("mimeType"))
        report.require_nonblank(f"{path}.fileUri", file.get("fileUri"))


def _check_type(report: Report, path: str, value: object) -> None:
    if not (isinstance(value, str) and value.startswith(MIME_FAMILIES)):
        report.add(path, f"must be a type of image, audio or video, {describe_value(value)}")


def _check_call(report: Report, pairing: CallPairing, path: str, value: object) -> None:
    call = report.require_object(path, value)
    if call is None:
        return
    name = _check_name(report, path, call)
    if call.get("args") is not None:
        report.require_object(f"{path}.args", call["args"])
    if call.get("id") is not None:
        id = report.require_nonblank(f"{path}.id", call["id"])
        if id is not None:
            pairing.call(path, id)
    elif name is not None:
        pairing.call_by_name(path, name)


def _check_response(report: Report, pairing: CallPairing, path: str, value: object) -> None:
    answer = report.require_object(path, value)
    if answer is None:
        return
    name = _check_name(report, path, answer)
    report.require_object(f"{path}.response", answer.get("response"))
    key = report.require_nonblank(f"{path}.id", answer["id"]) if answer.get("id") is not None else name
    if key is not None:
        pairing.result(path, key)


def _check_name(report: Report, path: str, function: Object) -> str | None:
    name = function.get("name")
    if isinstance(name, str) and _FUNCTION_NAME.fullmatch(name):
        return name
    report.add(
        f"{path}.name", f"must be a letter or _ and up to 63 of a-z, A-Z, 0-9, _, ., : and -, {describe_value(name)}"
    )
    return None


_CHECKS: Final[dict[str, Callable[[Report, CallPairing, str, object], None]]] = {
    "text": _check_text,
    "inlineData": _check_data,
    "fileData": _check_file,
    "functionCall": _check_call,
    "functionResponse": _check_response,
}


# -- requests of clients -----------------------------------------------------------------------------------------------

_SNAKE: Final = {
    "allowedFunctionNames": "allowed_function_names",
    "candidateCount": "candidate_count",
    "functionCallingConfig": "function_calling_config",
    "toolConfig": "tool_config",
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
_STORED_KINDS: Final = ("inlineData", "fileData", "functionCall", "functionResponse")
_RESPONSE_TEXTS: Final = ("output", "result", "content", "error")  # keys of a response that is just a text
_CONFIG: Final = "config"  # the field of Google's SDK
_SIGNATURE_FIELDS: Final = ("thoughtSignature", "thought_signature")


def _read_turn(content: Mapping[str, Any], *, current: bool) -> tuple[Message, ...]:
    """Read a content: function responses first, then everything else."""
    del current
    parts = [part for each in _list_parts(content) for part in _client_part(each)]
    own, results = _split_results(number_calls(parts))
    turn = Message(role="assistant" if content.get("role") == "model" else "user", parts=tuple(own))
    if not results:
        return (turn,)
    answers = Message(role="tool", parts=tuple(results))
    return (answers, turn) if own else (answers,)


def _read_instruction(value: object) -> tuple[Message, ...]:
    """Read a system instruction: a content, a list of parts or a string."""
    parts = [part for each in _list_parts(_instruction(value)) for part in _client_part(each)]
    return (Message(role="system", parts=tuple(parts)),)


def _instruction_field(request: Request) -> str:
    """Return the field that holds the system instruction, or would."""
    for field in ("systemInstruction", "system_instruction"):
        if request.get(field):
            return field
    return _CONFIG if _get(request.get(_CONFIG), "systemInstruction") else "systemInstruction"


def _read_declarations(offered: Mapping[str, Any]) -> Iterator[Tool]:
    """Read the tools. Those that Google runs itself are counted as JSON."""
    tools = offered.get("tools") or _get(offered.get(_CONFIG), "tools")
    for tool in tools if isinstance(tools, list) else ():
        declared = _get(tool, "functionDeclarations")
        for each in declared if isinstance(declared, list) else [tool]:
            if isinstance(each, dict):
                named = next((key for key in ("parametersJsonSchema", "parameters_json_schema") if each.get(key)), "")
                yield read_tool_definition(each, named or "parameters")


def _read_config(request: Request, key: str) -> int | None:
    """Return a field of the request's configuration, if it is a valid number."""
    configs = (_get(request, "generationConfig"), request.get(_CONFIG))
    values = (_get(config, key) for config in configs)
    return next((int(value) for value in values if is_whole_number(value)), None)


def _read_max_output(request: Request) -> int | None:
    return _read_config(request, "maxOutputTokens")


def write_max_output(request: Request, tokens: int, provider: str) -> Request:
    """Return a request with an output limit, unless it has one of its own.

    >>> write_max_output({"generation_config": {"temperature": 0}}, 100, "google")
    {'generation_config': {'temperature': 0, 'max_output_tokens': 100}}
    """
    del provider
    if _read_max_output(request) is not None:
        return request
    field = next((field for field in (_CONFIG, "generation_config") if field in request), "generationConfig")
    limit = {"maxOutputTokens" if field == "generationConfig" else "max_output_tokens": tokens}
    config = request.get(field)
    return {**request, field: {**(config if isinstance(config, Mapping) else {}), **limit}}


def _find_uncounted(request: Request) -> str:
    """Return a notice about content that only Google has."""
    if not (_get(request, "cachedContent") or _get(request.get(_CONFIG), "cachedContent")):
        return ""
    return "the cached content is not counted, since only Gemini has it: choose a window that leaves room for it"


def _without_response_texts(content: JsonObject) -> JsonObject:
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


def _find_reasoning(content: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the indices of parts with thoughts, and of signatures; none if a content has nothing else."""
    kinds: list[bool] = []
    for part in _list_parts(content):
        own = [bool(_get(part, "thought"))] * len(list(_client_part(part)))
        if own and _get(part, "thoughtSignature"):
            own[-1] = True
        kinds += own
    return () if all(kinds) else tuple(i for i, is_reasoning in enumerate(kinds) if is_reasoning)


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


def _client_part(part: object) -> Iterator[Part]:
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
        yield _client_media(part, data, data=clean_text(data["data"]))
    elif _is_media(file := _get(part, "fileData"), "fileUri"):
        yield _client_media(part, file, url=clean_text(_get(file, "fileUri")))
    else:
        known = (*_SIGNATURE_FIELDS, "thought")
        yield from read_unknown({key: value for key, value in part.items() if key not in known})
    if signature := text_or_empty(_get(part, "thoughtSignature")):
        yield Media(modality="document", data=signature, media_type=OPAQUE_TYPE)


def _is_media(value: object, key: str) -> bool:
    return bool(text_or_empty(_get(value, key)))


def _client_media(part: Mapping[str, Any], source: Any, *, url: str = "", data: str = "") -> Media:
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
    media = (part for each in _list_parts(answer.get("parts")) for part in _client_part(each))
    yield from (part for part in media if isinstance(part, Media))


def _split_results(parts: Iterator[Part]) -> tuple[list[Part], list[Part]]:
    """Return the other parts, and responses with the media in them."""
    own: list[Part] = []
    results: list[Part] = []
    for part in parts:
        in_response = isinstance(part, ToolResult) or (isinstance(part, Media) and bool(results) and not own)
        (results if in_response else own).append(part)
    return own, results


def _without_reasoning(content: JsonObject) -> JsonObject:
    """Return a content without the model's thoughts and their signatures."""
    parts = [part for part in content["parts"] if not part.get("thought")]
    signed = [{key: value for key, value in part.items() if key not in _SIGNATURE_FIELDS} for part in parts]
    return {**content, "parts": signed}


def _get_role(content: Mapping[str, Any]) -> str:
    role = str(content.get("role", "user"))
    return "assistant" if role == "model" else role


# -- replies -----------------------------------------------------------------------------------------------------------

_FILTERED_REASONS: Final = (
    "SAFETY RECITATION BLOCKLIST PROHIBITED_CONTENT SPII IMAGE_SAFETY IMAGE_PROHIBITED_CONTENT IMAGE_RECITATION"
)
_FINISH_REASONS: Final[dict[str, FinishReason]] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    **dict.fromkeys(_FILTERED_REASONS.split(), "filtered"),
}


def _list_count_requests(request: Request) -> tuple[CountRequest, ...]:
    body = {"generateContentRequest": request | {"model": _get_model_path(request)}}
    return (CountRequest(_get_path(request, "countTokens"), body, "totalTokens"),)


class _Draft(Draft):
    """A complete answer and each event of a stream have the same form."""

    def add(self, data: JsonObject) -> ReplyChunk:
        self.id = self.id or as_string(data.get("responseId"))
        self.model = self.model or as_string(data.get("modelVersion"))
        if data.get("usageMetadata"):
            self.usage = _read_usage(as_object(data["usageMetadata"]))
        if as_object(data.get("promptFeedback")).get("blockReason"):
            self.has_started, self.finish = True, "filtered"
        pieces = [
            self._candidate(candidate) for candidate in as_objects(data.get("candidates")) if not candidate.get("index")
        ]
        return join_pieces(pieces)

    def _candidate(self, candidate: JsonObject) -> ReplyChunk:
        self.has_started = True
        text = thought = ""
        for part in as_objects(as_object(candidate.get("content")).get("parts")):
            if "functionCall" in part:
                self._call(as_object(part["functionCall"]))
            elif part.get("thought"):
                thought += as_string(part.get("text"))
            else:
                text += self.add_text(as_string(part.get("text")))
        reason = as_string(candidate.get("finishReason"))
        if reason:
            self.finish = _FINISH_REASONS.get(reason, "other")
            self.is_over = True
        return ReplyChunk(text=text, thought=thought)

    def _call(self, call: JsonObject) -> None:
        """Add a call, which arrives complete, usually without an id."""
        arguments = json_text(as_object(call.get("args")))
        self.add_call(None, id=as_string(call.get("id")), name=as_string(call.get("name")), arguments=arguments)


def _read_usage(data: JsonObject) -> Usage:
    """Return the usage: thoughts are not part of the candidates count, cached tokens are part of the prompt."""
    thoughts = as_count(data.get("thoughtsTokenCount"))
    return make_usage(
        prompt=as_count(data.get("promptTokenCount")),
        cached=as_count(data.get("cachedContentTokenCount")),
        completion=as_count(data.get("candidatesTokenCount")) + thoughts,
        reasoning=thoughts,
    )


def _get_model_path(request: Request) -> str:
    name = as_string(request.get("model"))
    return name if "/" in name else f"models/{name}"


def _get_path(request: Request, method: str) -> str:
    return f"/{quote(_get_model_path(request))}:{method}"


# -- rounds ------------------------------------------------------------------------------------------------------------

_CALL_FIELD: Final = "functionCall"
_USAGE_FIELD: Final = "usageMetadata"


class ContentAnswer(PieceAnswer):
    """Joins Gemini's answers."""

    def __init__(self) -> None:
        self._seen: list[JsonObject] = []  # parts of earlier rounds
        super().__init__()

    def step(self, results: Mapping[str, str]) -> list[JsonObject]:
        """Return the contents to add to the request. Signatures stay with their parts.

        A stream may end with an empty text, which a request must not have.
        """
        parts = [part for piece in self._pieces for part in _parts(piece) if part != {"text": ""}]
        written = [call for piece in self._pieces for call in self._calls_in(piece)]
        responses = [
            {"functionResponse": _id_of(each) | {"name": call.name, "response": {"output": results[call.id]}}}
            for each, call in zip(written, self.calls, strict=True)
        ]
        return [{"role": "model", "parts": parts}, {"role": "user", "parts": responses}]

    def whole(self, body: JsonObject) -> JsonObject:
        own = self._without_recalls(body)
        if not self._round:
            return own
        if self._begun_with_text:
            own = self._after_a_gap(own)
        return self._with_usage(_with_parts(own, [*self._seen, *_parts(own)]))

    def _remember(self) -> None:
        super()._remember()
        self._seen += [part for piece in self._pieces for part in _parts(piece) if _CALL_FIELD not in part]

    def _calls_in(self, piece: JsonObject) -> list[JsonObject]:
        return [as_object(part[_CALL_FIELD]) for part in _parts(piece) if _CALL_FIELD in part]

    def _read_call(self, call: JsonObject, default_id: str) -> ToolCall:
        arguments = json_text(as_object(call.get("args")))
        return ToolCall(
            id=as_string(call.get("id")) or default_id, name=as_string(call.get("name")), arguments=arguments
        )

    def _is_end(self, data: JsonObject) -> bool:
        return any(candidate.get("finishReason") for candidate in as_objects(data.get("candidates")))

    def _text(self, piece: JsonObject) -> str:
        return "".join(as_string(part.get("text")) for part in _parts(piece) if not part.get("thought"))

    def _without_recalls(self, piece: JsonObject) -> JsonObject:
        parts = _parts(piece)
        own = [part for part in parts if as_object(part.get(_CALL_FIELD)).get("name") not in self.answered]
        return piece if len(own) == len(parts) else _with_parts(piece, own)

    def _after_a_gap(self, piece: JsonObject) -> JsonObject:
        parts = _parts(piece)
        first = next((i for i, part in enumerate(parts) if part.get("text") and not part.get("thought")), None)
        if first is None:
            return piece
        spaced = parts[first] | {"text": BETWEEN + parts[first]["text"]}
        return _with_parts(piece, [*parts[:first], spaced, *parts[first + 1 :]])

    def _own_usage(self) -> JsonObject:
        return next((as_object(piece[_USAGE_FIELD]) for piece in reversed(self._pieces) if _USAGE_FIELD in piece), {})

    def _with_usage(self, piece: JsonObject) -> JsonObject:
        return (
            piece | {_USAGE_FIELD: add_usage(self._usage, as_object(piece[_USAGE_FIELD]))}
            if _USAGE_FIELD in piece
            else piece
        )

    def _frame(self, piece: JsonObject) -> bytes:
        return b"data: " + msgspec.json.encode(piece) + b"\r\n\r\n"


def _parts(piece: JsonObject) -> list[JsonObject]:
    first = next(iter(as_objects(piece.get("candidates"))), {})
    return as_objects(as_object(first.get("content")).get("parts"))


def _with_parts(piece: JsonObject, parts: Sequence[JsonObject]) -> JsonObject:
    first, *others = as_objects(piece.get("candidates")) or [{}]
    content = {"role": "model"} | as_object(first.get("content")) | {"parts": [*parts]}
    return piece | {"candidates": [first | {"content": content}, *others]}


def _id_of(call: JsonObject) -> JsonObject:
    return {"id": call["id"]} if call.get("id") else {}


# -- storing -----------------------------------------------------------------------------------------------------------


def _find_problems(contents: Sequence[JsonObject]) -> Iterator[Problem]:
    """Yield unknown roles, empty questions, and parts of the user that are neither text, images nor responses."""
    for index, content in enumerate(contents):
        if content.get("role") not in (None, "user", "model", "function"):
            yield f"[{index}].role", f"must be user or model, not {preview(content.get('role'))}"
        if content.get("role") == "model":
            continue
        parts = _list_parts(content)
        for number, part in enumerate(parts):
            if not _is_stored(part):
                kind = next(iter(part), None) if isinstance(part, dict) else part
                yield f"[{index}].parts[{number}]", NOT_STORED.format(preview(kind))
        if not has_content(parts):
            yield f"[{index}].parts", "is empty"


def _is_stored(part: object) -> bool:
    """Whether all of a part is stored: a text, a picture, a call or a response."""
    if not isinstance(part, dict) or part.get("thought"):
        return False
    read = list(_client_part({key: value for key, value in part.items() if key not in _SIGNATURE_FIELDS}))
    known = "text" in part or any(_get(part, key) is not None for key in _STORED_KINDS)
    return known and bool(read) and all(not isinstance(each, Media) or each.modality == "image" for each in read)


def _strip(contents: Sequence[JsonObject]) -> list[JsonObject]:
    """Return contents without the model's thoughts, their signatures, and the work of Google's own tools."""
    return [
        _stored_content(content) if content.get("role") == "model" and "parts" in content else content
        for content in contents
    ]


def _stored_content(content: JsonObject) -> JsonObject:
    parts = [part for part in _list_parts(content) if isinstance(part, dict) and _is_stored(part)]
    plain = [{key: value for key, value in part.items() if key not in _SIGNATURE_FIELDS} for part in parts]
    return {**content, "parts": plain}


def _find_steps(contents: Sequence[JsonObject]) -> tuple[ToolStep, ...]:
    """Return the contents with calls since the user's last words that have signatures, thoughts or other parts."""
    last_user = max((i for i, content in enumerate(contents) if _is_from_user(content)), default=-1)
    steps = []
    for content in contents[last_user + 1 :]:
        unstored = [_unstored(part) for part in _list_parts(content)]
        calls = _call_keys(content)
        if content.get("role") == "model" and calls and any(unstored):
            steps.append(ToolStep(messages=(content,), calls=calls, unstored=[part for part in unstored if part]))
    return tuple(steps)


def _unstored(part: object) -> object:
    """Return what of a part is not stored."""
    if not isinstance(part, dict) or not _is_stored(part):
        return part
    return {key: part[key] for key in _SIGNATURE_FIELDS if key in part}


def _is_from_user(content: JsonObject) -> bool:
    """Whether a content has more than responses of functions."""
    parts = [part for part in _list_parts(content) if isinstance(part, dict)]
    return content.get("role") != "model" and any(_get(part, "functionResponse") is None for part in parts)


def _calls(content: JsonObject) -> list[JsonObject]:
    return [call for part in _list_parts(content) if isinstance(call := _get(part, "functionCall"), dict)]


def _call_keys(content: JsonObject) -> tuple[str, ...]:
    """Return what identifies the calls in a content: they need no ids."""
    keys = ([call.get("name"), call.get("args") or {}] for call in _calls(content))
    return tuple(msgspec.json.encode(key, order="sorted").decode() for key in keys)


def _restore(contents: Sequence[JsonObject], steps: Sequence[ToolStep]) -> list[JsonObject]:
    """Replace contents with calls by the client's, the newest first, and give the responses the ids of its calls."""
    restored, left = list(contents), list(steps)
    for index in reversed(range(len(contents) - 1)):
        keys = _call_keys(contents[index])
        found = next((i for i in reversed(range(len(left))) if keys and left[i].calls == keys), None)
        if found is not None and _texts(contents[index]) == _texts(_stored_content(left[found].messages[0])):
            original = left[found].messages[0]
            restored[index] = original
            restored[index + 1] = _with_response_ids(restored[index + 1], _calls(original))
            del left[found:]
    return restored


def _texts(content: JsonObject) -> list[str]:
    return [word for part in _list_parts(content) for word in text_or_empty(_get(part, "text")).split()]


def _with_response_ids(content: JsonObject, calls: Sequence[JsonObject]) -> JsonObject:
    """Return responses with the ids of these calls. They stand in the order of the calls, before everything else."""
    answered = [part["functionResponse"] for part in content["parts"] if "functionResponse" in part]
    parts = [
        {"functionResponse": {key: value for key, value in each.items() if key != "id"} | _id_of(call)}
        for each, call in zip(answered, calls, strict=False)
    ]
    return {**content, "parts": [*parts, *content["parts"][len(parts) :]]}


# -- errors ------------------------------------------------------------------------------------------------------------

_ERROR_STATUSES: Final[dict[ErrorKind, str]] = {
    "invalid_key": "UNAUTHENTICATED",
    "forbidden": "PERMISSION_DENIED",
    "not_found": "NOT_FOUND",
    "rate_limited": "RESOURCE_EXHAUSTED",
    "spending_limit": "RESOURCE_EXHAUSTED",
    "too_many_failed_keys": "RESOURCE_EXHAUSTED",
    "upstream": "UNAVAILABLE",
    "timeout": "DEADLINE_EXCEEDED",
    "shutting_down": "UNAVAILABLE",
    "internal": "INTERNAL",
}
"""All others are invalid arguments."""


def _write_error(error: ErrorFacts) -> JsonObject:
    status = _ERROR_STATUSES.get(error.kind, "INVALID_ARGUMENT")
    return {"error": {"code": error.status, "message": error.message, "status": status}}


def _read_call(path: str, parameters: Mapping[str, str], body: JsonObject) -> tuple[str, bool]:
    del body
    return parameters.get("model", ""), path.endswith(":streamGenerateContent")


def _write_model(path: str, body: JsonObject, model: str) -> tuple[str, JsonObject]:
    """Return the path of a request with another model: `/v1beta/models/MODEL:generateContent`."""
    root, models, call = path.partition("models/")
    return f"{root}{models}{quote(model, safe='')}:{call.rpartition(':')[2]}", body


def _has_fixed_tools(fields: Request) -> bool:
    """Whether the tools may not be changed: functions cannot be combined with Google's own tools."""
    calling = _get(_get(fields, "toolConfig"), "functionCallingConfig")
    answers = _get(_get(fields, "generationConfig"), "candidateCount")
    tools = fields.get("tools") or []
    has_functions_only = isinstance(tools, list) and all(_get(tool, "functionDeclarations") for tool in tools)
    mode = _get(calling, "mode")
    return mode not in (None, "AUTO", "MODE_UNSPECIFIED") or answers not in (None, 1) or not has_functions_only


def _map_declarations(fields: Request, change: ChangeFunction) -> Request:
    """Change the functions that a request declares, at its top or in its `config`."""
    config = fields.get(_CONFIG)
    if isinstance(config, dict) and not fields.get("tools"):
        return {**fields, _CONFIG: _map_declarations(config, change)}

    def change_tool(tool: JsonObject) -> JsonObject | None:
        for key in ("functionDeclarations", "function_declarations"):
            if isinstance(tool.get(key), list):
                changed = map_field(tool, key, change)
                return changed or None
        return tool

    return map_field(fields, "tools", change_tool)


def _find_forced(fields: Request) -> frozenset[str]:
    """Return the names of the functions to which the calls of a request are restricted."""
    config = fields if _get(fields, "toolConfig") else fields.get(_CONFIG)
    names = _get(_get(_get(config, "toolConfig"), "functionCallingConfig"), "allowedFunctionNames")
    return frozenset(name for name in names if isinstance(name, str)) if isinstance(names, list) else frozenset()


# -- for tests: written replies, and the rules of conversations --------------------------------------------------------


def _write_reply(reply: Reply) -> tuple[JsonObject, list[bytes]]:
    """Return a reply as Gemini's content, and as the events of one."""
    usage = reply.usage or Usage(prompt=10, completion=2)
    counts = {
        "promptTokenCount": usage.prompt,
        "candidatesTokenCount": usage.completion,
        "totalTokenCount": usage.prompt + usage.completion,
        "cachedContentTokenCount": usage.cached,
    }
    head = {"modelVersion": reply.model or "scripted", "responseId": reply.id or "resp-1"}

    def piece(parts: list[JsonObject], **finish: str) -> JsonObject:
        content = {"role": "model", "parts": parts}
        return {"candidates": [{"index": 0, "content": content, **finish}], "usageMetadata": counts, **head}

    calls: list[JsonObject] = [
        {"functionCall": {"name": call.name, "args": msgspec.json.decode(call.arguments)}} for call in reply.calls
    ]
    texts = [{"text": reply.text}] if reply.text else []
    events = [piece([{"text": word}]) for word in split_words(reply.text)] + [piece([call]) for call in calls]
    events.append(piece([{"text": ""}], finishReason="STOP"))
    written = [b"data: %b\r\n\r\n" % msgspec.json.encode(each) for each in events]
    return piece([*texts, *calls], finishReason="STOP"), written


def _can_join(body: Request, _streams: bool) -> bool:  # noqa: FBT001 - as in a `Wire`
    configs = [as_object(body.get(field)) for field in ("generationConfig", "generation_config")]
    types = [config.get(field) for config in configs for field in ("responseMimeType", "response_mime_type")]
    return all(each in (None, "", "text/plain") for each in types)


def _find_broken(request: Request) -> Iterator[str]:
    contents = request["contents"]
    calls: list[str] = []
    before = "model"
    for index, content in enumerate(contents):
        role = "model" if content.get("role") == "model" else "user"
        parts = [_camel_keys(part) for part in content["parts"]]
        answers = [part["functionResponse"]["name"] for part in parts if "functionResponse" in part]
        if sorted(answers) != sorted(calls):
            yield f"content {index}: the results {answers} do not answer the calls {calls}"
        calls = [part["functionCall"]["name"] for part in parts if "functionCall" in part]
        if role == before == "model" and (calls or not index):
            yield f"content {index}: must come after a turn of the user"
        if not parts or any("text" in part and not part["text"] for part in parts):
            yield f"content {index}: an empty part"
        before = role
    if before == "model":
        yield "the end: must be a turn of the user"
    yield from _missing_signatures(contents)


def _missing_signatures(contents: list[JsonObject]) -> Iterator[str]:
    """Yield the calls since the user's last words that lack the signature of a thought, if there are any at all."""
    if "thoughtSignature" not in str(contents) and "thought_signature" not in str(contents):
        return
    for index in reversed(range(len(contents))):
        parts = [_camel_keys(part) for part in contents[index]["parts"]]
        if contents[index].get("role") != "model" and any("text" in part for part in parts):
            return
        call = next((part for part in parts if "functionCall" in part), None)
        if call is not None and "thoughtSignature" not in call:
            yield f"content {index}: a call without the signature of its thought"


def _camel_keys(part: JsonObject) -> JsonObject:
    return {re.sub("_([a-z])", lambda found: found[1].upper(), key): value for key, value in part.items()}


WIRE: Final = Wire(
    name="gemini",
    provider="gemini",
    write=lambda prompt, _: write_request(prompt),
    read=read_request,
    find_violations=find_violations,
    accepts_media=accepts_media,
    detail_provider="google",
    message_field="contents",
    needs_role=False,
    is_message=lambda message: "parts" in message or has_role_and_content(message),
    read_turn=_read_turn,
    pairs_by_name=True,
    find_uncounted=_find_uncounted,
    system_field=_instruction_field,
    read_system=_read_instruction,
    tool_fields=("tools", "config"),
    read_tools=_read_declarations,
    read_max_output=_read_max_output,
    count_answers=lambda request: _read_config(request, "candidateCount") or 1,
    write_max_output=write_max_output,
    write_text=lambda role, text: {"role": "model" if role == "assistant" else "user", "parts": [{"text": text}]},
    get_role=_get_role,
    text_type="",
    repair=_without_response_texts,
    user_first=True,
    reasoning=ReasoningRule(
        is_removable=True,
        why="only the signatures of the current turn are validated",
        source="https://ai.google.dev/gemini-api/docs/thought-signatures",
    ),
    find_reasoning=_find_reasoning,
    without_reasoning=_without_reasoning,
    make_draft=_Draft,
    streams_arrays=True,
    join_rounds=ContentAnswer,
    can_join=_can_join,
    key_header="x-goog-api-key",
    get_path=lambda request, stream: _get_path(
        request, "streamGenerateContent?alt=sse" if stream else "generateContent"
    ),
    prepare=lambda request, *_: {key: value for key, value in request.items() if key != "model"},
    count_requests=_list_count_requests,
    paths=WirePaths(
        root="/v1beta",
        completions=("/v1beta/models/{model}:generateContent", "/v1beta/models/{model}:streamGenerateContent"),
        has_one_version=True,
        prefixes=("/v1beta/",),
    ),
    read_call=_read_call,
    write_model=_write_model,
    key_parameter="key",
    write_error=_write_error,
    describe_overflow=lambda needed, limit, why: (
        f"The input token count ({needed}) exceeds the maximum number of tokens allowed ({limit}): {why}"
    ),
    write_tool=lambda tool: {"functionDeclarations": [_write_tool(tool)]},
    has_fixed_tools=_has_fixed_tools,
    map_functions=_map_declarations,
    find_forced=_find_forced,
    no_calls={"toolConfig": {"functionCallingConfig": {"mode": "NONE"}}},
    storage=Storage(find_problems=_find_problems, strip=_strip, find_steps=_find_steps, restore=_restore),
    write_reply=_write_reply,
    find_broken=_find_broken,
)
