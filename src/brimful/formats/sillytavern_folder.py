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
"""The name of a chat's Author's Note."""
CHARACTER_NOTE: Final = "character"
"""The name of the note from the settings, for a character or for chats without a note."""
DEPTH_PROMPT, POST_HISTORY = "depth-prompt", "post-history"
"""The names of the two notes of a card."""

SYSTEM: Final[NoteRole] = "system"
_ROLES: Final[dict[object, NoteRole]] = {0: "system", 1: "user", 2: "assistant"}
_NOTE_DEPTH: Final = 4  # default depth of a note, in messages
_IN_CHAT: Final = 1  # the position of a note at a depth; others are at the beginning
PERSONA_NOTE: Final = "persona"
"""The name of the note with a user persona's description."""
_PERSONA_DEPTH: Final = 2  # default depth of a description, in messages
SETTINGS_FILE: Final = "settings.json"
_SETTINGS_KEYS: Final = ("power_user", "world_info_settings", "user_avatar")
_LORE_FLAGS: Final = {
    "world_info_include_names": "names",
    "world_info_case_sensitive": "case_sensitive",
    "world_info_match_whole_words": "whole_words",
    "world_info_use_group_scoring": "group_scoring",
}
_MAX_STEPS: Final = 10_000  # messages or recursion steps; SillyTavern allows fewer
_MAX_BUDGET: Final = 10**9
CHARACTER_OVERRIDES: Final = {"scenario": "scenario", "system_prompt": "prompt", "mes_example": "examples"}
"""Fields of a chat's head that override its character's card, and the fields of a character that they become."""
DATA_FOLDERS = ("characters", "chats", "group chats", "groups", "worlds")


def note_role(value: object, default: NoteRole) -> NoteRole:
    """Return the role of a note: a number in SillyTavern, a name in cards.

    >>> note_role(2, "system"), note_role("user", "system"), note_role(None, "system")
    ('assistant', 'user', 'system')
    """
    if isinstance(value, str):
        return next((role for role in _ROLES.values() if role == value.lower()), default)
    return _ROLES.get(value, default) if type(value) is int else default


def strip_original(text: str) -> str:
    """Return a text without `{{original}}`, which stands for SillyTavern's own prompt."""
    return text.replace("{{original}}", "").strip()


def make_note(text: str, *, name: str, depth: object, role: NoteRole, every: int = 1) -> Iterator[Note]:
    """Yield a note, if it is not empty."""
    stripped = strip_original(text)
    if stripped:
        yield Note(text=stripped, name=name, depth=_message_count(depth, _NOTE_DEPTH, low=0), role=role, every=every)


def card_notes(data: Mapping[str, Any]) -> tuple[Note, ...]:
    """Return the notes of a card: its depth prompt, and its post-history instructions."""
    at_depth = as_dict(as_dict(data.get("extensions")).get("depth_prompt"))
    role = note_role(at_depth.get("role"), SYSTEM)
    last = as_str(data.get("post_history_instructions"))
    return (
        *make_note(as_str(at_depth.get("prompt")), name=DEPTH_PROMPT, depth=at_depth.get("depth"), role=role),
        *make_note(last, name=POST_HISTORY, depth=0, role=SYSTEM),
    )


def changed_note_fields(data: Mapping[str, Any], notes: tuple[Note, ...]) -> dict[str, Any]:
    """Return the fields of a card whose notes were changed."""
    was, now = _notes_by_kind(card_notes(data)), _notes_by_kind(notes)
    fields: dict[str, Any] = {}
    if now.get(POST_HISTORY) != was.get(POST_HISTORY):
        fields["post_history_instructions"] = now[POST_HISTORY].text if POST_HISTORY in now else ""
    if now.get(DEPTH_PROMPT) != was.get(DEPTH_PROMPT):
        note = now.get(DEPTH_PROMPT) or Note(text="", depth=_NOTE_DEPTH)
        depth_prompt = {"prompt": note.text, "depth": note.depth, "role": note.role}
        fields["extensions"] = {**as_dict(data.get("extensions")), "depth_prompt": depth_prompt}
    return fields


def _notes_by_kind(notes: Sequence[Note]) -> dict[str, Note]:
    """Return the notes that a card can store, by name; unnamed notes count by their depth."""
    by_kind = {note.name: note for note in reversed(notes) if note.name in (DEPTH_PROMPT, POST_HISTORY)}
    for note in notes:
        if not note.name and note.depth is not None:
            by_kind.setdefault(DEPTH_PROMPT if note.depth else POST_HISTORY, note)
    return by_kind


