"""Budgets, with the exact numbers of the seed documents."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import brimful
from brimful.core.budget import allocate, rules_digest
from brimful.core.model import ModelInfo
from brimful.policies import load_policy, policy_names


def model(window, max_output=100_000):
    return ModelInfo(id="m", provider="p", window=window, max_output=max_output, wire="openai")


@pytest.mark.parametrize(("name", "target"), [("gpt-4", 3753), ("claude-3-sonnet", 157_200)])
def test_window_targets_eighty_percent_of_what_is_left(name, target):
    budget = brimful.budget(model=name, policy="window", completion=3000)
    assert budget.limit("recent") == budget.target_tokens == target
    assert budget.available_for_messages == budget.available - 500


def test_an_unknown_model_has_8192():
    assert brimful.budget(model="never-heard-of-it", policy="window").window == 8192


def test_a_window_without_room_for_system_prompts_has_none_for_messages():
    budget = allocate(load_policy("window"), model(700), completion=300)
    assert budget.available < budget.system_tokens == 500
    assert budget.available_for_messages == 0


@pytest.mark.parametrize(("window", "reserved"), [(128_000, 15_800), (100_000, 13_000), (8_192, 4_000)])
def test_auction_reserves_completion_and_ten_percent_or_a_thousand(window, reserved):
    # The seed prints 13,000, which is its rule for a window of 100,000.
    assert allocate(load_policy("auction"), model(window)).reserved == reserved


@pytest.mark.parametrize(("window", "safety"), [(8_192, 1024), (34_133, 1024), (65_536, 1966), (262_144, 7864)])
def test_pools_keeps_1024_or_three_percent_safe(window, safety):
    assert allocate(load_policy("pools"), model(window)).margin == safety


@pytest.mark.parametrize("times", [0.5, 1.5, 2.0])
def test_pools_gives_related_at_least_recent_times_the_multiplier(times):
    policy = load_policy("pools", overrides={"pools.related.limit.min_ratio": times})
    budget = allocate(policy, model(65_536))
    recent = int(65_536 * 0.30)
    assert budget.limit("recent") == recent
    assert budget.limit("related") == max(int(65_536 * 0.42), int(recent * times))


@pytest.mark.parametrize(("window", "total"), [(1_000_000, 200_000), (128_000, 125_000)])
def test_split_has_200000_in_all_or_the_window(window, total):
    budget = allocate(load_policy("split"), model(window))
    assert budget.hard_limit == total
    assert budget.limit("recent") == min(150_000, total)
    assert budget.limit("related") == 50_000


@given(
    st.sampled_from(policy_names()),
    st.integers(1, 2_000_000),
    st.integers(0, 100_000),
    st.one_of(st.none(), st.integers(0, 50_000)),
)
def test_every_number_is_monotonic_in_the_window(name, window, more, completion):
    policy = load_policy(name)
    small = allocate(policy, model(window), completion=completion)
    large = allocate(policy, model(window + more), completion=completion)
    assert small.available <= large.available
    assert small.hard_limit <= large.hard_limit
    for before, after in zip(small.pools, large.pools, strict=True):
        assert before.limit <= after.limit
    assert small.available + small.margin == small.hard_limit


def test_completion_never_exceeds_what_the_model_can_write():
    assert allocate(load_policy("default"), model(128_000, max_output=1000)).completion == 1000
    assert allocate(load_policy("default"), model(8_000)).completion == 2000


def test_a_completion_larger_than_the_window_leaves_nothing():
    budget = allocate(load_policy("default"), model(1000), completion=5000)
    assert budget.hard_limit == budget.available == 0


def test_budget_is_plain_data():
    budget = allocate(load_policy("default"), model(8_000))
    assert msgspec.json.decode(msgspec.json.encode(budget), type=type(budget)) == budget
    with pytest.raises(KeyError):
        budget.limit("no such pool")


def test_everything_is_the_target_without_a_pool_of_recent_messages():
    budget = allocate(load_policy("auction"), model(8_192))
    assert budget.target_tokens == budget.available


def test_a_limit_of_the_input_alone_holds():
    limited = msgspec.structs.replace(model(400_000), max_input=272_000)
    assert allocate(load_policy("default"), limited, completion=1000).hard_limit == 272_000


def test_rules_differ_where_a_policy_or_a_budget_does():
    default, window = load_policy("default"), load_policy("window")
    small, large = (allocate(default, model(tokens), window=None, completion=None) for tokens in (8_000, 9_000))
    digests = [rules_digest(default, small), rules_digest(default, large), rules_digest(window, small)]
    assert len(set(digests)) == 3
    assert rules_digest(load_policy("default"), small) == digests[0]
