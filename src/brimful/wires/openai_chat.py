"""OpenAI's chat completions, and the many servers that accept them.

A speaker's name goes into the `name` field if it fits there, otherwise to the head of the text. A message's content
is one string wherever possible: template-based servers take strings everywhere and lists only sometimes, and a form
that never changes keeps the cached prefix. Only media need a list. The messages come last in the request, so that a
longer conversation is a longer text with the same beginning.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from brimful.core.chat_rules import OPENING
from brimful.core.content import Media, Part, Role, Text, ToolCall, ToolResult
from brimful.core.prompt import Message, Prompt, Request
from brimful.core.validation import clean_text
from brimful.errors import InvalidRequest
from brimful.wires.call_names import NAME_ID
from brimful.wires.normalize import (
    data_url,
    decode_data_url,
    fits_name_field,
    is_tool_name,
    mime_type,
    normalize_messages,
    with_name_in_text,
)
from brimful.wires.parts import read_document, read_image, read_unknown, text_or_empty
from brimful.wires.rules import CallPairing, Object, Report, check_tools, describe_value
from brimful.wires.tools import arguments_text, check_functions, function_tool, json_text, read_function, read_functions
from brimful.wires.wire import ReasoningRule, Wire, has_limit

DETAILS: Final = ("auto", "low", "high", "original")
_CONTENT_PARTS: Final = (Text, Media)
AUDIO_FORMATS: Final = {"audio/wav": "wav", "audio/mpeg": "mp3"}
_READ_ROLES: Final[dict[str, Role]] = {
    "developer": "system",
    "system": "system",
    "user": "user",
    "assistant": "assistant",
}
_AUDIO_TYPES: Final = {"wav": "audio/wav", "mp3": "audio/mpeg"}
_ROLES: Final = ("system", "developer", "user", "assistant", "tool")
_MAX_ID_CHARACTERS: Final = 40  # from OpenAI's error message
_MAX_CALLS: Final = 128  # in one message, from OpenAI's error message
_TEXT_ONLY: Final = ("text",)
_TEXT_AND_MEDIA: Final = ("text", "image_url", "input_audio")


def write_request(prompt: Prompt) -> Request:
    """Write the request.

    >>> message = Message(role="user", name="Ada", parts=(Text(text="Hi"),))
    >>> write_request(Prompt(model="gpt-4o", messages=(message,), max_output=99))["messages"]
    [{'role': 'user', 'name': 'Ada', 'content': 'Hi'}]
    """
    request: Request = {"model": prompt.model}
    if prompt.max_output is not None:
        request["max_completion_tokens"] = prompt.max_output
    if prompt.tools:
        request["tools"] = [function_tool(tool) for tool in prompt.tools]
    messages = normalize_messages(prompt.messages, accepts_media)
    written = [wire_message for message in messages for wire_message in _write_message(message)]
    request["messages"] = written or [{"role": "user", "content": OPENING}]
    return request


def accepts_media(media: Media) -> bool:
    """Whether the API accepts these media."""
    match media.modality:
        case "image":
            return bool(media.data) or media.url.startswith(("https://", "http://"))
        case "audio":
            return bool(media.data) and mime_type(media) in AUDIO_FORMATS
        case _:
            return False


def _write_message(message: Message) -> Iterator[dict[str, Any]]:
    if message.role == "tool":
        for part in message.parts:
            if isinstance(part, ToolResult):
                yield {"role": "tool", "tool_call_id": part.id, "content": part.content}
        return
    yield _write_spoken(message if not message.name or fits_name_field(message.name) else with_name_in_text(message))


def _write_spoken(message: Message) -> dict[str, Any]:
    written: dict[str, Any] = {"role": message.role}
    if message.name:
        written["name"] = message.name
    match message.parts:
        case (Text(text=text),):  # most messages
            written["content"] = text
            return written
    written["content"] = _write_content([part for part in message.parts if isinstance(part, _CONTENT_PARTS)])
    calls = [_write_call(part) for part in message.parts if isinstance(part, ToolCall)]
    if calls:
        written["tool_calls"] = calls
    return written


def _write_content(parts: list[Text | Media]) -> str | list[dict[str, Any]] | None:
    match parts:
        case []:
            return None
        case [Text(text=text)]:
            return text
        case _:
            return [_write_block(part) for part in parts]


def _write_block(part: Text | Media) -> dict[str, Any]:
    match part:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Media(modality="audio"):
            audio = {"data": part.data, "format": AUDIO_FORMATS[mime_type(part)]}
            return {"type": "input_audio", "input_audio": audio}
        case Media():
            detail = part.detail if part.detail in DETAILS else "auto"
            return {"type": "image_url", "image_url": {"url": data_url(part), "detail": detail}}


def _write_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": arguments_text(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


# -- reading -----------------------------------------------------------------------------------------------------------


def read_request(request: Request) -> Prompt:
    """Read the request. Consecutive tool messages stay separate, because they are billed separately.

    >>> read_request({"model": "m", "messages": [{"role": "user", "content": "Hi"}]}).messages[0].parts
    (Text(text='Hi'),)
    """
    names = _call_names(request["messages"])
    return Prompt(
        model=request["model"],
        messages=tuple(_read_message(message, names) for message in request["messages"]),
        tools=tuple(read_function(tool["function"]) for tool in request.get("tools") or ()),
        max_output=request.get("max_completion_tokens") or request.get("max_tokens"),
    )


def _call_names(messages: list[dict[str, Any]]) -> dict[str, str]:
    calls = (call for message in messages for call in message.get("tool_calls") or ())
    return {call["id"]: call["function"]["name"] for call in calls}


def _read_message(message: dict[str, Any], names: dict[str, str]) -> Message:
    content = message.get("content")
    if message["role"] == "tool":
        id = message["tool_call_id"]
        parts = list(_read_parts(content))
        text = "".join(part.text for part in parts if isinstance(part, Text))
        media = (part for part in parts if isinstance(part, Media))
        return Message(role="tool", parts=(ToolResult(id=id, content=text, name=names.get(id, "")), *media))
    role, name = _READ_ROLES[message["role"]], message.get("name") or ""
    if isinstance(content, str) and not message.get("tool_calls"):
        return Message(role=role, name=name, parts=(Text(text=content),))
    calls = (
        ToolCall(id=call["id"], name=call["function"]["name"], arguments=call["function"]["arguments"])
        for call in message.get("tool_calls") or ()
    )
    return Message(role=role, name=name, parts=(*_read_parts(content), *calls))


def _read_parts(content: str | list[dict[str, Any]] | None) -> Iterator[Part]:
    if isinstance(content, str):
        yield Text(text=content)
        return
    for block in content or ():
        match block["type"]:
            case "text":
                yield Text(text=block["text"])
            case "image_url":
                image = block["image_url"]
                yield decode_data_url(Media(modality="image", url=image["url"], detail=image.get("detail") or "auto"))
            case _:
                audio = block["input_audio"]
                yield Media(modality="audio", data=audio["data"], media_type=_AUDIO_TYPES[audio["format"]])


# -- rules -------------------------------------------------------------------------------------------------------------


def find_violations(request: object) -> list[str]:
    """Return every violation of the API's rules.

    >>> find_violations({"model": "gpt-4o", "messages": [{"role": "tool", "tool_call_id": "c2", "content": "tea"}]})
    ["messages[0]: tool result for 'c2' without its call"]
    """
    report = Report()
    body = report.require_object("request", request)
    if body is None:
        return report.violations
    report.require_nonblank("model", body.get("model"))
    for limit in ("max_completion_tokens", "max_tokens"):
        if body.get(limit) is not None:
            report.require_positive(limit, body[limit])
    if body.get("tools") is not None:
        check_tools(report, check_functions(report, body["tools"]))
    _check_messages(report, CallPairing(report), body.get("messages"))
    return report.violations


def find_malformed(messages: object) -> list[str]:
    """Return what cannot be read in a client's history. Calls may lack their results.

    Tool results may contain images: other servers accept them, and they are sent as the user's.

    >>> find_malformed([{"role": "tool", "tool_call_id": "c2", "content": "tea"}])
    []
    >>> find_malformed([{"role": "user", "content": 7}])
    ['messages[0].content: must be a string or a list of parts, not a number']
    """
    report = Report()
    _check_messages(report, CallPairing(Report()), messages, allowed_in_results=_TEXT_AND_MEDIA)
    return report.violations


def _check_messages(
    report: Report, pairing: CallPairing, messages: object, *, allowed_in_results: tuple[str, ...] = _TEXT_ONLY
) -> None:
    for index, item in enumerate(report.require_list("messages", messages)):
        if _is_plain(item):
            pairing.close()
            continue
        path = f"messages[{index}]"
        message = report.require_object(path, item)
        if message is not None:
            _check_message(report, pairing, path, message, allowed_in_results)
    pairing.close()


def _is_plain(item: object) -> bool:
    """Whether a message has only a role and a text, as most do: it cannot break a rule."""
    if not isinstance(item, dict) or len(item) != len(("role", "content")):
        return False
    role = item.get("role")
    return role != "tool" and role in _ROLES and isinstance(item.get("content"), str)


def _check_message(
    report: Report, pairing: CallPairing, path: str, message: Object, allowed_in_results: tuple[str, ...]
) -> None:
    role = report.require_one_of(f"{path}.role", message.get("role"), _ROLES)
    if role == "tool":
        _check_result(report, pairing, path, message, allowed_in_results)
        return
    pairing.close()
    if role is not None:
        _check_spoken(report, pairing, path, message)


def _check_result(
    report: Report, pairing: CallPairing, path: str, message: Object, allowed_in_results: tuple[str, ...]
) -> None:
    id = report.require_nonblank(f"{path}.tool_call_id", message.get("tool_call_id"))
    if id is not None:
        pairing.result(path, id)
    if message.get("tool_calls") is not None:
        report.add(f"{path}.tool_calls", "only an assistant message may call tools")
    content = message.get("content")
    if isinstance(content, list):
        _check_blocks(report, f"{path}.content", content, allowed_in_results)
    else:
        report.require_string(f"{path}.content", content)


def _check_spoken(report: Report, pairing: CallPairing, path: str, message: Object) -> None:
    name = message.get("name")
    if name is not None and not (isinstance(name, str) and fits_name_field(name)):
        report.add(
            f"{path}.name", f"must be 1 to 64 characters without spaces, <, |, \\, / and >, {describe_value(name)}"
        )
    calls = message.get("tool_calls")
    if calls is not None:
        _check_calls(report, pairing, path, message)
    if message.get("content") is not None:
        _check_content(report, path, message)
    elif message["role"] != "assistant" or calls is None:
        report.add(f"{path}.content", "must be a string or a list of parts, but is missing")


def _check_calls(report: Report, pairing: CallPairing, path: str, message: Object) -> None:
    if message["role"] != "assistant":
        report.add(f"{path}.tool_calls", "only an assistant message may call tools")
    calls = list(report.require_objects(f"{path}.tool_calls", message["tool_calls"]))
    if len(calls) > _MAX_CALLS:
        report.add(f"{path}.tool_calls", f"has {len(calls)} calls, at most {_MAX_CALLS} are allowed")
    for at, call in calls:
        report.require_one_of(f"{at}.type", call.get("type"), ("function",))
        id = report.require_nonblank(f"{at}.id", call.get("id"))
        if id is not None:
            if len(id) > _MAX_ID_CHARACTERS:
                report.add(f"{at}.id", f"must have at most {_MAX_ID_CHARACTERS} characters, not {len(id)}")
            pairing.call(path, id)
        _check_function(report, f"{at}.function", call.get("function"))


def _check_function(report: Report, path: str, value: object) -> None:
    function = report.require_object(path, value)
    if function is not None:
        if not is_tool_name(function.get("name")):
            report.add(
                f"{path}.name", f"must be 1 to 64 of a-z, A-Z, 0-9, _ and -, {describe_value(function.get('name'))}"
            )
        report.require_string(f"{path}.arguments", function.get("arguments"))


def _check_content(report: Report, path: str, message: Object) -> None:
    content = message["content"]
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        report.add(f"{path}.content", f"must be a string or a list of parts, {describe_value(content)}")
        return
    _check_blocks(report, f"{path}.content", content, _TEXT_AND_MEDIA if message["role"] == "user" else _TEXT_ONLY)


def _check_blocks(report: Report, path: str, blocks: object, allowed: tuple[str, ...]) -> None:
    for at, block in report.require_objects(path, blocks):
        match report.require_one_of(f"{at}.type", block.get("type"), allowed):
            case "text":
                report.require_string(f"{at}.text", block.get("text"))
            case "image_url":
                _check_image(report, f"{at}.image_url", block.get("image_url"))
            case "input_audio":
                _check_audio(report, f"{at}.input_audio", block.get("input_audio"))


def _check_image(report: Report, path: str, value: object) -> None:
    image = report.require_object(path, value)
    if image is None:
        return
    url = report.require_nonblank(f"{path}.url", image.get("url"))
    if url is not None and not url.startswith(("https://", "http://", "data:")):
        report.add(f"{path}.url", f"must start with https:, http: or data:, {describe_value(url)}")
    if image.get("detail") is not None:
        report.require_one_of(f"{path}.detail", image["detail"], DETAILS)


def _check_audio(report: Report, path: str, value: object) -> None:
    audio = report.require_object(path, value)
    if audio is not None:
        report.require_nonblank(f"{path}.data", audio.get("data"))
        report.require_one_of(f"{path}.format", audio.get("format"), tuple(AUDIO_FORMATS.values()))


def read_history(messages: object) -> tuple[Message, ...]:
    """Read a list of messages in OpenAI's format. Names may be any string, and content may be missing.

    >>> read_history([{"role": "user", "name": "Ada Lovelace", "content": "Hi"}])[0].name
    'Ada Lovelace'
    >>> read_history([])
    ()
    """
    if messages == []:
        return ()
    plain = [_repair_message(message) for message in messages] if isinstance(messages, list) else messages
    malformed = find_malformed(plain)
    if malformed:
        raise InvalidRequest("openai", malformed)
    read = read_request({"model": "", "messages": plain}).messages
    names = [_sender_name(message) for message in messages] if isinstance(messages, list) else []
    return tuple(msgspec.structs.replace(message, name=name) for message, name in zip(read, names, strict=True))


def _repair_message(message: Any) -> Any:
    if not isinstance(message, Mapping):
        return message
    plain = {key: value for key, value in message.items() if key != "name"}
    if plain.get("content") is None and not plain.get("tool_calls"):
        plain["content"] = ""
    if plain.get("tool_calls") == []:
        del plain["tool_calls"]
    return plain


def _sender_name(message: Any) -> str:
    name = message.get("name")
    return name if isinstance(name, str) and message.get("role") != "tool" else ""


# -- requests of clients -----------------------------------------------------------------------------------------------

_CLIENT_ROLES: Final[dict[str, Role]] = {"developer": "system", "system": "system", "assistant": "assistant"}
_REASONING_FIELDS: Final = ("reasoning_content", "reasoning", "thinking")
"""Where servers put a model's reasoning. Templates repeat it only until the next user message."""


