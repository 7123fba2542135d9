"""An OpenTelemetry hook: spans and metrics by the semantic conventions for generative AI, without any content.

Names follow the conventions as of November 2026 (gen-ai/1.42), which are still in development.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from brimful.engine.events import Event
from brimful.errors import MissingExtra
from brimful.models.registry import Registry
from brimful.telemetry.labels import ModelLabels

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import SpanKind, TracerProvider

_SERVER_ERROR: Final = 500  # and above
_NANOSECONDS: Final = 1_000_000_000  # per second
_TOKEN_BUCKETS: Final = [4**power for power in range(14)]  # bucket boundaries from the conventions
_DURATION_BUCKETS: Final = [0.01 * 2**power for power in range(14)]  # … these, too
_FINISHES: Final = {"tool-calls": "tool_call", "filtered": "content_filter"}
"""Finish reasons with another name in the conventions."""
_PROVIDERS: Final = {"google": "gcp.gemini", "xai": "x_ai", "mistral": "mistral_ai", "moonshot": "moonshot_ai"}
"""Providers with another name in the conventions."""


class OpenTelemetry:
    """Converts events to spans and metrics, with the given or the global providers.

    A span is created when its operation has ended, with its start time, as a child of the span in which the engine was
    called.
    """

    def __init__(
        self,
        *,
        tracer_provider: "TracerProvider | None" = None,
        meter_provider: "MeterProvider | None" = None,
        models: Registry | None = None,
    ) -> None:
        try:
            from opentelemetry import metrics, propagate, trace  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise MissingExtra("otel", "OpenTelemetry") from error
        meter = metrics.get_meter("brimful", meter_provider=meter_provider)
        self._span_kinds = trace.SpanKind
        self._extract = propagate.extract
        self._inject = propagate.inject
        self._error = trace.StatusCode.ERROR
        self._tracer = trace.get_tracer("brimful", tracer_provider=tracer_provider)
        self._names = ModelLabels(models)
        self._usage = meter.create_histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            description="Tokens of prompts and answers.",
            explicit_bucket_boundaries_advisory=_TOKEN_BUCKETS,
        )
        self._duration = meter.create_histogram(
            "gen_ai.client.operation.duration",
            unit="s",
            description="Time from the request to the end of the answer.",
            explicit_bucket_boundaries_advisory=_DURATION_BUCKETS,
        )
        self._share = meter.create_histogram(
            "brimful.context.budget_share", unit="1", description="Share of the token budget used by contexts."
        )
        self._left_out = meter.create_counter(
            "brimful.context.left_out", unit="{candidate}", description="Candidates left out of contexts."
        )
        self._overflows = meter.create_counter(
            "brimful.overflows", unit="{request}", description="Prompts rejected as too long."
        )

    def __call__(self, event: Event) -> None:
        match event.name:
            case "assembled":
                self._record_context(event)
            case "responded":
                self._record_response(event)
            case "failed":
                self._failed_call(event)
            case "overflowed":
                self._overflows.add(1, {"gen_ai.request.model": self._names.model(event.facts["model"])})
            case _:
                pass

    def headers(self) -> dict[str, str]:
        """Return the headers that continue the current trace in another process."""
        carrier: dict[str, str] = {}
        self._inject(carrier)
        return carrier

    @contextmanager
    def serving(self, method: str, route: str, headers: Mapping[str, str]) -> Iterator[Callable[[int], None]]:
        """Create a span for a request, in the trace given by its headers. The yielded function sets the status code."""
        attributes = {"http.request.method": method, "http.route": route}
        with self._tracer.start_as_current_span(
            f"{method} {route}", context=self._extract(headers), kind=self._span_kinds.SERVER, attributes=attributes
        ) as span:

            def set_status(status: int) -> None:
                span.set_attribute("http.response.status_code", status)
                if status >= _SERVER_ERROR:
                    span.set_status(self._error)

            yield set_status

    def _record_context(self, event: Event) -> None:
        facts = event.facts
        attributes = {
            "brimful.context.id": facts["context"],
            "brimful.policy": facts["policy"],
            "brimful.context.tokens": facts["tokens"],
            "brimful.context.window": facts["window"],
            "brimful.context.candidates": facts["candidates"],
            "brimful.context.left_out": facts["left_out"],
            "brimful.context.degraded": bool(facts["degraded"]),
            "gen_ai.request.model": facts["model"],
        }
        self._span("brimful.assemble", self._span_kinds.INTERNAL, event, attributes)
        labels = {"gen_ai.request.model": self._names.model(facts["model"]), "brimful.policy": facts["policy"]}
        self._share.record(facts["tokens"] / max(1, facts["available"]), labels)
        self._left_out.add(facts["left_out"], labels)

    def _record_response(self, event: Event) -> None:
        facts, usage = event.facts, event.facts["usage"]
        attributes = self._operation(facts["requested_model"], facts["provider"]) | {
            "gen_ai.response.model": facts["model"],
            "brimful.response.id": facts["id"],
            "gen_ai.response.finish_reasons": [_FINISHES.get(facts["finish"], facts["finish"] or "unknown")],
            "brimful.context.id": facts["context"],
            "brimful.route": facts["route"],
            "brimful.expected_cached_tokens": facts["expected_cached"],
        }
        if usage:
            attributes |= {
                "gen_ai.usage.input_tokens": usage["prompt"],
                "gen_ai.usage.output_tokens": usage["completion"],
                "gen_ai.usage.cache_read.input_tokens": usage["cached"],
                "gen_ai.usage.reasoning.output_tokens": usage["reasoning"],
            }
        self._span(f"chat {facts['requested_model']}", self._span_kinds.CLIENT, event, attributes)
        labels = self._operation(self._names.model(facts["requested_model"]), facts["provider"])
        if facts["seconds"] is not None:
            self._duration.record(facts["seconds"], labels)
        for kind, tokens in (("input", "prompt"), ("output", "completion")) if usage else ():
            self._usage.record(usage[tokens], labels | {"gen_ai.token.type": kind})

    def _failed_call(self, event: Event) -> None:
        facts = event.facts
        attributes = self._operation(facts["model"], facts["provider"])
        attributes |= {"brimful.route": facts["route"], "error.type": facts["error"]}
        self._span(f"chat {facts['model']}", self._span_kinds.CLIENT, event, attributes, failed=True)
        labels = self._operation(self._names.model(facts["model"]), facts["provider"])
        self._duration.record(facts["seconds"], labels | {"error.type": facts["error"]})

    def _operation(self, model: str, provider: str) -> dict[str, Any]:
        return {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": _PROVIDERS.get(provider, provider),
            "gen_ai.request.model": model,
        }

    def _span(
        self, name: str, kind: "SpanKind", event: Event, attributes: dict[str, Any], *, failed: bool = False
    ) -> None:
        """Create a span that ended at the time of the event."""
        end = int(event.at * _NANOSECONDS)
        begin = end - int((event.facts["seconds"] or 0.0) * _NANOSECONDS)
        room = {} if event.room is None else {"gen_ai.conversation.id": event.room}
        span = self._tracer.start_span(
            name, kind=kind, start_time=begin, attributes=attributes | room | {"brimful.tenant": event.tenant}
        )
        if failed:
            span.set_status(self._error)
        span.end(end)
