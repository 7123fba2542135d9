"""Check that the messages of a request can be stored."""

from collections.abc import Sequence

from brimful.core.content import ToolCall, ToolResult
from brimful.core.validation import preview
from brimful.records import Message
from brimful.server.errors import ApiError
from brimful.server.proxy.request import ProxyRequest
from brimful.wires.storage import Storage


def check_storable(request: ProxyRequest, storage: Storage) -> None:
    """Reject the first part of a conversation that cannot be stored."""
    for path, why in storage.find_problems(request.messages):
        raise _invalid(f"{request.wire.message_field}{path}", why)


def check_tool_results(
    request: ProxyRequest, new: Sequence[Message], positions: Sequence[int], known: Sequence[Message]
) -> None:
    """Reject new tool results without a call among them or in messages that are known."""
    call_ids = {part.id for message in (*known, *new) for part in _parts(message) if isinstance(part, ToolCall)}
    for message, index in zip(new, positions, strict=True):
        for part in _parts(message):
            if isinstance(part, ToolResult) and part.id not in call_ids:
                path = f"{request.wire.message_field}[{index}]"
                raise _invalid(path, f"is the result of a call {preview(part.id)} that is not in this conversation")


def _parts(message: Message) -> Sequence[object]:
    return () if isinstance(message.content, str) else message.content


def _invalid(path: str, why: str) -> ApiError:
    return ApiError("invalid", f"{path}: {why}", param=path)
