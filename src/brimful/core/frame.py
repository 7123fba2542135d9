"""A caller's own request with placeholders where its content was.

With a frame, a request can be written again with some of its messages and nothing else changed, and the record of a
context stores each content only once.
"""

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from brimful.core.content import Media, Part, Text, ToolCall

SYSTEM_ID: Final = "system"
"""The id of a system prompt that is not a message, and the field that holds it."""

_HOLE: Final = "\0"  # the only key of a placeholder object
_LITERAL: Final = -1  # marks an object of the caller that has this key itself
_ARGUMENTS_KEYS: Final = ("input", "args", "arguments")  # of the object in calls of Anthropic, Gemini and Ollama
_RESPONSE_KEY: Final = "response"  # the key of the object that answers a call of Gemini
_OUTPUT_KEY: Final = "output"  # the key of a text in such an object
_OBJECT: Final = False  # marks the placeholder of such an object
_GEMINI_MEDIA: Final = ("inlineData", "inline_data", "fileData", "file_data")
_SIGNED: Final = frozenset(("thought", "thoughtSignature", "thought_signature", "executableCode", "executable_code"))
"""Keys of Gemini's parts that only the model may write."""
_EDITABLE_TYPES: Final = (
    *(None, "text", "tool_result", "message", "input_text", "output_text"),
    *("function_call_output", "custom_tool_call_output"),
)
"""Types of blocks whose text may be replaced. In other blocks it may be signed, or belong to the provider."""
NOT_CONTENT: Final = frozenset(("type", "id", "cache_control", "signature", "format", "detail", "media_type"))
"""Fields of a block that are not content."""

_MAX_CACHED_IDS: Final = 16_384  # ids of messages: each is short, and all requests have the same ones
_MAX_SEARCHED: Final = 64  # texts of a message that are compared with the blocks of each result in it
_RESULT_IDS: Final = frozenset(("tool_use_id", "tool_call_id"))

Holes = dict[str, deque[int]]
"""The indices of each text."""


class LeftOut(Text, frozen=True, kw_only=True, gc=False, tag_field="type", tag="text"):
    """The place of a part that is left out of its message."""

    text: str = ""


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """A request without its content. `fields` keeps the order of the request, with nothing in the field of messages.

    `messages` holds each message with holes, or None for one that is a role and a plain text. `user_first` says that
    the conversation must begin with the user, whatever is left out of it.
    """

    wire: str
    fields: dict[str, Any]
    messages: tuple[Any, ...]
    user_first: bool = False

    @property
    def is_request(self) -> bool:
        """Whether this is a client's whole request, and not only some fields to be added to ours."""
        return bool(self.messages) or "model" in self.fields


@lru_cache(_MAX_CACHED_IDS)
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
    return -1 if id == SYSTEM_ID else int(id.partition("/")[0].rpartition("-")[2])


def summary_id(index: int) -> str:
    """Return the id of a summary that stands where the message of this index was.

    >>> summary_id(7), message_index(summary_id(7)), is_message_id(summary_id(7))
    ('summary-000007', 7, False)
    """
    return f"summary-{index:06d}"


