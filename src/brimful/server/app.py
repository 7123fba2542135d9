"""The ASGI application: builds all services from the configuration and routes requests to them."""

import asyncio
import math
import os
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote_to_bytes

import msgspec
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from brimful.cache import MEBIBYTE, set_cache_limit
from brimful.core.policy import Policy
from brimful.embedding import embedder_for
from brimful.engine.events import Event
from brimful.engine.own_calls import check_prices, find_billed_model
from brimful.engine.worker import Worker, work_settings
from brimful.errors import InvalidConfig, InvalidValue, StoreError
from brimful.models import default_registry, load_registry
from brimful.models.registry import Registry
from brimful.policies import load_policy, policy_names
from brimful.protocols import Embedder
from brimful.server.access import (
    Authenticator,
    Client,
    KeyAccess,
    OpenAccess,
    OwnAllowance,
    RateLimiter,
    SharedAllowance,
)
from brimful.server.background import BackgroundTasks, Shutdown, log_failure
from brimful.server.config import Config, ModeName
from brimful.server.endpoint import DEPLOYMENT, JSON, Endpoint, Gateway, Handler, error_response
from brimful.server.errors import ApiError, method_not_allowed, unknown_path
from brimful.server.inspector.catalogue import DEFAULT_MODEL, ContentCounter
from brimful.server.inspector.operation import EVENT_STREAM
from brimful.server.inspector.operations import LOCAL_OPERATIONS, OPERATIONS, Inspector
from brimful.server.inspector.served_models import ServedModels
from brimful.server.inspector.sessions import Sessions
from brimful.server.limits import KnownLimits, Limiter
from brimful.server.limits import check_prices as check_limit_prices
from brimful.server.logs import REQUEST_HEADER, begin_request, log_request
from brimful.server.mcp import McpEndpoint
from brimful.server.openapi import ANSWER_HEADERS, openapi_document
from brimful.server.page import API_PATHS, Page
from brimful.server.proxy.chat import ChatEndpoints
from brimful.server.proxy.exchange import Mode, Relay
from brimful.server.proxy.fit_mode import FitMode, RecordWriter
from brimful.server.proxy.models import ModelResolver
from brimful.server.proxy.passthrough import FORWARDED_METHODS, Passthrough
from brimful.server.proxy.recall_rounds import RecallLimits
from brimful.server.proxy.remember_mode import RememberMode
from brimful.server.proxy.upstreams import Upstreams, UpstreamState
from brimful.server.reload import ReloadableApp
from brimful.server.telemetry import Telemetry
from brimful.server.tenants import Tenants
from brimful.server.work import WorkPool
from brimful.stores import Database, connect
from brimful.stores.urls import parse_url
from brimful.telemetry.prometheus import METRICS_TYPE, Prometheus
from brimful.wires.registry import default_wire, find_wire_by_path, served_wires

MAX_EVENT_STREAMS: Final = 1_000
"""Concurrent event streams per API key."""
# After these, there may be something to embed.
_WRITES: Final = ("posted", "edited", "remembered", "reviewed", "janitor_ran", "learned")
_NOT_READY: Final = "not_ready"
_NOT_FOUND: Final = 404
_UNKNOWN_PATH: Final = "unknown"  # in metrics
_COUNT_SECONDS: Final = 1.0  # that metrics wait for the store; Prometheus waits for 10 seconds by default
_METHOD_NOT_ALLOWED: Final = 405
_PROXY_PATHS: Final = b"/v1/"
_AZURE_PATH: Final = re.compile(rb"/openai/(?:v1/|deployments/([^/]+)/)?(.+)")


