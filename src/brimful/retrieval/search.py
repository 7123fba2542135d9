"""Search scopes, limits and results."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Final, Literal, Unpack, get_args, overload

import msgspec

from brimful.cache import content_bytes, memoize
from brimful.core.decision import RECENT, format_parts
from brimful.core.notice import Notice
from brimful.core.validation import is_whole_number, preview
from brimful.core.worth import ADDED_UP
from brimful.errors import InvalidValue
from brimful.packagers.records import plain_text
from brimful.records import MEMORY_TYPES, LoreEntry, Memory, Message, memory_scope
from brimful.records.base import validate_id
from brimful.records.memory import MemoryFilters

ROOM, LOREBOOK = "room:", "lorebook:"  # prefixes of scope names
FIRST_POSITION: Final = 1  # of a conversation; documents that are not turns of it, such as summaries, are at position 0
_MAX_FILTERED: Final = 1_000  # memories that are read if a filter excludes some of them after the ranking
DUPLICATE_FACTOR: Final = 0.5  # factor on the relevance of each further near-duplicate
_DIGITS: Final = b"0123456789"
_COMPARED_CHARS: Final = 20_000  # of a text, to find near-duplicates
_HIT_BYTES: Final = 1_000  # memory of a hit without its content


Fallback = Literal["failure", "always", "never"]
"""When the most recent memories are added if search found too few: after a failure of search, always, or never."""
FALLBACKS: Final[tuple[Fallback, ...]] = get_args(Fallback)


class SearchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The scopes to search, and limits.

    `before` excludes the messages of `room` from that position on, which are in the context anyway. With `half_life`
    (days), relevance decays with age. `limit` is the maximum number of messages, memories and lore entries, each;
    `max_memories` may be lower. `pinned` selects pinned or unpinned memories, `prefix` those whose ids start with it,
    and `metadata`, a JSON object, those with its values. Of hits that are less relevant than `floor`, only a few are
    returned. If there are at most `few` memories, all of them are. With `tokenizer`, messages are returned with their
    stored token counts.
    """

    room: str | None = None
    before: int | None = None
    other_rooms: tuple[str, ...] = ()
    memories: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    lorebooks: tuple[str, ...] = ()
    limit: int = 100
    max_memories: int | None = None
    pinned: bool | None = None
    prefix: str = ""
    metadata: bytes = b""
    fallback: Fallback = "failure"
    min_relevance: float = 0.0
    floor: float = 0.0
    few: int = 0
    half_life: float | None = None
    tokenizer: str = ""

    def __post_init__(self) -> None:
        """Validate the limit and the memory types."""
        if not is_whole_number(self.limit, 0):
            raise InvalidValue("limit", f"must be a non-negative integer, not {preview(self.limit)}")
        check_memory_types(self.types)

    def memory_filters(self, **others: Unpack[MemoryFilters]) -> MemoryFilters:
        """Return the filters of memories, with others."""
        metadata = msgspec.json.decode(self.metadata) if self.metadata else None
        return {"types": self.types, "prefix": self.prefix, "metadata": metadata, **others}

    @property
    def memory_limit(self) -> int:
        """The maximum number of memories."""
        return self.limit if self.max_memories is None else min(self.limit, self.max_memories)

    @property
    def scopes(self) -> tuple[str, ...]:
        """All scopes to search."""
        return tuple(scope for group in search_groups(self) for scope in group.scopes)


def check_memory_types(types: object) -> None:
    """Raise an error for unknown memory types, which would silently match nothing."""
    known = ", ".join(MEMORY_TYPES)
    if not isinstance(types, tuple | list):
        raise InvalidValue("types", f"must be a list of {known}, not {preview(types)}")
    for each in types:
        if each not in MEMORY_TYPES:
            raise InvalidValue("types", f"must be among {known}, not {preview(each)}")


def encode_metadata_filter(metadata: object) -> bytes:
    """Return the values that the metadata of memories must have, as a JSON object."""
    if metadata is not None and not isinstance(metadata, Mapping):
        raise InvalidValue("metadata", f"must be a dict of the values to match, not {preview(metadata)}")
    try:
        return msgspec.json.encode(dict(metadata), order="sorted") if metadata else b""
    except TypeError as error:
        raise InvalidValue("metadata", f"must be JSON: {error}") from None


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Scopes that are ranked together. Only rooms have turns that follow one another."""

    kind: Literal["room", "memory", "lore"]
    scopes: tuple[str, ...]
    limit: int
    room: str | None = None


class Passage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A passage of a long text: its number, counted from 0, and where it starts and stops in the text."""

    number: int
    start: int
    stop: int


class Parts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What speaks for a record, as log-odds: each adds to the others, and 0.7 more doubles the odds.

    - `words`: the words of the query, or their synonyms, are in its text. `neighbours`: they are in the turns around.
    - `meaning`: its vector is near the query's.
    - `speaker`: it was said by somebody whom the query is about, or its speaker talks about himself or herself.
    - `time`: the query asks for a time, and it mentions one.
    """

    words: float = 0.0
    meaning: float = 0.0
    neighbours: float = 0.0
    speaker: float = 0.0
    time: float = 0.0

    @property
    def text(self) -> str:
        """The parts in words, the largest first.

        >>> Parts(words=6.14, meaning=2.3, time=1.5).text
        'words 6.1, meaning 2.3, time 1.5'
        """
        return format_parts(msgspec.structs.asdict(self))


class Hit(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A search hit: a record, its relevance, what speaks for it, and the query that found it.

    `relevance` is the probability that the record helps to answer the query, multiplied by the weight of that query
    and by `recency`. `best` is the highest relevance that this query found among such records, `total` the sum of
    the highest ones, and `stands_out` whether this record does among them. `tokens` is the stored token count of a
    message, if there is one. `passage` is the passage of a long text that matched. `again` says that an earlier
    request had it, so that this one has it without a search.
    """

    record: Message | Memory | LoreEntry
    relevance: float
    best: float = 1.0
    total: float = 1.0
    stands_out: bool = False
    parts: Parts = Parts()
    recency: float = 1.0
    query: str = ""
    tokens: int | None = None
    passage: Passage | None = None
    again: bool = False


