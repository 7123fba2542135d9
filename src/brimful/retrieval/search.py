"""Search scopes, limits and results."""

from collections import Counter
from collections.abc import Iterable
from itertools import product
from typing import Final, Literal

import msgspec

from brimful.core.validation import is_whole_number, preview
from brimful.errors import InvalidValue
from brimful.packagers.records import plain_text
from brimful.records import MEMORY_TYPES, LoreEntry, Memory, Message, memory_scope
from brimful.records.base import validate_id
from brimful.retrieval.documents import MAX_INDEXED_CHARS

ROOM, LOREBOOK = "room:", "lorebook:"  # how the names of scopes begin
_MIN_RESULTS = 20  # places a group may bring, however small the budget


class SearchRequest(msgspec.Struct, frozen=True, kw_only=True):
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
        if not is_whole_number(self.limit, 0):
            raise InvalidValue("limit", f"must be a whole number from 0, not {preview(self.limit)}")
        check_memory_types(self.types)

    @property
    def scopes(self) -> tuple[str, ...]:
        """All scopes that are searched."""
        return tuple(scope for group in search_groups(self) for scope in group.scopes)


def check_memory_types(types: object) -> None:
    """Refuse what are no types of memories: nothing would be found, and nobody would know why."""
    known = ", ".join(MEMORY_TYPES)
    if not isinstance(types, tuple | list):
        raise InvalidValue("types", f"must be a list of {known}, not {preview(types)}")
    for each in types:
        if each not in MEMORY_TYPES:
            raise InvalidValue("types", f"must be among {known}, not {preview(each)}")


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


def relevance_order(hit: Hit) -> tuple[float, str]:
    """Return what hits are sorted by."""
    return (-hit.relevance, hit.record.id)


def limit_hits(limit: int, hits: Iterable[Hit]) -> tuple[Hit, ...]:
    """Return the first hits of each sort of record, so many at most: a search weighs some more than it is asked for."""
    often: Counter[type] = Counter()
    kept = []
    for hit in hits:
        often[type(hit.record)] += 1
        if often[type(hit.record)] <= limit:
            kept.append(hit)
    return tuple(kept)


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
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
    owners = product(*([None] if name is None else [None, validate_id(field, name)] for field, name in named.items()))
    return tuple(sorted(memory_scope(*owner) for owner in owners))


def search_groups(wanted: SearchRequest) -> tuple[Group, ...]:
    """Return what is searched, group by group."""
    limit = max(_MIN_RESULTS, wanted.limit)
    rooms = [room for room in (wanted.room, *wanted.other_rooms) if room is not None]
    groups = [Group(kind="room", scopes=(ROOM + room,), limit=limit, room=room) for room in rooms]
    if wanted.memories:
        groups.append(Group(kind="memory", scopes=wanted.memories, limit=limit))
    if wanted.lorebooks:
        books = tuple(LOREBOOK + book for book in wanted.lorebooks)
        groups.append(Group(kind="lore", scopes=books, limit=limit))
    return tuple(groups)


DUPLICATE_FACTOR: Final = 0.5  # what the next one of its like is worth, and the one after it half of that
_DIGITS: Final = b"0123456789"


def diversify(hits: Iterable[Hit]) -> list[Hit]:
    """Return the hits, best first; what says what a better one says (the same words, numbers aside) is worth less.

    >>> from brimful.records import Memory
    >>> def hit(id, text, relevance):
    ...     return Hit(record=Memory(id=id, content=text), relevance=relevance)
    >>> rain = [hit("a", "Rain on day 1", 0.8), hit("b", "Rain on day 2", 0.7), hit("c", "Tea at four", 0.5)]
    >>> [(hit.record.id, hit.relevance) for hit in diversify(rain)]
    [('a', 0.8), ('c', 0.5), ('b', 0.35)]
    """
    alike: Counter[frozenset[str]] = Counter()
    told_apart = []
    for hit in sorted(hits, key=relevance_order):
        words = _words_without_digits(plain_text(hit.record.content)[:MAX_INDEXED_CHARS])
        before = alike[words] if words else 0
        alike[words] += 1
        told_apart.append(
            msgspec.structs.replace(hit, relevance=hit.relevance * DUPLICATE_FACTOR**before) if before else hit
        )
    return sorted(told_apart, key=relevance_order)


def _words_without_digits(text: str) -> frozenset[str]:
    """Return the words of a text, without digits; bytes lose these in a tenth of the time."""
    plain = text.casefold().encode("utf-8", "surrogatepass").translate(None, _DIGITS)
    return frozenset(plain.decode("utf-8", "surrogatepass").split())