def _read_turn(message: dict[str, Any], *, current: bool) -> tuple[Message, ...]:
    """Read a message. `current` means that no user message follows it."""
    if (id := _answered_call_id(message)) is not None:
        return (_client_result(message, id),)
    thoughts = (
        [Text(text=text_or_empty(message[key])) for key in _REASONING_FIELDS if message.get(key)] if current else []
    )
    parts = (*thoughts, *_client_parts(message.get("content")), *read_unknown(message.get("refusal")))
    calls = (*_client_calls(message.get("tool_calls")), *_client_function_call(message.get("function_call")))
    role = _CLIENT_ROLES.get(message["role"], "user")
    return (Message(role=role, name=text_or_empty(message.get("name")), parts=(*parts, *calls)),)


def _answered_call_id(message: dict[str, Any]) -> str | None:
    """Return the id of the call that a message answers. Calls of the older kind have no id and are matched by name."""
    match message:
        case {"role": "tool", "tool_call_id": str(id)}:
            return clean_text(id)
        case {"role": "function", "name": str(name)}:
            return NAME_ID + clean_text(name)
        case _:
            return None


def _client_result(message: dict[str, Any], id: str) -> Message:
    parts = list(_client_parts(message.get("content")))
    text = "".join(part.text for part in parts if isinstance(part, Text))
    media = (part for part in parts if isinstance(part, Media))
    return Message(
        role="tool", parts=(ToolResult(id=id, content=text, name=text_or_empty(message.get("name"))), *media)
    )


