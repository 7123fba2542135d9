"""SillyTavern's data folder: which user persona, notes and lorebooks belong to a chat.

    characters/NAME.png   chats/NAME/*.jsonl   group chats/ID.jsonl   groups/ID.json   worlds/BOOK.json   settings.json

`settings.json` says which lorebooks are active everywhere (`world_info_settings.world_info.globalSelect`), which ones
a character has in addition (`charLore`), and how keywords are matched (`world_info_depth`, …). A card, a chat and a
user persona may name one lorebook each. User personas are named by their avatars (`power_user.personas`), with
descriptions in `persona_descriptions`; two of them may share a name. Text that SillyTavern inserts at a depth becomes
a note.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from brimful.errors import BrimfulError
from brimful.formats.ids import join_id
from brimful.formats.lenient import as_dict, as_dicts, as_str, as_strs, without_empty
from brimful.formats.source import Skipped, Source
from brimful.records import Memory, User
from brimful.records.character import Character, expand_macros
from brimful.records.note import MAX_DEPTH, Note, NoteRole

AUTHOR_NOTE: Final = "author"
"""The name of the note that a chat's author wrote (Author's Note)."""
CHARACTER_NOTE: Final = "character"
"""… of the one that settings have for a character, or for chats that have none."""
DEPTH_PROMPT, POST_HISTORY = "depth-prompt", "post-history"
"""… and of the two that a card has."""

SYSTEM: Final[NoteRole] = "system"
_ROLES: Final[dict[object, NoteRole]] = {0: "system", 1: "user", 2: "assistant"}
_NOTE_DEPTH: Final = 4  # messages behind a note that does not say how many
_IN_CHAT: Final = 1  # the position of a note that stands at a depth; others stand at the beginning


def note_role(said: object, otherwise: NoteRole) -> NoteRole:
    """Return who says a note: SillyTavern has numbers for it, and in cards names.

    >>> note_role(2, "system"), note_role("user", "system"), note_role(None, "system")
    ('assistant', 'user', 'system')
    """
    if isinstance(said, str):
        return next((role for role in _ROLES.values() if role == said.lower()), otherwise)
    return _ROLES.get(said, otherwise) if type(said) is int else otherwise


def strip_original(said: str) -> str:
    """Return a text without `{{original}}`: it stands for a prompt that we do not have."""
    return said.replace("{{original}}", "").strip()


def make_note(said: str, *, name: str, depth: object, role: NoteRole, every: int = 1) -> Iterator[Note]:
    """Yield a note, if it says anything."""
    whole = strip_original(said)
    if whole:
        yield Note(text=whole, name=name, depth=_message_count(depth, _NOTE_DEPTH, low=0), role=role, every=every)


def card_notes(told: Mapping[str, Any]) -> tuple[Note, ...]:
    """Return the notes of a character: its own at a depth, and what it says after the history."""
    at_depth = as_dict(as_dict(told.get("extensions")).get("depth_prompt"))
    role = note_role(at_depth.get("role"), SYSTEM)
    last = as_str(told.get("post_history_instructions"))
    return (
        *make_note(as_str(at_depth.get("prompt")), name=DEPTH_PROMPT, depth=at_depth.get("depth"), role=role),
        *make_note(last, name=POST_HISTORY, depth=0, role=SYSTEM),
    )


def changed_note_fields(told: Mapping[str, Any], notes: tuple[Note, ...]) -> dict[str, Any]:
    """Return the fields of a card that say another thing now: it has one note at a depth, and one that comes last."""
    was, now = _notes_by_kind(card_notes(told)), _notes_by_kind(notes)
    fields: dict[str, Any] = {}
    if now.get(POST_HISTORY) != was.get(POST_HISTORY):
        fields["post_history_instructions"] = now[POST_HISTORY].text if POST_HISTORY in now else ""
    if now.get(DEPTH_PROMPT) != was.get(DEPTH_PROMPT):
        note = now.get(DEPTH_PROMPT) or Note(text="", depth=_NOTE_DEPTH)
        told_there = {"prompt": note.text, "depth": note.depth, "role": note.role}
        fields["extensions"] = {**as_dict(told.get("extensions")), "depth_prompt": told_there}
    return fields


def _notes_by_kind(notes: Sequence[Note]) -> dict[str, Note]:
    """Return the notes that a card has a place for, by their names: the first of each sort that has no other name."""
    found = {note.name: note for note in reversed(notes) if note.name in (DEPTH_PROMPT, POST_HISTORY)}
    for note in notes:
        if not note.name and note.depth is not None:
            found.setdefault(DEPTH_PROMPT if note.depth else POST_HISTORY, note)
    return found


def author_note(metadata: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> tuple[Note, ...]:
    """Return the note of a chat, as its head tells it; `defaults` are those of settings."""
    return tuple(_positioned_note(as_str(metadata.get("note_prompt")), AUTHOR_NOTE, metadata, defaults or {}))


def chat_notes(metadata: Mapping[str, Any], settings: Mapping[str, Any], character: str) -> tuple[Note, ...]:
    """Return the notes of a chat: its own, and the one that settings have for its character, or for any chat.

    The character's is used if the user said so, and then in the place of the chat's, before it or after it.
    """
    defaults = as_dict(as_dict(settings.get("extension_settings")).get("note"))
    own = author_note(metadata, defaults)
    if "note_prompt" not in metadata:
        own = tuple(_positioned_note(as_str(defaults.get("default")), CHARACTER_NOTE, metadata, defaults))
    theirs = next((each for each in as_dicts(defaults.get("chara")) if as_str(each.get("name")) == character), {})
    if not character or theirs.get("useChara") is not True:
        return own
    added = tuple(_positioned_note(as_str(theirs.get("prompt")), CHARACTER_NOTE, metadata, defaults))
    match theirs.get("position"):
        case 1:  # before the chat's own
            return (*added, *own)
        case 2:  # after it
            return (*own, *added)
        case _:
            return added


def changed_note_head(metadata: Mapping[str, Any], note: Note | None) -> dict[str, Any]:
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
        "note_depth": _NOTE_DEPTH if note.depth is None else note.depth,
        "note_role": numbers[note.role],
    }


def _positioned_note(said: str, name: str, metadata: Mapping[str, Any], defaults: Mapping[str, Any]) -> Iterator[Note]:
    """Yield a note where the chat says that it stands. One that comes and goes cannot stand at the beginning."""

    def setting(key: str) -> object:
        own = metadata.get(f"note_{key}")
        return defaults.get(f"default{key.title()}") if own is None else own

    every = _message_count(setting("interval"), 1, low=0)
    if not every or not said.strip():
        return
    position = setting("position")
    role = note_role(setting("role"), SYSTEM)
    if position in (0, 2) and type(position) is int and every == 1:
        yield Note(text=said.strip(), name=name, depth=None)
    else:
        yield from make_note(said, name=name, depth=setting("depth"), role=role, every=every)


def _message_count(value: object, otherwise: int, *, low: int) -> int:
    """Return a number of messages, as a form would take it."""
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value.strip()[:6])
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return min(value, MAX_DEPTH) if type(value) is int and value >= low else otherwise


PERSONA_NOTE: Final = "persona"
"""The name of the note that a persona's description is, where it stands at a depth."""
_AT_DEPTH, _NOWHERE = 4, 9  # where a description stands; anything else is the beginning of the prompt
_PERSONA_DEPTH: Final = 2  # messages behind a description that does not say how many


