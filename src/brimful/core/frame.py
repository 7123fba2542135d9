"""A caller's own request with placeholders where its content was.

With a frame, a request can be written again with some of its messages and nothing else changed, and the record of a
context stores each content only once.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec

from brimful.core.content import Media, Part, Text, ToolCall

SYSTEM_ID: Final = "system"
"""The id of a system prompt that is not a message, and the field that holds it."""

_HOLE: Final = "\0"  # the only key of a placeholder object
_LITERAL: Final = -1  # marks an object of the caller that has this key itself
_ARGUMENTS_KEY: Final = "input"  # the key of the arguments object in Anthropic's tool calls


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """A request without its content. `fields` keeps the order of the request, with nothing under `messages`.

    `messages` holds each message with holes, or None for one that is a role and a plain text. `user_first` says that
    the conversation must begin with the user, whatever is left out of it.
    """

    wire: Literal["openai", "anthropic"]
    fields: dict[str, Any]
    messages: tuple[Any, ...]
    user_first: bool = False


def message_id(index: int, part: int = 0) -> str:
    """Return the id of a message, or of its second part if it is read as two packages.

    >>> message_id(7), message_id(7, 1)
    ('msg-000007', 'msg-000007/2')
    """
    return f"msg-{index:06d}" + (f"/{part + 1}" if part else "")


def message_index(id: str) -> int:
    """Return the index of the message with this id; -1 for a system prompt that is not a message.

    >>> message_index("msg-000007/2"), message_index(SYSTEM_ID)
    (7, -1)
    """
    return -1 if id == SYSTEM_ID else int(id.partition("/")[0].removeprefix("msg-"))


def is_message_id(id: str) -> bool:
    """Whether this is the id of a message of the request, or of something in it.

    >>> is_message_id("msg-000007/image-1"), is_message_id(SYSTEM_ID)
    (True, False)
    """
    return id.startswith("msg-")


def part_text(part: Part) -> str:
    """Return the text of a part as it is in a request."""
    match part:
        case Text():
            return part.text
        case Media():
            return part.data or part.url
        case ToolCall():
            return part.arguments
        case _:
            return part.content


def replace_with_holes(value: Any, texts: Sequence[str]) -> Any:
    r"""Replace these texts in JSON data by placeholders. A text that occurs several times has several.

    >>> replace_with_holes({"role": "user", "content": [{"type": "text", "text": "Hi"}]}, ["Hi"])
    {'role': 'user', 'content': [{'type': 'text', 'text': {'\x00': [0]}}]}
    """
    indices: dict[str, list[int]] = {}
    for at, text in enumerate(texts):
        if text:
            indices.setdefault(text, []).append(at)
    return _replace_value(value, indices)


def fill_holes(value: Any, texts: Sequence[str]) -> Any:
    r"""Fill the placeholders in JSON data with these texts.

    >>> fill_holes({"role": "user", "content": {"\x00": [0]}}, ["Hi"])
    {'role': 'user', 'content': 'Hi'}
    """
    if isinstance(value, dict):
        hole = value.get(_HOLE)
        return (
            {key: fill_holes(item, texts) for key, item in value.items()}
            if hole is None
            else _hole_content(hole, texts)
        )
    if isinstance(value, list):
        return [fill_holes(item, texts) for item in value]
    return value


def with_text_block(value: Any, index: int) -> Any:
    r"""Return JSON data with the block around a placeholder replaced by a text block. A cache mark stays.

    >>> with_text_block({"content": [{"type": "image_url", "image_url": {"url": {"\x00": [1]}}}]}, 1)
    {'content': [{'type': 'text', 'text': {'\x00': [1]}}]}
    """
    if isinstance(value, list):
        return [_as_text(item, index) if _holds(item, index) else item for item in value]
    if isinstance(value, dict):
        return {key: with_text_block(item, index) for key, item in value.items()}
    return value


def with_low_detail(value: Any, index: int) -> Any:
    r"""Return JSON data that asks for low detail in the image whose URL is this placeholder.

    >>> with_low_detail({"image_url": {"url": {"\x00": [1]}}}, 1)
    {'image_url': {'url': {'\x00': [1]}, 'detail': 'low'}}
    """
    if isinstance(value, list):
        return [with_low_detail(item, index) for item in value]
    if not isinstance(value, dict):
        return value
    if _is_hole(value.get("url"), index):
        return {**value, "detail": "low"}
    if _is_hole(value.get("image_url"), index):
        return {**value, "image_url": {"url": value["image_url"], "detail": "low"}}
    return {key: with_low_detail(item, index) for key, item in value.items()}


def _is_hole(value: Any, index: int) -> bool:
    return isinstance(value, dict) and _HOLE in value and value[_HOLE][0] == index


def _holds(value: Any, index: int) -> bool:
    if isinstance(value, dict):
        return _is_hole(value, index) or any(_holds(item, index) for item in value.values())
    return isinstance(value, list) and any(_holds(item, index) for item in value)


def _as_text(block: Any, index: int) -> Any:
    """Return a text block in the place of the innermost block that holds the placeholder."""
    if isinstance(block, list) or any(isinstance(item, list) and _holds(item, index) for item in block.values()):
        return with_text_block(block, index)
    mark = {"cache_control": block["cache_control"]} if "cache_control" in block else {}
    return {"type": "text", "text": {_HOLE: [index]}} | mark


def has_editable_hole(value: Any) -> bool:
    r"""Whether the first text has a placeholder of its own in a frame, so that it can be changed.

    >>> has_editable_hole({"content": {"\x00": [0]}}), has_editable_hole({"content": "Hi"})
    (True, False)
    """
    if isinstance(value, dict):
        return value == {_HOLE: [0]} or any(map(has_editable_hole, value.values()))
    return isinstance(value, list) and any(map(has_editable_hole, value))


def _replace_value(value: Any, indices: dict[str, list[int]]) -> Any:
    if isinstance(value, str):
        return _replace_text(value, indices)
    if isinstance(value, dict):
        if _HOLE in value:
            return {_HOLE: [_LITERAL, value]}
        return {key: _replace_field(key, item, indices) for key, item in value.items()}
    if isinstance(value, list):
        return [_replace_value(item, indices) for item in value]
    return value


def _replace_field(key: str, value: Any, indices: dict[str, list[int]]) -> Any:
    if key == _ARGUMENTS_KEY and isinstance(value, dict):
        written = msgspec.json.encode(value).decode()
        if written in indices:
            return {_HOLE: [_next_index(indices[written]), None]}
    return _replace_value(value, indices)


def _next_index(indices: list[int]) -> int:
    """Return the index of the next occurrence of a text; the last one also stands for all that follow."""
    return indices.pop(0) if len(indices) > 1 else indices[0]


def _replace_text(text: str, indices: dict[str, list[int]]) -> Any:
    if text in indices:
        return {_HOLE: [_next_index(indices[text])]}
    if text.startswith("data:"):
        head, comma, data = text.partition(",")
        if data in indices:
            return {_HOLE: [_next_index(indices[data]), head + comma]}
    return text


def _hole_content(hole: list[Any], texts: Sequence[str]) -> Any:
    match hole:
        case [at, value] if at == _LITERAL:
            return value
        case [at, None]:
            return msgspec.json.decode(texts[at])
        case [at, head]:
            return head + texts[at]
        case _:
            return texts[hole[0]]
