"""Hybrid search with a cache, a time limit, a circuit breaker, and a fallback to recent memories."""

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from brimful.core.decision import FEW, RECENT, SECONDS_PER_DAY
from brimful.core.language import detect_language
from brimful.core.notice import Notice
from brimful.core.validation import preview, to_finite_float
from brimful.core.worth import ADDED_UP
from brimful.errors import BrimfulError, EmbeddingError, InvalidValue, SpendingLimitReached
from brimful.protocols import Embedder, Purpose
from brimful.records import LoreEntry, Memory, Message
from brimful.records.search import Document, Postings, TermQuery, VectorHit, VectorQuery
from brimful.retrieval.breaker import Breaker
from brimful.retrieval.cache import Cache
from brimful.retrieval.calibration import Coefficients, Outlook, calibrate, coefficients_of, stretch
from brimful.retrieval.documents import MIN_DIVIDED_CHARS, searchable_text
from brimful.retrieval.lexical import Values
from brimful.retrieval.names import find_addressees
from brimful.retrieval.queries import Query, Question, query_terms
from brimful.retrieval.rank import LEXICAL, MAX_NEIGHBOURS, MAX_SPEAKER, Match, Ranking, add_speaker, rank
from brimful.retrieval.rerank import Reranking
from brimful.retrieval.search import Group, Hit, Passage, SearchRequest, SearchResult, limit_hits, search_groups
from brimful.retrieval.synonyms import expand_postings
from brimful.stores import Store
from brimful.threads import run_in_thread

Rows = npt.NDArray[np.float32]
TIME_LIMIT: Final = 10.0  # seconds for vector search
EMBED_SECONDS: Final = 300.0  # seconds for a call of an embedder; the indexer then tries smaller batches
MAX_ROWS: Final = 2_000  # postings read for a main query; rare terms come first, since common ones discriminate little
SIDE_ROWS: Final = 200  # postings read for any other query, and for synonyms
LAGGING: Final = 256  # documents without a vector; fewer than that were just written and will be embedded soon
UNKNOWN_SHARE: Final = 0.5  # of a question; with less of it in an unknown language, vector search still helps
FALLBACK_RELEVANCE: Final = 0.5  # of memories returned only because they are recent; unlikely ones do not replace them
MIN_WORDS: Final = LEXICAL * 0.1  # log-odds of a tenth of the query; with more words in common, a memory matches
FEW_RELEVANCE: Final = 1e-4  # of memories returned only because there are few
SIDE_MATCHES: Final = 20  # of a query that is not a main one: their weight is so small that others never matter
MAX_VECTORS: Final = 400  # nearest vectors of a room, if hits below a certain relevance are not wanted
OUTSTANDING: Final = math.log(0.5)  # log share of a hit that is more likely the answer than all others together
BEST_ABOUT_PEOPLE: Final = (
    3  # hits that stand out if the question is about people: it may use other words than its answer
)
FALLBACK_MEMORIES: Final = 10  # together with those that were found, unless the request has a limit of its own
_NAMED_MESSAGES: Final = 12  # read for each name in a query, to see who is addressed by it
_MAX_CAUSE_CHARS: Final = 200  # of an error message that is stored with a context
_NO_POSTINGS: Final = Postings(
    terms=(), document_frequency=(), documents=0, words=0, doc=(), seq=(), length=(), term=(), frequency=()
)

_log = logging.getLogger("brimful.search")
_log.addHandler(logging.NullHandler())


async def embed_checked(
    embedder: Embedder, texts: Sequence[str], purpose: Purpose, *, time_limit: float = EMBED_SECONDS
) -> Rows:
    """Embed texts and check the result: one row of finite numbers per text."""
    try:
        async with asyncio.timeout(time_limit) as limit:
            rows = np.asarray(await embedder.embed(texts, purpose))
    except TimeoutError:
        if limit.expired():
            raise EmbeddingError(embedder.id, f"returned nothing within {time_limit:g} seconds") from None
        raise
    if rows.ndim != 2 or len(rows) != len(texts) or not rows.shape[1]:  # noqa: PLR2004 - rows and columns
        raise EmbeddingError(embedder.id, f"returned an array of shape {rows.shape} for {len(texts)} texts")
    if rows.dtype.kind != "f" or not np.isfinite(rows).all():
        raise EmbeddingError(embedder.id, "returned a value that is not a finite number")
    return rows


