"""OpenAI's Responses API: its items as neutral messages, and which of them belong together.

An item is a message, a call of a tool, the output of one, or something that only the provider reads, such as encrypted
reasoning. Items of an unknown type are passed on as they are.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import msgspec

from brimful.core.chat_rules import OPENING
from brimful.core.content import OPAQUE_TYPE, Media, Part, Role, Text, ToolCall, ToolResult
from brimful.core.prompt import Message, Prompt, Request, Tool
from brimful.core.validation import clean_text, preview
from brimful.records import Usage
from brimful.records.reply import FinishReason, Reply, ReplyChunk
from brimful.wires.event_stream import Event
from brimful.wires.normalize import data_url, is_tool_name, normalize_messages, split_system, with_name_in_text
from brimful.wires.openai_chat import DETAILS, write_error
from brimful.wires.parts import (
    AUDIO_TYPES,
    name_results,
    read_document,
    read_image,
    read_string,
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
    make_usage,
    split_words,
    wants_text,
)
from brimful.wires.rounds import JoinedAnswer, add_usage
from brimful.wires.rules import CallPairing, Object, Report, check_tools, describe_value, finds_violations
from brimful.wires.storage import NOT_STORED, Problem, Storage, ToolStep, has_content
from brimful.wires.tools import arguments_text, json_text, map_flat_functions, object_schema
from brimful.wires.wire import CountRequest, ReasoningRule, Wire, WirePaths, has_limit, has_role_and_content

Item = dict[str, Any]

STATE_FIELDS: Final = ("previous_response_id", "conversation", "prompt")
"""Fields that add to a request what only the provider has."""
_ROLES: Final[dict[str, Role]] = {"assistant": "assistant", "system": "system", "developer": "system"}
_SETTINGS: Final = frozenset(("additional_tools", "configuration_update", "compaction_trigger"))
"""Items that change how later ones are processed."""
_REFERENCES: Final = ("call_id", "approval_request_id")  # fields with the id of another item
_ANSWERS: Final = ("_output", "_response")  # endings of the types of items that the client adds
_LOCAL_SHELL_OUTPUT: Final = "local_shell_call_output"  # which has the id of its call as `id`
_NOT_CONTENT: Final = frozenset(("type", "id", "status", "call_id", "caller", "detail", "container_id", "annotations"))
_TOOL_LISTS: Final = ("mcp_list_tools", "additional_tools")
_TEXTS: Final = ("input_text", "output_text", "text")  # types of a block with a text
_CALL_TEXTS: Final = {"function_call": "arguments", "custom_tool_call": "input"}  # where the arguments are
_PLAIN_ITEMS: Final = ("function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output")
"""Items that hold all of their content: the provider may have stored reasoning, and has all referenced items."""
_OTHER_CALLS: Final = frozenset(
    ("computer_call", "local_shell_call", "shell_call", "apply_patch_call", "mcp_approval_request")
)
"""Items that only the client can answer."""
_WRITTEN_ITEMS: Final = ("message", "function_call", "function_call_output")
_PLAIN_OUTPUTS: Final = ("function_call_output", "custom_tool_call_output")  # a text or a list of blocks


def find_state_field(request: Request) -> str | None:
    """Return the field of a request that adds what only the provider has.

    >>> find_state_field({"input": "And then?", "previous_response_id": "resp_1"})
    'previous_response_id'
    """
    return next((field for field in STATE_FIELDS if request.get(field) is not None), None)


# -- writing -----------------------------------------------------------------------------------------------------------


def write_request(prompt: Prompt) -> Request:
    """Write the request. The system prompt is in `instructions`, and the calls of an answer follow its text.

    >>> message = Message(role="user", name="Ada", parts=(Text(text="Hi"),))
    >>> write_request(Prompt(model="gpt-4o", messages=(message,), max_output=99))
    {'model': 'gpt-4o', 'max_output_tokens': 99, 'input': [{'role': 'user', 'content': 'Ada: Hi'}]}
    """
    messages = [with_name_in_text(message) for message in normalize_messages(prompt.messages, accepts_media)]
    first, rest = split_system(messages)
    request: Request = {"model": prompt.model}
    if prompt.max_output is not None:
        request["max_output_tokens"] = prompt.max_output
    if prompt.tools:
        request["tools"] = [_write_tool(tool) for tool in prompt.tools]
    if first:
        texts = (part.text for message in first for part in message.parts if isinstance(part, Text))
        request["instructions"] = "\n\n".join(texts)
    items = [item for message in rest for item in _write_items(message)]
    request["input"] = items or [{"role": "user", "content": OPENING}]
    return request


def accepts_media(media: Media) -> bool:
    """Whether the API accepts these media."""
    return media.modality == "image" and (bool(media.data) or media.url.startswith(("https://", "http://")))


def _write_items(message: Message) -> Iterator[Item]:
    blocks = [part for part in message.parts if isinstance(part, Text | Media)]
    if blocks and message.role != "tool":
        plain = isinstance(blocks[0], Text) and len(blocks) == 1
        content = blocks[0].text if isinstance(blocks[0], Text) and plain else [_write_block(part) for part in blocks]
        yield {"role": message.role, "content": content}
    for part in message.parts:
        if isinstance(part, ToolCall):
            arguments = arguments_text(part.arguments)
            yield {"type": "function_call", "call_id": part.id, "name": part.name, "arguments": arguments}
        elif isinstance(part, ToolResult):
            yield {"type": "function_call_output", "call_id": part.id, "output": part.content}


def _write_block(part: Text | Media) -> Item:
    if isinstance(part, Text):
        return {"type": "input_text", "text": part.text}
    detail = part.detail if part.detail in DETAILS else "auto"
    return {"type": "input_image", "image_url": data_url(part), "detail": detail}


# -- reading what we wrote ---------------------------------------------------------------------------------------------


def read_request(request: Request) -> Prompt:
    """Read the request. The calls after an answer's text are part of its message.

    >>> read_request({"model": "gpt-4o", "instructions": "Hi", "input": []}).messages[0].role
    'system'
    """
    system = read_instructions(request["instructions"]) if request.get("instructions") else ()
    names: dict[str, str] = {}
    messages: list[Message] = list(system)
    for item in request["input"]:
        (message,) = read_item(item, current=False)
        names |= {part.id: part.name for part in message.parts if isinstance(part, ToolCall)}
        if _kind(item) == "function_call" and messages and messages[-1].role == "assistant":
            messages[-1] = msgspec.structs.replace(messages[-1], parts=(*messages[-1].parts, *message.parts))
        else:
            messages.append(msgspec.structs.replace(message, parts=name_results(message.parts, names)))
    return Prompt(
        model=request["model"],
        messages=tuple(messages),
        tools=tuple(read_tools({"tools": request.get("tools")})),
        max_output=request.get("max_output_tokens"),
    )


@finds_violations
def find_violations(report: Report, body: Object) -> None:
    """Return every violation of the API's rules in a request of the kind that we write.

    >>> find_violations({"model": "gpt-4o", "input": [{"type": "function_call_output", "call_id": "c", "output": ""}]})
    ["input[0]: tool result for 'c' without its call"]
    """
    if body.get("max_output_tokens") is not None:
        report.require_positive("max_output_tokens", body["max_output_tokens"])
    if body.get("instructions") is not None:
        report.require_nonblank("instructions", body["instructions"])
    if body.get("tools") is not None:
        check_tools(report, _check_functions(report, body["tools"]))
    pairing = CallPairing(report)
    for path, item in report.require_objects("input", body.get("input")):
        _check_item(report, pairing, path, item)
    pairing.close()


def _check_functions(report: Report, tools: object) -> Iterator[tuple[str, Object]]:
    for path, tool in report.require_objects("tools", tools):
        report.require_one_of(f"{path}.type", tool.get("type"), ("function",))
        if tool.get("parameters") is not None:
            report.require_object(f"{path}.parameters", tool["parameters"])
        yield path, tool


def _check_item(report: Report, pairing: CallPairing, path: str, item: Object) -> None:
    kind = report.require_one_of(f"{path}.type", item.get("type", "message"), _WRITTEN_ITEMS)
    id = None if kind in (None, "message") else report.require_nonblank(f"{path}.call_id", item.get("call_id"))
    match kind:
        case "message":
            pairing.close()
            _check_message(report, path, item)
        case "function_call":
            if not is_tool_name(item.get("name")):
                reason = f"must be 1 to 64 of a-z, A-Z, 0-9, _ and -, {describe_value(item.get('name'))}"
                report.add(f"{path}.name", reason)
            report.require_string(f"{path}.arguments", item.get("arguments"))
            if id is not None:
                pairing.call(path, id)
        case "function_call_output":
            report.require_string(f"{path}.output", item.get("output"))
            if id is not None:
                pairing.result(path, id)


def _check_message(report: Report, path: str, item: Object) -> None:
    role = report.require_one_of(f"{path}.role", item.get("role"), ("user", "assistant", "system", "developer"))
    content = item.get("content")
    if isinstance(content, str):
        return
    allowed = ("input_text", "input_image") if role == "user" else ("input_text", "output_text")
    for block_path, block in report.require_objects(f"{path}.content", content):
        kind = report.require_one_of(f"{block_path}.type", block.get("type"), allowed)
        if kind == "input_image":
            report.require_nonblank(f"{block_path}.image_url", block.get("image_url"))
            if block.get("detail") is not None:
                report.require_one_of(f"{block_path}.detail", block["detail"], DETAILS)
        elif kind is not None:
            report.require_string(f"{block_path}.text", block.get("text"))


# -- storing -----------------------------------------------------------------------------------------------------------


def _find_problems(items: Sequence[Item]) -> Iterator[Problem]:
    """Yield items that only the client or the provider can answer, and parts that are neither texts nor images.

    What the provider's own tools did is part of an answer, and is not stored.
    """
    for index, item in enumerate(items):
        path, kind = f"[{index}]", _kind(item)
        if _is_message(item):
            yield from _find_message_problems(path, item)
        elif kind in _PLAIN_OUTPUTS:
            if not isinstance(item.get("call_id"), str):
                yield f"{path}.call_id", "must name the tool call"
            yield from _find_block_problems(f"{path}.output", item.get("output"))
        elif (
            kind in _SETTINGS
            or kind in _OTHER_CALLS
            or _is_answer(item)
            or kind in ("compaction", "item_reference", "")
        ):
            yield path, NOT_STORED.format(preview(kind or "an item without a type"))


def _find_message_problems(path: str, item: Item) -> Iterator[Problem]:
    role, content = item["role"], item.get("content")
    if role not in (*_ROLES, "user"):
        yield f"{path}.role", f"must be one of user, assistant, system, developer, not {preview(role)}"
    if role != "assistant":
        yield from _find_block_problems(f"{path}.content", content)
    if role == "user" and not has_content(content):
        yield f"{path}.content", "is empty"


def _find_block_problems(path: str, content: object) -> Iterator[Problem]:
    if not isinstance(content, str | list):
        yield path, f"must be a string or a list of parts, not {preview(content)}"
        return
    for index, block in enumerate(content if isinstance(content, list) else ()):
        match block:
            case {"type": kind, "text": str()} if kind in _TEXTS:
                pass
            case {"type": "input_image", "image_url": str(url)} if url:
                pass
            case _:
                kind = block.get("type") if isinstance(block, dict) else block
                yield f"{path}[{index}]", NOT_STORED.format(preview(kind))


def _strip(items: Sequence[Item]) -> list[Item]:
    """Return items, with an empty one in place of each that is not stored."""
    return [item if _is_stored(item) else {"role": "assistant", "content": []} for item in items]


def _is_stored(item: Item) -> bool:
    return _is_message(item) or _kind(item) in _PLAIN_ITEMS


def _find_steps(items: Sequence[Item]) -> tuple[ToolStep, ...]:
    """Return the answers with calls since the user's last message that have more than is stored, or custom calls."""
    last_user = max((i for i, item in enumerate(items) if _is_message(item) and item["role"] == "user"), default=-1)
    steps = []
    for is_generated, group in groupby(items[last_user + 1 :], _is_generated):
        run = tuple(group)
        calls = tuple(str(item.get("call_id")) for item in run if _kind(item) in _CALL_TEXTS)
        unstored = [item for item in run if not _is_stored(item)]
        if is_generated and calls and (unstored or any(map(_needs_original, run))):
            steps.append(ToolStep(messages=run, calls=calls, unstored=[list(_read_strings(item)) for item in unstored]))
    return tuple(steps)


