import asyncio

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.embedding import StaticEmbedder
from brimful.engine import Engine
from brimful.records import Memory
from brimful.records.search import VectorHit
from brimful.retrieval.calibration import (
    INPUTS,
    Outlook,
    calibrate,
    coefficients_of,
    describe,
    load_coefficients,
    stretch,
)
from brimful.retrieval.rank import MAX_NEIGHBOURS
from relevance_texts import FACTS, UNRELATED, notes

kinds = st.sampled_from(["room", "memory", "lore"])
log_shares = st.lists(st.floats(-20, 0).map(lambda value: round(value, 3)), min_size=1, max_size=30)


def probabilities(values, *, embedder="static", **outlook):
    outlook = Outlook(**{"kind": "memory", "documents": 500, "nearest": 0.4, "coverage": 0.3} | outlook)
    return calibrate(np.array(values), outlook, coefficients_of(embedder)).tolist()


@pytest.mark.parametrize("embedder", [None, "static-minilm-256@1", "small-int8-384@2", "text-embedding-3-small"])
@given(values=log_shares, kind=kinds, documents=st.integers(0, 10**6))
def test_probabilities_are_in_the_order_of_the_shares(embedder, values, kind, documents):
    found = probabilities(values, kind=kind, documents=documents, embedder=embedder)
    assert all(0 < each < 1 for each in found)
    for at, one in enumerate(values):
        for other, value in enumerate(values):
            assert one <= value or found[at] > found[other]
            assert one != value or found[at] == pytest.approx(found[other])


def test_every_set_rises_with_what_speaks_for_an_answer():
    for name, coefficients in load_coefficients().items():
        assert min(coefficients.share, coefficients.coverage) > 0
        assert name == "none" or coefficients.nearest > 0 > coefficients.no_words


def test_an_embedder_that_nobody_knows_has_its_own_set():
    assert coefficients_of("anything") == load_coefficients()["other"]
    assert coefficients_of(None) == load_coefficients()["none"]
    assert coefficients_of("static-minilm-256@1") == load_coefficients()["static"]


def test_a_match_of_a_question_without_words_is_unlikely_to_help():
    thanks, question = (probabilities([-1.0], terms=terms)[0] for terms in (0, 5))
    assert thanks < 0.01 < question


def test_near_vectors_and_covered_words_make_an_answer_likelier():
    assert probabilities([-2.0], nearest=0.8) > probabilities([-2.0], nearest=0.3)
    assert probabilities([-2.0], coverage=0.8) > probabilities([-2.0], coverage=0.1)


def test_the_inputs_of_a_single_match():
    rows = describe(np.array([-5.0]), Outlook(kind="memory", documents=1))
    expected = {**dict.fromkeys(INPUTS, 0.0), "share": -5.0, "constant": 1.0}
    assert dict(zip(INPUTS, rows[0].tolist(), strict=True)) == pytest.approx(expected)
    assert probabilities([]) == []


async def ask(texts, questions, embedder="static"):
    async with Engine("sqlite://", model="gpt-4o", embedder=embedder, indexing=False) as engine:
        await engine.remember_many([Memory(id=text, content=text) for text in texts])
        if embedder:
            await engine.index()
        return [{hit.record.id: hit.relevance for hit in await engine.search(each)} for each in questions]


@pytest.mark.parametrize("count", [5, 500])
@pytest.mark.parametrize("fact", FACTS)
def test_a_fact_in_other_words_is_far_more_likely_to_help_than_anything_else(count, fact):
    (found,) = asyncio.run(ask([fact, *notes(count)], [FACTS[fact]]))
    assert 0.1 < (relevance := found.pop(fact)) < 1.0
    assert max(found.values(), default=0.0) < relevance / 5


@pytest.mark.parametrize("embedder", ["static", None])
def test_a_question_about_nothing_in_the_store_finds_nothing_likely(embedder):
    for found in asyncio.run(ask(notes(300), UNRELATED, embedder)):
        assert max(found.values(), default=0.0) < 0.1


def near(*similarities):
    return [VectorHit(doc=n, seq=n, similarity=each) for n, each in enumerate(similarities)]


def stretched(*similarities, embedder="text-embedding-3-small"):
    return [hit.similarity for hit in stretch(near(*similarities), embedder)]


@given(similarities=st.lists(st.floats(0, 1), min_size=2, max_size=30), least=st.floats(0, 0.9))
def test_similarities_of_an_unknown_embedder_do_not_depend_on_their_range(similarities, least):
    squeezed = [least + (1 - least) * each for each in similarities]
    assert stretched(*squeezed) == pytest.approx(stretched(*similarities), abs=0.01)


def test_similarities_of_an_unknown_embedder_begin_at_the_least_similar_of_a_fixed_number():
    nearest = [0.9, *[0.5] * (MAX_NEIGHBOURS - 1)]
    assert stretched(*nearest) == pytest.approx([0.8, *[0.0] * (MAX_NEIGHBOURS - 1)])
    assert stretched(*nearest, 0.1)[:2] == pytest.approx([0.8, 0.0])
    assert stretched(0.4, 0.2, -0.3)[:2] == pytest.approx([0.4, 0.2])  # opposites say nothing about the range
    assert stretched(1.0, 1.0) == [0.0, 0.0]


@pytest.mark.parametrize("embedder", [None, "static-minilm-256@1", "small-int8-384@2"])
def test_similarities_that_the_coefficients_were_fitted_to_stay_as_they_are(embedder):
    assert stretched(0.9, 0.5, embedder=embedder) == [0.9, 0.5]
    assert stretched() == []


class Squeezed:
    """The static table, but all cosines are between `least` and 1, as with many models."""

    def __init__(self, least):
        self.id, self._least, self._embedder = f"squeezed-{least}@1", least, StaticEmbedder()

    async def embed(self, texts, purpose):
        rows = await self._embedder.embed(texts, purpose) * np.sqrt(1 - self._least)
        return np.hstack([rows, np.full((len(rows), 1), np.sqrt(self._least), np.float32)])

    async def close(self):
        await self._embedder.close()


def test_an_embedder_whose_similarities_are_all_high_works_as_well():
    texts, questions = [*FACTS, *notes(300)], list(FACTS.values())
    wide, narrow = (asyncio.run(ask(texts, questions, Squeezed(least))) for least in (0.0, 0.8))
    for fact, one, other in zip(FACTS, wide, narrow, strict=True):
        assert other[fact] == pytest.approx(one[fact], rel=0.2)  # what is left are 8 bits of each vector
        assert max(other, key=other.__getitem__) == max(one, key=one.__getitem__) == fact
