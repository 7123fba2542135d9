"""Anthropic's Messages API: a separate system prompt, alternating user and assistant turns, cache breakpoints.

Content is always a list of blocks, one per message of the prompt: a turn that grows adds a block and leaves the
earlier ones alone, which is what the prompt cache compares. Later system messages become turns of their own if the
model accepts them, otherwise part of a user turn.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

import msgspec

from brimful.core.content import Media, Part, Role, Text, ToolCall, ToolResult
from brimful.core.prompt import Message, Prompt, Request, Tool
from brimful.core.validation import clean_text
from brimful.errors import InvalidValue
from brimful.records import Usage
from brimful.records.reply import FinishReason, Reply, ReplyChunk
from brimful.wires.encode import dump_model
from brimful.wires.event_stream import Event
from brimful.wires.normalize import (
    alternating_turns,
    is_tool_name,
    mime_type,
    normalize_messages,
    split_system,
    with_name_in_text,
)
from brimful.wires.parts import (
    name_results,
    read_document,
    read_image,
    read_tool_definition,
    read_unknown,
    text_or_empty,
)
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
from brimful.wires.rounds import JoinedAnswer, add_usage
from brimful.wires.rules import CallPairing, Object, Report, check_tools, describe_value, finds_violations
from brimful.wires.storage import BlockRules, ToolStep
from brimful.wires.tools import arguments_object, json_text, map_flat_functions, object_schema
from brimful.wires.wire import CountRequest, ErrorFacts, ErrorKind, ReasoningRule, Wire, WirePaths, lower_max_output

IMAGE_TYPES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")
_MAX_BREAKPOINTS: Final = 4
_DEFAULT_MAX_TOKENS: Final = 4096  # `max_tokens` is required; every Claude model since 3 allows this many
_ALLOWED: Final = {
    "user": ("text", "image", "tool_result"),
    "assistant": ("text", "tool_use"),
    "system": ("text",),  # models before Opus 4.8 refuse these turns, which is not checked here
}
_ID_CHARACTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


def write_request(prompt: Prompt, window: int) -> Request:
    """Write the request.

    >>> message = Message(role="user", name="Ada", parts=(Text(text="Hi"),), cache=True)
    >>> write_request(Prompt(model="claude-sonnet-5", messages=(message,)), 200_000)["messages"][0]["content"]
    [{'type': 'text', 'text': 'Ada: Hi', 'cache_control': {'type': 'ephemeral'}}]
    """
    messages = [with_name_in_text(message) for message in normalize_messages(prompt.messages, accepts_media)]
    first, rest = split_system(messages)
    tools = [_write_tool(tool) for tool in prompt.tools]
    marked: list[JsonObject] = []
    system = _write_blocks(first, marked)
    turns = [
        {"role": turn.speaker, "content": _write_blocks(turn.messages, marked)}
        for turn in alternating_turns(rest, system_turns=prompt.system_turns)
    ]
    _set_breakpoints(tools, marked)
    request: Request = {"model": prompt.model, "max_tokens": prompt.max_output or min(_DEFAULT_MAX_TOKENS, window)}
    if tools:
        request["tools"] = tools
    if system:
        request["system"] = system
    request["messages"] = turns
    return request


def accepts_media(media: Media) -> bool:
    """Whether the API accepts these media."""
    if media.modality != "image":
        return False
    return media.url.startswith("https://") or (bool(media.data) and mime_type(media) in IMAGE_TYPES)


def _write_tool(tool: Tool) -> JsonObject:
    described = {"description": tool.description} if tool.description else {}
    return {"name": tool.name, **described, "input_schema": object_schema(tool.parameters)}


def _write_blocks(messages: Iterable[Message], marked: list[JsonObject]) -> list[JsonObject]:
    """Write the blocks of messages, and add those that end with a breakpoint to `marked`."""
    written = []
    for message in messages:
        blocks = [_write_block(part) for part in message.parts]
        if message.cache:
            marked.append(blocks[-1])
        written.append(blocks)
    return list(chain.from_iterable(written))


def _write_block(part: Part) -> JsonObject:
    match part:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Media():
            return {"type": "image", "source": _write_source(part)}
        case ToolCall():
            return {"type": "tool_use", "id": part.id, "name": part.name, "input": arguments_object(part.arguments)}
        case ToolResult():
            failed = {"is_error": True} if part.is_error else {}
            return {"type": "tool_result", "tool_use_id": part.id, "content": part.content, **failed}


def _write_source(media: Media) -> dict[str, str]:
    if media.url:
        return {"type": "url", "url": media.url}
    return {"type": "base64", "media_type": mime_type(media), "data": media.data}


def _set_breakpoints(tools: Sequence[JsonObject], marked: Sequence[JsonObject]) -> None:
    """Mark the first block, the most stable one, and the latest, which save the most; also tools if a mark is left.

    Tools come first, so they stay cached if the system prompt changes.
    """
    chosen = [*marked[:1], *marked[1:][-(_MAX_BREAKPOINTS - 1) :]]
    if tools and chosen and len(chosen) < _MAX_BREAKPOINTS:
        chosen.insert(0, tools[-1])
    for block in chosen:
        block["cache_control"] = {"type": "ephemeral"}


# -- reading -----------------------------------------------------------------------------------------------------------


def read_request(request: Request) -> Prompt:
    """Read the request. A user turn with tool results becomes a tool message and a user message with the rest.

    >>> question = {"role": "user", "content": "Hi"}
    >>> read_request({"model": "m", "max_tokens": 9, "system": "Be kind.", "messages": [question]}).messages[0]
    Message(role='system', parts=(Text(text='Be kind.'),), name='', sources=(), cache=False)
    """
    names = _call_names(request["messages"])
    system = (_read_message("system", [block], names) for block in _content_blocks(request.get("system") or []))
    turns = (message for turn in request["messages"] for message in _read_turn(turn, names))
    return Prompt(
        model=request["model"],
        messages=(*system, *turns),
        tools=tuple(
            Tool(name=tool["name"], description=tool.get("description") or "", parameters=tool["input_schema"])
            for tool in request.get("tools") or ()
        ),
        max_output=request["max_tokens"],
        system_turns=any(turn["role"] == "system" for turn in request["messages"]),
    )


def _call_names(turns: list[JsonObject]) -> dict[str, str]:
    blocks = (block for turn in turns for block in _content_blocks(turn["content"]))
    return {block["id"]: block["name"] for block in blocks if block["type"] == "tool_use"}


def _content_blocks(content: str | list[JsonObject]) -> list[JsonObject]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _read_turn(turn: JsonObject, names: dict[str, str]) -> Iterator[Message]:
    blocks = _content_blocks(turn["content"])
    results = [block for block in blocks if block["type"] == "tool_result"]
    rest = [block for block in blocks if block["type"] != "tool_result"]
    if results:
        yield _read_message("tool", results, names)
    if rest:
        yield _read_message(turn["role"], rest, names)


def _read_message(role: Role, blocks: list[JsonObject], names: dict[str, str]) -> Message:
    marked = any(block.get("cache_control") for block in blocks)
    read = (_client_result(block) if _is_client_result(block) else _client_block(block) for block in blocks)
    return Message(role=role, parts=name_results(chain.from_iterable(read), names), cache=marked)


# -- rules -------------------------------------------------------------------------------------------------------------


@finds_violations
def find_violations(report: Report, body: Object) -> None:
    """Return every violation of the API's rules.

    >>> question = {"role": "user", "content": [{"type": "text", "text": ""}]}
    >>> find_violations({"model": "claude-sonnet-5", "messages": [question]})
    ['max_tokens: must be a positive integer, but is missing', 'messages[0].content[0].text: must not be empty']
    """
    report.require_positive("max_tokens", body.get("max_tokens"))
    if body.get("tools") is not None:
        check_tools(report, _check_tool_schemas(report, body["tools"]))
    if body.get("system") is not None:
        _check_system(report, body["system"])
    _check_turns(report, body.get("messages"))
    _check_breakpoints(report, body)


def _check_tool_schemas(report: Report, tools: object) -> Iterator[tuple[str, Object]]:
    for path, tool in report.require_objects("tools", tools):
        schema = report.require_object(f"{path}.input_schema", tool.get("input_schema"))
        if schema is not None and schema.get("type") != "object":
            report.add(f"{path}.input_schema.type", f"must be 'object', {describe_value(schema.get('type'))}")
        yield path, tool


def _check_system(report: Report, system: object) -> None:
    if isinstance(system, str):
        return
    for path, block in report.require_objects("system", system):
        report.require_one_of(f"{path}.type", block.get("type"), ("text",))
        report.require_nonblank(f"{path}.text", block.get("text"))


def _check_turns(report: Report, messages: object) -> None:
    pairing = CallPairing(report)
    turns = list(report.require_objects("messages", messages))
    before = "assistant"
    for path, turn in turns:
        role = report.require_one_of(f"{path}.role", turn.get("role"), ("user", "assistant", "system"))
        if role is None:
            continue
        _check_order(report, path, role, before)
        before = role
        _check_turn(report, pairing, path, turn)
    pairing.close()
    if turns and before == "assistant":
        _check_last(report, *turns[-1])


def _check_order(report: Report, path: str, role: str, before: str) -> None:
    if role != "user" and path == "messages[0]":
        report.add(path, "the first turn must be the user's")
    elif role == before:
        report.add(path, f"two {role} turns in a row")
    elif role == "system" and before == "assistant":
        report.add(path, "a system turn must follow a user turn")
    elif role == "user" and before == "system":
        report.add(path, "a system turn must be followed by an assistant turn")


def _check_turn(report: Report, pairing: CallPairing, path: str, turn: Object) -> None:
    role, content = turn["role"], turn.get("content")
    if isinstance(content, str):
        report.require_nonblank(f"{path}.content", content)
    else:
        results_over = False
        for item_path, block in report.require_objects(f"{path}.content", content):
            type = report.require_one_of(f"{item_path}.type", block.get("type"), _ALLOWED[role])
            if type == "tool_result" and results_over:
                report.add(item_path, "tool results must come first in a user turn")
            results_over = results_over or type != "tool_result"
            if type is not None:
                _CHECKS[type](report, pairing, item_path, block)
    if role != "assistant":
        pairing.close()


def _check_text(report: Report, _: CallPairing, path: str, block: Object) -> None:
    report.require_nonblank(f"{path}.text", block.get("text"))


def _check_image(report: Report, _: CallPairing, path: str, block: Object) -> None:
    source = report.require_object(f"{path}.source", block.get("source"))
    if source is None:
        return
    match report.require_one_of(f"{path}.source.type", source.get("type"), ("base64", "url")):
        case "url":
            url = report.require_nonblank(f"{path}.source.url", source.get("url"))
            if url is not None and not url.startswith("https://"):
                report.add(f"{path}.source.url", f"must start with https://, {describe_value(url)}")
        case "base64":
            report.require_one_of(f"{path}.source.media_type", source.get("media_type"), IMAGE_TYPES)
            report.require_nonblank(f"{path}.source.data", source.get("data"))


def _check_call(report: Report, pairing: CallPairing, path: str, block: Object) -> None:
    id = report.require_nonblank(f"{path}.id", block.get("id"))
    if id is not None:
        if not _ID_CHARACTERS.issuperset(id):
            report.add(f"{path}.id", f"must be of a-z, A-Z, 0-9, _ and -, {describe_value(id)}")
        pairing.call(path, id)
    if not is_tool_name(block.get("name")):
        report.add(f"{path}.name", f"must be 1 to 64 of a-z, A-Z, 0-9, _ and -, {describe_value(block.get('name'))}")
    report.require_object(f"{path}.input", block.get("input"))


def _check_result(report: Report, pairing: CallPairing, path: str, block: Object) -> None:
    id = report.require_nonblank(f"{path}.tool_use_id", block.get("tool_use_id"))
    if id is not None:
        pairing.result(path, id)
    if not isinstance(block.get("is_error", False), bool):
        report.add(f"{path}.is_error", f"must be true or false, {describe_value(block['is_error'])}")
    content = block.get("content")
    if content is None or isinstance(content, str):
        return
    for item_path, inner in report.require_objects(f"{path}.content", content):
        match report.require_one_of(f"{item_path}.type", inner.get("type"), ("text", "image")):
            case "text":
                _check_text(report, pairing, item_path, inner)
            case "image":
                _check_image(report, pairing, item_path, inner)


_CHECKS: Final[dict[str, Callable[[Report, CallPairing, str, Object], None]]] = {
    "text": _check_text,
    "image": _check_image,
    "tool_use": _check_call,
    "tool_result": _check_result,
}


def _check_last(report: Report, path: str, turn: Object) -> None:
    content: Any = turn.get("content")
    last = content[-1] if isinstance(content, list) and content else content
    text = last.get("text") if isinstance(last, dict) else last
    if isinstance(text, str) and text != text.rstrip():
        report.add(f"{path}.content", "the last turn, if the assistant's, must not end with white space")


def _check_breakpoints(report: Report, body: Object) -> None:
    turns = body.get("messages")
    contents = [turn.get("content") for turn in turns if isinstance(turn, dict)] if isinstance(turns, list) else []
    lists = [blocks for blocks in (body.get("tools"), body.get("system"), *contents) if isinstance(blocks, list)]
    blocks = [block for blocks in lists for block in blocks if isinstance(block, dict)]
    found = sum(block.get("cache_control") is not None for block in blocks)
    if found > _MAX_BREAKPOINTS:
        report.add("request", f"has {found} cache breakpoints, at most {_MAX_BREAKPOINTS} are allowed")


# -- requests of clients -----------------------------------------------------------------------------------------------

_CLIENT_ROLES: Final[dict[str, Role]] = {"assistant": "assistant", "system": "system"}
_REASONING_TYPES: Final = ("thinking", "redacted_thinking")  # of blocks


def _read_system(system: object) -> tuple[Message, ...]:
    """Read the separate system prompt."""
    blocks = _client_blocks(system)
    parts = tuple(part for block in blocks for part in _client_block(block))
    return (Message(role="system", parts=parts, cache=_has_cache_mark(blocks)),)


def _read_client_turn(message: JsonObject, *, current: bool) -> tuple[Message, ...]:
    """Read a turn: tool results first, then everything else."""
    del current
    blocks = _client_blocks(message.get("content"))
    answers = [block for block in blocks if _is_client_result(block)]
    rest = tuple([part for block in blocks if not _is_client_result(block) for part in _client_block(block)])
    turn = Message(role=_CLIENT_ROLES.get(message["role"], "user"), parts=rest, cache=_has_cache_mark(blocks))
    if not answers:
        return (turn,)
    parts = tuple([part for block in answers for part in _client_result(block)])
    results = Message(role="tool", parts=parts, cache=_has_cache_mark(answers))
    return (results, turn) if rest else (results,)


def _find_reasoning(message: JsonObject) -> tuple[int, ...]:
    """Return the indices of parts with reasoning; none if a message has nothing else."""
    blocks = _client_blocks(message.get("content"))
    kinds = [block.get("type") in _REASONING_TYPES for block in blocks for _ in _client_block(block)]
    return () if all(kinds) else tuple(i for i, is_reasoning in enumerate(kinds) if is_reasoning)


def _find_ties(messages: Sequence[JsonObject]) -> Iterator[tuple[int, int]]:
    """Yield calls of the provider's own tools whose result is in a later turn, as after a pause."""
    called: dict[str, int] = {}
    for index, message in enumerate(messages):
        for block in _blocks_of(message):
            match block:
                case {"type": "server_tool_use" | "mcp_tool_use", "id": str(id)}:
                    called[id] = index
                case {"tool_use_id": str(id)} if called.get(id, index) != index:
                    yield called[id], index


