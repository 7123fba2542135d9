"""SillyTavern chats: JSON lines, the first of which is the chat's head and every other one a message.

In SillyTavern's data folder, a chat belongs to the character that its folder is named after; a group chat lies in
`group chats` and is named by a file in `groups`. Everything else in a line (`swipes`, `extra`, …) is stored in the
message's metadata, so that it can be exported again. A message that is hidden from the model (`is_system`) is stored,
but left out of contexts.

Macros such as `{{user}}` are replaced on import rather than in prompts: the names are known now, search finds them,
and rooms of other programs may contain a literal `{{user}}`. The original text is stored with the message.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from brimful.errors import BrimfulError
from brimful.formats.ids import OccurrenceIds, join_id
from brimful.formats.lenient import as_dict, as_str, parse_object, parse_time, without_empty
from brimful.formats.sillytavern_folder import (
    AUTHOR_NOTE,
    CHARACTER_NOTE,
    CHARACTER_OVERRIDES,
    UserPersona,
    changed_note_head,
    chat_books,
    chat_character,
    chat_notes,
    find_group,
    find_user_persona,
    get_settings,
    group_members,
    group_responder,
    has_group_chats,
    is_group_file,
    is_settings_file,
    legacy_group_head,
    read_user_personas,
    user_once,
)
from brimful.formats.source import Entry, Format, ImportedRecord, Skipped, Source, room_name
from brimful.packagers.records import plain_text
from brimful.records import Message, Note, Room
from brimful.records.character import DEFAULT_USER_NAME, Character, expand_macros

ORIGINAL_KEY: Final = "sillytavern"
"""Under which key of a room's and of a message's metadata the rest of a line is kept."""
_UNNAMED: Final = ("", "unused")  # what newer versions write for both names in the head


def recognizes(source: Source) -> bool:
    """Say whether lines have what SillyTavern's messages have, or the head of a chat; or it is a file about chats."""
    keys = source.keys
    if is_settings_file(source) or is_group_file(source):
        return True
    return source.shape == "lines" and ({"mes", "is_user"} <= keys or "chat_metadata" in keys)


def read(source: Source) -> Iterator[ImportedRecord | Skipped]:
    """Yield the user, the room and its messages. What a group is, its chats tell; without one, it is a room alone."""
    if is_settings_file(source):
        yield from read_user_personas(source)
        return
    if is_group_file(source):
        yield from _read_group(source)
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


def _read_group(source: Source) -> Iterator[ImportedRecord | Skipped]:
    """Yield what no chat of a group tells, or why its file cannot be read."""
    found = source.whole()
    if isinstance(found, Skipped):
        yield found
    elif not has_group_chats(source):
        try:
            yield from _empty_group_room(source, as_dict(found.data))
        except BrimfulError as error:
            yield Skipped(source.name, str(error))


def _is_head(data: object) -> bool:
    return isinstance(data, dict) and "mes" not in data and not {"chat_metadata", "user_name"}.isdisjoint(data)


class _Chat:
    """One chat as it is read."""

    def __init__(self, source: Source, head: dict[str, Any]) -> None:
        self._source = source
        self._group = find_group(source)
        self._head = head or legacy_group_head(self._group, source)
        self._character = _character(source, head)
        self._room = join_id(source.requested_room or self._character or "group", room_name(source.name))
        begun = (parse_time(each.get("send_date")) for each in _first_lines(source))
        self._at = parse_time(head.get("create_date")) or next(filter(None, begun), source.modified)
        self._ids = OccurrenceIds(self._room)
        self._settings = get_settings(source)
        self._metadata = as_dict(self._head.get("chat_metadata"))
        self._player = self._who_plays()
        self._answers = _first_speaker(source, user=False) or self._character

    def people(self) -> Iterator[ImportedRecord]:
        """Yield whose chat it is, and where it takes place."""
        if self._player:
            yield from user_once(self._source, self._player)
        members = group_members(self._group)
        yield Room(
            id=self._room,
            name=as_str(self._group.get("name")) or self._character,
            user=self._player.id if self._player else None,
            persona=join_id(self._character) if self._character else group_responder(self._group),
            character=chat_character(self._metadata),
            lorebooks=tuple(chat_books(self._source, as_str(self._metadata.get("world_info")))),
            notes=chat_notes(self._metadata, self._settings, self._character),
            created=self._at,
            metadata={ORIGINAL_KEY: self._head, **without_empty(members=members, group=self._group)},
        )

    def _who_plays(self) -> UserPersona | None:
        named = as_str(self._head.get("user_name"))
        mine = [each for each in _first_lines(self._source) if each.get("is_user") is True]
        return find_user_persona(
            self._settings,
            metadata=self._metadata,
            name=_first_speaker(self._source) if named in _UNNAMED else named,
            pictures=[as_str(each.get("force_avatar")) for each in mine],
            character=self._character,
        )

    def _said(self, data: dict[str, Any]) -> str:
        """Return a message with the names that it asks for: who speaks in a group is whoever spoke last."""
        if data.get("is_user") is not True:
            self._answers = as_str(data.get("name")) or self._answers
        return expand_macros(
            data["mes"], char=self._answers, user=self._player.name if self._player else DEFAULT_USER_NAME
        )

    def message(self, entry: Entry) -> Message | Skipped:
        """Return a message, or why it is none."""
        data = entry.data
        if not isinstance(data, dict) or not isinstance(data.get("mes"), str):
            return Skipped(entry.place, "is no message of SillyTavern: it has no text (`mes`)")
        given = parse_time(data.get("send_date"))
        self._at = self._at if given is None else given
        sender, mine = as_str(data.get("name")), data.get("is_user") is True
        hidden = {"hidden": True} if data.get("is_system") is True else {}
        told = ("mes", "name") if as_str(data.get("name")) else ("mes",)
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
                metadata={ORIGINAL_KEY: rest, **hidden},
            )
        except BrimfulError as error:
            return Skipped(entry.place, str(error))


