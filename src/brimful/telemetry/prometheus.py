"""A Prometheus hook: requests, contexts, answers, tokens, cost, errors and durations."""

import os
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from brimful.cache import SHARED_BUDGET, VECTOR_BUDGET
from brimful.engine.events import Event, EventName
from brimful.errors import InvalidValue, MissingExtra
from brimful.models import default_registry
from brimful.models.costs import load_prices, usage_cost
from brimful.models.registry import Registry
from brimful.records import Usage
from brimful.retrieval.breaker import State
from brimful.stores.tables.jobs import JobKind
from brimful.telemetry.labels import ModelLabels

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

MULTIPROCESS_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable that tells Prometheus' client to share metrics between processes."""
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
"""The content type of the text format."""
MetricKind = Literal["counter", "histogram", "gauge"]

_SHARES: Final = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)  # of the budget
_SHORT: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)  # seconds
_ANY: Final = (0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)  # seconds
_LONG: Final = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 120.0, 300.0, 600.0)  # seconds

_BUILD: Final = ("model", "policy")  # labels of contexts
_CALL: Final = ("model", "route")  # labels of answers
_OWN: Final = ("kind", "model")  # labels of own calls
_UPSTREAM: Final = ("upstream", "model")  # labels of what the server measures of an upstream

METRICS: Final[Mapping[str, tuple[MetricKind, str, tuple[str, ...], tuple[float, ...]]]] = {
    "brimful_contexts": ("counter", "Contexts built.", _BUILD, ()),
    "brimful_context_tokens": ("counter", "Tokens of contexts, as counted by Brimful.", _BUILD, ()),
    "brimful_left_out": ("counter", "Candidates left out of contexts.", _BUILD, ()),
    "brimful_degraded": ("counter", "Degraded contexts.", _BUILD, ()),
    "brimful_budget_share": ("histogram", "Share of the token budget used by contexts.", _BUILD, _SHARES),
    "brimful_build_seconds": ("histogram", "Time to build a context.", _BUILD, _SHORT),
    "brimful_answers": ("counter", "Answers by finish reason.", ("model", "route", "finish"), ()),
    "brimful_prompt_tokens": ("counter", "Prompt tokens reported by providers.", _CALL, ()),
    "brimful_cached_tokens": ("counter", "Cached prompt tokens reported by providers.", _CALL, ()),
    "brimful_expected_cached_tokens": ("counter", "Prompt tokens expected in the cache.", _CALL, ()),
    "brimful_cache_hits": ("counter", "Answers whose prompt was partly read from the cache as expected.", _CALL, ()),
    "brimful_cache_misses": ("counter", "Prompts read again that were cached, by cause.", (*_CALL, "cause"), ()),
    "brimful_completion_tokens": ("counter", "Completion tokens reported by providers.", _CALL, ()),
    "brimful_answer_dollars": ("counter", "Cost of answers whose price is known.", _CALL, ()),
    "brimful_answer_seconds": ("histogram", "Time from the request to the end of the answer.", _CALL, _LONG),
    "brimful_overflows": ("counter", "Prompts rejected as too long.", _CALL, ()),
    "brimful_recalls": ("counter", "Calls of the recall tool that the proxy answered.", _CALL, ()),
    "brimful_recalled_tokens": ("counter", "Tokens of their results.", _CALL, ()),
    "brimful_provider_errors": ("counter", "Failed calls to providers.", ("route", "error"), ()),
    "brimful_requests": ("counter", "Requests served, by path template and status.", ("path", "status"), ()),
    "brimful_request_seconds": ("histogram", "Time to serve a request to its end.", ("path",), _ANY),
    "brimful_requests_in_flight": ("gauge", "Requests being served.", (), ()),
    "brimful_first_token_seconds": ("histogram", "Time to the first event of a streamed answer.", _UPSTREAM, _LONG),
    "brimful_upstream_seconds": ("histogram", "Time that an upstream takes for an answer.", _UPSTREAM, _LONG),
    "brimful_upstream_available": ("gauge", "1 if an upstream is tried in its turn, 0 if it rests.", ("upstream",), ()),
    "brimful_limits_hit": ("counter", "Requests rejected because of a limit.", ("limit",), ()),
    "brimful_rejected_requests": ("counter", "Requests rejected by the server.", ("kind",), ()),
    "brimful_proxy_overhead_seconds": ("histogram", "Time before a request is forwarded.", ("mode", "route"), _SHORT),
    "brimful_jobs": ("counter", "Background jobs by outcome.", ("kind", "outcome"), ()),
    "brimful_jobs_waiting": ("gauge", "Background jobs that are due and that no worker has claimed.", ("kind",), ()),
    "brimful_jobs_failed": ("gauge", "Background jobs whose last attempt failed.", ("kind",), ()),
    "brimful_own_calls": ("counter", "Calls of models that Brimful made by itself.", _OWN, ()),
    "brimful_own_call_tokens": ("counter", "Prompt and completion tokens of own calls.", _OWN, ()),
    "brimful_own_call_dollars": ("counter", "Cost of own calls whose price is known.", _OWN, ()),
    "brimful_own_call_limit": ("gauge", "Daily limit of own calls.", ("unit",), ()),
    "brimful_circuit_breaker": ("gauge", "1 for the current state of the embedder's circuit breaker.", ("state",), ()),
    "brimful_cache_bytes": ("gauge", "Estimated memory of caches.", ("cache",), ()),
    "brimful_cache_limit_bytes": ("gauge", "Limit of the memory of all caches together.", (), ()),
    "brimful_memory_bytes": ("gauge", "Resident memory.", (), ()),
    "brimful_open_engines": ("gauge", "Engines in memory.", (), ()),
    "brimful_database_pool_size": ("gauge", "Max number of database calls at a time.", (), ()),
    "brimful_database_pool_in_use": ("gauge", "Database calls that are running.", (), ()),
    "brimful_database_pool_waiting": ("gauge", "Database calls that wait for a connection.", (), ()),
}
"""All metrics: kind, description, labels and buckets. Counters get the suffix `_total`."""
_COUNTED: Final = {
    "failed": ("brimful_provider_errors", ("route", "error")),
    "worked": ("brimful_jobs", ("kind", "outcome")),
}
"""Events that are only counted: the metric, and the facts that are its labels."""
_UPSTREAM_TIMES: Final = {"first_token": "brimful_first_token_seconds", "upstream_ended": "brimful_upstream_seconds"}
_GAUGE_MODES: Final = {
    "brimful_circuit_breaker": "livemax",
    "brimful_own_call_limit": "livemax",
    "brimful_jobs_failed": "livemostrecent",
    "brimful_jobs_waiting": "livemostrecent",
    "brimful_upstream_available": "livemin",
}  # over several processes; all others are summed up
_PROCESS_METRICS: Final = (
    *("brimful_cache_bytes", "brimful_cache_limit_bytes", "brimful_memory_bytes", "brimful_open_engines"),
    *("brimful_database_pool_size", "brimful_database_pool_in_use", "brimful_database_pool_waiting"),
    *("brimful_requests_in_flight", "brimful_jobs_waiting", "brimful_jobs_failed", "brimful_upstream_available"),
)  # not of one tenant
_CACHE_INTERVAL: Final = 5.0  # seconds between two updates of these, unless they are read


