"""The server: its routes, what they share, and how it begins and ends."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from brimful.models import default_registry, load_registry
from brimful.policies import load_policy
from brimful.server.access import Access, Keyed, Open
from brimful.server.answers import Answers
from brimful.server.config import Config
from brimful.server.config import Mode as ModeName
from brimful.server.contexts import Contexts
from brimful.server.endpoint import JSON, Door, Endpoint, refused
from brimful.server.errors import Refusal, Tongue
from brimful.server.fitting import Fitting
from brimful.server.knowledge import Knowledge
from brimful.server.limits import Gate
from brimful.server.mode import Mode
from brimful.server.openapi import description
from brimful.server.passing import Passing
from brimful.server.relay import Relay
from brimful.server.remembering import Remembering
from brimful.server.tasks import Tasks
from brimful.server.tenants import Tenants
from brimful.server.upstreams import Upstreams
from brimful.stores import connect

_ANTHROPIC_PATHS: Final = "/v1/messages"


class Stopping:
    """Whether the server is to stop: `begun` when it takes no more requests, `now` when streams end, done or not."""

    def __init__(self) -> None:
        """Begin without an end."""
        self.begun = False
        self.now = asyncio.Event()


def create_app(
    config: Config,
    *,
    file: str = "brimful.toml",
    environ: Mapping[str, str] | None = None,
    clock: Callable[[], float] = time.time,
) -> Starlette:
    """Return the server as an ASGI app. It opens its store when it is started, and closes all when it ends.

    `file` is the name of the configuration in errors, and what relative paths in it are relative to.
    """
    registry = load_registry(Path(file).parent / config.models) if config.models else default_registry()
    upstreams = Upstreams(config, file=file, environ=environ)
    database = connect(config.store)
    tenants = Tenants(database, config.remember, clock=clock)
    knowledge = Knowledge(registry, clock)
    tasks, stopping = Tasks(), Stopping()
    access: Access = Keyed(database, clock) if config.keys else Open(config.tenant)
    gate = Gate(concurrency=config.limits.concurrency, requests_per_minute=config.limits.requests_per_minute)
    door = Door(access=access, gate=gate, stopping=stopping.now, body_bytes=config.limits.body_bytes, clock=clock)
    fitting = Fitting(
        config, load_policy(config.fit.policy), tenants=tenants, knowledge=knowledge, tasks=tasks, clock=clock
    )
    remembering = Remembering(tenants=tenants, knowledge=knowledge, clock=clock)
    relay = Relay(tasks=tasks, stopping=stopping.now, clock=clock)
    modes: dict[ModeName, Mode] = {"fit": fitting, "remember": remembering}
    answers = Answers(modes, config.mode, upstreams=upstreams, relay=relay, tasks=tasks, clock=clock)
    passing, contexts = Passing(upstreams, registry), Contexts(tenants, tasks)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None, None]:
        del app
        async with database:
            await asyncio.to_thread(knowledge.warm_up, config)
            yield
            await tasks.drain()
            await tenants.close()
            await upstreams.close()

    async def health(request: Request) -> Response:
        del request
        return _told({"status": "ok"})

    async def ready(request: Request) -> Response:
        del request
        if stopping.begun:
            return refused(Refusal("stopping", "the server is stopping"), "openai")
        await database.tenants()
        return _told({"status": "ready"})

    app = Starlette(
        routes=[
            Route("/v1/chat/completions", Endpoint(answers.endpoint("openai"), door), methods=["POST"]),
            Route("/v1/embeddings", Endpoint(passing.embeddings, door), methods=["POST"]),
            Route("/v1/models", Endpoint(passing.models, door), methods=["GET"]),
            Route("/v1/models/{model:path}", Endpoint(passing.model, door), methods=["GET"]),
            Route("/v1/messages", Endpoint(answers.endpoint("anthropic"), door, tongue="anthropic"), methods=["POST"]),
            Route(
                "/v1/messages/count_tokens",
                Endpoint(passing.count_tokens, door, tongue="anthropic"),
                methods=["POST"],
            ),
            Route("/brimful/v1/contexts/{id}", Endpoint(contexts.show, door, scope="read"), methods=["GET"]),
            Route("/openapi.json", _describe),
            Route("/health", health),
            Route("/ready", ready),
        ],
        exception_handlers={HTTPException: _no_such_place, Exception: _failed},
        lifespan=lifespan,
    )
    app.state.stopping = stopping
    return app


async def _describe(request: Request) -> Response:
    del request
    return Response(description(), media_type=JSON)


def _told(said: dict[str, str]) -> Response:
    return Response(msgspec.json.encode(said), media_type=JSON)


async def _no_such_place(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    said = f"no {request.method} {request.url.path[:200]} here; see /openapi.json for what there is"
    return refused(Refusal("unknown", said, status=status), _tongue(request))


async def _failed(request: Request, error: Exception) -> Response:
    del error
    return refused(Refusal("internal", "the request could not be served"), _tongue(request))


def _tongue(request: Request) -> Tongue:
    return "anthropic" if request.url.path.startswith(_ANTHROPIC_PATHS) else "openai"
