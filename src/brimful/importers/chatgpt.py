"""ChatGPT's export: `conversations.json`, alone or in the archive that OpenAI sends, with pictures and `user.json`.

A conversation is a tree of nodes (`mapping`, with `parent` and `children`), of which `current_node` ends the branch
that was shown last. That branch is the room; every other one is a room of its own with what was said only there.
"""

from collections.abc import Iterator
from typing import Any, Final

from brimful.core.content import Media, Part, Text, ToolCall, ToolResult
from brimful.errors import BrimfulError
from brimful.importers.branches import Branch, branches
from brimful.importers.chatgpt_content import arguments, instructions, parts_of, thoughts_of
from brimful.importers.ids import joined
from brimful.importers.importer import Imported, Importer
from brimful.importers.loose import content_of, kept, mapping, mappings, name, text
from brimful.importers.source import Entry, Skipped, Source
from brimful.importers.times import seconds
from brimful.records import Message, Room, User

PREFIX: Final = "chatgpt"
_EVERYBODY: Final = ("", "all")


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
        parents = {node: name(mapping(each).get("parent")) or None for node, each in nodes.items()}
        for number, branch in enumerate(branches(parents, name(self._data.get("current_node")) or None)):
            room = self._room if number == 0 else joined(self._room, branch.nodes[0])
            said = list(self._messages(room, branch, nodes))
            if said or number == 0:
                yield from self._made(room, branch, main=number == 0)
                yield from said

    def _made(self, room: str, branch: Branch, *, main: bool) -> Iterator[Room | Skipped]:
        data = self._data
        beside = kept(
            model=text(data.get("default_model_slug")),
            gizmo=text(data.get("gizmo_id")),
            archived=data.get("is_archived") is True,
            branch_of=None if main else self._room,
            after=None if main or branch.after is None else joined(self._room, branch.after),
        )
        user = name(mapping(self._source.beside("user.json")).get("id"))
        try:
            yield Room(
                id=room,
                name=text(data.get("title")),
                user=joined(user) if user else None,
                created=self._created,
                metadata=beside,
            )
        except BrimfulError as error:
            yield Skipped(self._place, str(error))

    def _messages(self, room: str, branch: Branch, nodes: dict[str, Any]) -> Iterator[Message | Skipped]:
        at, thoughts, call = self._created, "", ""
        for node, following in zip(branch.nodes, (*branch.nodes[1:], ""), strict=True):
            message = mapping(mapping(nodes[node]).get("message"))
            at = seconds(message.get("create_time")) or at
            thoughts = thoughts_of(message) or thoughts
            answered = _role(mapping(mapping(nodes.get(following)).get("message"))) == "tool"
            parts = self._parts(node, message, answered=answered, call=call)
            call = next((part.id for part in parts if isinstance(part, ToolCall)), "")
            if not parts:
                continue
            try:
                yield Message(
                    id=joined(self._room, node),
                    room=room,
                    content=content_of(parts),
                    sender=text(mapping(message.get("author")).get("name")),
                    role=_spoken_as(message, parts),
                    at=at,
                    metadata={**_beside(message), **kept(thoughts=thoughts)},
                )
            except BrimfulError as error:
                yield Skipped(f"{self._place}: mapping.{node}", str(error))
            thoughts = ""

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
    )


IMPORTER: Final = Importer(
    name="chatgpt",
    description="ChatGPT's export: the archive, or its conversations.json; every branch is kept",
    recognises=recognises,
    read=read,
)
