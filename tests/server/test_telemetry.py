"""Telemetry of the server."""

import asyncio
import sqlite3
from contextlib import closing
from threading import Condition

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from brimful.cache import SHARED_BUDGET, set_cache_limit
from brimful.models import default_registry
from brimful.server.config import TelemetryConfig
from brimful.server.telemetry import Telemetry
from brimful.stores import connect
from server.upstream import OVERFLOW, chat_answer

CHAT = "/v1/chat/completions"
HI = {"model": "gpt-4o", "messages": [{"role": "user", "content": "The word is hazelnut."}]}
TALK = {"x-brimful-conversation": "nuts"}
MODES = pytest.mark.parametrize("mode", ["fit", "remember"])


def value(client, line, **headers):
    """Return the number of a line of what Prometheus reads; its labels may be told in part."""
    name, _, labels = line.partition("{")
    expected = [label for label in labels.rstrip("}").split(",") if label]
    found = [
        float(each.rpartition(" ")[2])
        for each in client.get("/metrics", headers=headers).text.splitlines()
        if each.partition("{")[0].partition(" ")[0] == name and all(label in each for label in expected)
    ]
    return sum(found)


@MODES
def test_prometheus_counts_contexts_and_answers(start, mode):
    client = start(telemetry={"metrics": True}, mode=mode, remember={"embedder": "none"})
    for _ in range(2):
        assert client.post(CHAT, json=HI, headers=TALK).status_code == 200
    client.get(
        f"/brimful/v1/contexts/{client.post(CHAT, json=HI, headers=TALK).headers['x-brimful-context']}"
    )  # all is kept by then
    text = client.get("/metrics").text
    assert value(client, 'brimful_contexts_total{model="gpt-4o"}') == 3
    assert value(client, 'brimful_answers_total{finish="stop"}') == 3
    assert value(client, "brimful_prompt_tokens_total") == 36
    assert value(client, "brimful_completion_tokens_total") == 9
    assert value(client, f'brimful_proxy_overhead_seconds_count{{mode="{mode}"}}') == 3
    assert "hazelnut" not in text
    assert "tenant=" not in text


@pytest.fixture
def cache_budget():
    before = SHARED_BUDGET.max_bytes
    yield SHARED_BUDGET
    set_cache_limit(before)


def test_prometheus_shows_the_caches_and_their_limit(start, cache_budget):
    client = start(telemetry={"metrics": True, "tenant_label": True}, cache_mb=64)
    assert cache_budget.max_bytes == 64 * 2**20
    assert client.post(CHAT, json=HI).status_code == 200
    assert value(client, "brimful_cache_limit_bytes") == 3 * 64 * 2**20  # twice as much for vectors
    for name in ("turns", "packages", "counts"):
        assert value(client, f'brimful_cache_bytes{{cache="{name}"}}') == cache_budget.sizes()[name] > 0


@MODES
def test_overflows_and_rejections_are_counted(start, upstream, mode):
    client = start(telemetry={"metrics": True, "tenant_label": True}, mode=mode, remember={"embedder": "none"})
    long = [{"role": "user" if n % 2 == 0 else "assistant", "content": f"{n} words " * 20} for n in range(41)]
    upstream.answers = [(400, OVERFLOW), chat_answer()]
    assert client.post(CHAT, json=HI | {"messages": long, "max_tokens": 20}, headers=TALK).status_code == 200
    assert client.post(CHAT, content=b"{").status_code == 400
    assert value(client, 'brimful_overflows_total{tenant="default"}') == 1
    assert value(client, 'brimful_rejected_requests_total{kind="invalid"}') == 1


