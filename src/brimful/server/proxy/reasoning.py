"""Preserve the model's reasoning between tool calls.

Reasoning is not stored, but Anthropic and others reject tool results if the reasoning before the call is missing. So
the steps since the last user message are sent exactly as the client sent them.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from brimful.core.frame import part_text
from brimful.core.prompt import Request, TokenCounter
from brimful.wires.parts import read_unknown

WireMessage = dict[str, Any]

_REASONING_FIELDS: Final = ("reasoning_content", "reasoning", "reasoning_details", "thinking")
"""Fields for reasoning in dialects of the OpenAI API."""
_STORED_BLOCKS: Final = ("text", "image", "tool_use")
_CACHE: Final = "cache_control"
_CALL_FIELDS: Final = frozenset(("id", "type", "function", "index"))


class ToolStep(msgspec.Struct, frozen=True, kw_only=True):
    """A message with tool calls as the client sent it, and the ids of the calls."""

    message: WireMessage
    calls: tuple[str, ...]


def without_reasoning(messages: Sequence[WireMessage], wire: str) -> list[WireMessage]:
    """Return messages as they are stored: assistant messages with text, images and tool calls only.

    >>> thought = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    >>> without_reasoning([{"role": "assistant", "content": [thought, {"type": "text", "text": "Yes."}]}], "anthropic")
    [{'role': 'assistant', 'content': [{'type': 'text', 'text': 'Yes.'}]}]
    """
    return [_stored_form(message, wire) if message["role"] == "assistant" else message for message in messages]


def tool_steps(messages: Sequence[WireMessage], wire: str) -> tuple[ToolStep, ...]:
    """Return the messages with tool calls since the last user message that contain more than is stored."""
    last_user = max((at for at, message in enumerate(messages) if _is_user_text(message)), default=-1)
    since = (message for message in messages[last_user + 1 :] if message["role"] == "assistant")
    steps = (
        ToolStep(message=message, calls=_call_ids(message, wire)) for message in since if _needs_original(message, wire)
    )
    return tuple(step for step in steps if step.calls)


def reasoning_tokens(steps: Sequence[ToolStep], wire: str, counter: TokenCounter) -> int:
    """Return an upper bound of the tokens that are not stored."""
    texts = [part_text(part) for step in steps for part in read_unknown(_reasoning_part(step.message, wire))]
    return counter.text("\n".join(texts)).upper if texts else 0


def restore_steps(request: Request, steps: Sequence[ToolStep], wire: str) -> Request:
    """Return a request with the original steps in place of the stored ones."""
    if not steps:
        return request
    restore = _restore_anthropic if wire == "anthropic" else _restore_openai
    return request | {"messages": [restore(message, steps) for message in request["messages"]]}


def _restore_openai(message: WireMessage, steps: Sequence[ToolStep]) -> WireMessage:
    calls = _call_ids(message, "openai")
    return next((step.message for step in steps if calls and step.calls == calls), message)


def _restore_anthropic(turn: WireMessage, steps: Sequence[ToolStep]) -> WireMessage:
    """Replace blocks within a turn, which may contain several messages."""
    blocks = turn["content"]
    for step in steps if isinstance(blocks, list) else ():
        stored = _stored_form(step.message, "anthropic")["content"]
        ends = ((at, at + len(stored)) for at in range(len(blocks)))
        position = next(((start, end) for start, end in ends if _is_same(blocks[start:end], stored)), None)
        if position is not None:
            start, end = position
            blocks = [*blocks[:start], *_with_cache_mark(step.message["content"], blocks[start:end]), *blocks[end:]]
    return turn | {"content": blocks}


def _is_same(ours: Sequence[WireMessage], theirs: Sequence[WireMessage]) -> bool:
    return [_block_key(block) for block in ours] == [_block_key(block) for block in theirs]


def _with_cache_mark(theirs: Sequence[WireMessage], ours: Sequence[WireMessage]) -> list[WireMessage]:
    """Return the client's blocks with our cache breakpoint, if there is one at the end."""
    mark = {key: value for key, value in ours[-1].items() if key == _CACHE}
    *before, last = [{key: value for key, value in block.items() if key != _CACHE} for block in theirs]
    return [*before, last | mark]


def _block_key(block: WireMessage) -> tuple[object, ...]:
    if block.get("type") == "tool_use":
        return ("tool_use", block.get("id"))
    return (block.get("type"), str(block.get("text", "")).strip())


def _stored_form(message: WireMessage, wire: str) -> WireMessage:
    content = message.get("content")
    if wire == "openai":
        return {key: value for key, value in message.items() if key not in _REASONING_FIELDS}
    if not isinstance(content, list):
        return message
    return message | {"content": [block for block in content if _is_stored(block)]}


def _reasoning_part(message: WireMessage, wire: str) -> object:
    """Return the part of a message that is not stored."""
    if wire == "openai":
        return {key: value for key, value in message.items() if key in _REASONING_FIELDS}
    content = message.get("content")
    return [block for block in content if not _is_stored(block)] if isinstance(content, list) else []


def _is_stored(block: object) -> bool:
    return not isinstance(block, dict) or block.get("type") in _STORED_BLOCKS


def _needs_original(message: WireMessage, wire: str) -> bool:
    """Return whether a provider may need the message exactly as it was."""
    if _reasoning_part(message, wire):
        return True
    calls = message.get("tool_calls") if wire == "openai" else None
    return any(isinstance(call, dict) and not _CALL_FIELDS.issuperset(call) for call in calls or ())


def _is_user_text(message: WireMessage) -> bool:
    """Return whether a message contains more than tool results."""
    content = message.get("content")
    if message["role"] != "user":
        return False
    return not isinstance(content, list) or any(
        not isinstance(block, dict) or block.get("type") != "tool_result" for block in content
    )


def _call_ids(message: WireMessage, wire: str) -> tuple[str, ...]:
    blocks = message.get("tool_calls" if wire == "openai" else "content")
    calls = [call for call in blocks if isinstance(call, dict)] if isinstance(blocks, list) else []
    return tuple(str(call.get("id")) for call in calls if wire == "openai" or call.get("type") == "tool_use")
