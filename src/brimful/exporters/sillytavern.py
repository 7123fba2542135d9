"""A room → the lines of a chat of SillyTavern. What came from one says again all that it said."""

from datetime import UTC, datetime
from typing import Any

from brimful.character import Character
from brimful.importers.loose import mapping
from brimful.importers.sillytavern import KEPT
from brimful.importers.tavern import OVERRIDES, cast_of
from brimful.importers.tavern_notes import AUTHOR, CHARACTER, head_with
from brimful.packagers.stored import plain_text
from brimful.records import Message, Note, Room


def head_of(room: Room, *, user: str, character: str) -> dict[str, Any]:
    """Return the first line of a chat; the names are those of the two who talk.

    >>> head_of(Room(id="den"), user="Ada", character="Nova")["character_name"]
    'Nova'
    """
    kept = mapping(room.metadata.get(KEPT))
    made = {"user_name": user, "character_name": character, "create_date": _moment(room.created), "chat_metadata": {}}
    head = kept or made
    said = mapping(head.get("chat_metadata"))
    changed = _changed(said, room.notes) | _recast(said, room.character)
    return {**head, "chat_metadata": {**said, **changed}} if changed else head


def line_of(message: Message) -> dict[str, Any]:
    """Return a message as a line.

    >>> line_of(Message(id="m", room="den", content="Hi", sender="Ada"))["is_user"]
    True
    """
    said = plain_text(message.content)
    kept = mapping(message.metadata.get(KEPT))
    if not kept:
        return {
            "name": message.sender,
            "is_user": message.role == "user",
            "is_system": message.hidden or message.role in ("system", "tool"),
            "send_date": _moment(message.at),
            "mes": said,
            "extra": {},
        }
    named = {"name": message.sender} if message.sender else {}
    if message.edited is None:
        return {**named, "mes": said, **kept}  # what was said before names were put in, if any were
    return {**named, **_swiped(kept, said), "mes": said}


def _changed(metadata: dict[str, Any], notes: tuple[Note, ...]) -> dict[str, Any]:
    """Return what a chat's head has to say of its note, if that was changed here."""
    own = next((note for note in notes if note.name == AUTHOR), None)
    own = own or next((note for note in notes if not note.name), None)
    if own is None and any(note.name == CHARACTER for note in notes):
        return {}  # settings have one in its place
    return head_with(metadata, own)


def _recast(metadata: dict[str, Any], character: Character | None) -> dict[str, Any]:
    """Return what a chat's head has to say of its character, if that was changed here."""
    was, now = cast_of(metadata) or Character(), character or Character()
    told = {theirs: (getattr(was, ours), getattr(now, ours)) for theirs, ours in OVERRIDES.items()}
    return {theirs: after for theirs, (before, after) in told.items() if before != after}


def _swiped(kept: dict[str, Any], said: str) -> dict[str, Any]:
    """Return the rest of a line, in which the swipe that is shown says what the message says now."""
    swipes, at = kept.get("swipes"), kept.get("swipe_id")
    if not isinstance(swipes, list) or not isinstance(at, int) or not 0 <= at < len(swipes):
        return kept
    return {**kept, "swipes": [*swipes[:at], said, *swipes[at + 1 :]]}


def _moment(at: float) -> str:
    try:
        return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return ""
