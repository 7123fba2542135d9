"""SillyTavern's texts that stand at a depth: of a character, of a chat, and of whom the user plays.

They are notes here. What is written in an odd way is read as SillyTavern's own forms would show it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from brimful.importers.loose import mapping, mappings, text
from brimful.note import DEEPEST, Note, Speaker

AUTHOR: Final = "author"
"""The name of the note that a chat's author wrote (Author's Note)."""
CHARACTER: Final = "character"
"""… of the one that settings have for a character, or for chats that have none."""
DEPTH_PROMPT, POST_HISTORY = "depth-prompt", "post-history"
"""… and of the two that a card has."""

SYSTEM: Final[Speaker] = "system"
_ROLES: Final[dict[object, Speaker]] = {0: "system", 1: "user", 2: "assistant"}
_DEPTH: Final = 4  # messages behind a note that does not say how many
_IN_CHAT: Final = 1  # the position of a note that stands at a depth; others stand at the beginning


def role_of(said: object, otherwise: Speaker) -> Speaker:
    """Return who says a note: SillyTavern has numbers for it, and in cards names.

    >>> role_of(2, "system"), role_of("user", "system"), role_of(None, "system")
    ('assistant', 'user', 'system')
    """
    if isinstance(said, str):
        return next((role for role in _ROLES.values() if role == said.lower()), otherwise)
    return _ROLES.get(said, otherwise) if type(said) is int else otherwise


def without_original(said: str) -> str:
    """Return a text without `{{original}}`: it stands for a prompt that we do not have."""
    return said.replace("{{original}}", "").strip()


def note_of(said: str, *, name: str, depth: object, role: Speaker, every: int = 1) -> Iterator[Note]:
    """Yield a note, if it says anything."""
    whole = without_original(said)
    if whole:
        yield Note(text=whole, name=name, depth=_whole(depth, _DEPTH, low=0), role=role, every=every)


def notes_of_card(told: Mapping[str, Any]) -> tuple[Note, ...]:
    """Return the notes of a character: its own at a depth, and what it says after the history."""
    at_depth = mapping(mapping(told.get("extensions")).get("depth_prompt"))
    role = role_of(at_depth.get("role"), SYSTEM)
    last = text(told.get("post_history_instructions"))
    return (
        *note_of(text(at_depth.get("prompt")), name=DEPTH_PROMPT, depth=at_depth.get("depth"), role=role),
        *note_of(last, name=POST_HISTORY, depth=0, role=SYSTEM),
    )


def fields_with(told: Mapping[str, Any], notes: tuple[Note, ...]) -> dict[str, Any]:
    """Return the fields of a card that say another thing now: it has one note at a depth, and one that comes last."""
    was, now = _card_notes(notes_of_card(told)), _card_notes(notes)
    fields: dict[str, Any] = {}
    if now.get(POST_HISTORY) != was.get(POST_HISTORY):
        fields["post_history_instructions"] = now[POST_HISTORY].text if POST_HISTORY in now else ""
    if now.get(DEPTH_PROMPT) != was.get(DEPTH_PROMPT):
        note = now.get(DEPTH_PROMPT) or Note(text="", depth=_DEPTH)
        told_there = {"prompt": note.text, "depth": note.depth, "role": note.role}
        fields["extensions"] = {**mapping(told.get("extensions")), "depth_prompt": told_there}
    return fields


def _card_notes(notes: Sequence[Note]) -> dict[str, Note]:
    """Return the notes that a card has a place for, by their names: the first of each sort that has no other name."""
    found = {note.name: note for note in reversed(notes) if note.name in (DEPTH_PROMPT, POST_HISTORY)}
    for note in notes:
        if not note.name and note.depth is not None:
            found.setdefault(DEPTH_PROMPT if note.depth else POST_HISTORY, note)
    return found


def author_note(metadata: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> tuple[Note, ...]:
    """Return the note of a chat, as its head tells it; `defaults` are those of settings."""
    return tuple(_placed(text(metadata.get("note_prompt")), AUTHOR, metadata, defaults or {}))


def notes_of_chat(metadata: Mapping[str, Any], settings: Mapping[str, Any], character: str) -> tuple[Note, ...]:
    """Return the notes of a chat: its own, and the one that settings have for its character, or for any chat.

    The character's is used if the user said so, and then in the place of the chat's, before it or after it.
    """
    defaults = mapping(mapping(settings.get("extension_settings")).get("note"))
    own = author_note(metadata, defaults)
    if "note_prompt" not in metadata:
        own = tuple(_placed(text(defaults.get("default")), CHARACTER, metadata, defaults))
    theirs = next((each for each in mappings(defaults.get("chara")) if text(each.get("name")) == character), {})
    if not character or theirs.get("useChara") is not True:
        return own
    added = tuple(_placed(text(theirs.get("prompt")), CHARACTER, metadata, defaults))
    match theirs.get("position"):
        case 1:  # before the chat's own
            return (*added, *own)
        case 2:  # after it
            return (*own, *added)
        case _:
            return added


def head_with(metadata: Mapping[str, Any], note: Note | None) -> dict[str, Any]:
    """Return what a chat's head says of its note, if that is another one now."""
    if (note,) == author_note(metadata) or (note is None and not author_note(metadata)):
        return {}
    if note is None:
        return {"note_prompt": ""}
    numbers = {role: number for number, role in _ROLES.items()}
    return {
        "note_prompt": note.text,
        "note_interval": note.every,
        "note_position": 0 if note.depth is None else _IN_CHAT,
        "note_depth": _DEPTH if note.depth is None else note.depth,
        "note_role": numbers[note.role],
    }


def _placed(said: str, name: str, metadata: Mapping[str, Any], defaults: Mapping[str, Any]) -> Iterator[Note]:
    """Yield a note where the chat says that it stands. One that comes and goes cannot stand at the beginning."""

    def setting(key: str) -> object:
        own = metadata.get(f"note_{key}")
        return defaults.get(f"default{key.title()}") if own is None else own

    every = _whole(setting("interval"), 1, low=0)
    if not every or not said.strip():
        return
    position = setting("position")
    role = role_of(setting("role"), SYSTEM)
    if position in (0, 2) and type(position) is int and every == 1:
        yield Note(text=said.strip(), name=name, depth=None)
    else:
        yield from note_of(said, name=name, depth=setting("depth"), role=role, every=every)


def _whole(value: object, otherwise: int, *, low: int) -> int:
    """Return a number of messages, as a form would take it."""
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value.strip()[:6])
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return min(value, DEEPEST) if type(value) is int and value >= low else otherwise