class Services:
    """Everything that serves requests with one configuration. Nothing is started before `start`."""

    def __init__(
        self,
        config: Config,
        *,
        file: str,
        environ: Mapping[str, str] | None,
        clock: Callable[[], float],
        database: Database,
        telemetry: Telemetry,
        known_limits: KnownLimits,
        reload: Callable[[], Awaitable[tuple[str, ...]]],
    ) -> None:
        registry = _load_registry(config, file)
        self._config = config
        self._clock = clock
        self._upstreams = Upstreams(config, file=file, environ=environ, clock=clock)
        self._database = database
        self._file = parse_url(config.store).path
        self.telemetry = telemetry
        embedder = embedder_for(config.remember.embedder)
        _check_prices(config, registry, embedder, file)
        self._tenants = Tenants(
            self._database,
            config.remember,
            embedder=embedder,
            policies=_load_policies(config, file),
            hooks=(*self.telemetry.hooks, self._wake_worker),
            clock=clock,
            record_share=1.0 if config.records == "required" else config.record_share,
            own_calls=config.own_calls,
            max_open=config.limits.max_engines,
            idle=config.limits.engine_idle,
        )
        self._worker = Worker(
            self._database,
            msgspec.structs.replace(
                work_settings(embedder=embedder, janitor_interval=config.janitor_interval, retention=config.retention),
                own_calls=config.own_calls,
            ),
            open_engine=self._tenants.engine,
            clock=clock,
            hooks=self.telemetry.hooks,
        )
        self._gauges: asyncio.Task[None] | None = None
        self._models = ModelResolver(registry, clock)
        self._tasks = BackgroundTasks()
        self._records = RecordWriter(self._tenants, self._tasks, config.records)
        self._work = WorkPool(config.limits.threads)
        self.shutdown = Shutdown()
        self.page = Page()
        self.gateway = self._make_gateway(config, clock)
        self.event_gateway = msgspec.structs.replace(
            self.gateway,
            rate_limiter=RateLimiter(OwnAllowance(6_000), concurrency=MAX_EVENT_STREAMS),
            processor_seconds=math.inf,  # a stream may stay open for weeks
        )
        check_limit_prices(config.limits.keys, config.limits.users)
        limiter = Limiter(
            self._database,
            keys=config.limits.keys,
            users=config.limits.users,
            known=known_limits,
            tasks=self._tasks,
            clock=clock,
        )
        self.passthrough = Passthrough(
            self._upstreams,
            registry,
            limiter=limiter,
            records=self._records,
            telemetry=self.telemetry,
            stopping=self.shutdown.forced,
            clock=clock,
        )
        self.chat = ChatEndpoints(
            self._make_modes(config, clock),
            config.mode,
            upstreams=self._upstreams,
            relay=Relay(
                tasks=self._tasks,
                stopping=self.shutdown.forced,
                telemetry=self.telemetry,
                recall=RecallLimits(rounds=config.fit.recall_rounds, tokens=config.fit.recall_tokens),
                clock=clock,
            ),
            limiter=limiter,
            forward=self.passthrough.forward,
            tasks=self._tasks,
            clock=clock,
        )
        self.mcp = McpEndpoint(self._tenants, tools=config.mcp_tools, max_body_bytes=config.limits.max_body_bytes)
        self.forwards_unknown_paths = config.unknown_paths == "forward"
        self.inspector = Inspector(
            self._tenants,
            registry,
            models=ServedModels(
                self._tenants, registry, upstreams=self._upstreams, resolver=self._models, telemetry=self.telemetry
            ),
            tokens=ContentCounter(registry, next((each.like for each in config.upstreams if each.like), DEFAULT_MODEL)),
            upstreams=[each.name for each in config.upstreams],
            fit=config.fit,
            records=self._records,
            limiter=limiter,
            access=self.gateway.access,
            tasks=self._tasks,
            shutdown=self.shutdown,
            running_jobs=lambda: self._worker.running,
            upstream_states=lambda: self._upstreams.states,
            reload=reload,
            sessions=Sessions(Path.home(), os.environ) if config.sessions else None,
            clock=clock,
        )
        self._app = _make_app(self, config, clock)

    @property
    def app(self) -> ASGIApp:
        return self._app

    @property
    def routes(self) -> list[BaseRoute]:
        return self._app.routes

    def _make_gateway(self, config: Config, clock: Callable[[], float]) -> Gateway:
        limits = config.limits
        access: Authenticator = (
            KeyAccess(self._database, self._tasks, clock, failures_per_minute=limits.failed_keys_per_minute)
            if config.require_keys
            else OpenAccess(config.tenant, config.hosts, config.origins)
        )
        return Gateway(
            access=access,
            telemetry=self.telemetry,
            rate_limiter=RateLimiter(
                SharedAllowance(limits.requests_per_minute, self._database)
                if config.shares_store
                else OwnAllowance(limits.requests_per_minute),
                concurrency=limits.concurrency,
            ),
            stopping=self.shutdown.forced,
            max_body_bytes=limits.max_body_bytes,
            max_upload_bytes=limits.max_upload_bytes,
            work=self._work,
            processor_seconds=limits.processor_seconds,
            clock=clock,
        )

    def _make_modes(self, config: Config, clock: Callable[[], float]) -> dict[ModeName, Mode]:
        tenants, models = self._tenants, self._models
        return {
            "fit": FitMode(
                config,
                tenants=tenants,
                models=models,
                records=self._records,
                tasks=self._tasks,
                telemetry=self.telemetry,
                shared=self._database if config.shares_store and config.records != "none" else None,
                clock=clock,
            ),
            "remember": RememberMode(
                load_policy(config.remember.policy or "default", environ=os.environ),
                tenants=tenants,
                models=models,
                requires_records=config.records == "required",
                recall=config.remember.recall,
                clock=clock,
            ),
        }

    async def warm_up(self) -> None:
        await asyncio.to_thread(self._models.warm_up, self._config)

    async def start(self) -> None:
        """Start with an open store."""
        set_cache_limit(self._config.cache_mb * MEBIBYTE)
        self.telemetry.watch(self._database, lambda: self._tenants.engines, lambda: self._upstreams.availability)
        self._gauges = asyncio.create_task(self.telemetry.keep_current())
        if self._config.background_work and not self._database.read_only:
            self._worker.start()

    async def stop_work(self) -> None:
        await self._worker.stop()

    async def close(self) -> None:
        """Wait for pending writes and close everything but the store."""
        if self._gauges is not None:
            self._gauges.cancel()
        self.inspector.close()
        await self._tasks.drain()
        await self.mcp.close()
        await self._work.close()
        await self._tenants.close()
        await self._upstreams.close()

    def _wake_worker(self, event: Event) -> None:
        if event.name in _WRITES:
            self._worker.wake()

    async def expose_metrics(self, metrics: Prometheus) -> bytes:
        """Return all metrics. Without an answer from the store, the numbers of jobs stay as they were."""
        try:
            async with asyncio.timeout(_COUNT_SECONDS):
                now = self._clock()
                waiting, failed = [await self._database.count_jobs(now=now, failed=each) for each in (False, True)]
                metrics.show_jobs(waiting, failed)
        except (StoreError, TimeoutError) as error:
            log_failure("counting jobs", error)
        return metrics.expose()

    async def check_ready(self) -> dict[str, UpstreamState]:
        """Return whether the upstreams answer; raise an error if requests cannot be served.

        That is so during shutdown and without a usable store; with `ready_needs_upstreams`, also if all upstreams fail.
        """
        if self.shutdown.started.is_set():
            raise ApiError("shutting_down", "the server is shutting down")
        try:
            await self._database.ping()
            is_writable = not self._file or await asyncio.to_thread(_is_writable, Path(self._file))
        except StoreError:
            is_writable = False
        if not is_writable:
            raise ApiError("shutting_down", "the store is not available", code=_NOT_READY)
        if self._config.ready_needs_upstreams and self._upstreams.are_down:
            raise ApiError("shutting_down", "no upstream answers", code=_NOT_READY)
        return self._upstreams.states