def _find_pinned(messages: Sequence[JsonObject]) -> Iterator[int]:
    """Yield the index of the last summary by the provider, which ignores all that comes before it."""
    for index in reversed(range(len(messages))):
        for block in _blocks_of(messages[index]):
            match block:
                case {"type": "compaction", "content": str()}:
                    yield index
                    return


def _blocks_of(message: JsonObject) -> Sequence[object]:
    blocks = message.get("content")
    return [_plain_block(block) for block in blocks] if isinstance(blocks, list) else ()


def _plain_block(block: Any) -> object:
    return block if isinstance(block, dict) or not hasattr(block, "model_dump") else dump_model(block)


def _read_tools(offered: JsonObject) -> Iterator[Tool]:
    """Read the tools. Those that the provider runs itself are counted as JSON."""
    return (read_tool_definition(tool, "input_schema") for tool in _client_blocks(offered.get("tools")))


def _has_cache_mark(blocks: list[JsonObject]) -> bool:
    """Whether the client set a cache breakpoint."""
    return any(block.get("cache_control") is not None for block in blocks)


def _client_blocks(content: object) -> list[JsonObject]:
    if isinstance(content, list):
        return [block if isinstance(block, dict) else {"type": "text", "text": block} for block in content]
    return [] if content is None else [{"type": "text", "text": content}]


