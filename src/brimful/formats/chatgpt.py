"""ChatGPT exports: `conversations.json`, alone or in the archive that OpenAI sends, with images and `user.json`.

A conversation is a tree of nodes (`mapping`, with `parent` and `children`), and `current_node` ends the branch that
was shown last. The first branch becomes the room; every other branch becomes a room of its own (see `branches`). A
node's `content_type` says which of its fields hold the text.
"""

import base64
import json
import re
from collections.abc import Iterator
from typing import Any, Final

from brimful.core.content import Media, Part, Text, ToolCall, ToolResult
from brimful.core.validation import decode_json
from brimful.errors import BrimfulError
from brimful.formats.ids import Branch, find_message_ids, join_id, split_branches
from brimful.formats.lenient import (
    as_dict,
    as_dicts,
    as_id,
    as_str,
    image_from_bytes,
    message_content,
    parse_time,
    without_empty,
)
from brimful.formats.source import Entry, Format, ImportedRecord, Skipped, Source
from brimful.records import Message, Room, User
from brimful.records.messages import FROM_TOOL

MAX_IMAGE_BYTES: Final = 20 * 2**20  # no provider accepts a larger image
_TEXT_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "code": ("text",),
    "execution_output": ("text",),
    "tether_quote": ("title", "url", "text"),
    "tether_browsing_display": ("result", "summary"),
    "sonic_webpage": ("title", "url", "text"),
    "system_error": ("name", "text"),
    "citable_code_output": ("output_str",),
    "model_editable_context": ("model_set_context",),
    "user_editable_context": ("user_profile", "user_instructions"),
    "reasoning_recap": (),
    "thoughts": (),
}
"""Fields with text, by content type. Reasoning is read separately."""
KNOWN_CONTENT_TYPES: Final = ("text", "multimodal_text", *_TEXT_FIELDS)
"""Content types that are supported: if one of them has no text, nothing is lost."""
_FALLBACK_TEXT_FIELDS: Final = ("text", "result", "content")
_ASSET_POINTER: Final = re.compile(r"^[a-z-]+://(?:[^/]*/)?([\w-]+)")
PREFIX: Final = "chatgpt"
_EVERYONE: Final = ("", "all")
_SPEAKERS: Final = ("user", "assistant")
_ROLES: Final = ("system", "user", "assistant", "tool")


def content_parts(message: dict[str, Any], source: Source | None, *, images: bool) -> Iterator[Part]:
    """Yield texts, and images if `images` is set and the export contains them; else a line that names the file."""
    content = as_dict(message.get("content"))
    for field in _TEXT_FIELDS.get(as_str(content.get("content_type")), _FALLBACK_TEXT_FIELDS):
        if text := as_str(content.get(field)):
            yield Text(text=text)
    parts = content.get("parts")
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, str) and part:
            yield Text(text=part)
        elif isinstance(part, dict):
            yield from _content_part(part, source, images=images)


def _content_part(part: dict[str, Any], source: Source | None, *, images: bool) -> Iterator[Part]:
    pointer = as_str(part.get("asset_pointer"))
    if text := as_str(part.get("text")):  # audio_transcription, and any other type with a text
        yield Text(text=text)
    elif pointer:
        kind = "image" if "image" in as_str(part.get("content_type")) else "audio"
        image = _load_image(pointer, source) if source and images and kind == "image" else None
        yield image or Text(text=f"[{kind} {_file_name(pointer)}]")
    elif kind := as_str(part.get("content_type")):
        yield Text(text=f"[{kind}]")


def _load_image(pointer: str, source: Source) -> Part | None:
    data = source.read_sibling_with_prefix(_file_name(pointer), MAX_IMAGE_BYTES)
    return image_from_bytes(data, base64.b64encode(data).decode()) if data else None


def _file_name(pointer: str) -> str:
    """Return the prefix of the name of a file in the export.

    >>> _file_name("file-service://file-AbC"), _file_name("sediment://file_00a")
    ('file-AbC', 'file_00a')
    """
    match = _ASSET_POINTER.match(pointer)
    return match[1] if match else ""


def custom_instructions(message: dict[str, Any]) -> Iterator[Text]:
    """Yield the user's custom instructions, which older exports store with an empty message."""
    data = as_dict(message.get("metadata")).get("user_context_message_data")
    if not isinstance(data, dict):
        return
    for field in ("about_user_message", "about_model_message"):
        if text := as_str(data.get(field)):
            yield Text(text=text)