def author_note(metadata: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> tuple[Note, ...]:
    """Return the Author's Note in the head of a chat; `defaults` come from the settings."""
    return tuple(_positioned_note(as_str(metadata.get("note_prompt")), AUTHOR_NOTE, metadata, defaults or {}))


def chat_notes(metadata: Mapping[str, Any], settings: Mapping[str, Any], character: str) -> tuple[Note, ...]:
    """Return the notes of a chat: its own, and the one that the settings have for its character, or for any chat.

    A character's note is used if it is enabled, and replaces the chat's or is added before or after it.
    """
    defaults = as_dict(as_dict(settings.get("extension_settings")).get("note"))
    own = author_note(metadata, defaults)
    if "note_prompt" not in metadata:
        own = tuple(_positioned_note(as_str(defaults.get("default")), CHARACTER_NOTE, metadata, defaults))
    own_note = next((each for each in as_dicts(defaults.get("chara")) if as_str(each.get("name")) == character), {})
    if not character or own_note.get("useChara") is not True:
        return own
    added = tuple(_positioned_note(as_str(own_note.get("prompt")), CHARACTER_NOTE, metadata, defaults))
    match own_note.get("position"):
        case 1:  # before the chat's own
            return (*added, *own)
        case 2:  # after it
            return (*own, *added)
        case _:
            return added


def changed_note_head(metadata: Mapping[str, Any], note: Note | None) -> dict[str, Any]:
    """Return the fields of a chat's head for a note that was changed."""
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


def _positioned_note(text: str, name: str, metadata: Mapping[str, Any], defaults: Mapping[str, Any]) -> Iterator[Note]:
    """Yield a note at its position. One that is not in every turn cannot be at the beginning."""

    def setting(key: str) -> object:
        own = metadata.get(f"note_{key}")
        return defaults.get(f"default{key.title()}") if own is None else own

    every = _message_count(setting("interval"), 1, low=0)
    if not every or not text.strip():
        return
    position = setting("position")
    role = note_role(setting("role"), SYSTEM)
    if position in (0, 2) and type(position) is int and every == 1:
        yield Note(text=text.strip(), name=name, depth=None)
    else:
        yield from make_note(text, name=name, depth=setting("depth"), role=role, every=every)


def _message_count(value: object, default: int, *, low: int) -> int:
    """Return a number of messages, which may be a string."""
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value.strip()[:6])
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return min(value, MAX_DEPTH) if type(value) is int and value >= low else default


_AT_DEPTH, _NOWHERE = 4, 9  # positions of a description; all others mean the beginning of the prompt


class UserPersona(NamedTuple):
    """A user persona: the id of its user, its name, its avatar, and its settings."""

    id: str
    name: str
    avatar: str = ""
    settings: dict[str, Any] = {}

    @property
    def description(self) -> str:
        """Its description, which is part of its chats."""
        return as_str(self.settings.get("description"))


def user_personas(settings: dict[str, Any]) -> list[UserPersona]:
    """Return all user personas. Of several with the same name, the first has it as its id."""
    power = as_dict(settings.get("power_user"))
    descriptions = as_dict(power.get("persona_descriptions"))
    personas: dict[str, UserPersona] = {}
    for avatar, value in as_dict(power.get("personas")).items():
        name, described = as_str(value), descriptions.get(avatar)
        if name:
            id = join_id(name) if join_id(name) not in personas else join_id(name, PurePosixPath(avatar).stem)
            while id in personas:
                id += "~"
            own_settings = {"description": described} if isinstance(described, str) else as_dict(described)
            personas[id] = UserPersona(id, name, avatar, own_settings)
    return list(personas.values())


def find_user_persona(
    settings: dict[str, Any], *, metadata: dict[str, Any], name: str, pictures: Sequence[str], character: str
) -> UserPersona | None:
    """Return the user persona of a chat: locked to it, matching by avatar or name, or else the selected one."""
    personas = user_personas(settings)
    by_picture = {persona.avatar: persona for persona in personas}
    avatars = (as_str(metadata.get("persona")), *(_avatar_file(picture) for picture in pictures))
    matching = next((by_picture[avatar] for avatar in avatars if avatar in by_picture), None)
    if matching is not None:
        return matching
    usual = (as_str(as_dict(settings.get("power_user")).get("default_persona")), as_str(settings.get("user_avatar")))
    if not name:
        name = as_str(settings.get("username"))
        known = next((by_picture[avatar] for avatar in reversed(usual) if avatar in by_picture), None)
        return known or (UserPersona(join_id(name), name) if name else None)
    same = [persona for persona in personas if persona.name == name]
    connected = [persona for persona in same if _is_connected(persona, character)]
    expected = [persona for persona in same if persona.avatar in usual]
    return next(iter((*connected, *expected, *same)), None) or UserPersona(join_id(name), name)