def _client_block(block: JsonObject) -> Iterator[Part]:
    match block:
        case {"type": "text", "text": str(text)}:
            yield Text(text=clean_text(text))
        case {"type": "image", "source": {"type": "url", "url": url}}:
            yield from read_image(url)
        case {"type": "image", "source": {"type": "base64", "data": str(data), **rest}} if data:
            yield Media(modality="image", data=clean_text(data), media_type=text_or_empty(rest.get("media_type")))
        case {"type": "image", "source": {"type": "file", "file_id": id}}:
            yield from read_image(id)
        case {"type": "document", "source": {"type": "base64", "data": str(data), **rest}} if data:
            yield Media(modality="document", data=clean_text(data), media_type=text_or_empty(rest.get("media_type")))
            yield from read_unknown({"title": block.get("title"), "context": block.get("context")})
        case {"type": "document", "source": {"url": str(reference)} | {"file_id": str(reference)}} if reference:
            yield read_document(reference)
            yield from read_unknown({"title": block.get("title"), "context": block.get("context")})
        case {"type": "tool_use", "id": str(id), "name": str(name)}:
            yield ToolCall(id=clean_text(id), name=clean_text(name), arguments=json_text(block.get("input", {})))
        case _:
            yield from read_unknown(block)


def _is_client_result(block: JsonObject) -> bool:
    return block.get("type") == "tool_result" and isinstance(block.get("tool_use_id"), str)


