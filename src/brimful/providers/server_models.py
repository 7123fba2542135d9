"""Models offered by a server: their names and context windows."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import msgspec

from brimful.core.validation import decode_json, is_whole_number
from brimful.errors import ProviderError, ProviderUnavailable
from brimful.providers.connection import Connection
from brimful.providers.directory import find_server_by_url
from brimful.wires import find_wire

LIST_TIMEOUT: Final = 10.0  # seconds to list the models for the first time; a busy server may need some
REFRESH_TIMEOUT: Final = 3.0  # seconds to list them again
CACHE_SECONDS: Final = 300.0  # self-hosted servers are restarted with other windows
LOADED_SECONDS: Final = 10.0  # Ollama loads a model when it is first used, and only then has a window
RETRY_SECONDS: Final = 10.0  # until a server that did not answer is asked again, and twice as long each time
_WINDOW_FIELDS: Final = (
    "max_model_len",
    "context_length",
    "loaded_context_length",
    "context_window",
    "max_context_length",
)
"""Fields with the window, as sent by vLLM, OpenRouter, LM Studio, Groq and others."""


class ServerModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model of a server. `llama`: llama.cpp runs it; `ollama`: Ollama does. `only`: it answers to any model name."""

    id: str
    window: int | None = None
    llama: bool = False
    ollama: bool = False
    only: bool = False


class _CachedModels(msgspec.Struct, frozen=True, kw_only=True):
    models: tuple[ServerModel, ...] = ()
    until: float = 0.0
    failures: int = 0


class ServerModels:
    """Asks servers for their models, and caches the answers."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._cache: dict[str, _CachedModels] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def find(self, connection: Connection, wire: str, model: str, *, known: bool = True) -> ServerModel | None:
        """Return what a server says about a model; None if it says nothing.

        A public server is asked only about models that are not `known`.
        """
        server = find_server_by_url(connection.url)
        path = find_wire(wire).models_path
        if not path or (_is_public(connection) and known):
            return None
        models = await self._load(connection, path)
        name = model if server is None else server.local_name(model)
        named = (each for each in models if each.id in (name, f"{name}:latest"))
        return next(named, None) or next((each for each in models if each.only), None)

    async def list_names(self, connection: Connection, wire: str) -> list[str]:
        """Return the names of a server's models, as far as it says."""
        path = find_wire(wire).models_path
        return [model.id for model in await self._load(connection, path)] if path else []

    async def _load(self, connection: Connection, path: str) -> tuple[ServerModel, ...]:
        """Return the models of a server. While it does not answer, what it said before is used."""
        async with self._locks.setdefault(connection.route, asyncio.Lock()):
            cached = self._cache.get(connection.route, _CachedModels())
            if self._clock() >= cached.until:
                models = await _fetch_models(connection, path, REFRESH_TIMEOUT if cached.until else LIST_TIMEOUT)
                now = self._clock()
                if models is None:
                    wait = min(CACHE_SECONDS, RETRY_SECONDS * 2**cached.failures)
                    cached = _CachedModels(models=cached.models, until=now + wait, failures=cached.failures + 1)
                else:
                    seconds = LOADED_SECONDS if any(model.ollama for model in models) else CACHE_SECONDS
                    cached = _CachedModels(models=models, until=now + seconds)
                self._cache[connection.route] = cached
            return cached.models


def parse_server_models(body: bytes) -> tuple[ServerModel, ...]:
    """Parse a list of models, ignoring everything else.

    >>> parse_server_models(b'{"data": [{"id": "qwen", "max_model_len": 32768}]}')
    (ServerModel(id='qwen', window=32768, llama=False, ollama=False, only=False),)
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
    owner = row.get("owned_by")
    llama = owner == "llamacpp"
    window = min(windows, default=None)
    return ServerModel(id=row["id"], window=window, llama=llama, ollama=owner == "library", only=only and llama)


def _is_public(connection: Connection) -> bool:
    """Whether a server is known to run for everybody, unlike Ollama, which needs no key."""
    server = find_server_by_url(connection.url)
    return server is not None and bool(server.keys)


async def _fetch_models(connection: Connection, path: str, seconds: float) -> tuple[ServerModel, ...] | None:
    """Return the models of a server; None if it does not answer now."""
    try:
        async with asyncio.timeout(seconds):
            models = parse_server_models((await connection.get(path)).body)
            if any(model.window for model in models) or _is_public(connection):
                return models
            return await _add_windows(connection, models)
    except (ProviderUnavailable, TimeoutError):
        return None
    except ProviderError:
        return ()


async def _add_windows(connection: Connection, models: tuple[ServerModel, ...]) -> tuple[ServerModel, ...]:
    """Ask a server that lists models without windows elsewhere.

    llama.cpp has the window under `/props`, LM Studio in its own API, and Ollama for the models that are loaded.
    """
    try:
        if any(model.llama for model in models):
            window = parse_props((await connection.get("/props", versioned=False)).body)
            return tuple(msgspec.structs.replace(model, window=window) for model in models)
        if any(model.ollama for model in models):
            windows = parse_loaded((await connection.get("/api/ps", versioned=False)).body)
        else:
            rows = parse_server_models((await connection.get("/api/v0/models", versioned=False)).body)
            windows = {row.id: row.window for row in rows}
    except ProviderUnavailable:
        raise
    except ProviderError:
        return models
    return tuple(msgspec.structs.replace(model, window=windows.get(model.id)) for model in models)


def parse_loaded(body: bytes) -> dict[str, int | None]:
    """Return the windows of the models that Ollama has loaded.

    >>> parse_loaded(b'{"models": [{"model": "qwen2.5:7b", "context_length": 4096}]}')
    {'qwen2.5:7b': 4096}
    """
    try:
        data = decode_json(body)
    except ValueError:
        return {}
    rows = data.get("models") if isinstance(data, dict) else None
    named = [row | {"id": row.get("model")} for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return {row["id"]: _parse_model(row, only=False).window for row in named if isinstance(row["id"], str)}


def parse_props(body: bytes) -> int | None:
    """Return the window of each slot of llama.cpp's server.

    >>> parse_props(b'{"default_generation_settings": {"n_ctx": 2048}}')
    2048
    """
    try:
        data = decode_json(body)
    except ValueError:
        return None
    match data:
        case {"default_generation_settings": {"n_ctx": window}} if is_whole_number(window):
            return int(window)
        case _:
            return None