def _check_prices(config: Config, registry: Registry, embedder: Embedder | None, file: str) -> None:
    """Raise if dollars are limited and a model in the configuration has no known price."""
    name = config.fit.summarizer
    try:
        check_prices(config.own_calls, registry.resolve(name) if name else None, find_billed_model(embedder))
    except InvalidValue as error:
        raise InvalidConfig(file, error.field, error.reason) from None


def _load_policies(config: Config, file: str) -> dict[str, str | Policy]:
    """Return the policies that clients may name: the built-in ones, and the files in the configuration."""
    policies: dict[str, str | Policy] = {name: name for name in policy_names()}
    for path in config.policies:
        policy = load_policy(Path(file).parent / path, environ=os.environ)
        if policy.name in policies:
            raise InvalidConfig(file, "policies", f"there are two policies named {policy.name!r}")
        policies[policy.name] = policy
    return policies


def _is_writable(file: Path) -> bool:
    """Return whether a database file still exists and is writable. An open database stays readable even if not."""
    return os.access(file, os.R_OK | os.W_OK) and os.access(file.parent, os.W_OK)  # the WAL file is written next to it


def _load_registry(config: Config, file: str) -> Registry:
    return load_registry(Path(file).parent / config.models) if config.models else default_registry()


def create_app(
    config: Config,
    *,
    file: str = "brimful.toml",
    environ: Mapping[str, str] | None = None,
    clock: Callable[[], float] = time.time,
    read: Callable[[], Config] | None = None,
) -> ReloadableApp:
    """Return the server. It opens its store on startup and closes it on shutdown.

    `file` names the configuration in errors; relative paths in the configuration are resolved against its folder.
    `read` reads the configuration again when it is reloaded; without it, only what the configuration names is read.
    """
    database = connect(config.store, replica=config.replica)
    telemetry = Telemetry(config.telemetry, _load_registry(config, file), clock=clock)
    known_limits = KnownLimits()

    def build(config: Config, app: ReloadableApp) -> Services:
        return Services(
            config,
            file=file,
            environ=environ,
            clock=clock,
            database=database,
            telemetry=telemetry,
            known_limits=known_limits,
            reload=app.reload_on_request,
        )

    return ReloadableApp(config, build, database, read=read or (lambda: config), file=file)


