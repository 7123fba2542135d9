"""ChatGPT's export: `conversations.json`, alone or in the archive that OpenAI sends, with pictures and `user.json`.

A conversation is a tree of nodes (`mapping`, with `parent` and `children`), of which `current_node` ends the branch
that was shown last. What was said first is the room; every other branch is a room of its own (see `branches`).
"""

from collections.abc import Iterator
from typing import Any, Final

from brimful.core.content import Media, Part, Text, ToolCall, ToolResult
from brimful.errors import BrimfulError
from brimful.importers.branches import Branch, branches, ids_of
from brimful.importers.chatgpt_content import SILENT, arguments, instructions, parts_of, thoughts_of
from brimful.importers.ids import joined
from brimful.importers.importer import Imported, Importer
from brimful.importers.loose import content_of, kept, mapping, mappings, name, text
from brimful.importers.source import Entry, Skipped, Source
from brimful.importers.times import seconds
from brimful.records import Message, Room, User

PREFIX: Final = "chatgpt"
_EVERYBODY: Final = ("", "all")
_ROLES: Final = ("system", "user", "assistant", "tool")


def recognises(source: Source) -> bool:
    """Say whether there are conversations with a mapping of nodes, or whose export it is."""
    return {"mapping", "children", "parent"} <= source.keys or {"id", "chatgpt_plus_user"} <= source.keys


def read(source: Source) -> Iterator[Imported | Skipped]:
    """Yield rooms and messages, and the user."""
    for entry in source.entries():
        match entry:
            case Skipped():
                yield entry
            case Entry(data={"mapping": dict(nodes)} as conversation) if nodes:
                yield from _Conversation(source, entry.place, conversation).read(nodes)
            case Entry(data={"chatgpt_plus_user": _, "id": str(id)} as user) if id:
                yield User(id=joined(id), metadata=kept(email=text(user.get("email"))))
            case _:
                yield Skipped(entry.place, "is no conversation: it has no nodes")


class _Conversation:
    """One conversation: its room, and the rooms of its other branches."""

    def __init__(self, source: Source, place: str, data: dict[str, Any]) -> None:
        self._source = source
        self._place = place
        self._data = data
        self._created = seconds(data.get("create_time")) or source.modified
        own = name(data.get("conversation_id")) or name(data.get("id"))
        self._room = joined(source.named or PREFIX, own or f"{text(data.get('title'))}@{self._created}")

    def read(self, nodes: dict[str, Any]) -> Iterator[Imported | Skipped]:
        """Yield a room and its messages, then those of each other branch that says anything."""
        made = sorted(nodes, key=lambda node: seconds(_message(nodes[node]).get("create_time")) or 0.0)
        parents = {node: name(mapping(nodes[node]).get("parent")) or None for node in made}
        found = branches(parents, name(self._data.get("current_node")) or None)
        ids = ids_of(found, self._room)
        for branch in found:
            said = list(self._messages(branch, nodes))
            if branch.start is None or any(isinstance(each, Message) for each in said):
                yield from self._made(branch, ids)
            yield from said
        for node, each in nodes.items():
            if reason := _lost(each):
                yield Skipped(f"{self._place}: mapping.{node}", reason)

    def _made(self, branch: Branch, ids: dict[str, str]) -> Iterator[Room | Skipped]:
        data = self._data
        beside = kept(
            model=text(data.get("default_model_slug")),
            gizmo=text(data.get("gizmo_id")),
            archived=data.get("is_archived") is True,
            branch_of=None if branch.start is None else self._room,
            after=None if branch.after is None else ids[branch.after],
            shown=branch.shown,
        )
        user = name(mapping(self._source.beside("user.json")).get("id"))
        try:
            yield Room(
                id=branch.room(self._room),
                name=text(data.get("title")),
                user=joined(user) if user else None,
                created=self._created,
                metadata=beside,
            )
        except BrimfulError as error:
            yield Skipped(self._place, str(error))

    def _messages(self, branch: Branch, nodes: dict[str, Any]) -> Iterator[Message | Skipped]:
        at, thoughts, call = self._created, list[str](), ""
        for node, following in zip(branch.nodes, (*branch.nodes[1:], ""), strict=True):
            message = _message(nodes[node])
            at = seconds(message.get("create_time")) or at
            thoughts += filter(None, [thoughts_of(message)])
            answered = _role(_message(nodes.get(following))) == "tool"
            parts = self._parts(node, message, answered=answered, call=call)
            call = next((part.id for part in parts if isinstance(part, ToolCall)), "")
            if not parts or _role(message) not in _ROLES:
                continue
            try:
                yield Message(
                    id=branch.id(self._room, node),
                    room=branch.room(self._room),
                    content=content_of(parts),
                    sender=text(mapping(message.get("author")).get("name")),
                    role=_spoken_as(message, parts),
                    at=at,
                    metadata={**_beside(message), **kept(thoughts="\n\n".join(thoughts))},
                )
            except BrimfulError as error:
                yield Skipped(f"{self._place}: mapping.{node}", str(error))
            thoughts = []
        if thoughts:
            yield Skipped(f"{self._place}: mapping.{branch.nodes[-1]}", "was thought, and nothing was said after it")

    def _parts(self, node: str, message: dict[str, Any], *, answered: bool, call: str) -> list[Part]:
        """Return what a node says: a call where a tool answers it, a result where it answers a call."""
        role, recipient = _role(message), text(message.get("recipient"))
        said = [*instructions(message), *parts_of(message, self._source, pictures=role == "user")]
        if role == "assistant" and recipient not in _EVERYBODY and answered:
            return [ToolCall(id=node, name=recipient, arguments=arguments(said))]
        if role == "tool" and call:
            answer = "\n\n".join(part.text for part in said if isinstance(part, Text))
            return [ToolResult(id=call, content=answer, name=text(mapping(message.get("author")).get("name")))]
        return [part for part in said if isinstance(part, Media) or (isinstance(part, Text) and part.text.strip())]