def relevance_order(hit: Hit) -> tuple[float, str]:
    """Sort key: most relevant first."""
    return (-hit.relevance, hit.record.id)


def limit_hits(request: SearchRequest, hits: Iterable[Hit]) -> tuple[Hit, ...]:
    """Return the most relevant hits, at most as many of each record type as requested."""
    ordered = sorted(hits, key=relevance_order)
    if len(ordered) <= request.memory_limit:
        return tuple(ordered)
    counts: Counter[type] = Counter()
    limited = []
    for hit in ordered:
        counts[type(hit.record)] += 1
        limit = request.memory_limit if isinstance(hit.record, Memory) else request.limit
        if counts[type(hit.record)] <= limit:
            limited.append(hit)
    return tuple(limited)


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """The hits of a search, best first, and notes on anything that did not work. It is a sequence of its hits."""

    hits: tuple[Hit, ...] = ()
    degraded: tuple[Notice, ...] = ()
    cached: bool = False

    def __iter__(self) -> Iterator[Hit]:
        """Yield the hits."""
        return iter(self.hits)

    def __len__(self) -> int:
        """Return the number of hits."""
        return len(self.hits)

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Hit, ...]: ...
    def __getitem__(self, index: int | slice) -> Hit | tuple[Hit, ...]:
        """Return a hit by its rank, starting at 0, or several of them."""
        return self.hits[index]

    @property
    def nbytes(self) -> int:
        """An estimate of its memory."""
        return sum(_HIT_BYTES + content_bytes(hit.record.content) for hit in self.hits)


def memory_scopes(persona: str | None, user: str | None, room: str | None) -> tuple[str, ...]:
    """Return all scopes whose memories a persona may use when talking to a user in a room.

    >>> memory_scopes("helper", "ada", None)
    ('memory:::', 'memory::ada:', 'memory:helper::', 'memory:helper:ada:')
    """
    named = {"persona": persona, "user": user, "room": room}
    owners = product(*([None] if name is None else [None, validate_id(field, name)] for field, name in named.items()))
    return tuple(sorted(memory_scope(*owner) for owner in owners))


def search_groups(request: SearchRequest) -> tuple[Group, ...]:
    """Return the groups of scopes to search, without a room that is in the context as a whole."""
    limit = max(ADDED_UP, request.limit)  # texts and speakers are weighed after the ranking
    own = request.room if request.before is None or request.before > FIRST_POSITION else None
    rooms = [room for room in (own, *request.other_rooms) if room is not None]
    groups = [Group(kind="room", scopes=(ROOM + room,), limit=limit, room=room) for room in rooms]
    if request.memories:
        most = max(limit, _MAX_FILTERED) if request.prefix or request.metadata else limit
        groups.append(Group(kind="memory", scopes=request.memories, limit=most))
    if request.lorebooks:
        books = tuple(LOREBOOK + book for book in request.lorebooks)
        groups.append(Group(kind="lore", scopes=books, limit=limit))
    return tuple(groups)


def diversify(hits: Iterable[Hit]) -> list[Hit]:
    """Lower the relevance of near-duplicates (the same words, ignoring digits) and sort the hits again.

    Memories that were added because they are recent keep theirs.

    >>> from brimful.records import Memory
    >>> def hit(id, text, relevance):
    ...     return Hit(record=Memory(id=id, content=text), relevance=relevance)
    >>> rain = [hit("a", "Rain on day 1", 0.8), hit("b", "Rain on day 2", 0.7), hit("c", "Tea at four", 0.5)]
    >>> [(hit.record.id, hit.relevance) for hit in diversify(rain)]
    [('a', 0.8), ('c', 0.5), ('b', 0.35)]
    """
    seen: Counter[frozenset[str]] = Counter()
    weighted = []
    for hit in sorted(hits, key=relevance_order):
        words = _words_without_digits(plain_text(hit.record.content)[:_COMPARED_CHARS])
        before = seen[words] if words and hit.query != RECENT else 0
        seen[words] += 1
        weighted.append(
            msgspec.structs.replace(hit, relevance=hit.relevance * DUPLICATE_FACTOR**before) if before else hit
        )
    return sorted(weighted, key=relevance_order)


def _find_words(text: str) -> frozenset[str]:
    """Return the words of a text without digits. Removing digits from bytes is ten times as fast as from a string."""
    plain = text.casefold().encode("utf-8", "surrogatepass").translate(None, _DIGITS)
    return frozenset(plain.decode("utf-8", "surrogatepass").split())


_words_without_digits: Final = memoize(_find_words, name="texts", size=lambda args, _: 4 * content_bytes(args[0]))
"""Cached, because the same texts are found again and again."""
