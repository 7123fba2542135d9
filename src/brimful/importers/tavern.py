"""A SillyTavern folder as a whole: who belongs to which chat, and which lorebooks are open in it.

    characters/NAME.png   chats/NAME/*.jsonl   group chats/ID.jsonl   groups/ID.json   worlds/BOOK.json   settings.json

`settings.json` says which books are open everywhere (`world_info_settings.world_info.globalSelect`), which a character
has beside its own (`charLore`), and how keys are looked for in all of them (`world_info_depth`, …); a card, a chat and
somebody whom the user plays may name one book each.
"""

from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import Any, Final

from brimful.character import Character
from brimful.errors import BrimfulError
from brimful.importers.ids import joined
from brimful.importers.loose import mapping, mappings, text, texts
from brimful.importers.source import Skipped, Source
from brimful.importers.tavern_notes import without_original
from brimful.importers.tavern_people import Player, memories_of, players_of, user_of
from brimful.records import Memory, User

SETTINGS: Final = "settings.json"
_SETTINGS: Final = ("power_user", "world_info_settings", "user_avatar")
_FLAGS: Final = {
    "world_info_include_names": "names",
    "world_info_case_sensitive": "case_sensitive",
    "world_info_match_whole_words": "whole_words",
    "world_info_use_group_scoring": "group_scoring",
}
_DEEPEST: Final = 10_000  # messages, or steps: more than any form of SillyTavern takes
_MOST_TOKENS: Final = 10**9
OVERRIDES: Final = {"scenario": "scenario", "system_prompt": "prompt", "mes_example": "examples"}
"""What a chat's head may say in the place of its character's card, and what that is called here."""
HOMES = ("characters", "chats", "group chats", "groups", "worlds")


def home_of(source: Source) -> str:
    """Return the way from a file's folder to SillyTavern's own; empty if it is in none.

    A chat lies in a folder for its character, all else one step below.
    """
    parents = source.path.parent.parts
    if parents and parents[-1] in HOMES:
        return ".."
    return "../.." if parents[-2:-1] == ("chats",) else ""


def books_of(source: Source, persona: str, linked: str) -> list[str]:
    """Return the lorebooks of a character that are in its folder: the one its card names, and those beside it."""
    beside = [each for each in _lore_settings(source, "charLore") if text(each.get("name")) == persona]
    return _there(source, [linked, *(book for each in beside for book in texts(each.get("extraBooks")))])


def open_books(source: Source, linked: str) -> list[str]:
    """Return the lorebooks of a chat: the one it names, and those that are open in every chat."""
    return _there(source, [linked, *texts(_world_info(source).get("globalSelect"))])


def is_settings(source: Source) -> bool:
    """Say whether it is SillyTavern's file of settings."""
    return source.path.name == SETTINGS and source.mentions(*_SETTINGS)


def is_group(source: Source) -> bool:
    """Say whether it is a file about a group."""
    return source.path.parent.name == "groups" and {"members", "chats"} <= source.keys


def people_of(source: Source) -> Iterator[User | Memory | Skipped]:
    """Yield whom the user plays, and what is told of them in every chat: it is pinned."""
    found = source.whole()
    if isinstance(found, Skipped):
        yield found
        return
    for player in players_of(mapping(found.data)):
        try:
            yield from introduced(source, player)
            yield from memories_of(player, source.modified)
        except BrimfulError as error:
            yield Skipped(f"{source.name}: personas.{player.avatar}", str(error))


def introduced(source: Source, player: Player) -> Iterator[User]:
    """Yield somebody whom the user plays, for the first file that tells of him."""
    if source.first(f"user {player.id}"):
        yield user_of(player, _there(source, [text(player.told.get("lorebook"))]))


def settings_of(source: Source) -> dict[str, Any]:
    """Return SillyTavern's settings, if they lie in the same folder."""
    home = home_of(source)
    return mapping(source.beside(f"{home}/settings.json")) if home else {}