def _make_app(services: Services, config: Config, clock: Callable[[], float]) -> Starlette:
    app = Starlette(
        routes=_routes(services),
        exception_handlers={HTTPException: _not_found_handler(services, clock), Exception: _server_error},
        middleware=[*_browser_access(config), Middleware(ApiConventions)],
    )
    app.router.redirect_slashes = False  # behind a TLS proxy, it would redirect to http
    return app


def _browser_access(config: Config) -> Iterator[Middleware]:
    """Yield the middleware that lets pages of the allowed origins read answers (CORS). It never involves cookies."""
    if config.origins:
        yield Middleware(
            CORSMiddleware,
            allow_origins=config.origins,
            allow_methods=FORWARDED_METHODS,
            allow_headers=["*"],
            allow_private_network=True,
            expose_headers=[*ANSWER_HEADERS, "Retry-After"],
        )


class ApiConventions:
    """Middleware: each request has an id, and answers of the API are neither cached nor sniffed.

    A slash at the end of its paths is ignored, and Azure's paths are accepted.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        log_fields = begin_request(scope)
        _accept_azure_path(scope)
        if scope["raw_path"].startswith(_PROXY_PATHS) and scope["raw_path"].endswith(b"/"):
            scope["path"], scope["raw_path"] = scope["path"].rstrip("/"), scope["raw_path"].rstrip(b"/")
        is_api = scope["path"].startswith(API_PATHS)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message["headers"])
                headers["x-content-type-options"] = "nosniff"
                headers[REQUEST_HEADER] = log_fields["request_id"]
                if is_api or "cache-control" not in headers:
                    headers["cache-control"] = "no-store"
                message = {**message, "headers": headers.raw}
            await send(message)

        await self._app(scope, receive, send_with_headers)


def _accept_azure_path(scope: Scope) -> None:
    """Replace a path of Azure OpenAI by OpenAI's; its deployment becomes the path parameter `deployment`."""
    match = _AZURE_PATH.fullmatch(scope["raw_path"])
    if match is None:
        return
    deployment, path = match.groups()
    scope["raw_path"] = _PROXY_PATHS + path
    scope["path"] = unquote_to_bytes(scope["raw_path"]).decode("utf-8", "replace")
    if deployment is not None:
        scope["path_params"] = {DEPLOYMENT: unquote_to_bytes(deployment).decode("utf-8", "replace")}
    query = scope["query_string"].split(b"&")
    scope["query_string"] = b"&".join(field for field in query if not field.startswith(b"api-version="))


