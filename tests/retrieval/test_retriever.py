"""The breaker belongs to the embedder: store failures are reported and do not count against it."""

import asyncio
import logging

import numpy as np
import pytest

from brimful.engine import Engine
from brimful.errors import EmbeddingError, SpendingLimitReached, StoreUnavailable
from brimful.records import Message
from brimful.retrieval.breaker import Breaker
from brimful.retrieval.cache import Cache
from brimful.retrieval.queries import make_queries
from brimful.retrieval.retriever import Retriever, embed_checked
from brimful.retrieval.search import SearchRequest
from brimful.testing import HashEmbedder


class Failing:
    """A store of nothing, whose search by vectors fails, or never ends."""

    def __init__(self, *, hang=False, scopes=("room:den",)):
        self.hang = hang
        self.scopes = scopes

    async def scope_version(self, scopes):
        return "1" if set(scopes) & set(self.scopes) else ""

    async def find_postings(self, asked):
        raise StoreUnavailable("chat.db", f"no {len(asked)} answers")

    async def search_vectors(self, embedder, asked, *, limit, max_backlog):
        del max_backlog
        if self.hang:
            await asyncio.Event().wait()
        raise StoreUnavailable("chat.db", f"no {limit} of {embedder} for {len(asked)}")


def retrieved(store, embedder, breaker, times, time_limit=0.02, request=SearchRequest(room="den")):  # noqa: B008 - frozen
    retriever = Retriever(store, embedder, clock=lambda: 1.0, breaker=breaker, cache=Cache(), time_limit=time_limit)

    async def story():
        return [await retriever.retrieve(make_queries("Tea?"), request, now=1.0) for _ in range(times)]

    return asyncio.run(story())


@pytest.mark.parametrize(("hang", "cause"), [(False, "StoreUnavailable: chat.db: no 200 of"), (True, "took more than")])
def test_a_store_that_fails_opens_no_breaker(hang, cause):
    breaker = Breaker(now=0.0, failures=2)
    time_limit = 0.02 if hang else 60.0  # a busy machine must not look like a store that hangs
    for result in retrieved(Failing(hang=hang), HashEmbedder(), breaker, 3, time_limit):
        words, meanings = result.degraded
        assert words.kind == "text-search-failed"
        assert words.facts["cause"].startswith("StoreUnavailable")
        assert meanings.kind == "vector-search-failed"
        assert meanings.facts["cause"].startswith(cause)
    assert breaker.state(1.0) == "closed"


def test_the_reason_of_each_failed_search_is_logged(caplog):
    with caplog.at_level(logging.WARNING, "brimful.search"):
        retrieved(Failing(), HashEmbedder(), Breaker(now=0.0), 1)
    logged = [(record.levelname, record.search, record.error) for record in caplog.records]
    assert logged == [("WARNING", search, "StoreUnavailable") for search in ("full-text", "vector")]
    assert caplog.records[0].getMessage() == "search failed search=full-text error=StoreUnavailable"


def test_a_spending_limit_is_not_logged_with_each_search(caplog):
    embedder = HashEmbedder()
    embedder.fail_with = SpendingLimitReached("tokens", limit=1.0, spent=1.0, reserved=0.0, until=9.0)
    with caplog.at_level(logging.WARNING, "brimful.search"):
        retrieved(Failing(), embedder, Breaker(now=0.0), 2)
    assert [record.search for record in caplog.records] == ["full-text"] * 2


@pytest.mark.parametrize("before", [1, 2])
def test_a_room_that_is_in_the_context_as_a_whole_is_not_searched(before):
    request = SearchRequest(room="den", before=before, memories=("memory:::",), fallback="never")
    (result,) = retrieved(Failing(), None, Breaker(now=0.0), 1, request=request)
    assert [each.kind for each in result.degraded] == ([] if before == 1 else ["text-search-failed"])


def test_scopes_without_documents_are_not_searched():
    embedder = HashEmbedder()
    (result,) = retrieved(Failing(scopes=()), embedder, Breaker(now=0.0), 1)
    assert (result.hits, result.degraded, embedder.calls) == ((), (), [])


def test_an_embedder_that_fails_does():
    breaker = Breaker(now=0.0, failures=2)
    embedder = HashEmbedder()
    embedder.fail_with = ConnectionError("gone")
    said = [result.degraded[1] for result in retrieved(Failing(), embedder, breaker, 3)]
    assert [each.kind == "vector-search-failed" for each in said] == [True, True, False]
    assert breaker.state(1.0) == "open"