Lexical = list[list[Postings]]  # by group, by query
Nearest = list[list[list[VectorHit]]]
CountedRecord = tuple[Message | Memory | LoreEntry, int | None]

Notices = tuple[Notice, ...]


class Retriever:
    """Searches one tenant's store. Without an embedder, it uses full-text search alone."""

    def __init__(
        self,
        store: Store,
        embedder: Embedder | None,
        *,
        clock: Callable[[], float],
        breaker: Breaker,
        cache: Cache[SearchResult],
        time_limit: float = TIME_LIMIT,
        reranking: Reranking | None = None,
    ) -> None:
        """Search this store with this embedder."""
        seconds = to_finite_float(time_limit)
        if seconds is None or seconds <= 0:
            raise InvalidValue("time_limit", f"must be a positive number of seconds, not {preview(time_limit)}")
        self._breaker = breaker
        self._openings = breaker.openings
        self._cache = cache
        self._store = store
        self._embedder = embedder
        self._reranking = reranking
        self._clock = clock
        self._time_limit = seconds
        self._running: dict[object, float] = {}  # when calls of the embedder started

    async def retrieve(
        self, queries: Sequence[Query], request: SearchRequest, *, now: float, versions: Mapping[str, str] | None = None
    ) -> SearchResult:
        """Return the most relevant records of all scopes, best first. Ages are relative to `now`.

        Pass the `versions` of all scopes if they were read already.
        """
        groups = search_groups(request)
        if not groups or not (queries or request.fallback == "always"):
            return SearchResult()
        # The version changes with every write to a scope, by any process, so the cache never returns stale results.
        if versions is None:
            version = await self._store.scope_version(request.scopes)
        else:
            version = " ".join(each for scope, each in versions.items() if scope in request.scopes)
        if not version and request.fallback != "always":  # none of the scopes ever had a document
            return SearchResult(degraded=self._unknown_language(queries))
        key = (tuple(queries), request, version, now if request.half_life else None)
        cached = self._cache.get(key, now=self._clock())
        if cached is not None:
            return msgspec.structs.replace(cached, cached=True)
        result = await self._search(queries, groups, request, now)
        if all(notice.kind == "unknown-language" for notice in result.degraded):
            self._cache.put(key, result, now=self._clock())
        return result

    async def _search(
        self, queries: Sequence[Query], groups: Sequence[Group], request: SearchRequest, now: float
    ) -> SearchResult:
        terms, language_notices = await run_in_thread(self._analyze, queries, groups)
        # Concurrently: both vector comparison and database queries release the interpreter lock.
        (postings, lexical_notices), (near, vector_notices) = await asyncio.gather(
            self._lexical(queries, groups, terms), self._vectors(queries, groups, request)
        )
        hits: list[Hit] = []
        embedder = self._embedder.id if self._embedder is not None and near is not None else None
        for index, group in enumerate(groups):
            lexical = [_NO_POSTINGS] * len(queries) if postings is None else postings[index]
            vector: list[list[VectorHit]] = [[]] * len(queries) if near is None else near[index]
            # Takes a millisecond: not worth a thread.
            rankings = _rank_group(queries, group, list(zip(lexical, vector, strict=True)), request, embedder)
            names = [] if postings is None or group.room is None else _find_names(queries, lexical)
            found = await self._resolve(group, rankings, names, request)
            if group.kind == "memory" and request.few >= max(1, *(each.ranking.documents for each in rankings)):
                found += await self._few(request, found)
            hits += (
                found if request.half_life is None else [_with_recency(hit, request.half_life, now) for hit in found]
            )
        degraded = (*lexical_notices, *vector_notices, *language_notices)
        hits = [hit for hit in hits if hit.relevance >= request.min_relevance]
        if self._reranking is not None and queries:
            hits, rerank_notices = await self._reranking.reorder(queries[0].text, hits)
            degraded += rerank_notices
        failed = postings is None or (near is None and bool(vector_notices))
        if request.fallback == "always" or (request.fallback == "failure" and failed):
            relevant = [hit for hit in hits if _is_matching_memory(hit)]
            recent = await self._recent(request, relevant)
            hits = _with_recent(hits, recent) if recent else hits
            degraded += (_fallback_notice(len(relevant)),) if failed and recent else ()
        return SearchResult(hits=limit_hits(request, hits), degraded=degraded)

    # -- full-text and vector search ---------------------------------------------------------------------------------

    def _analyze(self, queries: Sequence[Query], groups: Sequence[Group]) -> tuple[list[TermQuery], Notices]:
        """Return the full-text queries for all groups, and a notice if the embedder does not know their language."""
        terms = [each for group in groups for query in queries for each in _term_queries(query, group)]
        return terms, self._unknown_language(queries)

    async def _lexical(
        self, queries: Sequence[Query], groups: Sequence[Group], terms: Sequence[TermQuery]
    ) -> tuple[Lexical | None, Notices]:
        """Run full-text search. A store that cannot search may still be able to read."""
        try:
            results = iter(await self._store.find_postings(terms))
            return [[_next_postings(query, results) for query in queries] for _ in groups], ()
        except BrimfulError as error:
            cause = _cause(error)
            text = f"full-text search failed ({cause})"
            _log_failure("full-text", error)
            return None, (Notice(kind="text-search-failed", text=text, facts={"cause": cause, "error": _name(error)}),)

    async def _vectors(
        self, queries: Sequence[Query], groups: Sequence[Group], request: SearchRequest
    ) -> tuple[Nearest | None, Notices]:
        """Run vector search within the time limit. The breaker guards the embedder only, not the store."""
        main = [query.question.meaning for query in queries if query.main]
        embedder = self._embedder
        if embedder is None or not main:
            return None, ()
        if not self._breaker.allow(self._clock()):
            return None, self._skipped()
        started = asyncio.get_running_loop().time()
        until = (
            min([started, *self._running.values()]) + self._time_limit
        )  # if the embedder hangs, all give up together
        call = object()
        self._running[call] = started
        try:
            async with asyncio.timeout_at(until):
                vectors = await embed_checked(embedder, main, "query")
        except asyncio.CancelledError:
            self._breaker.cancelled()
            raise
        except Exception as error:  # noqa: BLE001 - the breaker's boundary: an embedder is anybody's code
            is_refused = isinstance(error, EmbeddingError) and error.refused  # one query must not block all others
            if is_refused or isinstance(error, SpendingLimitReached):
                self._breaker.cancelled()
            else:
                self._breaker.failed(self._clock(), timed_out=isinstance(error, TimeoutError))
            return None, self._lost(error)
        finally:
            del self._running[call]
        self._breaker.succeeded(self._clock())
        try:
            async with asyncio.timeout_at(until):
                return await self._near(embedder, vectors, queries, groups, request)
        except (BrimfulError, TimeoutError) as error:
            return None, self._lost(error)

    async def _near(
        self,
        embedder: Embedder,
        vectors: Rows,
        queries: Sequence[Query],
        groups: Sequence[Group],
        request: SearchRequest,
    ) -> tuple[Nearest, Notices]:
        """Return the nearest documents, and a notice if many have no vector yet."""
        limits = [_max_neighbours(group, request) for group in groups]
        asked = [VectorQuery(scopes=group.scopes, vector=vector) for group in groups for vector in vectors]
        nearest, waiting = await self._store.search_vectors(
            embedder.id, asked, limit=max(limits), max_backlog=LAGGING + 1
        )
        found = iter(nearest)
        near = [[next(found)[:limit] if query.main else [] for query in queries] for limit in limits]
        return near, _behind(embedder) if waiting > LAGGING else ()

    def _unknown_language(self, queries: Sequence[Query]) -> Notices:
        """Return a notice if the embedder knows certain languages, and most of the question is in another one."""
        languages: frozenset[str] | None = getattr(self._embedder, "languages", None)
        if self._embedder is None or languages is None:
            return ()
        lengths: Counter[str] = Counter()
        for query in queries:
            if query.main:
                lengths[detect_language(query.text)] += len(query.text)
        unknown = {language: length for language, length in lengths.items() if language not in languages}
        share = sum(unknown.values()) / max(1, lengths.total())
        if share < UNKNOWN_SHARE:
            return ()
        language = max(unknown, key=unknown.__getitem__)
        text = (
            f"{self._embedder.id!r} does not know the language of {share:.0%} of the question ({language}): answers "
            "are found by their words only. Use an embedder that knows it, see `brimful embeddings list`"
        )
        facts = {"embedder": self._embedder.id, "language": language, "share": round(share, 2)}
        return (Notice(kind="unknown-language", text=text, facts=facts),)

    def _skipped(self) -> Notices:
        wait = self._breaker.retry_in(self._clock())
        state = f"it failed repeatedly; next attempt in {wait:.0f} s" if wait else "it is being tried again"
        text = f"vector search is off ({state}): using full-text search only"
        facts = {"retry_in": wait, "error": "circuit breaker"}
        return self._with_opening(Notice(kind="vector-search-off", text=text, facts=facts))

    def _lost(self, error: Exception) -> Notices:
        cause = f"took more than {self._time_limit:g} s" if isinstance(error, TimeoutError) else _cause(error)
        text = f"vector search failed ({cause}): using full-text search only"
        facts = {"cause": cause, "error": _name(error)}
        if not isinstance(error, SpendingLimitReached):  # which is logged once a day, when it is reached
            _log_failure("vector", error)
        return self._with_opening(Notice(kind="vector-search-failed", text=text, facts=facts))

    def _with_opening(self, notice: Notice) -> Notices:
        """Add a notice if the breaker opened, once for each time: it may have opened while nobody was searching."""
        known, self._openings = self._openings, self._breaker.openings
        opened = Notice(kind="breaker-opened", text="the circuit breaker of vector search opened")
        return (notice, opened) if self._openings > known else (notice,)

    # -- from positions to records -----------------------------------------------------------------------------------

    async def _resolve(
        self, group: Group, rankings: "Sequence[_QueryRanking]", names: "Sequence[_Names]", request: SearchRequest
    ) -> list[Hit]:
        """Read the records at the best positions, and return each with the query to which it is most relevant."""
        matches = [each.ranking.matches() for each in rankings]
        positions = {match.position for found in matches for match in found}.union(*(each.positions for each in names))
        records = await self._records(group, sorted(positions), request)
        texts = {i: searchable_text(counted[0]) for i, counted in records.items()}
        is_long = {i for i, text in texts.items() if len(text) > MIN_DIVIDED_CHARS}
        long = sorted({match.doc for found in matches for match in found if match.position in is_long})
        passages = {each.doc: each for each in await self._store.documents(long)} if long else {}
        questions = {each.query.name: each.question_with_addressees(records) for each in names}
        best: dict[str, Hit] = {}
        for ranked, own in zip(rankings, matches, strict=True):
            question = questions.get(ranked.query.name, ranked.query.question)
            found = [
                _find(records[match.position], question, match, texts[match.position], passages.get(match.doc))
                for match in own
                if match.position in records
            ]
            for hit in ranked.hits(found, group):
                known = best.get(hit.record.id)
                if known is None or hit.relevance > known.relevance:
                    best[hit.record.id] = hit
        return [hit for hit in best.values() if not _is_in_context(hit, request)]

    async def _records(
        self, group: Group, positions: Sequence[int], request: SearchRequest
    ) -> dict[int, CountedRecord]:
        """Return records by position, with their stored token counts where available."""
        if not positions:
            return {}
        if group.room is not None:
            messages = await self._store.messages_at(group.room, positions, tokenizer=request.tokenizer)
            return {each.message.seq: (each.message, each.tokens) for each in messages if not each.message.hidden}
        documents = {document.item: document.doc for document in await self._store.documents(positions)}
        if group.kind == "lore":
            entries = await self._store.lore(ids=list(documents))
            return {documents[entry.id]: (entry, None) for entry in entries if entry.enabled}
        memories = await self._store.memories(
            limit=len(documents), **request.memory_filters(ids=list(documents), pinned=request.pinned)
        )
        return {documents[memory.id]: (memory, None) for memory in memories}

    async def _few(self, request: SearchRequest, found: Sequence[Hit]) -> list[Hit]:
        """Return the memories that were not found, if there are few in all."""
        memories = await self._store.memories(
            limit=request.few + 1, **request.memory_filters(scopes=request.memories, pinned=request.pinned)
        )
        ids = {hit.record.id for hit in found}
        others = [memory for memory in memories if memory.id not in ids] if len(memories) <= request.few else []
        return [Hit(record=memory, relevance=FEW_RELEVANCE, query=FEW) for memory in others]

    async def _recent(self, request: SearchRequest, relevant: Sequence[Hit]) -> dict[str, Hit]:
        """Return the most recent memories by id: as many as are missing beside the `relevant` ones."""
        wanted = FALLBACK_MEMORIES if request.max_memories is None else request.max_memories
        missing = min(wanted, request.limit) - len(relevant)
        if not request.memories or missing <= 0 or request.min_relevance > FALLBACK_RELEVANCE:
            return {}
        memories = await self._store.memories(
            limit=missing + len(relevant), **request.memory_filters(scopes=request.memories, pinned=False)
        )
        found = {hit.record.id for hit in relevant}
        others = [memory for memory in memories if memory.id not in found][:missing]
        return {each.id: Hit(record=each, relevance=FALLBACK_RELEVANCE, query=RECENT) for each in others}


