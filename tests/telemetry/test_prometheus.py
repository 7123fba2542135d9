"""The Prometheus hook."""

import asyncio
from pathlib import Path

import pytest

from brimful.engine import Engine
from brimful.engine.events import Event
from brimful.records import Usage
from brimful.telemetry import Prometheus
from brimful.telemetry.prometheus import METRICS
from telemetry.stories import DOWN, NOW, TOO_LONG, WORDS, answer, talk

GPT = {"model": "gpt-4o", "policy": "default"}
ROUTE = {"model": "gpt-4o", "route": "scripted"}


def test_contexts_and_answers_are_counted(sqlite_url):
    hook = Prometheus()
    value = hook.registry.get_sample_value
    last = talk(sqlite_url, hook, *[answer(prompt=900, cached=600, completion=7)] * 2)
    assert value("brimful_contexts_total", GPT) == 2
    assert value("brimful_context_tokens_total", GPT) > last.context.tokens
    assert value("brimful_left_out_total", GPT) > 0
    assert value("brimful_budget_share_count", GPT) == 2
    assert 0 < value("brimful_budget_share_sum", GPT) < 2
    assert value("brimful_build_seconds_sum", GPT) > 0
    assert value("brimful_answers_total", ROUTE | {"finish": "stop"}) == 2
    assert value("brimful_prompt_tokens_total", ROUTE) == 1800
    assert value("brimful_cached_tokens_total", ROUTE) == 1200
    assert value("brimful_completion_tokens_total", ROUTE) == 14
    assert value("brimful_circuit_breaker", {"state": "closed"}) == 1
    assert value("brimful_circuit_breaker", {"state": "open"}) == 0


def test_an_upstream_that_was_removed_no_longer_rests():
    hook, upstreams = Prometheus(), {"one": 0, "two": 0}
    hook.watch("brimful_upstream_available", lambda: upstreams)
    hook.refresh()
    del upstreams["one"]
    hook.refresh()
    rests = [
        hook.registry.get_sample_value("brimful_upstream_available", {"upstream": name}) for name in ("one", "two")
    ]
    assert rests == [1, 0]


def test_overflows_and_failures_are_counted(sqlite_url):
    hook = Prometheus()
    value = hook.registry.get_sample_value
    talk(sqlite_url, hook, TOO_LONG, answer(), times=1)
    talk(sqlite_url, hook, DOWN)
    assert value("brimful_overflows_total", ROUTE) == 1
    assert value("brimful_provider_errors_total", {"route": "scripted", "error": "ProviderUnavailable"}) == 1


def test_the_output_contains_every_metric_and_no_content(sqlite_url):
    hook = Prometheus()
    talk(sqlite_url, hook, answer())
    text = hook.expose().decode()
    assert not [name for name in METRICS if f"# TYPE {name}" not in text]
    assert WORDS not in text
    assert "tenant" not in text


def test_the_tenant_label_is_optional(sqlite_url):
    hook = Prometheus(tenant_label=True)

    async def story(tenant):
        async with Engine(sqlite_url, tenant=tenant, model="gpt-4o", embedder="none", hooks=[hook]) as engine:
            await engine.assemble(room="r", message="Hi")

    for tenant in ("acme", "other", "acme"):
        asyncio.run(story(tenant))
    counted = {
        tenant: hook.registry.get_sample_value("brimful_contexts_total", GPT | {"tenant": tenant})
        for tenant in ("acme", "other")
    }
    assert counted == {"acme": 2, "other": 1}


def test_clients_cannot_inflate_metrics():
    hook = Prometheus()
    for number in range(500):
        facts = {"model": f"made-up-{number}", "policy": "fit", "tokens": 1, "window": 2, "available": 2, "left_out": 0}
        hook(Event(name="assembled", at=NOW, tenant="t", facts=facts | {"degraded": [], "seconds": 0.1}))
    lines = [line for line in hook.expose().decode().splitlines() if line.startswith("brimful_contexts_total{")]
    assert len(lines) == 51
    assert [line for line in lines if 'model="other"' in line and line.endswith(" 450.0")]


def test_long_names_of_models_share_a_label():
    hook = Prometheus()
    facts = {"upstream": "local", "seconds": 0.5}
    for model in ("m" * 101, "n" * 100_000, ""):
        hook(Event(name="upstream_ended", at=NOW, tenant="t", facts=facts | {"model": model}))
    value = hook.registry.get_sample_value
    assert value("brimful_upstream_seconds_count", {"upstream": "local", "model": "other"}) == 2
    assert value("brimful_upstream_seconds_count", {"upstream": "local", "model": "none"}) == 1