def _needs_original(item: Item) -> bool:
    """Whether an item must be sent as it was: a custom call, or one that the provider knows by its id."""
    return _kind(item) == "custom_tool_call" or bool(item.get("id"))


def _restore(items: Sequence[Item], steps: Sequence[ToolStep]) -> list[Item]:
    """Replace calls, and the texts before them, by the client's items. An output has the type of its call."""
    by_first = {step.calls[0]: step for step in steps}
    custom = {item.get("call_id") for step in steps for item in step.messages if _kind(item) == "custom_tool_call"}
    restored: list[Item] = []
    left = 0  # calls of a step that was restored
    for index, item in enumerate(items):
        id = item.get("call_id")
        step = by_first.get(str(id)) if _kind(item) == "function_call" else None
        if step is not None and _find_call_ids(items[index:], len(step.calls)) == step.calls:
            for _ in filter(_is_message, step.messages):
                if restored and _is_message(restored[-1]) and restored[-1]["role"] == "assistant":
                    restored.pop()
            restored += step.messages
            left = len(step.calls)
        if left:
            left -= 1
        elif _kind(item) == "function_call_output" and id in custom:
            restored.append({**item, "type": "custom_tool_call_output"})
        else:
            restored.append(item)
    return restored


def _find_call_ids(items: Sequence[Item], number: int) -> tuple[str, ...]:
    return tuple(str(item.get("call_id")) for item in items[:number] if _kind(item) == "function_call")