@lru_cache(_MAX_CACHED_IDS)
def message_order(id: str) -> tuple[int, int]:
    """Return the sort key of the ids of messages, and of the parts of one message.

    >>> sorted(["msg-000007/10", "msg-000007", "msg-000007/2"], key=message_order)
    ['msg-000007', 'msg-000007/2', 'msg-000007/10']
    """
    return message_index(id), int(id.partition("/")[2] or 1)


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

    If the blocks of a tool result form a text together, it has a placeholder for all of them: one block of text
    replaces them if it is filled with another text.

    >>> replace_with_holes({"role": "user", "content": [{"type": "text", "text": "Hi"}]}, ["Hi"])
    {'role': 'user', 'content': [{'type': 'text', 'text': {'\x00': [0]}}]}
    """
    indices: Holes = {}
    for index, text in enumerate(texts):
        if text:
            indices.setdefault(text, deque()).append(index)
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


def with_text_blocks(value: Any, indices: Collection[int], type: str = "text") -> Any:
    r"""Return JSON data with the blocks around placeholders replaced by text blocks of a type. Cache marks stay.

    >>> with_text_blocks({"content": [{"type": "image_url", "image_url": {"url": {"\x00": [1]}}}]}, {1})
    {'content': [{'type': 'text', 'text': {'\x00': [1]}}]}
    """
    if isinstance(value, list):
        return [_as_text(item, indices, type) for item in value]
    if isinstance(value, dict) and not _is_literal(value):
        return {key: with_text_blocks(item, indices, type) for key, item in value.items()}
    return value


def with_low_detail(value: Any, indices: Collection[int]) -> Any:
    r"""Return JSON data that asks for low detail in the images whose URLs are these placeholders.

    >>> with_low_detail({"image_url": {"url": {"\x00": [1]}}}, {1})
    {'image_url': {'url': {'\x00': [1]}, 'detail': 'low'}}
    """
    if isinstance(value, list):
        return [with_low_detail(item, indices) for item in value]
    if not isinstance(value, dict) or _is_literal(value):
        return value
    if any(_find_hole(value.get(key), indices) is not None for key in _GEMINI_MEDIA):
        return {**value, "mediaResolution": {"level": "MEDIA_RESOLUTION_LOW"}}
    # OpenAI has the URL in an object of its own, or in an `input_image`. Other clients write it as a string.
    if _is_hole(value.get("url"), indices) or (
        value.get("type") == "input_image" and _find_hole(value, indices) is not None
    ):
        return {**value, "detail": "low"}
    if _is_hole(value.get("image_url"), indices):
        return {**value, "image_url": {"url": value["image_url"], "detail": "low"}}
    return {key: with_low_detail(item, indices) for key, item in value.items()}


def _is_literal(value: dict[str, Any]) -> bool:
    return _HOLE in value and value[_HOLE][0] == _LITERAL


def _is_hole(value: Any, indices: Collection[int]) -> bool:
    return isinstance(value, dict) and _HOLE in value and value[_HOLE][0] in indices


def _find_hole(value: Any, indices: Collection[int]) -> int | None:
    """Return the first of these placeholders in an object, without the lists in it."""
    if _is_hole(value, indices):
        return int(value[_HOLE][0])
    inner = value.values() if isinstance(value, dict) and _HOLE not in value else ()
    return next((hole for item in inner if (hole := _find_hole(item, indices)) is not None), None)


def _as_text(block: Any, indices: Collection[int], type: str) -> Any:
    """Return a text block in the place of a block with one of the placeholders. Gemini's have no type."""
    hole = _find_hole(block, indices)
    if hole is None:
        return with_text_blocks(block, indices, type)
    mark = {"cache_control": block["cache_control"]} if "cache_control" in block else {}
    return ({"type": type} if type else {}) | {"text": {_HOLE: [hole]}} | mark


def editable_holes(value: Any) -> Iterator[int]:
    r"""Yield the texts that have a placeholder of their own in a frame, so that they can be changed.

    >>> list(editable_holes({"content": {"\x00": [0]}})), list(editable_holes({"content": "Hi"}))
    ([0], [])
    >>> list(editable_holes({"type": "thinking", "thinking": {"\x00": [0]}, "signature": "c2ln"}))
    []
    """
    if isinstance(value, dict):
        if (hole := value.get(_HOLE)) is not None:
            yield from hole[:1] if len(hole) == 1 or isinstance(hole[-1], list) or hole[-1] is _OBJECT else ()
        # Providers check the signature of what the model wrote, and refuse it if a character changed.
        elif value.get("type") in _EDITABLE_TYPES and _SIGNED.isdisjoint(value):
            for each in value.values():
                yield from editable_holes(each)
    elif isinstance(value, list):
        for each in value:
            yield from editable_holes(each)


def _replace_value(value: Any, indices: Holes) -> Any:
    if isinstance(value, str):
        return _replace_text(value, indices)
    if isinstance(value, dict):
        if _HOLE in value:
            return {_HOLE: [_LITERAL, value]}
        joined = _replace_joined(value["content"], indices) if _is_result(value) else None
        return {
            key: joined if joined is not None and key == "content" else _replace_field(key, item, indices)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_replace_value(item, indices) for item in value]
    return value


def _is_result(block: dict[str, Any]) -> bool:
    """Whether this is the result of a tool call, in several blocks."""
    return isinstance(block.get("content"), list) and not _RESULT_IDS.isdisjoint(block)