def lore_rules(source: Source) -> dict[str, Any]:
    """Return how keys are looked for in all books of a folder, in the fields of our lorebooks.

    A share of the window for all lore has no counterpart: the pools of a policy divide the window.
    """
    said = mapping(settings_of(source).get("world_info_settings"))
    depth, cap = said.get("world_info_depth"), said.get("world_info_budget_cap")
    rules = {field: said[theirs] for theirs, field in _FLAGS.items() if isinstance(said.get(theirs), bool)}
    if type(depth) is int and 0 <= depth <= _DEEPEST:
        rules["scan_depth"] = depth
    if type(cap) is int and 0 < cap <= _MOST_TOKENS:
        rules["budget"] = cap
    return rules | _recursion(said)


def _recursion(said: dict[str, Any]) -> dict[str, int]:
    """Return how many times what is told is looked through: not at all, as often as it says, or as by default."""
    if said.get("world_info_recursive") is False:
        return {"recursion": 0}
    steps = said.get("world_info_max_recursion_steps")
    return {"recursion": steps - 1} if type(steps) is int and 0 < steps <= _DEEPEST else {}


def members_of(group: dict[str, Any]) -> list[str]:
    """Return the personas of a group."""
    return [joined(PurePosixPath(member).stem) for member in texts(group.get("members"))]


def answerer_of(group: dict[str, Any]) -> str | None:
    """Return who of a group answers first: the first member that is not muted."""
    muted = set(texts(group.get("disabled_members")))
    voices = {"members": [member for member in texts(group.get("members")) if member not in muted]}
    return next(iter((*members_of(voices), *members_of(group))), None)


def head_told_by(group: dict[str, Any], source: Source) -> dict[str, Any]:
    """Return the head that a group's chat would have: older versions keep in the group what newer ones write there."""
    past, chat = mapping(group.get("past_metadata")), _stem(source)
    current = chat == text(group.get("chat_id"))
    told = mapping(group.get("chat_metadata") if current else past.get(chat)) or mapping(past.get(chat))
    return {"chat_metadata": told, "user_name": "unused", "character_name": "unused"} if told else {}


def cast_of(metadata: dict[str, Any]) -> Character | None:
    """Return what a chat says of its character, in the place of the card; nothing if it says nothing."""
    fields: dict[str, Any] = {ours: without_original(text(metadata.get(theirs))) for theirs, ours in OVERRIDES.items()}
    return Character(**fields) if any(fields.values()) else None


def has_chats(source: Source) -> bool:
    """Say whether a chat of a group lies in the folder: it tells of the group."""
    found = source.whole()
    group = mapping(None if isinstance(found, Skipped) else found.data)
    chats = (*texts(group.get("chats")), text(group.get("chat_id")))
    return any(source.has_beside(f"{home_of(source)}/group chats/{chat}.jsonl") for chat in chats if chat)


def group_of(source: Source) -> dict[str, Any]:
    """Return the group whose chat a file is; nothing if there is none."""
    home, stem = home_of(source), _stem(source)
    for name in source.names_beside(f"{home}/groups") if home else ():
        group = mapping(source.beside(name))
        if stem in (*texts(group.get("chats")), text(group.get("chat_id"))):
            return group
    return {}


def _stem(source: Source) -> str:
    """Return what a group calls a chat of its own."""
    return source.path.name.removesuffix(".jsonl")


def _there(source: Source, books: Iterable[str]) -> list[str]:
    home = "." if source.path.name == SETTINGS else home_of(source)
    there = (book for book in books if book and source.has_beside(f"{home}/worlds/{book}.json"))
    return list(dict.fromkeys(there)) if home else []


def _lore_settings(source: Source, key: str) -> list[dict[str, Any]]:
    return mappings(_world_info(source).get(key))


def _world_info(source: Source) -> dict[str, Any]:
    return mapping(mapping(settings_of(source).get("world_info_settings")).get("world_info"))