# -- ties --------------------------------------------------------------------------------------------------------------


def find_ties(items: Sequence[Item]) -> tuple[tuple[int, ...], ...]:
    """Return the items that are kept or dropped together, by index.

    The items of one answer belong together if there is more than text in it: OpenAI rejects reasoning without what
    follows it, and a call without the reasoning before it. A call belongs to its output, and an output without a call,
    which may be one by reference, to the item before it.

    >>> find_ties([{"type": "reasoning"}, {"type": "function_call", "call_id": "c1"}, {"role": "user"}])
    ((0, 1),)
    """
    ties: list[tuple[int, ...]] = []
    for generated, group in groupby(range(len(items)), lambda i: _is_generated(items[i])):
        run = tuple(group)
        if generated and len(run) > 1 and not all(_is_message(items[i]) for i in run):
            ties.append(run)
    latest: dict[str, int] = {}  # by id, which may be used again
    for index, item in enumerate(items):
        target = next((latest[key] for key in _referenced_ids(item) if key in latest), None)
        if target is not None:
            ties.append((target, index))
        elif index and _is_answer(item):
            ties.append((index - 1, index))
        latest |= dict.fromkeys(_own_ids(item), index)
    return tuple(ties)


def find_pinned(items: Sequence[Item]) -> tuple[int, ...]:
    """Return the items that must stay: settings, and the newest compaction, which stands for all that was before it."""
    compactions = [i for i, item in enumerate(items) if _kind(item) == "compaction"]
    settings = (i for i, item in enumerate(items) if _kind(item) in _SETTINGS)
    return (*compactions[-1:], *settings)