def forget_process(process: int) -> None:
    """Remove the gauges of a process that has ended, if processes share their metrics. Its counters still count."""
    if os.environ.get(MULTIPROCESS_VARIABLE):
        _load_multiprocess().mark_process_dead(process)


def _load_multiprocess() -> Any:
    """Import a module without types."""
    return import_module("prometheus_client.multiprocess")


def memory_bytes() -> int:
    """Return the resident memory of this process; 0 if it is not known."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


class Prometheus:
    """Counts events in the given registry or one of its own.

    `tenant_label` adds the label `tenant` to all metrics; use it only with few tenants.
    """

    def __init__(
        self, registry: "CollectorRegistry | None" = None, *, tenant_label: bool = False, models: Registry | None = None
    ) -> None:
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
        self._models = models
        self._labels = ModelLabels(models)
        with suppress(MissingExtra):
            load_prices()  # now, because it takes a while
        self._extra_labels = ("tenant",) if tenant_label else ()
        self._metrics: dict[str, Any] = {}
        for name, (kind, about, labels, buckets) in METRICS.items():
            bounds: dict[str, Any] = {"buckets": buckets} if buckets else {}
            if kind == "gauge":
                bounds["multiprocess_mode"] = _GAUGE_MODES.get(name, "livesum")
            extra = () if name in _PROCESS_METRICS else self._extra_labels
            self._metrics[name] = kinds[kind](name, about, (*labels, *extra), registry=self.registry, **bounds)
        self._seen: defaultdict[str, set[str]] = defaultdict(set)  # labels of watched gauges
        self._watched: dict[str, Callable[[], int | Mapping[str, int]]] = {"brimful_memory_bytes": memory_bytes}
        self._caches_at = float("-inf")
        self._recorders: dict[EventName, Callable[[Event], None]] = {
            "assembled": self._record_context,
            "billed": self._record_usage,
            "called": self._record_own_call,
            "failed": self._count,
            "first_token": self._record_upstream,
            "overflowed": self._record_overflow,
            "recalled": self._record_recall,
            "refused": self._record_refusal,
            "responded": self._record_response,
            "sent": self._record_overhead,
            "served": self._record_request,
            "upstream_ended": self._record_upstream,
            "worked": self._count,
        }
        self.refresh()

    def watch(self, name: str, value: Callable[[], int | Mapping[str, int]]) -> None:
        """Set a gauge to the result of a function whenever metrics are read: a number, or numbers by label."""
        self._watched[name] = value

    def add_in_flight(self, change: int) -> None:
        """Note that requests have begun, or ended if negative."""
        self._metrics["brimful_requests_in_flight"].inc(change)

    def show_jobs(self, waiting: Mapping[JobKind, int], failed: Mapping[JobKind, int]) -> None:
        """Set how many jobs of each kind are waiting, and how many failed."""
        for kind in get_args(JobKind):
            self._metrics["brimful_jobs_waiting"].labels(kind).set(waiting.get(kind, 0))
            self._metrics["brimful_jobs_failed"].labels(kind).set(failed.get(kind, 0))

    def __call__(self, event: Event) -> None:
        if not 0 <= event.at - self._caches_at < _CACHE_INTERVAL:
            self._caches_at = event.at
            self.refresh()
        record = self._recorders.get(event.name)
        if record is not None:
            record(event)

    def expose(self) -> bytes:
        """Return all metrics in Prometheus' text format, summed up over all processes that share a folder for them."""
        import prometheus_client  # noqa: PLC0415 - an extra

        self.refresh()
        if not os.environ.get(MULTIPROCESS_VARIABLE):
            return prometheus_client.generate_latest(self.registry)
        registry = prometheus_client.CollectorRegistry()
        _load_multiprocess().MultiProcessCollector(registry)
        return prometheus_client.generate_latest(registry)

    def refresh(self) -> None:
        """Update the gauges that no event changes."""
        self._metrics["brimful_cache_limit_bytes"].set(SHARED_BUDGET.max_bytes + VECTOR_BUDGET.max_bytes)
        for name, size in (SHARED_BUDGET.sizes() | VECTOR_BUDGET.sizes()).items():
            self._metrics["brimful_cache_bytes"].labels(name).set(size)
        for name, read in self._watched.items():
            value, gauge = read(), self._metrics[name]
            if isinstance(value, Mapping):
                # Processes that share metrics cannot remove a label: an upstream that a reload removed no longer rests.
                for label, number in (dict.fromkeys(self._seen[name], 1) | dict(value)).items():
                    gauge.labels(label).set(number)
                self._seen[name].update(value)
            else:
                gauge.set(value)

    def _record_context(self, event: Event) -> None:
        facts = event.facts
        labels = (self._labels.model(facts["model"]), facts["policy"])
        self._metric("brimful_contexts", event, *labels).inc()
        self._metric("brimful_context_tokens", event, *labels).inc(facts["tokens"])
        self._metric("brimful_left_out", event, *labels).inc(facts["left_out"])
        self._metric("brimful_degraded", event, *labels).inc(bool(facts["degraded"]))
        self._metric("brimful_budget_share", event, *labels).observe(facts["tokens"] / max(1, facts["available"]))
        self._metric("brimful_build_seconds", event, *labels).observe(facts["seconds"])
        if "breaker" in facts:
            for state in get_args(State):
                self._metric("brimful_circuit_breaker", event, state).set(state == facts["breaker"])

    def _record_response(self, event: Event) -> None:
        facts, usage = event.facts, event.facts["usage"]
        labels = self._route(event)
        self._metric("brimful_answers", event, *labels, facts["finish"] or "unknown").inc()
        if facts["seconds"] is not None:
            self._metric("brimful_answer_seconds", event, *labels).observe(facts["seconds"])
        if usage:
            self._record_usage(event)
            self._metric("brimful_expected_cached_tokens", event, *labels).inc(facts["expected_cached"])
            if usage["cached"] and not facts["cache_miss"]:
                self._metric("brimful_cache_hits", event, *labels).inc()
        if facts["cache_miss"]:
            self._metric("brimful_cache_misses", event, *labels, facts["cache_miss"]).inc()

    def _record_usage(self, event: Event) -> None:
        usage, labels = event.facts["usage"], self._route(event)
        self._metric("brimful_prompt_tokens", event, *labels).inc(usage["prompt"])
        self._metric("brimful_cached_tokens", event, *labels).inc(usage["cached"])
        self._metric("brimful_completion_tokens", event, *labels).inc(usage["completion"])
        self._metric("brimful_answer_dollars", event, *labels).inc(self._cost(event))

    def _cost(self, event: Event) -> float:
        """Return the dollars of an answer; 0 if they are unknown."""
        registry = self._models if self._models is not None else default_registry()
        try:
            model = registry.resolve(event.facts["requested_model"])
            cost = usage_cost(model, Usage(**event.facts["usage"]), event.at)
        except (MissingExtra, InvalidValue):  # prices are an extra, and reported usage may be invalid
            return 0.0
        return float(cost or 0)

    def _record_overflow(self, event: Event) -> None:
        self._metric("brimful_overflows", event, *self._route(event)).inc()

    def _record_recall(self, event: Event) -> None:
        self._metric("brimful_recalls", event, *self._route(event)).inc()
        self._metric("brimful_recalled_tokens", event, *self._route(event)).inc(event.facts["tokens"])

    def _record_overhead(self, event: Event) -> None:
        labels = (event.facts["mode"], event.facts["route"])
        self._metric("brimful_proxy_overhead_seconds", event, *labels).observe(event.facts["seconds"])

    def _record_request(self, event: Event) -> None:
        path, status = event.facts["path"], str(event.facts["status"])
        self._metric("brimful_requests", event, path, status).inc()
        self._metric("brimful_request_seconds", event, path).observe(event.facts["seconds"])

    def _count(self, event: Event) -> None:
        name, labels = _COUNTED[event.name]
        self._metric(name, event, *(event.facts[label] for label in labels)).inc()

    def _record_refusal(self, event: Event) -> None:
        self._metric("brimful_rejected_requests", event, event.facts["kind"]).inc()
        if event.facts["limit"]:
            self._metric("brimful_limits_hit", event, event.facts["limit"]).inc()

    def _record_upstream(self, event: Event) -> None:
        facts, name = event.facts, _UPSTREAM_TIMES[event.name]
        model = self._labels.model(facts["model"]) if facts["model"] else "none"
        self._metric(name, event, facts["upstream"], model).observe(facts["seconds"])

    def _record_own_call(self, event: Event) -> None:
        facts = event.facts
        labels = (facts["kind"], self._labels.model(facts["model"]))
        self._metric("brimful_own_calls", event, *labels).inc()
        self._metric("brimful_own_call_tokens", event, *labels).inc(facts["prompt"] + facts["completion"])
        self._metric("brimful_own_call_dollars", event, *labels).inc(facts["dollars"] or 0.0)
        for unit in ("tokens", "dollars"):
            if facts[f"{unit}_per_day"] is not None:
                self._metric("brimful_own_call_limit", event, unit).set(facts[f"{unit}_per_day"])

    def _route(self, event: Event) -> tuple[str, str]:
        facts = event.facts
        return self._labels.model(facts.get("requested_model") or facts["model"]), facts["route"] or "unknown"

    def _metric(self, name: str, event: Event, *labels: str) -> Any:
        """Return a metric with its labels."""
        more = (event.tenant,) if self._extra_labels else ()
        return self._metrics[name].labels(*labels, *more)
