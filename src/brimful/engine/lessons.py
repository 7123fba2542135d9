"""What was learned of a model on a route: how to count for it, and how large its window really is."""

from collections.abc import Sequence
from typing import Final

import msgspec

from brimful.core.model import ModelInfo
from brimful.counting import WINDOW, learn_from, learned_window, observed_id
from brimful.observation import Observation
from brimful.protocols import Store

LOOKED_AT: Final = WINDOW  # observations of a model on a route: so many are learned from
FRESH: Final = 60.0  # seconds for which what other processes observed may go unseen


class Lesson(msgspec.Struct, frozen=True, kw_only=True):
    """A model as observations of it say: with a better calibration; `window` where they know of a smaller one.

    `notes` are what a context should say of it.
    """

    model: ModelInfo
    window: int | None
    notes: tuple[str, ...] = ()


class _Seen(msgspec.Struct, frozen=True, kw_only=True):
    observations: tuple[Observation, ...]
    at: float


class Lessons:
    """Learns from the observations of a tenant, and keeps at hand what was learned."""

    def __init__(self, store: Store) -> None:
        """Read and write observations of this store."""
        self._store = store
        self._seen: dict[tuple[str, str], _Seen] = {}

    async def learned(self, model: ModelInfo, route: str, *, now: float) -> Lesson:
        """Return what is known of a model on a route; without one, at its maker's."""
        named = route or route_of(model)
        observations = await self._observed(observed_id(model), named, now)
        learned = learn_from(model, observations, route=named)
        notes = (learned.note,) if learned.note else ()
        return Lesson(model=learned.model, window=learned_window(observations), notes=notes)

    async def observe(self, observation: Observation, *, now: float) -> None:
        """Keep an observation, and learn from it at once."""
        await self._store.observe(observation)
        known = await self._observed(observation.model, observation.route, now)
        others = (each for each in known if each.id != observation.id)
        read = self._seen[observation.model, observation.route].at  # what others observe is read no later for it
        self._see(observation.model, observation.route, (observation, *others), read)

    async def _observed(self, model: str, route: str, now: float) -> Sequence[Observation]:
        seen = self._seen.get((model, route))
        if seen is None or not 0 <= now - seen.at < FRESH:
            found = await self._store.observations(model, route, limit=LOOKED_AT)
            refused = await self._store.observations(model, route, unusual=True, limit=LOOKED_AT)
            older = (each for each in refused if len(found) == LOOKED_AT and each.at < found[-1].at)
            seen = self._see(model, route, (*found, *older), now)
        return seen.observations

    def _see(self, model: str, route: str, observations: tuple[Observation, ...], now: float) -> _Seen:
        recent, before = observations[:LOOKED_AT], observations[LOOKED_AT:]
        refused = (each for each in before if each.kind != "usage")  # a window that a server told stays known
        seen = self._seen[model, route] = _Seen(observations=(*recent, *refused), at=now)
        return seen


def route_of(model: ModelInfo) -> str:
    """Return the route of a model whose server nobody named."""
    return model.provider or model.id
