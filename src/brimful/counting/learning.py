"""Counts that learn: from what providers reported, a better calibration. Pure functions of observations."""

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from brimful.core.model import ModelInfo, Prior
from brimful.counting.calibration import Calibration, prior_of
from brimful.counting.drift import LEAST_BEFORE, WITNESSES, find_step, middle
from brimful.counting.features import FEATURES
from brimful.counting.regression import CALIBRATED, EXACT, Fit, Seen, fit, is_plausible
from brimful.counting.settling import alarms, settled
from brimful.observation import Observation

_ENOUGH: Final = 20  # observations after a drift, from which on it is no news
_DIGITS: Final = 4  # of a weight: more would say nothing
_UNEXPLAINED: Final = 0.4  # of a step that is left when old and new are learned from together: then it is drift
_KEPT: Final = 256  # models and routes of which a process keeps at hand what it learned


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """Since the time `at` a server counts otherwise: by so large a share `step`. `forgotten` are older observations."""

    at: float
    step: float
    forgotten: int


class Learned(msgspec.Struct, frozen=True, kw_only=True):
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
        if self.drift is None or self.observations >= _ENOUGH:
            return ""
        return (
            f"{self.model.id} on {self.route} reports {100 * self.drift.step:+.0f} % tokens since its last "
            f"{self.observations} requests: it counts otherwise than before, and margins are wide until that is learned"
        )


def calibrated(model: ModelInfo, observations: Sequence[Observation], *, route: str) -> ModelInfo:
    """Return the model with a prior learned from what was observed of it on a route, newest first; or as it is.

    Put it into `assemble`: so the record holds what was learned, and replays to itself. Give it the model as the
    registry knows it, and the newest `WINDOW` observations.
    """
    return learn_from(model, observations, route=route).model


def learn_from(model: ModelInfo, observations: Sequence[Observation], *, route: str) -> Learned:
    """Return what is learned of a model on a route, and how.

    A model with a public tokenizer is left as it is, unless the server reports more than was counted, and not just
    once: then a correction is learned for it, too, and its counts are no longer called exact.
    """
    base = prior_of(model)
    usable = tuple(settled(observations, base.tokenizer if model.tokenizer is None else ""))
    if not usable or (model.tokenizer is not None and sum(map(_too_few, usable)) < WITNESSES):
        return Learned(model=model, route=route)
    return _remembered(model, base, usable, route)


def learned_window(observations: Sequence[Observation]) -> int | None:
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


def _remembered(model: ModelInfo, base: Calibration, usable: tuple[Observation, ...], route: str) -> Learned:
    """Learn, unless the same was learned before: from one request to the next, it mostly was."""
    key = (model, route, usable[-1].id)
    with _lock:
        known = _known.get(key)
    if known is not None and known[0] == usable:
        return known[1]
    learned = _learned(model, base, usable, route)
    with _lock:
        _known[key] = (usable, learned)
        while len(_known) > _KEPT:
            _known.popitem(last=False)
    return learned


def _learned(model: ModelInfo, base: Calibration, usable: Sequence[Observation], route: str) -> Learned:
    drift = _drift(model, base, usable)
    fitted = _fit(model, base, usable[drift.forgotten if drift else 0 :])
    used, believed = fitted.residuals, is_plausible(fitted, 1.0 if model.tokenizer else base.factor)
    return Learned(
        model=msgspec.structs.replace(model, prior=_prior(base, fitted, route, drift)) if believed else model,
        route=route,
        believed=believed,
        observations=len(used),
        error=sum(map(abs, used)) / len(used),
        interval=fitted.interval,
        drift=drift,
    )


def _drift(model: ModelInfo, base: Calibration, usable: Sequence[Observation]) -> Drift | None:
    """Return the last drift. It is looked for as it was when the observations came: what was noticed stays so."""
    drift, start = None, 0
    for end in alarms(usable):
        first = end - WITNESSES
        if first - start < LEAST_BEFORE:
            continue
        step = _step(_fit(model, base, usable[start:first]), base, usable[first:end])
        if step is not None and not _explains(_fit(model, base, usable[start:end]), base, usable[first:end], step):
            start = first
            drift = Drift(at=usable[start].at, step=round(step, _DIGITS), forgotten=start)
    return drift


def _step(fitted: Fit, base: Calibration, latest: Sequence[Observation]) -> float | None:
    calibration = _calibration(base, fitted)
    return find_step([calibration.count(each.features) for each in latest], [each.reported for each in latest])


def _explains(fitted: Fit, base: Calibration, latest: Sequence[Observation], step: float) -> bool:
    """Say whether a fit to old and new together meets the new ones: then they were of another sort, and no drift."""
    calibration = _calibration(base, fitted)
    left = middle(each.reported / max(1, calibration.count(each.features).tokens) - 1 for each in latest)
    return abs(left) < _UNEXPLAINED * abs(step)


def _fit(model: ModelInfo, base: Calibration, usable: Sequence[Observation]) -> Fit:
    seen = [_seen(each) for each in usable]
    if model.tokenizer is None:
        return fit(seen, factor=base.factor, widest=base.margin, doubt=CALIBRATED)
    return fit(seen, factor=1.0, widest=0.0, doubt=EXACT)


def _seen(each: Observation) -> Seen:
    return Seen(features=each.features, fixed=_fixed(each), reported=each.reported)


def _fixed(each: Observation) -> float:
    return each.features.get("fixed", 0.0) + each.features.get("media", 0.0)


def _too_few(each: Observation) -> bool:
    return each.reported > _fixed(each)


def _calibration(base: Calibration, fitted: Fit) -> Calibration:
    return Calibration(
        tokenizer=base.tokenizer,
        factor=round(fitted.factor, _DIGITS),
        margin=round(fitted.margin, _DIGITS),
        weights=_kept(fitted.weights),
        spread=_kept(fitted.spread),
    )


def _prior(base: Calibration, fitted: Fit, route: str, drift: Drift | None) -> Prior:
    since = f", {drift.forgotten} older ones set aside: it counts otherwise since then" if drift else ""
    source = f"learned from {len(fitted.residuals)} requests on {route}{since}"
    return Prior(source=source, **msgspec.structs.asdict(_calibration(base, fitted)))


def _kept(weights: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    """Return the weights that weigh something, in the order of the features."""
    rounded = ((name, round(weights[name], _DIGITS)) for name in FEATURES)
    return tuple((name, weight) for name, weight in rounded if weight)


_known: OrderedDict[tuple[ModelInfo, str, str], tuple[tuple[Observation, ...], Learned]] = OrderedDict()
_lock = threading.Lock()
