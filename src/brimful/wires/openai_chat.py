"""OpenAI's chat completions, and the many servers that accept them.

A speaker's name goes into the `name` field if it fits there, otherwise to the head of the text. A message's content
is one string wherever possible: template-based servers take strings everywhere and lists only sometimes, and a form
that never changes keeps the cached prefix. Only media need a list. The messages come last in the request, so that a
longer conversation is a longer text with the same beginning.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from brimful.core.chat_rules import OPENING
from brimful.core.content import Media, Part, Role, Text, ToolCall, ToolResult
from brimful.core.prompt import Message, Prompt, Request
from brimful.core.validation import clean_text
from brimful.errors import InvalidRequest
from brimful.records import Usage
from brimful.records.reply import FinishReason, Reply, ReplyChunk
from brimful.wires.call_names import NAME_ID
from brimful.wires.event_stream import Event
from brimful.wires.normalize import (
    data_url,
    decode_data_url,
    fits_name_field,
    is_tool_name,
    mime_type,
    normalize_messages,
    with_name_in_text,
)
from brimful.wires.parts import AUDIO_TYPES, name_results, read_document, read_image, read_unknown, text_or_empty
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
    wants_text,
)
from brimful.wires.rounds import BETWEEN, JoinedAnswer, add_usage
from brimful.wires.rules import CallPairing, Object, Report, check_tools, describe_value, finds_violations
from brimful.wires.storage import BlockRules, ToolStep
from brimful.wires.tools import arguments_text, check_functions, function_tool, json_text, read_function, read_functions
from brimful.wires.wire import (
    CountRequest,
    ErrorFacts,
    ErrorKind,
    ReasoningRule,
    ServerTraits,
    UsageOption,
    Wire,
    WirePaths,
    has_limit,
)

DETAILS: Final = ("auto", "low", "high", "original")
_CONTENT_PARTS: Final = (Text, Media)
AUDIO_FORMATS: Final = {"audio/wav": "wav", "audio/mpeg": "mp3"}
_READ_ROLES: Final[dict[str, Role]] = {
    "developer": "system",
    "system": "system",
    "user": "user",
    "assistant": "assistant",
}
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


def _write_message(message: Message) -> Iterator[JsonObject]:
    if message.role == "tool":
        for part in message.parts:
            if isinstance(part, ToolResult):
                yield {"role": "tool", "tool_call_id": part.id, "content": part.content}
        return
    yield _write_spoken(message if not message.name or fits_name_field(message.name) else with_name_in_text(message))


def _write_spoken(message: Message) -> JsonObject:
    written: JsonObject = {"role": message.role}
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


def _write_content(parts: list[Text | Media]) -> str | list[JsonObject] | None:
    match parts:
        case []:
            return None
        case [Text(text=text)]:
            return text
        case _:
            return [_write_block(part) for part in parts]


def _write_block(part: Text | Media) -> JsonObject:
    match part:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Media(modality="audio"):
            audio = {"data": part.data, "format": AUDIO_FORMATS[mime_type(part)]}
            return {"type": "input_audio", "input_audio": audio}
        case Media():
            detail = part.detail if part.detail in DETAILS else "auto"
            return {"type": "image_url", "image_url": {"url": data_url(part), "detail": detail}}


def _write_call(call: ToolCall) -> JsonObject:
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


def _call_names(messages: list[JsonObject]) -> dict[str, str]:
    calls = (call for message in messages for call in message.get("tool_calls") or ())
    return {call["id"]: call["function"]["name"] for call in calls}


def _read_message(message: JsonObject, names: dict[str, str]) -> Message:
    content, role = message.get("content"), _READ_ROLES.get(message["role"], "tool")
    if isinstance(content, str) and role != "tool" and not message.get("tool_calls"):  # most messages
        return Message(role=role, name=message.get("name") or "", parts=(Text(text=content),))
    [read] = _read_turn(message, current=False)
    return msgspec.structs.replace(read, parts=name_results(read.parts, names))


# -- rules -------------------------------------------------------------------------------------------------------------


@finds_violations
def find_violations(report: Report, body: Object) -> None:
    """Return every violation of the API's rules.

    >>> find_violations({"model": "gpt-4o", "messages": [{"role": "tool", "tool_call_id": "c2", "content": "tea"}]})
    ["messages[0]: tool result for 'c2' without its call"]
    """
    for limit in ("max_completion_tokens", "max_tokens"):
        if body.get(limit) is not None:
            report.require_positive(limit, body[limit])
    if body.get("tools") is not None:
        check_tools(report, check_functions(report, body["tools"]))
    _check_messages(report, CallPairing(report), body.get("messages"))


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
    for item_path, call in calls:
        report.require_one_of(f"{item_path}.type", call.get("type"), ("function",))
        id = report.require_nonblank(f"{item_path}.id", call.get("id"))
        if id is not None:
            if len(id) > _MAX_ID_CHARACTERS:
                report.add(f"{item_path}.id", f"must have at most {_MAX_ID_CHARACTERS} characters, not {len(id)}")
            pairing.call(path, id)
        _check_function(report, f"{item_path}.function", call.get("function"))


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
    for item_path, block in report.require_objects(path, blocks):
        match report.require_one_of(f"{item_path}.type", block.get("type"), allowed):
            case "text":
                report.require_string(f"{item_path}.text", block.get("text"))
            case "image_url":
                _check_image(report, f"{item_path}.image_url", block.get("image_url"))
            case "input_audio":
                _check_audio(report, f"{item_path}.input_audio", block.get("input_audio"))


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

_REASONING_FIELDS: Final = ("reasoning_content", "reasoning", "thinking")
"""Where servers put a model's reasoning. Templates repeat it only until the next user message."""