def _behind(embedder: Embedder) -> Notices:
    """Say that many documents can only be found by full text."""
    found = f"more than {LAGGING} documents have no vector by {embedder.id!r} yet"
    text = f"vector search is behind ({found}): they are found by full-text search only"
    return (Notice(kind="vector-search-behind", text=text, facts={"embedder": embedder.id}),)


def _term_queries(query: Query, group: Group) -> list[TermQuery]:
    """Return the full-text queries: the terms of a query, and their synonyms."""
    words = TermQuery(scopes=group.scopes, terms=query_terms(query), limit=MAX_ROWS if query.main else SIDE_ROWS)
    if not query.related:
        return [words]
    others = tuple(other for other, _ in query.related)
    return [words, TermQuery(scopes=group.scopes, terms=others, limit=SIDE_ROWS, rare_only=True)]


def _next_postings(query: Query, results: Iterator[Postings]) -> Postings:
    own = next(results)
    return expand_postings(own, next(results), [term for _, term in query.related]) if query.related else own


class _QueryRanking(msgspec.Struct, frozen=True, kw_only=True):
    """The best positions of a group for one query, and the coefficients of the embedder that it uses."""

    query: Query
    ranking: Ranking
    coefficients: Coefficients

    def hits(self, found: "Sequence[_Found]", group: Group) -> Iterator[Hit]:
        """Yield the hits with their relevance: a probability, multiplied by the weight of the query.

        The weight is the probability that the query is what the answer is about.
        """
        if not found:
            return
        relevance = self._relevance(np.array([each.match.log_share for each in found]), group).tolist()
        order = sorted(range(len(found)), key=lambda i: (-relevance[i], found[i].record.id))
        best, total = relevance[order[0]], sum(relevance[i] for i in order[:ADDED_UP])
        allowed = BEST_ABOUT_PEOPLE if self.query.main and self.query.question.about_people else 0
        first = set(order[:allowed])
        for index, (each, value) in enumerate(zip(found, relevance, strict=True)):
            stands_out = index in first or each.match.log_share > OUTSTANDING
            yield each.hit(value, self.query.name, best=best, total=total, stands_out=stands_out)

    def without_unlikely(self, group: Group, least: float) -> "_QueryRanking":
        """Return the positions that may be relevant enough, whatever their texts are, and a few of the others."""
        ranking = self.ranking
        if not least or len(ranking.positions) <= ADDED_UP:
            return self
        highest = self._relevance(ranking.log_shares + MAX_SPEAKER, group)
        likely = (highest >= least) | (np.arange(len(highest)) < ADDED_UP)
        return msgspec.structs.replace(self, ranking=ranking.at(np.flatnonzero(likely)))

    def _relevance(self, log_shares: Values, group: Group) -> Values:
        outlook = Outlook.of(self.ranking, self.query.question, group.kind)
        return self.query.weight * calibrate(log_shares, outlook, self.coefficients)


