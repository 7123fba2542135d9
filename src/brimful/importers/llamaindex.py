"""Messages of LlamaIndex: `ChatMessage.model_dump()`, lists of them, and chat stores (`SimpleChatStore.persist`).

A message has a `role` and `blocks` (`block_type`: text, image, audio, tool_call, thinking, …), or, before blocks
came, a `content`. A store has a list of messages for each of its keys. Documented in
llama_index.core.base.llms.types and llama_index.core.storage.chat_store.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

from brimful.importers.conversation import read_conversation, read_conversations
from brimful.importers.ids import joined
from brimful.importers.importer import Imported, Importer
from brimful.importers.loose import kept, mapping, mappings, name, text
from brimful.importers.source import Skipped, Source

ROLES: Final = {"model": "assistant", "chatbot": "assistant", "function": "tool"}
"""Roles that OpenAI's form calls otherwise."""


def recognises(source: Source) -> bool:
    """Say whether messages have blocks or additional arguments, or stand in a chat store."""
    keys = source.keys
    return "role" in keys and not keys.isdisjoint(("block_type", "additional_kwargs", "chat_store"))


def read(source: Source) -> Iterator[Imported | Skipped]:
    """Yield messages; each key of a store is a room."""
    if not source.head.lstrip().startswith(b"{") or {"store"}.isdisjoint(source.keys):
        yield from read_conversations(source, told)
        return
    found = source.whole()
    if isinstance(found, Skipped):
        yield found
        return
    store = mapping(mapping(found.data).get("chat_store")) or mapping(found.data)
    for key, messages in mapping(store.get("store")).items():
        if isinstance(messages, list) and key:
            room = joined(source.room, key)
            yield from read_conversation(room, source, f"{found.place}: store.{key}", messages, told)
        else:
            yield Skipped(f"{found.place}: store.{key}", "is no list of messages under a name")


def told(data: dict[str, Any]) -> dict[str, Any]:
    """Return a message in OpenAI's form.

    >>> told({"role": "user", "blocks": [{"block_type": "text", "text": "Hi"}], "additional_kwargs": {}})
    {'content': [{'type': 'text', 'text': 'Hi'}], 'role': 'user'}
    """
    role = text(data.get("role"))
    if not role:
        return data
    beside = mapping(data.get("additional_kwargs"))
    blocks = mappings(data.get("blocks"))
    calls = [_call(block) for block in blocks if block.get("block_type") == "tool_call"]
    parts = [part for block in blocks for part in _parts(block)]
    result = ROLES.get(role, role) == "tool"
    content = "\n\n".join(text(part.get("text")) for part in parts) if result else parts
    message = kept(
        role=ROLES.get(role, role),
        content=content or data.get("content"),
        name=None if result else text(beside.get("name")),
        tool_calls=calls or mappings(beside.get("tool_calls")),
        tool_call_id=name(beside.get("tool_call_id")),
        metadata=_beside(data, blocks),
    )
    return (
        message
        if {"content", "blocks"}.isdisjoint(data)
        else {"content": None if "tool_calls" in message else "", **message}
    )


def _beside(data: dict[str, Any], blocks: list[dict[str, Any]]) -> dict[str, Any]:
    """Return all that has no place of its own, also blocks of which the text only names what they hold."""
    added = mapping(data.get("additional_kwargs"))
    return kept(
        thoughts="\n\n".join(filter(None, map(_thought, blocks))),
        blocks=[block for block in blocks if block.get("block_type") not in _TOLD],
        additional_kwargs={key: value for key, value in added.items() if key not in _PLACED},
        **{key: value for key, value in data.items() if key not in ("role", "content", "blocks", "additional_kwargs")},
    )


_PLACED: Final = ("name", "tool_calls", "tool_call_id")
_TOLD: Final = ("text", "image", "audio", "tool_call", "thinking", "cache")


def _parts(block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    match block.get("block_type"):
        case "text":
            yield {"type": "text", "text": text(block.get("text"))}
        case "image":
            data, kind = text(block.get("image")), text(block.get("image_mimetype")) or "image/png"
            url = f"data:{kind};base64,{data}" if data else text(block.get("url"))
            if url:
                yield {"type": "image_url", "image_url": {"url": url}}
            else:
                yield {"type": "text", "text": f"[image {text(block.get('path'))}]"}
        case "audio" if text(block.get("audio")):
            sound = {"data": text(block.get("audio")), "format": text(block.get("format")) or "wav"}
            yield {"type": "input_audio", "input_audio": sound}
        case "tool_call" | "thinking" | "cache":
            return
        case other:
            said = text(block.get("text")) or text(block.get("title")) or text(block.get("path"))
            yield {"type": "text", "text": said or f"[{text(other) or 'block'}]"}


def _call(block: dict[str, Any]) -> dict[str, Any]:
    given = block.get("tool_kwargs")
    arguments = given if isinstance(given, str) else json.dumps(mapping(given), ensure_ascii=False)
    called = {"name": text(block.get("tool_name")), "arguments": arguments}
    return {"id": name(block.get("tool_call_id")) or called["name"], "type": "function", "function": called}


def _thought(block: dict[str, Any]) -> str:
    return text(block.get("content")) if block.get("block_type") == "thinking" else ""


IMPORTER: Final = Importer(
    name="llamaindex",
    description="messages of LlamaIndex: ChatMessage dumps, lists of them, and chat stores",
    recognises=recognises,
    read=read,
)
