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
"""The metadata key of rooms and messages with the rest of their line."""
_UNNAMED: Final = ("", "unused")  # newer versions write this for both names in the head


def recognizes(source: Source) -> bool:
    """Return whether lines are messages or the head of a chat, or the file is a group or SillyTavern's settings."""
    keys = source.keys
    if is_settings_file(source) or is_group_file(source):
        return True
    return source.shape == "lines" and ({"mes", "is_user"} <= keys or "chat_metadata" in keys)


def read(source: Source) -> Iterator[ImportedRecord | Skipped]:
    """Yield the user, the room and its messages. A group is imported with its chats, or by itself if it has none."""
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
    """Yield the room of a group without chats, or why its file cannot be read."""
    entry = source.whole()
    if isinstance(entry, Skipped):
        yield entry
    elif not has_group_chats(source):
        try:
            yield from _empty_group_room(source, as_dict(entry.data))
        except BrimfulError as error:
            yield Skipped(source.name, str(error))


def _is_head(data: object) -> bool:
    return isinstance(data, dict) and "mes" not in data and not {"chat_metadata", "user_name"}.isdisjoint(data)


class _Chat:
    """A chat that is being read."""

    def __init__(self, source: Source, head: dict[str, Any]) -> None:
        self._source = source
        self._group = find_group(source)
        self._head = head or legacy_group_head(self._group, source)
        self._character = _character(source, head)
        self._room = join_id(source.requested_room or self._character or "group", room_name(source.name))
        times = (parse_time(each.get("send_date")) for each in _first_lines(source))
        self._at = parse_time(head.get("create_date")) or next(filter(None, times), source.modified)
        self._ids = OccurrenceIds(self._room)
        self._settings = get_settings(source)
        self._metadata = as_dict(self._head.get("chat_metadata"))
        self._user_persona = self._find_user_persona()
        self._character_name = _first_speaker(source, user=False) or self._character

    def people(self) -> Iterator[ImportedRecord]:
        """Yield the user and the room."""
        if self._user_persona:
            yield from user_once(self._source, self._user_persona)
        members = group_members(self._group)
        yield Room(
            id=self._room,
            name=as_str(self._group.get("name")) or self._character,
            user=self._user_persona.id if self._user_persona else None,
            persona=join_id(self._character) if self._character else group_responder(self._group),
            character=chat_character(self._metadata),
            lorebooks=tuple(chat_books(self._source, as_str(self._metadata.get("world_info")))),
            notes=chat_notes(self._metadata, self._settings, self._character),
            created=self._at,
            metadata={ORIGINAL_KEY: self._head, **without_empty(members=members, group=self._group)},
        )

    def _find_user_persona(self) -> UserPersona | None:
        named = as_str(self._head.get("user_name"))
        mine = [each for each in _first_lines(self._source) if each.get("is_user") is True]
        return find_user_persona(
            self._settings,
            metadata=self._metadata,
            name=_first_speaker(self._source) if named in _UNNAMED else named,
            pictures=[as_str(each.get("force_avatar")) for each in mine],
            character=self._character,
        )

    def _text(self, data: dict[str, Any]) -> str:
        """Return the text of a message with its macros replaced. In a group, `{{char}}` is whoever spoke last."""
        if data.get("is_user") is not True:
            self._character_name = as_str(data.get("name")) or self._character_name
        user = self._user_persona.name if self._user_persona else DEFAULT_USER_NAME
        return expand_macros(data["mes"], char=self._character_name, user=user)

    def message(self, entry: Entry) -> Message | Skipped:
        """Return a message, or why it is skipped."""
        data = entry.data
        if not isinstance(data, dict) or not isinstance(data.get("mes"), str):
            return Skipped(entry.location, "is not a SillyTavern message: it has no text (`mes`)")
        time = parse_time(data.get("send_date"))
        self._at = self._at if time is None else time
        sender, mine = as_str(data.get("name")), data.get("is_user") is True
        read = ("mes", "name") if as_str(data.get("name")) else ("mes",)
        rest = {key: value for key, value in data.items() if key not in read}
        content = self._text(data)
        if content != data["mes"]:
            rest["mes"] = data["mes"]
        try:
            return Message(
                id=self._ids.next(sender, mine, data.get("send_date"), data["mes"]),
                room=self._room,
                content=content,
                sender=sender,
                role="user" if mine else "assistant",
                at=self._at,
                hidden=data.get("is_system") is True,
                metadata={ORIGINAL_KEY: rest},
            )
        except BrimfulError as error:
            return Skipped(entry.location, str(error))


