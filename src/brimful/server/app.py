"""The ASGI application: builds all services from the configuration and routes requests to them."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from brimful.engine.retention import Retention
from brimful.errors import StoreError
from brimful.models import default_registry, load_registry
from brimful.policies import load_policy
from brimful.protocols import Store
from brimful.server.access import Authenticator, KeyAccess, OpenAccess, RateLimiter, reject_web_origin
from brimful.server.background import BackgroundTasks
from brimful.server.config import Config, ModeName
from brimful.server.endpoint import JSON, Endpoint, Gateway, Handler, error_response
from brimful.server.errors import ApiError, ErrorFormat
from brimful.server.inspector.catalogue import DEFAULT_MODEL, ContentCounter
from brimful.server.inspector.operation import EVENT_STREAM
from brimful.server.inspector.operations import OPERATIONS, Inspector
from brimful.server.openapi import openapi_document
from brimful.server.page import Page
from brimful.server.proxy.chat import ChatEndpoints
from brimful.server.proxy.exchange import Mode, Relay
from brimful.server.proxy.fit_mode import FitMode
from brimful.server.proxy.models import ModelResolver
from brimful.server.proxy.passthrough import Passthrough
from brimful.server.proxy.remember_mode import RememberMode
from brimful.server.proxy.request import Client
from brimful.server.proxy.upstreams import Upstreams
from brimful.server.telemetry import Telemetry
from brimful.server.tenants import PeriodicJanitor, Tenants
from brimful.stores import connect
from brimful.stores.urls import parse_url
from brimful.telemetry.prometheus import METRICS_TYPE

MAX_EVENT_STREAMS: Final = 1_000
"""Streams of events of one key at a time."""


class Shutdown:
    """Whether the server is to stop: `begun` when it takes no more requests, `now` when answers end, done or not."""

    def __init__(self) -> None:
        """Begin without an end."""
        self.begun = asyncio.Event()
        self.now = asyncio.Event()


class Services:
    """What serves requests. Nothing is opened before `open`."""

    def __init__(
        self, config: Config, *, file: str, environ: Mapping[str, str] | None, clock: Callable[[], float]
    ) -> None:
        """Put all of it together; what the configuration names and cannot be had is refused here."""
        registry = load_registry(Path(file).parent / config.models) if config.models else default_registry()
        self._config = config
        self._upstreams = Upstreams(config, file=file, environ=environ)
        self._database = connect(config.store)
        self._file = parse_url(config.store).path
        self.watch = Telemetry(config.telemetry, registry, clock=clock)
        self._tenants = Tenants(self._database, config.remember, hooks=self.watch.hooks, clock=clock)
        self._knowledge = ModelResolver(registry, clock)
        self._tasks = BackgroundTasks()
        self._retention = Retention(self._stores, config.keep, clock=clock) if config.keep else None
        self._janitor = PeriodicJanitor(self._tenants, self._database.tenants, config.tidy) if config.tidy else None
        self.stopping = Shutdown()
        self.keyed = config.keys
        self.page = Page()
        self.door = self._door(config, clock)
        self.listening = msgspec.structs.replace(
            self.door, gate=RateLimiter(concurrency=MAX_EVENT_STREAMS, requests_per_minute=6_000)
        )
        self.answers = ChatEndpoints(
            self._modes(config, clock),
            config.mode,
            upstreams=self._upstreams,
            relay=Relay(tasks=self._tasks, stopping=self.stopping.now, watch=self.watch, clock=clock),
            tasks=self._tasks,
            clock=clock,
        )
        self.passing = Passthrough(self._upstreams, registry)
        self.inspector = Inspector(
            self._tenants,
            registry,
            tokens=ContentCounter(registry, next((each.like for each in config.upstreams if each.like), DEFAULT_MODEL)),
            access=self.door.access,
            tasks=self._tasks,
            stopping=self.stopping.begun,
            clock=clock,
        )

    def _door(self, config: Config, clock: Callable[[], float]) -> Gateway:
        limits = config.limits
        access: Authenticator = KeyAccess(self._database, clock) if config.keys else OpenAccess(config.tenant)
        return Gateway(
            access=access,
            watch=self.watch,
            gate=RateLimiter(concurrency=limits.concurrency, requests_per_minute=limits.requests_per_minute),
            stopping=self.stopping.now,
            body_bytes=limits.body_bytes,
            clock=clock,
        )

    def _modes(self, config: Config, clock: Callable[[], float]) -> dict[ModeName, Mode]:
        tenants, knowledge, policy = self._tenants, self._knowledge, load_policy(config.fit.policy)
        return {
            "fit": FitMode(
                config,
                policy,
                tenants=tenants,
                knowledge=knowledge,
                tasks=self._tasks,
                watch=self.watch,
                clock=clock,
            ),
            "remember": RememberMode(
                load_policy(config.remember.policy, environ=os.environ),
                tenants=tenants,
                knowledge=knowledge,
                watch=self.watch,
                clock=clock,
            ),
        }

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None, None]:
        """Open the store; at the end, wait for all that is to be kept, and let go of everything."""
        async with self._database:
            await asyncio.to_thread(self._knowledge.warm_up, self._config)
            chores = [chore for chore in (self._retention, self._janitor) if chore is not None]
            for chore in chores:
                chore.start()
            yield
            for chore in chores:
                await chore.stop()
            await self._tasks.drain()
            await self.inspector.close()
            await self._tenants.close()
            await self._upstreams.close()

    async def _stores(self) -> list[Store]:
        return [self._tenants.store(name) for name in await self._database.tenants()]

    async def ready(self) -> bool:
        """Say whether requests can be served: not while it stops, nor without its store."""
        if self.stopping.begun.is_set():
            return False
        await self._database.tenants()
        if self._file and not await asyncio.to_thread(_is_writable, Path(self._file)):
            raise StoreError(self._file, "is gone, or cannot be written")
        return True


def _is_writable(file: Path) -> bool:
    """Say whether a database is still there, and may be written: while it is open, it can be read even so."""
    return os.access(file, os.R_OK | os.W_OK) and os.access(file.parent, os.W_OK)  # its log is written beside it


_NOT_FOUND: Final = 404
_ANTHROPIC_PATH: Final = "/v1/messages"  # and what is below it is Anthropic's
_SUGGESTIONS: Final = {
    "/v1/responses": "of OpenAI's APIs, chat completions are served: ask /v1/chat/completions",
    "/v1/completions": "of OpenAI's APIs, chat completions are served: ask /v1/chat/completions",
}


def create_app(
    config: Config,
    *,
    file: str = "brimful.toml",
    environ: Mapping[str, str] | None = None,
    clock: Callable[[], float] = time.time,
) -> Starlette:
    """Return the server. It opens its store when it is started, and closes all when it ends.

    `file` is the name of the configuration in errors, and what relative paths in it are relative to.
    """
    parts = Services(config, file=file, environ=environ, clock=clock)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None, None]:
        del app
        async with parts.open():
            yield

    app = Starlette(
        routes=_routes(parts),
        exception_handlers={HTTPException: _not_found_handler(parts.page), Exception: _server_error},
        lifespan=lifespan,
    )
    app.state.stopping = parts.stopping
    return app


def _routes(parts: Services) -> list[Route]:
    answers, passing, door = parts.answers, parts.passing, parts.door

    def post(path: str, serve: Handler) -> Route:
        served = serve if parts.keyed else _rejecting_web_pages(serve)
        return Route(path, Endpoint(path, served, door, tongue=_error_format(path)), methods=["POST"])

    def get(path: str, serve: Handler) -> Route:
        return Route(path, Endpoint(path, serve, door), methods=["GET"])

    return [
        post("/v1/chat/completions", answers.endpoint("openai")),
        post("/v1/messages", answers.endpoint("anthropic")),
        post("/v1/messages/count_tokens", passing.count_tokens),
        post("/v1/embeddings", passing.embeddings),
        get("/v1/models", passing.models),
        get("/v1/models/{model:path}", passing.model),
        *_inspector_routes(parts),
        *_metrics_routes(parts),
        Route("/openapi.json", _openapi),
        Route("/health", _health),
        Route("/ready", _ready(parts)),
        *parts.page.routes(),
    ]


def _rejecting_web_pages(serve: Handler) -> Handler:
    async def served(request: Request, caller: Client, raw: bytes) -> Response:
        reject_web_origin(request.headers)
        return await serve(request, caller, raw)

    return served


def _inspector_routes(parts: Services) -> Iterator[Route]:
    """Yield the routes of the inspector. Who listens to events does so for hours, and is counted apart."""
    for operation, serves in OPERATIONS:
        door = parts.listening if operation.media == EVENT_STREAM else parts.door
        yield operation.route(serves(parts.inspector), door, keyed=parts.keyed)


def _metrics_routes(parts: Services) -> Iterator[Route]:
    """Yield what Prometheus reads, where it is asked for."""
    metrics = parts.watch.metrics
    if metrics is None:
        return

    async def expose(request: Request, caller: Client, raw: bytes) -> Response:
        del request, caller, raw
        return Response(metrics.exposed(), media_type=METRICS_TYPE)

    yield Route("/metrics", Endpoint("/metrics", expose, parts.door, scope="metrics"), methods=["GET"])


async def _openapi(request: Request) -> Response:
    del request
    return Response(openapi_document(), media_type=JSON)


async def _health(request: Request) -> Response:
    del request
    return _status_response("ok")


def _ready(parts: Services) -> Callable[[Request], object]:
    async def ready(request: Request) -> Response:
        del request
        try:
            is_ready = await parts.ready()
        except StoreError:
            return error_response(ApiError("stopping", "the server's store cannot be used", code="not_ready"), "openai")
        return (
            _status_response("ready")
            if is_ready
            else error_response(ApiError("stopping", "the server is stopping"), "openai")
        )

    return ready


def _status_response(status: str) -> Response:
    return Response(msgspec.json.encode({"status": status}), media_type=JSON)


def _not_found_handler(page: Page) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def elsewhere(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        found = page.index(request) if status == _NOT_FOUND else None
        return found or _not_found(request, status)

    return elsewhere


def _not_found(request: Request, status: int) -> Response:
    path = request.url.path
    instead = _SUGGESTIONS.get(path, "see /openapi.json for what there is")
    said = f"no {request.method} {path[:200]} here; {instead}"
    return error_response(ApiError("unknown", said, status=status), _error_format(request.url.path))


async def _server_error(request: Request, error: Exception) -> Response:
    del error
    return error_response(ApiError("internal", "the request could not be served"), _error_format(request.url.path))


def _error_format(path: str) -> ErrorFormat:
    return "anthropic" if path.startswith(_ANTHROPIC_PATH) else "openai"
