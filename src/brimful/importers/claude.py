"""Claude's export: `conversations.json`, `projects.json` (or a file each), `memories.json` and `users.json`.

A message knows its parent (`parent_message_uuid`), so a conversation may have branches, as one of ChatGPT has. Calls of
tools and their results stand in one message, and are parted here as every provider wants them.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

from brimful.core.content import Part, Role, Text, ToolCall, ToolResult
from brimful.errors import BrimfulError
from brimful.importers.branches import Branch, branches, ids_of
from brimful.importers.ids import joined
from brimful.importers.importer import Imported, Importer
from brimful.importers.loose import content_of, kept, mapping, mappings, name, text
from brimful.importers.source import Entry, Skipped, Source
from brimful.importers.times import seconds
from brimful.records import Memory, Message, Persona, Room, User

PREFIX: Final = "claude"
_ROLES: Final[dict[str, Role]] = {"human": "user", "user": "user", "assistant": "assistant", "system": "system"}
_BLOCKS: Final = ("text", "thinking", "tool_use", "tool_result")
_OF_A_TEXT: Final = {"type", "uuid"}
_PROJECT: Final = ({"prompt_template", "docs"}, {"is_starter_project"}, {"uuid", "docs", "is_private"})


def recognises(source: Source) -> bool:
    """Say whether there are chat messages, projects, memories or accounts of Claude."""
    keys = source.keys
    told = not keys.isdisjoint(("chat_messages", "conversations_memory"))
    return told or {"uuid", "full_name"} <= keys or any(each <= keys for each in _PROJECT)


def read(source: Source) -> Iterator[Imported | Skipped]:
    """Yield rooms with their messages, projects as personas with memories, memories, and users."""
    for entry in source.entries():
        if isinstance(entry, Skipped):
            yield entry
            continue
        try:
            yield from _records(source, entry)
        except BrimfulError as error:
            yield Skipped(entry.place, str(error))


def _records(source: Source, entry: Entry) -> Iterator[Imported | Skipped]:
    match entry.data:
        case {"chat_messages": list()} as data:
            yield from _Conversation(source, entry.place, data).read()
        case {"conversations_memory": _} | {"project_memories": _}:
            yield from _memories(source, entry.data)
        case {"uuid": str(id), "full_name": _} as data:
            yield User(
                id=joined(id), name=text(data["full_name"]), metadata=kept(email=text(data.get("email_address")))
            )
        case {"uuid": str(id), "name": _} as data:
            yield from _project(source, id, data)
        case _:
            yield Skipped(entry.place, "is no conversation, project, memory or account of Claude")


def _project(source: Source, id: str, data: dict[str, Any]) -> Iterator[Imported]:
    """Yield a project as a persona that has its instructions, and its documents as memories of it."""
    persona = joined(PREFIX, "project", id)
    yield Persona(
        id=persona,
        name=text(data.get("name")),
        prompt=text(data.get("prompt_template")),
        metadata=kept(description=text(data.get("description"))),
    )
    for at, document in enumerate(mappings(data.get("docs"))):
        if said := text(document.get("content")):
            yield Memory(
                id=joined(persona, name(document.get("uuid")) or at),
                content=said,
                persona=persona,
                source=text(document.get("filename")),
                at=seconds(document.get("created_at")) or source.modified,
            )


def _memories(source: Source, data: dict[str, Any]) -> Iterator[Imported]:
    """Yield what Claude knew in every conversation: it is pinned, for the user or for a project."""
    account = name(data.get("account_uuid"))
    user = joined(account) if account else None
    told = [(None, data.get("conversations_memory")), *mapping(data.get("project_memories")).items()]
    for project, said in told:
        if text(said).strip():
            yield Memory(
                id=joined(PREFIX, "memory", user or "", project or ""),
                content=text(said),
                user=user,
                persona=joined(PREFIX, "project", project) if project else None,
                source=PREFIX,
                pinned=True,
                at=source.modified,
            )


class _Conversation:
    """One conversation: its room, and the rooms of its other branches."""

    def __init__(self, source: Source, place: str, data: dict[str, Any]) -> None:
        self._place = place
        self._data = data
        self._created = seconds(data.get("created_at")) or source.modified
        own = name(data.get("uuid")) or f"{text(data.get('name'))}@{self._created}"
        self._room = joined(source.named or PREFIX, own)

    def read(self) -> Iterator[Imported | Skipped]:
        """Yield a room and its messages, then those of each other branch."""
        said = _by_id(self._data["chat_messages"])
        linked = any("parent_message_uuid" in each for _, each in said.values())
        before = dict(zip(said, (None, *said), strict=False))
        parents = {
            id: name(each.get("parent_message_uuid")) if linked else before[id] for id, (_, each) in said.items()
        }
        made = sorted(said, key=lambda each: seconds(said[each][1].get("created_at")) or 0.0)
        current = name(self._data.get("current_leaf_message_uuid")) or None
        found = branches({id: parents[id] for id in made}, current)
        ids = ids_of(found, self._room)
        skipped: set[str] = set()
        for branch in found:
            yield self._made(branch, ids)
            for each in (each for id in branch.nodes for each in self._messages(branch, id, *said[id])):
                if isinstance(each, Message) or each.place not in skipped:  # two branches may have it
                    yield each
                if isinstance(each, Skipped):
                    skipped.add(each.place)
        for at, each in enumerate(self._data["chat_messages"]):
            if not isinstance(each, dict):
                yield Skipped(f"{self._place}: chat_messages[{at}]", "is no message: it must be a JSON object")
            elif said[name(each.get("uuid")) or str(at)][1] != each:
                yield Skipped(f"{self._place}: chat_messages[{at}]", "another message has its id")

    def _made(self, branch: Branch, ids: dict[str, str]) -> Room:
        data = self._data
        account = name(mapping(data.get("account")).get("uuid"))
        project = name(data.get("project_uuid")) or name(mapping(data.get("project")).get("uuid"))
        return Room(
            id=branch.room(self._room),
            name=text(data.get("name")),
            user=joined(account) if account else None,
            persona=joined(PREFIX, "project", project) if project else None,
            created=self._created,
            metadata=kept(
                summary=text(data.get("summary")),
                model=text(data.get("model")),
                branch_of=None if branch.start is None else self._room,
                after=None if branch.after is None else ids[branch.after],
                shown=branch.shown,
            ),
        )

    def _messages(self, branch: Branch, id: str, at: int, data: dict[str, Any]) -> Iterator[Message | Skipped]:
        place = f"{self._place}: chat_messages[{at}]"
        role = _ROLES.get(text(data.get("sender")))
        if role is None:
            yield Skipped(place, f"sender: must be human or assistant, not {data.get('sender')!r}")
            return
        turns, own, beside = list(_turns(role, data)), branch.id(self._room, id), _beside(data)
        if beside and not turns:
            yield Skipped(place, "says nothing that is known")
        for number, (spoken, parts) in enumerate(turns):
            try:
                yield Message(
                    id=own if number == 0 else joined(own, number + 1),
                    room=branch.room(self._room),
                    content=content_of(parts),
                    role=spoken,
                    at=seconds(data.get("created_at")) or self._created,
                    metadata=beside if number == 0 else {},
                )
            except BrimfulError as error:
                yield Skipped(place, str(error))


def _beside(data: dict[str, Any]) -> dict[str, Any]:
    """Return what a message has besides what it says."""
    blocks = _blocks(data)
    thoughts = (text(each.get("thinking")) for each in blocks if each.get("type") == "thinking")
    attached = mappings(data.get("attachments"))
    return kept(
        thoughts="\n\n".join(thoughts),
        citations=[cited for each in blocks for cited in mappings(each.get("citations"))],
        attachments=[{key: each[key] for key in each if key != "extracted_content"} for each in attached],
        files=mappings(data.get("files")),
        blocks=[each for each in blocks if each.get("type") not in _BLOCKS and not text(each.get("text"))],
        results=[told for each in blocks if each.get("type") == "tool_result" for told in _beside_result(each)],
    )


def _by_id(given: list[Any]) -> dict[str, tuple[int, dict[str, Any]]]:
    """Return messages by their ids, with their places; of two with one id, the first one stands."""
    said: dict[str, tuple[int, dict[str, Any]]] = {}
    for at, each in enumerate(given):
        if isinstance(each, dict):
            said.setdefault(name(each.get("uuid")) or str(at), (at, each))
    return said


def _beside_result(block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what a tool answered besides texts, such as titles and addresses of pages, and whatever it showed."""
    content = [{key: each[key] for key in each if key != "text"} for each in mappings(block.get("content"))]
    more = [each for each in content if each.keys() - _OF_A_TEXT or each.get("type") != "text"]
    if more:
        yield {"tool_use_id": text(block.get("tool_use_id")), "content": more}