def find_unlinked_reasoning(items: Sequence[Item]) -> Iterator[int]:
    """Yield the reasoning items that no item of their answer refers to: OpenAI knows them by their ids.

    >>> list(find_unlinked_reasoning([{"type": "reasoning", "id": "rs_1"}, {"type": "function_call", "call_id": "c1"}]))
    [0]
    """
    for generated, group in groupby(range(len(items)), lambda i: _is_generated(items[i])):
        run = list(group)
        own = [i for i in run if _kind(items[i]) == "reasoning"]
        if generated and not any(items[i].get("id") for i in run if i not in own):
            yield from own


def find_reasoning(item: Item) -> tuple[int, ...]:
    """Return the indices of parts with reasoning: all, or none."""
    return tuple(range(len(list(_read_opaque(item))))) if _kind(item) == "reasoning" else ()


def _kind(item: Item) -> str:
    return text_or_empty(item.get("type"))


def _is_message(item: Item) -> bool:
    return _kind(item) in ("message", "") and isinstance(item.get("role"), str)


def _is_answer(item: Item) -> bool:
    return _kind(item).endswith(_ANSWERS)


def _is_generated(item: Item) -> bool:
    """Whether an item is part of an answer of the model, as far as its type says."""
    if _is_message(item):
        return bool(item["role"] == "assistant")
    return not _is_answer(item) and _kind(item) != "compaction" and _kind(item) not in _SETTINGS


def _own_ids(item: Item) -> Iterator[str]:
    if not _is_answer(item):
        yield from (key for key in (item.get("call_id"), item.get("id")) if isinstance(key, str))


def _referenced_ids(item: Item) -> Iterator[str]:
    fields = (*_REFERENCES, "id") if _kind(item) == _LOCAL_SHELL_OUTPUT else _REFERENCES[not _is_answer(item) :]
    yield from (key for key in map(item.get, fields) if isinstance(key, str))


# -- reading -----------------------------------------------------------------------------------------------------------


def read_instructions(instructions: object) -> tuple[Message, ...]:
    """Read the separate system prompt."""
    return (Message(role="system", parts=tuple(_read_content(instructions))),)


def read_tools(offered: dict[str, Any]) -> Iterator[Tool]:
    """Read the tools. Those that the provider runs itself are counted as JSON."""
    tools = offered.get("tools")
    for tool in tools if isinstance(tools, list) else ():
        if isinstance(tool, dict):
            described = {key: value for key, value in tool.items() if (key, value) != ("type", "function")}
            yield read_tool_definition(described, "parameters")


def read_item(item: Item, *, current: bool) -> tuple[Message, ...]:
    """Read an item as a neutral message."""
    del current
    if _is_message(item):
        role = _ROLES.get(item["role"], "user")
        return (Message(role=role, parts=tuple(_read_content(item.get("content")))),)
    id = text_or_empty(item.get("call_id") or (item.get("id") if _kind(item) == _LOCAL_SHELL_OUTPUT else ""))
    if id and _is_answer(item):
        return (Message(role="tool", parts=tuple(_read_output(item, id))),)
    if id:
        return (Message(role="assistant", parts=(_read_call(item, id),)),)
    if _kind(item) in _SETTINGS:
        return (Message(role="system", parts=tuple(_read_opaque(item))),)
    return (Message(role="assistant", parts=tuple(_read_opaque(item))),)


def _read_content(content: object) -> Iterator[Part]:
    if isinstance(content, str):
        yield Text(text=clean_text(content))
        return
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict):
            yield from _read_block(block)
        else:
            yield from read_unknown(block)


def _read_block(block: dict[str, Any]) -> Iterator[Part]:
    match block:
        case {"type": kind, "text": str(text)} if kind in _TEXTS:
            yield Text(text=clean_text(text))
        case {"type": "refusal", "refusal": str(text)}:
            yield Text(text=clean_text(text))
        case {"type": "input_image", "image_url": str(url)} | {"type": "input_image", "file_id": str(url)}:
            yield from read_image(url, block.get("detail"))
        case {"type": "input_file"}:
            references = (block.get(field) for field in ("file_data", "file_url", "file_id"))
            yield from (read_document(each) for each in references if isinstance(each, str) and each)
        case {"type": "input_audio", "input_audio": {"data": str(data), **rest}} if data:
            form = AUDIO_TYPES.get(text_or_empty(rest.get("format")), "")
            yield Media(modality="audio", data=clean_text(data), media_type=form)
        case _:
            yield from map(_as_opaque, read_unknown(block))