def _client_parts(content: object) -> Iterator[Part]:
    if isinstance(content, str):
        yield Text(text=clean_text(content))
        return
    for block in content if isinstance(content, list) else read_unknown(content):
        if isinstance(block, dict):
            yield from _client_block(block)
        else:
            yield from read_unknown(block)


def _client_block(block: dict[str, Any]) -> Iterator[Part]:
    match block:
        case {"type": "text", "text": str(text)}:
            yield Text(text=clean_text(text))
        case {"type": "image_url", "image_url": {"url": str(url), **rest}}:
            yield from read_image(url, rest.get("detail"))
        case {"type": "image_url", "image_url": str(url)}:
            yield from read_image(url)
        case {"type": "file", "file": {"file_data": str(reference)} | {"file_id": str(reference)}} if reference:
            yield read_document(reference)
        case {"type": "video_url", "video_url": {"url": str(url)}} if url:
            yield decode_data_url(Media(modality="video", url=clean_text(url)))
        case {"type": "audio_url", "audio_url": {"url": str(url)}} if url:
            yield decode_data_url(Media(modality="audio", url=clean_text(url)))
        case {"type": "input_audio", "input_audio": {"data": str(data), **rest}} if data:
            form = _AUDIO_TYPES.get(text_or_empty(rest.get("format")), "")
            yield Media(modality="audio", data=clean_text(data), media_type=form)
        case _:
            yield from read_unknown(block)