def _rank_group(
    queries: Sequence[Query],
    group: Group,
    evidence: Sequence[tuple[Postings, Sequence[VectorHit]]],
    request: SearchRequest,
    embedder: str | None,
) -> list[_QueryRanking]:
    """Rank a group by each query. None of them depends on the others."""
    is_own = group.room is not None and group.room == request.room
    before = request.before if is_own else None
    rankings = []
    for query, (postings, near) in zip(queries, evidence, strict=True):
        if is_own and query.positions:
            postings, near = _without(postings, near, query.positions)  # noqa: PLW2901 - the same without itself
        limit = group.limit if query.main else SIDE_MATCHES
        ranked = _QueryRanking(
            query=query,
            ranking=rank(postings, stretch(near, embedder), conversation=group.room is not None).before(before, limit),
            coefficients=coefficients_of(embedder if query.main else None),
        )
        rankings.append(ranked.without_unlikely(group, request.floor))
    return rankings


def _without(
    postings: Postings, near: Sequence[VectorHit], positions: Sequence[int]
) -> tuple[Postings, Sequence[VectorHit]]:
    """Return the evidence without that at some positions."""
    others = ~np.isin(np.asarray(postings.seq, np.int64), positions)
    columns = {
        name: np.asarray(getattr(postings, name))[others] for name in ("doc", "seq", "length", "term", "frequency")
    }
    return msgspec.structs.replace(postings, **columns), [hit for hit in near if hit.seq not in positions]