def test_the_cost_of_answers_is_counted_where_the_price_is_known():
    hook = Prometheus()
    usage = {"prompt": 1_000_000, "completion": 0, "cached": 0, "reasoning": 0}
    facts = {"route": "r", "finish": "stop", "seconds": 1.0, "usage": usage, "expected_cached": 0, "cache_miss": ""}
    for model in ("gpt-4o", "my-own", "gpt-4o"):
        hook(Event(name="responded", at=NOW, tenant="t", facts=facts | {"requested_model": model, "model": model}))
    value = hook.registry.get_sample_value
    assert value("brimful_answer_dollars_total", {"model": "gpt-4o", "route": "r"}) == pytest.approx(5.0)
    assert value("brimful_answer_dollars_total", {"model": "my-own", "route": "r"}) == 0


def test_hits_and_misses_of_the_prompt_cache_are_counted():
    hook = Prometheus()
    facts = {"requested_model": "gpt-4o", "model": "up", "route": "r", "finish": "stop", "seconds": 1.0}
    for cached, cause in ((900, ""), (0, ""), (100, "prefix-changed"), (0, "expired")):
        usage = {"prompt": 1_000, "completion": 1, "cached": cached, "reasoning": 0}
        more = {"usage": usage, "expected_cached": 900, "cache_miss": cause}
        hook(Event(name="responded", at=NOW, tenant="t", facts=facts | more))
    value, labels = hook.registry.get_sample_value, {"model": "gpt-4o", "route": "r"}
    assert value("brimful_cache_hits_total", labels) == 1
    assert value("brimful_cache_misses_total", labels | {"cause": "prefix-changed"}) == 1
    assert value("brimful_cache_misses_total", labels | {"cause": "expired"}) == 1


def counted(hook):
    """Return everything but the memory of the process."""
    return [line for line in hook.expose().decode().splitlines() if not line.startswith("brimful_memory_bytes")]


@pytest.mark.parametrize("name", ["posted", "remembered", "indexed", "edited"])
def test_other_events_are_not_counted(name):
    hook = Prometheus()
    before = counted(hook)
    hook(Event(name=name, at=NOW, tenant="t"))
    assert counted(hook) == before


def test_an_answer_without_usage_or_time_is_counted(sqlite_url):
    hook = Prometheus()

    async def story():
        async with Engine(sqlite_url, model="gpt-4o", embedder="none", hooks=[hook]) as engine:
            context = await engine.assemble(room="r", message="Hi")
            await engine.record_response(context, "Hello")
            await engine.record_response(context, "Hello", usage=Usage(prompt=9, completion=1), seconds=0.5)

    asyncio.run(story())
    labels = {"model": "gpt-4o", "route": "unknown"}
    assert hook.registry.get_sample_value("brimful_answers_total", labels | {"finish": "unknown"}) == 2
    assert hook.registry.get_sample_value("brimful_prompt_tokens_total", labels) == 9
    assert hook.registry.get_sample_value("brimful_answer_seconds_count", labels) == 1


def test_every_metric_and_label_is_documented():
    rows = (Path(__file__).parents[2] / "docs" / "telemetry.md").read_text(encoding="utf-8").splitlines()
    for name, (kind, _, labels, _) in METRICS.items():
        spelled = f"`{name}{'_total' if kind == 'counter' else ''}`"
        (row,) = [row for row in rows if spelled in row]
        assert all(f"`{label}`" in row for label in labels), name


def test_own_calls_are_counted_by_kind_and_model():
    hook = Prometheus()
    facts = {"kind": "learn", "model": "gpt-4o", "prompt": 900, "completion": 100}
    facts |= {"tokens_per_day": 5_000, "dollars_per_day": None}
    for dollars in (0.25, None):
        hook(Event(name="called", at=NOW, tenant="acme", facts=facts | {"dollars": dollars}))
    value, labels = hook.registry.get_sample_value, {"kind": "learn", "model": "gpt-4o"}
    assert value("brimful_own_calls_total", labels) == 2
    assert value("brimful_own_call_tokens_total", labels) == 2_000
    assert value("brimful_own_call_dollars_total", labels) == 0.25
    assert value("brimful_own_call_limit", {"unit": "tokens"}) == 5_000
    assert value("brimful_own_call_limit", {"unit": "dollars"}) is None