def _client_result(block: JsonObject) -> Iterator[Part]:
    """Yield a tool result and the images in it."""
    inner = [part for each in _client_blocks(block.get("content")) for part in _client_block(each)]
    text = "".join(part.text for part in inner if isinstance(part, Text))
    yield ToolResult(id=clean_text(block["tool_use_id"]), content=text, is_error=block.get("is_error") is True)
    yield from (part for part in inner if isinstance(part, Media))


def without_reasoning(message: JsonObject) -> JsonObject:
    """Return a message without the model's reasoning.

    >>> thought = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    >>> without_reasoning({"role": "assistant", "content": [thought, {"type": "text", "text": "Yes."}]})
    {'role': 'assistant', 'content': [{'type': 'text', 'text': 'Yes.'}]}
    """
    return {**message, "content": [block for block in message["content"] if block["type"] not in _REASONING_TYPES]}


# -- replies -----------------------------------------------------------------------------------------------------------

API_VERSION: Final = "2023-06-01"  # a required header

_FINISH_REASONS: Final[dict[str, FinishReason]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool-calls",
    "refusal": "filtered",
    "model_context_window_exceeded": "overflow",
}
_COUNT_FIELDS: Final = frozenset({"model", "messages", "system", "tools", "tool_choice", "thinking", "output_config"})
"""Fields that the endpoint for counting accepts."""


def _list_count_requests(request: Request) -> tuple[CountRequest, ...]:
    fields = {key: value for key, value in request.items() if key in _COUNT_FIELDS}
    return (CountRequest("/v1/messages/count_tokens", fields, "input_tokens"),)