def _read_call(item: Item, id: str) -> ToolCall:
    """Read a call. The arguments of a built-in tool are all of its fields that are content."""
    kind = _kind(item)
    arguments = item.get(_CALL_TEXTS.get(kind, ""))
    if not isinstance(arguments, str):
        arguments = json_text({key: value for key, value in item.items() if key not in _NOT_CONTENT})
    return ToolCall(id=id, name=text_or_empty(item.get("name")) or kind or "tool", arguments=clean_text(arguments))


def _read_output(item: Item, id: str) -> Iterator[Part]:
    """Yield the result of a call and the media in it."""
    plain = _kind(item) in _PLAIN_OUTPUTS
    parts = list(_read_content(item.get("output")) if plain else _read_opaque(item))
    text = "".join(part.text for part in parts if isinstance(part, Text))
    yield ToolResult(id=id, content=text, name=text_or_empty(item.get("name")))
    yield from (part for part in parts if isinstance(part, Media))


def _read_opaque(item: Item) -> Iterator[Part]:
    """Yield the content of an item that is passed on as it is.

    If the provider stores it, its size can only be assumed.
    """
    if _kind(item) in _TOOL_LISTS:
        yield Text(text=json_text(item.get("tools")))
        return
    parts = list(_read_strings({key: value for key, value in item.items() if key not in _REFERENCES}))
    id = text_or_empty(item.get("id"))
    is_stored = _kind(item) in ("reasoning", "item_reference", "") and not _has_own_content(item)
    if id and is_stored:
        yield Media(modality="document", url=id, media_type=OPAQUE_TYPE)
    yield from parts


def _has_own_content(item: Item) -> bool:
    return bool(item.get("encrypted_content") or item.get("content"))


def _read_strings(value: object) -> Iterator[Part]:
    if isinstance(value, str):
        if value:
            yield _as_opaque(read_string(clean_text(value)))
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in _NOT_CONTENT:
                yield from _read_strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _read_strings(item)


def _as_opaque(part: Part) -> Part:
    return msgspec.structs.replace(part, media_type=OPAQUE_TYPE) if isinstance(part, Media) else part


def _write_tool(tool: Tool) -> Item:
    schema = object_schema(tool.parameters)
    return {"type": "function", "name": tool.name, "description": tool.description, "parameters": schema}


def _write_max_output(request: Request, tokens: int, provider: str) -> Request:
    del provider
    return request if has_limit(request) else {**request, "max_output_tokens": tokens}


# -- replies -----------------------------------------------------------------------------------------------------------

PREAMBLE_EVENTS: Final = ("response.created", "response.queued", "response.in_progress")
"""Events before anything was generated. An overlong prompt is reported after them."""
WHOLE_EVENTS: Final = ("response.completed", "response.incomplete", "response.failed", "error")
"""Events that end a stream. All but the error repeat the whole response."""
_TEXT_EVENTS: Final = ("response.output_text.delta", "response.refusal.delta")
_THOUGHT_EVENTS: Final = ("response.reasoning_text.delta", "response.reasoning_summary_text.delta")
_CALL_EVENTS: Final = ("response.function_call_arguments.delta", "response.custom_tool_call_input.delta")
_CALL_FIELDS: Final = {"function_call": "arguments", "custom_tool_call": "input"}
_INCOMPLETE_REASONS: Final[dict[str, FinishReason]] = {"max_output_tokens": "length", "content_filter": "filtered"}
_COUNTED_FIELDS: Final = ("model", "input", "instructions", "tools", "tool_choice", "reasoning", "text", "truncation")
"""Fields of a request that OpenAI counts."""


def _list_count_requests(request: Request) -> tuple[CountRequest, ...]:
    fields = {key: value for key, value in request.items() if key in _COUNTED_FIELDS}
    return (CountRequest("/responses/input_tokens", fields, "input_tokens"),)


def _can_join(body: Request, streams: bool) -> bool:  # noqa: FBT001 - as in a `Wire`
    """Whether the answers of several rounds can be joined.

    A stream names the first response, and if the provider stores that, it has a call without a result. An answer that
    is made in the background never comes here.
    """
    is_alone = body.get("background") or (streams and body.get("store") is not False)
    return not is_alone and wants_text(as_object(body.get("text")).get("format"))


