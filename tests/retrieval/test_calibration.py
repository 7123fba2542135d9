import asyncio

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.engine import Engine
from brimful.records import Memory
from brimful.retrieval.calibration import INPUTS, calibrate, coefficients_of, describe, load_coefficients
from brimful.retrieval.rank import against
from relevance_texts import FACTS, UNRELATED, notes

kinds = st.sampled_from(["room", "memory", "lore"])
log_odds = st.lists(st.floats(-20, 5).map(lambda value: round(value, 3)), min_size=1, max_size=30)


def probabilities(values, *, documents=500, kind="memory", embedder="static", lengths=None):
    return calibrate(
        np.array(values),
        np.full(len(values), 100) if lengths is None else np.array(lengths),
        documents=documents,
        kind=kind,
        coefficients=coefficients_of(embedder),
    ).tolist()


@pytest.mark.parametrize("embedder", [None, "static-minilm-256@1", "small-int8-384@2", "text-embedding-3-small"])
@given(values=log_odds, kind=kinds, documents=st.integers(0, 10**6))
def test_probabilities_are_in_the_order_of_the_log_odds(embedder, values, kind, documents):
    found = probabilities(values, kind=kind, documents=documents, embedder=embedder)
    assert all(0 < each < 1 for each in found)
    for at, one in enumerate(values):
        for other, value in enumerate(values):
            assert one <= value or found[at] > found[other]
            assert one != value or found[at] == pytest.approx(found[other])


def test_every_set_rises_with_what_speaks_for_a_match():
    for coefficients in load_coefficients().values():
        assert coefficients.own > 0
        assert min(coefficients.best, coefficients.gap, coefficients.lead, coefficients.length) >= 0


def test_an_embedder_that_nobody_knows_has_its_own_set():
    assert coefficients_of("anything") == load_coefficients()["other"]
    assert coefficients_of(None) == load_coefficients()["none"]
    assert coefficients_of("static-minilm-256@1") == load_coefficients()["static"]


def inputs_of(name, values):
    rows = describe(np.array(values), np.full(len(values), 100), documents=500, kind="memory")
    return rows[:, INPUTS.index(name)].tolist()


def test_steps_down_count_among_the_best_five_in_any_order():
    assert inputs_of("gap", [1.0, 9.0, 5.0]) == pytest.approx([0.0, 4.0, 4.0])
    assert inputs_of("gap", [9.0, 8.0, 6.0, 5.0, 4.0, -9.0]) == pytest.approx([2.0, 2.0, 1.0, 1.0, 0.0, 0.0])


def test_the_best_match_leads_before_the_tenth():
    assert inputs_of("lead", [float(-n) for n in range(12)]) == pytest.approx([9.0] * 12)


def test_what_stands_out_is_likelier_than_one_of_many():
    alone = probabilities([-6.0, *[-14.0] * 20])
    twice = probabilities([-6.0, -6.1, *[-14.0] * 20])
    many = probabilities([-6.0] * 21)
    assert alone[0] > 0.5 > many[0]
    assert twice[1] == pytest.approx(alone[0], abs=0.05)


def test_a_short_message_is_less_likely_to_help_but_a_short_memory_is_not():
    room = probabilities([-8.0, -8.0], kind="room", lengths=[5, 500])
    memory = probabilities([-8.0, -8.0], kind="memory", lengths=[5, 500])
    assert room[0] < room[1]
    assert memory[0] == memory[1]


def test_the_inputs_of_a_single_match_compare_it_with_nothing():
    inputs = dict(zip(INPUTS, describe(np.array([-5.0]), np.array([10]), documents=1, kind="memory")[0], strict=True))
    own = against(1) - 5
    assert inputs == pytest.approx({**dict.fromkeys(INPUTS, 0.0), "own": own, "gap": own, "lead": own, "constant": 1.0})
    assert probabilities([]) == []


async def ask(texts, questions, embedder="static"):
    async with Engine("sqlite://", model="gpt-4o", embedder=embedder, indexing=False) as engine:
        await engine.remember_many([Memory(id=text, content=text) for text in texts])
        if embedder:
            await engine.index()
        return [{hit.record.id: hit.relevance for hit in await engine.search(each)} for each in questions]


@pytest.mark.parametrize("count", [5, 500])
@pytest.mark.parametrize("fact", FACTS)
def test_a_fact_in_other_words_is_likely_to_help_and_nothing_else_is(count, fact):
    (found,) = asyncio.run(ask([fact, *notes(count)], [FACTS[fact]]))
    assert 0.5 < found.pop(fact) < 1.0
    assert max(found.values(), default=0.0) < 0.05


@pytest.mark.parametrize("embedder", ["static", None])
def test_a_question_about_nothing_in_the_store_finds_nothing_likely(embedder):
    for found in asyncio.run(ask(notes(300), UNRELATED, embedder)):
        assert max(found.values(), default=0.0) < 0.05
