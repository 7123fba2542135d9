"""The server as an ASGI app: its routes, and what is said where there is none."""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from brimful.errors import StoreError
from brimful.server.asked import Caller
from brimful.server.config import Config
from brimful.server.endpoint import JSON, Endpoint, Serve, refused
from brimful.server.errors import Refusal, Tongue
from brimful.server.inspector.operation import EVENT_STREAM
from brimful.server.inspector.operations import OPERATIONS
from brimful.server.openapi import description
from brimful.server.origin import want_no_site
from brimful.server.page import Page
from brimful.server.parts import Parts
from brimful.telemetry.prometheus import METRICS_TYPE

_UNKNOWN: Final = 404
_MESSAGES: Final = "/v1/messages"  # and what is below it is Anthropic's
_INSTEAD: Final = {
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
    parts = Parts(config, file=file, environ=environ, clock=clock)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None, None]:
        del app
        async with parts.open():
            yield

    app = Starlette(
        routes=_routes(parts),
        exception_handlers={HTTPException: _elsewhere(parts.page), Exception: _failed},
        lifespan=lifespan,
    )
    app.state.stopping = parts.stopping
    return app


def _routes(parts: Parts) -> list[Route]:
    answers, passing, door = parts.answers, parts.passing, parts.door

    def post(path: str, serve: Serve) -> Route:
        served = serve if parts.keyed else _of_no_site(serve)
        return Route(path, Endpoint(path, served, door, tongue=_tongue(path)), methods=["POST"])

    def get(path: str, serve: Serve) -> Route:
        return Route(path, Endpoint(path, serve, door), methods=["GET"])

    return [
        post("/v1/chat/completions", answers.endpoint("openai")),
        post("/v1/messages", answers.endpoint("anthropic")),
        post("/v1/messages/count_tokens", passing.count_tokens),
        post("/v1/embeddings", passing.embeddings),
        get("/v1/models", passing.models),
        get("/v1/models/{model:path}", passing.model),
        *_inspecting(parts),
        *_measured(parts),
        Route("/openapi.json", _describe),
        Route("/health", _live),
        Route("/ready", _ready(parts)),
        *parts.page.routes(),
    ]


def _of_no_site(serve: Serve) -> Serve:
    async def served(request: Request, caller: Caller, raw: bytes) -> Response:
        want_no_site(request.headers)
        return await serve(request, caller, raw)

    return served


def _inspecting(parts: Parts) -> Iterator[Route]:
    """Yield the routes of the inspector. Who listens to events does so for hours, and is counted apart."""
    for operation, serves in OPERATIONS:
        door = parts.listening if operation.media == EVENT_STREAM else parts.door
        yield operation.route(serves(parts.inspector), door, keyed=parts.keyed)


def _measured(parts: Parts) -> Iterator[Route]:
    """Yield what Prometheus reads, where it is asked for."""
    metrics = parts.watch.metrics
    if metrics is None:
        return

    async def expose(request: Request, caller: Caller, raw: bytes) -> Response:
        del request, caller, raw
        return Response(metrics.exposed(), media_type=METRICS_TYPE)

    yield Route("/metrics", Endpoint("/metrics", expose, parts.door, scope="metrics"), methods=["GET"])


async def _describe(request: Request) -> Response:
    del request
    return Response(description(), media_type=JSON)


async def _live(request: Request) -> Response:
    del request
    return _told("ok")


def _ready(parts: Parts) -> Callable[[Request], object]:
    async def ready(request: Request) -> Response:
        del request
        try:
            is_ready = await parts.ready()
        except StoreError:
            return refused(Refusal("stopping", "the server's store cannot be used", code="not_ready"), "openai")
        return _told("ready") if is_ready else refused(Refusal("stopping", "the server is stopping"), "openai")

    return ready


def _told(status: str) -> Response:
    return Response(msgspec.json.encode({"status": status}), media_type=JSON)


def _elsewhere(page: Page) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def elsewhere(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        found = page.index(request) if status == _UNKNOWN else None
        return found or _no_such_place(request, status)

    return elsewhere


def _no_such_place(request: Request, status: int) -> Response:
    path = request.url.path
    instead = _INSTEAD.get(path, "see /openapi.json for what there is")
    said = f"no {request.method} {path[:200]} here; {instead}"
    return refused(Refusal("unknown", said, status=status), _tongue(request.url.path))


async def _failed(request: Request, error: Exception) -> Response:
    del error
    return refused(Refusal("internal", "the request could not be served"), _tongue(request.url.path))


def _tongue(path: str) -> Tongue:
    return "anthropic" if path.startswith(_MESSAGES) else "openai"