def _read_turn(message: JsonObject, *, current: bool) -> tuple[Message, ...]:
    """Read a message. `current` means that no user message follows it."""
    if (id := _answered_call_id(message)) is not None:
        return (_client_result(message, id),)
    thoughts = (
        [Text(text=text_or_empty(message[key])) for key in _REASONING_FIELDS if message.get(key)] if current else []
    )
    parts = (*thoughts, *_client_parts(message.get("content")), *read_unknown(message.get("refusal")))
    calls = (*_client_calls(message.get("tool_calls")), *_client_function_call(message.get("function_call")))
    role = _READ_ROLES.get(message["role"], "user")
    return (Message(role=role, name=text_or_empty(message.get("name")), parts=(*parts, *calls)),)


def _answered_call_id(message: JsonObject) -> str | None:
    """Return the id of the call that a message answers. Calls of the older kind have no id and are matched by name."""
    match message:
        case {"role": "tool", "tool_call_id": str(id)}:
            return clean_text(id)
        case {"role": "function", "name": str(name)}:
            return NAME_ID + clean_text(name)
        case _:
            return None


def _client_result(message: JsonObject, id: str) -> Message:
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


def _client_block(block: JsonObject) -> Iterator[Part]:
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
            form = AUDIO_TYPES.get(text_or_empty(rest.get("format")), "")
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


# -- replies -----------------------------------------------------------------------------------------------------------

_FINISH_REASONS: Final[dict[str, FinishReason]] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool-calls",
    "function_call": "tool-calls",
    "content_filter": "filtered",
    "model_context_window_exceeded": "overflow",  # Z.ai
}

_LIMIT_FIELD: Final = "max_completion_tokens"
_VLLM_COUNT_FIELDS: Final = (
    *("model", "messages", "prompt", "tools", "chat_template", "chat_template_kwargs"),
    *("add_generation_prompt", "continue_final_message", "mm_processor_kwargs"),
)
"""Fields of a request that vLLM counts (`TokenizeChatRequest` and `TokenizeCompletionRequest`)."""


def prepare(request: Request, stream: bool, traits: ServerTraits) -> Request:  # noqa: FBT001 - as in a `Wire`
    """Return a request as a server wants it; a stream should report its usage."""
    fields = {key: value for key, value in request.items() if key not in ("stream", "stream_options")}
    if stream:
        fields["stream"] = True
        if traits.requests_usage:
            fields["stream_options"] = as_object(request.get("stream_options")) | {"include_usage": True}
    if traits.uses_max_tokens:
        fields = {"max_tokens" if key == _LIMIT_FIELD else key: value for key, value in fields.items()}
    return fields


