"""Calibrate counts and windows of a model on a route from the usage that its provider reported."""

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec

from brimful.cache import LRU
from brimful.core.model import ModelInfo
from brimful.core.notice import Notice
from brimful.counting import MAX_REPORTS, canonical_model_id, learn_calibration, learned_window
from brimful.records.usage import UsageReport
from brimful.stores import Store

MAX_MODELS: Final = 1_024  # models on routes that a process remembers, least recently learned first to go
FEW_OBSERVATIONS: Final = 64  # observations, up to which each one may teach something new
NEW_SHARE: Final = 0.05  # of what was observed: beyond that, so much more is learned from again
REFRESH_SECONDS: Final = 60.0  # seconds for which what other processes observed may go unseen


class CalibratedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model as observations of it say: with a better calibration; `window` where they know of a smaller one.

    `notices` go on the record of a context.
    """

    model: ModelInfo
    window: int | None
    notices: tuple[Notice, ...] = ()


class _RecentObservations(msgspec.Struct, frozen=True, kw_only=True):
    observations: tuple[UsageReport, ...]
    at: float


class _CachedCalibration(msgspec.Struct, frozen=True, kw_only=True):
    """A lesson, the observations that it was learned from, and how many there were of them."""

    lesson: CalibratedModel
    seen: frozenset[str]


class Calibrator:
    """Learns from the observations of a tenant, and keeps at hand what was learned.

    To learn takes a while, and is done on another thread: from little that was observed with every observation, from
    much only when a twentieth of it is new, or something out of the ordinary.
    """

    def __init__(self, store: Store) -> None:
        """Read and write observations of this store."""
        self._store = store
        self._seen: LRU[tuple[str, str], _RecentObservations] = LRU(max_entries=MAX_MODELS)
        self._learned: LRU[tuple[ModelInfo, str], _CachedCalibration] = LRU(max_entries=MAX_MODELS)

    async def learned(self, model: ModelInfo, route: str, *, now: float) -> CalibratedModel:
        """Return what is known of a model on a route; without one, at its maker's."""
        named = route or get_default_route(model)
        observations = await self._observed(canonical_model_id(model), named, now)
        known = self._learned.get((model, named))
        if known is None or _needs_update(observations, known):
            lesson = (
                await asyncio.to_thread(_calibrate, model, observations, named)
                if observations
                else CalibratedModel(model=model, window=None)
            )
            known = _CachedCalibration(lesson=lesson, seen=frozenset(each.id for each in observations))
            self._learned[model, named] = known
        return known.lesson

    async def observe(self, observation: UsageReport, *, now: float) -> None:
        """Keep an observation, and learn from it at once."""
        await self._store.save_usage(observation)
        known = await self._observed(observation.model, observation.route, now)
        others = (each for each in known if each.id != observation.id)
        read = self._seen[observation.model, observation.route].at  # what others observe is read no later for it
        self._see(observation.model, observation.route, (observation, *others), read)

    async def _observed(self, model: str, route: str, now: float) -> Sequence[UsageReport]:
        seen = self._seen.get((model, route))
        if seen is None or not 0 <= now - seen.at < REFRESH_SECONDS:
            found = await self._store.usage_reports(model, route, limit=MAX_REPORTS)
            refused = await self._store.usage_reports(model, route, unusual=True, limit=MAX_REPORTS)
            older = (each for each in refused if len(found) == MAX_REPORTS and each.at < found[-1].at)
            seen = self._see(model, route, (*found, *older), now)
        return seen.observations

    def _see(self, model: str, route: str, observations: tuple[UsageReport, ...], now: float) -> _RecentObservations:
        recent, before = observations[:MAX_REPORTS], observations[MAX_REPORTS:]
        refused = (each for each in before if each.kind != "usage")  # a window that a server told stays known
        seen = _RecentObservations(observations=(*recent, *refused), at=now)
        self._seen[model, route] = seen
        return seen


def _calibrate(model: ModelInfo, observations: Sequence[UsageReport], route: str) -> CalibratedModel:
    learned = learn_calibration(model, observations, route=route)
    notices = (Notice(kind="calibration", text=learned.note),) if learned.note else ()
    return CalibratedModel(model=learned.model, window=learned_window(observations), notices=notices)


def _needs_update(observations: Sequence[UsageReport], known: _CachedCalibration) -> bool:
    """Say whether so much was observed since then that it may teach something else."""
    new = [each for each in observations if each.id not in known.seen]
    gone = len(known.seen) - (len(observations) - len(new))
    unusual = any(each.kind != "usage" for each in new)
    enough = 0.0 if len(known.seen) < FEW_OBSERVATIONS else len(known.seen) * NEW_SHARE
    return unusual or max(len(new), gone) > enough


def get_default_route(model: ModelInfo) -> str:
    """Return the route of a model whose server nobody named."""
    return model.provider or model.id
