"""Check that the messages of a request can be stored."""

from collections.abc import Sequence
from typing import Any

from brimful.core.content import ToolCall, ToolResult
from brimful.core.validation import preview
from brimful.records import Message
from brimful.server.errors import ApiError
from brimful.wires.storage import Storage


def check_storable(messages: Sequence[dict[str, Any]], storage: Storage) -> None:
    """Reject unknown roles, empty questions, and parts that are neither text, images nor tool data.

    >>> from brimful.wires import find_wire
    >>> check_storable([{"role": "user", "content": "Hi"}], find_wire("openai").storage)
    """
    for index, message in enumerate(messages):
        path, role, content = f"messages[{index}]", message["role"], message.get("content")
        if role not in storage.roles:
            raise _invalid(f"{path}.role", f"must be one of {', '.join(storage.roles)}, not {preview(role)}")
        if role == "tool" and not isinstance(message.get("tool_call_id"), str):
            raise _invalid(f"{path}.tool_call_id", "must name the tool call")
        if not isinstance(content, str | list) and not (role == "assistant" and content is None):
            raise _invalid(f"{path}.content", f"must be a string or a list of parts, not {preview(content)}")
        if role != "assistant" and not _check_content(content, f"{path}.content", storage) and role == "user":
            raise _invalid(f"{path}.content", "is empty")


def check_tool_results(messages: Sequence[Message], positions: Sequence[int], tail: Sequence[Message]) -> None:
    """Reject tool results without a call in the request or at the end of its room."""
    call_ids = {part.id for message in tail for part in _parts(message) if isinstance(part, ToolCall)}
    for message, index in zip(messages, positions, strict=True):
        for part in _parts(message):
            if isinstance(part, ToolCall):
                call_ids.add(part.id)
            elif isinstance(part, ToolResult) and part.id not in call_ids:
                raise _invalid(
                    f"messages[{index}]", f"is the result of a call {preview(part.id)} that is not in this conversation"
                )


def _check_content(content: object, path: str, storage: Storage) -> bool:
    """Return whether content is not empty; reject parts that cannot be stored."""
    blocks = content if isinstance(content, list) else [content]
    filled = [_check_block(block, f"{path}[{i}]", storage) for i, block in enumerate(blocks)]
    return any(filled)


def _check_block(block: object, path: str, storage: Storage) -> bool:
    match block:
        case str(text) | {"type": "text", "text": str(text)}:
            return bool(text.strip())
        case dict() if storage.is_image(block):
            return True
        case dict() if storage.is_result(block):
            _check_content(block.get("content") or "", f"{path}.content", storage)
            return True
        case _:
            kind = block.get("type") if isinstance(block, dict) else block
            raise _invalid(
                path,
                f"this part ({preview(kind)}) cannot be stored: remember mode supports text, images and tools; fit "
                "mode passes everything through (X-Brimful-Mode: fit)",
            )


def _parts(message: Message) -> Sequence[object]:
    return () if isinstance(message.content, str) else message.content


def _invalid(path: str, why: str) -> ApiError:
    return ApiError("invalid", f"{path}: {why}", param=path)