def make_user(persona: UserPersona, books: Sequence[str]) -> User:
    """Return the user for a user persona; `books` are its lorebooks."""
    return User(
        id=persona.id,
        name=persona.name,
        lorebooks=tuple(books),
        notes=tuple(_persona_notes(persona)),
        metadata=without_empty(
            description=_with_names(persona), sillytavern={**persona.settings, **without_empty(avatar=persona.avatar)}
        ),
    )


def persona_memories(persona: UserPersona, at: float) -> Iterator[Memory]:
    """Yield the description of a user persona as a pinned memory, unless it is a note."""
    if persona.description and persona.settings.get("position") not in (_AT_DEPTH, _NOWHERE):
        yield Memory(
            id=join_id("sillytavern", "user", persona.avatar),
            content=_with_names(persona),
            user=persona.id,
            source="sillytavern",
            pinned=True,
            at=at,
        )


def _persona_notes(persona: UserPersona) -> Iterator[Note]:
    if persona.settings.get("position") == _AT_DEPTH:
        role = note_role(persona.settings.get("role"), SYSTEM)
        yield from make_note(
            persona.description, name=PERSONA_NOTE, depth=persona.settings.get("depth", _PERSONA_DEPTH), role=role
        )


def _with_names(persona: UserPersona) -> str:
    """Return a description with the user's name; the character's is known only when a prompt is built."""
    return expand_macros(persona.description, char="{{char}}", user=persona.name)


def _is_connected(persona: UserPersona, character: str) -> bool:
    stems = (PurePosixPath(as_str(each.get("id"))).stem for each in as_dicts(persona.settings.get("connections")))
    return bool(character) and character in stems


def _avatar_file(picture: str) -> str:
    """Return the file name of an avatar, which messages refer to by its path or by the URL of its thumbnail.

    >>> _avatar_file("/thumbnail?type=persona&file=my%20ada.png"), _avatar_file("User Avatars/ada.png")
    ('my ada.png', 'ada.png')
    """
    return PurePosixPath(unquote(picture.partition("file=")[2].partition("&")[0] or picture)).name


def data_folder(source: Source) -> str:
    """Return the relative path from a file's folder to the data folder; empty if the file is not in one."""
    parents = source.path.parent.parts
    if parents and parents[-1] in DATA_FOLDERS:
        return ".."
    return "../.." if parents[-2:-1] == ("chats",) else ""


def character_books(source: Source, persona: str, linked: str) -> list[str]:
    """Return the existing lorebooks of a character: the one that its card names, and additional ones."""
    additional = [each for each in as_dicts(_world_info(source).get("charLore")) if as_str(each.get("name")) == persona]
    return _existing_books(source, [linked, *(book for each in additional for book in as_strs(each.get("extraBooks")))])


def chat_books(source: Source, linked: str) -> list[str]:
    """Return the existing lorebooks of a chat: the one that it names, and those that are active everywhere."""
    return _existing_books(source, [linked, *as_strs(_world_info(source).get("globalSelect"))])


def is_settings_file(source: Source) -> bool:
    """Return whether a file contains SillyTavern's settings."""
    return source.path.name == SETTINGS_FILE and source.mentions(*_SETTINGS_KEYS)


def is_group_file(source: Source) -> bool:
    return source.path.parent.name == "groups" and {"members", "chats"} <= source.keys


def read_user_personas(source: Source) -> Iterator[User | Memory | Skipped]:
    """Yield a user for each user persona, and its description as a pinned memory."""
    entry = source.whole()
    if isinstance(entry, Skipped):
        yield entry
        return
    for persona in user_personas(as_dict(entry.data)):
        try:
            yield from user_once(source, persona)
            yield from persona_memories(persona, source.modified)
        except BrimfulError as error:
            yield Skipped(f"{source.name}: personas.{persona.avatar}", str(error))