def list_count_requests(request: Request, path: str) -> tuple[CountRequest, ...]:
    """Return the requests of llama.cpp and vLLM; OpenAI has none for chat completions."""
    fields = {key: value for key, value in request.items() if key in _VLLM_COUNT_FIELDS}
    return (
        CountRequest(f"{path}/input_tokens", request, "input_tokens"),
        CountRequest("/tokenize", fields, "count", versioned=False),
    )


class ChatDraft(Draft):
    """The first choice is the answer."""

    def add(self, data: JsonObject) -> ReplyChunk:
        """Add a complete answer or a chunk."""
        self.id = self.id or as_string(data.get("id"))
        self.model = self.model or as_string(data.get("model"))
        self.usage = parse_usage(data) or self.usage
        first = (choice for choice in as_objects(data.get("choices")) if not choice.get("index"))
        pieces = [self._choice(choice) for choice in first]
        return join_pieces(pieces)

    def _choice(self, choice: JsonObject) -> ReplyChunk:
        self.has_started = True
        message = as_object(choice.get("delta")) or as_object(choice.get("message")) or {"content": choice.get("text")}
        thought = as_string(message.get("reasoning_content")) or as_string(message.get("reasoning"))
        text, more = _split_content(message.get("content"))
        self.add_text(text)
        refusal = self.add_text(as_string(message.get("refusal")))
        for position, call in enumerate(as_objects(message.get("tool_calls"))):
            self._call(call, position)
        reason = as_string(choice.get("finish_reason"))
        if refusal:
            self.finish = "filtered"
        elif reason and self.finish != "filtered":
            self.finish = _FINISH_REASONS.get(reason, "other")
        return ReplyChunk(text=text + refusal, thought=thought + more)

    def _call(self, call: JsonObject, position: int) -> None:
        function = as_object(call.get("function"))
        value = function.get("arguments")
        arguments = json_text(value) if isinstance(value, dict) else as_string(value)
        key = as_count(call["index"]) if "index" in call else position
        self.add_call(key, id=as_string(call.get("id")), name=as_string(function.get("name")), arguments=arguments)


def _split_content(content: object) -> tuple[str, str]:
    """Return text and thought of a content, which is a string, or a list of blocks (Mistral)."""
    if isinstance(content, str):
        return content, ""
    text = thought = ""
    for block in as_objects(content):
        text += as_string(block.get("text"))
        thought += "".join(as_string(inner.get("text")) for inner in as_objects(block.get("thinking")))
    return text, thought


def parse_usage(data: JsonObject) -> Usage | None:
    """Return the usage from `usage`, where images have other names, and from the `timings` of llama.cpp."""
    usage, timings = as_object(data.get("usage")), as_object(data.get("timings"))
    if not usage and not timings:
        return None
    cached = _first_count(
        as_object(usage.get("prompt_tokens_details")).get("cached_tokens"),
        usage.get("prompt_cache_hit_tokens"),  # DeepSeek
        usage.get("cached_tokens"),  # Moonshot
        timings.get("cache_n"),
    )
    prompt = _first_count(
        usage.get("prompt_tokens"),
        usage.get("input_tokens"),
        as_count(timings.get("prompt_n")) + as_count(timings.get("cache_n")),
    )
    completion = _first_count(usage.get("completion_tokens"), usage.get("output_tokens"), timings.get("predicted_n"))
    reasoning = as_count(as_object(usage.get("completion_tokens_details")).get("reasoning_tokens"))
    if as_count(usage.get("total_tokens")) == prompt + completion + reasoning:
        completion += reasoning  # xAI does not include thoughts in the completion, all others do
    return make_usage(prompt=prompt, cached=cached, completion=completion, reasoning=reasoning)


def _first_count(*values: object) -> int:
    return next((tokens for value in values if (tokens := as_count(value))), 0)


# -- rounds ------------------------------------------------------------------------------------------------------------

_RETURNED_FIELDS: Final = ("reasoning_content", "reasoning_details")  # that servers want back between tool calls


