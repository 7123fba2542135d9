"""Claude exports: `conversations.json`, `projects.json` (or one file per project), `memories.json` and `users.json`.

A message names its parent (`parent_message_uuid`), so a conversation may have branches, like ChatGPT's. Tool calls
and their results share a message there; here they become separate messages, as providers require.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

from brimful.core.content import Part, Role, Text, ToolCall, ToolResult
from brimful.errors import BrimfulError
from brimful.formats.ids import Branch, find_message_ids, join_id, split_branches
from brimful.formats.lenient import as_dict, as_dicts, as_id, as_str, message_content, parse_time, without_empty
from brimful.formats.source import Entry, Format, ImportedRecord, Skipped, Source, read_each
from brimful.records import Memory, Message, Persona, Room, User

PREFIX: Final = "claude"
_ROLES: Final[dict[str, Role]] = {"human": "user", "user": "user", "assistant": "assistant", "system": "system"}
_KNOWN_BLOCKS: Final = ("text", "thinking", "tool_use", "tool_result")
_TEXT_BLOCK_FIELDS: Final = {"type", "uuid"}
_PROJECT_FIELDS: Final = ({"prompt_template", "docs"}, {"is_starter_project"}, {"uuid", "docs", "is_private"})


def recognizes(source: Source) -> bool:
    """Return whether there are conversations, projects, memories or accounts of Claude."""
    keys = source.keys
    named = not keys.isdisjoint(("chat_messages", "conversations_memory"))
    return named or {"uuid", "full_name"} <= keys or any(each <= keys for each in _PROJECT_FIELDS)


def read(source: Source) -> Iterator[ImportedRecord | Skipped]:
    """Yield rooms with their messages, projects as personas with memories, memories, and users."""
    return read_each(source, lambda entry: _records(source, entry))


def _records(source: Source, entry: Entry) -> Iterator[ImportedRecord | Skipped]:
    match entry.data:
        case {"chat_messages": list()} as data:
            yield from _Conversation(source, entry.location, data).read()
        case {"conversations_memory": _} | {"project_memories": _}:
            yield from _memories(source, entry.data)
        case {"uuid": str(id), "full_name": _} as data:
            yield User(
                id=join_id(id),
                name=as_str(data["full_name"]),
                metadata=without_empty(email=as_str(data.get("email_address"))),
            )
        case {"uuid": str(id), "name": _} as data:
            yield from _project(source, id, data)
        case _:
            yield Skipped(entry.location, "is not a conversation, project, memory or account of Claude")


def _project(source: Source, id: str, data: dict[str, Any]) -> Iterator[ImportedRecord]:
    """Yield a project as a persona with its instructions, and its documents as memories of the persona."""
    persona = join_id(PREFIX, "project", id)
    yield Persona(
        id=persona,
        name=as_str(data.get("name")),
        prompt=as_str(data.get("prompt_template")),
        metadata=without_empty(description=as_str(data.get("description"))),
    )
    for index, document in enumerate(as_dicts(data.get("docs"))):
        if content := as_str(document.get("content")):
            yield Memory(
                id=join_id(persona, as_id(document.get("uuid")) or index),
                content=content,
                persona=persona,
                source=as_str(document.get("filename")),
                at=parse_time(document.get("created_at")) or source.modified,
            )


def _memories(source: Source, data: dict[str, Any]) -> Iterator[ImportedRecord]:
    """Yield Claude's memories, of the user or of a project, as pinned memories."""
    account = as_id(data.get("account_uuid"))
    user = join_id(account) if account else None
    memories = [(None, data.get("conversations_memory")), *as_dict(data.get("project_memories")).items()]
    for project, content in memories:
        if as_str(content).strip():
            yield Memory(
                id=join_id(PREFIX, "memory", user or "", project or ""),
                content=as_str(content),
                user=user,
                persona=join_id(PREFIX, "project", project) if project else None,
                source=PREFIX,
                pinned=True,
                at=source.modified,
            )