def _is_in_context(hit: Hit, request: SearchRequest) -> bool:
    """Whether a hit is a message that is in the context anyway."""
    record = hit.record
    return (
        request.before is not None
        and isinstance(record, Message)
        and record.room == request.room
        and record.seq >= request.before
    )


def _max_neighbours(group: Group, request: SearchRequest) -> int:
    """Return how many vectors to find: of short messages, as many as fit into a large budget."""
    if group.room is None:
        return MAX_NEIGHBOURS
    return max(MAX_NEIGHBOURS, min(group.limit, MAX_VECTORS) if request.floor else group.limit)


class _Names(msgspec.Struct, frozen=True):
    """A query with names, and the positions to read for them."""

    query: Query
    positions: list[int]

    def question_with_addressees(self, records: Mapping[int, CountedRecord]) -> Question:
        messages = {i: records[i][0] for i in self.positions if i in records}
        spoken = {i: each for i, each in messages.items() if isinstance(each, Message)}
        addressees = find_addressees(spoken, {word for _, word in self.query.question.names})
        return msgspec.structs.replace(self.query.question, addressees=addressees)


def _find_names(queries: Sequence[Query], postings: Sequence[Postings]) -> list[_Names]:
    found = zip(queries, map(_positions_of_names, queries, postings), strict=True)
    return [_Names(query, positions) for query, positions in found if positions]