class _Draft(Draft):
    """A whole response, or the events of one."""

    def add(self, data: JsonObject) -> ReplyChunk:
        kind, delta = as_string(data.get("type")), as_string(data.get("delta"))
        if kind in _TEXT_EVENTS:
            return self._add_text(delta, refused=kind != _TEXT_EVENTS[0])
        if kind in _CALL_EVENTS:
            self.add_call(as_count(data.get("output_index")), arguments=delta)
        elif kind == "response.output_item.added":
            self._add_call(as_object(data.get("item")), as_count(data.get("output_index")))
        elif isinstance(data.get("response"), dict):
            self._add_response(data["response"])
        elif "output" in data:
            self._add_response(data)
        return ReplyChunk(thought=delta if kind in _THOUGHT_EVENTS else "")

    def _add_response(self, response: JsonObject) -> None:
        """Add a response; a complete one repeats everything that was streamed."""
        self.id = self.id or as_string(response.get("id"))
        self.model = self.model or as_string(response.get("model"))
        self.usage = _read_usage(as_object(response.get("usage"))) or self.usage
        status = response.get("status", "completed")  # not every server sends it
        if status not in ("completed", "incomplete"):
            return
        if not self.has_started:
            for item in as_objects(response.get("output")):
                self._add_item(item)
        self.has_started = self.is_over = True
        reason = as_string(as_object(response.get("incomplete_details")).get("reason"))
        ending: FinishReason = "stop" if status == "completed" else _INCOMPLETE_REASONS.get(reason, "other")
        self.finish = self.finish or ending

    def _add_item(self, item: JsonObject) -> None:
        for block in as_objects(item.get("content")) if item.get("type") == "message" else ():
            self._add_text(as_string(block.get("text")))
            self._add_text(as_string(block.get("refusal")), refused=True)
        self._add_call(item, None)

    def _add_text(self, text: str, *, refused: bool = False) -> ReplyChunk:
        if text:
            self.has_started = True
            self.finish = "filtered" if refused else self.finish
        return ReplyChunk(text=self.add_text(text))

    def _add_call(self, item: JsonObject, key: int | None) -> None:
        field = _CALL_FIELDS.get(as_string(item.get("type")))
        if field is not None:
            self.has_started = True
            name, arguments = as_string(item.get("name")), as_string(item.get(field))
            self.add_call(key, id=as_string(item.get("call_id")), name=name, arguments=arguments)


def _read_usage(usage: JsonObject) -> Usage | None:
    if not usage:
        return None
    return make_usage(
        prompt=as_count(usage.get("input_tokens")),
        cached=as_count(as_object(usage.get("input_tokens_details")).get("cached_tokens")),
        completion=as_count(usage.get("output_tokens")),
        reasoning=as_count(as_object(usage.get("output_tokens_details")).get("reasoning_tokens")),
    )


# -- rounds ------------------------------------------------------------------------------------------------------------

_ANSWERED_CALLS: Final = ("function_call", "custom_tool_call")  # items that take a text as result


