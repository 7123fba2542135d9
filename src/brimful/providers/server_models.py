"""Models offered by a self-hosted server: their names and context windows."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import msgspec

from brimful.core.decode import decode_json
from brimful.core.model import Wire
from brimful.core.validation import is_whole_number
from brimful.errors import ProviderError
from brimful.providers.connection import Connection
from brimful.providers.directory import find_server_by_url

LIST_TIMEOUT: Final = 3.0  # seconds for a list of models
CACHE_SECONDS: Final = 300.0  # seconds for which a list holds; servers of one's own are restarted with other windows
LIST_PATHS: Final[dict[Wire, str]] = {"openai": "/models", "text": "/models", "anthropic": "/v1/models"}
_WINDOW_FIELDS: Final = (
    "max_model_len",
    "context_length",
    "loaded_context_length",
    "context_window",
    "max_context_length",
)
"""Where servers tell a window: vLLM, OpenRouter, LM Studio, Groq and others."""


class ServerModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model on offer. `llama` says that llama.cpp runs it, and `only` that it answers to any name a request bears."""

    id: str
    window: int | None = None
    llama: bool = False
    only: bool = False


class _CachedModels(msgspec.Struct, frozen=True, kw_only=True):
    offers: tuple[ServerModel, ...]
    at: float


class ServerModels:
    """Asks servers of one's own for their models, and keeps the answers for a while."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Take what tells the time."""
        self._clock = clock
        self._listed: dict[str, _CachedModels] = {}
        self._asking = asyncio.Lock()

    async def of(self, connection: Connection, wire: Wire, model: str) -> ServerModel | None:
        """Return what a server says of a model; None where it says nothing, or is too well known to be asked."""
        if wire not in LIST_PATHS or find_server_by_url(connection.url) is not None:
            return None
        listed = self._listed.get(connection.route)
        if listed is None or not 0 <= self._clock() - listed.at < CACHE_SECONDS:
            async with self._asking:
                offers = await _fetch_models(connection, LIST_PATHS[wire])
                listed = self._listed[connection.route] = _CachedModels(offers=offers, at=self._clock())
        named = (offer for offer in listed.offers if offer.id == model)
        return next(named, None) or next((offer for offer in listed.offers if offer.only), None)


def parse_server_models(body: bytes) -> tuple[ServerModel, ...]:
    """Read a list of models, whatever else stands in it.

    >>> parse_server_models(b'{"data": [{"id": "qwen", "max_model_len": 32768}]}')
    (Offer(id='qwen', window=32768, llama=False, only=False),)
    """
    try:
        said = decode_json(body)
    except ValueError:
        return ()
    rows = said.get("data") if isinstance(said, dict) else None
    found = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return tuple(_parse_model(row, only=len(found) == 1) for row in found if isinstance(row.get("id"), str))


def _parse_model(row: dict[str, Any], *, only: bool) -> ServerModel:
    meta = row.get("meta")
    told = [row.get(field) for field in _WINDOW_FIELDS] + [meta.get("n_ctx") if isinstance(meta, dict) else None]
    windows = [window for window in told if is_whole_number(window) and isinstance(window, int)]
    llama = row.get("owned_by") == "llamacpp"
    return ServerModel(id=row["id"], window=min(windows, default=None), llama=llama, only=only and llama)


async def _fetch_models(connection: Connection, path: str) -> tuple[ServerModel, ...]:
    try:
        async with asyncio.timeout(LIST_TIMEOUT):
            answer = await connection.get(path)
    except (ProviderError, TimeoutError):
        return ()
    return parse_server_models(answer.body)