def test_requests_upstreams_and_first_tokens_are_measured(start, upstream):
    client = start(telemetry={"metrics": True})
    assert client.post(CHAT, json=HI).status_code == 200
    assert client.post(CHAT, json=HI | {"stream": True}).status_code == 200
    assert client.get("/brimful/v1/contexts/none").status_code == 404
    assert client.post("/v1/files", json={}).status_code == 404  # the upstream's
    assert client.get("/a/b").status_code == client.get("/a/c").status_code == 404
    upstream.answers = [(500, {})]
    assert client.post(CHAT, json=HI).status_code == 500
    start.wait()
    assert value(client, f'brimful_requests_total{{path="{CHAT}",status="200"}}') == 2
    assert value(client, f'brimful_requests_total{{path="{CHAT}",status="500"}}') == 1
    assert value(client, 'brimful_requests_total{path="/brimful/v1/contexts/{id}",status="404"}') == 1
    assert value(client, 'brimful_requests_total{path="/v1/{path:path}",status="404"}') == 1
    assert value(client, 'brimful_requests_total{path="unknown",status="404"}') == 2
    assert value(client, f'brimful_request_seconds_count{{path="{CHAT}"}}') == 3
    assert value(client, 'brimful_first_token_seconds_count{model="gpt-4o",upstream="local"}') == 1
    assert value(client, 'brimful_upstream_seconds_count{model="gpt-4o",upstream="local"}') == 2
    assert value(client, "brimful_requests_in_flight") == 1  # the one that reads the metrics


def test_limits_are_counted_by_name(start, tmp_path):
    async def make():
        async with connect(f"sqlite:///{tmp_path}/brimful.db") as database:
            await database.api_keys("acme").create(name="x", scopes=["chat"], at=1.0)
            return (await database.api_keys("acme").create(name="y", scopes=["metrics"], at=1.0))[1]

    start()
    reader = {"x-api-key": asyncio.run(make())}
    limits = {"max_body_bytes": 1_000, "failed_keys_per_minute": 1}
    client = start(telemetry={"metrics": True}, require_keys=True, limits=limits)
    assert client.post("/mcp", content=b" " * 1_001, headers=reader).status_code == 403
    assert client.request("GET", "/metrics", content=b" " * 1_001, headers=reader).status_code == 413
    wrong = {"x-api-key": "bf-none"}
    assert [client.post(CHAT, json=HI, headers=wrong).status_code for _ in range(2)] == [401, 429]
    start.wait()
    assert value(client, 'brimful_limits_hit_total{limit="body_bytes"}', **reader) == 1
    assert value(client, 'brimful_limits_hit_total{limit="failed_keys_per_minute"}', **reader) == 1
    assert value(client, "brimful_limits_hit_total", **reader) == 2


def test_the_database_and_its_jobs_are_measured(start, tmp_path):
    client = start(telemetry={"metrics": True}, background_work=False, mode="remember")
    assert client.post(CHAT, json=HI, headers=TALK).status_code == 200
    start.wait()
    assert value(client, 'brimful_jobs_waiting{kind="embed"}') == 1
    assert value(client, 'brimful_jobs_waiting{kind="import"}') == 0
    assert value(client, 'brimful_jobs_failed{kind="embed"}') == 0
    with closing(sqlite3.connect(tmp_path / "brimful.db")) as connection, connection:  # as a worker does
        connection.execute("UPDATE jobs SET error = 'TimeoutError', attempts = 1, due = 9e9 WHERE kind = 'embed'")
    assert value(client, 'brimful_jobs_failed{kind="embed"}') == 1
    assert value(client, 'brimful_jobs_waiting{kind="embed"}') == 0
    assert value(client, "brimful_database_pool_size") == 5
    assert value(client, "brimful_database_pool_in_use") == value(client, "brimful_database_pool_waiting") == 0


def test_upstreams_that_rest_are_shown(start, upstream):
    upstream.answers = [(429, {})]
    one = {"name": "one", "url": upstream.address, "models": ["gpt-*"], "limits": {"max_attempts": 1}}
    two = one | {"name": "two", "models": ["claude-*"]}
    client = start(telemetry={"metrics": True}, upstreams=[one, two])
    assert value(client, "brimful_upstream_available") == 2
    assert client.post(CHAT, json=HI).status_code == 429
    assert value(client, 'brimful_upstream_available{upstream="one"}') == 0
    assert value(client, 'brimful_upstream_available{upstream="two"}') == 1