def test_an_embedder_that_refuses_a_text_does_not():
    breaker = Breaker(now=0.0, failures=1)
    embedder = HashEmbedder()
    embedder.fail_with = EmbeddingError(embedder.id, "too long", refused=True)
    said = [result.degraded[1] for result in retrieved(Failing(), embedder, breaker, 3)]
    assert all("EmbeddingError: hash-32@1: too long" in each.text for each in said)
    assert breaker.state(1.0) == "closed"


def test_an_open_breaker_says_when_the_next_attempt_is():
    breaker = Breaker(now=0.0, failures=1, cooldown=60.0)
    breaker.failed(0.5)
    [result] = retrieved(Failing(), HashEmbedder(), breaker, 1)
    assert result.degraded[1].kind == "vector-search-off"
    assert result.degraded[1].facts == {"retry_in": 59.5, "error": "circuit breaker"}


def test_only_main_queries_are_embedded():
    embedder = HashEmbedder()
    queries = make_queries("Tea?", recent=[Message(id="m1", room="den", content="Coffee?", role="user")], focus="cups")
    retriever = Retriever(Failing(), embedder, clock=lambda: 1.0, breaker=Breaker(now=0.0), cache=Cache())
    asyncio.run(retriever.retrieve(queries, SearchRequest(room="den"), now=1.0))
    assert [query.name for query in queries] == ["event", "focus", "human"]
    assert embedder.calls == [(("Tea?", "cups"), "query")]


@pytest.mark.parametrize("shape", [(2, 4), (0, 4), (1, 0), (4,), (1, 1, 4)])
def test_an_embedder_that_does_not_return_a_row_for_each_text_fails(shape):
    class Odd(HashEmbedder):
        async def embed(self, _texts, _purpose):
            return np.ones(shape, np.float32)

    with pytest.raises(EmbeddingError, match=r"returned an array of shape .* for 1 texts"):
        asyncio.run(embed_checked(Odd(), ["tea"], "query"))


def test_an_embedder_that_hangs_costs_one_time_limit():
    breaker = Breaker(now=0.0, failures=3)
    embedder = HashEmbedder()
    embedder.hang = True
    notices = [result.degraded[1].kind for result in retrieved(Failing(), embedder, breaker, 3)]
    assert notices == ["vector-search-failed", "vector-search-off", "vector-search-off"]
    assert len(embedder.calls) == 1


class ManualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock is set by the test."""

    now = 0.0

    def time(self):
        return self.now


def test_concurrent_searches_give_up_on_a_hanging_embedder_together():
    embedder = HashEmbedder()
    embedder.hang = True
    retriever = Retriever(
        Failing(), embedder, clock=lambda: 1.0, breaker=Breaker(now=0.0), cache=Cache(), time_limit=100.0
    )

    async def search(calls):
        task = asyncio.create_task(retriever.retrieve(make_queries("Tea?"), SearchRequest(room="den"), now=1.0))
        while len(embedder.calls) < calls:  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0)
        return task

    async def story(loop):
        first = await search(1)
        loop.now = 90.0
        second = await search(2)
        loop.now = 101.0
        return [result.degraded[1].kind for result in await asyncio.gather(first, second)]

    with asyncio.Runner(loop_factory=ManualLoop) as runner:
        assert runner.run(story(runner.get_loop())) == ["vector-search-failed"] * 2


def test_a_large_budget_of_short_messages_is_filled():
    async def story():
        async with Engine("sqlite://", model="gpt-4", embedder=HashEmbedder()) as engine:
            await engine.post_many([Message(id=f"m{at}", room="den", content=f"word{at}") for at in range(300)])
            await engine.index()
            return await engine.search("Anything else?", room="den", limit=300)

    assert len(asyncio.run(story())) == 300


@pytest.mark.parametrize("embedder", [None, HashEmbedder()])
def test_a_term_in_every_passage_of_a_long_memory_is_still_rare(sqlite_url, embedder):
    """Passages of one record are not many records: its relevance does not fall with its length."""

    async def search(sentences):
        async with Engine(f"{sqlite_url}.{sentences}", embedder=embedder) as engine:
            await engine.remember(" ".join(f"The ladder was seen on day {n}." for n in range(sentences)), id="long")
            await engine.remember("Ada is tall.", id="short")
            await engine.wait_indexed()
            found = await engine.search("How tall is the ladder in the shed?")
            return next(hit.relevance for hit in found if hit.record.id == "long")

    assert asyncio.run(search(1_000)) > 0.5 * asyncio.run(search(20))