def _routes(services: Services) -> list[Route]:
    chat, passthrough, gateway = services.chat, services.passthrough, services.gateway

    def post(path: str, serve: Handler) -> Route:
        return Route(path, Endpoint(path, serve, gateway), methods=["POST"])

    def get(path: str, serve: Handler) -> Route:
        return Route(path, Endpoint(path, serve, gateway), methods=["GET"])

    return [
        *(post(path, chat.endpoint(wire)) for wire, paths in served_wires() for path in paths.completions),
        *(post(paths.count, passthrough.count_tokens) for _, paths in served_wires() if paths.count),
        post("/v1/embeddings", passthrough.forward),
        post("/v1beta/models/{model}:countTokens", passthrough.forward_unbilled),
        get("/v1beta/models", passthrough.forward),
        get("/v1beta/models/{model}", passthrough.forward),
        post("/api/show", passthrough.forward_unbilled),
        get("/api/tags", passthrough.forward),
        get("/api/version", passthrough.forward),
        get("/v1/models", passthrough.models),
        get("/v1/models/{model:path}", passthrough.model),
        *_unknown_routes(services),
        *_inspector_routes(services),
        *_metrics_routes(services),
        Route("/mcp", Endpoint("/mcp", services.mcp.serve, gateway, scope="read"), methods=["POST"]),
        Route("/openapi.json", _openapi),
        Route("/health", _health),
        Route("/ready", _ready(services)),
        *services.page.routes(),
    ]


def _unknown_routes(services: Services) -> Iterator[Route]:
    """Yield the route of all other paths of the APIs, unless they are refused."""
    if services.forwards_unknown_paths:
        passthrough = services.passthrough
        for root in sorted({paths.root for _, paths in served_wires()}):
            path = f"{root}/{{path:path}}"
            endpoint = Endpoint(path, passthrough.forward, services.gateway, serve_upload=passthrough.upload)
            yield Route(path, endpoint, methods=FORWARDED_METHODS)


def _inspector_routes(services: Services) -> Iterator[Route]:
    """Yield the routes of the inspector. Event streams stay open for hours and have limits of their own."""
    operations = (*OPERATIONS, *LOCAL_OPERATIONS) if services.inspector.sessions else OPERATIONS
    for operation, select_handler in operations:
        gateway = services.event_gateway if operation.media == EVENT_STREAM else services.gateway
        yield operation.route(select_handler(services.inspector), gateway)


def _metrics_routes(services: Services) -> Iterator[Route]:
    """Yield the `/metrics` route if metrics are enabled."""
    metrics = services.telemetry.metrics
    if metrics is None:
        return

    async def expose(request: Request, client: Client, raw: bytes) -> Response:
        del request, client, raw
        return Response(await services.expose_metrics(metrics), media_type=METRICS_TYPE)

    yield Route("/metrics", Endpoint("/metrics", expose, services.gateway, scope="metrics"), methods=["GET"])


async def _openapi(request: Request) -> Response:
    del request
    return Response(openapi_document(), media_type=JSON)


async def _health(request: Request) -> Response:
    del request
    return Response(b'{"status":"ok"}', media_type=JSON)


def _ready(services: Services) -> Callable[[Request], object]:
    async def ready(request: Request) -> Response:
        del request
        try:
            upstreams = await services.check_ready()
        except ApiError as error:
            return error_response(error, default_wire())
        return Response(msgspec.json.encode({"status": "ready", "upstreams": upstreams}), media_type=JSON)

    return ready


def _not_found_handler(
    services: Services, clock: Callable[[], float]
) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def handle(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        index = services.page.index(request) if status == _NOT_FOUND else None
        if index is not None:
            return index
        now = clock()
        log_request(request.scope, status, started=now, now=now)
        await services.telemetry.count_request(_UNKNOWN_PATH, status, {}, 0.0)
        return _method_not_allowed(request) if status == _METHOD_NOT_ALLOWED else _not_found(request, status)

    return handle


def _method_not_allowed(request: Request) -> Response:
    path = request.url.path
    matching = (route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE)
    allowed = (method for route in matching for method in route.methods or ())
    error = method_not_allowed(path, request.method, allowed)
    return error_response(error, find_wire_by_path(path, request.headers))


def _not_found(request: Request, status: int) -> Response:
    path = request.url.path
    return error_response(unknown_path(path, request.method, status), find_wire_by_path(path, request.headers))


async def _server_error(request: Request, error: Exception) -> Response:
    del error
    wire = find_wire_by_path(request.url.path, request.headers)
    return error_response(ApiError("internal", "internal error"), wire)