def _replace_joined(blocks: list[Any], indices: Holes) -> Any:
    """Return a placeholder for blocks that form one of the texts together, or None."""
    pieces = list(_content_strings(blocks))
    if len(pieces) <= 1:
        return None
    joined = ("".join(pieces), "".join(piece for piece in pieces if piece not in indices))
    for text in (*joined, *(indices if len(indices) <= _MAX_SEARCHED else ())):
        spans = _find_spans(text, pieces) if text in indices else None
        if spans:
            own = indices.pop(text)
            index = _next_index(own)
            replaced = {_HOLE: [index, len(text), _replace_spans(blocks, index, iter(spans), indices)]}
            indices[text] = own
            return replaced
    return None


def _find_spans(text: str, pieces: Sequence[str]) -> list[tuple[int, int] | None] | None:
    """Return where each piece is in a text that some of them form together; None if they do not."""
    spans: list[tuple[int, int] | None] = []
    start = 0
    for piece in pieces:
        is_next = bool(piece) and text.startswith(piece, start)
        spans.append((start, start + len(piece)) if is_next else None)
        start += len(piece) if is_next else 0
    return spans if start == len(text) and spans.count(None) < len(spans) - 1 else None


def _content_strings(value: Any) -> Iterator[str]:
    """Yield the strings of JSON data that may be content."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in NOT_CONTENT:
                yield from _content_strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _content_strings(item)


def _replace_spans(value: Any, index: int, spans: Iterator[tuple[int, int] | None], indices: Holes) -> Any:
    """Replace the content strings, in order, by placeholders for their span of a text or for a text of their own."""
    if isinstance(value, str):
        span = next(spans)
        return _replace_text(value, indices) if span is None else {_HOLE: [index, *span]}
    if isinstance(value, dict):
        return {
            key: item if key in NOT_CONTENT else _replace_spans(item, index, spans, indices)
            for key, item in value.items()
        }
    return [_replace_spans(item, index, spans, indices) for item in value] if isinstance(value, list) else value


def _replace_field(key: str, value: Any, indices: Holes) -> Any:
    if isinstance(value, dict) and (key in _ARGUMENTS_KEYS or key == _RESPONSE_KEY):
        written = msgspec.json.encode(value).decode()
        if written in indices:
            return {_HOLE: [_next_index(indices[written]), _OBJECT if key == _RESPONSE_KEY else None]}
    return _replace_value(value, indices)


def _next_index(indices: deque[int]) -> int:
    """Return the index of the next occurrence of a text; the last one also stands for all that follow."""
    return indices.popleft() if len(indices) > 1 else indices[0]


def _replace_text(text: str, indices: Holes) -> Any:
    if text in indices:
        return {_HOLE: [_next_index(indices[text])]}
    if text.startswith("data:"):
        head, comma, data = text.partition(",")
        if data in indices:
            return {_HOLE: [_next_index(indices[data]), head + comma]}
    return text


def _shortened_blocks(index: int, blocks: list[Any], texts: Sequence[str]) -> list[Any]:
    """Return one block with the new text of all blocks together, and the blocks that are media.

    A cache mark stays.
    """
    others = [block for block in blocks if _holds_other(block, index)]
    marks = [{"cache_control": block["cache_control"]} for block in blocks if "cache_control" in block]
    mark = marks[-1] if marks and not any("cache_control" in block for block in others) else {}
    return [{"type": "text", "text": texts[index]} | mark, *(fill_holes(block, texts) for block in others)]


def _holds_other(value: Any, index: int) -> bool:
    if isinstance(value, dict):
        hole = value.get(_HOLE)
        return any(_holds_other(item, index) for item in value.values()) if hole is None else hole[0] != index
    return isinstance(value, list) and any(_holds_other(item, index) for item in value)


def _object_in(text: str) -> Any:
    """Return the JSON object in a text, or an object with a text that was shortened to something else."""
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        value = None
    return value if isinstance(value, dict) else {_OUTPUT_KEY: text}


def _hole_content(hole: list[Any], texts: Sequence[str]) -> Any:
    match hole:
        case [index, value] if index == _LITERAL:
            return value
        case [index, None | False]:
            return _object_in(texts[index])
        case [index, int(length), list(blocks)]:
            return fill_holes(blocks, texts) if len(texts[index]) == length else _shortened_blocks(index, blocks, texts)
        case [index, int(start), int(end)]:
            return texts[index][start:end]
        case [index, head]:
            return head + texts[index]
        case _:
            return texts[hole[0]]
