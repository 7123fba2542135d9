"""Reranking: the order of both, and every way in which a reranker can fail."""

import asyncio
from itertools import count

import pytest

import brimful
from brimful.errors import InvalidValue
from brimful.records import Memory, Message
from brimful.retrieval.breaker import Breaker
from brimful.retrieval.rerank import MAX_RERANKED, MAX_TEXT_CHARS, Reranking, hit_text
from brimful.retrieval.search import Hit, Passage


class Scores:
    """Scores texts with a function, and records what it was asked."""

    def __init__(self, score):
        self.score = score
        self.calls = []

    async def rerank(self, question, texts):
        self.calls.append((question, list(texts)))
        return self.score(texts)


class Hanging:
    """Never returns."""

    async def rerank(self, question, texts):
        del question, texts
        await asyncio.Event().wait()


def make_hits(*texts):
    return [
        Hit(record=Memory(id=f"m{at}", content=text, at=1.0), relevance=0.5 - at / 2_000)
        for at, text in enumerate(texts)
    ]


def make_reranking(reranker, **options):
    return Reranking(reranker, clock=lambda: 1.0, breaker=Breaker(now=0.0), **{"time_limit": 60.0} | options)


def reorder(reranking, hits, question="Tea?"):
    return asyncio.run(reranking.reorder(question, hits))


def test_scores_of_the_reranker_add_to_scores_of_the_search():
    reranker = Scores(lambda texts: [1_000 * len(text) for text in texts])
    found, notices = reorder(make_reranking(reranker), make_hits("b", "ccc"))
    assert notices == ()
    assert [hit.record.content for hit in found] == ["ccc", "b"]
    # 0.75 of log-odds more and less than 0.4995 and 0.5: two scores are one standard deviation from their mean.
    assert [hit.relevance for hit in found] == pytest.approx([0.6787, 0.3208], abs=0.0001)
    assert reranker.calls == [("Tea?", ["b", "ccc"])]


def test_equal_scores_change_nothing():
    hits = make_hits("a", "b")
    assert reorder(make_reranking(Scores(lambda texts: [0.5] * len(texts))), hits) == (hits, ())


def test_only_the_best_are_read():
    reranker = Scores(lambda texts: range(len(texts)))
    hits = make_hits(*(f"text {at}" for at in range(MAX_RERANKED + 3)))
    found, _ = reorder(make_reranking(reranker), hits[::-1])
    assert reranker.calls[0][1] == [hit.record.content for hit in hits[:MAX_RERANKED]]
    assert {hit.record.id: hit for hit in found}[f"m{MAX_RERANKED}"] == hits[MAX_RERANKED]
    assert found[0].record.id == f"m{MAX_RERANKED - 1}"


@pytest.mark.parametrize("count", [0, 1])
def test_a_single_hit_is_not_reranked(count):
    reranker = Scores(lambda texts: [1.0] * len(texts))
    hits = make_hits(*["tea"] * count)
    assert reorder(make_reranking(reranker), hits) == (hits, ())
    assert reranker.calls == []


@pytest.mark.parametrize(
    ("score", "cause"),
    [
        (lambda texts: [1.0] * (len(texts) - 1), "failed (ValueError)"),
        (lambda texts: [float("nan")] * len(texts), "failed (ValueError)"),
        (lambda texts: [1e308, -1.7e308, *[1.5e308] * (len(texts) - 2)], "failed (ValueError)"),
        (lambda texts: ["1"] * len(texts), "failed (ValueError)"),
        (lambda _: count(), "failed (ValueError)"),
        (lambda _: None, "failed (TypeError)"),
        (lambda _: 1 / 0, "failed (ZeroDivisionError)"),
    ],
    ids=["too few", "not a number", "too large", "strings", "endless", "nothing", "error"],
)
def test_after_three_failures_it_is_not_asked_again(score, cause):
    reranker = Scores(score)
    reranking, hits = make_reranking(reranker), make_hits("a", "b")
    results = [reorder(reranking, hits) for _ in range(4)]
    assert all(found == hits for found, _ in results)
    assert [notice.kind for _, [notice] in results] == ["reranker-failed"] * 4
    assert [notice.facts["cause"] for _, [notice] in results[:3]] == [cause] * 3
    assert "not asked again" in str(results[3][1][0])
    assert len(reranker.calls) == 3