def reasoning_text(message: dict[str, Any]) -> str:
    """Return what the model thought, if this is that."""
    content = as_dict(message.get("content"))
    if content.get("content_type") != "thoughts":
        return ""
    thoughts = as_dicts(content.get("thoughts"))
    return "\n\n".join(filter(None, (as_str(each.get("content")) or as_id(each.get("summary")) for each in thoughts)))


def tool_arguments(parts: list[Part]) -> str:
    """Return the arguments of a tool call as JSON: the text itself if it is an object, else the text as `input`."""
    text = "\n\n".join(part.text for part in parts if isinstance(part, Text))
    try:
        if isinstance(decode_json(text), dict):
            return text
    except ValueError:
        pass
    return json.dumps({"input": text}, ensure_ascii=False)


def recognizes(source: Source) -> bool:
    """Return whether there are conversations with a mapping of nodes, or the user of an export."""
    return {"mapping", "children", "parent"} <= source.keys or {"id", "chatgpt_plus_user"} <= source.keys


def read(source: Source) -> Iterator[ImportedRecord | Skipped]:
    """Yield rooms and messages, and the user."""
    for entry in source.entries():
        match entry:
            case Skipped():
                yield entry
            case Entry(data={"mapping": dict(nodes)} as conversation) if nodes:
                yield from _Conversation(source, entry.location, conversation).read(nodes)
            case Entry(data={"chatgpt_plus_user": _, "id": str(id)} as user) if id:
                yield User(id=join_id(id), metadata=without_empty(email=as_str(user.get("email"))))
            case _:
                yield Skipped(entry.location, "is not a conversation: it has no nodes")


class _Conversation:
    """A conversation: its room, and the rooms of its other branches."""

    def __init__(self, source: Source, location: str, data: dict[str, Any]) -> None:
        self._source = source
        self._location = location
        self._data = data
        self._created = parse_time(data.get("create_time")) or source.modified
        own = as_id(data.get("conversation_id")) or as_id(data.get("id"))
        self._room = join_id(source.requested_room or PREFIX, own or f"{as_str(data.get('title'))}@{self._created}")

    def read(self, nodes: dict[str, Any]) -> Iterator[ImportedRecord | Skipped]:
        """Yield a room with its messages, then one for each other branch that is not empty."""
        messages_of = {node: as_dict(as_dict(each).get("message")) for node, each in nodes.items()}
        ordered = sorted(nodes, key=lambda node: parse_time(messages_of[node].get("create_time")) or 0.0)
        parents = {node: as_id(as_dict(nodes[node]).get("parent")) or None for node in ordered}
        branches = split_branches(parents, as_id(self._data.get("current_node")) or None)
        ids = find_message_ids(branches, self._room) if len(branches) > 1 else {}
        for branch in branches:
            messages = list(self._messages(branch, messages_of))
            if branch.start is None or any(isinstance(each, Message) for each in messages):
                yield from self._make_room(branch, ids)
            yield from messages
        for node, each in nodes.items():
            if not _plain_text(messages_of[node]) and (reason := _skip_reason(each)):
                yield Skipped(f"{self._location}: mapping.{node}", reason)

    def _make_room(self, branch: Branch, ids: dict[str, str]) -> Iterator[Room | Skipped]:
        data = self._data
        metadata = without_empty(
            model=as_str(data.get("default_model_slug")),
            gizmo=as_str(data.get("gizmo_id")),
            archived=data.get("is_archived") is True,
            branch_of=None if branch.start is None else self._room,
            after=None if branch.after is None else ids[branch.after],
            shown=branch.shown,
        )
        user = as_id(as_dict(self._source.sibling("user.json")).get("id"))
        try:
            yield Room(
                id=branch.room(self._room),
                name=as_str(data.get("title")),
                user=join_id(user) if user else None,
                created=self._created,
                metadata=metadata,
            )
        except BrimfulError as error:
            yield Skipped(self._location, str(error))

    def _messages(self, branch: Branch, messages: dict[str, dict[str, Any]]) -> Iterator[Message | Skipped]:
        at, thoughts, call, room = self._created, list[str](), "", branch.room(self._room)
        for node, following in zip(branch.nodes, (*branch.nodes[1:], ""), strict=True):
            message = messages[node]
            at = parse_time(message.get("create_time")) or at
            if thought := reasoning_text(message):
                thoughts.append(thought)
            text = _plain_text(message)
            answered = not text and following != "" and _role(messages[following]) == "tool"
            parts = [] if text else self._parts(node, message, answered=answered, call=call)
            call = next((part.id for part in parts if isinstance(part, ToolCall)), "")
            if not text and (not parts or _role(message) not in _ROLES):
                continue
            try:
                yield Message(
                    id=branch.id(self._room, node),
                    room=room,
                    content=text or message_content(parts),
                    sender=as_str(as_dict(message.get("author")).get("name")),
                    role=_known_role(message, parts),
                    at=at,
                    hidden=_is_hidden(message),
                    metadata=_metadata(message)
                    | ({"thoughts": "\n\n".join(thoughts)} if thoughts else {})
                    | ({FROM_TOOL: True} if _role(message) == "tool" and not _has_result(parts) else {}),
                )
            except BrimfulError as error:
                yield Skipped(f"{self._location}: mapping.{node}", str(error))
            thoughts = []
        if thoughts:
            yield Skipped(f"{self._location}: mapping.{branch.nodes[-1]}", "is reasoning without a message after it")

    def _parts(self, node: str, message: dict[str, Any], *, answered: bool, call: str) -> list[Part]:
        """Return the parts of a node: a tool call if a tool answers it, a tool result if it answers a call."""
        role, recipient = _role(message), as_str(message.get("recipient"))
        parts = [*custom_instructions(message), *content_parts(message, self._source, images=role == "user")]
        if role == "assistant" and recipient not in _EVERYONE and answered:
            return [ToolCall(id=node, name=recipient, arguments=tool_arguments(parts))]
        if role == "tool" and call:
            answer = "\n\n".join(part.text for part in parts if isinstance(part, Text))
            return [ToolResult(id=call, content=answer, name=as_str(as_dict(message.get("author")).get("name")))]
        return [part for part in parts if isinstance(part, Media) or (isinstance(part, Text) and part.text.strip())]


