"""Resolve a model on an upstream: its registry entry, the limits the upstream reports, and what was calibrated."""

from collections.abc import Callable

import msgspec

from brimful.core.model import UNKNOWN_PRIOR, ModelInfo
from brimful.core.notice import Notice
from brimful.counting import count_raw, vocabulary_for
from brimful.engine.calibration import CalibratedModel, Calibrator
from brimful.errors import StoreError
from brimful.models.registry import Registry
from brimful.providers.server_models import ServerModel, ServerModels
from brimful.server.background import log_failure
from brimful.server.config import Config
from brimful.server.proxy.upstreams import Upstream


class ResolvedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model with its calibrated counting, its window on an upstream, and notes for the context."""

    model: ModelInfo
    window: int
    notices: tuple[Notice, ...] = ()


class ModelResolver:
    """Resolves models on upstreams."""

    def __init__(self, registry: Registry, clock: Callable[[], float]) -> None:
        self._registry = registry
        self._clock = clock
        self._server_models = ServerModels(clock)

    def warm_up(self, config: Config) -> None:
        """Load tokenizers, so that no request has to wait for that."""
        named = [self._registry.resolve(upstream.like) for upstream in config.upstreams if upstream.like]
        vocabularies = {UNKNOWN_PRIOR.tokenizer, *(vocabulary_for(info) for info in named)}
        for vocabulary in vocabularies - {None}:
            count_raw(str(vocabulary), ["ready"])

    async def of(self, upstream: Upstream, name: str, calibrator: Calibrator) -> ResolvedModel:
        """Return what is known about the model of a request."""
        is_configured = upstream.config.window is not None
        server_model = (
            None if is_configured else await self._server_models.find(upstream.connection, upstream.wire, name)
        )
        info = self._model_info(upstream, name, server_model)
        calibrated = await self._calibration(upstream, info, calibrator)
        reported = upstream.config.window or (server_model.window if server_model else None)
        window = reported if reported is not None and not info.known else min(reported or info.window, info.window)
        smallest = min(window, calibrated.window or window)
        return ResolvedModel(model=calibrated.model, window=smallest, notices=calibrated.notices)

    async def _calibration(self, upstream: Upstream, info: ModelInfo, calibrator: Calibrator) -> CalibratedModel:
        """Return the calibration; if the store fails, none."""
        try:
            return await calibrator.calibrate(info, upstream.route, now=self._clock())
        except StoreError as error:
            log_failure("looking up the calibration", error)
            return CalibratedModel(model=info)

    def _model_info(self, upstream: Upstream, name: str, server_model: ServerModel | None) -> ModelInfo:
        """Return the registry entry: as configured, as the upstream really calls its only model, or by name."""
        real = self._registry.resolve(server_model.id) if server_model and server_model.only else None
        info = self._registry.resolve(upstream.config.like or name)
        if real is not None and real.known and upstream.config.like is None:
            info = real
        runtime = "llama.cpp" if server_model and server_model.llama else info.runtime
        named = name or (server_model.id if server_model else upstream.config.name)
        return msgspec.structs.replace(info, id=named, wire=upstream.wire, runtime=runtime)
