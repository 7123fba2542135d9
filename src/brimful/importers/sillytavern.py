"""SillyTavern's chats: JSON lines, of which the first is the chat's head and each other one a message.

In its folder, a chat belongs to the character after whom its own folder is named; a group's chat lies in `group chats`
and is named by a file in `groups`. All that a line says besides stays with the message (`swipes`, `extra`, …), so that
it can be given back. A message that is hidden from the model (`is_system`) is kept, and stays out of contexts.

Names are put where messages ask for them (`{{user}}`), here and not in prompts: who is who is known now, a search finds
them by their names, and a room of another program may speak of `{{user}}` and mean it. The text as it was stays with
the message.
"""

from collections.abc import Iterator
from typing import Any, Final

from brimful.character import SOMEBODY, with_names
from brimful.errors import BrimfulError
from brimful.importers.ids import Counted, joined
from brimful.importers.importer import Imported, Importer
from brimful.importers.loose import kept, mapping, parsed, text
from brimful.importers.source import Entry, Skipped, Source, room_name
from brimful.importers.tavern import (
    answerer_of,
    cast_of,
    group_of,
    has_chats,
    head_told_by,
    introduced,
    is_group,
    is_settings,
    members_of,
    open_books,
    people_of,
    settings_of,
)
from brimful.importers.tavern_notes import notes_of_chat
from brimful.importers.tavern_people import Player, player_of
from brimful.importers.times import seconds
from brimful.records import Message, Room

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
    """Yield the user, the room and its messages. What a group is, its chats tell; without one, it is a room alone."""
    if is_settings(source):
        yield from people_of(source)
        return
    if is_group(source):
        yield from _group(source)
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


def _group(source: Source) -> Iterator[Imported | Skipped]:
    """Yield what no chat of a group tells, or why its file cannot be read."""
    found = source.whole()
    if isinstance(found, Skipped):
        yield found
    elif not has_chats(source):
        try:
            yield from _meeting(source, mapping(found.data))
        except BrimfulError as error:
            yield Skipped(source.name, str(error))


def _is_head(data: object) -> bool:
    return isinstance(data, dict) and "mes" not in data and not {"chat_metadata", "user_name"}.isdisjoint(data)


class _Chat:
    """One chat as it is read."""

    def __init__(self, source: Source, head: dict[str, Any]) -> None:
        self._source = source
        self._group = group_of(source)
        self._head = head or head_told_by(self._group, source)
        self._character = _character(source, head)
        self._room = joined(source.named or self._character or "group", room_name(source.name))
        begun = (seconds(each.get("send_date")) for each in _first_lines(source))
        self._at = seconds(head.get("create_date")) or next(filter(None, begun), source.modified)
        self._ids = Counted(self._room)
        self._settings = settings_of(source)
        self._metadata = mapping(self._head.get("chat_metadata"))
        self._player = self._who_plays()
        self._answers = _speaker(source, user=False) or self._character

    def people(self) -> Iterator[Imported]:
        """Yield whose chat it is, and where it takes place."""
        if self._player:
            yield from introduced(self._source, self._player)
        members = members_of(self._group)
        yield Room(
            id=self._room,
            name=text(self._group.get("name")) or self._character,
            user=self._player.id if self._player else None,
            persona=joined(self._character) if self._character else answerer_of(self._group),
            character=cast_of(self._metadata),
            lorebooks=tuple(open_books(self._source, text(self._metadata.get("world_info")))),
            notes=notes_of_chat(self._metadata, self._settings, self._character),
            created=self._at,
            metadata={KEPT: self._head, **kept(members=members, group=self._group)},
        )

    def _who_plays(self) -> Player | None:
        named = text(self._head.get("user_name"))
        mine = [each for each in _first_lines(self._source) if each.get("is_user") is True]
        return player_of(
            self._settings,
            metadata=self._metadata,
            name=_speaker(self._source) if named in _NOBODY else named,
            pictures=[text(each.get("force_avatar")) for each in mine],
            character=self._character,
        )

    def _said(self, data: dict[str, Any]) -> str:
        """Return a message with the names that it asks for: who speaks in a group is whoever spoke last."""
        if data.get("is_user") is not True:
            self._answers = text(data.get("name")) or self._answers
        return with_names(data["mes"], char=self._answers, user=self._player.name if self._player else SOMEBODY)

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
        said = self._said(data)
        if said != data["mes"]:
            rest["mes"] = data["mes"]
        try:
            return Message(
                id=self._ids.next(sender, mine, data.get("send_date"), data["mes"]),
                room=self._room,
                content=said,
                sender=sender,
                role="user" if mine else "assistant",
                at=self._at,
                metadata={KEPT: rest, **hidden},
            )
        except BrimfulError as error:
            return Skipped(entry.place, str(error))


def _meeting(source: Source, group: dict[str, Any]) -> Iterator[Imported]:
    """Yield the room of a group in which nobody spoke yet: that of the chat that it would begin."""
    members, settings, metadata = members_of(group), settings_of(source), mapping(group.get("chat_metadata"))
    player = player_of(settings, metadata=metadata, name="", pictures=(), character="")
    if player:
        yield from introduced(source, player)
    chat = text(group.get("chat_id")) or text(group.get("id")) or room_name(source.name)
    yield Room(
        id=joined(source.named or "group", chat),
        name=text(group.get("name")),
        user=player.id if player else None,
        persona=answerer_of(group),
        character=cast_of(metadata),
        lorebooks=tuple(open_books(source, text(metadata.get("world_info")))),
        notes=notes_of_chat(metadata, settings, ""),
        created=source.modified,
        metadata=kept(members=members, group=group),
    )


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