class ChatAnswer(JoinedAnswer):
    """Joins chat completions."""

    def __init__(self) -> None:
        self._head: JsonObject = {}
        self._texts: list[str] = []
        super().__init__()

    def _start(self) -> None:
        super()._start()
        self._message: JsonObject = {}
        self._calls: list[JsonObject] = []
        self._usage_fields: JsonObject = {}
        self._has_text = False

    def add(self, body: JsonObject) -> None:
        self._message = as_object(_first_choice(body).get("message"))
        self._calls = [dict(call) for call in as_objects(self._message.get("tool_calls"))]
        self._usage_fields = as_object(body.get("usage"))

    def whole(self, body: JsonObject) -> JsonObject:
        own = self._own_calls()
        if not self._round and own is None:
            return body
        first, *others = as_objects(body.get("choices")) or [{}]
        message = as_object(first.get("message"))
        texts = [text for text in (*self._texts, as_string(message.get("content"))) if text]
        message = message | {"content": BETWEEN.join(texts) if texts else message.get("content")}
        if own is not None:
            message = {
                key: own if key == "tool_calls" else value
                for key, value in message.items()
                if own or key != "tool_calls"
            }
            first = first | {"finish_reason": _finish(first.get("finish_reason"), own)}
        usage = {"usage": add_usage(self._usage, self._usage_fields)} if self._usage or self._usage_fields else {}
        return body | {"choices": [first | {"message": message}, *others]} | usage

    @property
    def calls(self) -> list[ToolCall]:
        found = []
        for index, call in enumerate(self._calls):
            function = as_object(call.get("function"))
            arguments = function.get("arguments")
            written = arguments_text(arguments) if isinstance(arguments, str) else json_text(as_object(arguments))
            id = as_string(call.get("id")) or f"call_{self._round}_{index}"
            found.append(ToolCall(id=id, name=as_string(function.get("name")), arguments=written))
        return found

    def step(self, results: Mapping[str, str]) -> list[JsonObject]:
        """Return the messages to add to the request."""
        calls = [
            {key: value for key, value in call.items() if key != "index"}
            | {"id": read.id, "type": "function"}
            | {"function": as_object(call.get("function")) | {"arguments": read.arguments}}
            for call, read in zip(self._calls, self.calls, strict=True)
        ]
        thoughts = {key: self._message[key] for key in _RETURNED_FIELDS if self._message.get(key)}
        content = self._message.get("content") or None
        return [
            {"role": "assistant", "content": content, **thoughts, "tool_calls": calls},
            *({"role": "tool", "tool_call_id": call.id, "content": results[call.id]} for call in self.calls),
        ]

    def _remember(self) -> None:
        text = as_string(self._message.get("content"))
        self._texts += [text] if text else []

    def _own_usage(self) -> JsonObject:
        return self._usage_fields

    def _passes(self, data: JsonObject) -> bool:
        return "error" in data and self._state != "held"

    def _begins_call(self, data: JsonObject) -> bool:
        return bool(as_objects(as_object(_first_choice(data).get("delta")).get("tool_calls")))

    def _is_end(self, data: JsonObject) -> bool:
        return bool(_first_choice(data).get("finish_reason"))

    def _write_held(self, held: Sequence[Event]) -> bytes:
        own = self._own_calls()
        if own is None:
            return super()._write_held(held)
        indexed = [{**call, "index": i} for i, call in enumerate(own)]
        return b"".join([self._write(event, indexed if event is held[-1] else []) for event in held])

    def _own_calls(self) -> list[JsonObject] | None:
        """Return the calls that the proxy does not answer; None if it answers none."""
        own = [call for call, read in zip(self._calls, self.calls, strict=True) if read.name not in self.answered]
        return own if len(own) < len(self._calls) else None

    def _merge(self, data: JsonObject) -> None:
        self._head = self._head or {key: data[key] for key in ("id", "created") if key in data}
        self._usage_fields = as_object(data.get("usage")) or self._usage_fields
        for choice in as_objects(data.get("choices"))[:1]:
            for key, value in as_object(choice.get("delta")).items():
                if key == "tool_calls":
                    for index, call in enumerate(as_objects(value)):
                        self._merge_call(call, index)
                elif isinstance(value, str):
                    self._message[key] = as_string(self._message.get(key)) + value
                elif isinstance(value, list):
                    before = self._message.get(key)
                    self._message[key] = [*(before if isinstance(before, list) else ()), *value]

    def _merge_call(self, delta: JsonObject, position: int) -> None:
        index = as_count(delta["index"]) if "index" in delta else position
        id = as_string(delta.get("id"))
        known = [
            call for call in self._calls if call["index"] == index and (not id or call.get("id") in ("", id, None))
        ]
        if not known:  # some servers give all calls one index
            known = [{"index": index, "function": {"name": "", "arguments": ""}}]
            self._calls += known
        call, function = known[-1], as_object(delta.get("function"))
        before, arguments = call["function"], function.get("arguments")
        more = json_text(arguments) if isinstance(arguments, dict) else as_string(arguments)
        call |= {key: value for key, value in delta.items() if key != "index" and value is not None}
        call["function"] = {
            "name": before["name"] or as_string(function.get("name")),
            "arguments": before["arguments"] + more,
        }

    def _write(self, event: Event, calls: list[JsonObject] | None = None) -> bytes:
        """Return an event as the client sees it; `calls` replace the tool calls in it."""
        if not self._round and calls is None:
            return event.raw
        chunk: JsonObject = as_object(event.data) | self._head
        if as_object(chunk.get("usage")):
            chunk["usage"] = add_usage(self._usage, chunk["usage"])
        choices = as_objects(chunk.get("choices"))
        if choices:
            choice = self._write_choice(choices[0], calls)
            if not any(choice["delta"].values()) and not choice.get("finish_reason") and not chunk.get("usage"):
                return b""
            chunk["choices"] = [choice, *choices[1:]]
        return b"data: " + msgspec.json.encode(chunk) + b"\n\n"

    def _write_choice(self, choice: JsonObject, calls: list[JsonObject] | None) -> JsonObject:
        delta = {
            key: value for key, value in as_object(choice.get("delta")).items() if key != "role" or not self._round
        }
        if delta.get("content") and self._texts and not self._has_text:
            delta["content"] = BETWEEN + delta["content"]
        self._has_text = self._has_text or bool(delta.get("content"))
        if calls is None:
            return choice | {"delta": delta}
        delta = {key: value for key, value in delta.items() if key != "tool_calls"} | (
            {"tool_calls": calls} if calls else {}
        )
        return choice | {"delta": delta, "finish_reason": _finish(choice.get("finish_reason"), self._own_calls() or [])}