class UserPersona(NamedTuple):
    """One whom the user plays: the id of his record, what he is called, his picture, and what is told of him."""

    id: str
    name: str
    avatar: str = ""
    told: dict[str, Any] = {}

    @property
    def description(self) -> str:
        """What is told of him in his chats."""
        return as_str(self.told.get("description"))


def user_personas(settings: dict[str, Any]) -> list[UserPersona]:
    """Return all whom the user plays. Of several that have one name, the first has it as id, too."""
    power = as_dict(settings.get("power_user"))
    descriptions = as_dict(power.get("persona_descriptions"))
    found: dict[str, UserPersona] = {}
    for avatar, said in as_dict(power.get("personas")).items():
        name, told = as_str(said), descriptions.get(avatar)
        if name:
            id = join_id(name) if join_id(name) not in found else join_id(name, PurePosixPath(avatar).stem)
            while id in found:
                id += "~"
            told = {"description": told} if isinstance(told, str) else as_dict(told)
            found[id] = UserPersona(id, name, avatar, told)
    return list(found.values())


def find_user_persona(
    settings: dict[str, Any], *, metadata: dict[str, Any], name: str, pictures: Sequence[str], character: str
) -> UserPersona | None:
    """Return who speaks in a chat: whom it is locked to, whose picture or name is in it, or who would speak next."""
    players = user_personas(settings)
    by_picture = {player.avatar: player for player in players}
    shown = (as_str(metadata.get("persona")), *(_avatar_file(picture) for picture in pictures))
    seen = next((by_picture[avatar] for avatar in shown if avatar in by_picture), None)
    if seen is not None:
        return seen
    usual = (as_str(as_dict(settings.get("power_user")).get("default_persona")), as_str(settings.get("user_avatar")))
    if not name:
        name = as_str(settings.get("username"))
        known = next((by_picture[avatar] for avatar in reversed(usual) if avatar in by_picture), None)
        return known or (UserPersona(join_id(name), name) if name else None)
    same = [player for player in players if player.name == name]
    connected = [player for player in same if _is_connected(player, character)]
    expected = [player for player in same if player.avatar in usual]
    return next(iter((*connected, *expected, *same)), None) or UserPersona(join_id(name), name)


