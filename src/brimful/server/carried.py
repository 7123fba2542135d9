"""What of a caller's messages can be kept: what cannot is refused, for half a question would get half an answer."""

from collections.abc import Sequence
from typing import Any, Final

from brimful.core.check import shown
from brimful.core.content import ToolCall, ToolResult
from brimful.records import Message
from brimful.render.given import GivenWire
from brimful.server.errors import Refusal

_ROLES: Final[dict[GivenWire, tuple[str, ...]]] = {
    "openai": ("system", "developer", "user", "assistant", "tool", "function"),
    "anthropic": ("user", "assistant", "system"),
}


def check_carried(messages: Sequence[dict[str, Any]], wire: GivenWire) -> None:
    """Refuse messages of nobody, empty questions, and parts that are neither text nor images nor of tools.

    >>> check_carried([{"role": "user", "content": [{"type": "text", "text": "Hi"}]}], "openai")
    """
    for at, message in enumerate(messages):
        place, role, content = f"messages[{at}]", message["role"], message.get("content")
        if role not in _ROLES[wire]:
            raise _refused(f"{place}.role", f"must be one of {', '.join(_ROLES[wire])}, not {shown(role)}")
        if role == "tool" and not isinstance(message.get("tool_call_id"), str):
            raise _refused(f"{place}.tool_call_id", "must name the call that is answered")
        if not isinstance(content, str | list) and not (role == "assistant" and content is None):
            raise _refused(f"{place}.content", f"must be a text or a list of parts, not {shown(content)}")
        if role != "assistant" and not _says(content, f"{place}.content", wire) and role == "user":
            raise _refused(f"{place}.content", "is empty: there is nothing to keep, and nothing to answer")


def check_called(said: Sequence[Message], places: Sequence[int], tail: Sequence[Message]) -> None:
    """Refuse results of tools that nobody called, neither in the request nor at the end of its room."""
    called = {part.id for message in tail for part in _parts(message) if isinstance(part, ToolCall)}
    for message, at in zip(said, places, strict=True):
        for part in _parts(message):
            if isinstance(part, ToolCall):
                called.add(part.id)
            elif isinstance(part, ToolResult) and part.id not in called:
                raise _refused(
                    f"messages[{at}]", f"answers a call {shown(part.id)} that is not in this conversation: send it"
                )


def _says(content: object, place: str, wire: GivenWire) -> bool:
    """Say whether there is anything in a content; refuse what cannot be kept of it."""
    blocks = content if isinstance(content, list) else [content]
    said = [_is_said(block, f"{place}[{at}]", wire) for at, block in enumerate(blocks)]
    return any(said)


def _is_said(block: object, place: str, wire: GivenWire) -> bool:
    match wire, block:
        case _, str(text) | {"type": "text", "text": str(text)}:
            return bool(text.strip())
        case "openai", {"type": "image_url", "image_url": str(url) | {"url": str(url)}} if url:
            return True
        case "anthropic", {"type": "image", "source": {"type": "url", "url": str(data)}} if data:
            return True
        case "anthropic", {"type": "image", "source": {"type": "base64", "data": str(data)}} if data:
            return True
        case "anthropic", {"type": "tool_result", "tool_use_id": str(), **rest}:
            _says(rest.get("content") or "", f"{place}.content", wire)
            return True
        case _:
            kind = block.get("type") if isinstance(block, dict) else block
            raise _refused(
                place,
                f"this part ({shown(kind)}) cannot be kept: the mode remember carries texts, images and tools, each in "
                "its usual form; the mode fit passes all on (X-Brimful-Mode: fit)",
            )


def _parts(message: Message) -> Sequence[object]:
    return () if isinstance(message.content, str) else message.content


def _refused(place: str, why: str) -> Refusal:
    return Refusal("invalid", f"{place}: {why}", param=place)