class _Draft(Draft):
    """A complete message has the same form as the start of a stream; later events add to its blocks."""

    def __init__(self) -> None:
        super().__init__()
        self._usage_fields: JsonObject = {}

    def add(self, data: JsonObject) -> ReplyChunk:
        match data.get("type"):
            case "message":
                return self._message(data)
            case "message_start":
                return self._message(as_object(data.get("message")))
            case "content_block_start":
                return self._block(as_count(data.get("index")), as_object(data.get("content_block")))
            case "content_block_delta":
                return self._delta(as_count(data.get("index")), as_object(data.get("delta")))
            case "message_delta":
                self._set_finish(as_object(data.get("delta")))
                self._set_usage(as_object(data.get("usage")))
        return ReplyChunk()

    def _message(self, message: JsonObject) -> ReplyChunk:
        self.has_started = True
        self.id = as_string(message.get("id"))
        self.model = as_string(message.get("model"))
        pieces = [self._block(index, block) for index, block in enumerate(as_objects(message.get("content")))]
        self._set_finish(message)
        self._set_usage(as_object(message.get("usage")))
        return join_pieces(pieces)

    def _block(self, index: int, block: JsonObject) -> ReplyChunk:
        match block.get("type"):
            case "text":
                return ReplyChunk(text=self.add_text(as_string(block.get("text"))))
            case "thinking":
                return ReplyChunk(thought=as_string(block.get("thinking")))
            case "tool_use":
                value = as_object(block.get("input"))  # empty at the start of a stream: its parts follow
                arguments = json_text(value) if value else ""
                self.add_call(
                    index, id=as_string(block.get("id")), name=as_string(block.get("name")), arguments=arguments
                )
        return ReplyChunk()

    def _delta(self, index: int, delta: JsonObject) -> ReplyChunk:
        match delta.get("type"):
            case "text_delta":
                return ReplyChunk(text=self.add_text(as_string(delta.get("text"))))
            case "thinking_delta":
                return ReplyChunk(thought=as_string(delta.get("thinking")))
            case "input_json_delta":
                self.add_call(index, arguments=as_string(delta.get("partial_json")))
        return ReplyChunk()

    def _set_finish(self, data: JsonObject) -> None:
        reason = as_string(data.get("stop_reason"))
        if reason:
            self.finish = _FINISH_REASONS.get(reason, "other")

    def _set_usage(self, usage: JsonObject) -> None:
        """Keep the latest of each number."""
        self._usage_fields |= {key: value for key, value in usage.items() if value is not None}
        self.usage = parse_usage(self._usage_fields) if self._usage_fields else self.usage


def parse_usage(usage: JsonObject) -> Usage:
    """Return the usage. `input_tokens` excludes tokens read from or written to the cache."""
    read, written = (as_count(usage.get(f"cache_{way}_input_tokens")) for way in ("read", "creation"))
    return make_usage(
        prompt=as_count(usage.get("input_tokens")) + read + written,
        cached=read,
        completion=as_count(usage.get("output_tokens")),
        reasoning=as_count(as_object(usage.get("output_tokens_details")).get("thinking_tokens")),
    )


# -- rounds ------------------------------------------------------------------------------------------------------------


