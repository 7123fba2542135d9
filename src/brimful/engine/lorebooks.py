"""Lorebooks of a build: prepared once, and the recent messages their keywords are matched against."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
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
from brimful.threads import run_in_thread
from brimful.wires.replies import as_string

_MAX_CACHED: Final = 64  # sets of lorebooks
_ENTRY_BYTES: Final = 5_000  # memory of an entry with its keywords and its text
_CACHE_SECONDS: Final = 86_400.0  # changed lorebooks are noticed at once
_MAX_DEPTH: Final = 1_000  # messages, whatever a lorebook asks for
_BLOCK_MESSAGES: Final = 64  # the relevant past starts at a multiple of this, so it is stable for many turns
_PAGE_MESSAGES: Final = 512
_RULE_FIELDS: Final = tuple(
    field.name for field in msgspec.structs.fields(Lorebook) if field.name not in ("description", "settings")
)


class LoreLibrary:
    """The lorebooks of a tenant, indexed by their keywords."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._indexes: Cache[LoreIndex] = Cache(
            max_entries=_MAX_CACHED, ttl=_CACHE_SECONDS, size=lambda index: len(index.entries) * _ENTRY_BYTES
        )
        self._uses_names: Cache[bool] = Cache(max_entries=_MAX_CACHED, ttl=_CACHE_SECONDS)

    async def books(self, room: Room, persona: Persona | None, user: User | None = None) -> dict[str, Lorebook]:
        """Return the existing lorebooks of a room, persona and user, by id."""
        own = [book for who in (persona, user) if who for book in who.lorebooks]
        ids = dict.fromkeys([*room.lorebooks, *own])
        found = await asyncio.gather(*(self._store.get(Lorebook, book) for book in ids))
        return {book.id: book for book in found if book is not None}

    async def load_index(
        self, books: Mapping[str, Lorebook], persona: Persona | None, user: str | None, *, now: float
    ) -> LoreIndex:
        """Return the index of lorebooks. It is rebuilt only when one of them or the names change.

        `{{char}}` and `{{user}}` are replaced by the names of the persona and the user.
        """
        if not books:
            return LoreIndex({}, ())
        version = await self._store.scope_version([LOREBOOK + book for book in books])
        key: tuple[Any, ...] = (
            version,
            tuple(tuple(getattr(book, field) for field in _RULE_FIELDS) for book in books.values()),
        )
        names = ("", "")
        if self._uses_names.get(key, now=now) is not False:
            names = (get_char_name(persona), await get_user_name(self._store, user))
        index = self._indexes.get((*key, *names), now=now)
        if index is None:
            entries = await self._store.lore(list(books))
            uses_names = any(map(_has_placeholders, entries))
            self._uses_names.put(key, uses_names, now=now)
            names = names if uses_names else ("", "")
            index = await run_in_thread(LoreIndex, books, [_fill_entry_names(entry, *names) for entry in entries])
            self._indexes.put((*key, *names), index, now=now)
        return index

    async def describe_persona(
        self, persona: Persona | None, user: str | None, needed: Collection[Source]
    ) -> PersonaInfo:
        """Return the persona, with the texts that entries are matched against."""
        sources = {source: text for source, text in _get_persona_sources(persona).items() if source in needed}
        if "user" in needed and user is not None:
            known = await self._store.get(User, user)
            sources["user"] = as_string(known.metadata.get("description")) if known else ""
        if persona is None:
            return PersonaInfo(sources=sources)
        tags = persona.metadata.get("tags")
        return PersonaInfo(
            names=frozenset((persona.id, persona.called)),
            tags=frozenset(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else frozenset(),
            sources=sources,
        )

    async def turns(
        self, index: LoreIndex, room: str, current: CurrentMessage, recent: Sequence[Message], persona: Persona | None
    ) -> list[Turn]:
        """Return the last messages, newest first, that keywords are matched against.

        Their number depends on the lorebooks alone, not on what the window loads.
        """
        if not index.entries:
            return []
        messages = list(recent) or await self._load_before(room, None, current, persona)
        last = get_message_number(current, messages)
        first = max(1, (last - index.lookback) // _BLOCK_MESSAGES * _BLOCK_MESSAGES) if index.lookback else last
        depth = min(index.scan_depth, _MAX_DEPTH)
        while messages and messages[-1].seq > max(1, min(first, last - depth)):
            more = await self._load_before(room, messages[-1].seq, current, persona)
            if not more:
                break
            messages += more
        turns = [_make_turn(message, message.seq) for message in messages]
        if current.message is not None:
            turns.insert(0, _make_turn(current.message, last))
        return [turn for i, turn in enumerate(turns) if i < depth or turn.number >= first]

    async def _load_before(
        self, room: str, seq: int | None, current: CurrentMessage, persona: Persona | None
    ) -> list[Message]:
        """Return a page of messages before a position, as the persona sees them."""
        page = await self._store.history(room, before=seq, limit=_PAGE_MESSAGES)
        return [seen for seen in as_seen_by([entry.message for entry in page], persona) if seen.id != current.id]


def get_message_number(current: CurrentMessage, recent: Sequence[Message]) -> int:
    """Return the position of the message to answer, even if it is not posted yet."""
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


def _has_placeholders(entry: LoreEntry) -> bool:
    return has_macros(entry.content) or any(map(has_macros, (*entry.keys, *entry.secondary)))


def _fill_entry_names(entry: LoreEntry, char: str, user: str) -> LoreEntry:
    if not _has_placeholders(entry):
        return entry

    def fill(texts: Iterable[str]) -> tuple[str, ...]:
        return tuple(expand_macros(each, char=char, user=user) for each in texts)

    return msgspec.structs.replace(
        entry, content=fill([entry.content])[0], keys=fill(entry.keys), secondary=fill(entry.secondary)
    )


def _get_persona_sources(persona: Persona | None) -> dict[Source, str]:
    """Return the texts of a persona's character card."""
    if persona is None:
        return {}
    character = persona.character or Character()
    return {
        "description": character.description,
        "personality": character.personality,
        "scenario": character.scenario,
        "depth-prompt": "\n".join(note.text for note in persona.notes if note.depth),
        "creator-notes": as_string(persona.metadata.get("creator_notes")),
    }