def _empty_group_room(source: Source, group: dict[str, Any]) -> Iterator[ImportedRecord]:
    """Yield the room of a group without messages."""
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
    """Return the character of a chat, from its folder or its head. A group chat has none."""
    parents = source.path.parent.parts
    if parents[-1:] == ("group chats",):
        return ""
    if parents[-2:-1] == ("chats",):
        return parents[-1]
    named = as_str(head.get("character_name"))
    return _first_speaker(source, user=False) if named in _UNNAMED else named


def _first_speaker(source: Source, *, user: bool = True) -> str:
    """Return the name of the first speaker who is, or is not, the user."""
    named = (as_str(each.get("name")) for each in _first_lines(source) if (each.get("is_user") is True) == user)
    return next(filter(None, named), "")


def _first_lines(source: Source) -> Iterator[dict[str, Any]]:
    """Yield the messages in the head of a file."""
    for line in source.head.split(b"\n"):
        if "mes" in (data := parse_object(line)):
            yield data


FORMAT: Final = Format(
    name="sillytavern",
    description="SillyTavern chats with their swipes, with one character or a group",
    recognizes=recognizes,
    read=read,
)


def write_chat_head(room: Room, *, user: str, character: str) -> dict[str, Any]:
    """Return the first line of a chat. The names are used if it was not imported from SillyTavern.

    >>> write_chat_head(Room(id="den"), user="Ada", character="Nova")["character_name"]
    'Nova'
    """
    original = as_dict(room.metadata.get(ORIGINAL_KEY))
    new = {"user_name": user, "character_name": character, "create_date": _iso_time(room.created), "chat_metadata": {}}
    head = original or new
    metadata = as_dict(head.get("chat_metadata"))
    changed = _changed_note(metadata, room.notes) | _changed_character(metadata, room.character)
    return {**head, "chat_metadata": {**metadata, **changed}} if changed else head


def write_chat_line(message: Message) -> dict[str, Any]:
    """Return a message as a line.

    >>> write_chat_line(Message(id="m", room="den", content="Hi", sender="Ada"))["is_user"]
    True
    """
    text = plain_text(message.content)
    original = as_dict(message.metadata.get(ORIGINAL_KEY))
    if not original:
        return {
            "name": message.sender,
            "is_user": message.role == "user",
            "is_system": message.hidden or message.role in ("system", "tool"),
            "send_date": _iso_time(message.at),
            "mes": text,
            "extra": {},
        }
    named = {"name": message.sender} if message.sender else {}
    if message.edited is None:
        return {**named, "mes": text, **original}  # with the text before macros were replaced
    return {**named, **_with_swipe(original, text), "mes": text}


def _changed_note(metadata: dict[str, Any], notes: tuple[Note, ...]) -> dict[str, Any]:
    """Return the fields of a chat's head for its note, if the note was changed."""
    own = next((note for note in notes if note.name == AUTHOR_NOTE), None)
    own = own or next((note for note in notes if not note.name), None)
    if own is None and any(note.name == CHARACTER_NOTE for note in notes):
        return {}  # the note comes from the settings
    return changed_note_head(metadata, own)


def _changed_character(metadata: dict[str, Any], character: Character | None) -> dict[str, Any]:
    """Return the fields of a chat's head for its character, if they were changed."""
    was, now = chat_character(metadata) or Character(), character or Character()
    return {
        key: getattr(now, field)
        for key, field in CHARACTER_OVERRIDES.items()
        if getattr(was, field) != getattr(now, field)
    }


def _with_swipe(original: dict[str, Any], text: str) -> dict[str, Any]:
    """Return the rest of a line, with the text as the selected swipe."""
    swipes, index = original.get("swipes"), original.get("swipe_id")
    if not isinstance(swipes, list) or not isinstance(index, int) or not 0 <= index < len(swipes):
        return original
    return {**original, "swipes": [*swipes[:index], text, *swipes[index + 1 :]]}


def _iso_time(at: float) -> str:
    try:
        return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return ""
