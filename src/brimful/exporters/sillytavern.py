"""A room → the lines of a chat of SillyTavern. What came from one says again all that it said."""

from datetime import UTC, datetime
from typing import Any

from brimful.importers.loose import mapping
from brimful.importers.sillytavern import KEPT
from brimful.packagers.stored import plain_text
from brimful.records import Message, Room


def head_of(room: Room, *, user: str, character: str) -> dict[str, Any]:
    """Return the first line of a chat; the names are those of the two who talk.

    >>> head_of(Room(id="den"), user="Ada", character="Nova")["character_name"]
    'Nova'
    """
    kept = mapping(room.metadata.get(KEPT))
    if kept:
        return kept
    made = {"user_name": user, "character_name": character, "create_date": _moment(room.created)}
    return {**made, "chat_metadata": {}}


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
    return {**named, **(kept if message.edited is None else _swiped(kept, said)), "mes": said}


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