def _blocks(data: dict[str, Any]) -> list[dict[str, Any]]:
    return mappings(data.get("content"))


def _turns(role: Role, data: dict[str, Any]) -> Iterator[tuple[Role, list[Part]]]:
    """Yield what a message says as messages of one role each: what was said and asked of tools, what they answered."""
    results = {text(block.get("tool_use_id")) for block in _blocks(data) if block.get("type") == "tool_result"}
    said: list[Part] = []
    answered: list[Part] = []
    for block in _blocks(data):
        if block.get("type") == "tool_result" and any(isinstance(part, ToolCall) for part in said):
            answered.append(_result(block))
            continue
        if answered:
            yield role, said
            yield "tool", answered
            said, answered = [], []
        said += _said(block, results if role == "assistant" else set())
    if not any(isinstance(part, Text) for part in said) and not _blocks(data) and text(data.get("text")):
        said.append(Text(text=text(data.get("text"))))
    said += _files(data)
    if said:
        yield role, said
    if answered:
        yield "tool", answered


def _said(block: dict[str, Any], answered: set[str]) -> list[Part]:
    kind, id = block.get("type"), text(block.get("id"))
    if kind == "tool_use" and id and id in answered:
        return [ToolCall(id=id, name=text(block.get("name")), arguments=_written(block.get("input")))]
    if kind == "tool_use":  # what is never answered cannot be asked of a provider
        return [Text(text=f"[{text(block.get('name'))} {_written(block.get('input'))}]")]
    if kind == "tool_result":
        return [Text(text=_result(block).content)]
    said = text(block.get("text"))
    return [Text(text=said)] if said.strip() else []