class MessageAnswer(JoinedAnswer):
    """Joins Anthropic's messages."""

    def __init__(self) -> None:
        self._seen: list[JsonObject] = []  # blocks of earlier rounds
        self._next = 0  # the index of the next block for the client
        super().__init__()

    def _start(self) -> None:
        super()._start()
        self._blocks: dict[int, JsonObject] = {}
        self._inputs: dict[int, str] = {}
        self._indexes: dict[int, int] = {}
        self._usage_fields: JsonObject = {}

    def add(self, body: JsonObject) -> None:
        self._blocks = dict(enumerate(as_objects(body.get("content"))))
        self._usage_fields = as_object(body.get("usage"))

    def whole(self, body: JsonObject) -> JsonObject:
        if not self._round and not self._removed:
            return body
        own = [block for i, block in self._blocks.items() if i not in self._removed]
        return body | {
            "content": [*self._seen, *own],
            "stop_reason": self._stop_reason(body.get("stop_reason")),
            "usage": add_usage(self._usage, self._usage_fields),
        }

    @property
    def calls(self) -> list[ToolCall]:
        return [
            ToolCall(
                id=as_string(block.get("id")), name=as_string(block.get("name")), arguments=json_text(block["input"])
            )
            for block in self._content()
            if block.get("type") == "tool_use"
        ]

    def step(self, results: Mapping[str, str]) -> list[JsonObject]:
        """Return the messages to add to the request."""
        content = [block for block in self._content() if not _is_blank(block)]
        answers = [{"type": "tool_result", "tool_use_id": call.id, "content": results[call.id]} for call in self.calls]
        return [{"role": "assistant", "content": content}, {"role": "user", "content": answers}]

    def _remember(self) -> None:
        self._seen += [block for block in self._content() if block.get("type") != "tool_use"]

    def _own_usage(self) -> JsonObject:
        return self._usage_fields

    def _passes(self, data: JsonObject) -> bool:
        """Whether an event is not part of the message: a ping or an error."""
        return not as_string(data.get("type")).startswith(("message_", "content_block_"))

    def _begins_call(self, data: JsonObject) -> bool:
        is_start = data.get("type") == "content_block_start"
        return is_start and self._blocks[as_count(data.get("index"))].get("type") == "tool_use"

    def _is_end(self, data: JsonObject) -> bool:
        return data.get("type") == "message_delta"

    def _content(self) -> list[JsonObject]:
        return [
            block | {"input": arguments_object(self._inputs[i]) if i in self._inputs else as_object(block.get("input"))}
            if block.get("type") == "tool_use"
            else block
            for i, block in sorted(self._blocks.items())
        ]

    @property
    def _removed(self) -> set[int]:
        """The indices of calls that the proxy answers."""
        found = self._blocks.items()
        return {i for i, block in found if block.get("type") == "tool_use" and block.get("name") in self.answered}

    def _merge(self, data: JsonObject) -> None:
        index = as_count(data.get("index"))
        match data.get("type"):
            case "message_start":
                self._usage_fields = as_object(as_object(data.get("message")).get("usage"))
            case "message_delta":
                usage = as_object(data.get("usage")).items()
                self._usage_fields = self._usage_fields | {key: value for key, value in usage if value is not None}
            case "content_block_start":
                self._blocks[index] = dict(as_object(data.get("content_block")))
            case "content_block_delta":
                self._merge_delta(index, as_object(data.get("delta")))

    def _merge_delta(self, index: int, delta: JsonObject) -> None:
        block = self._blocks.setdefault(index, {"type": "text", "text": ""})
        match delta:
            case {"type": "input_json_delta", "partial_json": str(more)}:
                self._inputs[index] = self._inputs.get(index, "") + more
            case {"type": "citations_delta", "citation": citation}:
                block["citations"] = [*(block.get("citations") or ()), citation]
            case _:
                for key, value in delta.items():
                    if key != "type" and isinstance(value, str):
                        block[key] = as_string(block.get(key)) + value

    def _write(self, event: Event) -> bytes:
        """Return an event as the client sees it, with the index that its block has there."""
        data = as_object(event.data)
        match data:
            case {"type": "message_start"} if self._round:
                return b""
            case {"type": "message_delta"} if self._round or self._removed:
                delta = as_object(data.get("delta"))
                data = data | {
                    "delta": delta | {"stop_reason": self._stop_reason(delta.get("stop_reason"))},
                    "usage": add_usage(self._usage, self._usage_fields),
                }
            case {"index": int(index)}:
                if index in self._removed:
                    return b""
                if index not in self._indexes:
                    self._indexes[index] = self._next
                    self._next += 1
                data = data | {"index": self._indexes[index]}
        if data == event.data:
            return event.raw
        return b"event: " + as_string(data["type"]).encode() + b"\ndata: " + msgspec.json.encode(data) + b"\n\n"

    def _stop_reason(self, reason: Any) -> Any:
        calls = {i for i, block in self._blocks.items() if block.get("type") == "tool_use"}
        return "end_turn" if reason == "tool_use" and calls <= self._removed else reason


def _is_blank(block: JsonObject) -> bool:
    """Whether a block is a text that Anthropic would refuse."""
    return block.get("type") == "text" and not as_string(block.get("text")).strip()


# -- errors and models -------------------------------------------------------------------------------------------------

_ERROR_TYPES: Final[dict[ErrorKind, str]] = {
    "invalid_key": "authentication_error",
    "forbidden": "permission_error",
    "not_found": "not_found_error",
    "too_large": "request_too_large",
    "rate_limited": "rate_limit_error",
    "spending_limit": "billing_error",
    "too_many_failed_keys": "rate_limit_error",
    "upstream": "api_error",
    "timeout": "timeout_error",
    "shutting_down": "overloaded_error",
    "internal": "api_error",
}
"""All others are invalid requests."""
_MODELS_PER_PAGE: Final = 20  # by default
_MAX_MODELS_PER_PAGE: Final = 1_000


def _write_error(error: ErrorFacts) -> JsonObject:
    kind = _ERROR_TYPES.get(error.kind, "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": error.message}}


def get_page(rows: list[JsonObject], query: Mapping[str, str]) -> JsonObject:
    """Return a page of models.

    >>> get_page([{"id": "a"}, {"id": "b"}, {"id": "c"}], {"after_id": "a", "limit": "1"})
    {'data': [{'id': 'b'}], 'has_more': True, 'first_id': 'b', 'last_id': 'b'}
    """
    limit = query.get("limit", str(_MODELS_PER_PAGE))
    if not limit.isdecimal() or not 1 <= int(limit[:5]) <= _MAX_MODELS_PER_PAGE:
        raise InvalidValue("limit", f"must be from 1 to {_MAX_MODELS_PER_PAGE}, not {limit[:40]!r}")
    ids = [row.get("id") for row in rows]
    for cursor in ("after_id", "before_id"):
        if cursor in query and query[cursor] not in ids:
            raise InvalidValue(cursor, f"there is no model {query[cursor][:80]!r}")
    if "before_id" in query:
        rest = rows[: ids.index(query["before_id"])]
        page = rest[-int(limit) :]
    else:
        rest = rows[ids.index(query["after_id"]) + 1 :] if "after_id" in query else rows
        page = rest[: int(limit)]
    first, last = (page[0].get("id"), page[-1].get("id")) if page else (None, None)
    return {"data": page, "has_more": len(rest) > len(page), "first_id": first, "last_id": last}


