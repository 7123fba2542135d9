"""What a model thought between two calls of tools. It is not kept, but providers want to see it again as it came.

Anthropic refuses the results of tools if the thoughts before the call are missing, and so do others. So the steps that
were taken since the user last spoke go out as the caller sent them: thoughts, signatures and all.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from brimful.core.frame import text_of
from brimful.core.prompt import Request
from brimful.core.tokens import TokenCounter
from brimful.render.given import GivenWire
from brimful.render.given.pieces import leaves

Said = dict[str, Any]

_THOUGHTS: Final = ("reasoning_content", "reasoning", "reasoning_details", "thinking")
"""Where OpenAI's dialects put what a model thought."""
_KEPT_BLOCKS: Final = ("text", "image", "tool_use")
_CACHE: Final = "cache_control"
_OF_A_CALL: Final = frozenset(("id", "type", "function", "index"))


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A message with calls, as the caller sent it, and the ids of its calls."""

    said: Said
    calls: tuple[str, ...]


def without_thoughts(messages: Sequence[Said], wire: GivenWire) -> list[Said]:
    """Return messages as they are kept: of what an assistant said, texts, images and calls.

    >>> thought = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    >>> without_thoughts([{"role": "assistant", "content": [thought, {"type": "text", "text": "Yes."}]}], "anthropic")
    [{'role': 'assistant', 'content': [{'type': 'text', 'text': 'Yes.'}]}]
    """
    return [_kept(message, wire) if message["role"] == "assistant" else message for message in messages]


def steps_of(messages: Sequence[Said], wire: GivenWire) -> tuple[Step, ...]:
    """Return what was said with calls since the user last spoke, where there is more to it than is kept."""
    last_words = max((at for at, message in enumerate(messages) if _is_users(message)), default=-1)
    since = (message for message in messages[last_words + 1 :] if message["role"] == "assistant")
    steps = (Step(said=message, calls=_calls(message, wire)) for message in since if _has_more(message, wire))
    return tuple(step for step in steps if step.calls)


def tokens_of(steps: Sequence[Step], wire: GivenWire, counter: TokenCounter) -> int:
    """Return how many tokens go to what is not kept of some steps, at the most."""
    texts = [text_of(part) for step in steps for part in leaves(_left(step.said, wire))]
    return counter.text("\n".join(texts)).upper if texts else 0


def with_steps(request: Request, steps: Sequence[Step], wire: GivenWire) -> Request:
    """Return a request in which steps stand as the caller sent them; one that it does not hold is left out."""
    if not steps:
        return request
    place = _placed if wire == "anthropic" else _replaced
    return request | {"messages": [place(message, steps) for message in request["messages"]]}


def _replaced(message: Said, steps: Sequence[Step]) -> Said:
    calls = _calls(message, "openai")
    return next((step.said for step in steps if calls and step.calls == calls), message)


def _placed(turn: Said, steps: Sequence[Step]) -> Said:
    """Put steps in the place of their blocks: a turn of ours may hold more than one message."""
    blocks = turn["content"]
    for step in steps if isinstance(blocks, list) else ():
        kept = _kept(step.said, "anthropic")["content"]
        ends = ((at, at + len(kept)) for at in range(len(blocks)))
        found = next(((start, end) for start, end in ends if _is_same(blocks[start:end], kept)), None)
        if found is not None:
            start, end = found
            blocks = [*blocks[:start], *_marked(step.said["content"], blocks[start:end]), *blocks[end:]]
    return turn | {"content": blocks}


def _is_same(ours: Sequence[Said], theirs: Sequence[Said]) -> bool:
    return [_bare(block) for block in ours] == [_bare(block) for block in theirs]


def _marked(theirs: Sequence[Said], ours: Sequence[Said]) -> list[Said]:
    """Return their blocks with our breakpoint, which stands at the end if there is one."""
    mark = {key: value for key, value in ours[-1].items() if key == _CACHE}
    *before, last = [{key: value for key, value in block.items() if key != _CACHE} for block in theirs]
    return [*before, last | mark]


def _bare(block: Said) -> tuple[object, ...]:
    if block.get("type") == "tool_use":
        return ("tool_use", block.get("id"))
    return (block.get("type"), str(block.get("text", "")).strip())


def _kept(message: Said, wire: GivenWire) -> Said:
    content = message.get("content")
    if wire == "openai":
        return {key: value for key, value in message.items() if key not in _THOUGHTS}
    if not isinstance(content, list):
        return message
    return message | {"content": [block for block in content if _is_kept(block)]}


def _left(message: Said, wire: GivenWire) -> object:
    """Return what is not kept of a message."""
    if wire == "openai":
        return {key: value for key, value in message.items() if key in _THOUGHTS}
    content = message.get("content")
    return [block for block in content if not _is_kept(block)] if isinstance(content, list) else []


def _is_kept(block: object) -> bool:
    return not isinstance(block, dict) or block.get("type") in _KEPT_BLOCKS


def _has_more(message: Said, wire: GivenWire) -> bool:
    """Say whether a provider may want to see a message just as it was."""
    if _left(message, wire):
        return True
    calls = message.get("tool_calls") if wire == "openai" else None
    return any(isinstance(call, dict) and not _OF_A_CALL.issuperset(call) for call in calls or ())


def _is_users(message: Said) -> bool:
    """Say whether a message holds words of the user, and not only what tools answered."""
    content = message.get("content")
    if message["role"] != "user":
        return False
    return not isinstance(content, list) or any(
        not isinstance(block, dict) or block.get("type") != "tool_result" for block in content
    )


def _calls(message: Said, wire: GivenWire) -> tuple[str, ...]:
    listed = message.get("tool_calls" if wire == "openai" else "content")
    calls = [call for call in listed if isinstance(call, dict)] if isinstance(listed, list) else []
    return tuple(str(call.get("id")) for call in calls if wire == "openai" or call.get("type") == "tool_use")
