"""SillyTavern's chats: JSON lines, of which the first is the chat's head and each other one a message.

In its folder, a chat belongs to the character after whom its own folder is named; a group's chat lies in `group chats`
and is named by a file in `groups`. All that a line says besides stays with the message (`swipes`, `extra`, …), so that
it can be given back. A message that is hidden from the model (`is_system`) is kept, and stays out of contexts.
"""

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any, Final

from brimful.errors import BrimfulError
from brimful.importers.ids import Counted, joined
from brimful.importers.importer import Imported, Importer
from brimful.importers.loose import kept, mapping, parsed, text, texts
from brimful.importers.source import Entry, Skipped, Source, room_name
from brimful.importers.tavern import group_of, is_group, is_settings, open_books, people_of
from brimful.importers.times import seconds
from brimful.records import Message, Room, User

KEPT: Final = "sillytavern"
"""Under which key of a room's and of a message's metadata the rest of a line is kept."""
_NOBODY: Final = ("", "unused")  # what newer versions write for both names in the head


def recognises(source: Source) -> bool:
    """Say whether lines have what SillyTavern's messages have, or the head of a chat; or it is a file about chats."""
    keys = source.keys
    if is_settings(source) or is_group(source):
        return True
    return source.shape == "lines" and ({"mes", "is_user"} <= keys or "chat_metadata" in keys)


def read(source: Source) -> Iterator[Imported | Skipped]:
    """Yield the user, the room and its messages. What a group is, its chats tell."""
    if is_settings(source):
        yield from people_of(source)
        return
    if is_group(source):
        yield from filter(None, [_damage(source)])
        return
    entries = source.entries()
    first = next(entries, None)
    head = first.data if isinstance(first, Entry) and _is_head(first.data) else {}
    try:
        chat = _Chat(source, head)
        yield from chat.people()
    except BrimfulError as error:
        yield Skipped(source.name, str(error))
        return
    if first is not None and not head:
        yield chat.message(first) if isinstance(first, Entry) else first
    for entry in entries:
        yield chat.message(entry) if isinstance(entry, Entry) else entry


def _damage(source: Source) -> Skipped | None:
    """Return why a file that is of use to others cannot be read, if so."""
    found = source.whole()
    return found if isinstance(found, Skipped) else None


def _is_head(data: object) -> bool:
    return isinstance(data, dict) and "mes" not in data and not {"chat_metadata", "user_name"}.isdisjoint(data)


class _Chat:
    """One chat as it is read."""

    def __init__(self, source: Source, head: dict[str, Any]) -> None:
        self._source = source
        self._head = head
        self._group = group_of(source)
        self._character = _character(source, head)
        self._room = joined(source.named or self._character or "group", room_name(source.name))
        begun = (seconds(each.get("send_date")) for each in _first_lines(source))
        self._at = seconds(head.get("create_date")) or next(filter(None, begun), source.modified)
        self._ids = Counted(self._room)

    def people(self) -> Iterator[Imported]:
        """Yield whose chat it is, and where it takes place."""
        user = text(self._head.get("user_name"))
        user = _speaker(self._source) if user in _NOBODY else user
        if user and self._source.first(f"user {user}"):
            yield User(id=joined(user), name=user)
        members = [joined(PurePosixPath(member).stem) for member in texts(self._group.get("members"))]
        metadata = mapping(self._head.get("chat_metadata"))
        yield Room(
            id=self._room,
            name=text(self._group.get("name")) or self._character,
            user=joined(user) if user else None,
            persona=joined(self._character) if self._character else next(iter(members), None),
            lorebooks=tuple(open_books(self._source, text(metadata.get("world_info")))),
            created=self._at,
            metadata={KEPT: self._head, **kept(members=members, group=self._group)},
        )

    def message(self, entry: Entry) -> Message | Skipped:
        """Return a message, or why it is none."""
        data = entry.data
        if not isinstance(data, dict) or not isinstance(data.get("mes"), str):
            return Skipped(entry.place, "is no message of SillyTavern: it has no text (`mes`)")
        given = seconds(data.get("send_date"))
        self._at = self._at if given is None else given
        sender, mine = text(data.get("name")), data.get("is_user") is True
        hidden = {"hidden": True} if data.get("is_system") is True else {}
        told = ("mes", "name") if text(data.get("name")) else ("mes",)
        rest = {key: value for key, value in data.items() if key not in told}
        try:
            return Message(
                id=self._ids.next(sender, mine, data.get("send_date"), data["mes"]),
                room=self._room,
                content=data["mes"],
                sender=sender,
                role="user" if mine else "assistant",
                at=self._at,
                metadata={KEPT: rest, **hidden},
            )
        except BrimfulError as error:
            return Skipped(entry.place, str(error))


def _character(source: Source, head: dict[str, Any]) -> str:
    """Return the character of a chat: its folder is named after it, or its head names it. A group has none."""
    parents = source.path.parent.parts
    if parents[-1:] == ("group chats",):
        return ""
    if parents[-2:-1] == ("chats",):
        return parents[-1]
    named = text(head.get("character_name"))
    return _speaker(source, user=False) if named in _NOBODY else named


def _speaker(source: Source, *, user: bool = True) -> str:
    """Return the first name in the head of a file that is the user's, or that is not."""
    named = (text(each.get("name")) for each in _first_lines(source) if (each.get("is_user") is True) == user)
    return next(filter(None, named), "")


def _first_lines(source: Source) -> Iterator[dict[str, Any]]:
    """Yield the messages in the head of a file."""
    for line in source.head.split(b"\n"):
        if "mes" in (data := parsed(line)):
            yield data


IMPORTER: Final = Importer(
    name="sillytavern",
    description="a chat of SillyTavern, with its swipes, of one character or of a group",
    recognises=recognises,
    read=read,
)