# -- storing -----------------------------------------------------------------------------------------------------------

_STORED_BLOCKS: Final = ("text", "image", "tool_use")


def _is_stored_image(block: JsonObject) -> bool:
    match block:
        case {"type": "image", "source": {"type": "url", "url": str(data)} | {"type": "base64", "data": str(data)}}:
            return bool(data)
    return False


def _split_stored(message: JsonObject) -> tuple[JsonObject, list[Any]]:
    content = message.get("content")
    if not isinstance(content, list):
        return message, []
    stored = [block for block in content if _is_stored(block)]
    return message | {"content": stored}, [block for block in content if not _is_stored(block)]


def _is_stored(block: object) -> bool:
    return not isinstance(block, dict) or block.get("type") in _STORED_BLOCKS


def _get_calls(message: JsonObject) -> tuple[str, ...]:
    blocks = as_objects(message.get("content"))
    return tuple(str(block.get("id")) for block in blocks if block.get("type") == "tool_use")


def _restore(turn: JsonObject, steps: Sequence[ToolStep]) -> JsonObject:
    """Replace blocks within a turn, which may contain several messages."""
    blocks = turn["content"]
    for step in steps if isinstance(blocks, list) else ():
        stored = _split_stored(step.messages[0])[0]["content"]
        ends = ((i, i + len(stored)) for i in range(len(blocks)))
        position = next(((start, end) for start, end in ends if _is_same(blocks[start:end], stored)), None)
        if position is not None:
            start, end = position
            blocks = [*blocks[:start], *_with_our_mark(step.messages[0]["content"], blocks[start:end]), *blocks[end:]]
    return turn | {"content": blocks}


def _is_same(ours: Sequence[JsonObject], theirs: Sequence[JsonObject]) -> bool:
    return [_block_key(block) for block in ours] == [_block_key(block) for block in theirs]


