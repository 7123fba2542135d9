"""The breaker: three failures open it, and five minutes later one probe may close it. Time is an argument."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.errors import InvalidValue
from brimful.retrieval.breaker import COOLDOWN, FAILURES, Breaker


def opened(at: float = 0.0) -> Breaker:
    breaker = Breaker(now=at)
    for _ in range(FAILURES):
        breaker.failed(at)
    return breaker


def test_the_breaker_opens_after_three_failures_in_a_row():
    breaker = Breaker(now=0.0)
    states = []
    for at in (1.0, 2.0, 3.0):
        breaker.failed(at)
        states.append(breaker.state(at))
    assert states == ["closed", "closed", "open"]
    assert breaker.openings == 1


def test_a_success_between_failures_starts_the_count_again():
    breaker = Breaker(now=0.0)
    for outcome in (breaker.failed, breaker.failed, breaker.succeeded, breaker.failed, breaker.failed):
        outcome(1.0)
    assert breaker.state(1.0) == "closed"


def test_the_breaker_is_half_open_after_five_minutes_and_allows_one_probe():
    breaker = opened()
    assert COOLDOWN == 300.0
    assert not breaker.allow(299.9)
    assert breaker.retry_in(100.0) == 200.0
    assert [breaker.allow(300.0), breaker.allow(300.0)] == [True, False]


def test_a_probe_that_succeeds_closes_it():
    breaker = opened()
    assert breaker.allow(300.0)
    breaker.succeeded(301.0)
    assert breaker.state(301.0) == "closed"
    assert breaker.allow(301.0)


def test_a_probe_that_fails_opens_it_for_another_five_minutes():
    breaker = opened()
    assert breaker.allow(300.0)
    breaker.failed(301.0)
    assert breaker.state(600.9) == "open"
    assert breaker.state(601.0) == "half-open"
    assert breaker.openings == 1


def test_a_probe_that_never_comes_back_does_not_hold_the_door_shut_for_ever():
    breaker = opened()
    assert breaker.allow(300.0)
    assert not breaker.allow(599.9)
    assert breaker.allow(600.0)


def test_a_clock_that_is_set_back_does_not_keep_it_open_for_a_month():
    breaker = opened(at=3_000_000.0)
    assert breaker.state(100.0) == "half-open"
    assert breaker.retry_in(100.0) == 0.0


def test_uptime_is_the_share_of_time_in_which_it_was_closed():
    breaker = Breaker(now=0.0)
    for _ in range(FAILURES):
        breaker.failed(100.0)
    assert breaker.uptime(100.0) == 1.0
    assert breaker.uptime(200.0) == 0.5
    breaker.succeeded(400.0)
    assert breaker.uptime(500.0) == pytest.approx(200 / 500)


@pytest.mark.parametrize("wrong", [{"failures": 0}, {"failures": 1.5}, {"cooldown": -1}, {"cooldown": float("nan")}])
def test_wrong_settings_are_refused_by_name(wrong):
    with pytest.raises(InvalidValue, match=next(iter(wrong))):
        Breaker(now=0.0, **wrong)


@given(st.lists(st.tuples(st.floats(0, 400), st.booleans()), max_size=60))
def test_laws_hold_whatever_happens(events):
    breaker = Breaker(now=0.0)
    now, failed_in_a_row = 0.0, 0
    for pause, success in events:
        now += pause
        was_closed = breaker.state(now) == "closed"
        if not breaker.allow(now):
            assert not was_closed  # a closed breaker always lets through
            continue
        (breaker.succeeded if success else breaker.failed)(now)
        failed_in_a_row = 0 if success else failed_in_a_row + 1
        if success:
            assert breaker.state(now) == "closed"
        elif failed_in_a_row >= FAILURES or not was_closed:
            assert breaker.state(now) == "open"
        assert 0.0 <= breaker.uptime(now) <= 1.0


def test_a_probe_that_was_left_alone_gives_way_to_the_next_at_once():
    breaker = Breaker(now=0.0, failures=1, cooldown=10.0)
    breaker.failed(0.0)
    assert [breaker.allow(10.0), breaker.allow(10.0)] == [True, False]
    breaker.cancelled()
    assert breaker.state(10.0) == "half-open"
    assert [breaker.allow(10.0), breaker.allow(10.0)] == [True, False]
