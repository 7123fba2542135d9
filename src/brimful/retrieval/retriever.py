"""Hybrid search with a cache, a time limit, a circuit breaker, and a fallback to recent memories."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from brimful.core.notice import BREAKER_OPENED, VECTORS_BEHIND, VECTORS_FAILED, VECTORS_OFF, WORDS_FAILED
from brimful.core.score import SECONDS_PER_DAY
from brimful.core.validation import preview, to_finite_float
from brimful.errors import BrimfulError, EmbeddingError, InvalidValue
from brimful.packagers.records import plain_text
from brimful.protocols import Embedder, Purpose, Store
from brimful.records import LoreEntry, Memory, Message
from brimful.records.search import Postings, TermQuery, VectorHit, VectorQuery
from brimful.retrieval.breaker import Breaker
from brimful.retrieval.cache import Cache
from brimful.retrieval.queries import Query, query_terms
from brimful.retrieval.rank import MAX_NEIGHBOURS, Match, adjust_relevance, merge, rank
from brimful.retrieval.search import Group, Hit, SearchRequest, SearchResult, relevance_order, search_groups
from brimful.retrieval.synonyms import expand_postings

Rows = npt.NDArray[np.float32]


async def embed_checked(embedder: Embedder, texts: Sequence[str], purpose: Purpose) -> Rows:
    """Return one row of finite numbers a text, or say what is wrong with what came."""
    rows = np.asarray(await embedder.embed(texts, purpose))
    if rows.ndim != 2 or len(rows) != len(texts) or not rows.shape[1]:  # noqa: PLR2004 - rows and columns
        raise EmbeddingError(embedder.id, f"gave an array of shape {rows.shape} for {len(texts)} texts")
    if rows.dtype.kind != "f" or not np.isfinite(rows).all():
        raise EmbeddingError(embedder.id, "gave what is no finite number")
    return rows


TIME_LIMIT: Final = 10.0  # seconds for the vector side
MAX_ROWS: Final = 2_000  # of postings that a question may read: its rare terms tell places apart, not its common ones
SIDE_ROWS: Final = 200  # … and what only led up to it, or says nearly the same
LAGGING: Final = 256  # documents without a vector: what has just been written is fewer, and is on its way
FALLBACK_RELEVANCE: Final = 0.5  # of a memory that is there only because it is recent
FALLBACK_MEMORIES: Final = 10
_MAX_CAUSE_CHARS: Final = 200  # characters of an error on a context

Lexical = list[list[Postings]]  # by group, by query
Nearest = list[list[list[VectorHit]]]
Notices = tuple[Message | Memory | LoreEntry, int | None]


class Retriever:
    """Searches one tenant's store. `embedder` None is full text alone, and nothing is missing then."""

    def __init__(
        self,
        store: Store,
        embedder: Embedder | None,
        *,
        clock: Callable[[], float],
        breaker: Breaker,
        cache: Cache[SearchResult],
        time_limit: float = TIME_LIMIT,
    ) -> None:
        """Search this store, with vectors by this embedder."""
        seconds = to_finite_float(time_limit)
        if seconds is None or seconds <= 0:
            raise InvalidValue("time_limit", f"must be a positive number of seconds, not {preview(time_limit)}")
        self._breaker = breaker
        self._openings = breaker.openings
        self._cache = cache
        self._store = store
        self._embedder = embedder
        self._clock = clock
        self._time_limit = seconds

    async def retrieve(self, queries: Sequence[Query], wanted: SearchRequest, *, now: float) -> SearchResult:
        """Return the best of all scopes for these queries, the most relevant first; ages are reckoned from `now`."""
        groups = search_groups(wanted)
        if not queries or not groups:
            return SearchResult()
        # The version makes every write to a scope, by any process, a miss: nothing stale is ever found.
        version = await self._store.version(wanted.scopes)
        key = (tuple(queries), wanted, version, now if wanted.half_life else None)
        held = self._cache.get(key, now=self._clock())
        if held is not None:
            return msgspec.structs.replace(held, cached=True)
        result = await self._search(queries, groups, wanted, now)
        if not result.degraded:
            self._cache.put(key, result, now=self._clock())
        return result

    async def _search(
        self, queries: Sequence[Query], groups: Sequence[Group], wanted: SearchRequest, now: float
    ) -> SearchResult:
        # Side by side: while vectors are compared, and while the database looks for words, the interpreter is free.
        (postings, lost_words), (near, lost_meanings) = await asyncio.gather(
            self._lexical(queries, groups), self._vectors(queries, groups)
        )
        rankings = _rank_groups(queries, groups, postings, near, wanted)  # a millisecond: not worth a thread
        hits: list[Hit] = []
        for group, ranking in zip(groups, rankings, strict=True):
            hits += [_with_recency(hit, wanted, now) for hit in await self._resolve(group, ranking, wanted)]
        degraded = tuple(cause for cause in (lost_words, lost_meanings) if cause)
        recent: list[Hit] = []
        lost = postings is None or (near is None and lost_meanings)
        if lost and wanted.memories and not any(isinstance(hit.record, Memory) for hit in hits):
            recent = await self._recent(wanted)
            degraded += ("no memory was found by full text: the most recent ones stand in",) if recent else ()
        hits = [hit for hit in (*hits, *recent) if hit.relevance >= wanted.least_relevance]
        return SearchResult(hits=tuple(sorted(hits, key=relevance_order)), degraded=degraded)

    # -- the two sides -----------------------------------------------------------------------------------------------

    async def _lexical(self, queries: Sequence[Query], groups: Sequence[Group]) -> tuple[Lexical | None, str]:
        """Ask full text; a store that cannot search may still be able to read."""
        asked = [words for group in groups for query in queries for words in _search_terms(query, group)]
        try:
            found = iter(await self._store.postings(asked))
            return [[_split_results(query, found) for query in queries] for _ in groups], ""
        except BrimfulError as error:
            return None, f"{WORDS_FAILED} ({_cause(error)})"

    async def _vectors(self, queries: Sequence[Query], groups: Sequence[Group]) -> tuple[Nearest | None, str]:
        """Ask the vector side within the time limit, the embedder through the breaker; what a store does is not its."""
        main = [query.question.meaning for query in queries if query.main]
        embedder = self._embedder
        if embedder is None or not main:
            return None, ""
        if not self._breaker.allow(self._clock()):
            return None, f"{VECTORS_OFF} ({self._until()}{self._news()}): full text alone"
        until = asyncio.get_running_loop().time() + self._time_limit
        try:
            async with asyncio.timeout_at(until):
                vectors = await embed_checked(embedder, main, "query")
        except asyncio.CancelledError:
            self._breaker.left()
            raise
        except Exception as error:  # noqa: BLE001 - the breaker's boundary: an embedder is anybody's code
            if isinstance(error, EmbeddingError) and error.refused:  # one long question must not silence all others
                self._breaker.left()
            else:
                self._breaker.failed(self._clock())
            return None, self._lost(error)
        self._breaker.succeeded(self._clock())
        try:
            async with asyncio.timeout_at(until):
                return await asyncio.gather(self._near(embedder, vectors, queries, groups), self._behind(embedder))
        except (BrimfulError, TimeoutError) as error:
            return None, self._lost(error)

    async def _near(
        self, embedder: Embedder, vectors: Rows, queries: Sequence[Query], groups: Sequence[Group]
    ) -> Nearest:
        asked = [VectorQuery(scopes=group.scopes, vector=vector) for group in groups for vector in vectors]
        near = iter(await self._store.nearest(embedder.id, asked, limit=MAX_NEIGHBOURS))
        return [[next(near) if query.main else [] for query in queries] for _ in groups]

    async def _behind(self, embedder: Embedder) -> str:
        """Say so if many documents wait for a vector: then they can be found by their words alone."""
        if len(await self._store.backlog(embedder.id, limit=LAGGING + 1)) <= LAGGING:
            return ""
        found = f"more than {LAGGING} documents have no vector by {embedder.id!r} yet"
        return f"{VECTORS_BEHIND} ({found}): they are found by full text alone"

    def _until(self) -> str:
        wait = self._breaker.retry_in(self._clock())
        return f"it failed again and again, and is tried again in {wait:.0f} s" if wait else "it is being tried again"

    def _news(self) -> str:
        """Say that the breaker opened, once for each time: it may have done so while nobody asked for anything."""
        known, self._openings = self._openings, self._breaker.openings
        return f"; {BREAKER_OPENED}" if self._openings > known else ""

    def _lost(self, error: Exception) -> str:
        cause = f"took more than {self._time_limit:g} s" if isinstance(error, TimeoutError) else _cause(error)
        return f"{VECTORS_FAILED} ({cause}{self._news()}): full text alone"

    # -- from places to records --------------------------------------------------------------------------------------

    async def _resolve(self, group: Group, ranking: Sequence[tuple[Query, Match]], wanted: SearchRequest) -> list[Hit]:
        records = await self._records(group, [found.place for _, found in ranking], wanted)
        return [_make_hit(*records[found.place], query, found) for query, found in ranking if found.place in records]

    async def _records(self, group: Group, places: Sequence[int], wanted: SearchRequest) -> dict[int, Notices]:
        """Return records by place, with their stored counts where these came along."""
        if not places:
            return {}
        if group.room is not None:
            said = await self._store.messages_at(group.room, places, tokenizer=wanted.tokenizer)
            return {each.message.seq: (each.message, each.tokens) for each in said if not each.message.hidden}
        documents = {document.item: document.doc for document in await self._store.documents(places)}
        if group.kind == "lore":
            entries = await self._store.lore(ids=list(documents))
            return {documents[entry.id]: (entry, None) for entry in entries if entry.enabled}
        memories = await self._store.memories(ids=list(documents), types=wanted.types, limit=len(documents))
        return {documents[memory.id]: (memory, None) for memory in memories}

    async def _recent(self, wanted: SearchRequest) -> list[Hit]:
        limit = min(FALLBACK_MEMORIES, wanted.limit)
        memories = await self._store.memories(scopes=wanted.memories, types=wanted.types, pinned=False, limit=limit)
        return [Hit(record=memory, relevance=FALLBACK_RELEVANCE, query="recent") for memory in memories]


