"""Requests that a client wrote: read as they are, and written again with some of their messages.

These readers are more tolerant than the others. The request is the client's, and the provider decides whether it is
valid; here it only has to be counted, and what belongs together has to stay together.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal, get_args

import msgspec

from brimful.cache import content_bytes, memoize
from brimful.core.chat_rules import OPENING
from brimful.core.content import Media, Part, Role, Text, ToolCall, ToolResult
from brimful.core.frame import (
    SYSTEM_ID,
    Frame,
    LeftOut,
    fill_holes,
    message_index,
    message_order,
    part_text,
    replace_with_holes,
    with_low_detail,
    with_text_blocks,
)
from brimful.core.media import MediaLine
from brimful.core.prompt import Message, Prompt, Request, Tool
from brimful.core.selection import LEDGER_ID
from brimful.core.validation import (
    MAX_DEPTH,
    TOO_DEEP,
    clean_data,
    clean_text,
    is_too_deep,
    is_whole_number,
    preview,
)
from brimful.errors import InvalidRequest, InvalidValue
from brimful.wires import contents, ollama_messages
from brimful.wires.anthropic import MAX_BREAKPOINTS
from brimful.wires.contents import (
    find_reasoning_parts,
    instruction_field,
    pair_calls,
    read_content,
    read_declarations,
    read_instruction,
)
from brimful.wires.normalize import decode_data_url
from brimful.wires.parts import (
    AUDIO_TYPES,
    read_document,
    read_image,
    read_tool_definition,
    read_unknown,
    text_or_empty,
)
from brimful.wires.reasoning import ANTHROPIC_TYPES, REASONING_RULES, find_last_answer, without_reasoning
from brimful.wires.renderer import Renderer
from brimful.wires.responses import (
    find_pinned,
    find_reasoning,
    find_ties,
    find_unlinked_reasoning,
    read_instructions,
    read_item,
)
from brimful.wires.responses import read_tools as read_responses_tools
from brimful.wires.tools import json_text

IncomingWire = Literal["openai", "anthropic", "responses", "gemini", "ollama"]
INCOMING_WIRES: Final[tuple[IncomingWire, ...]] = get_args(IncomingWire)
MESSAGE_FIELDS: Final[dict[IncomingWire, str]] = {
    "openai": "messages",
    "anthropic": "messages",
    "responses": "input",
    "gemini": "contents",
    "ollama": "messages",
}
"""The field with the messages of a request."""

_MAX_CACHED_BYTES: Final = 16_384  # of a message; longer ones are not cached
_TURN_BYTES: Final = 1_200  # memory of a message besides its texts
_TURN_COPIES: Final = 3  # of a text in the cache: as JSON, as a string, and in a frame or a part
_SYSTEM_ROLES: Final = ("system", "developer")  # roles that are not of the conversation
_USER_ROLES: Final = (*_SYSTEM_ROLES, "user")
_OPENAI_ROLES: Final[dict[str, Role]] = {"developer": "system", "system": "system", "assistant": "assistant"}
_NAME_ID_PREFIX: Final = "function "  # starts the id of a call that has none
_REASONING_FIELDS: Final = ("reasoning_content", "reasoning", "thinking")
"""Where servers put a model's reasoning. Templates repeat it only until the next user message."""
_ANTHROPIC_ROLES: Final[dict[str, Role]] = {"assistant": "assistant", "system": "system"}
_MODEL_PREFIX: Final = "models/"  # of Gemini's models in a request
_TEXT_TYPES: Final[dict[IncomingWire, str]] = {"responses": "input_text", "gemini": ""}  # "text" elsewhere
_TOOL_FIELDS: Final[dict[IncomingWire, tuple[str, ...]]] = {
    "openai": ("tools", "functions"),
    "anthropic": ("tools",),
    "responses": ("tools",),
    "gemini": ("tools", "config"),
    "ollama": ("tools",),
}
_LIMIT_FIELDS: Final = ("max_completion_tokens", "max_tokens", "max_output_tokens")
_ROLE_AND_TEXT: Final = ("role", "content")
_OUR_FIELDS: Final = ("system", "messages")


