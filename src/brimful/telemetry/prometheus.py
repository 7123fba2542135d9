"""A hook that counts for Prometheus: contexts, answers, tokens, refusals, and how long it all takes."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from brimful.engine.events import Event
from brimful.errors import MissingExtra
from brimful.models.registry import Registry
from brimful.retrieval.breaker import State
from brimful.telemetry.labels import ModelLabels

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
"""The text form that Prometheus reads."""
MetricKind = Literal["counter", "histogram", "gauge"]

_SHARE_BUCKETS: Final = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)  # of the window
_SHORT_BUCKETS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)  # seconds
_LONG_BUCKETS: Final = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 120.0, 300.0, 600.0)  # seconds

METRICS: Final[Mapping[str, tuple[MetricKind, str, tuple[str, ...], tuple[float, ...]]]] = {
    "brimful_contexts": ("counter", "Contexts that were built.", ("model", "policy"), ()),
    "brimful_context_tokens": ("counter", "Tokens of those contexts, by our count.", ("model", "policy"), ()),
    "brimful_left_out": ("counter", "Candidates that were left out of contexts.", ("model", "policy"), ()),
    "brimful_degraded": ("counter", "Contexts that had to do without something.", ("model", "policy"), ()),
    "brimful_window_share": ("histogram", "How much of the window contexts take.", ("model", "policy"), _SHARE_BUCKETS),
    "brimful_build_seconds": (
        "histogram",
        "How long it takes to build a context.",
        ("model", "policy"),
        _SHORT_BUCKETS,
    ),
    "brimful_answers": ("counter", "Answers, by why they ended.", ("model", "route", "finish"), ()),
    "brimful_prompt_tokens": ("counter", "Tokens of prompts, as upstreams report them.", ("model", "route"), ()),
    "brimful_cached_tokens": ("counter", "… of them, those that came from a cache.", ("model", "route"), ()),
    "brimful_expected_cached_tokens": ("counter", "… and those that should have.", ("model", "route"), ()),
    "brimful_completion_tokens": ("counter", "Tokens of answers, as upstreams report them.", ("model", "route"), ()),
    "brimful_answer_seconds": (
        "histogram",
        "From the question to the end of the answer.",
        ("model", "route"),
        _LONG_BUCKETS,
    ),
    "brimful_overflows": ("counter", "Prompts that upstreams found too long.", ("model", "route"), ()),
    "brimful_failures": ("counter", "Questions that providers did not answer.", ("route", "error"), ()),
    "brimful_refusals": ("counter", "Requests that were not served, by the sort of reason.", ("kind",), ()),
    "brimful_added_seconds": (
        "histogram",
        "What we add to a request before it is sent.",
        ("mode", "route"),
        _SHORT_BUCKETS,
    ),
    "brimful_breaker": ("gauge", "1 for the state that the embedder's breaker is in.", ("state",), ()),
}
"""Every metric: its kind, what it tells, its labels, and the bounds of its buckets. Counters end in `_total`."""


class Prometheus:
    """Counts events in a registry of its own, or in the one that is given; `exposed` is what Prometheus reads.

    With `tenants`, every metric has the label `tenant`, too: for few of them.
    """

    def __init__(
        self,
        registry: "CollectorRegistry | None" = None,
        *,
        tenants: bool = False,
        models: Registry | None = None,
    ) -> None:
        """Make all metrics. `models` are the rows by which models are called."""
        try:
            import prometheus_client  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise MissingExtra("metrics", "Prometheus") from error
        kinds: dict[MetricKind, Any] = {
            "counter": prometheus_client.Counter,
            "gauge": prometheus_client.Gauge,
            "histogram": prometheus_client.Histogram,
        }
        self.registry = registry if registry is not None else prometheus_client.CollectorRegistry()
        self._names = ModelLabels(models)
        self._more = ("tenant",) if tenants else ()
        self._metrics: dict[str, Any] = {}
        for name, (kind, about, labels, buckets) in METRICS.items():
            bounds = {"buckets": buckets} if buckets else {}
            self._metrics[name] = kinds[kind](name, about, (*labels, *self._more), registry=self.registry, **bounds)

    def __call__(self, event: Event) -> None:
        """Count an event."""
        match event.name:
            case "assembled":
                self._assembled(event)
            case "responded":
                self._responded(event)
            case "overflowed":
                self._of("brimful_overflows", event, *self._route(event)).inc()
            case "failed":
                self._of("brimful_failures", event, event.facts["route"], event.facts["error"]).inc()
            case "refused":
                self._of("brimful_refusals", event, event.facts["kind"]).inc()
            case "sent":
                labels = (event.facts["mode"], event.facts["route"])
                self._of("brimful_added_seconds", event, *labels).observe(event.facts["seconds"])
            case _:
                pass

    def exposed(self) -> bytes:
        """Return all that was counted, in the text form that Prometheus reads."""
        import prometheus_client  # noqa: PLC0415 - an extra

        return prometheus_client.generate_latest(self.registry)

    def _assembled(self, event: Event) -> None:
        facts = event.facts
        labels = (self._names.model(facts["model"]), facts["policy"])
        self._of("brimful_contexts", event, *labels).inc()
        self._of("brimful_context_tokens", event, *labels).inc(facts["tokens"])
        self._of("brimful_left_out", event, *labels).inc(facts["left_out"])
        self._of("brimful_degraded", event, *labels).inc(bool(facts["degraded"]))
        self._of("brimful_window_share", event, *labels).observe(facts["tokens"] / facts["window"])
        self._of("brimful_build_seconds", event, *labels).observe(facts["seconds"])
        if "breaker" in facts:
            for state in get_args(State):
                self._of("brimful_breaker", event, state).set(state == facts["breaker"])

    def _responded(self, event: Event) -> None:
        facts, usage = event.facts, event.facts["usage"]
        labels = self._route(event)
        self._of("brimful_answers", event, *labels, facts["finish"] or "unknown").inc()
        if facts["seconds"] is not None:
            self._of("brimful_answer_seconds", event, *labels).observe(facts["seconds"])
        if usage:
            self._of("brimful_prompt_tokens", event, *labels).inc(usage["prompt"])
            self._of("brimful_cached_tokens", event, *labels).inc(usage["cached"])
            self._of("brimful_expected_cached_tokens", event, *labels).inc(facts["expected_cached"])
            self._of("brimful_completion_tokens", event, *labels).inc(usage["completion"])

    def _route(self, event: Event) -> tuple[str, str]:
        facts = event.facts
        return self._names.model(facts.get("requested_model") or facts["model"]), facts["route"] or "unknown"

    def _of(self, name: str, event: Event, *labels: str) -> Any:
        """Return one metric with its labels."""
        more = (event.tenant,) if self._more else ()
        return self._metrics[name].labels(*labels, *more)
