"""Calibrate counts and windows of a model on a route from the usage that its provider reported."""

from collections.abc import Sequence
from typing import Final

import msgspec

from brimful.cache import LRU
from brimful.core.model import ModelInfo
from brimful.core.notice import Notice
from brimful.counting import MAX_REPORTS, canonical_model_id, learn_calibration, learned_window
from brimful.records.usage import UsageReport
from brimful.stores import Store
from brimful.threads import run_in_thread

MAX_MODELS: Final = 1_024  # models on routes in the cache
FEW_REPORTS: Final = 64  # up to this number, every report triggers a new calibration
NEW_SHARE: Final = 0.05  # of the reports must be new to trigger one above it
REFRESH_SECONDS: Final = 60.0  # until reports of other processes are read
_MODEL_BYTES: Final = 2_000  # memory of a model
_REPORT_BYTES: Final = 1_500  # … of a report
_ID_BYTES: Final = 100  # … of the id of a report


class CalibratedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A calibrated model, and a smaller `window` if one was reported; `notices` go into the record of a context."""

    model: ModelInfo
    window: int | None = None
    notices: tuple[Notice, ...] = ()


class LearnedWindow(msgspec.Struct, frozen=True, kw_only=True):
    """A window that a provider named when it refused a request, for a model on a route."""

    model: str
    route: str
    window: int


class _RecentReports(msgspec.Struct, frozen=True, kw_only=True):
    reports: tuple[UsageReport, ...]
    at: float


class _CachedCalibration(msgspec.Struct, frozen=True, kw_only=True):
    calibrated: CalibratedModel
    reports: frozenset[str]  # ids


class Calibrator:
    """Calibrates models from the usage reports of a tenant, and caches the results.

    Calibration is slow and runs in a thread: with few reports after each of them, with many only when a twentieth of
    them are new or one is unusual.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._reports: LRU[tuple[str, str], _RecentReports] = LRU(
            max_entries=MAX_MODELS,
            name="calibrations",
            size=lambda _, recent: _MODEL_BYTES + len(recent.reports) * _REPORT_BYTES,
        )
        self._calibrated: LRU[tuple[ModelInfo, str], _CachedCalibration] = LRU(
            max_entries=MAX_MODELS,
            name="calibrations",
            size=lambda _, cached: _MODEL_BYTES + len(cached.reports) * _ID_BYTES,
        )

    async def calibrate(self, model: ModelInfo, route: str, *, now: float) -> CalibratedModel:
        """Return a model as calibrated on a route; by default the one of its maker."""
        route = route or get_default_route(model)
        reports = await self._load_reports(canonical_model_id(model), route, now)
        cached = self._calibrated.get((model, route))
        if cached is None or _needs_update(reports, cached):
            calibrated = (
                await run_in_thread(_calibrate, model, reports, route) if reports else CalibratedModel(model=model)
            )
            cached = _CachedCalibration(calibrated=calibrated, reports=frozenset(each.id for each in reports))
            self._calibrated[model, route] = cached
        # A refusal without the beta feature says nothing about the window with it, and reports do not tell them apart.
        window = None if model.uses_beta else learned_window(reports, now=now)
        if window is None or (window >= model.window and not model.assumed_window):
            return cached.calibrated
        text = f"{route} refused an earlier request and named a smaller window: {model.id} gets {window:,} tokens"
        facts = {"route": route, "model": model.id, "window": window}
        notice = Notice(kind="learned-window", text=text, facts=facts)
        notices = (*cached.calibrated.notices, notice)
        return msgspec.structs.replace(cached.calibrated, window=window, notices=notices)

    def learned_windows(self, *, now: float) -> list[LearnedWindow]:
        """Return the windows that were learned for models on routes, as far as they are in memory."""
        recent = ((key, self._reports.get(key)) for key in self._reports)
        learned = ((key, learned_window(each.reports, now=now)) for key, each in recent if each is not None)
        return [LearnedWindow(model=key[0], route=key[1], window=window) for key, window in learned if window]

    async def add(self, report: UsageReport, *, now: float) -> None:
        """Store a report and use it from now on."""
        await self._store.save_usage(report)
        await self.use(report, now=now)

    async def use(self, report: UsageReport, *, now: float) -> None:
        """Use a report from now on, without storing it."""
        known = await self._load_reports(report.model, report.route, now)
        others = (each for each in known if each.id != report.id)
        read_at = self._reports[report.model, report.route].at  # so that other processes' reports are read in time
        self._cache_reports(report.model, report.route, (report, *others), read_at)

    async def _load_reports(self, model: str, route: str, now: float) -> Sequence[UsageReport]:
        cached = self._reports.get((model, route))
        if cached is None or not 0 <= now - cached.at < REFRESH_SECONDS:
            recent = await self._store.usage_reports(model, route, limit=MAX_REPORTS)
            unusual = await self._store.usage_reports(model, route, unusual=True, limit=MAX_REPORTS)
            older = (each for each in unusual if len(recent) == MAX_REPORTS and each.at < recent[-1].at)
            cached = self._cache_reports(model, route, (*recent, *older), now)
        return cached.reports

    def _cache_reports(self, model: str, route: str, reports: tuple[UsageReport, ...], now: float) -> _RecentReports:
        recent, older = reports[:MAX_REPORTS], reports[MAX_REPORTS:]
        unusual = (each for each in older if each.kind != "usage")  # a reported window stays known
        cached = _RecentReports(reports=(*recent, *unusual), at=now)
        self._reports[model, route] = cached
        return cached


def _calibrate(model: ModelInfo, reports: Sequence[UsageReport], route: str) -> CalibratedModel:
    learned = learn_calibration(model, reports, route=route)
    notices = (Notice(kind="calibration", text=learned.note),) if learned.note else ()
    return CalibratedModel(model=learned.model, notices=notices)


def _needs_update(reports: Sequence[UsageReport], cached: _CachedCalibration) -> bool:
    """Whether enough reports are new since the cached calibration."""
    new = [each for each in reports if each.id not in cached.reports]
    dropped = len(cached.reports) - (len(reports) - len(new))
    has_unusual = any(each.kind != "usage" for each in new)
    threshold = 0.0 if len(cached.reports) < FEW_REPORTS else len(cached.reports) * NEW_SHARE
    return has_unusual or max(len(new), dropped) > threshold


def get_default_route(model: ModelInfo) -> str:
    """Return the route of a model without a named server."""
    return model.provider or model.id
