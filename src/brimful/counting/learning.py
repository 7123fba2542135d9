"""Learn calibrations from the usage that providers report. Pure functions of usage reports.

A calibration decides where a history begins, and moving that point breaks prompt caches. So calibrations are refitted
only at certain steps (after 1, 2, 3, 5, 8, 13 … reports), and when a report falls outside the margin: that report and
the next two may show that the server has started to count differently (drift).
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from brimful.cache import LRU
from brimful.core.model import ModelInfo, Prior
from brimful.core.tokens import Count
from brimful.counting.calibration import Calibration, default_calibration
from brimful.counting.features import CHARACTER_CLASSES, FEATURES, weighted_sum
from brimful.counting.regression import CALIBRATED, EXACT, MIN_FACTOR, Fit, Sample, fit, is_plausible
from brimful.records.usage import UsageReport

WINDOW_SECONDS: Final = 86_400.0  # how long a window that a server named is used
PROBE_SECONDS: Final = 3_600.0  # after which a window that was named once is doubled, to try a longer prompt
MIN_WINDOW: Final = 256  # tokens; a server that names less means something else
CONFIRMATIONS: Final = 3  # consecutive reports, so that a single outlier changes nothing
MIN_BEFORE_DRIFT: Final = 5  # reports to learn from before a drift can be detected
MIN_DRIFT_STEP: Final = 0.04  # of a prompt: new tokenizers differ by more, and the margin covers smaller steps
MAX_REPORTS: Final = 256  # reports to learn from: older ones say little about the server's present behavior
_REFIT_STEPS: Final = (1, 2, 3, 5, 8, 13, 20, 32, 50, 80, 128)  # numbers of reports at which to refit
_REFIT_INTERVAL: Final = 32  # reports between later refits
_MAX_RATIO: Final = 10  # of reported and counted tokens; a report beyond it must mean something else
_MIN_TEXT: Final = 24  # base tokens of a prompt; in shorter ones, overhead hides what the text costs
_MIN_OVERCOUNT: Final = 0.01  # of a prompt: a smaller overcount is no reason to refit
_MIN_AFTER_DRIFT: Final = 20  # reports after a drift, until which it is worth a note
_WEIGHT_DIGITS: Final = 4  # decimal digits of a weight
_UNEXPLAINED_SHARE: Final = 0.4  # of a step: if a fit to old and new reports leaves more of it, it is drift
_MAX_LEARNED: Final = 256  # cached calibrations
_LEARNED_BYTES: Final = 4_000  # memory of one
_REFERENCE_BYTES: Final = 200  # … of a report that is also in another cache


def find_drift_step(expected: Sequence[Count], reported: Sequence[int]) -> float | None:
    """Return the relative change if a server now reports more or fewer tokens than expected, otherwise None.

    All reports must lie outside the margin, on the same side.

    >>> counts = [Count(tokens=tokens, basis="calibrated", margin=30) for tokens in (1000, 2000, 1500)]
    >>> find_drift_step(counts, [1300, 2600, 1950])
    0.3
    >>> find_drift_step(counts, [1300, 2010, 1950])
    """
    gaps = [(tokens - count.tokens, count) for tokens, count in zip(reported, expected, strict=True)]
    step = upper_median(gap / max(1, count.tokens) for gap, count in gaps)
    beyond = all(abs(gap) > count.margin and (gap > 0) == (step > 0) for gap, count in gaps)
    return step if beyond and abs(step) >= MIN_DRIFT_STEP else None


def upper_median(values: Iterable[float]) -> float:
    """Return the median, or the upper of the two middle values. Importing `statistics` would slow down the start.

    >>> upper_median([3.0, 1.0, 2.0]), upper_median([1.0, 2.0])
    (2.0, 2.0)
    """
    ordered = sorted(values)
    return ordered[len(ordered) // 2]


def select_reports(reports: Sequence[UsageReport], tokenizer: str) -> list[UsageReport]:
    """Return the reports to fit now, oldest first. `reports` are newest first.

    They cover the whole prompt, and their features were measured with `tokenizer`, unless it is empty.
    """
    usable = [
        each
        for each in reversed(reports[:MAX_REPORTS])
        if _is_plausible_report(each) and (not tokenizer or each.tokenizer == tokenizer)
    ]
    if len(reports) >= MAX_REPORTS:
        usable = usable[_stable_start(usable) :]
    alarms = set(find_alarms(usable))
    return usable[: next((i for i in range(len(usable), 0, -1) if _is_refit_step(i) or i in alarms), 0)]


def find_alarms(usable: Sequence[UsageReport]) -> list[int]:
    """Return the numbers of reports, oldest first, after which to check for drift."""
    outside = [i for i, each in enumerate(usable, start=1) if _is_outside_margin(each)]
    return sorted({i + more for i in outside for more in range(CONFIRMATIONS) if i + more <= len(usable)})


def _is_plausible_report(each: UsageReport) -> bool:
    """Whether the report can be the token count of the prompt, and the prompt is long enough to learn from."""
    likely = each.counted < _MAX_RATIO * each.reported and each.reported < _MAX_RATIO * each.counted
    text = each.features.get("tokens")  # None if the model's own tokenizer counted them
    possible = text is None or (text >= _MIN_TEXT and each.reported >= MIN_FACTOR * text)
    return each.kind == "usage" and bool(each.features) and likely and possible


def _stable_start(usable: Sequence[UsageReport]) -> int:
    """Return a start that stays the same while new reports come in and old ones fall out of the window."""
    return next((i for i, each in enumerate(usable[: MAX_REPORTS // 2]) if _is_anchor(each.id)), 0)


def _is_anchor(id: str) -> bool:
    """Whether an id is one of a fixed sample of all ids."""
    return hashlib.blake2b(id.encode(), digest_size=1).digest()[0] % _REFIT_INTERVAL == 0


def _is_refit_step(count: int) -> bool:
    return count in _REFIT_STEPS or (count > _REFIT_STEPS[-1] and count % _REFIT_INTERVAL == 0)


def _is_outside_margin(each: UsageReport) -> bool:
    """Whether the report exceeds count and margin, or the count was far too high."""
    gap = each.counted - each.reported
    return -gap > each.margin or gap > each.margin + _MIN_OVERCOUNT * each.reported


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """A change in how a server counts: since `at`, by the share `step`. `ignored` counts unused older reports."""

    at: float
    step: float
    ignored: int


class LearnedCalibration(msgspec.Struct, frozen=True, kw_only=True):
    """A model with the calibration learned for it on a route, from a number of `reports`.

    `error` is the mean leave-one-out error and `interval` the mean margin, both as shares. If no tokenizer and template
    could produce the reports, they are not `plausible`, and the model is unchanged.
    """

    model: ModelInfo
    route: str
    reports: int = 0
    error: float = 0.0
    interval: float = 0.0
    drift: Drift | None = None
    plausible: bool = True

    @property
    def note(self) -> str:
        """A note for contexts, if the server has changed how it counts, or if its reports are not plausible."""
        if not self.plausible:
            return f"ignoring what {self.route} reports for {self.model.id}: no tokenizer would produce these counts"
        if self.drift is None or self.reports >= _MIN_AFTER_DRIFT:
            return ""
        return (
            f"{self.route} counts {self.model.id} differently since the last {self.reports} requests "
            f"({100 * self.drift.step:+.0f} %); margins are wider for a while"
        )


def calibrate(model: ModelInfo, reports: Sequence[UsageReport], *, route: str) -> ModelInfo:
    """Return the model with a prior learned from the reports on a route, newest first.

    Pass the model as it is in the registry, and the newest `MAX_REPORTS` reports. Use the result in `assemble`: the
    context then records the calibration, and can be replayed.
    """
    return learn_calibration(model, reports, route=route).model


def learn_calibration(model: ModelInfo, reports: Sequence[UsageReport], *, route: str) -> LearnedCalibration:
    """Learn a model's calibration on a route, with details.

    A model with a public tokenizer stays unchanged, unless the server repeatedly reports more than was counted. Then a
    correction is learned for it too, and its counts are no longer called exact.
    """
    base = default_calibration(model)
    usable = tuple(select_reports(reports, base.tokenizer if model.tokenizer is None else ""))
    undercounted = sum(each.reported > _fixed_tokens(each) for each in usable)
    if not usable or (model.tokenizer is not None and undercounted < CONFIRMATIONS):
        return LearnedCalibration(model=model, route=route)
    return _cached_learn(model, base, usable, route)


def learned_window(reports: Sequence[UsageReport], *, now: float) -> int | None:
    """Return the window that a server named when it refused a prompt, unless it accepted a longer one since then.

    It may have been a mistake, or the server may have been restarted with a larger one, but nothing longer would be
    sent. So it is doubled after an hour, and again after each further hour, until a prompt is refused again. If several
    refusals named the same window, each of them doubles these times. After a day, it is forgotten. `reports` are of one
    model on one route, newest first.
    """
    largest = 0
    for each in reports:
        if each.kind == "overflow" and each.window is not None:
            age = now - each.at
            if largest > each.window or age >= WINDOW_SECONDS:
                return None
            confirmations = sum(other.kind == "overflow" and other.window == each.window for other in reports)
            doublings = max(0, int(age / PROBE_SECONDS)) >> (confirmations - 1)
            return max(MIN_WINDOW, each.window) << doublings
        if each.kind == "usage":
            largest = max(largest, each.reported)
    return None


def _cached_learn(
    model: ModelInfo, base: Calibration, usable: tuple[UsageReport, ...], route: str
) -> LearnedCalibration:
    """Learn from reports, cached: from one request to the next they are mostly the same."""
    key = (model, route, usable[-1].id)
    known = _learned_cache.get(key)
    if known is not None and known[0] == usable:
        return known[1]
    learned = _learn(model, base, usable, route)
    _learned_cache[key] = (usable, learned)
    return learned


def _learn(model: ModelInfo, base: Calibration, usable: Sequence[UsageReport], route: str) -> LearnedCalibration:
    drift = _find_drift(model, base, usable)
    fitted = _fit_calibration(model, base, usable[drift.ignored if drift else 0 :])
    used = fitted.residuals
    plausible = is_plausible(fitted, 1.0 if model.tokenizer else base.factor) and not _is_too_low(fitted, usable)
    return LearnedCalibration(
        model=msgspec.structs.replace(model, prior=_make_prior(base, fitted, route, drift)) if plausible else model,
        route=route,
        plausible=plausible,
        reports=len(used),
        error=sum(map(abs, used)) / len(used),
        interval=fitted.interval,
        drift=drift,
    )


def _is_too_low(fitted: Fit, usable: Sequence[UsageReport]) -> bool:
    """Whether the texts of most prompts would count fewer tokens than any tokenizer needs.

    Reports that do not depend on the prompt look like that: everything is overhead, and texts are free.
    """
    texts = [(each.features["tokens"], each.features) for each in usable if "tokens" in each.features]
    shares = (
        fitted.factor + weighted_sum(features, CHARACTER_CLASSES, fitted.weights) / tokens for tokens, features in texts
    )
    return bool(texts) and upper_median(shares) < MIN_FACTOR


def _find_drift(model: ModelInfo, base: Calibration, usable: Sequence[UsageReport]) -> Drift | None:
    """Return the last drift. Each alarm is checked with the reports known at that time, so that results are stable."""
    drift, start = None, 0
    for end in find_alarms(usable):
        first = end - CONFIRMATIONS
        if first - start < MIN_BEFORE_DRIFT:
            continue
        step = _drift_step(_fit_calibration(model, base, usable[start:first]), base, usable[first:end])
        if step is not None and not _is_explained_by(
            _fit_calibration(model, base, usable[start:end]), base, usable[first:end], step
        ):
            start = first
            drift = Drift(at=usable[start].at, step=round(step, _WEIGHT_DIGITS), ignored=start)
    return drift


def _drift_step(fitted: Fit, base: Calibration, latest: Sequence[UsageReport]) -> float | None:
    calibration = _make_calibration(base, fitted)
    return find_drift_step([calibration.count(each.features) for each in latest], [each.reported for each in latest])


def _is_explained_by(fitted: Fit, base: Calibration, latest: Sequence[UsageReport], step: float) -> bool:
    """Whether a fit to old and new reports explains the new ones: then their content changed, and not the server."""
    calibration = _make_calibration(base, fitted)
    left = upper_median(each.reported / max(1, calibration.count(each.features).tokens) - 1 for each in latest)
    return abs(left) < _UNEXPLAINED_SHARE * abs(step)


def _fit_calibration(model: ModelInfo, base: Calibration, usable: Sequence[UsageReport]) -> Fit:
    samples = [Sample(features=each.features, fixed=_fixed_tokens(each), reported=each.reported) for each in usable]
    if model.tokenizer is None:
        return fit(samples, factor=base.factor, max_margin=base.margin, error_prior=CALIBRATED)
    return fit(samples, factor=1.0, max_margin=0.0, error_prior=EXACT)


def _fixed_tokens(each: UsageReport) -> float:
    return each.features.get("fixed", 0.0) + each.features.get("media", 0.0)


def _make_calibration(base: Calibration, fitted: Fit) -> Calibration:
    return Calibration(
        tokenizer=base.tokenizer,
        factor=round(fitted.factor, _WEIGHT_DIGITS),
        margin=round(fitted.margin, _WEIGHT_DIGITS),
        weights=_nonzero_weights(fitted.weights),
        spread=_nonzero_weights(fitted.spread),
    )


def _make_prior(base: Calibration, fitted: Fit, route: str, drift: Drift | None) -> Prior:
    since = f"; {drift.ignored} older ones ignored, because it counts differently now" if drift else ""
    source = f"learned from {len(fitted.residuals)} requests on {route}{since}"
    return Prior(source=source, **msgspec.structs.asdict(_make_calibration(base, fitted)))


def _nonzero_weights(weights: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    """Return the weights that are not zero, in the order of the features."""
    rounded = ((name, round(weights[name], _WEIGHT_DIGITS)) for name in FEATURES)
    return tuple((name, weight) for name, weight in rounded if weight)


_learned_cache: Final[LRU[tuple[ModelInfo, str, str], tuple[tuple[UsageReport, ...], LearnedCalibration]]] = LRU(
    max_entries=_MAX_LEARNED,
    name="calibrations",
    size=lambda _, learned: _LEARNED_BYTES + len(learned[0]) * _REFERENCE_BYTES,
)
