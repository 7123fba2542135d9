"""LlamaIndex messages: `ChatMessage.model_dump()`, lists of them, and chat stores (`SimpleChatStore.persist`).

A message has a `role` and `blocks` (`block_type`: text, image, audio, tool_call, thinking, …); older ones have
`content` instead. A store has a list of messages for each of its keys. Documented in llama_index.core.base.llms.types
and llama_index.core.storage.chat_store.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

from brimful.formats.ids import join_id
from brimful.formats.lenient import as_dict, as_dicts, as_id, as_str, without_empty
from brimful.formats.openai import read_conversation, read_conversations
from brimful.formats.source import Format, ImportedRecord, Skipped, Source

ROLES: Final = {"model": "assistant", "chatbot": "assistant", "function": "tool"}
"""Roles with another name in OpenAI's format."""
_KNOWN_FIELDS: Final = ("name", "tool_calls", "tool_call_id")
_TRANSLATED_BLOCKS: Final = ("text", "image", "audio", "tool_call", "thinking", "cache")


def recognizes(source: Source) -> bool:
    """Return whether messages have blocks or additional arguments, or are in a chat store."""
    keys = source.keys
    return "role" in keys and not keys.isdisjoint(("block_type", "additional_kwargs", "chat_store"))


def read(source: Source) -> Iterator[ImportedRecord | Skipped]:
    """Yield messages; each key of a store becomes a room."""
    if not source.head.lstrip().startswith(b"{") or {"store"}.isdisjoint(source.keys):
        yield from read_conversations(source, to_openai)
        return
    entry = source.whole()
    if isinstance(entry, Skipped):
        yield entry
        return
    store = as_dict(as_dict(entry.data).get("chat_store")) or as_dict(entry.data)
    for key, messages in as_dict(store.get("store")).items():
        if isinstance(messages, list) and key:
            room = join_id(source.room, key)
            yield from read_conversation(room, source, f"{entry.location}: store.{key}", messages, to_openai)
        else:
            yield Skipped(f"{entry.location}: store.{key}", "is not a list of messages with a name")


def to_openai(data: dict[str, Any]) -> dict[str, Any]:
    """Return a message in OpenAI's format.

    >>> to_openai({"role": "user", "blocks": [{"block_type": "text", "text": "Hi"}], "additional_kwargs": {}})
    {'content': [{'type': 'text', 'text': 'Hi'}], 'role': 'user'}
    """
    role = as_str(data.get("role"))
    if not role:
        return data
    extra = as_dict(data.get("additional_kwargs"))
    blocks = as_dicts(data.get("blocks"))
    calls = [_call(block) for block in blocks if block.get("block_type") == "tool_call"]
    parts = [part for block in blocks for part in _parts(block)]
    result = ROLES.get(role, role) == "tool"
    content = "\n\n".join(as_str(part.get("text")) for part in parts) if result else parts
    message = without_empty(
        role=ROLES.get(role, role),
        content=content or data.get("content"),
        name=None if result else as_str(extra.get("name")),
        tool_calls=calls or as_dicts(extra.get("tool_calls")),
        tool_call_id=as_id(extra.get("tool_call_id")),
        metadata=_metadata(data, blocks),
    )
    return (
        message
        if {"content", "blocks"}.isdisjoint(data)
        else {"content": None if "tool_calls" in message else "", **message}
    )


def _metadata(data: dict[str, Any], blocks: list[dict[str, Any]]) -> dict[str, Any]:
    """Return everything without a field of its own, and blocks that the text only mentions."""
    added = as_dict(data.get("additional_kwargs"))
    return without_empty(
        thoughts="\n\n".join(
            text for block in blocks if block.get("block_type") == "thinking" and (text := as_str(block.get("content")))
        ),
        blocks=[block for block in blocks if block.get("block_type") not in _TRANSLATED_BLOCKS],
        additional_kwargs={key: value for key, value in added.items() if key not in _KNOWN_FIELDS},
        **{key: value for key, value in data.items() if key not in ("role", "content", "blocks", "additional_kwargs")},
    )


def _parts(block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    match block.get("block_type"):
        case "text":
            yield {"type": "text", "text": as_str(block.get("text"))}
        case "image":
            data, kind = as_str(block.get("image")), as_str(block.get("image_mimetype")) or "image/png"
            url = f"data:{kind};base64,{data}" if data else as_str(block.get("url"))
            if url:
                yield {"type": "image_url", "image_url": {"url": url}}
            else:
                yield {"type": "text", "text": f"[image {as_str(block.get('path'))}]"}
        case "audio" if as_str(block.get("audio")):
            audio = {"data": as_str(block.get("audio")), "format": as_str(block.get("format")) or "wav"}
            yield {"type": "input_audio", "input_audio": audio}
        case "tool_call" | "thinking" | "cache":
            return
        case other:
            text = as_str(block.get("text")) or as_str(block.get("title")) or as_str(block.get("path"))
            yield {"type": "text", "text": text or f"[{as_str(other) or 'block'}]"}


def _call(block: dict[str, Any]) -> dict[str, Any]:
    value = block.get("tool_kwargs")
    arguments = value if isinstance(value, str) else json.dumps(as_dict(value), ensure_ascii=False)
    function = {"name": as_str(block.get("tool_name")), "arguments": arguments}
    return {"id": as_id(block.get("tool_call_id")) or function["name"], "type": "function", "function": function}


FORMAT: Final = Format(
    name="llamaindex",
    description="LlamaIndex messages: ChatMessage dumps, lists of them, and chat stores",
    recognizes=recognizes,
    read=read,
)