def test_only_failures_in_a_row_count():
    answers = iter([[], [], [1.0, 2.0], [], [], [1.0, 2.0]])
    reranker = Scores(lambda _: next(answers))
    reranking = make_reranking(reranker)
    assert [len(reorder(reranking, make_hits("a", "b"))[1]) for _ in range(6)] == [1, 1, 0, 1, 1, 0]


def test_a_reranker_is_not_asked_again_after_a_timeout():
    reranking, hits = make_reranking(Hanging(), time_limit=0.001), make_hits("a", "b")
    causes = [reorder(reranking, hits)[1][0].facts["cause"] for _ in range(2)]
    assert causes[0] == "took longer than 0.001 s"
    assert "not asked again" in causes[1]


def test_after_a_cancelled_probe_the_next_call_is_a_probe():
    breaker, hits = Breaker(now=0.0, failures=1, cooldown=60.0), make_hits("a", "b")
    breaker.failed(1.0)
    reranker = Scores(lambda texts: [0.0 for _ in texts])
    hanging, working = (
        Reranking(each, clock=lambda: 62.0, breaker=breaker, time_limit=60.0) for each in (Hanging(), reranker)
    )

    async def cancel_probe():
        probe = asyncio.create_task(hanging.reorder("Tea?", hits))
        await asyncio.sleep(0)
        probe.cancel()
        await asyncio.gather(probe, return_exceptions=True)

    asyncio.run(cancel_probe())
    assert reorder(working, hits) == (hits, ())
    assert len(reranker.calls) == 1


def test_a_reranker_reads_the_speaker_and_the_passage():
    message = Message(id="m", room="r", sender="Ada", content="x" * 5_000 + "Tea at four.", at=1.0)
    assert hit_text(Hit(record=message, relevance=0.5)) == f"Ada: {'x' * MAX_TEXT_CHARS}"
    passage = Passage(number=5, start=5_000, stop=5_012)
    assert hit_text(Hit(record=message, relevance=0.5, passage=passage)) == "Ada: Tea at four."
    long = Passage(number=0, start=0, stop=5_000)
    assert len(hit_text(Hit(record=message, relevance=0.5, passage=long))) == len("Ada: ") + MAX_TEXT_CHARS


def test_an_engine_reranks_and_says_if_it_could_not(tmp_path):
    async def build(reranker):
        async with brimful.Engine(f"sqlite:///{tmp_path}/a.db", embedder="none", reranker=reranker) as engine:
            await engine.remember("Ann drinks green tea.", id="green")
            await engine.remember("Ann drinks black tea at work.", id="black")
            hits = await engine.search("What tea does Ann drink?")
            return [hit.record.id for hit in hits], [notice.kind for notice in hits.degraded]

    plain, _ = asyncio.run(build(None))
    reranker = Scores(lambda texts: [float("black" in text) for text in texts])
    ids, notices = asyncio.run(build(reranker))
    assert sorted(plain) == sorted(ids) == ["black", "green"]
    assert ids[0] == "black"
    assert notices == []
    assert reranker.calls[0][0] == "What tea does Ann drink?"
    _, notices = asyncio.run(build(Scores(lambda _: [])))
    assert notices == ["reranker-failed"]


def test_an_object_that_is_no_reranker_is_an_error():
    with pytest.raises(InvalidValue, match="reranker: must be a Reranker, with a method `rerank`"):
        brimful.Engine("sqlite://", reranker=object())
