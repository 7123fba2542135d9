"""Read a client's Messages request."""

from collections.abc import Iterator
from typing import Any, Final

from brimful.core.content import clean_text
from brimful.core.prompt import Media, Message, Part, Role, Text, Tool, ToolCall, ToolResult
from brimful.render.incoming.parts import read_image, read_tool_definition, read_unknown, text_or_empty
from brimful.render.tools import json_text

_ROLES: Final[dict[str, Role]] = {"assistant": "assistant", "system": "system"}


def read_system(system: object) -> tuple[Message, ...]:
    """Read the system prompt, which stands apart."""
    blocks = _blocks(system)
    parts = tuple(part for block in blocks for part in _block(block))
    return (Message(role="system", parts=parts, cache=_has_cache_mark(blocks)),)


def read_turn(message: dict[str, Any], *, current: bool) -> tuple[Message, ...]:
    """Read a turn: what tools answered, and then what else is said in it."""
    del current
    blocks = _blocks(message.get("content"))
    answers = [block for block in blocks if _is_result(block)]
    rest = tuple([part for block in blocks if not _is_result(block) for part in _block(block)])
    spoken = Message(role=_ROLES.get(message["role"], "user"), parts=rest, cache=_has_cache_mark(blocks))
    if not answers:
        return (spoken,)
    parts = tuple([part for block in answers for part in _read_result(block)])
    results = Message(role="tool", parts=parts, cache=_has_cache_mark(answers))
    return (results, spoken) if rest else (results,)


def read_tools(offered: dict[str, Any]) -> Iterator[Tool]:
    """Read the tools on offer; of those that the provider itself runs, all that is said of them."""
    return (read_tool_definition(tool, "input_schema") for tool in _blocks(offered.get("tools")))


def _has_cache_mark(blocks: list[dict[str, Any]]) -> bool:
    """Say whether the caller wants the cache to hold as far as here."""
    return any(block.get("cache_control") is not None for block in blocks)


def _blocks(content: object) -> list[dict[str, Any]]:
    if isinstance(content, list):
        return [block if isinstance(block, dict) else {"type": "text", "text": block} for block in content]
    return [] if content is None else [{"type": "text", "text": content}]


def _block(block: dict[str, Any]) -> Iterator[Part]:
    match block:
        case {"type": "text", "text": str(text)}:
            yield Text(text=clean_text(text))
        case {"type": "image", "source": {"type": "url", "url": url}}:
            yield from read_image(url)
        case {"type": "image", "source": {"type": "base64", "data": str(data), **rest}} if data:
            yield Media(modality="image", data=clean_text(data), media_type=text_or_empty(rest.get("media_type")))
        case {"type": "tool_use", "id": str(id), "name": str(name)}:
            yield ToolCall(id=clean_text(id), name=clean_text(name), arguments=json_text(block.get("input", {})))
        case _:
            yield from read_unknown(block)


def _is_result(block: dict[str, Any]) -> bool:
    return block.get("type") == "tool_result" and isinstance(block.get("tool_use_id"), str)


def _read_result(block: dict[str, Any]) -> Iterator[Part]:
    """Yield what a tool answered, and the pictures that it returned."""
    inner = [part for each in _blocks(block.get("content")) for part in _block(each)]
    said = "".join(part.text for part in inner if isinstance(part, Text))
    yield ToolResult(id=clean_text(block["tool_use_id"]), content=said, is_error=block.get("is_error") is True)
    yield from (part for part in inner if isinstance(part, Media))