def make_user(player: UserPersona, books: Sequence[str]) -> User:
    """Return the record of somebody whom the user plays; `books` are his lorebooks that are there."""
    return User(
        id=player.id,
        name=player.name,
        lorebooks=tuple(books),
        notes=tuple(_persona_notes(player)),
        metadata=without_empty(
            description=_with_names(player), sillytavern={**player.told, **without_empty(avatar=player.avatar)}
        ),
    )


def persona_memories(player: UserPersona, at: float) -> Iterator[Memory]:
    """Yield what is told of somebody at the beginning of each of his chats: it is pinned."""
    if player.description and player.told.get("position") not in (_AT_DEPTH, _NOWHERE):
        yield Memory(
            id=join_id("sillytavern", "user", player.avatar),
            content=_with_names(player),
            user=player.id,
            source="sillytavern",
            pinned=True,
            at=at,
        )


def _persona_notes(player: UserPersona) -> Iterator[Note]:
    if player.told.get("position") == _AT_DEPTH:
        role = note_role(player.told.get("role"), SYSTEM)
        yield from make_note(
            player.description, name=PERSONA_NOTE, depth=player.told.get("depth", _PERSONA_DEPTH), role=role
        )


def _with_names(player: UserPersona) -> str:
    """Return a description with the name of whom it is about; who answers is known later."""
    return expand_macros(player.description, char="{{char}}", user=player.name)


def _is_connected(player: UserPersona, character: str) -> bool:
    stems = (PurePosixPath(as_str(each.get("id"))).stem for each in as_dicts(player.told.get("connections")))
    return bool(character) and character in stems


def _avatar_file(picture: str) -> str:
    """Return the file of a picture, as messages name it: by a path, or by the address of a small one.

    >>> _avatar_file("/thumbnail?type=persona&file=my%20ada.png"), _avatar_file("User Avatars/ada.png")
    ('my ada.png', 'ada.png')
    """
    return PurePosixPath(unquote(picture.partition("file=")[2].partition("&")[0] or picture)).name


SETTINGS_FILE: Final = "settings.json"
_SETTINGS_KEYS: Final = ("power_user", "world_info_settings", "user_avatar")
_LORE_FLAGS: Final = {
    "world_info_include_names": "names",
    "world_info_case_sensitive": "case_sensitive",
    "world_info_match_whole_words": "whole_words",
    "world_info_use_group_scoring": "group_scoring",
}
_MAX_STEPS: Final = 10_000  # messages, or steps: more than any form of SillyTavern takes
_MAX_BUDGET: Final = 10**9
CHARACTER_OVERRIDES: Final = {"scenario": "scenario", "system_prompt": "prompt", "mes_example": "examples"}
"""What a chat's head may say in the place of its character's card, and what that is called here."""
DATA_FOLDERS = ("characters", "chats", "group chats", "groups", "worlds")


def data_folder(source: Source) -> str:
    """Return the way from a file's folder to SillyTavern's own; empty if it is in none.

    A chat lies in a folder for its character, all else one step below.
    """
    parents = source.path.parent.parts
    if parents and parents[-1] in DATA_FOLDERS:
        return ".."
    return "../.." if parents[-2:-1] == ("chats",) else ""


def character_books(source: Source, persona: str, linked: str) -> list[str]:
    """Return the lorebooks of a character that are in its folder: the one its card names, and those beside it."""
    beside = [each for each in _lore_settings(source, "charLore") if as_str(each.get("name")) == persona]
    return _existing_books(source, [linked, *(book for each in beside for book in as_strs(each.get("extraBooks")))])


def chat_books(source: Source, linked: str) -> list[str]:
    """Return the lorebooks of a chat: the one it names, and those that are open in every chat."""
    return _existing_books(source, [linked, *as_strs(_world_info(source).get("globalSelect"))])


def is_settings_file(source: Source) -> bool:
    """Say whether it is SillyTavern's file of settings."""
    return source.path.name == SETTINGS_FILE and source.mentions(*_SETTINGS_KEYS)


def is_group_file(source: Source) -> bool:
    """Say whether it is a file about a group."""
    return source.path.parent.name == "groups" and {"members", "chats"} <= source.keys


def read_user_personas(source: Source) -> Iterator[User | Memory | Skipped]:
    """Yield whom the user plays, and what is told of them in every chat: it is pinned."""
    found = source.whole()
    if isinstance(found, Skipped):
        yield found
        return
    for player in user_personas(as_dict(found.data)):
        try:
            yield from user_once(source, player)
            yield from persona_memories(player, source.modified)
        except BrimfulError as error:
            yield Skipped(f"{source.name}: personas.{player.avatar}", str(error))


