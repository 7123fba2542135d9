"""Shared handling of every request: authentication, rate limits, body parsing, error responses and the access log."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from brimful.core.decode import decode_json
from brimful.errors import BrimfulError
from brimful.server import access
from brimful.server.access import Authenticator, RateLimiter, require_scope
from brimful.server.background import log_failure
from brimful.server.errors import ApiError, ErrorFormat, error_body, to_api_error
from brimful.server.proxy.exchange import wait_for_disconnect
from brimful.server.proxy.request import Client
from brimful.server.telemetry import Telemetry

BODY_TIMEOUT: Final = 60.0  # seconds for a body to come
LARGE_BODY: Final = 262_144  # bytes; what is larger is read on another thread


async def read_body(request: Request, limit: int) -> bytes:
    """Return the body; refuse one that is larger than it may be, as soon as that is known, and one that is packed."""
    packed = request.headers.get("content-encoding", "identity")
    if packed.strip().lower() not in ("", "identity"):
        raise ApiError("invalid", f"Content-Encoding: {packed[:40]!r} is not read here: send the body as it is")
    told = request.headers.get("content-length", "")
    if told.isdigit() and int(told) > limit:
        raise _too_large(limit)
    chunks, size = [], 0
    try:
        async with asyncio.timeout(BODY_TIMEOUT):
            async for chunk in request.stream():
                size += len(chunk)
                if size > limit:
                    raise _too_large(limit)
                chunks.append(chunk)
    except TimeoutError:
        raise ApiError("invalid", f"the body did not come within {BODY_TIMEOUT:.0f} seconds", status=408) from None
    return b"".join(chunks)


async def read_json_object(raw: bytes) -> dict[str, Any]:
    """Return a body as the JSON object that it must be."""
    try:
        said = decode_json(raw) if len(raw) < LARGE_BODY else await asyncio.to_thread(decode_json, raw)
    except ValueError as error:
        raise ApiError("invalid", f"the body {error}") from None
    if not isinstance(said, dict):
        raise ApiError("invalid", "the body must be a JSON object")
    return said


def _too_large(limit: int) -> ApiError:
    return ApiError("large", f"the body is larger than {limit:,} bytes, which is the most that this server takes")


__all__ = ["LARGE_BODY", "ClientDisconnect", "read_body", "read_json_object"]


JSON: Final = "application/json"
_CLIENT_CLOSED: Final = 499  # as nginx logs it: nobody is there to be told
_log = logging.getLogger("brimful.access")

Handler = Callable[[Request, Client, bytes], Awaitable[Response]]
"""Answers a request of a caller, whose body has been read."""


class Gateway(msgspec.Struct, frozen=True, kw_only=True):
    """What every request passes: who may enter, how many at a time, how much each may carry."""

    access: Authenticator
    gate: RateLimiter
    watch: Telemetry
    stopping: asyncio.Event
    body_bytes: int
    clock: Callable[[], float]


class Endpoint:
    """An ASGI app that serves one path. `tongue` is the dialect of its errors, `scope` what a key must allow."""

    def __init__(
        self, path: str, serve: Handler, door: Gateway, *, tongue: ErrorFormat = "openai", scope: access.Scope = "chat"
    ) -> None:
        """Take who serves it."""
        self._path = path
        self._serve = serve
        self._door = door
        self._tongue: ErrorFormat = tongue
        self._scope: access.Scope = scope

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, and log it."""
        clock = self._door.clock
        begun, status = clock(), _CLIENT_CLOSED
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
                    if status == _CLIENT_CLOSED:
                        await self._refused(ApiError("internal", "the request could not be served"), request, noting)
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
            require_scope(caller, self._scope)
            with door.gate.passed(f"{caller.tenant}/{caller.key}", now=door.clock()):
                raw = await read_body(request, door.body_bytes)
                response = await _run_until_disconnect(
                    request.receive, door.stopping, self._serve(request, caller, raw)
                )
                await response(request.scope, request.receive, send)
        except ApiError as refusal:
            await self._refused(refusal, request, send)
        except BrimfulError as error:
            told_of = to_api_error(error, self._tongue)
            if told_of.kind == "internal":
                log_failure(f"serving {request.url.path}", error)
            await self._refused(told_of, request, send)

    async def _refused(self, refusal: ApiError, request: Request, send: Send) -> None:
        tenant = request.scope["brimful"].get("tenant", "")
        await self._door.watch.tell("refused", tenant, kind=refusal.kind, status=refusal.status)
        await error_response(refusal, self._tongue)(request.scope, request.receive, send)


def error_response(refusal: ApiError, tongue: ErrorFormat) -> Response:
    """Return the response that says why not."""
    wait = refusal.retry_after
    headers = {} if wait is None else {"retry-after": str(max(1, round(wait + 0.5)))}
    return Response(error_body(refusal, tongue), status_code=refusal.status, headers=headers, media_type=JSON)


async def _run_until_disconnect(receive: Receive, stopping: asyncio.Event, serving: Awaitable[Response]) -> Response:
    """Serve as long as the caller is there, for work for nobody is ended, and as long as the server may."""
    work, gone = asyncio.ensure_future(serving), asyncio.ensure_future(wait_for_disconnect(receive))
    cut = asyncio.ensure_future(stopping.wait())
    try:
        await asyncio.wait({work, gone, cut}, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return work.result()
        if gone.done():
            raise ClientDisconnect
        raise ApiError("stopping", "the server is stopping, and the answer has not come in time", retry_after=1.0)
    finally:
        for task in (work, gone, cut):
            task.cancel()
        await asyncio.gather(work, gone, cut, return_exceptions=True)
