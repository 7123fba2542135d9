import pytest

from brimful import ContentPackage, Count, Flex
from brimful.core.decision import explain_search, make_scorer
from brimful.core.policy import Weights

DAY = 86_400.0


def make(**changes):
    base = {"id": "a", "kind": "k", "content": "", "tokens": Count(tokens=1, basis="exact")}
    return ContentPackage(**base | changes)


def test_the_seeds_weights():
    package = make(importance=0.6, relevance=0.9, timestamp=DAY, flex=Flex(priority=8))
    result = make_scorer(Weights(), now=31 * DAY)(package)
    assert result.recency == pytest.approx(0.36788, abs=1e-5)
    assert result.total == pytest.approx(0.4 * 0.8 + 0.3 * 0.6 + 0.2 * 0.9 + 0.1 * 0.36788, abs=1e-5)


def test_no_relevance_is_neutral_and_the_future_is_as_recent_as_can_be():
    result = make_scorer(Weights(), now=0.0)(make(timestamp=99 * DAY))
    assert (result.relevance, result.recency) == (0.5, 1.0)


def test_parts_are_kept_before_weighting():
    result = make_scorer(Weights(importance=1.0), now=0.0)(make(importance=0.25))
    assert (result.priority, result.importance) == (0.5, 0.25)


def test_a_search_hit_says_what_speaks_for_it():
    found = {"query": "message", "relevance": 0.714, "parts": {"words": 6.14, "meaning": 0.04, "time": 1.5}}
    assert explain_search(found) == "found by retrieval (relevance 71 %: words 6.1, time 1.5)"
    assert explain_search(found | {"parts": {}}) == "found by retrieval (relevance 71 %)"
    passage = {"number": 2, "start": 2_000, "stop": 3_000}
    assert explain_search(found | {"passage": passage}).endswith(
        "passage 3 (characters 2,000 to 3,000) matches the query"
    )
    assert explain_search({"query": "recent"}) == "it is one of the most recent memories"
    assert explain_search({"query": "few"}) == "it is one of the few memories"


@pytest.mark.parametrize("metadata", [None, "x", 7, {}, {"relevance": "high", "parts": {}}, {"relevance": 0.5}])
def test_metadata_of_somebody_else_say_nothing(metadata):
    assert not explain_search(metadata)


def test_parts_that_are_no_numbers_are_not_shown():
    assert explain_search({"relevance": 0.5, "parts": {"words": "many", "time": 1.0}}).endswith("50 %: time 1.0)")
