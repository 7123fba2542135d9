"""LangChain messages, in every form in which it serializes them.

`messages_to_dict` gives `{"type": "human", "data": {…}}`, `dumpd` and `dumps` give `{"lc": 1, "id": […,
"HumanMessage"], "kwargs": {…}}`, and `model_dump` gives the fields themselves with their `type`. Documented in
langchain_core.messages and langchain_core.load.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from brimful.formats.lenient import as_dict, as_dicts, as_id, as_str, without_empty
from brimful.formats.openai import read_conversations
from brimful.formats.source import Format, ImportedRecord, Skipped, Source

ROLES: Final = {
    "human": "user",
    "HumanMessage": "user",
    "ai": "assistant",
    "AIMessage": "assistant",
    "AIMessageChunk": "assistant",
    "system": "system",
    "SystemMessage": "system",
    "tool": "tool",
    "ToolMessage": "tool",
    "function": "tool",
    "FunctionMessage": "tool",
}
"""Roles by message type and class."""


ASSISTANT_ROLES: Final = frozenset({"ai", "agent", "bot", "chatbot", "gpt", "model"})
"""Custom roles of a `ChatMessage` that mean the assistant, in any case. Other custom roles mean the user."""
_OF_MESSAGES: Final = ("additional_kwargs", "response_metadata")
_OF_LLAMAINDEX: Final = ("block_type", "chat_store")
_TYPED: Final = re.compile(rb'"type"\s*:\s*"(human|ai|system|chat|AIMessageChunk|remove)"')
_TYPED_OR_CALLED: Final = re.compile(rb'"type"\s*:\s*"(human|ai|system|tool|function|chat|AIMessageChunk|remove)"')
_OPENAI_ROLES: Final = ("system", "developer", "user", "assistant", "tool")
_KNOWN_FIELDS: Final = frozenset(
    {"additional_kwargs", "content", "id", "lc", "name", "response_metadata", "role", "status", "tool_call_chunks"}
    | {"tool_call_id", "tool_calls", "type", "usage_metadata", "model", "thoughts", "usage"}
)
"""Fields that are read, and metadata keys of ours."""


def recognizes(source: Source) -> bool:
    """Return whether messages have LangChain's types and fields.

    Tool calls have types, too, so if messages have roles, only types that no call has count.
    """
    keys = source.keys
    if {"lc", "kwargs"} <= keys:
        return True
    if "content" not in keys or keys.isdisjoint(_OF_MESSAGES) or not keys.isdisjoint(_OF_LLAMAINDEX):
        return False
    return (_TYPED if "role" in keys else _TYPED_OR_CALLED).search(source.outline) is not None


def read(source: Source) -> Iterator[ImportedRecord | Skipped]:
    return read_conversations(source, to_openai)


def to_openai(data: dict[str, Any]) -> dict[str, Any]:
    """Return a message in OpenAI's format.

    >>> to_openai({"type": "human", "data": {"content": "Hi", "name": "Ada"}})
    {'role': 'user', 'name': 'Ada', 'content': 'Hi'}
    """
    kind, fields = _unwrap(data)
    own = as_str(fields.get("role")) if kind in ("chat", "ChatMessage") else ""
    role = ROLES.get(kind) or _map_role(own)
    if not role:
        return {"role": kind} if kind else {}
    calls = _calls(fields) if role == "assistant" else []
    return without_empty(
        role=role,
        name=as_str(fields.get("name")) if role != "tool" else None,
        id=as_id(fields.get("id")),
        tool_calls=calls,
        tool_call_id=as_id(fields.get("tool_call_id")) or (as_str(fields.get("name")) if kind == "function" else None),
        metadata={**_metadata(fields), **without_empty(role=own if own != role else None)},
    ) | ({"content": _content(fields["content"]) or (None if calls else "")} if "content" in fields else {})


def _map_role(role: str) -> str:
    """Return the role for a custom role of LangChain."""
    if not role or role in _OPENAI_ROLES:
        return role
    return ROLES.get(role) or ("assistant" if role.lower() in ASSISTANT_ROLES else "user")


def _unwrap(data: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the type of a message, and its fields."""
    if isinstance(data.get("kwargs"), dict) and isinstance(data.get("id"), list):
        fields = data["kwargs"]
        return as_str(fields.get("type")) or as_str(next(reversed(data["id"]), "")), fields
    if isinstance(data.get("data"), dict):
        return as_str(data.get("type")), data["data"]
    return as_str(data.get("type")), data


def _content(content: Any) -> Any:
    """Return content in OpenAI's format, without reasoning and tool calls, which have fields of their own."""
    if not isinstance(content, list):
        return content
    parts = [{"type": "text", "text": part} if isinstance(part, str) else part for part in content]
    return [_part(part) for part in as_dicts(parts) if part.get("type") not in ("tool_use", "thinking", "reasoning")]


def _part(part: dict[str, Any]) -> dict[str, Any]:
    if part.get("type") == "image":
        source = as_dict(part.get("source"))
        data = as_str(part.get("base64")) or as_str(source.get("data")) or as_str(part.get("data"))
        kind = as_str(part.get("mime_type")) or as_str(source.get("media_type")) or "image/png"
        url = as_str(part.get("url")) or as_str(source.get("url"))
        return {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{data}" if data else url}}
    if isinstance(part.get("image_url"), str):  # LangChain also accepts a bare URL
        return {"type": "image_url", "image_url": {"url": part["image_url"]}}
    return part


def _calls(fields: dict[str, Any]) -> list[dict[str, Any]]:
    calls = as_dicts(fields.get("tool_calls"))
    if not calls:
        return as_dicts(as_dict(fields.get("additional_kwargs")).get("tool_calls"))
    return [_call(i, call) for i, call in enumerate(calls)]


def _call(index: int, call: dict[str, Any]) -> dict[str, Any]:
    arguments = json.dumps(as_dict(call.get("args")), ensure_ascii=False)
    function = {"name": as_str(call.get("name")), "arguments": arguments}
    return {"id": as_id(call.get("id")) or f"call-{index}", "type": "function", "function": function}


def _metadata(fields: dict[str, Any]) -> dict[str, Any]:
    """Return everything without a field of its own."""
    answered = as_dict(fields.get("response_metadata"))
    added = {key: value for key, value in as_dict(fields.get("additional_kwargs")).items() if key != "tool_calls"}
    status = as_str(fields.get("status"))
    return without_empty(
        model=as_str(answered.get("model_name")) or as_str(answered.get("model")),
        usage=as_dict(fields.get("usage_metadata")),
        status=status if status != "success" else None,
        thoughts="\n\n".join(filter(None, map(_reasoning, as_dicts(fields.get("content"))))),
        additional_kwargs=added,
        response_metadata={key: value for key, value in answered.items() if key not in ("model_name", "model")},
        **{key: value for key, value in fields.items() if key not in _KNOWN_FIELDS},
    )


def _reasoning(part: dict[str, Any]) -> str:
    if part.get("type") not in ("thinking", "reasoning"):
        return ""
    return as_str(part.get("thinking")) or as_str(part.get("reasoning")) or as_str(part.get("text"))


FORMAT: Final = Format(
    name="langchain",
    description="LangChain messages: messages_to_dict, dumps, dumpd or model_dump, as a list or as JSON lines",
    recognizes=recognizes,
    read=read,
)
