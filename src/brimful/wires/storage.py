"""How conversations of a format are stored, and how an agent's steps are sent again as they came."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from brimful.core.validation import preview

WireMessage = dict[str, Any]
Problem = tuple[str, str]
"""A path below a message or a list of messages, and what is wrong there."""

NOT_STORED = (
    "this part ({}) cannot be stored: remember mode supports text, images and tools; fit mode passes everything "
    "through (X-Brimful-Mode: fit)"
)


class ToolStep(msgspec.Struct, frozen=True, kw_only=True):
    """A model's tool calls as the client sent them: messages, ids of the calls, and parts that are not stored."""

    messages: tuple[WireMessage, ...]
    calls: tuple[str, ...]
    unstored: object


class Storage(msgspec.Struct, frozen=True, kw_only=True):
    """What of a format is stored, and how it is sent again.

    `find_problems` yields what of a conversation cannot be stored. `strip` returns its messages as they are stored,
    without the model's reasoning; their number stays the same. `joins_calls` says that the text and the calls of one
    answer are messages of their own, which are stored as one.

    `find_steps` returns the steps since the user's last message that have more than is stored: a provider may need them
    as they were. `restore` returns messages of ours with these steps in place of the stored ones.
    """

    find_problems: Callable[[Sequence[WireMessage]], Iterator[Problem]]
    strip: Callable[[Sequence[WireMessage]], list[WireMessage]]
    find_steps: Callable[[Sequence[WireMessage]], tuple[ToolStep, ...]]
    restore: Callable[[Sequence[WireMessage], Sequence[ToolStep]], list[WireMessage]]
    joins_calls: bool = False


class BlockRules(msgspec.Struct, frozen=True, kw_only=True):
    """The storage of a format whose messages have a role, and a text or blocks as content.

    `is_image` and `is_result` recognize blocks that are stored besides texts; a result has content of its own. `split`
    returns an assistant message as it is stored, and what of it is not. `get_calls` returns the ids of its calls, and
    `needs_original` whether a provider may need it as it was even without reasoning. `restore` returns a message of
    ours with the steps that it was made from.
    """

    roles: tuple[str, ...]
    is_image: Callable[[WireMessage], bool]
    is_result: Callable[[WireMessage], bool] = lambda _: False
    split: Callable[[WireMessage], tuple[WireMessage, object]]
    get_calls: Callable[[WireMessage], tuple[str, ...]]
    needs_original: Callable[[WireMessage], bool] = lambda _: False
    restore: Callable[[WireMessage, Sequence[ToolStep]], WireMessage]

    def make_storage(self) -> Storage:
        return Storage(
            find_problems=self._find_problems,
            strip=self._strip,
            find_steps=self._find_steps,
            restore=lambda messages, steps: [self.restore(message, steps) for message in messages],
        )

    def _strip(self, messages: Sequence[WireMessage]) -> list[WireMessage]:
        return [self.split(message)[0] if message["role"] == "assistant" else message for message in messages]

    def _find_steps(self, messages: Sequence[WireMessage]) -> tuple[ToolStep, ...]:
        last_user = max((i for i, message in enumerate(messages) if self._is_from_user(message)), default=-1)
        since = (message for message in messages[last_user + 1 :] if message["role"] == "assistant")
        steps = (
            ToolStep(messages=(message,), calls=self.get_calls(message), unstored=self.split(message)[1])
            for message in since
            if self.split(message)[1] or self.needs_original(message)
        )
        return tuple(step for step in steps if step.calls)

    def _is_from_user(self, message: WireMessage) -> bool:
        """Return whether a message contains more than tool results."""
        content = message.get("content")
        if message["role"] != "user":
            return False
        return not isinstance(content, list) or any(
            not isinstance(block, dict) or not self.is_result(block) for block in content
        )

    def _find_problems(self, messages: Sequence[WireMessage]) -> Iterator[Problem]:
        """Yield unknown roles, empty questions, and parts that are neither text, images nor tool data."""
        for index, message in enumerate(messages):
            path, role, content = f"[{index}]", message["role"], message.get("content")
            if role not in self.roles:
                yield f"{path}.role", f"must be one of {', '.join(self.roles)}, not {preview(role)}"
            if role == "tool" and not isinstance(message.get("tool_call_id"), str):
                yield f"{path}.tool_call_id", "must name the tool call"
            if not isinstance(content, str | list) and not (role == "assistant" and content is None):
                yield f"{path}.content", f"must be a string or a list of parts, not {preview(content)}"
            if role != "assistant":
                yield from self._check_content(content, f"{path}.content")
                if role == "user" and not has_content(content):
                    yield f"{path}.content", "is empty"

    def _check_content(self, content: object, path: str) -> Iterator[Problem]:
        for index, block in enumerate(content if isinstance(content, list) else [content]):
            yield from self._check_block(block, f"{path}[{index}]")

    def _check_block(self, block: object, path: str) -> Iterator[Problem]:
        match block:
            case str() | {"type": "text", "text": str()}:
                return
            case dict() if self.is_image(block):
                return
            case dict() if self.is_result(block):
                yield from self._check_content(block.get("content") or "", f"{path}.content")
            case _:
                yield path, NOT_STORED.format(preview(block.get("type") if isinstance(block, dict) else block))


def has_content(content: object) -> bool:
    """Whether content is more than blank texts.

    >>> has_content(" "), has_content([{"type": "text", "text": ""}, {"type": "image"}])
    (False, True)
    """
    match content:
        case str(text) | {"text": str(text)}:
            return bool(text.strip())
        case list():
            return any(map(has_content, content))
        case _:
            return content is not None