def _first_choice(data: JsonObject) -> JsonObject:
    return next(iter(as_objects(data.get("choices"))), {})


def _finish(reason: Any, own_calls: list[JsonObject]) -> Any:
    return "stop" if reason == "tool_calls" and not own_calls else reason


# -- errors and usage --------------------------------------------------------------------------------------------------

_ERROR_TYPES: Final[dict[ErrorKind, str]] = {
    "forbidden": "permission_error",
    "rate_limited": "rate_limit_error",
    "spending_limit": "insufficient_quota",
    "too_many_failed_keys": "rate_limit_error",
    "upstream": "server_error",
    "timeout": "server_error",
    "shutting_down": "server_error",
    "internal": "server_error",
}
"""All others are invalid requests."""


def write_error(error: ErrorFacts) -> JsonObject:
    kind = _ERROR_TYPES.get(error.kind, "invalid_request_error")
    return {"error": {"message": error.message, "type": kind, "param": error.param, "code": error.code}}


def _is_usage_only(chunk: JsonObject) -> bool:
    return chunk.get("choices") == [] and isinstance(chunk.get("usage"), dict)


# -- storing -----------------------------------------------------------------------------------------------------------

_NOT_STORED: Final = ("reasoning_content", "reasoning", "reasoning_details", "thinking")
_CALL_FIELDS: Final = frozenset(("id", "type", "function", "index"))


def _is_stored_image(block: JsonObject) -> bool:
    match block:
        case {"type": "image_url", "image_url": str(url) | {"url": str(url)}}:
            return bool(url)
    return False