class ResponsesAnswer(JoinedAnswer):
    """Joins responses of OpenAI's Responses API.

    A reasoning item is not valid without the item that follows it, so it is held back until that is known. A stream
    has the id of its first response. A whole answer has that of the last one, which can be continued by its id.
    """

    def __init__(self) -> None:
        self._seen: list[JsonObject] = []  # items of earlier rounds that the client sees
        self._sequence = 0  # the number of the next event
        self._id: JsonObject = {}  # of the first response of a stream
        super().__init__()

    def _start(self) -> None:
        super()._start()
        self._response: JsonObject = {}
        self._kinds: dict[int, str] = {}  # of items that were begun
        self._indexes: dict[int, int] = {}

    def add(self, body: JsonObject) -> None:
        self._response = body

    def whole(self, body: JsonObject) -> JsonObject:
        own = self._own_items()
        if not self._round and len(own) == len(self._items):
            return body
        usage = add_usage(self._usage, as_object(body.get("usage"))) or None
        return body | {"output": [*self._seen, *(item for _, item in own)], "usage": usage}

    @property
    def calls(self) -> list[ToolCall]:
        """The tool calls of the current round; none if not all of them can be answered."""
        kinds = {as_string(item.get("type")) for item in self._items}
        if self._response.get("status", "completed") != "completed" or kinds & _OTHER_CALLS:
            return []
        return [
            ToolCall(
                id=as_string(item.get("call_id")),
                name=as_string(item.get("name")),
                arguments=as_string(item.get("arguments")) or "{}",
            )
            for item in self._items
            if item.get("type") in _ANSWERED_CALLS
        ]

    def step(self, results: Mapping[str, str]) -> list[JsonObject]:
        """Return the items to add to the request. What the provider does not store needs no id."""
        items = self._items
        if self._response.get("store") is False:
            items = [item for item in items if item.get("type") != "reasoning" or item.get("encrypted_content")]
            items = [{key: value for key, value in item.items() if key != "id"} for item in items]
        answers = [
            {"type": f"{item['type']}_output", "call_id": item["call_id"], "output": results[item["call_id"]]}
            for item in self._items
            if item.get("type") in _ANSWERED_CALLS
        ]
        return [*items, *answers]

    def _remember(self) -> None:
        calls = [i for i, item in enumerate(self._items) if item.get("type") in _ANSWERED_CALLS]
        self._seen += _without_last_reasoning(self._items[: calls[0]] if calls else self._items)

    def _own_usage(self) -> JsonObject:
        return as_object(self._response.get("usage"))

    def _passes(self, data: JsonObject) -> bool:
        return not as_string(data.get("type")).startswith("response.")

    def _begins_call(self, data: JsonObject) -> bool:
        del data
        kinds = tuple(self._kinds.values())
        return kinds[-1:] == ("reasoning",) or not set(kinds).isdisjoint(_ANSWERED_CALLS)

    def _is_end(self, data: JsonObject) -> bool:
        return data.get("type") in WHOLE_EVENTS

    @property
    def _items(self) -> list[JsonObject]:
        return as_objects(self._response.get("output"))

    def _own_items(self) -> list[tuple[int, JsonObject]]:
        """Return the items of this round without calls that the proxy answers, with their indices."""
        own = [(i, item) for i, item in enumerate(self._items) if not self._is_answered(item)]
        return own if len(own) == len(self._items) else own[: len(_without_last_reasoning([item for _, item in own]))]

    def _is_answered(self, item: JsonObject) -> bool:
        return item.get("type") == "function_call" and item.get("name") in self.answered

    def _add_event(self, event: Event) -> bytes:
        """Add an event. What is held for the sake of a reasoning item is shown if a message follows that."""
        data, shown = as_object(event.data), b""
        if data.get("type") == "response.output_item.added":
            self._kinds[as_count(data.get("output_index"))] = as_string(as_object(data.get("item")).get("type"))
            if not self._begins_call(data):
                held, self._held, self._state = self._held, [], "open"
                shown = b"".join(map(self._write, held))
        return shown + super()._add_event(event)

    def _merge(self, data: JsonObject) -> None:
        if data["type"] in WHOLE_EVENTS:
            self._response = as_object(data.get("response"))
            self._state = "held"  # until the next line: it is clear now whose the calls are

    def _write_held(self, held: Sequence[Event]) -> bytes:
        own = {i for i, _ in self._own_items()} if self._items else set(self._kinds)
        return b"".join([self._write(each) for each in held if self._is_shown(each, own)])

    def _is_shown(self, event: Event, own: set[int]) -> bool:
        data = as_object(event.data)
        return self._is_end(data) or as_count(data.get("output_index")) in own

    def _write(self, event: Event) -> bytes:
        """Return an event as the client sees it, with the index that its item has there."""
        data = as_object(event.data)
        kind = as_string(data.get("type"))
        if kind in PREAMBLE_EVENTS:
            if self._round:
                return b""
            self._id = {"id": as_object(data.get("response")).get("id")}
        if kind in WHOLE_EVENTS:
            data = data | {"response": self.whole(self._response) | self._id}
        elif "output_index" in data:
            index = as_count(data["output_index"])
            self._indexes.setdefault(index, len(self._seen) + len(self._indexes))
            data = data | {"output_index": self._indexes[index]}
        if "sequence_number" in data:
            data = data | {"sequence_number": self._sequence}
        self._sequence += 1
        if data == event.data:
            return event.raw
        return b"event: " + kind.encode() + b"\ndata: " + msgspec.json.encode(data) + b"\n\n"


def _without_last_reasoning(items: list[JsonObject]) -> list[JsonObject]:
    """Return items without reasoning at their end."""
    end = len(items)
    while end and items[end - 1].get("type") == "reasoning":
        end -= 1
    return items[:end]


# -- for tests: written replies, and the rules of conversations --------------------------------------------------------


def _write_reply(reply: Reply) -> tuple[JsonObject, list[bytes]]:
    """Return a reply as a response, and as the events of one."""
    usage = reply.usage or Usage(prompt=10, completion=2)
    id = reply.id or "resp_1"
    text = {"type": "output_text", "text": reply.text, "annotations": []}
    output: list[Item] = [{"type": "message", "role": "assistant", "content": [text]}] if reply.text else []
    output += [
        {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}
        for call in reply.calls
    ]
    whole = {
        "id": id,
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": reply.model or "scripted",
        "output": [{"id": f"item_{i}_{id}", "status": "completed", **item} for i, item in enumerate(output)],
        "error": None,
        "usage": {
            "input_tokens": usage.prompt,
            "input_tokens_details": {"cached_tokens": usage.cached},
            "output_tokens": usage.completion,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning},
            "total_tokens": usage.prompt + usage.completion,
        },
    }
    events = write_events(whole)
    return whole, [b"event: %b\ndata: %b\n\n" % (each["type"].encode(), msgspec.json.encode(each)) for each in events]


def write_events(response: Item) -> list[Item]:
    """Return the events of a stream that ends with this response.

    >>> [event["type"] for event in write_events({"status": "completed", "output": []})]
    ['response.created', 'response.in_progress', 'response.completed']
    """
    begun = response | {"status": "in_progress", "output": [], "error": None, "usage": None}
    events: list[Item] = [{"type": kind, "response": begun} for kind in ("response.created", "response.in_progress")]
    for index, item in enumerate(response["output"]):
        events += _item_events(index, item)
    events.append({"type": f"response.{response['status']}", "response": response})
    return [event | {"sequence_number": number} for number, event in enumerate(events)]


