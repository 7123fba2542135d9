"""An unknown member of a family gets its smallest window, and never more than its name says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.models import load_registry, unknown_model_warning
from brimful.models.families import find_relatives, named_window
from brimful.models.names import normalize_name, parse_name

REGISTRY = load_registry(environ={})
NAMES = ["glm-4", "glm-4-5", "glm-5", "glm-5-1", "glm-ocr", "kimi-k2", "kimi-k2-5", "solo-1", "model-x", "model-y"]


@pytest.mark.parametrize(
    ("name", "relatives"),
    [
        ("glm-5-1-air", ["glm-5-1"]),  # the longest beginning
        ("glm-5-2", ["glm-5-1"]),  # the version before
        ("glm-5-9", ["glm-5", "glm-5-1"]),  # too far from the version before
        ("glm-6", ["glm-5", "glm-5-1"]),  # the generation before
        ("glm-4-2", ["glm-4", "glm-4-5"]),  # no version before
        ("glm-41", NAMES[:5]),  # no generation after 5
        ("glm-air", NAMES[:5]),
        ("kimi-k3", ["kimi-k2", "kimi-k2-5"]),
        ("kimi-latest", ["kimi-k2", "kimi-k2-5"]),
        ("solo-2", ["solo-1"]),
        ("solo-mini", []),  # a single name is no family
        ("glmx-5", []),
        ("model-z", []),  # a common word is no family
        ("5-glm", []),
        ("", []),
    ],
)
def test_relatives(name, relatives):
    assert find_relatives(name, NAMES) == relatives


def test_the_smallest_window_counts():
    info = REGISTRY.resolve("gpt-4o-mega")
    assert (info.known, info.assumed_window, info.window) == (False, True, 128_000)
    assert REGISTRY.resolve(info.relative).window == 128_000
    assert (
        REGISTRY.resolve("qwen4-32b").window
        == REGISTRY.resolve("qwen3-0.6b").window
        < REGISTRY.resolve("qwen3.8-27b").window
    )
    assert f"a window of 128,000 tokens, the smallest of its family ({info.relative})" in unknown_model_warning(info)


@pytest.mark.parametrize(
    "name", ["glm-9-air", "kimi-k4", "grok-5", "deepseek-v5", "qwen4-32b", "minimax-m4", "nova-3-pro"]
)
def test_new_members_of_families_get_more_than_the_fallback(name):
    info = REGISTRY.resolve(name)
    assert info.assumed_window
    assert info.relative
    assert info.window > 8_192


def test_a_window_in_the_name_is_the_limit():
    assert named_window("glm-4-9b-chat-1m") is None
    assert REGISTRY.resolve("anthropic.claude-3-sonnet-20240229-v1:0:28k").window == 28_000


@pytest.mark.parametrize(
    ("name", "provider", "wire"),
    [
        ("claude-opus-6", "anthropic", "anthropic"),
        ("openrouter/anthropic/claude-opus-6", "anthropic", "openai"),
        ("grok-5", "xai", "openai"),
        ("gemini-5-pro", "google", "gemini"),
        ("qwen4:32b", "qwen", "ollama"),
    ],
)
def test_the_maker_is_that_of_the_relatives(name, provider, wire):
    info = REGISTRY.resolve(name)
    assert (info.known, info.provider, info.wire) == (False, provider, wire)


def test_counts_are_not_lower_than_those_of_relatives():
    relative, info = REGISTRY.resolve("claude-opus-5-5"), REGISTRY.resolve("claude-opus-6")
    assert (info.prior, info.overhead, info.tool_system_tokens) == (relative.prior, "anthropic", 804)
    grok = REGISTRY.resolve("grok-5")
    assert (grok.prior, grok.overhead) == (REGISTRY.resolve("acme-1").prior, "openai")


SPELLINGS = st.text() | st.from_regex(r"[-a-z0-9:/.@_ ]{0,40}", fullmatch=True) | st.sampled_from(REGISTRY.names())


@given(SPELLINGS)
def test_normalization_is_idempotent(name):
    assert normalize_name(normalize_name(name)) == normalize_name(name)


@pytest.mark.parametrize(
    "prefix", ["", "openrouter/acme/", "us.anthropic.", "databricks-", "accounts/fireworks/models/"]
)
@pytest.mark.parametrize("suffix", ["", "-instruct", "-fp8", ":free", "-maas", "@20250101", "-v1:0", "-instruct-tput"])
def test_a_simple_name_stays_as_it_is(prefix, suffix):
    simple = {name: parse_name(f"{prefix}{name}{suffix}").simplest for name in REGISTRY.names()}
    assert {name for name, simplest in simple.items() if parse_name(simplest).simplest != simplest} == set()


@given(SPELLINGS, st.sampled_from(["glm-", "gpt-", "claude-opus-", "qwen3-"]))
def test_no_relative_has_a_smaller_window(name, family):
    info = REGISTRY.resolve(family + name)
    if info.relative:
        assert info.window <= min(REGISTRY.resolve(info.relative).window, 10_000_000)
        assert 1 <= info.max_output <= info.window
