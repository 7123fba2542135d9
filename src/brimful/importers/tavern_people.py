"""Whom a SillyTavern user plays: each of his personas is a user of its own, and a chat belongs to one of them.

`settings.json` tells their names by their pictures (`power_user.personas`), and what is told of them
(`persona_descriptions`: description, position, depth, role, lorebook, connections). Two may have the same name.
"""

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from brimful.character import with_names
from brimful.importers.ids import joined
from brimful.importers.loose import kept, mapping, mappings, text
from brimful.importers.tavern_notes import SYSTEM, note_of, role_of
from brimful.records import Memory, Note, User

PERSONA: Final = "persona"
"""The name of the note that a persona's description is, where it stands at a depth."""
_AT_DEPTH, _NOWHERE = 4, 9  # where a description stands; anything else is the beginning of the prompt
_DEPTH: Final = 2  # messages behind a description that does not say how many


class Player(NamedTuple):
    """One whom the user plays: the id of his record, what he is called, his picture, and what is told of him."""

    id: str
    name: str
    avatar: str = ""
    told: dict[str, Any] = {}

    @property
    def description(self) -> str:
        """What is told of him in his chats."""
        return text(self.told.get("description"))


def players_of(settings: dict[str, Any]) -> list[Player]:
    """Return all whom the user plays. Of several that have one name, the first has it as id, too."""
    power = mapping(settings.get("power_user"))
    descriptions = mapping(power.get("persona_descriptions"))
    found: dict[str, Player] = {}
    for avatar, said in mapping(power.get("personas")).items():
        name, told = text(said), descriptions.get(avatar)
        if name:
            id = joined(name) if joined(name) not in found else joined(name, PurePosixPath(avatar).stem)
            while id in found:
                id += "~"
            told = {"description": told} if isinstance(told, str) else mapping(told)
            found[id] = Player(id, name, avatar, told)
    return list(found.values())


def player_of(
    settings: dict[str, Any], *, metadata: dict[str, Any], name: str, pictures: Sequence[str], character: str
) -> Player | None:
    """Return who speaks in a chat: whom it is locked to, whose picture or name is in it, or who would speak next."""
    players = players_of(settings)
    by_picture = {player.avatar: player for player in players}
    shown = (text(metadata.get("persona")), *(_file(picture) for picture in pictures))
    seen = next((by_picture[avatar] for avatar in shown if avatar in by_picture), None)
    if seen is not None:
        return seen
    usual = (text(mapping(settings.get("power_user")).get("default_persona")), text(settings.get("user_avatar")))
    if not name:
        name = text(settings.get("username"))
        known = next((by_picture[avatar] for avatar in reversed(usual) if avatar in by_picture), None)
        return known or (Player(joined(name), name) if name else None)
    same = [player for player in players if player.name == name]
    connected = [player for player in same if _is_connected(player, character)]
    expected = [player for player in same if player.avatar in usual]
    return next(iter((*connected, *expected, *same)), None) or Player(joined(name), name)


def user_of(player: Player, books: Sequence[str]) -> User:
    """Return the record of somebody whom the user plays; `books` are his lorebooks that are there."""
    return User(
        id=player.id,
        name=player.name,
        lorebooks=tuple(books),
        notes=tuple(_notes(player)),
        metadata=kept(description=_named(player), sillytavern={**player.told, **kept(avatar=player.avatar)}),
    )


def memories_of(player: Player, at: float) -> Iterator[Memory]:
    """Yield what is told of somebody at the beginning of each of his chats: it is pinned."""
    if player.description and player.told.get("position") not in (_AT_DEPTH, _NOWHERE):
        yield Memory(
            id=joined("sillytavern", "user", player.avatar),
            content=_named(player),
            user=player.id,
            source="sillytavern",
            pinned=True,
            at=at,
        )


def _notes(player: Player) -> Iterator[Note]:
    if player.told.get("position") == _AT_DEPTH:
        role = role_of(player.told.get("role"), SYSTEM)
        yield from note_of(player.description, name=PERSONA, depth=player.told.get("depth", _DEPTH), role=role)


def _named(player: Player) -> str:
    """Return a description with the name of whom it is about; who answers is known later."""
    return with_names(player.description, char="{{char}}", user=player.name)


def _is_connected(player: Player, character: str) -> bool:
    stems = (PurePosixPath(text(each.get("id"))).stem for each in mappings(player.told.get("connections")))
    return bool(character) and character in stems


def _file(picture: str) -> str:
    """Return the file of a picture, as messages name it: by a path, or by the address of a small one.

    >>> _file("/thumbnail?type=persona&file=my%20ada.png"), _file("User Avatars/ada.png")
    ('my ada.png', 'ada.png')
    """
    return PurePosixPath(unquote(picture.partition("file=")[2].partition("&")[0] or picture)).name