def _search_terms(query: Query, group: Group) -> list[TermQuery]:
    """Return what full text is asked for: the terms of a query, and those that say nearly the same."""
    words = TermQuery(scopes=group.scopes, terms=query_terms(query), most=MAX_ROWS if query.main else SIDE_ROWS)
    if not query.related:
        return [words]
    others = tuple(other for other, _ in query.related)
    return [words, TermQuery(scopes=group.scopes, terms=others, most=SIDE_ROWS, rare_alone=True)]


def _split_results(query: Query, found: Iterator[Postings]) -> Postings:
    own = next(found)
    return expand_postings(own, next(found), [term for _, term in query.related]) if query.related else own


def _rank_groups(
    queries: Sequence[Query],
    groups: Sequence[Group],
    postings: Lexical | None,
    near: Nearest | None,
    wanted: SearchRequest,
) -> list[list[tuple[Query, Match]]]:
    """Rank every group by every query; each place keeps the best that a query said of it."""
    ranked = []
    weights = [query.weight for query in queries]
    for at, group in enumerate(groups):
        words = [_NOTHING] * len(queries) if postings is None else postings[at]
        meanings: list[list[VectorHit]] = [[]] * len(queries) if near is None else near[at]
        rankings = [
            rank(*found, conversation=group.room is not None, limit=group.limit)
            for found in zip(words, meanings, strict=True)
        ]
        before = wanted.before if group.room == wanted.room else None
        best = merge(rankings, weights, before=before, limit=group.limit)
        ranked.append([(queries[number], found) for number, found in best])
    return ranked


