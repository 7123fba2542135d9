"""Resolve a model on an upstream: its registry entry, the limits that the upstream reports, and its calibration."""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from brimful.core.budget import allocate
from brimful.core.model import UNKNOWN_PRIOR, ModelInfo
from brimful.core.notice import Notice
from brimful.core.policy import Policy
from brimful.counting import count_raw, counter_for, vocabulary_for
from brimful.counting.calibration import round_up
from brimful.engine.calibration import CalibratedModel, Calibrator
from brimful.errors import StoreError
from brimful.models.registry import Registry
from brimful.providers.server_models import ServerModel, ServerModels
from brimful.server.background import log_failure
from brimful.server.config import Config
from brimful.server.proxy.request import ProxyRequest
from brimful.server.proxy.upstreams import Upstream
from brimful.wires.incoming import read_incoming

_GENEROSITY: Final = 1.1  # parts that are counted one by one come to more than the whole
_STEP: Final = 1.25  # by which an assumed window grows until the request fits
_MAX_STEPS: Final = 10  # a policy with a limit in tokens may never take it all
_REQUEST_OVERHEAD: Final = 2_048  # tokens around a request at most


class ResolvedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model with its calibrated counting, its window on an upstream, and notices for the context.

    `assumed`: nobody told the window.
    """

    model: ModelInfo
    window: int
    assumed: bool = False
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

    async def of(self, request: ProxyRequest, calibrator: Calibrator) -> ResolvedModel:
        """Return what is known about the model of a request."""
        resolved = await self.find(request.upstream, request.model, calibrator, betas=request.betas)
        resolved = msgspec.structs.replace(resolved, notices=(*resolved.notices, *request.notices))
        window = request.wire.read_window(request.body)
        if window is None or (window >= resolved.window and not resolved.assumed):
            return resolved
        return msgspec.structs.replace(resolved, window=window, assumed=False)

    async def list_names(self, upstream: Upstream) -> list[str]:
        """Return the names of the models that an upstream offers, as far as it says."""
        return await self._server_models.list_names(upstream.connection, upstream.wire.provider)

    async def find(
        self, upstream: Upstream, name: str, calibrator: Calibrator, *, betas: Sequence[str] = ()
    ) -> ResolvedModel:
        """Return what is known about a model on an upstream."""
        server_model = None
        if upstream.config.window is None:
            known = upstream.resolve(self._registry, name).known
            server_model = await self._server_models.find(
                upstream.connection, upstream.wire.provider, name, known=known
            )
        info = self._model_info(upstream, name, server_model).with_betas(betas)
        calibrated = await self._calibration(upstream, info, calibrator)
        reported = upstream.config.window or (server_model.window if server_model else None)
        limits = [limit for limit in (reported, calibrated.window) if limit is not None]
        return ResolvedModel(
            model=calibrated.model,
            window=min(limits) if limits and not info.known else min([info.window, *limits]),
            assumed=info.assumed_window and not limits,
            notices=calibrated.notices,
        )

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
        info = upstream.resolve(self._registry, name)
        if real is not None and real.known and upstream.config.like is None:
            info = real
        runtime = "llama.cpp" if server_model and server_model.llama else info.runtime
        named = name or (server_model.id if server_model else upstream.config.name)
        return msgspec.structs.replace(info, id=named, wire=upstream.wire.provider, runtime=runtime)


def window_for_request(model: ResolvedModel, request: ProxyRequest, policy: Policy) -> ResolvedModel:
    """Return a model whose window is told; if nobody tells it, with one that is large enough for the request."""
    if not model.assumed:
        return model
    incoming = read_incoming(request.body, request.wire.name)
    tokens = counter_for(model.model, policy.counting).prompt(incoming.prompt).upper
    needed = round_up(tokens * _GENEROSITY) + _REQUEST_OVERHEAD
    window = max(model.window, needed + (incoming.completion or 0))
    for _ in range(_MAX_STEPS):  # the policy may give history only a part of the window
        if allocate(policy, model.model, window=window, completion=incoming.completion).target_tokens >= needed:
            break
        window = round_up(window * _STEP)
    name = model.model.id
    text = (
        f"the window of {name!r} is not known, so the client's messages are sent as they are; "
        "set it as `window` of the upstream"
    )
    notice = Notice(kind="unknown-window", text=text, facts={"model": name})
    return ResolvedModel(model=model.model, window=window, notices=(*model.notices, notice))