def _plain_text(message: dict[str, Any]) -> str:
    """Return the text of a message that has nothing else, as most do; empty for any other message."""
    content = as_dict(message.get("content"))
    if content.get("content_type") != "text" or len(content) != len(("content_type", "parts")):
        return ""
    parts, metadata = content.get("parts"), as_dict(message.get("metadata"))
    if not isinstance(parts, list) or len(parts) != 1 or "user_context_message_data" in metadata:
        return ""
    spoken = message.get("recipient") == "all" and _role(message) in _SPEAKERS
    return parts[0] if spoken and isinstance(parts[0], str) and parts[0].strip() else ""


def _skip_reason(node: object) -> str:
    """Return why a node cannot be imported; empty if it can, or if it has no content."""
    message = as_dict(node).get("message") if isinstance(node, dict) else node
    if not isinstance(message, dict):
        return "" if message is None and node is not None else "is not a node with a message"
    if _role(message) not in _ROLES:
        return f"author.role: must be one of {', '.join(_ROLES)}, not {_role(message)!r}"
    content = message.get("content")
    content_type = as_str(as_dict(content).get("content_type"))
    if content is None or content_type in KNOWN_CONTENT_TYPES or any(content_parts(message, None, images=False)):
        return ""
    return f"has an unknown content_type: {content_type!r}"


def _role(message: dict[str, Any]) -> str:
    return as_str(as_dict(message.get("author")).get("role"))


def _known_role(message: dict[str, Any], parts: list[Part]) -> Any:
    """Return the role of a message. Output of a tool that was not called becomes an assistant message."""
    role = _role(message)
    if role == "tool":
        return "tool" if _has_result(parts) else "assistant"
    return role


def _has_result(parts: list[Part]) -> bool:
    return any(isinstance(part, ToolResult) for part in parts)


def _is_hidden(message: dict[str, Any]) -> bool:
    """Return whether a message has a weight of 0, so that the model did not see it."""
    return message.get("weight") in (0, 0.0) and message.get("weight") is not False


def _metadata(message: dict[str, Any]) -> dict[str, Any]:
    data = as_dict(message.get("metadata"))
    recipient = as_str(message.get("recipient"))
    if not data and recipient in _EVERYONE:
        return {}
    return without_empty(
        model=as_str(data.get("model_slug")),
        visually_hidden=data.get("is_visually_hidden_from_conversation") is True,
        to=recipient if recipient not in _EVERYONE else None,
        files=[as_str(each.get("name")) or as_id(each.get("id")) for each in as_dicts(data.get("attachments"))],
        citations=data.get("citations"),
        content_references=data.get("content_references"),
        finish_details=data.get("finish_details"),
    )


FORMAT: Final = Format(
    name="chatgpt",
    description="ChatGPT exports: the archive or its conversations.json, with all branches",
    recognizes=recognizes,
    read=read,
    reads_entries=True,
)
