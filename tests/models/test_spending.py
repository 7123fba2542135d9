"""The cost of answers: the price of a mean request times their number."""

from decimal import Decimal

import pytest

from brimful.models import default_registry, request_cost, spending
from brimful.records.statistics import ModelStatistics, ResponseStatistics

MILLION = 1_000_000


def of(model, **answers):
    return ModelStatistics(model=model, contexts=1, tokens=1, answers=ResponseStatistics(total=1, **answers))


def test_answers_cost_what_their_requests_cost_one_by_one():
    info = default_registry().resolve("gpt-4o")
    found = spending(
        [of("gpt-4o", reported=10, prompt=10_000, cached=4_000, completion=500, counted=9_000, naive=29_000)]
    )
    assert found.cost == request_cost(info, 1_000, 50, 400).total * 10
    assert found.saved == request_cost(info, 2_000).prompt * 10
    assert found.saved_by_cache == (request_cost(info, 400).prompt - request_cost(info, 400, 0, 400).prompt) * 10
    assert found.naive == found.cost + found.saved + found.saved_by_cache
    assert found.unpriced == ()


def test_summaries_cost_too():
    answers = ResponseStatistics(total=1, reported=1, prompt=1_000, completion=10)
    both = ModelStatistics(model="gpt-4o", contexts=1, tokens=1, answers=answers, summaries=answers)
    alone = ModelStatistics(model="gpt-4o", contexts=1, tokens=1, answers=answers)
    assert spending([both]).cost == 2 * spending([alone]).cost
    assert spending([ModelStatistics(model="x", contexts=0, tokens=0, answers=answers, summaries=answers)]) is None


def test_many_short_prompts_are_not_priced_as_a_long_one():
    """Prices of some models rise with the length of a prompt: a sum of many is no long prompt."""
    info = default_registry().resolve("gemini-2.5-pro")
    dear = request_cost(info, 300_000).prompt / 300_000
    cheap = request_cost(info, 1_000).prompt / 1_000
    assert dear > cheap
    found = spending([of("gemini-2.5-pro", reported=1_000, prompt=MILLION, counted=MILLION, naive=MILLION)])
    assert found.cost == pytest.approx(cheap * MILLION)
    assert found.saved == 0


def test_models_without_a_price_are_named_and_cost_nothing():
    priced = of("gpt-4o", reported=1, prompt=100)
    found = spending([priced, of("my-own-model", reported=1, prompt=100), of("silent", reported=0)])
    assert found.unpriced == ("my-own-model",)
    assert found.cost == spending([priced]).cost > Decimal(0)
    assert spending([of("my-own-model", reported=1, prompt=100)]) is None
    assert spending([]) is None


def test_reports_that_make_no_sense_do_not_stop_the_sums():
    found = spending([of("gpt-4o", reported=1, prompt=100, cached=900, counted=100, naive=50)])
    assert found.saved == 0
    assert found.cost > 0


def test_the_cost_of_many_answers_is_the_sum_of_each():
    found = spending([of("gpt-4", reported=6, prompt=36_595, cached=0, completion=34, counted=36_595, naive=53_567)])
    assert found.cost == Decimal(36_595 * 30 + 34 * 60) / 1_000_000
    assert found.saved == Decimal((53_567 - 36_595) * 30) / 1_000_000
