"""Models offered by a self-hosted server: their names and context windows."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import msgspec

from brimful.core.model import Wire
from brimful.core.validation import decode_json, is_whole_number
from brimful.errors import ProviderError
from brimful.providers.connection import Connection
from brimful.providers.directory import find_server_by_url

LIST_TIMEOUT: Final = 3.0  # seconds to list the models
CACHE_SECONDS: Final = 300.0  # self-hosted servers are restarted with other windows
LIST_PATHS: Final[dict[Wire, str]] = {"openai": "/models", "text": "/models", "anthropic": "/v1/models"}
_WINDOW_FIELDS: Final = (
    "max_model_len",
    "context_length",
    "loaded_context_length",
    "context_window",
    "max_context_length",
)
"""Fields with the window, as sent by vLLM, OpenRouter, LM Studio, Groq and others."""


class ServerModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model of a server. `llama`: llama.cpp runs it. `only`: it answers to any model name."""

    id: str
    window: int | None = None
    llama: bool = False
    only: bool = False


class _CachedModels(msgspec.Struct, frozen=True, kw_only=True):
    models: tuple[ServerModel, ...]
    at: float


class ServerModels:
    """Asks self-hosted servers for their models, and caches the answers."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._cache: dict[str, _CachedModels] = {}
        self._lock = asyncio.Lock()

    async def find(self, connection: Connection, wire: Wire, model: str) -> ServerModel | None:
        """Return what a server says about a model; None if it says nothing, or is a known public server."""
        if wire not in LIST_PATHS or find_server_by_url(connection.url) is not None:
            return None
        cached = self._cache.get(connection.route)
        if cached is None or not 0 <= self._clock() - cached.at < CACHE_SECONDS:
            async with self._lock:
                models = await _fetch_models(connection, LIST_PATHS[wire])
                cached = self._cache[connection.route] = _CachedModels(models=models, at=self._clock())
        named = (each for each in cached.models if each.id == model)
        return next(named, None) or next((each for each in cached.models if each.only), None)


def parse_server_models(body: bytes) -> tuple[ServerModel, ...]:
    """Parse a list of models, ignoring everything else.

    >>> parse_server_models(b'{"data": [{"id": "qwen", "max_model_len": 32768}]}')
    (ServerModel(id='qwen', window=32768, llama=False, only=False),)
    """
    try:
        data = decode_json(body)
    except ValueError:
        return ()
    rows = data.get("data") if isinstance(data, dict) else None
    models = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return tuple(_parse_model(row, only=len(models) == 1) for row in models if isinstance(row.get("id"), str))


def _parse_model(row: dict[str, Any], *, only: bool) -> ServerModel:
    meta = row.get("meta")
    values = [row.get(field) for field in _WINDOW_FIELDS] + [meta.get("n_ctx") if isinstance(meta, dict) else None]
    windows = [window for window in values if is_whole_number(window) and isinstance(window, int)]
    llama = row.get("owned_by") == "llamacpp"
    return ServerModel(id=row["id"], window=min(windows, default=None), llama=llama, only=only and llama)


async def _fetch_models(connection: Connection, path: str) -> tuple[ServerModel, ...]:
    try:
        async with asyncio.timeout(LIST_TIMEOUT):
            answer = await connection.get(path)
    except (ProviderError, TimeoutError):
        return ()
    return parse_server_models(answer.body)
