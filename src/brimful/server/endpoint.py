"""Shared handling of every request: authentication, rate limits, body parsing, error responses and the access log."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from brimful.core.validation import decode_json, find_duplicate_key, preview
from brimful.errors import BrimfulError, BudgetExceeded, ContextOverflow
from brimful.providers.connection import decompress, get_content_codings, split_tokens
from brimful.server import access
from brimful.server.access import Authenticator, Client, RateLimiter, require_scope
from brimful.server.background import log_failure
from brimful.server.errors import STATUS_CODES, ApiError, error_body, to_api_error
from brimful.server.logs import log_overflow, log_request, read_trace_id
from brimful.server.telemetry import Telemetry
from brimful.server.work import WorkPool
from brimful.threads import run_in_thread, use_threads
from brimful.wires import Wire
from brimful.wires.registry import find_wire_by_path

BODY_TIMEOUT: Final = 60.0  # seconds
_MIN_VALUE_BYTES: Final = 2  # of a value in JSON: a digit and a comma
MAX_VALUES: Final = 500_000  # in a JSON body: small values take far more memory and time than their bytes suggest
LARGE_BODY: Final = 262_144  # bytes; larger bodies are parsed in a thread
JSON: Final = "application/json"
DEPLOYMENT: Final = "deployment"
"""The path parameter of requests to Azure's paths that names their model."""
_CLIENT_CLOSED: Final = 499  # as in nginx: the client disconnected

T = TypeVar("T")
Handler = Callable[[Request, Client, bytes], Awaitable[Response]]
"""Handles a request of a client, whose body has been read."""
UploadHandler = Callable[[Request, Client, "Upload"], Awaitable[Response]]
"""Handles a request whose body is not JSON, and is read while it is handled."""


async def read_body(request: Request, limit: int) -> bytes:
    """Return the body, decompressed; reject it as soon as it exceeds the limit."""
    _check_length(request.headers, limit)
    chunks, size = [], 0
    try:
        async with asyncio.timeout(BODY_TIMEOUT):
            async for chunk in _decompressed(request):
                size += len(chunk)
                if size > limit:
                    raise _too_large(limit)
                chunks.append(chunk)
    except TimeoutError:
        raise _too_slow() from None
    return b"".join(chunks)


async def read_json_object(raw: bytes) -> dict[str, Any]:
    """Parse a body that must be a JSON object, with each key once and not too deeply nested."""
    return _parse_object(raw) if len(raw) < LARGE_BODY else await run_in_thread(_parse_object, raw)


def _parse_object(raw: bytes) -> dict[str, Any]:
    try:
        data = decode_json(raw)
    except ValueError as error:
        raise ApiError("invalid", f"the body {error}") from None
    if not isinstance(data, dict):
        raise ApiError("invalid", "the body must be a JSON object")
    if len(raw) > MAX_VALUES * _MIN_VALUE_BYTES and _has_too_many_values(data):
        raise ApiError("too_large", f"the body has more than {MAX_VALUES:,} values")
    if (key := find_duplicate_key(raw, data)) is not None:
        raise ApiError("invalid", f"the body has the key {preview(key)} more than once in one object")
    return data


async def _with_deployment(request: Request, raw: bytes) -> bytes:
    """Return a body whose model is the deployment in the path, which Azure uses whatever the body says."""
    name = request.path_params.get(DEPLOYMENT)
    if name is None or not raw:
        return raw
    body = await read_json_object(raw)
    if body.get("model") == name:
        return raw
    if "model" in body or not body:
        return msgspec.json.encode(body | {"model": name})
    return msgspec.json.encode({"model": name})[:-1] + b"," + raw[raw.index(b"{") + 1 :]