def _split_stored(message: JsonObject) -> tuple[JsonObject, JsonObject]:
    stored = {key: value for key, value in message.items() if key not in _NOT_STORED}
    return stored, {key: value for key, value in message.items() if key in _NOT_STORED}


def _get_calls(message: JsonObject) -> tuple[str, ...]:
    return tuple(str(call.get("id")) for call in as_objects(message.get("tool_calls")))


def _restore(message: JsonObject, steps: Sequence[ToolStep]) -> JsonObject:
    calls = _get_calls(message)
    return next((step.messages[0] for step in steps if calls and step.calls == calls), message)


# -- for tests: written replies, and the rules of conversations --------------------------------------------------------


def _write_reply(reply: Reply) -> tuple[JsonObject, list[bytes]]:
    """Return a reply as a chat completion, and as the events of one."""
    usage = reply.usage or Usage(prompt=10, completion=2)
    head = {"id": reply.id or "chatcmpl-1", "created": 1, "model": reply.model or "scripted"}
    counts = {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.prompt + usage.completion,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
    }
    calls: list[JsonObject] = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in reply.calls
    ]
    finish: JsonObject = {"finish_reason": "tool_calls" if calls else "stop"}
    message = {"role": "assistant", "content": reply.text or None} | ({"tool_calls": calls} if calls else {})
    deltas: list[JsonObject] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": word} for word in split_words(reply.text)]
    for index, call in enumerate(calls):
        function = call["function"]
        deltas.append({"tool_calls": [{**call, "index": index, "function": function | {"arguments": ""}}]})
        for piece in (function["arguments"][:5], function["arguments"][5:]):
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, **finish})
    chunks = [head | {"object": "chat.completion.chunk", "choices": [choice]} for choice in choices]
    chunks.append(head | {"object": "chat.completion.chunk", "choices": [], "usage": counts})
    events = [*(b"data: %b\n\n" % msgspec.json.encode(chunk) for chunk in chunks), b"data: [DONE]\n\n"]
    whole = {"object": "chat.completion", "choices": [{"index": 0, "message": message, **finish}], "usage": counts}
    return head | whole, events


def _find_broken(request: Request) -> Iterator[str]:
    waiting: set[str] = set()
    for index, message in enumerate(request["messages"]):
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                yield f"message {index}: a result without its call"
            waiting.discard(message["tool_call_id"])
            continue
        if waiting:
            yield f"message {index}: tool calls without their results: {', '.join(sorted(waiting))}"
        waiting = {call["id"] for call in message.get("tool_calls") or ()}
    if waiting:
        yield f"the end: tool calls without their results: {', '.join(sorted(waiting))}"


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
    has_openai_messages=True,
    tool_fields=("tools", "functions"),
    read_tools=read_functions,
    write_max_output=write_max_output,
    reasoning=ReasoningRule(
        is_removable=False,
        why="DeepSeek rejects requests that lack the reasoning of any message with tool calls",
        source="https://api-docs.deepseek.com/guides/thinking_mode",
    ),
    make_draft=ChatDraft,
    read_usage=lambda usage: parse_usage({"usage": usage}),
    usage_key="prompt_tokens",
    join_rounds=ChatAnswer,
    can_join=lambda body, _: wants_text(body.get("response_format")),
    get_path=lambda request, stream: "/chat/completions",  # noqa: ARG005 - called by position
    prepare=prepare,
    count_requests=lambda request: list_count_requests(request, "/chat/completions"),
    models_path="/models",
    paths=WirePaths(root="/v1", completions=("/v1/chat/completions",)),
    usage_option=UsageOption("stream_options", "include_usage", _is_usage_only),
    write_error=write_error,
    no_calls={"tool_choice": "none"},
    storage=BlockRules(
        roles=("system", "developer", "user", "assistant", "tool", "function"),
        is_image=_is_stored_image,
        split=_split_stored,
        get_calls=_get_calls,
        needs_original=lambda message: not all(map(_CALL_FIELDS.issuperset, as_objects(message.get("tool_calls")))),
        restore=_restore,
    ).make_storage(),
    write_reply=_write_reply,
    find_broken=_find_broken,
)