def _with_our_mark(theirs: Sequence[JsonObject], ours: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the client's blocks with our cache breakpoint, if there is one at the end."""
    mark = {key: value for key, value in ours[-1].items() if key == "cache_control"}
    *before, last = [{key: value for key, value in block.items() if key != "cache_control"} for block in theirs]
    return [*before, last | mark]


def _block_key(block: JsonObject) -> tuple[object, ...]:
    if block.get("type") == "tool_use":
        return ("tool_use", block.get("id"))
    return (block.get("type"), str(block.get("text", "")).strip())


# -- for tests: written replies, and the rules of conversations --------------------------------------------------------


def _write_reply(reply: Reply) -> tuple[JsonObject, list[bytes]]:
    """Return a reply as one of Anthropic's messages, and as the events of one."""
    usage = reply.usage or Usage(prompt=10, completion=2)
    stop = {"stop_reason": "tool_use" if reply.calls else "end_turn", "stop_sequence": None}
    blocks: list[JsonObject] = [
        {"type": "text", "text": part.text}
        if isinstance(part, Text)
        else {"type": "tool_use", "id": part.id, "name": part.name, "input": msgspec.json.decode(part.arguments)}
        for part in reply.parts
    ]
    whole: JsonObject = {
        "id": reply.id or "msg_1",
        "type": "message",
        "role": "assistant",
        "model": reply.model or "scripted",
    }
    counts = {"input_tokens": usage.prompt - usage.cached, "output_tokens": usage.completion}
    counts |= {"cache_read_input_tokens": usage.cached} if usage.cached else {}
    start = whole | {"content": [], "stop_reason": None, "stop_sequence": None, "usage": counts | {"output_tokens": 1}}
    events: list[JsonObject] = [{"type": "message_start", "message": start}, {"type": "ping"}]
    for index, block in enumerate(blocks):
        is_text = block["type"] == "text"
        empty = {**block, "text": ""} if is_text else {**block, "input": {}}
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        pieces = split_words(block["text"]) if is_text else (msgspec.json.encode(block["input"]).decode(),)
        kind, field = ("text_delta", "text") if is_text else ("input_json_delta", "partial_json")
        deltas = ({"type": kind, field: piece} for piece in pieces)
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    events.append({"type": "message_delta", "delta": stop, "usage": {"output_tokens": usage.completion}})
    events.append({"type": "message_stop"})
    written = [b"event: %b\ndata: %b\n\n" % (each["type"].encode(), msgspec.json.encode(each)) for each in events]
    return whole | stop | {"content": blocks, "usage": counts}, written


def _find_broken(request: Request) -> Iterator[str]:
    turns: list[tuple[str, list[JsonObject]]] = []
    for message in request["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if turns and turns[-1][0] == message["role"]:  # the API joins them
            turns[-1][1].extend(blocks)
        else:
            turns.append((message["role"], [*blocks]))
    if not turns or turns[0][0] != "user":
        yield "turn 0: must be the user's"
    for index, (role, blocks) in enumerate(turns):
        if not all(block["text"].strip() for block in blocks if block["type"] == "text"):
            yield f"turn {index}: an empty text"
        before = turns[index - 1][1] if index else []
        after = turns[index + 1][1] if index + 1 < len(turns) else []
        yield from _find_broken_pairs(index, role, blocks, before, after)
    thinks = (request.get("thinking") or {}).get("type") == "enabled"
    calls = turns[-2][1] if len(turns) > 1 and any(map(_is_result, turns[-1][1])) else []
    if thinks and calls and calls[0]["type"] not in ("thinking", "redacted_thinking"):
        yield f"turn {len(turns) - 2}: must begin with what the model thought before the call"


def _find_broken_pairs(
    index: int, role: str, blocks: list[JsonObject], before: list[JsonObject], after: list[JsonObject]
) -> Iterator[str]:
    calls = {block["id"] for block in blocks if block["type"] == "tool_use"}
    missing = calls.difference(block.get("tool_use_id", "") for block in after)
    if missing:
        yield f"turn {index}: tool calls without their results: {', '.join(sorted(missing))}"
    own = {block["id"] for block in blocks if block["type"] in ("server_tool_use", "mcp_tool_use")}
    results = {block["tool_use_id"] for block in blocks if "tool_use_id" in block and not _is_result(block)}
    if own != results and (after or results - own):
        yield f"turn {index}: calls of the server's tools without their results, or results without calls"
    answers = [block["tool_use_id"] for block in blocks if _is_result(block)]
    called = {block["id"] for block in before if block["type"] == "tool_use"}
    if len(answers) != len(set(answers)) or not called.issuperset(answers) or (answers and role != "user"):
        yield f"turn {index}: results without their calls"
    if not all(map(_is_result, blocks[: len(answers)])):
        yield f"turn {index}: results must come first"


def _can_join(body: Request, _streams: bool) -> bool:  # noqa: FBT001 - as in a `Wire`
    return wants_text(body.get("output_format")) and wants_text(as_object(body.get("output_config")).get("format"))


def _is_result(block: JsonObject) -> bool:
    return bool(block["type"] == "tool_result")


def _lower_max_output(request: Request, tokens: int) -> Request:
    """Return a request that allows an answer of at most so many tokens, but always more than its thinking may have.

    >>> _lower_max_output({"max_tokens": 9_000, "thinking": {"type": "enabled", "budget_tokens": 6_000}}, 5_000)
    {'max_tokens': 6001, 'thinking': {'type': 'enabled', 'budget_tokens': 6000}}
    """
    thinking = as_count(as_object(request.get("thinking")).get("budget_tokens"))
    return lower_max_output(request, max(tokens, thinking + 1))


WIRE: Final = Wire(
    name="anthropic",
    provider="anthropic",
    write=write_request,
    read=read_request,
    find_violations=find_violations,
    accepts_media=accepts_media,
    max_breakpoints=_MAX_BREAKPOINTS,
    read_turn=_read_client_turn,
    takes_fields=True,
    own_blocks=frozenset(("tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document")),
    find_ties=lambda messages: tuple(_find_ties(messages)),
    find_pinned=lambda messages: tuple(_find_pinned(messages)),
    system_field=lambda _: "system",
    read_system=_read_system,
    read_tools=_read_tools,
    lower_max_output=_lower_max_output,
    user_first=True,
    reasoning=ReasoningRule(
        is_removable=True,
        why="only the blocks of the turn that is in progress must come back, unmodified",
        source="https://platform.claude.com/docs/en/build-with-claude/extended-thinking",
    ),
    find_reasoning=_find_reasoning,
    without_reasoning=without_reasoning,
    make_draft=_Draft,
    read_usage=parse_usage,
    usage_key="input_tokens",
    join_rounds=MessageAnswer,
    can_join=_can_join,
    headers={"anthropic-version": API_VERSION},
    key_header="x-api-key",
    get_path=lambda request, stream: "/v1/messages",  # noqa: ARG005 - called by position
    count_requests=_list_count_requests,
    models_path="/v1/models",
    models_query=f"limit={_MAX_MODELS_PER_PAGE}",
    write_models=get_page,
    paths=WirePaths(
        root="/v1",
        completions=("/v1/messages",),
        is_whole=True,
        prefixes=("/v1/messages",),
        header="anthropic-version",
        count="/v1/messages/count_tokens",
    ),
    write_error=_write_error,
    describe_overflow=lambda needed, limit, why: f"prompt is too long: {needed} tokens > {limit} maximum; {why}",
    error_frame=(b"\n\nevent: error\ndata: ", b"\n\n"),
    write_tool=_write_tool,
    map_functions=lambda fields, change: map_flat_functions(fields, change, (None, "custom")),
    no_calls={"tool_choice": {"type": "none"}},
    storage=BlockRules(
        roles=("user", "assistant", "system"),
        is_image=_is_stored_image,
        is_result=_is_client_result,
        split=_split_stored,
        get_calls=_get_calls,
        restore=_restore,
    ).make_storage(),
    write_reply=_write_reply,
    find_broken=_find_broken,
)