def _client_calls(calls: object) -> Iterator[Part]:
    for call in calls if isinstance(calls, list) else ():
        match call:
            case {"id": str(id), "function": {"name": str(name), "arguments": arguments}}:
                written = text_or_empty(arguments) if isinstance(arguments, str) else json_text(arguments)
                yield ToolCall(id=clean_text(id), name=clean_text(name), arguments=written)
            case _:
                yield from read_unknown(call)


def _client_function_call(call: object) -> Iterator[Part]:
    match call:
        case {"name": str(name), "arguments": str(arguments)}:
            yield ToolCall(id=NAME_ID + clean_text(name), name=clean_text(name), arguments=clean_text(arguments))


def write_max_output(request: Request, tokens: int, provider: str) -> Request:
    """Return a request with an output limit, unless it has one of its own.

    OpenAI's reasoning models accept only `max_completion_tokens`. Other servers may not know it.

    >>> write_max_output({"model": "o3"}, 100, "openai")
    {'model': 'o3', 'max_completion_tokens': 100}
    """
    if has_limit(request):
        return request
    return {**request, "max_completion_tokens" if provider == "openai" else "max_tokens": tokens}


WIRE: Final = Wire(
    name="openai",
    provider="openai",
    write=lambda prompt, _: write_request(prompt),
    read=read_request,
    find_violations=find_violations,
    accepts_media=accepts_media,
    names_in_text=False,
    keeps_body=True,
    detail_provider="openai",
    read_turn=_read_turn,
    takes_fields=True,
    takes_langchain=True,
    tool_fields=("tools", "functions"),
    read_tools=read_functions,
    write_max_output=write_max_output,
    reasoning=ReasoningRule(
        is_removable=False,
        why="DeepSeek rejects requests that lack the reasoning of any message with tool calls",
        source="https://api-docs.deepseek.com/guides/thinking_mode",
    ),
)