class _Conversation:
    """A conversation: its room, and the rooms of its other branches."""

    def __init__(self, source: Source, location: str, data: dict[str, Any]) -> None:
        self._location = location
        self._data = data
        self._created = parse_time(data.get("created_at")) or source.modified
        own = as_id(data.get("uuid")) or f"{as_str(data.get('name'))}@{self._created}"
        self._room = join_id(source.requested_room or PREFIX, own)

    def read(self) -> Iterator[ImportedRecord | Skipped]:
        """Yield a room with its messages, then one for each other branch."""
        messages = _messages_by_id(self._data["chat_messages"])
        linked = any("parent_message_uuid" in each for _, each in messages.values())
        before = dict(zip(messages, (None, *messages), strict=False))
        parents = {
            id: as_id(each.get("parent_message_uuid")) if linked else before[id] for id, (_, each) in messages.items()
        }
        ordered = sorted(messages, key=lambda each: parse_time(messages[each][1].get("created_at")) or 0.0)
        current = as_id(self._data.get("current_leaf_message_uuid")) or None
        branches = split_branches({id: parents[id] for id in ordered}, current)
        ids = find_message_ids(branches, self._room)
        skipped: set[str] = set()
        for branch in branches:
            yield self._make_room(branch, ids)
            for each in (each for id in branch.nodes for each in self._messages(branch, id, *messages[id])):
                if isinstance(each, Message) or each.location not in skipped:  # it may be in two branches
                    yield each
                if isinstance(each, Skipped):
                    skipped.add(each.location)
        for index, each in enumerate(self._data["chat_messages"]):
            if not isinstance(each, dict):
                yield Skipped(f"{self._location}: chat_messages[{index}]", "is not a message: it must be a JSON object")
            elif messages[as_id(each.get("uuid")) or str(index)][1] != each:
                yield Skipped(f"{self._location}: chat_messages[{index}]", "another message has this id")

    def _make_room(self, branch: Branch, ids: dict[str, str]) -> Room:
        data = self._data
        account = as_id(as_dict(data.get("account")).get("uuid"))
        project = as_id(data.get("project_uuid")) or as_id(as_dict(data.get("project")).get("uuid"))
        return Room(
            id=branch.room(self._room),
            name=as_str(data.get("name")),
            user=join_id(account) if account else None,
            persona=join_id(PREFIX, "project", project) if project else None,
            created=self._created,
            metadata=without_empty(
                summary=as_str(data.get("summary")),
                model=as_str(data.get("model")),
                branch_of=None if branch.start is None else self._room,
                after=None if branch.after is None else ids[branch.after],
                shown=branch.shown,
            ),
        )

    def _messages(self, branch: Branch, id: str, index: int, data: dict[str, Any]) -> Iterator[Message | Skipped]:
        location = f"{self._location}: chat_messages[{index}]"
        role = _ROLES.get(as_str(data.get("sender")))
        if role is None:
            yield Skipped(location, f"sender: must be human or assistant, not {data.get('sender')!r}")
            return
        turns, own, metadata = list(_split_turns(role, data)), branch.id(self._room, id), _metadata(data)
        if metadata and not turns:
            yield Skipped(location, "has no known content")
        for number, (turn_role, parts) in enumerate(turns):
            try:
                yield Message(
                    id=own if number == 0 else join_id(own, number + 1),
                    room=branch.room(self._room),
                    content=message_content(parts),
                    role=turn_role,
                    at=parse_time(data.get("created_at")) or self._created,
                    metadata=metadata if number == 0 else {},
                )
            except BrimfulError as error:
                yield Skipped(location, str(error))


def _metadata(data: dict[str, Any]) -> dict[str, Any]:
    """Return everything of a message but its content."""
    blocks = _blocks(data)
    thoughts = (as_str(each.get("thinking")) for each in blocks if each.get("type") == "thinking")
    attachments = as_dicts(data.get("attachments"))
    return without_empty(
        thoughts="\n\n".join(thoughts),
        citations=[citation for each in blocks for citation in as_dicts(each.get("citations"))],
        attachments=[{key: each[key] for key in each if key != "extracted_content"} for each in attachments],
        files=as_dicts(data.get("files")),
        blocks=[each for each in blocks if each.get("type") not in _KNOWN_BLOCKS and not as_str(each.get("text"))],
        results=[extra for each in blocks if each.get("type") == "tool_result" for extra in _result_extras(each)],
    )


