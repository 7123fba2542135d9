"""A SillyTavern folder as a whole: who belongs to which chat, and which lorebooks are open in it.

    characters/NAME.png   chats/NAME/*.jsonl   group chats/ID.jsonl   groups/ID.json   worlds/BOOK.json   settings.json

`settings.json` says which books are open everywhere (`world_info_settings.world_info.globalSelect`) and which a
character has beside its own (`charLore`); a card and a chat may name one book each. It also tells whom the user plays
(`power_user.personas`, with `persona_descriptions`).
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from brimful.errors import BrimfulError
from brimful.importers.ids import joined
from brimful.importers.loose import mapping, mappings, text, texts
from brimful.importers.source import Skipped, Source
from brimful.records import Memory, User

_SETTINGS: Final = ("power_user", "world_info_settings", "user_avatar")
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
    return source.path.name == "settings.json" and source.mentions(*_SETTINGS)


def is_group(source: Source) -> bool:
    """Say whether it is a file about a group."""
    return source.path.parent.name == "groups" and {"members", "chats"} <= source.keys


def people_of(source: Source) -> Iterator[User | Memory | Skipped]:
    """Yield whom the user plays, and what is told of them in every chat: it is pinned."""
    found = source.whole()
    if isinstance(found, Skipped):
        yield found
        return
    settings = mapping(mapping(found.data).get("power_user"))
    told = mapping(settings.get("persona_descriptions"))
    for avatar, name in mapping(settings.get("personas")).items():
        said = text(mapping(told.get(avatar)).get("description")) or text(told.get(avatar))
        try:
            if source.first(f"user {text(name)}"):
                yield User(id=joined(text(name)), name=text(name))
            if said:
                yield Memory(
                    id=joined("sillytavern", "user", avatar),
                    content=said.replace("{{user}}", text(name)),
                    user=joined(text(name)),
                    source="sillytavern",
                    pinned=True,
                    at=source.modified,
                )
        except BrimfulError as error:
            yield Skipped(f"{source.name}: personas.{avatar}", str(error))


def group_of(source: Source) -> dict[str, Any]:
    """Return the group whose chat a file is; nothing if there is none."""
    home = home_of(source)
    stem = source.path.name.removesuffix(".jsonl")
    for name in source.names_beside(f"{home}/groups") if home else ():
        group = mapping(source.beside(name))
        if stem in (*texts(group.get("chats")), text(group.get("chat_id"))):
            return group
    return {}


def _there(source: Source, books: Iterable[str]) -> list[str]:
    home = home_of(source)
    there = (book for book in books if book and source.has_beside(f"{home}/worlds/{book}.json"))
    return list(dict.fromkeys(there)) if home else []


def _lore_settings(source: Source, key: str) -> list[dict[str, Any]]:
    return mappings(_world_info(source).get(key))


def _world_info(source: Source) -> dict[str, Any]:
    home = home_of(source)
    settings = mapping(source.beside(f"{home}/settings.json")) if home else {}
    return mapping(mapping(settings.get("world_info_settings")).get("world_info"))
