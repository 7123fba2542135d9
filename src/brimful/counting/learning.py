"""Learn calibrations from the usage that providers report. Pure functions of observations.

A calibration decides where a history begins, and moving that point breaks prompt caches. So calibrations are refitted
only at certain steps (after 1, 2, 3, 5, 8, 13 … observations), and when a report falls outside the margin: that
report and the next two may show that the server has started to count differently (drift).
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from brimful.cache import LRU
from brimful.core.model import ModelInfo, Prior
from brimful.core.tokens import Count
from brimful.counting.calibration import Calibration, default_calibration
from brimful.counting.features import FEATURES
from brimful.counting.regression import CALIBRATED, EXACT, Fit, Sample, fit, is_plausible
from brimful.records.usage import UsageReport

CONFIRMATIONS: Final = 3  # observations in a row, so that a single odd one changes nothing
MIN_BEFORE_DRIFT: Final = 5  # observations that must have taught something, before that can be wrong
MIN_DRIFT_STEP: Final = 0.04  # of a prompt: makers change their tokenizers by more, and smaller steps the margin bears


def find_drift_step(expected: Sequence[Count], reported: Sequence[int]) -> float | None:
    """Return by what share a server reports more or less than what was learned before lets expect; None if it does not.

    All reports must lie beyond the margin, on the same side.

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
    """Return the value in the middle, the upper one of two: the library's median takes long to import.

    >>> upper_median([3.0, 1.0, 2.0]), upper_median([1.0, 2.0])
    (2.0, 2.0)
    """
    ordered = sorted(values)
    return ordered[len(ordered) // 2]


MAX_OBSERVATIONS: Final = 256  # observations that are learned from: what is older says little of what a server does now
_REFIT_STEPS: Final = (1, 2, 3, 5, 8, 13, 20, 32, 50, 80, 128)  # observations after which all is learned anew
_REFIT_INTERVAL: Final = 32  # … and from then on after so many
_MAX_RATIO: Final = 10  # times as many tokens as were counted: a report that means something else
_MIN_OVERCOUNT: Final = 0.01  # of a prompt: counts that are too high by less are no reason to learn anew


def select_observations(observations: Sequence[UsageReport], tokenizer: str) -> list[UsageReport]:
    """Return those that are to be learned from now, oldest first; they are given newest first.

    They have features by this tokenizer, if any is named, and a report of the whole prompt.
    """
    usable = [
        each
        for each in reversed(observations[:MAX_OBSERVATIONS])
        if _is_plausible_report(each) and (not tokenizer or each.tokenizer == tokenizer)
    ]
    if len(observations) >= MAX_OBSERVATIONS:
        usable = usable[_stable_start(usable) :]
    alarmed = set(find_alarms(usable))
    return usable[: next((at for at in range(len(usable), 0, -1) if _is_refit_step(at) or at in alarmed), 0)]


def find_alarms(usable: Sequence[UsageReport]) -> list[int]:
    """Return after how many observations, oldest first, there is reason to ask whether the server counts otherwise."""
    escapes = [at for at, each in enumerate(usable, start=1) if _is_outside_margin(each)]
    return sorted({at + more for at in escapes for more in range(CONFIRMATIONS) if at + more <= len(usable)})


def _is_plausible_report(each: UsageReport) -> bool:
    """Say whether a report can be meant as the tokens of the prompt."""
    likely = each.counted < _MAX_RATIO * each.reported and each.reported < _MAX_RATIO * each.counted
    return each.kind == "usage" and bool(each.features) and likely


def _stable_start(usable: Sequence[UsageReport]) -> int:
    """Return where to begin in a history that goes on before: at a place that stays the same while new ones come."""
    return next((at for at, each in enumerate(usable[: MAX_OBSERVATIONS // 2]) if _is_anchor(each.id)), 0)


def _is_anchor(id: str) -> bool:
    """Choose one id in so many, whoever asks and whenever."""
    return hashlib.blake2b(id.encode(), digest_size=1).digest()[0] % _REFIT_INTERVAL == 0


def _is_refit_step(count: int) -> bool:
    return count in _REFIT_STEPS or (count > _REFIT_STEPS[-1] and count % _REFIT_INTERVAL == 0)


def _is_outside_margin(each: UsageReport) -> bool:
    """Say whether the margin did not cover what was reported, or the count was far too high."""
    gap = each.counted - each.reported
    return -gap > each.margin or gap > each.margin + _MIN_OVERCOUNT * each.reported


_MIN_AFTER_DRIFT: Final = 20  # observations after a drift, from which on it is no news
_WEIGHT_DIGITS: Final = 4  # of a weight: more would say nothing
_UNEXPLAINED_SHARE: Final = 0.4  # of a step that is left when old and new are learned from together: then it is drift
_MAX_LEARNED: Final = 256  # models and routes of which a process keeps at hand what it learned


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """Since the time `at` a server counts otherwise: by so large a share `step`. `forgotten` are older observations."""

    at: float
    step: float
    forgotten: int


class LearnedCalibration(msgspec.Struct, frozen=True, kw_only=True):
    """A model with what was learned of it on a route, from so many observations.

    `error` is what they miss on average, each counted by what the others taught, and `interval` the margin that they
    would get, both as shares. What no tokenizer and no template could explain is not `believed`: the model is then left
    as it was.
    """

    model: ModelInfo
    route: str
    observations: int = 0
    error: float = 0.0
    interval: float = 0.0
    drift: Drift | None = None
    believed: bool = True

    @property
    def note(self) -> str:
        """What a context should say: that a server has begun to count otherwise, or that its reports make no sense."""
        if not self.believed:
            return (
                f"what {self.route} reports for {self.model.id} is not what any tokenizer would count: nothing is "
                "learned from it"
            )
        if self.drift is None or self.observations >= _MIN_AFTER_DRIFT:
            return ""
        return (
            f"{self.model.id} on {self.route} reports {100 * self.drift.step:+.0f} % tokens since its last "
            f"{self.observations} requests: it counts otherwise than before, and margins are wide until that is learned"
        )


def calibrate(model: ModelInfo, observations: Sequence[UsageReport], *, route: str) -> ModelInfo:
    """Return the model with a prior learned from what was observed of it on a route, newest first; or as it is.

    Put it into `assemble`: so the record holds what was learned, and replays to itself. Give it the model as the
    registry knows it, and the newest `WINDOW` observations.
    """
    return learn_calibration(model, observations, route=route).model


def learn_calibration(model: ModelInfo, observations: Sequence[UsageReport], *, route: str) -> LearnedCalibration:
    """Return what is learned of a model on a route, and how.

    A model with a public tokenizer is left as it is, unless the server reports more than was counted, and not just
    once: then a correction is learned for it, too, and its counts are no longer called exact.
    """
    base = default_calibration(model)
    usable = tuple(select_observations(observations, base.tokenizer if model.tokenizer is None else ""))
    if not usable or (model.tokenizer is not None and sum(map(_is_undercounted, usable)) < CONFIRMATIONS):
        return LearnedCalibration(model=model, route=route)
    return _cached_learn(model, base, usable, route)


def learned_window(observations: Sequence[UsageReport]) -> int | None:
    """Return the window that a server told when it refused a prompt; None if it never did, or took more since then.

    `observations` are of one model on one route, newest first.
    """
    largest = 0
    for each in observations:
        if each.kind == "overflow" and each.window is not None:
            return each.window if largest <= each.window else None
        if each.kind == "usage":
            largest = max(largest, each.reported)
    return None


def _cached_learn(
    model: ModelInfo, base: Calibration, usable: tuple[UsageReport, ...], route: str
) -> LearnedCalibration:
    """Learn, unless the same was learned before: from one request to the next, it mostly was."""
    key = (model, route, usable[-1].id)
    known = _learned_cache.get(key)
    if known is not None and known[0] == usable:
        return known[1]
    learned = _learn(model, base, usable, route)
    _learned_cache[key] = (usable, learned)
    return learned


def _learn(model: ModelInfo, base: Calibration, usable: Sequence[UsageReport], route: str) -> LearnedCalibration:
    drift = _find_drift(model, base, usable)
    fitted = _fit_calibration(model, base, usable[drift.forgotten if drift else 0 :])
    used, believed = fitted.residuals, is_plausible(fitted, 1.0 if model.tokenizer else base.factor)
    return LearnedCalibration(
        model=msgspec.structs.replace(model, prior=_make_prior(base, fitted, route, drift)) if believed else model,
        route=route,
        believed=believed,
        observations=len(used),
        error=sum(map(abs, used)) / len(used),
        interval=fitted.interval,
        drift=drift,
    )


def _find_drift(model: ModelInfo, base: Calibration, usable: Sequence[UsageReport]) -> Drift | None:
    """Return the last drift. It is looked for as it was when the observations came: what was noticed stays so."""
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
            drift = Drift(at=usable[start].at, step=round(step, _WEIGHT_DIGITS), forgotten=start)
    return drift


def _drift_step(fitted: Fit, base: Calibration, latest: Sequence[UsageReport]) -> float | None:
    calibration = _make_calibration(base, fitted)
    return find_drift_step([calibration.count(each.features) for each in latest], [each.reported for each in latest])


def _is_explained_by(fitted: Fit, base: Calibration, latest: Sequence[UsageReport], step: float) -> bool:
    """Say whether a fit to old and new together meets the new ones: then they were of another sort, and no drift."""
    calibration = _make_calibration(base, fitted)
    left = upper_median(each.reported / max(1, calibration.count(each.features).tokens) - 1 for each in latest)
    return abs(left) < _UNEXPLAINED_SHARE * abs(step)


def _fit_calibration(model: ModelInfo, base: Calibration, usable: Sequence[UsageReport]) -> Fit:
    seen = [_sample(each) for each in usable]
    if model.tokenizer is None:
        return fit(seen, factor=base.factor, widest=base.margin, doubt=CALIBRATED)
    return fit(seen, factor=1.0, widest=0.0, doubt=EXACT)


def _sample(each: UsageReport) -> Sample:
    return Sample(features=each.features, fixed=_fixed_tokens(each), reported=each.reported)


def _fixed_tokens(each: UsageReport) -> float:
    return each.features.get("fixed", 0.0) + each.features.get("media", 0.0)


def _is_undercounted(each: UsageReport) -> bool:
    return each.reported > _fixed_tokens(each)


def _make_calibration(base: Calibration, fitted: Fit) -> Calibration:
    return Calibration(
        tokenizer=base.tokenizer,
        factor=round(fitted.factor, _WEIGHT_DIGITS),
        margin=round(fitted.margin, _WEIGHT_DIGITS),
        weights=_nonzero_weights(fitted.weights),
        spread=_nonzero_weights(fitted.spread),
    )


def _make_prior(base: Calibration, fitted: Fit, route: str, drift: Drift | None) -> Prior:
    since = f", {drift.forgotten} older ones set aside: it counts otherwise since then" if drift else ""
    source = f"learned from {len(fitted.residuals)} requests on {route}{since}"
    return Prior(source=source, **msgspec.structs.asdict(_make_calibration(base, fitted)))


def _nonzero_weights(weights: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    """Return the weights that weigh something, in the order of the features."""
    rounded = ((name, round(weights[name], _WEIGHT_DIGITS)) for name in FEATURES)
    return tuple((name, weight) for name, weight in rounded if weight)


_learned_cache: Final[LRU[tuple[ModelInfo, str, str], tuple[tuple[UsageReport, ...], LearnedCalibration]]] = LRU(
    max_entries=_MAX_LEARNED
)