def _message(node: object) -> dict[str, Any]:
    return mapping(mapping(node).get("message"))


def _lost(node: object) -> str:
    """Return why nothing can be told of a node; empty if it is told, or has nothing to tell."""
    message = mapping(node).get("message") if isinstance(node, dict) else node
    if not isinstance(message, dict):
        return "" if message is None and node is not None else "is no node with a message"
    if _role(message) not in _ROLES:
        return f"author.role: must be one of {', '.join(_ROLES)}, not {_role(message)!r}"
    content = message.get("content")
    sort = text(mapping(content).get("content_type"))
    if content is None or sort in SILENT or any(parts_of(message, None, pictures=False)):
        return ""
    return f"says nothing that is known: its content_type is {sort!r}"


def _role(message: dict[str, Any]) -> str:
    return text(mapping(message.get("author")).get("role"))


def _spoken_as(message: dict[str, Any], parts: list[Part]) -> Any:
    """Return a role that we know: what a tool shows without having been called is told by the assistant."""
    role = _role(message)
    if role == "tool":
        return "tool" if any(isinstance(part, ToolResult) for part in parts) else "assistant"
    return role


def _beside(message: dict[str, Any]) -> dict[str, Any]:
    told = mapping(message.get("metadata"))
    recipient = text(message.get("recipient"))
    return kept(
        model=text(told.get("model_slug")),
        hidden=message.get("weight") in (0, 0.0) and message.get("weight") is not False,
        visually_hidden=told.get("is_visually_hidden_from_conversation") is True,
        to=recipient if recipient not in _EVERYBODY else None,
        files=[text(each.get("name")) or name(each.get("id")) for each in mappings(told.get("attachments"))],
        citations=told.get("citations"),
        content_references=told.get("content_references"),
        finish_details=told.get("finish_details"),
    )


IMPORTER: Final = Importer(
    name="chatgpt",
    description="ChatGPT's export: the archive, or its conversations.json; every branch is kept",
    recognises=recognises,
    read=read,
)