def _positions_of_names(query: Query, postings: Postings) -> list[int]:
    """Return where the names in a main query occur, in the newest messages with each, and the positions beside."""
    names = [name for name, _ in query.question.names if query.main and name in postings.terms]
    seqs, terms = np.asarray(postings.seq, np.int64), np.asarray(postings.term, np.int64)
    newest = [np.sort(seqs[terms == postings.terms.index(name)])[-_NAMED_MESSAGES:].tolist() for name in names]
    return sorted({near for found in newest for i in found for near in (i - 1, i, i + 1) if near > 0})


class _Found(msgspec.Struct, frozen=True, gc=False):
    """A record that was found, without its relevance yet, and what that depends on."""

    record: Message | Memory | LoreEntry
    tokens: int | None
    match: Match
    passage: Passage | None

    def hit(self, relevance: float, query: str, *, best: float, total: float, stands_out: bool) -> Hit:
        return Hit(
            record=self.record,
            relevance=relevance,
            best=best,
            total=total,
            stands_out=stands_out,
            parts=self.match.parts,
            query=query,
            tokens=self.tokens,
            passage=self.passage,
        )


def _find(counted: CountedRecord, question: Question, match: Match, text: str, document: Document | None) -> _Found:
    """Take the text of the passage and its speaker into account."""
    record, tokens = counted
    speaker = record.sender if isinstance(record, Message) else ""
    passage = None
    if document is not None and document.stop:
        passage = Passage(number=max(0, document.part), start=document.start, stop=document.stop)
        text = text[document.start : document.stop]
    match = add_speaker(match, question, speaker=speaker, text=text)
    return _Found(record, tokens, match, passage)


