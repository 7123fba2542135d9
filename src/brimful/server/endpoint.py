"""What all endpoints have in common: who asks, how much, what is told of failures, and one line in the log."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from brimful.errors import BrimfulError
from brimful.server import access
from brimful.server.access import Access, want_scope
from brimful.server.asked import Caller
from brimful.server.bodies import read_body
from brimful.server.errors import Refusal, Tongue, refusal_of, told
from brimful.server.limits import Gate
from brimful.server.streaming import until_gone
from brimful.server.tasks import log_failure
from brimful.server.watching import Watch

JSON: Final = "application/json"
_CLIENT_LEFT: Final = 499  # as nginx logs it: nobody is there to be told
_log = logging.getLogger("brimful.access")

Serve = Callable[[Request, Caller, bytes], Awaitable[Response]]
"""Answers a request of a caller, whose body has been read."""


class Door(msgspec.Struct, frozen=True, kw_only=True):
    """What every request passes: who may enter, how many at a time, how much each may carry."""

    access: Access
    gate: Gate
    watch: Watch
    stopping: asyncio.Event
    body_bytes: int
    clock: Callable[[], float]


class Endpoint:
    """An ASGI app that serves one path. `tongue` is the dialect of its errors, `scope` what a key must allow."""

    def __init__(
        self, path: str, serve: Serve, door: Door, *, tongue: Tongue = "openai", scope: access.Scope = "chat"
    ) -> None:
        """Take who serves it."""
        self._path = path
        self._serve = serve
        self._door = door
        self._tongue: Tongue = tongue
        self._scope: access.Scope = scope

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, and log it."""
        clock = self._door.clock
        begun, status = clock(), _CLIENT_LEFT
        noted: dict[str, Any] = scope.setdefault("brimful", {})

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        request = Request(scope, receive)
        try:
            with self._door.watch.serving(scope["method"], self._path, request.headers) as ended:
                try:
                    await self._answered(request, noted, noting)
                except ClientDisconnect:
                    pass
                except Exception as error:  # noqa: BLE001 - the edge of the process: a caller is told in its own form
                    log_failure(f"serving {scope['path']}", error)
                    if status == _CLIENT_LEFT:
                        await self._refused(Refusal("internal", "the request could not be served"), request, noting)
                ended(status)
        finally:
            line = {"at": begun, "method": scope["method"], "path": scope["path"], "status": status}
            seconds = round(max(0.0, clock() - begun), 4)
            _log.info(msgspec.json.encode(line | {"seconds": seconds} | noted).decode())

    async def _answered(self, request: Request, noted: dict[str, Any], send: Send) -> None:
        door = self._door
        try:
            caller = await door.access.caller(request.headers)
            noted |= {"tenant": caller.tenant, "key": caller.key}
            want_scope(caller, self._scope)
            with door.gate.passed(f"{caller.tenant}/{caller.key}", now=door.clock()):
                raw = await read_body(request, door.body_bytes)
                response = await _unless_gone(request.receive, door.stopping, self._serve(request, caller, raw))
                await response(request.scope, request.receive, send)
        except Refusal as refusal:
            await self._refused(refusal, request, send)
        except BrimfulError as error:
            told_of = refusal_of(error, self._tongue)
            if told_of.kind == "internal":
                log_failure(f"serving {request.url.path}", error)
            await self._refused(told_of, request, send)

    async def _refused(self, refusal: Refusal, request: Request, send: Send) -> None:
        tenant = request.scope["brimful"].get("tenant", "")
        await self._door.watch.tell("refused", tenant, kind=refusal.kind, status=refusal.status)
        await refused(refusal, self._tongue)(request.scope, request.receive, send)


def refused(refusal: Refusal, tongue: Tongue) -> Response:
    """Return the response that says why not."""
    wait = refusal.retry_after
    headers = {} if wait is None else {"retry-after": str(max(1, round(wait + 0.5)))}
    return Response(told(refusal, tongue), status_code=refusal.status, headers=headers, media_type=JSON)


async def _unless_gone(receive: Receive, stopping: asyncio.Event, serving: Awaitable[Response]) -> Response:
    """Serve as long as the caller is there, for work for nobody is ended, and as long as the server may."""
    work, gone = asyncio.ensure_future(serving), asyncio.ensure_future(until_gone(receive))
    cut = asyncio.ensure_future(stopping.wait())
    try:
        await asyncio.wait({work, gone, cut}, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return work.result()
        if gone.done():
            raise ClientDisconnect
        raise Refusal("stopping", "the server is stopping, and the answer has not come in time", retry_after=1.0)
    finally:
        for task in (work, gone, cut):
            task.cancel()
        await asyncio.gather(work, gone, cut, return_exceptions=True)