def user_once(source: Source, persona: UserPersona) -> Iterator[User]:
    """Yield the user for a user persona, once per folder."""
    if source.is_first(f"user {persona.id}"):
        yield make_user(persona, _existing_books(source, [as_str(persona.settings.get("lorebook"))]))


def get_settings(source: Source) -> dict[str, Any]:
    """Return SillyTavern's settings, if they are in the same data folder."""
    home = data_folder(source)
    return as_dict(source.sibling(f"{home}/settings.json")) if home else {}


def lorebook_defaults(source: Source) -> dict[str, Any]:
    """Return the settings for keyword matching, as fields of a lorebook.

    The share of the window for all lore has no counterpart: a policy divides the window.
    """
    settings = as_dict(get_settings(source).get("world_info_settings"))
    depth, cap = settings.get("world_info_depth"), settings.get("world_info_budget_cap")
    fields = {field: settings[key] for key, field in _LORE_FLAGS.items() if isinstance(settings.get(key), bool)}
    if type(depth) is int and 0 <= depth <= _MAX_STEPS:
        fields["scan_depth"] = depth
    if type(cap) is int and 0 < cap <= _MAX_BUDGET:
        fields["budget"] = cap
    return fields | _recursion_setting(settings)


def _recursion_setting(settings: dict[str, Any]) -> dict[str, int]:
    """Return the number of recursion rounds, if the settings limit it."""
    if settings.get("world_info_recursive") is False:
        return {"recursion": 0}
    steps = settings.get("world_info_max_recursion_steps")
    return {"recursion": steps - 1} if type(steps) is int and 0 < steps <= _MAX_STEPS else {}


def group_members(group: dict[str, Any]) -> list[str]:
    return [join_id(PurePosixPath(member).stem) for member in as_strs(group.get("members"))]


def group_responder(group: dict[str, Any]) -> str | None:
    """Return the persona that responds in a group: the first member that is not muted."""
    muted = set(as_strs(group.get("disabled_members")))
    unmuted = {"members": [member for member in as_strs(group.get("members")) if member not in muted]}
    return next(iter((*group_members(unmuted), *group_members(group))), None)


def legacy_group_head(group: dict[str, Any], source: Source) -> dict[str, Any]:
    """Return the head of a group chat that has none: older versions store it in the group's file."""
    past, chat = as_dict(group.get("past_metadata")), _stem(source)
    current = chat == as_str(group.get("chat_id"))
    metadata = as_dict(group.get("chat_metadata") if current else past.get(chat)) or as_dict(past.get(chat))
    return {"chat_metadata": metadata, "user_name": "unused", "character_name": "unused"} if metadata else {}


def chat_character(metadata: dict[str, Any]) -> Character | None:
    """Return the fields of its character that a chat overrides, if any."""
    fields: dict[str, Any] = {
        field: strip_original(as_str(metadata.get(key))) for key, field in CHARACTER_OVERRIDES.items()
    }
    return Character(**fields) if any(fields.values()) else None


def has_group_chats(source: Source) -> bool:
    """Return whether a chat of a group is in the folder; the group is then imported with it."""
    entry = source.whole()
    group = as_dict(None if isinstance(entry, Skipped) else entry.data)
    chats = (*as_strs(group.get("chats")), as_str(group.get("chat_id")))
    return any(source.has_sibling(f"{data_folder(source)}/group chats/{chat}.jsonl") for chat in chats if chat)


def find_group(source: Source) -> dict[str, Any]:
    """Return the group that a chat belongs to; empty if there is none."""
    home, stem = data_folder(source), _stem(source)
    for name in source.siblings_in(f"{home}/groups") if home else ():
        group = as_dict(source.sibling(name))
        if stem in (*as_strs(group.get("chats")), as_str(group.get("chat_id"))):
            return group
    return {}


def _stem(source: Source) -> str:
    """Return the name by which a group refers to a chat."""
    return source.path.name.removesuffix(".jsonl")


def _existing_books(source: Source, books: Iterable[str]) -> list[str]:
    home = "." if source.path.name == SETTINGS_FILE else data_folder(source)
    there = (book for book in books if book and source.has_sibling(f"{home}/worlds/{book}.json"))
    return list(dict.fromkeys(there)) if home else []


def _world_info(source: Source) -> dict[str, Any]:
    return as_dict(as_dict(get_settings(source).get("world_info_settings")).get("world_info"))