def _with_recency(hit: Hit, half_life: float, now: float) -> Hit:
    """Return the hit with its relevance multiplied by its recency."""
    at = 0.0 if isinstance(hit.record, LoreEntry) else hit.record.at
    if not at:
        return hit
    recency = 0.5 ** (max(0.0, now - at) / (half_life * SECONDS_PER_DAY))
    return msgspec.structs.replace(hit, relevance=hit.relevance * recency, recency=recency)


def _with_recent(hits: Sequence[Hit], recent: dict[str, Hit]) -> list[Hit]:
    """Add recent memories. Those that match are worth more, so they come before them."""
    combined = list(recent.values())
    for hit in hits:
        if _is_matching_memory(hit):
            relevance = FALLBACK_RELEVANCE + (1 - FALLBACK_RELEVANCE) * hit.relevance
            combined.append(msgspec.structs.replace(hit, relevance=relevance))
        elif not isinstance(hit.record, Memory) or hit.record.id not in recent:
            combined.append(hit)
    return combined


def _is_matching_memory(hit: Hit) -> bool:
    likely = hit.relevance >= FALLBACK_RELEVANCE or hit.parts.words >= MIN_WORDS
    return isinstance(hit.record, Memory) and likely


def _fallback_notice(relevant: int) -> Notice:
    found = "no memories" if not relevant else "one memory" if relevant == 1 else f"{relevant} memories"
    text = f"search found {found}: the most recent ones are used {'as well' if relevant else 'instead'}"
    return Notice(kind="recent-memories", text=text, facts={"found": relevant})


def _name(error: BaseException) -> str:
    """Return what kind of error it was, for logs: its message may quote content.

    >>> _name(EmbeddingError("e", "tea is no food", status=400)), _name(TimeoutError())
    ('EmbeddingError 400', 'TimeoutError')
    """
    reason = getattr(error, "status", None) or (type(error.__cause__).__name__ if error.__cause__ else "")
    return f"{type(error).__name__} {reason}".rstrip()


def _log_failure(search: str, error: BaseException) -> None:
    fields = {"search": search, "error": _name(error)}
    _log.warning("search failed search=%(search)s error=%(error)s", fields, extra=fields)


def _cause(error: BaseException) -> str:
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message}"[:_MAX_CAUSE_CHARS] if message else type(error).__name__
