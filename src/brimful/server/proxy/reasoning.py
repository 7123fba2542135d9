"""Preserve the model's reasoning between tool calls.

Reasoning is not stored, but Anthropic and others reject tool results if the reasoning before the call is missing. So
the steps since the last user message are sent exactly as the client sent them.
"""

from collections.abc import Sequence

from brimful.core.frame import part_text
from brimful.core.prompt import Request, TokenCounter
from brimful.wires.parts import read_unknown
from brimful.wires.storage import Storage, ToolStep, WireMessage


def without_reasoning(messages: Sequence[WireMessage], storage: Storage) -> list[WireMessage]:
    """Return messages as they are stored: assistant messages with text, images and tool calls only.

    >>> from brimful.wires import find_wire
    >>> thought = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    >>> message = {"role": "assistant", "content": [thought, {"type": "text", "text": "Yes."}]}
    >>> without_reasoning([message], find_wire("anthropic").storage)
    [{'role': 'assistant', 'content': [{'type': 'text', 'text': 'Yes.'}]}]
    """
    return [storage.split(message)[0] if message["role"] == "assistant" else message for message in messages]


def tool_steps(messages: Sequence[WireMessage], storage: Storage) -> tuple[ToolStep, ...]:
    """Return the messages with tool calls since the last user message that contain more than is stored."""
    last_user = max((i for i, message in enumerate(messages) if _is_user_text(message, storage)), default=-1)
    since = (message for message in messages[last_user + 1 :] if message["role"] == "assistant")
    steps = (
        ToolStep(message=message, calls=storage.get_calls(message))
        for message in since
        if storage.split(message)[1] or storage.needs_original(message)
    )
    return tuple(step for step in steps if step.calls)


def reasoning_tokens(steps: Sequence[ToolStep], storage: Storage, counter: TokenCounter) -> int:
    """Return an upper bound of the tokens that are not stored."""
    texts = [part_text(part) for step in steps for part in read_unknown(storage.split(step.message)[1])]
    return counter.text("\n".join(texts)).upper if texts else 0


def restore_steps(request: Request, steps: Sequence[ToolStep], storage: Storage) -> Request:
    """Return a request with the original steps in place of the stored ones."""
    if not steps:
        return request
    return request | {"messages": [storage.restore(message, steps) for message in request["messages"]]}


def _is_user_text(message: WireMessage, storage: Storage) -> bool:
    """Return whether a message contains more than tool results."""
    content = message.get("content")
    if message["role"] != "user":
        return False
    return not isinstance(content, list) or any(
        not isinstance(block, dict) or not storage.is_result(block) for block in content
    )