def _messages_by_id(messages: list[Any]) -> dict[str, tuple[int, dict[str, Any]]]:
    """Return messages with their indices, by id; of two with the same id, the first."""
    by_id: dict[str, tuple[int, dict[str, Any]]] = {}
    for index, each in enumerate(messages):
        if isinstance(each, dict):
            by_id.setdefault(as_id(each.get("uuid")) or str(index), (index, each))
    return by_id


def _result_extras(block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the output of a tool other than text, such as titles and addresses of pages, and images."""
    content = [{key: each[key] for key in each if key != "text"} for each in as_dicts(block.get("content"))]
    more = [each for each in content if each.keys() - _TEXT_BLOCK_FIELDS or each.get("type") != "text"]
    if more:
        yield {"tool_use_id": as_str(block.get("tool_use_id")), "content": more}


def _blocks(data: dict[str, Any]) -> list[dict[str, Any]]:
    return as_dicts(data.get("content"))


def _split_turns(role: Role, data: dict[str, Any]) -> Iterator[tuple[Role, list[Part]]]:
    """Yield a message as several with one role each: text and tool calls, then the results of the tools."""
    results = {as_str(block.get("tool_use_id")) for block in _blocks(data) if block.get("type") == "tool_result"}
    parts: list[Part] = []
    answers: list[Part] = []
    for block in _blocks(data):
        if block.get("type") == "tool_result" and any(isinstance(part, ToolCall) for part in parts):
            answers.append(_result(block))
            continue
        if answers:
            yield role, parts
            yield "tool", answers
            parts, answers = [], []
        parts += _block_parts(block, results if role == "assistant" else set())
    if not any(isinstance(part, Text) for part in parts) and not _blocks(data) and as_str(data.get("text")):
        parts.append(Text(text=as_str(data.get("text"))))
    parts += _files(data)
    if parts:
        yield role, parts
    if answers:
        yield "tool", answers


def _block_parts(block: dict[str, Any], answered: set[str]) -> list[Part]:
    kind, id = block.get("type"), as_str(block.get("id"))
    if kind == "tool_use" and id and id in answered:
        return [ToolCall(id=id, name=as_str(block.get("name")), arguments=_json_arguments(block.get("input")))]
    if kind == "tool_use":  # providers reject calls without a result
        return [Text(text=f"[{as_str(block.get('name'))} {_json_arguments(block.get('input'))}]")]
    if kind == "tool_result":
        return [Text(text=_result(block).content)]
    text = as_str(block.get("text"))
    return [Text(text=text)] if text.strip() else []


def _json_arguments(value: Any) -> str:
    return json.dumps(value if isinstance(value, dict) else {"input": value}, ensure_ascii=False)


def _result(block: dict[str, Any]) -> ToolResult:
    content = block.get("content")
    text = as_str(content) or "\n\n".join(map(_item_text, as_dicts(content)))
    return ToolResult(
        id=as_str(block.get("tool_use_id")),
        content=text,
        name=as_str(block.get("name")),
        is_error=block.get("is_error") is True,
    )


def _item_text(item: dict[str, Any]) -> str:
    """Return the text of a part of a result, or its type if it has none."""
    return as_str(item.get("text")) or (f"[{kind}]" if (kind := as_str(item.get("type"))) not in ("", "text") else "")


def _files(data: dict[str, Any]) -> Iterator[Text]:
    """Yield the text of attachments, and the names of files without text."""
    for attachment in as_dicts(data.get("attachments")):
        name, text = as_str(attachment.get("file_name")), as_str(attachment.get("extracted_content"))
        if text or name:
            yield Text(text=f"[file {name or 'pasted'}]" + (f"\n{text}" if text else ""))
    for file in as_dicts(data.get("files")):
        if name := as_str(file.get("file_name")) or as_id(file.get("file_uuid")) or as_id(file.get("uuid")):
            yield Text(text=f"[file {name}]")


FORMAT: Final = Format(
    name="claude",
    description="Claude exports: the archive, or its conversations, projects and memories, with all branches",
    recognizes=recognizes,
    read=read,
)