def _empty_group_room(source: Source, group: dict[str, Any]) -> Iterator[ImportedRecord]:
    """Yield the room of a group in which nobody spoke yet: that of the chat that it would begin."""
    members, settings, metadata = group_members(group), get_settings(source), as_dict(group.get("chat_metadata"))
    player = find_user_persona(settings, metadata=metadata, name="", pictures=(), character="")
    if player:
        yield from user_once(source, player)
    chat = as_str(group.get("chat_id")) or as_str(group.get("id")) or room_name(source.name)
    yield Room(
        id=join_id(source.requested_room or "group", chat),
        name=as_str(group.get("name")),
        user=player.id if player else None,
        persona=group_responder(group),
        character=chat_character(metadata),
        lorebooks=tuple(chat_books(source, as_str(metadata.get("world_info")))),
        notes=chat_notes(metadata, settings, ""),
        created=source.modified,
        metadata=without_empty(members=members, group=group),
    )


def _character(source: Source, head: dict[str, Any]) -> str:
    """Return the character of a chat: its folder is named after it, or its head names it. A group has none."""
    parents = source.path.parent.parts
    if parents[-1:] == ("group chats",):
        return ""
    if parents[-2:-1] == ("chats",):
        return parents[-1]
    named = as_str(head.get("character_name"))
    return _first_speaker(source, user=False) if named in _UNNAMED else named


def _first_speaker(source: Source, *, user: bool = True) -> str:
    """Return the first name in the head of a file that is the user's, or that is not."""
    named = (as_str(each.get("name")) for each in _first_lines(source) if (each.get("is_user") is True) == user)
    return next(filter(None, named), "")


def _first_lines(source: Source) -> Iterator[dict[str, Any]]:
    """Yield the messages in the head of a file."""
    for line in source.head.split(b"\n"):
        if "mes" in (data := parse_object(line)):
            yield data


FORMAT: Final = Format(
    name="sillytavern",
    description="a chat of SillyTavern, with its swipes, of one character or of a group",
    recognizes=recognizes,
    read=read,
)


def write_chat_head(room: Room, *, user: str, character: str) -> dict[str, Any]:
    """Return the first line of a chat; the names are those of the two who talk.

    >>> write_chat_head(Room(id="den"), user="Ada", character="Nova")["character_name"]
    'Nova'
    """
    kept = as_dict(room.metadata.get(ORIGINAL_KEY))
    made = {"user_name": user, "character_name": character, "create_date": _iso_time(room.created), "chat_metadata": {}}
    head = kept or made
    said = as_dict(head.get("chat_metadata"))
    changed = _changed_note(said, room.notes) | _changed_character(said, room.character)
    return {**head, "chat_metadata": {**said, **changed}} if changed else head


def write_chat_line(message: Message) -> dict[str, Any]:
    """Return a message as a line.

    >>> write_chat_line(Message(id="m", room="den", content="Hi", sender="Ada"))["is_user"]
    True
    """
    said = plain_text(message.content)
    kept = as_dict(message.metadata.get(ORIGINAL_KEY))
    if not kept:
        return {
            "name": message.sender,
            "is_user": message.role == "user",
            "is_system": message.hidden or message.role in ("system", "tool"),
            "send_date": _iso_time(message.at),
            "mes": said,
            "extra": {},
        }
    named = {"name": message.sender} if message.sender else {}
    if message.edited is None:
        return {**named, "mes": said, **kept}  # what was said before names were put in, if any were
    return {**named, **_with_swipe(kept, said), "mes": said}


def _changed_note(metadata: dict[str, Any], notes: tuple[Note, ...]) -> dict[str, Any]:
    """Return what a chat's head has to say of its note, if that was changed here."""
    own = next((note for note in notes if note.name == AUTHOR_NOTE), None)
    own = own or next((note for note in notes if not note.name), None)
    if own is None and any(note.name == CHARACTER_NOTE for note in notes):
        return {}  # settings have one in its place
    return changed_note_head(metadata, own)


def _changed_character(metadata: dict[str, Any], character: Character | None) -> dict[str, Any]:
    """Return what a chat's head has to say of its character, if that was changed here."""
    was, now = chat_character(metadata) or Character(), character or Character()
    told = {theirs: (getattr(was, ours), getattr(now, ours)) for theirs, ours in CHARACTER_OVERRIDES.items()}
    return {theirs: after for theirs, (before, after) in told.items() if before != after}


def _with_swipe(kept: dict[str, Any], said: str) -> dict[str, Any]:
    """Return the rest of a line, in which the swipe that is shown says what the message says now."""
    swipes, at = kept.get("swipes"), kept.get("swipe_id")
    if not isinstance(swipes, list) or not isinstance(at, int) or not 0 <= at < len(swipes):
        return kept
    return {**kept, "swipes": [*swipes[:at], said, *swipes[at + 1 :]]}


def _iso_time(at: float) -> str:
    try:
        return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return ""