class IncomingTurn(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A message of the request as one or two neutral messages, and its frame.

    Two are needed if a turn contains both tool results and the user's words. The frame is None for a role and a text.
    `reasoning` are the parts with the model's reasoning, by index.
    """

    messages: tuple[Message, ...]
    frame: Any
    reasoning: tuple[int, ...] = ()


class IncomingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed request: its separate system prompt, if any, its turns, its tools, and its messages as JSON (`raw`).

    A message that is a role and a text has an empty `raw`: its turn says all about it. `ties` are turns that belong
    together for other reasons than their tool calls, and `pinned` those that must stay, by index. `reasoning` are the
    parts of each turn that the provider does not need; it is empty if there are none.
    """

    model: str
    system: tuple[Message, ...]
    turns: tuple[IncomingTurn, ...]
    raw: tuple[bytes, ...]
    tools: tuple[Tool, ...]
    completion: int | None
    ties: tuple[tuple[int, ...], ...] = ()
    pinned: tuple[int, ...] = ()
    reasoning: tuple[tuple[int, ...], ...] = ()

    @property
    def prompt(self) -> Prompt:
        """The whole request, for counting."""
        messages = [message for turn in self.turns for message in turn.messages]
        return Prompt(
            model=self.model, messages=(*self.system, *messages), tools=self.tools, max_output=self.completion
        )


def provider_of(wire: IncomingWire) -> Literal["openai", "anthropic", "gemini", "ollama"]:
    """Return whose wire format it is, which is also the format of its models."""
    return "openai" if wire == "responses" else wire


def read_incoming(request: object, wire: IncomingWire) -> IncomingRequest:
    """Read a request. Only input that is not a request at all is refused.

    >>> message = {"role": "user", "content": "Hi", "mood": "good"}
    >>> read_incoming({"model": "m", "messages": [message]}, "openai").turns[0].messages[0].parts
    (Text(text='Hi'),)
    >>> read_incoming({"messages": "Hi"}, "openai")
    Traceback (most recent call last):
    ...
    brimful.errors.InvalidRequest: openai would refuse this request: messages: must be a list of messages, not 'Hi'
    """
    if wire not in INCOMING_WIRES:
        raise InvalidValue("wire", f"must be one of {', '.join(INCOMING_WIRES)}, not {preview(wire)}")
    field = MESSAGE_FIELDS[wire]
    if not isinstance(request, dict):
        raise InvalidRequest(provider_of(wire), [f"must be an object with a list of '{field}', not {preview(request)}"])
    model = request.get("model")
    if wire == "responses" and isinstance(request.get(field), str):
        return _read_text_input(request, wire)
    messages = _require_messages(request.get(field), wire)
    last_user = max((at for at, message in enumerate(messages) if message.get("role") == "user"), default=-1)
    turns: list[IncomingTurn] = []
    raw: list[bytes] = []
    for at, message in enumerate(messages):
        if _is_role_and_text(message):
            turn = _cached_text_turn(message["role"], message["content"], wire)
            if turn.frame is None:
                turns.append(turn)
                raw.append(b"")
                continue
        encoded = encode_json(message, wire, f"{field}[{at}]")
        turns.append(_cached_turn(encoded, wire, at > last_user))
        raw.append(encoded)
    if wire in _PAIRED_BY_NAME:
        paired = pair_calls([turn.messages for turn in turns])
        turns = [msgspec.structs.replace(turn, messages=each) for each, turn in zip(paired, turns, strict=True)]
    ties, pinned = _find_ties(messages, wire)
    return IncomingRequest(
        model=clean_text(model).removeprefix(_MODEL_PREFIX) if isinstance(model, str) else "",
        system=_read_system_prompt(request, wire),
        turns=tuple(turns),
        raw=tuple(raw),
        tools=read_tools(request, wire),
        completion=requested_max_output(request, wire),
        ties=ties,
        pinned=pinned,
        reasoning=_find_removable_reasoning(messages, turns, wire),
    )


def _find_removable_reasoning(
    messages: list[dict[str, Any]], turns: Sequence[IncomingTurn], wire: IncomingWire
) -> tuple[tuple[int, ...], ...]:
    """Return the parts of each turn with reasoning that the provider does not need."""
    if not REASONING_RULES[wire].is_removable or not any(turn.reasoning for turn in turns):
        return ()
    end = find_last_answer([turn.messages for turn in turns])
    removable = set(find_unlinked_reasoning(messages[:end]) if wire == "responses" else range(end))
    return tuple(turn.reasoning if at in removable else () for at, turn in enumerate(turns))


def _find_ties(
    messages: list[dict[str, Any]], wire: IncomingWire
) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
    """Return which messages belong together, and which must stay."""
    match wire:
        case "anthropic":
            return tuple(_find_server_ties(messages)), tuple(_find_compaction(messages))
        case "responses":
            return find_ties(messages), find_pinned(messages)
        case _:
            return (), ()


def _read_text_input(request: Request, wire: IncomingWire) -> IncomingRequest:
    """Read a request whose only message is a string."""
    raw = encode_json(request[MESSAGE_FIELDS[wire]], wire, MESSAGE_FIELDS[wire])
    text: str = msgspec.json.decode(raw)
    message = Message(role="user", parts=(Text(text=text),))
    model = request.get("model")
    return IncomingRequest(
        model=clean_text(model) if isinstance(model, str) else "",
        system=_read_system_prompt(request, wire),
        turns=(IncomingTurn(messages=(message,), frame=replace_with_holes(text, [text])),),
        raw=(raw,),
        tools=read_tools(request, wire),
        completion=requested_max_output(request, wire),
    )


def has_tools(request: IncomingRequest) -> bool:
    """Whether the request defines tools, or has calls of some, as those of agents do."""
    return bool(request.tools) or any(
        isinstance(part, ToolCall) for turn in request.turns for message in turn.messages for part in message.parts
    )


def _require_messages(messages: object, wire: IncomingWire) -> list[dict[str, Any]]:
    field, provider = MESSAGE_FIELDS[wire], provider_of(wire)
    if not isinstance(messages, list):
        kinds = "a string or a list of items" if wire == "responses" else "a list of messages"
        raise InvalidRequest(provider, [f"{field}: must be {kinds}, not {preview(messages)}"])
    if not messages:
        raise InvalidRequest(provider, [f"{field}: must not be empty"])
    for at, message in enumerate(messages):
        if not isinstance(message, dict):
            raise InvalidRequest(provider, [f"{field}[{at}]: must be an object, not {preview(message)}"])
        if wire not in ("responses", "gemini") and not isinstance(message.get("role"), str):
            reason = f"must be a string, not {preview(message.get('role'))}"
            raise InvalidRequest(provider, [f"{field}[{at}].role: {reason}"])
    return messages


def _is_role_and_text(message: dict[str, Any]) -> bool:
    """Whether a message has just these two fields, in this order, as most messages do."""
    return len(message) == len(_ROLE_AND_TEXT) and (*message,) == _ROLE_AND_TEXT and type(message["content"]) is str


def read_message(message: dict[str, Any], wire: IncomingWire) -> tuple[Message, ...]:
    """Read one message as one or two neutral messages."""
    return _TURN_READERS[wire](message, current=True)


def _cached_turn(raw: bytes, wire: IncomingWire, current: bool) -> IncomingTurn:  # noqa: FBT001 - part of the cache key
    """Read a message, cached: clients resend the whole conversation with every turn."""
    return (_read_cached_turn if len(raw) <= _MAX_CACHED_BYTES else _read_turn)(raw, wire, current)


def _cached_text_turn(role: str, text: str, wire: IncomingWire) -> IncomingTurn:
    """Read a message that is a role and a text, cached without encoding it."""
    return (_read_cached_text_turn if len(text) <= _MAX_CACHED_BYTES else _read_text_turn)(role, text, wire)


def _read_turn(raw: bytes, wire: IncomingWire, current: bool) -> IncomingTurn:  # noqa: FBT001
    return _make_turn(msgspec.json.decode(raw), wire, current=current)


def _read_text_turn(role: str, text: str, wire: IncomingWire) -> IncomingTurn:
    return _make_turn({"role": role, "content": text}, wire, current=True)


def _make_turn(message: dict[str, Any], wire: IncomingWire, *, current: bool) -> IncomingTurn:
    messages = _TURN_READERS[wire](message, current=current)
    frame = _make_message_frame(message, messages)
    if messages[0].role != "assistant" or wire not in _REASONING_FINDERS:
        return IncomingTurn(messages=messages, frame=frame)
    return IncomingTurn(messages=messages, frame=frame, reasoning=_REASONING_FINDERS[wire](message))


def _turn_bytes(raw: bytes) -> int:
    return _TURN_BYTES + _TURN_COPIES * len(raw)


_read_cached_turn: Final = memoize(_read_turn, name="turns", size=lambda args, _: _turn_bytes(args[0]))
_read_cached_text_turn: Final = memoize(
    _read_text_turn, name="turns", size=lambda args, _: _TURN_BYTES + content_bytes(args[1])
)


def _make_message_frame(message: dict[str, Any], messages: tuple[Message, ...]) -> Any:
    match message, messages[0].parts:
        case {"role": role, "content": str(text)}, (Text(text=read),) if (*message,) == _ROLE_AND_TEXT:
            if role == messages[0].role and text == read:
                return None
    return replace_with_holes(message, [part_text(part) for each in messages for part in each.parts])


def _read_system_prompt(request: Request, wire: IncomingWire) -> tuple[Message, ...]:
    field = system_field(request, wire)
    if not field or not request.get(field):
        return ()
    return _cached_system(encode_json(request[field], wire, field), wire)


def system_field(request: Request, wire: IncomingWire) -> str:
    """Return the field with a system prompt that is not a message, or an empty string."""
    if wire == "gemini":
        return instruction_field(request)
    return {"anthropic": SYSTEM_ID, "responses": "instructions"}.get(wire, "")


def read_tools(request: Request, wire: IncomingWire) -> tuple[Tool, ...]:
    """Return the tools of a request, whatever their form."""
    offered = {key: request[key] for key in _TOOL_FIELDS[wire] if request.get(key)}
    return _cached_tools(encode_json(offered, wire, "tools"), wire) if offered else ()


def _decode_system(raw: bytes, wire: IncomingWire) -> tuple[Message, ...]:
    readers = {"gemini": read_instruction, "responses": read_instructions}
    return readers.get(wire, _read_anthropic_system)(msgspec.json.decode(raw))


def _decode_tools(raw: bytes, wire: IncomingWire) -> tuple[Tool, ...]:
    return tuple(_TOOL_READERS[wire](msgspec.json.decode(raw)))


_cached_system: Final = memoize(_decode_system, name="turns", size=lambda args, _: _turn_bytes(args[0]))
_cached_tools: Final = memoize(_decode_tools, name="turns", size=lambda args, _: _turn_bytes(args[0]))


def encode_json(value: object, wire: IncomingWire, field: str) -> bytes:
    """Encode a value as JSON. Lone surrogates, which no provider accepts, are replaced."""
    try:
        try:
            raw = msgspec.json.encode(value, enc_hook=dump_model)
        except UnicodeEncodeError:
            raw = msgspec.json.encode(clean_data(value), enc_hook=lambda each: clean_data(dump_model(each)))
        is_flat = raw.find(b"{", 1) < 0 and raw.find(b"[", 1) < 0  # as most messages are
        may_be_deep = not is_flat and raw.count(b"[") + raw.count(b"{") > MAX_DEPTH
        too_deep = may_be_deep and is_too_deep(msgspec.json.decode(raw))
    except RecursionError:
        too_deep = True
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidRequest(provider_of(wire), [f"{field}: must be plain JSON data ({error})"]) from None
    if too_deep:
        raise InvalidRequest(provider_of(wire), [f"{field}: {TOO_DEEP}"])
    return raw


def dump_model(value: Any) -> Any:
    """Return an object of an SDK (a pydantic model) as plain data, without what the API does not take back."""
    if isinstance(value, type) or not callable(getattr(value, "model_dump", None)):
        raise TypeError(f"{type(value).__name__} is not JSON data")
    if getattr(value, "type", None) == "message" and hasattr(value, "stop_reason"):  # Anthropic's, with usage and model
        return {"role": value.role, "content": value.content}
    data = value.model_dump(exclude_none=True, exclude=getattr(value, "__api_exclude__", None))
    return (
        {**data, "tool_calls": list(map(_sendable_call, data["tool_calls"]))}
        if "tool_calls" in data
        else _sendable_call(data)
    )


def _sendable_call(call: Any) -> Any:
    """Return a tool call of OpenAI's SDK without what only streams and parsed answers have."""
    match call:
        case {"id": _, "function": {"name": _, **function}}:
            own = {"name": call["function"]["name"]} | {
                key: item for key, item in function.items() if key != "parsed_arguments"
            }
            return {key: own if key == "function" else item for key, item in call.items() if key != "index"}
        case _:
            return call


def requested_max_output(request: Request, wire: IncomingWire) -> int | None:
    """Return the request's output limit, if it is a valid number."""
    if wire in _MAX_OUTPUTS:
        return _MAX_OUTPUTS[wire][0](request)
    return next((int(request[field]) for field in _LIMIT_FIELDS if is_whole_number(request.get(field))), None)


def requested_window(request: Request, wire: IncomingWire) -> int | None:
    """Return the window that a request asks its server for, if it does."""
    return _WINDOWS[wire][0](request) if wire in _WINDOWS else None


def with_window(request: Request, tokens: int, wire: IncomingWire) -> Request:
    """Return a request that asks its server for a window, if the format can, unless it asks for one itself."""
    return _WINDOWS[wire][1](request, tokens) if wire in _WINDOWS else request


def with_max_output(request: Request, tokens: int, wire: IncomingWire, provider: str) -> Request:
    """Return a request with an output limit, unless it has one of its own.

    OpenAI's reasoning models accept only `max_completion_tokens`. Other servers may not know it.

    >>> with_max_output({"model": "o3"}, 100, "openai", "openai")
    {'model': 'o3', 'max_completion_tokens': 100}
    """
    if wire in _MAX_OUTPUTS:
        return _MAX_OUTPUTS[wire][1](request, tokens)
    if any(request.get(field) is not None for field in _LIMIT_FIELDS):
        return request
    at = 2 if wire == "responses" else 0 if wire == provider == "openai" else 1
    return {**request, _LIMIT_FIELDS[at]: tokens}


# -- reading OpenAI's messages -----------------------------------------------------------------------------------------


def _read_openai_turn(message: dict[str, Any], *, current: bool) -> tuple[Message, ...]:
    """Read a message. `current` means that no user message follows it."""
    if (id := _answered_call_id(message)) is not None:
        return (_openai_result(message, id),)
    thoughts = (
        [Text(text=text_or_empty(message[key])) for key in _REASONING_FIELDS if message.get(key)] if current else []
    )
    parts = (*thoughts, *_openai_parts(message.get("content")), *read_unknown(message.get("refusal")))
    calls = (*_openai_calls(message.get("tool_calls")), *_function_call(message.get("function_call")))
    role = _OPENAI_ROLES.get(message["role"], "user")
    return (Message(role=role, name=text_or_empty(message.get("name")), parts=(*parts, *calls)),)


def _read_openai_tools(offered: dict[str, Any]) -> Iterator[Tool]:
    """Read the tools, including the older `functions`. Unknown kinds of tools are counted as JSON."""
    for tools in offered.values():
        yield from (read_tool_definition(tool, "parameters") for tool in _openai_functions(tools))


def _openai_functions(tools: object) -> Iterator[dict[str, Any]]:
    for tool in tools if isinstance(tools, list) else ():
        match tool:
            case {"function": dict(function)} | dict(function):
                yield function


def _answered_call_id(message: dict[str, Any]) -> str | None:
    """Return the id of the call that a message answers. Calls of the older kind have no id and are matched by name."""
    match message:
        case {"role": "tool", "tool_call_id": str(id)}:
            return clean_text(id)
        case {"role": "function", "name": str(name)}:
            return _NAME_ID_PREFIX + clean_text(name)
        case _:
            return None


def _openai_result(message: dict[str, Any], id: str) -> Message:
    parts = list(_openai_parts(message.get("content")))
    text = "".join(part.text for part in parts if isinstance(part, Text))
    media = (part for part in parts if isinstance(part, Media))
    return Message(
        role="tool", parts=(ToolResult(id=id, content=text, name=text_or_empty(message.get("name"))), *media)
    )


def _openai_parts(content: object) -> Iterator[Part]:
    if isinstance(content, str):
        yield Text(text=clean_text(content))
        return
    for block in content if isinstance(content, list) else read_unknown(content):
        if isinstance(block, dict):
            yield from _openai_block(block)
        else:
            yield from read_unknown(block)


def _openai_block(block: dict[str, Any]) -> Iterator[Part]:
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


def _openai_calls(calls: object) -> Iterator[Part]:
    for call in calls if isinstance(calls, list) else ():
        match call:
            case {"id": str(id), "function": {"name": str(name), "arguments": arguments}}:
                written = text_or_empty(arguments) if isinstance(arguments, str) else json_text(arguments)
                yield ToolCall(id=clean_text(id), name=clean_text(name), arguments=written)
            case _:
                yield from read_unknown(call)


def _function_call(call: object) -> Iterator[Part]:
    match call:
        case {"name": str(name), "arguments": str(arguments)}:
            yield ToolCall(
                id=_NAME_ID_PREFIX + clean_text(name), name=clean_text(name), arguments=clean_text(arguments)
            )


# -- reading Anthropic's messages --------------------------------------------------------------------------------------


def _read_anthropic_system(system: object) -> tuple[Message, ...]:
    """Read the separate system prompt."""
    blocks = _anthropic_blocks(system)
    parts = tuple(part for block in blocks for part in _anthropic_block(block))
    return (Message(role="system", parts=parts, cache=_has_cache_mark(blocks)),)


def _read_anthropic_turn(message: dict[str, Any], *, current: bool) -> tuple[Message, ...]:
    """Read a turn: tool results first, then everything else."""
    del current
    blocks = _anthropic_blocks(message.get("content"))
    answers = [block for block in blocks if _is_anthropic_result(block)]
    rest = tuple([part for block in blocks if not _is_anthropic_result(block) for part in _anthropic_block(block)])
    turn = Message(role=_ANTHROPIC_ROLES.get(message["role"], "user"), parts=rest, cache=_has_cache_mark(blocks))
    if not answers:
        return (turn,)
    parts = tuple([part for block in answers for part in _anthropic_result(block)])
    results = Message(role="tool", parts=parts, cache=_has_cache_mark(answers))
    return (results, turn) if rest else (results,)


def _find_anthropic_reasoning(message: dict[str, Any]) -> tuple[int, ...]:
    """Return the indices of parts with reasoning; none if a message has nothing else."""
    blocks = _anthropic_blocks(message.get("content"))
    kinds = [block.get("type") in ANTHROPIC_TYPES for block in blocks for _ in _anthropic_block(block)]
    return () if all(kinds) else tuple(at for at, is_reasoning in enumerate(kinds) if is_reasoning)


def _find_server_ties(messages: Sequence[dict[str, Any]]) -> Iterator[tuple[int, int]]:
    """Yield calls of the provider's own tools whose result is in a later turn, as after a pause."""
    called: dict[str, int] = {}
    for at, message in enumerate(messages):
        for block in _blocks_of(message):
            match block:
                case {"type": "server_tool_use" | "mcp_tool_use", "id": str(id)}:
                    called[id] = at
                case {"tool_use_id": str(id)} if called.get(id, at) != at:
                    yield called[id], at


def _find_compaction(messages: Sequence[dict[str, Any]]) -> Iterator[int]:
    """Yield the index of the last summary by the provider, which ignores all that comes before it."""
    for at in reversed(range(len(messages))):
        for block in _blocks_of(messages[at]):
            match block:
                case {"type": "compaction", "content": str()}:
                    yield at
                    return


def _blocks_of(message: dict[str, Any]) -> Sequence[object]:
    blocks = message.get("content")
    return [_plain_block(block) for block in blocks] if isinstance(blocks, list) else ()


def _plain_block(block: Any) -> object:
    return block if isinstance(block, dict) or not hasattr(block, "model_dump") else dump_model(block)


def _read_anthropic_tools(offered: dict[str, Any]) -> Iterator[Tool]:
    """Read the tools. Those that the provider runs itself are counted as JSON."""
    return (read_tool_definition(tool, "input_schema") for tool in _anthropic_blocks(offered.get("tools")))


def _has_cache_mark(blocks: list[dict[str, Any]]) -> bool:
    """Whether the client set a cache breakpoint."""
    return any(block.get("cache_control") is not None for block in blocks)


def _anthropic_blocks(content: object) -> list[dict[str, Any]]:
    if isinstance(content, list):
        return [block if isinstance(block, dict) else {"type": "text", "text": block} for block in content]
    return [] if content is None else [{"type": "text", "text": content}]


def _anthropic_block(block: dict[str, Any]) -> Iterator[Part]:
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


def _is_anthropic_result(block: dict[str, Any]) -> bool:
    return block.get("type") == "tool_result" and isinstance(block.get("tool_use_id"), str)


def _anthropic_result(block: dict[str, Any]) -> Iterator[Part]:
    """Yield a tool result and the images in it."""
    inner = [part for each in _anthropic_blocks(block.get("content")) for part in _anthropic_block(each)]
    text = "".join(part.text for part in inner if isinstance(part, Text))
    yield ToolResult(id=clean_text(block["tool_use_id"]), content=text, is_error=block.get("is_error") is True)
    yield from (part for part in inner if isinstance(part, Media))


_TURN_READERS: Final[dict[IncomingWire, Callable[..., tuple[Message, ...]]]] = {
    "openai": _read_openai_turn,
    "anthropic": _read_anthropic_turn,
    "responses": read_item,
    "gemini": read_content,
    "ollama": ollama_messages.read_chat_message,
}
_REASONING_FINDERS: Final[dict[IncomingWire, Callable[[dict[str, Any]], tuple[int, ...]]]] = {
    "anthropic": _find_anthropic_reasoning,
    "responses": find_reasoning,
    "gemini": find_reasoning_parts,
}
_PAIRED_BY_NAME: Final = ("gemini", "ollama")  # formats in which tool results may name the function only
_NumberField = tuple[Callable[[Request], int | None], Callable[[Request, int], Request]]
_WINDOWS: Final[dict[IncomingWire, _NumberField]] = {
    "ollama": (ollama_messages.read_window, ollama_messages.write_window),
}
"""How the window is read and written, in formats in which the request asks for one."""
_MAX_OUTPUTS: Final[dict[IncomingWire, _NumberField]] = {
    "gemini": (contents.read_max_output, contents.write_max_output),
    "ollama": (ollama_messages.read_max_output, ollama_messages.write_max_output),
}
"""How an output limit that is not a field of the request is read and written."""
_REPAIRS: Final[dict[IncomingWire, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "gemini": contents.without_response_texts,
    "ollama": ollama_messages.with_image_texts,
}
"""What is done to a message in which a text stands for media, where the format has no room for that text."""
_TOOL_READERS: Final[dict[IncomingWire, Callable[[dict[str, Any]], Iterator[Tool]]]] = {
    "openai": _read_openai_tools,
    "anthropic": _read_anthropic_tools,
    "responses": read_responses_tools,
    "gemini": read_declarations,
    "ollama": _read_openai_tools,
}


# -- writing -----------------------------------------------------------------------------------------------------------


def make_frame(request: Request, parsed: IncomingRequest, wire: IncomingWire, *, user_first: bool) -> Frame:
    """Return the request without the content that was read from it."""
    system = [part_text(part) for message in parsed.system for part in message.parts]
    rest = {key: None if key == MESSAGE_FIELDS[wire] else value for key, value in request.items()}
    fields = msgspec.json.decode(encode_json(rest, wire, "request"))
    if system:
        field = system_field(fields, wire)
        fields[field] = replace_with_holes(fields[field], system)
    return Frame(wire=wire, fields=fields, messages=tuple([turn.frame for turn in parsed.turns]), user_first=user_first)


class IncomingRenderer(msgspec.Struct, frozen=True):
    """Writes a client's request with the messages of a prompt, and reads it back.

    `raw` are the messages of the request as JSON, if they are available. Those that were not shortened are sent as they
    came.
    """

    frame: Frame
    raw: Sequence[bytes] = ()

    @property
    def names_in_text(self) -> bool:
        """Names stay where the client put them."""
        return False

    def media_placeholder(self, media: Media, role: Role) -> Text | None:
        """Return None: the provider decides whether it accepts the media."""
        del media, role
        return None

    def render(self, prompt: Prompt, *, window: int) -> Request:
        """Write the request with the messages of the prompt. Everything else is unchanged."""
        del window
        parts = _parts_by_position(prompt.messages)
        system = [part_text(part) for _, part in parts.pop(-1, ())]
        messages = list(self._messages(parts))
        fields, wire = self.frame.fields, self.frame.wire
        field, own = MESSAGE_FIELDS[wire], system_field(fields, wire)
        return {
            key: _as_sent(messages) if key == field else fill_holes(value, system) if own and key == own else value
            for key, value in fields.items()
        }

    def parse(self, request: Request) -> Prompt:
        """Read it back for counting."""
        prompt = read_incoming(request, self.frame.wire).prompt
        return msgspec.structs.replace(prompt, body=request) if self.frame.wire == "openai" else prompt

    def _message(self, position: int, parts: Sequence[tuple[Role, Part]]) -> dict[str, Any]:
        frame, texts = self.frame.messages[position], [part_text(part) for _, part in parts]
        if frame is None:
            return _text_message(parts[0][0], texts[0], self.frame.wire)
        if lines := {at for at, (_, part) in enumerate(parts) if isinstance(part, MediaLine)}:
            frame = with_text_blocks(frame, lines, _TEXT_TYPES.get(self.frame.wire, "text"))
        if low := {at for at, (_, part) in enumerate(parts) if isinstance(part, Media) and part.detail == "low"}:
            frame = with_low_detail(frame, low)
        message: dict[str, Any] = fill_holes(frame, texts)
        if self.frame.wire in _REPAIRS:
            message = _REPAIRS[self.frame.wire](message)
        if any(isinstance(part, LeftOut) for _, part in parts):
            message = without_reasoning(message)
        if self.raw:
            original: dict[str, Any] = msgspec.json.decode(self.raw[position])
            return original if original == message else message
        return message

    def _messages(self, parts: dict[float, list[tuple[Role, Part]]]) -> Iterator[Any]:
        """Yield the messages. Where turns are left out, the user speaks before the assistant does if that must be."""
        before = "assistant"
        for position in sorted(parts):
            own = parts[position]
            if own and all(isinstance(part, LeftOut) for _, part in own):
                continue
            is_ours = not position.is_integer()
            message = (
                _text_message("user", part_text(own[0][1]), self.frame.wire)
                if is_ours
                else self._message(int(position), own)
            )
            role = _role_of(message, self.frame.wire)
            follows_gap = position > 0 and position - 1 not in parts
            if self.frame.user_first and follows_gap and before == "assistant" and role not in _USER_ROLES:
                yield _text_message("user", OPENING, self.frame.wire)
            before = before if role in _SYSTEM_ROLES else role
            yield message


def _text_message(role: str, text: str, wire: IncomingWire) -> dict[str, Any]:
    """Return a message that is just a role and a text."""
    if wire == "gemini":
        return {"role": "model" if role == "assistant" else "user", "parts": [{"text": text}]}
    return {"role": role, "content": text}


def _role_of(message: Any, wire: IncomingWire) -> str:
    if not isinstance(message, dict):
        return "user"
    role = str(message.get("role", "assistant" if wire == "responses" else "user"))
    return "assistant" if role == "model" else role


def _as_sent(messages: list[Any]) -> Any:
    """Return the messages, or the only one if it was a string."""
    return messages[0] if messages and isinstance(messages[0], str) else messages


def _parts_by_position(messages: Sequence[Message]) -> dict[float, list[tuple[Role, Part]]]:
    """Return the parts by the position of their message. A ledger comes half a position after the message before it."""
    parts: dict[float, list[tuple[Role, Part]]] = {}
    rows = [(source, message) for message in messages for source in message.sources]
    for at, (source, message) in enumerate(rows):
        if source == LEDGER_ID:
            position = message_index(rows[at - 1][0]) if at else -1
            parts[position + 0.5] = [(message.role, part) for part in message.parts]
    own = [row for row in rows if row[0] != LEDGER_ID]
    for source, message in sorted(own, key=lambda row: message_order(row[0])):
        parts.setdefault(float(message_index(source)), []).extend([(message.role, part) for part in message.parts])
    return parts


class ClientFieldsRenderer(msgspec.Struct, frozen=True):
    """Writes the messages of a prompt in a wire format, and all other fields as the client sent them.

    A client's whole request has a model. Fields without one are added to ours, and override them.

    The client's tools are counted in any form; the provider decides whether they are valid.
    """

    wire: Renderer
    frame: Frame

    @property
    def names_in_text(self) -> bool:
        """Whether names are written into the text, as in the wire format."""
        return self.wire.names_in_text

    def media_placeholder(self, media: Media, role: Role) -> Text | None:
        """Return the text that replaces media, as in the wire format."""
        return self.wire.media_placeholder(media, role)

    def render(self, prompt: Prompt, *, window: int) -> Request:
        """Write the request."""
        written = self.wire.render(
            _limit_breakpoints(prompt, MAX_BREAKPOINTS - _breakpoints(self.frame.fields)), window=window
        )
        theirs = {key: value for key, value in self.frame.fields.items() if key not in _OUR_FIELDS}
        if "model" not in theirs:
            limited = any(theirs.get(field) is not None for field in _LIMIT_FIELDS)
            ours = {key: value for key, value in written.items() if not (limited and key in _LIMIT_FIELDS)}
            return ours | theirs
        return theirs | {key: written[key] for key in _OUR_FIELDS if key in written}

    def parse(self, request: Request) -> Prompt:
        """Read the request back: messages by the rules of the wire format, tools in any form."""
        ours = {key: value for key, value in request.items() if key in _OUR_FIELDS}
        prompt = self.wire.parse({"model": "(any)", "max_tokens": 1} | ours)
        model = request.get("model")
        return msgspec.structs.replace(
            prompt,
            model=model if isinstance(model, str) else "",
            tools=read_tools(request, self.frame.wire),
            max_output=requested_max_output(request, self.frame.wire),
            body=request if self.wire.wire == "openai" else None,
        )


def _breakpoints(fields: dict[str, Any]) -> int:
    """Count the client's cache breakpoints, on tools or on the whole request."""
    tools = fields.get("tools")
    marked = [fields, *(tools if isinstance(tools, list) else ())]
    return sum(isinstance(each, dict) and each.get("cache_control") is not None for each in marked)


def _limit_breakpoints(prompt: Prompt, left: int) -> Prompt:
    """Return a prompt with at most `left` breakpoints: the first, which is the most stable, and the latest ones."""
    marked = [at for at, message in enumerate(prompt.messages) if message.cache]
    if len(marked) <= left:
        return prompt
    selected = {*marked[: min(1, max(0, left))], *marked[len(marked) - max(0, left - 1) :]}
    messages = tuple(_with_cache_mark(message, at in selected) for at, message in enumerate(prompt.messages))
    return msgspec.structs.replace(prompt, messages=messages)


def _with_cache_mark(message: Message, cache: bool) -> Message:  # noqa: FBT001 - the new value
    return message if message.cache == cache else msgspec.structs.replace(message, cache=cache)