def test_gauges_are_updated_for_other_processes():
    config, gauges, pauses = TelemetryConfig(metrics=True), iter((1, 2, 3)), []
    telemetry = Telemetry(config, default_registry(), clock=lambda: 0.0)
    telemetry.metrics.watch("brimful_open_engines", lambda: next(gauges))

    async def pause(seconds):
        pauses.append(seconds)
        if len(pauses) > 2:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(telemetry.keep_current(pause))
    assert telemetry.metrics.registry.get_sample_value("brimful_open_engines") == 2
    assert pauses == [5.0, 5.0, 5.0]


def test_metrics_are_off_by_default(start):
    assert start().get("/metrics").status_code == 404


def test_metrics_need_their_own_scope(start, tmp_path):
    async def make(scope):
        async with connect(f"sqlite:///{tmp_path}/brimful.db") as database:
            return (await database.api_keys("acme").create(name="x", scopes=[scope], at=1.0))[1]

    keys = {scope: asyncio.run(make(scope)) for scope in ("read", "metrics")}
    client = start(telemetry={"metrics": True}, require_keys=True)
    assert client.get("/metrics").status_code == 401
    assert client.get("/metrics", headers={"x-api-key": keys["read"]}).status_code == 403
    assert client.get("/metrics", headers={"authorization": f"Bearer {keys['metrics']}"}).status_code == 200


class Told(InMemorySpanExporter):
    """Spans as they end, which may be a moment after the answer is there."""

    def __init__(self):
        super().__init__()
        self.more = Condition()

    def export(self, spans):
        with self.more:
            result = super().export(spans)
            self.more.notify_all()
        return result

    def until(self, *names):
        """Return the spans by name, when those of these names are among them."""

        def named():
            spans = {span.name: span for span in self.get_finished_spans()}
            return spans if spans.keys() >= {*names} else None

        with self.more:
            return self.more.wait_for(named, timeout=120)


@pytest.fixture(scope="module")
def exporter():
    """The one tracer provider that a process may have."""
    exporter, provider = Told(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return exporter


@MODES
def test_spans_continue_the_clients_trace(start, upstream, exporter, mode):
    exporter.clear()
    client = start(telemetry={"otel": True}, mode=mode, remember={"embedder": "none"})
    parent = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    answer = client.post(CHAT, json=HI, headers=TALK | parent)
    client.get(f"/brimful/v1/contexts/{answer.headers['x-brimful-context']}")  # all is kept by then
    spans = exporter.until("brimful.assemble", "chat gpt-4o", f"POST {CHAT}", "GET /brimful/v1/contexts/{id}")
    served = spans[f"POST {CHAT}"]
    assert served.attributes["http.response.status_code"] == 200
    for name in ("brimful.assemble", "chat gpt-4o"):
        assert format(spans[name].context.trace_id, "032x") == "0af7651916cd43dd8448eb211c80319c"
        assert spans[name].parent.span_id == served.context.span_id
    forwarded = upstream.requests[0][1]["traceparent"]
    assert forwarded.split("-")[1:3] == ["0af7651916cd43dd8448eb211c80319c", format(served.context.span_id, "016x")]
    assert not [span for span in spans.values() if "hazelnut" in span.to_json()]


def test_the_log_names_the_trace(start, exporter, next_log_line):
    exporter.clear()
    client = start(telemetry={"otel": True})
    parent = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    assert client.post(CHAT, json=HI, headers=parent).status_code == 200
    assert next_log_line()["trace_id"] == "0af7651916cd43dd8448eb211c80319c"
    exporter.clear()
    assert client.post(CHAT, json=HI).status_code == 200
    served = exporter.until(f"POST {CHAT}")[f"POST {CHAT}"]
    assert next_log_line()["trace_id"] == format(served.context.trace_id, "032x")
