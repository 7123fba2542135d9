"""A caller's own request with placeholders where its content was.

With a frame, a request can be written again with some of its messages and nothing else changed, and the record of a
context stores each content only once.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal

import msgspec

from brimful.core.content import Media, Part, Text, ToolCall

SYSTEM_ID: Final = "system"
"""The id of a system prompt that is not a message, and the field that holds it."""

_HOLE: Final = "\0"  # the only key of a placeholder object
_LITERAL: Final = -1  # marks an object of the caller that has this key itself
_ARGUMENTS_KEYS: Final = ("input", "args")  # keys of the arguments object in calls of Anthropic and Gemini
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

_RESULT_IDS: Final = frozenset(("tool_use_id", "tool_call_id"))

Holes = dict[str, list[int]]
"""The indices of each text."""


class LeftOut(Text, frozen=True, kw_only=True, gc=False, tag_field="type", tag="text"):
    """The place of a part that is left out of its message."""

    text: str = ""


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """A request without its content. `fields` keeps the order of the request, with nothing in the field of messages.

    `messages` holds each message with holes, or None for one that is a role and a plain text. `user_first` says that
    the conversation must begin with the user, whatever is left out of it.
    """

    wire: Literal["openai", "anthropic", "responses", "gemini"]
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
    return -1 if id == SYSTEM_ID else int(id.partition("/")[0].rpartition("-")[2])


def summary_id(index: int) -> str:
    """Return the id of a summary that stands where the message of this index was.

    >>> summary_id(7), message_index(summary_id(7)), is_message_id(summary_id(7))
    ('summary-000007', 7, False)
    """
    return f"summary-{index:06d}"


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


def with_text_block(value: Any, index: int, type: str = "text") -> Any:
    r"""Return JSON data with the block around a placeholder replaced by a text block of a type. A cache mark stays.

    >>> with_text_block({"content": [{"type": "image_url", "image_url": {"url": {"\x00": [1]}}}]}, 1)
    {'content': [{'type': 'text', 'text': {'\x00': [1]}}]}
    """
    if isinstance(value, list):
        return [_as_text(item, index, type) if _holds(item, index) else item for item in value]
    if isinstance(value, dict):
        return {key: with_text_block(item, index, type) for key, item in value.items()}
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
    if any(key in value and _holds(value[key], index) for key in _GEMINI_MEDIA):
        return {**value, "mediaResolution": {"level": "MEDIA_RESOLUTION_LOW"}}
    if _is_hole(value.get("url"), index) or (value.get("type") == "input_image" and _holds(value, index)):
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


def _is_in_list(value: Any, index: int) -> bool:
    if isinstance(value, dict):
        return _HOLE not in value and any(_is_in_list(item, index) for item in value.values())
    return isinstance(value, list) and _holds(value, index)


def _as_text(block: Any, index: int, type: str) -> Any:
    """Return a text block in the place of the innermost block that holds the placeholder. Gemini's have no type."""
    if isinstance(block, list) or any(_is_in_list(item, index) for item in block.values()):
        return with_text_block(block, index, type)
    mark = {"cache_control": block["cache_control"]} if "cache_control" in block else {}
    return ({"type": type} if type else {}) | {"text": {_HOLE: [index]}} | mark


def has_editable_hole(value: Any, index: int = 0) -> bool:
    r"""Whether a text has a placeholder of its own in a frame, so that it can be changed.

    >>> has_editable_hole({"content": {"\x00": [0]}}), has_editable_hole({"content": "Hi"})
    (True, False)
    >>> has_editable_hole({"type": "thinking", "thinking": {"\x00": [0]}, "signature": "c2ln"})
    False
    """
    if isinstance(value, dict):
        if (hole := value.get(_HOLE)) is not None:
            return hole == [index] or (hole[0] == index and (isinstance(hole[-1], list) or hole[-1] is _OBJECT))
        is_editable = value.get("type") in _EDITABLE_TYPES and _SIGNED.isdisjoint(value)
        return is_editable and any(has_editable_hole(each, index) for each in value.values())
    return isinstance(value, list) and any(has_editable_hole(each, index) for each in value)


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
    for text in indices if len(pieces) > 1 else ():
        spans = _find_spans(text, pieces)
        if spans:
            at = _next_index(indices[text])
            rest = {piece: own for piece, own in indices.items() if piece != text}
            return {_HOLE: [at, len(text), _replace_spans(blocks, at, iter(spans), rest)]}
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


def _replace_spans(value: Any, at: int, spans: Iterator[tuple[int, int] | None], indices: Holes) -> Any:
    """Replace the content strings, in order, by placeholders for their span of a text or for a text of their own."""
    if isinstance(value, str):
        span = next(spans)
        return _replace_text(value, indices) if span is None else {_HOLE: [at, *span]}
    if isinstance(value, dict):
        return {
            key: item if key in NOT_CONTENT else _replace_spans(item, at, spans, indices) for key, item in value.items()
        }
    return [_replace_spans(item, at, spans, indices) for item in value] if isinstance(value, list) else value


def _replace_field(key: str, value: Any, indices: Holes) -> Any:
    if isinstance(value, dict) and (key in _ARGUMENTS_KEYS or key == _RESPONSE_KEY):
        written = msgspec.json.encode(value).decode()
        if written in indices:
            return {_HOLE: [_next_index(indices[written]), _OBJECT if key == _RESPONSE_KEY else None]}
    return _replace_value(value, indices)


def _next_index(indices: list[int]) -> int:
    """Return the index of the next occurrence of a text; the last one also stands for all that follow."""
    return indices.pop(0) if len(indices) > 1 else indices[0]


def _replace_text(text: str, indices: Holes) -> Any:
    if text in indices:
        return {_HOLE: [_next_index(indices[text])]}
    if text.startswith("data:"):
        head, comma, data = text.partition(",")
        if data in indices:
            return {_HOLE: [_next_index(indices[data]), head + comma]}
    return text


def _shortened_blocks(at: int, blocks: list[Any], texts: Sequence[str]) -> list[Any]:
    """Return one block with the new text of what the blocks formed together, and those of them that are media.

    A cache mark stays.
    """
    others = [block for block in blocks if _holds_other(block, at)]
    marks = [{"cache_control": block["cache_control"]} for block in blocks if "cache_control" in block]
    mark = marks[-1] if marks and not any("cache_control" in block for block in others) else {}
    return [{"type": "text", "text": texts[at]} | mark, *(fill_holes(block, texts) for block in others)]


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
        case [at, value] if at == _LITERAL:
            return value
        case [at, None | False]:
            return _object_in(texts[at])
        case [at, int(length), list(blocks)]:
            return fill_holes(blocks, texts) if len(texts[at]) == length else _shortened_blocks(at, blocks, texts)
        case [at, int(start), int(end)]:
            return texts[at][start:end]
        case [at, head]:
            return head + texts[at]
        case _:
            return texts[hole[0]]