def _item_events(position: int, item: Item) -> Iterator[Item]:
    place = {"output_index": position, "item_id": item["id"]}
    is_message, is_call = item["type"] == "message", item["type"] == "function_call"
    empty: Item = {"content": []} if is_message else {"arguments": ""} if is_call else {}
    yield {"type": "response.output_item.added", "output_index": position, "item": item | empty}
    for index, block in enumerate(item["content"] if is_message else ()):
        inside = place | {"content_index": index}
        yield {"type": "response.content_part.added", "part": block | {"text": ""}, **inside}
        for word in split_words(block["text"]):
            yield {"type": "response.output_text.delta", "delta": word, "logprobs": [], **inside}
        yield {"type": "response.output_text.done", "text": block["text"], "logprobs": [], **inside}
        yield {"type": "response.content_part.done", "part": block, **inside}
    if is_call:
        yield {"type": "response.function_call_arguments.delta", "delta": item["arguments"], **place}
        yield {"type": "response.function_call_arguments.done", "arguments": item["arguments"], **place}
    yield {"type": "response.output_item.done", "output_index": position, "item": item}


def find_broken_item(items: Sequence[Mapping[str, Any]], reasoning: Mapping[str, str]) -> str | None:
    """Return OpenAI's message for an item without another one that it requires; None if there is no such item.

    `reasoning` are the ids of reasoning items by the items that need them.

    >>> find_broken_item([{"type": "function_call", "call_id": "c1"}], {})
    'No tool output found for function call c1.'
    """
    ids = {item.get("id") for item in items}
    calls = [item.get("call_id") for item in items if str(item.get("type")).endswith("_call")]
    outputs = [item.get("call_id") for item in items if str(item.get("type")).endswith("_call_output")]
    for call in calls:
        if call is not None and call not in outputs:
            return f"No tool output found for function call {call}."
    for output in outputs:
        if output not in calls:
            return f"No tool call found for function call output with call_id {output}."
    for index, item in enumerate(items):
        following = items[index + 1] if index + 1 < len(items) else {"role": "user"}
        is_alone = following.get("role", "assistant") != "assistant" or str(following.get("type")).endswith("output")
        if item.get("type") == "reasoning" and is_alone:
            return f"Item '{item.get('id')}' of type 'reasoning' was provided without its required following item."
        needed = reasoning.get(str(item.get("id")))
        if needed is not None and needed not in ids:
            named = f"Item '{item['id']}' of type '{item.get('type')}'"
            return f"{named} was provided without its required 'reasoning' item: '{needed}'."
    return None


def _find_broken(request: Request) -> Iterator[str]:
    items = request["input"]
    if broken := None if isinstance(items, str) else find_broken_item(items, {}):
        yield broken


WIRE: Final = Wire(
    name="responses",
    provider="openai",
    detail_provider="openai",
    message_field="input",
    takes_text=True,
    needs_role=False,
    is_message=lambda item: isinstance(item.get("type"), str) or has_role_and_content(item),
    write=lambda prompt, _: write_request(prompt),
    read=read_request,
    find_violations=find_violations,
    accepts_media=accepts_media,
    read_turn=read_item,
    find_ties=find_ties,
    find_pinned=find_pinned,
    find_state=find_state_field,
    system_field=lambda _: "instructions",
    read_system=read_instructions,
    read_tools=read_tools,
    write_max_output=_write_max_output,
    get_role=lambda item: str(item.get("role", "assistant")),
    text_type="input_text",
    reasoning=ReasoningRule(
        is_removable=True,
        why="older reasoning is optional, but items that have an id are rejected without the reasoning before them",
        source="https://developers.openai.com/api/docs/guides/preserved-reasoning",
    ),
    find_reasoning=find_reasoning,
    find_removable=find_unlinked_reasoning,
    make_draft=_Draft,
    preamble_events=PREAMBLE_EVENTS,
    whole_events=WHOLE_EVENTS,
    join_rounds=ResponsesAnswer,
    can_join=_can_join,
    get_path=lambda request, stream: "/responses",  # noqa: ARG005 - called by position
    models_path="/models",
    count_requests=_list_count_requests,
    paths=WirePaths(root="/v1", completions=("/v1/responses",), prefixes=("/v1/responses",)),
    holds_content=lambda item: "role" in item or item.get("type") in _PLAIN_ITEMS,
    write_error=write_error,
    write_tool=_write_tool,
    map_functions=lambda fields, change: map_flat_functions(fields, change, ("function",)),
    no_calls={"tool_choice": "none"},
    write_reply=_write_reply,
    storage=Storage(
        find_problems=_find_problems, strip=_strip, find_steps=_find_steps, restore=_restore, joins_calls=True
    ),
    find_broken=_find_broken,
)
