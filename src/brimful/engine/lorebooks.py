"""Lorebooks of a build: prepared once, and the recent messages their keywords are matched against."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from brimful.engine.personas import as_seen_by, get_char_name, get_user_name
from brimful.engine.plan import CurrentMessage
from brimful.lore import LoreIndex, PersonaInfo, Turn
from brimful.packagers.records import plain_text
from brimful.records import Lorebook, LoreEntry, Message, Persona, Room, User
from brimful.records.character import Character, expand_macros, has_macros
from brimful.records.lorebook import Source
from brimful.retrieval.cache import Cache
from brimful.retrieval.search import LOREBOOK
from brimful.stores import Store

_MAX_CACHED: Final = 64  # sets of books that a process keeps ready
_CACHE_SECONDS: Final = 86_400.0  # seconds; a change of a book is noticed at once
_MAX_DEPTH: Final = 1_000  # messages that are looked through, however many a book wants
_BLOCK_MESSAGES: Final = (
    64  # messages: where the past begins to matter moves in steps, so that it is the same for many turns
)
_PAGE_MESSAGES: Final = 512
_RULE_FIELDS: Final = tuple(
    field.name for field in msgspec.structs.fields(Lorebook) if field.name not in ("description", "settings")
)


class LoreLibrary:
    """The books of a tenant, made ready to be looked through."""

    def __init__(self, store: Store) -> None:
        """Read from this store."""
        self._store = store
        self._shelves: Cache[LoreIndex] = Cache(most=_MAX_CACHED, ttl=_CACHE_SECONDS)
        self._speaking: Cache[bool] = Cache(most=_MAX_CACHED, ttl=_CACHE_SECONDS)

    async def books(self, room: Room, persona: Persona | None, user: User | None = None) -> dict[str, Lorebook]:
        """Return the books of a room, of a persona and of a user, by id; those that are there."""
        own = [book for who in (persona, user) if who for book in who.lorebooks]
        shelf = dict.fromkeys([*room.lorebooks, *own])
        found = await asyncio.gather(*(self._store.get(Lorebook, book) for book in shelf))
        return {book.id: book for book in found if book is not None}

    async def shelf(
        self, books: Mapping[str, Lorebook], persona: Persona | None, user: str | None, *, now: float
    ) -> LoreIndex:
        """Return books made ready: read again only when one of them has changed, or when other names are to be in them.

        `{{char}}` and `{{user}}` stand for the names of who answers and who asks.
        """
        if not books:
            return LoreIndex({}, ())
        version = await self._store.scope_version([LOREBOOK + book for book in books])
        key: tuple[Any, ...] = (version, tuple(_get_book_rules(book) for book in books.values()))
        names = ("", "")
        if self._speaking.get(key, now=now) is not False:
            names = (get_char_name(persona), await get_user_name(self._store, user))
        shelf = self._shelves.get((*key, *names), now=now)
        if shelf is None:
            entries = await self._store.lore(list(books))
            speaking = any(map(_has_placeholders, entries))
            self._speaking.put(key, speaking, now=now)
            names = names if speaking else ("", "")
            shelf = await asyncio.to_thread(LoreIndex, books, [_fill_entry_names(entry, *names) for entry in entries])
            self._shelves.put((*key, *names), shelf, now=now)
        return shelf

    async def who(self, persona: Persona | None, user: str | None, wanted: Iterable[Source]) -> PersonaInfo:
        """Return who answers, with the texts that entries want to look into."""
        sources = {source: text for source, text in _get_persona_sources(persona).items() if source in wanted}
        if "user" in wanted and user is not None:
            known = await self._store.get(User, user)
            sources["user"] = _string_or_empty(known.metadata.get("description")) if known else ""
        if persona is None:
            return PersonaInfo(sources=sources)
        tags = persona.metadata.get("tags")
        return PersonaInfo(
            names=frozenset((persona.id, persona.called)),
            tags=frozenset(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else frozenset(),
            sources=sources,
        )

    async def turns(
        self, shelf: LoreIndex, room: str, current: CurrentMessage, recent: Sequence[Message], persona: Persona | None
    ) -> list[Turn]:
        """Return the last messages, the newest first: those that keys are looked for in, and as many as were of matter.

        How many that are follows from the books alone, not from what a window happened to load.
        """
        if not shelf.entries:
            return []
        messages = list(recent) or await self._before(room, None, current, persona)
        last = get_message_number(current, messages)
        first = max(1, (last - shelf.lookback) // _BLOCK_MESSAGES * _BLOCK_MESSAGES) if shelf.lookback else last
        deep = min(shelf.scan_depth, _MAX_DEPTH)
        while messages and messages[-1].seq > max(1, min(first, last - deep)):
            more = await self._before(room, messages[-1].seq, current, persona)
            if not more:
                break
            messages += more
        said = [_make_turn(message, message.seq) for message in messages]
        if current.message is not None:
            said.insert(0, _make_turn(current.message, last))
        return [turn for at, turn in enumerate(said) if at < deep or turn.number >= first]

    async def _before(
        self, room: str, seq: int | None, current: CurrentMessage, persona: Persona | None
    ) -> list[Message]:
        """Return a page of what was said before a place, as the persona sees it."""
        page = await self._store.history(room, before=seq, limit=_PAGE_MESSAGES)
        return [seen for seen in as_seen_by([entry.message for entry in page], persona) if seen.id != current.id]


def get_message_number(current: CurrentMessage, recent: Sequence[Message]) -> int:
    """Return the place in its room of what is to be answered: where it stands, or would stand."""
    newest = recent[0].seq if recent else 0
    if current.message is None:
        return newest
    return current.message.seq or newest + 1


def _make_turn(message: Message, number: int) -> Turn:
    return Turn(
        id=message.id,
        number=number,
        text=plain_text(message.content),
        speaker=message.sender,
        expects_reply=message.role == "user",
    )


def _get_book_rules(book: Lorebook) -> tuple[Any, ...]:
    return tuple(getattr(book, field) for field in _RULE_FIELDS)


def _has_placeholders(entry: LoreEntry) -> bool:
    return has_macros(entry.content) or any(map(has_macros, (*entry.keys, *entry.secondary)))


def _fill_entry_names(entry: LoreEntry, char: str, user: str) -> LoreEntry:
    if not _has_placeholders(entry):
        return entry

    def filled(said: Iterable[str]) -> tuple[str, ...]:
        return tuple(expand_macros(each, char=char, user=user) for each in said)

    return msgspec.structs.replace(
        entry, content=filled([entry.content])[0], keys=filled(entry.keys), secondary=filled(entry.secondary)
    )


def _get_persona_sources(persona: Persona | None) -> dict[Source, str]:
    """Return what is known of who answers, as a character card tells it."""
    if persona is None:
        return {}
    character = persona.character or Character()
    return {
        "description": character.description,
        "personality": character.personality,
        "scenario": character.scenario,
        "depth-prompt": "\n".join(note.text for note in persona.notes if note.depth),
        "creator-notes": _string_or_empty(persona.metadata.get("creator_notes")),
    }


def _string_or_empty(value: object) -> str:
    return value if isinstance(value, str) else ""