async def _decompressed(request: Request) -> AsyncIterator[bytes]:
    codings = split_tokens(request.headers.get("content-encoding", ""))
    codings = ["gzip" if coding == "x-gzip" else coding for coding in codings if coding != "identity"]
    if not codings:
        async for chunk in request.stream():
            yield chunk
        return
    known = get_content_codings()
    if not set(codings) <= set(known):
        names = ", ".join(known)
        message = f"Content-Encoding: {', '.join(codings)[:40]!r} is not supported: use one of {names}, or none"
        raise ApiError("invalid", message, status=415, headers={"accept-encoding": names})
    try:
        async for chunk in decompress(request.stream(), ", ".join(codings)):
            yield chunk
    except ValueError as error:
        raise ApiError("invalid", f"the body cannot be decompressed ({', '.join(codings)}): {error}") from None


class Upload:
    """The body of a request, read as it is iterated over. Each chunk has to arrive within a minute."""

    def __init__(self, request: Request, limit: int) -> None:
        _check_length(request.headers, limit)
        self._request = request
        self._limit = limit
        self._is_read = asyncio.Event()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the chunks; reject the body as soon as it exceeds the limit."""
        size, chunks = 0, aiter(self._request.stream())
        try:
            while (chunk := await asyncio.wait_for(anext(chunks, None), BODY_TIMEOUT)) is not None:
                size += len(chunk)
                if size > self._limit:
                    raise _too_large(self._limit)
                if chunk:
                    yield chunk
        except TimeoutError:
            raise _too_slow() from None
        finally:
            self._is_read.set()

    async def wait_for_disconnect(self) -> None:
        """Wait until the body is read and the client disconnects. A disconnect in the middle ends the iteration."""
        await self._is_read.wait()
        await wait_for_disconnect(self._request.receive)


def _has_upload(headers: Mapping[str, str]) -> bool:
    """Return whether a request has a body that is not JSON."""
    is_empty = headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers
    return not is_empty and "json" not in headers.get("content-type", "").lower()


def _check_length(headers: Mapping[str, str], limit: int) -> None:
    length = headers.get("content-length", "")
    if length.isdigit() and int(length) > limit:
        raise _too_large(limit)


def _too_slow() -> ApiError:
    return ApiError("invalid", f"the body did not arrive within {BODY_TIMEOUT:.0f} seconds", status=408)


def _has_too_many_values(data: dict[str, Any]) -> bool:
    values = 0
    level: list[Any] = [data]
    while level and values <= MAX_VALUES:
        values += sum(map(len, level))
        items = (each.values() if isinstance(each, dict) else each for each in level)
        level = [item for each in items for item in each if isinstance(item, dict | list)]
    return values > MAX_VALUES


def _too_large(limit: int) -> ApiError:
    return ApiError("too_large", f"the body is larger than {limit:,} bytes", limit="body_bytes")


class Gateway(msgspec.Struct, frozen=True, kw_only=True):
    """What every request passes through: authentication, rate limits, telemetry, and limits of size and work."""

    access: Authenticator
    rate_limiter: RateLimiter
    telemetry: Telemetry
    stopping: asyncio.Event
    max_body_bytes: int
    max_upload_bytes: int
    work: WorkPool
    processor_seconds: float
    clock: Callable[[], float]


class Endpoint:
    """An ASGI app that serves one path. If there is no handler for uploads, all bodies are read before the handler."""

    def __init__(
        self,
        path: str,
        serve: Handler,
        gateway: Gateway,
        *,
        serve_upload: UploadHandler | None = None,
        scope: access.Scope = "chat",
    ) -> None:
        self._path = path
        self._serve_upload = serve_upload
        self._serve = serve
        self._gateway = gateway
        self._scope: access.Scope = scope

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        clock = self._gateway.clock
        started, status = clock(), _CLIENT_CLOSED
        log_fields: dict[str, Any] = scope["brimful"]

        log_fields["bytes"] = 0

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            log_fields["bytes"] += len(message.get("body", b""))
            await send(message)

        request = Request(scope, receive)
        try:
            with self._gateway.telemetry.serving(scope["method"], self._path, request.headers) as set_status:
                traced = self._gateway.telemetry.trace_headers() or request.headers
                if trace := read_trace_id(traced.get("traceparent", "")):
                    log_fields["trace_id"] = trace
                try:
                    await self._handle(request, log_fields, send_and_note)
                except ClientDisconnect:
                    log_fields["cut_by"] = "client"
                except Exception as error:  # noqa: BLE001 - the edge of the process: clients get an error in their format
                    log_failure(f"serving {scope['path']}", error)
                    if status == _CLIENT_CLOSED:
                        await self._reject(ApiError("internal", "internal error"), request, send_and_note)
                set_status(status)
        finally:
            now = clock()
            log_request(scope, status, started=started, now=now)
            await self._gateway.telemetry.count_request(self._path, status, log_fields, now - started)

    async def _handle(self, request: Request, log_fields: dict[str, Any], send: Send) -> None:
        gateway = self._gateway
        try:
            address = request.client.host if request.client else ""
            client = await gateway.access.identify(request.headers, address)
            log_fields |= {"tenant": client.tenant, "key": client.key}
            require_scope(client, self._scope)
            share = gateway.work.share(client.tenant, gateway.processor_seconds)
            async with gateway.rate_limiter.limit(client, now=gateway.clock()):
                with use_threads(share):
                    response = await self._respond(request, client)
                    await response(request.scope, request.receive, send)
        except ApiError as error:
            await self._reject(error, request, send)
        except BrimfulError as error:
            api_error = to_api_error(error, find_wire_by_path(request.scope["path"], request.headers))
            if isinstance(error, BudgetExceeded | ContextOverflow):
                log_overflow(error, log_fields)
            if api_error.kind == "internal":
                log_failure(f"serving {request.url.path}", error)
            await self._reject(api_error, request, send)

    async def _respond(self, request: Request, client: Client) -> Response:
        gateway = self._gateway
        if self._serve_upload is not None and _has_upload(request.headers):
            upload = Upload(request, gateway.max_upload_bytes)
            left, handling = upload.wait_for_disconnect(), self._serve_upload(request, client, upload)
        else:
            raw = await _with_deployment(request, await read_body(request, gateway.max_body_bytes))
            left, handling = wait_for_disconnect(request.receive), self._serve(request, client, raw)
        return await run_until_disconnect(left, gateway.stopping, handling)

    async def _reject(self, error: ApiError, request: Request, send: Send) -> None:
        log_fields = request.scope["brimful"]
        if error.body is None and error.status >= STATUS_CODES["internal"]:  # an upstream's own words may be contents
            log_fields["error"] = error.message
        emitter = self._gateway.telemetry.emitter(log_fields.get("tenant", ""))
        await emitter.emit("refused", kind=error.kind, status=error.status, limit=error.limit)
        wire = find_wire_by_path(request.scope["path"], request.headers)
        await error_response(error, wire)(request.scope, request.receive, send)


def error_response(error: ApiError, wire: Wire) -> Response:
    wait = {} if error.retry_after is None else {"retry-after": str(max(1, math.ceil(error.retry_after)))}
    challenge = {"www-authenticate": "Bearer"} if error.status == STATUS_CODES["invalid_key"] else {}
    is_upstreams = error.body is not None and error.headers
    headers = ({} if is_upstreams else {"content-type": JSON}) | wait | challenge | error.headers
    return Response(error_body(error, wire), status_code=error.status, headers=headers)


async def run_until_disconnect(left: Awaitable[None], stopping: asyncio.Event, handling: Awaitable[T]) -> T:
    """Wait for a result. Raise an error if the client has `left` before that, or if the server stops."""
    work, disconnected = asyncio.ensure_future(handling), asyncio.ensure_future(left)
    stopped = asyncio.ensure_future(stopping.wait())
    try:
        await asyncio.wait({work, disconnected, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return work.result()
        if disconnected.done():
            raise ClientDisconnect
        raise ApiError("shutting_down", "the server is shutting down", retry_after=1.0)
    finally:
        for task in (work, disconnected, stopped):
            task.cancel()
        await asyncio.gather(work, disconnected, stopped, return_exceptions=True)


async def wait_for_disconnect(receive: Receive) -> None:
    """Wait until the client disconnects."""
    message: Any = {}
    while message.get("type") != "http.disconnect":
        message = await receive()
