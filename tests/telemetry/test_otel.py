"""The OpenTelemetry hook."""

import json

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from brimful.telemetry import OpenTelemetry
from telemetry.stories import DOWN, TOO_LONG, WORDS, answer, talk


class Seen:
    """A hook that tells a test, and what it told."""

    def __init__(self):
        self._exporter, self._reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        meters = MeterProvider(metric_readers=[self._reader])
        self.hook = OpenTelemetry(tracer_provider=self.tracers, meter_provider=meters)

    @property
    def spans(self):
        return self._exporter.get_finished_spans()

    def span(self, name):
        (span,) = [span for span in self.spans if span.name == name]
        return span

    def points(self, name):
        data = self._reader.get_metrics_data()
        metrics = [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics]
        return [point for metric in metrics if metric.name == name for point in metric.data.data_points]


@pytest.fixture
def seen():
    return Seen()


def test_an_answer_is_a_span(sqlite_url, seen):
    last = talk(sqlite_url, seen.hook, answer(prompt=900, cached=600, completion=7, reasoning=2))
    span = seen.span("chat gpt-4o")
    assert span.kind is SpanKind.CLIENT
    result = dict(span.attributes)
    assert (
        result
        | {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "gpt-4o",
            "gen_ai.response.model": "gpt-4o-2024-08-06",
            "gen_ai.response.finish_reasons": ("stop",),
            "gen_ai.usage.input_tokens": 900,
            "gen_ai.usage.output_tokens": 7,
            "gen_ai.usage.cache_read.input_tokens": 600,
            "gen_ai.usage.reasoning.output_tokens": 2,
            "gen_ai.conversation.id": "r",
            "brimful.context.id": last.context.id,
            "brimful.route": "scripted",
        }
        == result
    )
    assert span.end_time - span.start_time == round(last.response.seconds * 1e9)


def test_a_build_is_a_span(sqlite_url, seen):
    last = talk(sqlite_url, seen.hook, answer())
    span = seen.span("brimful.assemble")
    assert span.kind is SpanKind.INTERNAL
    assert span.attributes["brimful.context.tokens"] == last.context.tokens
    assert span.attributes["brimful.context.window"] == 3_000
    assert span.attributes["brimful.context.left_out"] > 0
    assert span.end_time > span.start_time


def test_spans_contain_no_content(sqlite_url, seen):
    talk(sqlite_url, seen.hook, answer(), DOWN)
    assert len(seen.spans) == 4
    assert not [span for span in seen.spans if WORDS in span.to_json() or "Well?" in span.to_json()]


def test_spans_are_children_of_the_current_span(sqlite_url, seen):
    with seen.tracers.get_tracer("app").start_as_current_span("turn") as turn:
        talk(sqlite_url, seen.hook, answer())
    assert {span.parent.span_id for span in seen.spans if span.parent} == {turn.get_span_context().span_id}


def test_a_failed_call_is_a_span_with_an_error(sqlite_url, seen):
    talk(sqlite_url, seen.hook, DOWN)
    span = seen.span("chat gpt-4o")
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes["error.type"] == "ProviderUnavailable"
    (point,) = seen.points("gen_ai.client.operation.duration")
    assert point.attributes["error.type"] == "ProviderUnavailable"


def test_tokens_and_durations_are_measured(sqlite_url, seen):
    talk(sqlite_url, seen.hook, answer(prompt=900, cached=600, completion=7))
    usage = {point.attributes["gen_ai.token.type"]: point for point in seen.points("gen_ai.client.token.usage")}
    assert {kind: point.sum for kind, point in usage.items()} == {"input": 900, "output": 7}
    assert usage["input"].explicit_bounds[:3] == (1, 4, 16)
    (duration,) = seen.points("gen_ai.client.operation.duration")
    assert duration.count == 1
    assert dict(duration.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o",
    }
    (share,) = seen.points("brimful.context.budget_share")
    assert 0.3 < share.max <= 1


def test_overflows_are_counted(sqlite_url, seen):
    talk(sqlite_url, seen.hook, TOO_LONG, answer(), times=1)
    (point,) = seen.points("brimful.overflows")
    assert point.value == 1


def test_a_request_continues_the_clients_trace(seen):
    headers = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    with seen.hook.serving("POST", "/v1/messages", headers) as ended:
        ended(503)
    span = seen.span("POST /v1/messages")
    assert span.kind is SpanKind.SERVER
    assert format(span.context.trace_id, "032x") == "0af7651916cd43dd8448eb211c80319c"
    assert json.loads(span.to_json())["attributes"] == {
        "http.request.method": "POST",
        "http.route": "/v1/messages",
        "http.response.status_code": 503,
    }
    assert span.status.status_code is StatusCode.ERROR