def _written(value: Any) -> str:
    return json.dumps(value if isinstance(value, dict) else {"input": value}, ensure_ascii=False)


def _result(block: dict[str, Any]) -> ToolResult:
    content = block.get("content")
    said = text(content) or "\n\n".join(map(_shown, mappings(content)))
    return ToolResult(
        id=text(block.get("tool_use_id")),
        content=said,
        name=text(block.get("name")),
        is_error=block.get("is_error") is True,
    )


def _shown(item: dict[str, Any]) -> str:
    """Return what a part of a result says; of one without a text, a line says what it was."""
    return text(item.get("text")) or (f"[{sort}]" if (sort := text(item.get("type"))) not in ("", "text") else "")


def _files(data: dict[str, Any]) -> Iterator[Text]:
    """Yield the text of attachments, and the names of files whose text the export does not have."""
    for attached in mappings(data.get("attachments")):
        called, said = text(attached.get("file_name")), text(attached.get("extracted_content"))
        if said or called:
            yield Text(text=f"[file {called or 'pasted'}]" + (f"\n{said}" if said else ""))
    for file in mappings(data.get("files")):
        if called := text(file.get("file_name")) or name(file.get("file_uuid")) or name(file.get("uuid")):
            yield Text(text=f"[file {called}]")


IMPORTER: Final = Importer(
    name="claude",
    description="Claude's export: the archive, or its conversations, projects and memories; every branch is kept",
    recognises=recognises,
    read=read,
)
