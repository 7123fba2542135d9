"""Where to look, how much to bring, and what was brought."""

from collections import Counter
from collections.abc import Iterable
from itertools import product
from typing import Literal

import msgspec

from brimful.core.check import is_whole, shown
from brimful.errors import InvalidValue
from brimful.fields import identifier
from brimful.records import MEMORY_TYPES, LoreEntry, Memory, Message, memory_scope

ROOM, LOREBOOK = "room:", "lorebook:"  # how the names of scopes begin
_LEAST_FOUND = 20  # places a group may bring, however small the budget


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Where to look, and how much to bring.

    `before` leaves out what stands in the recent window of `room` anyway. With `half_life` (days), relevance fades with
    age. `limit` is the most that each group of scopes brings. By `tokenizer`, messages come with their stored counts.
    """

    room: str | None = None
    before: int | None = None
    other_rooms: tuple[str, ...] = ()
    memories: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    lorebooks: tuple[str, ...] = ()
    limit: int = 100
    least_relevance: float = 0.0
    half_life: float | None = None
    tokenizer: str = ""

    def __post_init__(self) -> None:
        """Refuse what nobody could look for."""
        if not is_whole(self.limit, 0):
            raise InvalidValue("limit", f"must be a whole number from 0, not {shown(self.limit)}")
        check_types(self.types)

    @property
    def scopes(self) -> tuple[str, ...]:
        """All scopes that are searched."""
        return tuple(scope for group in groups_of(self) for scope in group.scopes)


def check_types(types: object) -> None:
    """Refuse what are no types of memories: nothing would be found, and nobody would know why."""
    known = ", ".join(MEMORY_TYPES)
    if not isinstance(types, tuple | list):
        raise InvalidValue("types", f"must be a list of {known}, not {shown(types)}")
    for each in types:
        if each not in MEMORY_TYPES:
            raise InvalidValue("types", f"must be among {known}, not {shown(each)}")


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Scopes that are ranked together. Only a room has an order in which one thing is said after another."""

    kind: Literal["room", "memory", "lore"]
    scopes: tuple[str, ...]
    limit: int
    room: str | None = None


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """Something found: a record, how relevant it is, the parts of that number, and which query found it.

    `tokens` is the stored count of a message, if there is one.
    """

    record: Message | Memory | LoreEntry
    relevance: float
    lexical: float = 0.0
    vector: float = 0.0
    recency: float = 1.0
    query: str = ""
    tokens: int | None = None


def best_first(hit: Hit) -> tuple[float, str]:
    """Return what hits are sorted by."""
    return (-hit.relevance, hit.record.id)


def at_most(limit: int, hits: Iterable[Hit]) -> tuple[Hit, ...]:
    """Return the first hits of each sort of record, so many at most: a search weighs some more than it is asked for."""
    often: Counter[type] = Counter()
    kept = []
    for hit in hits:
        often[type(hit.record)] += 1
        if often[type(hit.record)] <= limit:
            kept.append(hit)
    return tuple(kept)


class Retrieved(msgspec.Struct, frozen=True, kw_only=True):
    """What a search brought, the best first, and what it had to do without."""

    hits: tuple[Hit, ...] = ()
    degraded: tuple[str, ...] = ()
    cached: bool = False


def memory_scopes(persona: str | None, user: str | None, room: str | None) -> tuple[str, ...]:
    """Return all scopes whose memories a persona may use when it speaks with a user in a room.

    >>> memory_scopes("helper", "ada", None)
    ('memory:::', 'memory::ada:', 'memory:helper::', 'memory:helper:ada:')
    """
    named = {"persona": persona, "user": user, "room": room}
    owners = product(*([None] if name is None else [None, identifier(field, name)] for field, name in named.items()))
    return tuple(sorted(memory_scope(*owner) for owner in owners))


def groups_of(wanted: Wanted) -> tuple[Group, ...]:
    """Return what is searched, group by group."""
    limit = max(_LEAST_FOUND, wanted.limit)
    rooms = [room for room in (wanted.room, *wanted.other_rooms) if room is not None]
    groups = [Group(kind="room", scopes=(ROOM + room,), limit=limit, room=room) for room in rooms]
    if wanted.memories:
        groups.append(Group(kind="memory", scopes=wanted.memories, limit=limit))
    if wanted.lorebooks:
        books = tuple(LOREBOOK + book for book in wanted.lorebooks)
        groups.append(Group(kind="lore", scopes=books, limit=limit))
    return tuple(groups)
