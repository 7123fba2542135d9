"""OpenAI's Responses API: its items as neutral messages, and which of them belong together.

An item is a message, a call of a tool, the output of one, or something that only the provider reads, such as encrypted
reasoning. Items of an unknown type are passed on as they are.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final

import msgspec

from brimful.core.content import OPAQUE_TYPE, Media, Part, Role, Text, ToolCall, ToolResult
from brimful.core.prompt import Message, Request, Tool
from brimful.core.validation import clean_text
from brimful.wires.parts import (
    AUDIO_TYPES,
    read_document,
    read_image,
    read_string,
    read_tool_definition,
    read_unknown,
    text_or_empty,
)
from brimful.wires.tools import json_text
from brimful.wires.wire import ReasoningRule, Wire, has_limit, has_role_and_content

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
_PLAIN_OUTPUTS: Final = ("function_call_output", "custom_tool_call_output")  # a text or a list of blocks


def find_state_field(request: Request) -> str | None:
    """Return the field of a request that adds what only the provider has.

    >>> find_state_field({"input": "And then?", "previous_response_id": "resp_1"})
    'previous_response_id'
    """
    return next((field for field in STATE_FIELDS if request.get(field) is not None), None)


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
    for generated, group in groupby(range(len(items)), lambda at: _is_generated(items[at])):
        run = tuple(group)
        if generated and len(run) > 1 and not all(_is_message(items[at]) for at in run):
            ties.append(run)
    latest: dict[str, int] = {}  # by id, which may be used again
    for at, item in enumerate(items):
        target = next((latest[key] for key in _referenced_ids(item) if key in latest), None)
        if target is not None:
            ties.append((target, at))
        elif at and _is_answer(item):
            ties.append((at - 1, at))
        latest |= dict.fromkeys(_own_ids(item), at)
    return tuple(ties)


def find_pinned(items: Sequence[Item]) -> tuple[int, ...]:
    """Return the items that must stay: settings, and the newest compaction, which stands for all that was before it."""
    compactions = [at for at, item in enumerate(items) if _kind(item) == "compaction"]
    settings = (at for at, item in enumerate(items) if _kind(item) in _SETTINGS)
    return (*compactions[-1:], *settings)


def find_unlinked_reasoning(items: Sequence[Item]) -> Iterator[int]:
    """Yield the reasoning items that no item of their answer refers to: OpenAI knows them by their ids.

    >>> list(find_unlinked_reasoning([{"type": "reasoning", "id": "rs_1"}, {"type": "function_call", "call_id": "c1"}]))
    [0]
    """
    for generated, group in groupby(range(len(items)), lambda at: _is_generated(items[at])):
        run = list(group)
        own = [at for at in run if _kind(items[at]) == "reasoning"]
        if generated and not any(items[at].get("id") for at in run if at not in own):
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


def _write_max_output(request: Request, tokens: int, provider: str) -> Request:
    del provider
    return request if has_limit(request) else {**request, "max_output_tokens": tokens}


WIRE: Final = Wire(
    name="responses",
    provider="openai",
    detail_provider="openai",
    message_field="input",
    takes_text=True,
    needs_role=False,
    is_message=lambda item: isinstance(item.get("type"), str) or has_role_and_content(item),
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
)