def user_once(source: Source, player: UserPersona) -> Iterator[User]:
    """Yield somebody whom the user plays, for the first file that tells of him."""
    if source.is_first(f"user {player.id}"):
        yield make_user(player, _existing_books(source, [as_str(player.told.get("lorebook"))]))


def get_settings(source: Source) -> dict[str, Any]:
    """Return SillyTavern's settings, if they lie in the same folder."""
    home = data_folder(source)
    return as_dict(source.sibling(f"{home}/settings.json")) if home else {}


def lorebook_defaults(source: Source) -> dict[str, Any]:
    """Return how keys are looked for in all books of a folder, in the fields of our lorebooks.

    A share of the window for all lore has no counterpart: the pools of a policy divide the window.
    """
    said = as_dict(get_settings(source).get("world_info_settings"))
    depth, cap = said.get("world_info_depth"), said.get("world_info_budget_cap")
    rules = {field: said[theirs] for theirs, field in _LORE_FLAGS.items() if isinstance(said.get(theirs), bool)}
    if type(depth) is int and 0 <= depth <= _MAX_STEPS:
        rules["scan_depth"] = depth
    if type(cap) is int and 0 < cap <= _MAX_BUDGET:
        rules["budget"] = cap
    return rules | _recursion_setting(said)


def _recursion_setting(said: dict[str, Any]) -> dict[str, int]:
    """Return how many times what is told is looked through: not at all, as often as it says, or as by default."""
    if said.get("world_info_recursive") is False:
        return {"recursion": 0}
    steps = said.get("world_info_max_recursion_steps")
    return {"recursion": steps - 1} if type(steps) is int and 0 < steps <= _MAX_STEPS else {}


def group_members(group: dict[str, Any]) -> list[str]:
    """Return the personas of a group."""
    return [join_id(PurePosixPath(member).stem) for member in as_strs(group.get("members"))]


def group_responder(group: dict[str, Any]) -> str | None:
    """Return who of a group answers first: the first member that is not muted."""
    muted = set(as_strs(group.get("disabled_members")))
    voices = {"members": [member for member in as_strs(group.get("members")) if member not in muted]}
    return next(iter((*group_members(voices), *group_members(group))), None)


def legacy_group_head(group: dict[str, Any], source: Source) -> dict[str, Any]:
    """Return the head that a group's chat would have: older versions keep in the group what newer ones write there."""
    past, chat = as_dict(group.get("past_metadata")), _stem(source)
    current = chat == as_str(group.get("chat_id"))
    told = as_dict(group.get("chat_metadata") if current else past.get(chat)) or as_dict(past.get(chat))
    return {"chat_metadata": told, "user_name": "unused", "character_name": "unused"} if told else {}


def chat_character(metadata: dict[str, Any]) -> Character | None:
    """Return what a chat says of its character, in the place of the card; nothing if it says nothing."""
    fields: dict[str, Any] = {
        ours: strip_original(as_str(metadata.get(theirs))) for theirs, ours in CHARACTER_OVERRIDES.items()
    }
    return Character(**fields) if any(fields.values()) else None


def has_group_chats(source: Source) -> bool:
    """Say whether a chat of a group lies in the folder: it tells of the group."""
    found = source.whole()
    group = as_dict(None if isinstance(found, Skipped) else found.data)
    chats = (*as_strs(group.get("chats")), as_str(group.get("chat_id")))
    return any(source.has_sibling(f"{data_folder(source)}/group chats/{chat}.jsonl") for chat in chats if chat)


def find_group(source: Source) -> dict[str, Any]:
    """Return the group whose chat a file is; nothing if there is none."""
    home, stem = data_folder(source), _stem(source)
    for name in source.siblings_in(f"{home}/groups") if home else ():
        group = as_dict(source.sibling(name))
        if stem in (*as_strs(group.get("chats")), as_str(group.get("chat_id"))):
            return group
    return {}


def _stem(source: Source) -> str:
    """Return what a group calls a chat of its own."""
    return source.path.name.removesuffix(".jsonl")


def _existing_books(source: Source, books: Iterable[str]) -> list[str]:
    home = "." if source.path.name == SETTINGS_FILE else data_folder(source)
    there = (book for book in books if book and source.has_sibling(f"{home}/worlds/{book}.json"))
    return list(dict.fromkeys(there)) if home else []


def _lore_settings(source: Source, key: str) -> list[dict[str, Any]]:
    return as_dicts(_world_info(source).get(key))


def _world_info(source: Source) -> dict[str, Any]:
    return as_dict(as_dict(get_settings(source).get("world_info_settings")).get("world_info"))
