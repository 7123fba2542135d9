"""Resolve a model on an upstream: its registry entry, the limits the upstream reports, and what was calibrated."""

from collections.abc import Callable
from typing import Final

import msgspec

from brimful.core.model import UNKNOWN_PRIOR, ModelInfo
from brimful.core.notice import Notice
from brimful.counting import count_raw, observed_model_id, vocabulary_for
from brimful.engine.calibration import CalibratedModel, Calibrator
from brimful.errors import StoreError
from brimful.models.registry import Registry
from brimful.providers.server_models import ServerModel, ServerModels
from brimful.server.background import log_failure
from brimful.server.config import Config
from brimful.server.proxy.upstreams import Upstream

CAP_SECONDS: Final = 3_600.0  # seconds for which a window holds that a refusal made smaller


class ResolvedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model as it is counted, the window that it has on an upstream, and what a context should say of it."""

    model: ModelInfo
    window: int
    notices: tuple[Notice, ...] = ()


class _WindowCap(msgspec.Struct, frozen=True):
    window: int
    at: float


class ModelResolver:
    """Looks up, asks and learns."""

    def __init__(self, registry: Registry, clock: Callable[[], float]) -> None:
        """Take the rows of all models."""
        self._registry = registry
        self._clock = clock
        self._offers = ServerModels(clock)
        self._caps: dict[tuple[str, str], _WindowCap] = {}

    def warm_up(self, config: Config) -> None:
        """Load what counts: it takes a moment in which nothing else is done, and no request is to wait for it."""
        named = [self._registry.resolve(upstream.like) for upstream in config.upstreams if upstream.like]
        vocabularies = {UNKNOWN_PRIOR.tokenizer, *(vocabulary_for(info) for info in named)}
        for vocabulary in vocabularies - {None}:
            count_raw(str(vocabulary), ["ready"])

    async def of(self, line: Upstream, name: str, lessons: Calibrator) -> ResolvedModel:
        """Return what is known of the model that a request names."""
        told_all = line.upstream.window is not None
        offer = None if told_all else await self._offers.of(line.connection, line.wire, name)
        info = self._row(line, name, offer)
        lesson = await self._lesson(line, info, lessons)
        told = line.upstream.window or (offer.window if offer else None)
        window = told if told is not None and not info.known else min(told or info.window, info.window)
        learned = (lesson.window, self._cap(line, info))
        smallest = min([window, *(limit for limit in learned if limit is not None)])
        return ResolvedModel(model=lesson.model, window=smallest, notices=lesson.notices)

    def cap(self, line: Upstream, model: ModelInfo, window: int) -> None:
        """Remember that requests for a model were refused until they were made for a window so small."""
        self._caps[line.route, observed_model_id(model)] = _WindowCap(window, self._clock())

    async def _lesson(self, line: Upstream, info: ModelInfo, lessons: Calibrator) -> CalibratedModel:
        """Return what was learned; where the store cannot tell, nothing was."""
        try:
            return await lessons.learned(info, line.route, now=self._clock())
        except StoreError as error:
            log_failure("looking up what was learned", error)
            return CalibratedModel(model=info, window=None)

    def _row(self, line: Upstream, name: str, offer: ServerModel | None) -> ModelInfo:
        """Return the row of a model: as configured, as it is really called where names go unheeded, or by its name."""
        real = self._registry.resolve(offer.id) if offer and offer.only else None
        info = self._registry.resolve(line.upstream.like or name)
        if real is not None and real.known and line.upstream.like is None:
            info = real
        runtime = "llama.cpp" if offer and offer.llama else info.runtime
        named = name or (offer.id if offer else line.upstream.name)
        return msgspec.structs.replace(info, id=named, wire=line.wire, runtime=runtime)

    def _cap(self, line: Upstream, model: ModelInfo) -> int | None:
        cap = self._caps.get((line.route, observed_model_id(model)))
        return cap.window if cap is not None and 0 <= self._clock() - cap.at < CAP_SECONDS else None