def _make_hit(record: Message | Memory | LoreEntry, tokens: int | None, query: Query, found: Match) -> Hit:
    """Return what was found, weighed by what it says, and by who said it."""
    speaker = record.sender if isinstance(record, Message) else ""
    text = plain_text(record.content)
    return Hit(
        record=record,
        relevance=query.weight * adjust_relevance(found.relevance, query.question, speaker=speaker, text=text),
        lexical=found.lexical,
        vector=found.vector,
        query=query.name,
        tokens=tokens,
    )


_NOTHING: Final = Postings(terms=(), found=(), documents=0, words=0, doc=(), seq=(), length=(), term=(), frequency=())


def _with_recency(hit: Hit, wanted: SearchRequest, now: float) -> Hit:
    """Return the hit with its relevance times its recency, where ages are to count."""
    at = 0.0 if isinstance(hit.record, LoreEntry) else hit.record.at
    if wanted.half_life is None or not at:
        return hit
    recency = 0.5 ** (max(0.0, now - at) / (wanted.half_life * SECONDS_PER_DAY))
    return msgspec.structs.replace(hit, relevance=hit.relevance * recency, recency=recency)


def _cause(error: BaseException) -> str:
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said}"[:_MAX_CAUSE_CHARS] if said else type(error).__name__
