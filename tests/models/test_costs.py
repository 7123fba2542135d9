"""Prices come from the installed price list only."""

import socket
import sys
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from brimful.errors import InvalidValue, MissingExtra
from brimful.models import load_registry, request_cost

pytest.importorskip("genai_prices")

REGISTRY = load_registry(environ={})
NOW = datetime(2026, 11, 15, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _no_network(monkeypatch):
    def refuse(*_args, **_kwargs):
        pytest.fail("a price must not need the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)


def test_the_parts_add_up():
    found = request_cost(REGISTRY.resolve("gpt-4o"), 1_000_000, 100_000, at=NOW)
    assert (found.prompt, found.completion, found.total) == (Decimal("2.5"), Decimal(1), Decimal("3.5"))
    assert found.source.startswith("genai-prices ")
    assert found.source.endswith(": openai/gpt-4o")
    assert found.as_of == "2026-11-15"


def test_cached_tokens_are_cheaper():
    model = REGISTRY.resolve("claude-3-5-sonnet-20241022")
    assert request_cost(model, 1_000, cached_tokens=900, at=NOW).total < request_cost(model, 1_000, at=NOW).total


def test_nothing_costs_nothing():
    assert request_cost(REGISTRY.resolve("gpt-4o"), 0).total == 0


@pytest.mark.parametrize("name", ["gpt-4o-2024-08-06", "ft:gpt-4o-mini-2024-07-18:o::i", "claude-opus-5-5", "grok-4.7"])
def test_any_name_of_a_hosted_model_has_a_price(name):
    assert request_cost(REGISTRY.resolve(name), 1_000, 10, at=NOW).total > 0


def test_a_host_has_its_own_price():
    found = request_cost(REGISTRY.resolve("groq/llama-3.1-8b-instant"), 1_000, at=NOW)
    assert "groq/" in found.source


@pytest.mark.parametrize("name", ["nobody", "nobody/x", "qwen2.5:7b", "ollama/gpt-oss", "Qwen/Qwen2.5-7B-Instruct"])
def test_no_price_is_known(name):
    assert request_cost(REGISTRY.resolve(name), 1_000, at=NOW) is None


@pytest.mark.parametrize(
    ("tokens", "field"),
    [
        ((-1, 0, 0), "prompt_tokens"),
        ((1.5, 0, 0), "prompt_tokens"),
        ((True, 0, 0), "prompt_tokens"),
        ((1, -1, 0), "completion_tokens"),
        ((1, 0, -1), "cached_tokens"),
        ((1, 0, 2), "cached_tokens"),
    ],
)
def test_impossible_counts_are_refused(tokens, field):
    with pytest.raises(InvalidValue) as raised:
        request_cost(REGISTRY.resolve("gpt-4o"), *tokens)
    assert raised.value.field == field


def test_without_the_extra_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    with pytest.raises(MissingExtra, match=r"brimful\[prices\]"):
        request_cost(REGISTRY.resolve("gpt-4o"), 1)
