"""Requests that are forwarded as they are: models, token counts, and all paths that Brimful does not know."""

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Any, Final
from urllib.parse import quote, unquote

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from brimful.core.validation import decode_json
from brimful.counting import counter_for
from brimful.errors import BrimfulError, ProviderError
from brimful.models.registry import Registry
from brimful.providers import HttpResponse, HttpStream
from brimful.providers.connection import split_tokens
from brimful.records import Usage
from brimful.records.usage import RequestUsage
from brimful.server.access import Client, list_fallbacks, may_use_model, require_model
from brimful.server.endpoint import JSON, Upload, read_json_object, run_until_disconnect, wait_for_disconnect
from brimful.server.errors import ApiError, has_extra_root, unknown_path
from brimful.server.limits import (
    UNKNOWN_PRICE,
    UNLIMITED,
    UNRESERVED,
    Admission,
    Limiter,
    RequestKind,
    Reservation,
    estimate_usage,
    released_on_failure,
    uncountable,
)
from brimful.server.logs import note_cut
from brimful.server.proxy.conversation import limited_user, storable_user
from brimful.server.proxy.exchange import make_error_event
from brimful.server.proxy.fit_mode import RecordWriter
from brimful.server.proxy.request import decode_header
from brimful.server.proxy.stream import EdgeListener, WholeEventListener
from brimful.server.proxy.upstreams import (
    UPSTREAM_HEADER,
    Upstream,
    Upstreams,
    get_paths,
    get_response_headers,
    is_outage,
    log_next_attempt,
    upstream_errors,
)
from brimful.server.telemetry import Telemetry
from brimful.threads import run_in_thread
from brimful.wires import Wire
from brimful.wires.incoming import read_incoming
from brimful.wires.registry import find_wire_by_path, served_wires

FORWARDED_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")
"""Methods of paths that Brimful does not know; HEAD comes with GET."""
_MAX_ENCODED: Final = 4  # times; nobody encodes a path more often in good faith
_MODEL_PATH: Final = re.compile(r"(?P<root>/v1|/v1beta)/models/(?P<name>.+)")
_PATH: Final = re.compile(r"[\w!$&'()*+,;=:@%.~/-]*", re.ASCII)  # RFC 3986
_UNSUPPORTED: Final = (404, 405, 501)
_NOT_IMPLEMENTED: Final = 501
_UPGRADE_REQUIRED: Final = 426
_MAX_MODEL_PAGES: Final = 20  # of one upstream
_MODEL_LISTS: Final = ("/v1beta/models", "/api/tags", "/api/ps")
"""Forwarded paths that list models; `/v1/models` has a handler of its own."""
_BILLED_METHODS: Final = ("POST", "PUT", "PATCH")
_KINDS: Final[Mapping[RequestKind, re.Pattern[str]]] = {
    "conversation": re.compile(
        r"/v1/(chat/completions|responses|messages)|/api/chat"
        r"|/v1beta/models/[^/]+:(generateContent|streamGenerateContent)"
    ),
    "completion": re.compile(r"/v1/(completions|fim/completions)|/api/generate"),
    "other": re.compile(
        r"/v1/(embeddings|rerank|moderations|images/(generations|edits))|/api/(embed|embeddings)"
        r"|/v1beta/models/[^/]+:(embedContent|batchEmbedContents)"
    ),
}
"""Forwarded paths whose tokens are counted, from what is sent and from the usage in the answer. All others that may be
billed (batches, fine-tuning, videos, speech, assistants' runs) cost something else, or later."""
_MAX_READ_BYTES: Final = 4_194_304  # of an answer, for its usage
_LARGE: Final = 65_536  # bytes that are parsed in a thread
_END_BYTES: Final = 16_384  # of a longer answer; its usage follows the vectors or images


class Passthrough:
    """Forwards requests and answers unchanged."""

    def __init__(
        self,
        upstreams: Upstreams,
        registry: Registry,
        *,
        limiter: Limiter,
        records: RecordWriter,
        telemetry: Telemetry,
        stopping: asyncio.Event,
        clock: Callable[[], float],
    ) -> None:
        self._upstreams = upstreams
        self._registry = registry
        self._limiter = limiter
        self._records = records
        self._telemetry = telemetry
        self._stopping = stopping
        self._clock = clock

    async def forward(self, request: Request, client: Client, raw: bytes) -> Response:
        """Forward a request whose body is JSON or empty, to the upstreams of the model in its body or path.

        If one fails, the next is tried, unless the request continues what only the first one has.
        """
        body = await read_json_object(raw) if raw else {}
        if request.method not in _BILLED_METHODS:
            return await self._forward_body(request, client, raw, body, UNLIMITED)
        user = limited_user(client, {name: decode_header(value) for name, value in request.headers.items()}, body)
        async with self._limiter.admit(client, user) as admission:
            on_usage = partial(self._record_usage, client, storable_user(user) or "")
            response = await self._forward_body(request, client, raw, body, admission, on_usage)
        response.headers.update(admission.headers())
        return response

    async def forward_unbilled(self, request: Request, client: Client, raw: bytes) -> Response:
        """Forward a request that costs nothing, and so counts against no limit."""
        return await self._forward_body(request, client, raw, await read_json_object(raw) if raw else {}, UNLIMITED)

    async def _forward_body(
        self,
        request: Request,
        client: Client,
        raw: bytes,
        body: dict[str, Any],
        admission: Admission,
        on_usage: Callable[[Upstream, str, Usage], None] | None = None,
    ) -> Response:
        started = self._clock()
        model = _model_name(body) or _model_in_path(request)
        request.scope["brimful"] |= {"mode": "forward", "model": model}
        _require_models(request, client, body)
        wire, path = self._read_path(request)
        upstreams = self._upstreams.choose(wire, model, request.headers.get(UPSTREAM_HEADER, ""))
        admission.require_one_price(body)
        kind = find_kind(request.scope["path"])
        if admission.counts_tokens and not (model and kind):
            raise uncountable()
        attempts = upstreams if raw and not wire.find_state(body) else upstreams[:1]
        failed: list[ProviderError] = []
        for upstream in attempts:
            renamed, _, sent = upstream.rename(path, body, raw, model)
            is_empty = not raw and request.method != "POST"
            try:
                reservation = await self._reserve(upstream, model, body, raw, admission, kind or "other")
                if client.models is not None and request.url.path in _MODEL_LISTS and is_empty:
                    listed = await _get(upstream, renamed + _query(request, upstream), request.headers)
                    return _list_allowed(client, listed)
                async with released_on_failure(reservation):
                    return await self._forward(
                        request,
                        client,
                        upstream,
                        renamed,
                        None if is_empty else sent,
                        started,
                        reservation=reservation,
                        on_usage=None if on_usage is None or not model else partial(on_usage, upstream, model),
                    )
            except ProviderError as error:
                if upstream is attempts[-1] or not is_outage(error):
                    raise
                failed.append(error)
                log_next_attempt(upstream, error)
            except ApiError as error:
                if not failed or error.code != UNKNOWN_PRICE:
                    raise
        raise failed[-1]

    async def upload(self, request: Request, client: Client, upload: Upload) -> Response:
        """Forward a request with any other body, such as a file, as it arrives."""
        started = self._clock()
        request.scope["brimful"] |= {"mode": "forward", "model": ""}
        require_model(client, "")
        wire, path = self._read_path(request)
        (upstream,) = self._upstreams.choose(wire, "", request.headers.get(UPSTREAM_HEADER, ""))
        user = limited_user(client, {name: decode_header(value) for name, value in request.headers.items()}, {})
        async with self._limiter.admit(client, user) as admission:
            if admission.counts_tokens:
                raise uncountable()
            response = await self._forward(request, client, upstream, path, upload, started, reservation=UNRESERVED)
        response.headers.update(admission.headers())
        return response

    async def models(self, request: Request, client: Client, raw: bytes) -> Response:
        """List the models of all upstreams of a wire format."""
        del raw
        wire = _get_wire(request)
        upstreams = self._upstreams.of(wire)
        if len(upstreams) <= 1:
            (upstream,) = self._upstreams.choose(wire, "", "")
            listed = await _get(upstream, _models_path(wire) + _query(request, upstream), request.headers)
            return _list_allowed(client, listed)
        listing = (_list_models(upstream, request.headers) for upstream in upstreams)
        results = await asyncio.gather(*listing, return_exceptions=True)
        lists = [rows for rows in results if isinstance(rows, list)]
        if not lists:
            raise next(error for error in results if isinstance(error, BaseException))
        models: dict[str, dict[str, Any]] = {}
        for row in (row for rows in lists for row in rows):
            models.setdefault(str(row.get("id")), row)
        rows = [row for name, row in models.items() if may_use_model(client, name)]
        return Response(msgspec.json.encode(wire.write_models(rows, request.query_params)), media_type=JSON)

    async def model(self, request: Request, client: Client, raw: bytes) -> Response:
        """Show one model."""
        del raw
        wire, name = _get_wire(request), request.path_params["model"]
        if _leaves_its_folder(name):
            raise ApiError(
                "not_found", f"model {name[:80]!r} not found"
            )  # and no other path of the upstream, called with our key
        require_model(client, name)
        upstream = self._upstreams.find(wire, name)
        name = upstream.config.rename.get(name, name)
        path = f"{_models_path(wire)}/{quote(name, safe='/:@')}{_query(request, upstream)}"
        return _unchanged(await _get(upstream, path, request.headers))

    async def count_tokens(self, request: Request, client: Client, raw: bytes) -> Response:
        """Count a prompt at the upstream, or here if it cannot."""
        body = await read_json_object(raw)
        wire = _get_wire(request)
        model = _model_name(body)
        require_model(client, model)
        upstream = self._upstreams.find(wire, model)
        path, body, raw = upstream.rename(get_paths(wire).at_upstream(request.scope["path"]), body, raw, model)
        path += _query(request, upstream)
        try:
            with upstream_errors(upstream, runs_model=False):
                headers = upstream.headers(request.headers)
                return _unchanged(await upstream.connection.post(path, raw, headers=headers))
        except ProviderError as error:
            if error.status not in _UNSUPPORTED:
                raise
        tokens = await run_in_thread(self._count, upstream, body)
        return Response(msgspec.json.encode({"input_tokens": tokens}), media_type=JSON)

    def _count(self, upstream: Upstream, body: dict[str, Any]) -> int:
        info = upstream.resolve(self._registry, _model_name(body))
        return counter_for(info).prompt(read_incoming(body, upstream.wire.name).prompt).tokens

    async def _reserve(
        self,
        upstream: Upstream,
        model: str,
        body: dict[str, Any],
        raw: bytes,
        admission: Admission,
        kind: RequestKind,
    ) -> Reservation:
        """Reserve what a request may use of the client's limits."""
        if not admission.counts_tokens:
            return UNRESERVED
        name = upstream.config.rename.get(model, model)
        info = msgspec.structs.replace(upstream.resolve(self._registry, name), id=name, wire=upstream.wire.provider)
        usage = await run_in_thread(estimate_usage, body, raw, upstream.wire, info, kind)
        return await admission.reserve(upstream.with_maker(info), prompt=usage.prompt, completion=usage.completion)

    def _record_usage(self, client: Client, user: str, upstream: Upstream, model: str, usage: Usage) -> None:
        info = upstream.with_maker(upstream.resolve(self._registry, upstream.config.rename.get(model, model)))
        is_priced = not info.known and info.provider != "unknown"  # by the price list, under the name of its maker
        name = f"{info.provider}/{info.id}" if is_priced else info.id
        record = RequestUsage(model=name, usage=usage, at=self._clock(), user=user, key=client.key)
        self._records.write_usage(client.tenant, record, upstream.route)

    def _read_path(self, request: Request) -> tuple[Wire, str]:
        """Return the wire format of a request, and its path at the upstream."""
        if "websocket" in split_tokens(request.headers.get("upgrade", "")):
            raise _refuse_web_socket(request.scope["path"])
        if has_extra_root(request.scope["path"]):
            raise unknown_path(request.scope["path"], request.method)
        wire = _get_wire(request)
        return wire, get_upstream_path(request.scope["raw_path"].decode("latin-1"), wire)

    async def _forward(
        self,
        request: Request,
        client: Client,
        upstream: Upstream,
        path: str,
        body: bytes | Upload | None,
        started: float,
        *,
        reservation: Reservation,
        on_usage: Callable[[Usage], None] | None = None,
    ) -> Response:
        log_fields = request.scope["brimful"]
        log_fields["upstream"] = upstream.config.name
        seconds = max(0.0, self._clock() - started)
        await self._telemetry.emitter(client.tenant).emit("sent", mode="forward", route=upstream.route, seconds=seconds)
        headers = upstream.headers(request.headers) | _body_headers(request.headers, body)
        async with AsyncExitStack() as connection:
            timing = self._telemetry.timing(client.tenant, upstream.config.name, log_fields["model"])
            await connection.enter_async_context(timing)
            opened = upstream.stream(
                path + _query(request, upstream),
                body,
                method=request.method,
                headers=headers | self._telemetry.trace_headers(),
                runs_model=request.method == "POST" and find_kind(request.scope["path"]) is not None,
            )
            stream = await connection.enter_async_context(opened)
            return ForwardedResponse(stream, connection.pop_all(), self._stopping, upstream, reservation, on_usage)


class ForwardedResponse(Response):
    """Forwards an answer as it arrives. It is read only for its usage.

    If it breaks off, an event stream ends with an error event; of any other answer, the client's connection is closed.
    """

    def __init__(
        self,
        stream: HttpStream,
        connection: AsyncExitStack,
        stopping: asyncio.Event,
        upstream: Upstream,
        reservation: Reservation,
        on_usage: Callable[[Usage], None] | None,
    ) -> None:
        super().__init__(status_code=stream.status, headers=get_response_headers(stream.headers) | upstream.header)
        length = [] if stream.length is None else [(b"content-length", str(stream.length).encode())]
        self.raw_headers = [header for header in self.raw_headers if header[0] != b"content-length"] + length
        self._stream = stream
        self._connection = connection
        self._stopping = stopping
        self._wire = upstream.wire
        self._reservation = reservation
        self._on_usage = on_usage
        is_read = on_usage is not None or reservation is not UNRESERVED
        self._usage = UsageListener(upstream, stream) if is_read else None
        self._ended = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        log_fields = scope["brimful"]
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            last = b""
            try:
                await run_until_disconnect(wait_for_disconnect(receive), self._stopping, self._pump(send))
            except (ApiError, ProviderError) as error:
                note_cut(log_fields, error)
                if not self._stream.is_event_stream:
                    return
                last = make_error_event(error, self._wire)
            await send({"type": "http.response.body", "body": last, "more_body": False})
        except ClientDisconnect:
            log_fields["cut_by"] = "client"
        finally:
            with suppress(BrimfulError):
                await self._connection.aclose()
            await self._settle()

    async def _pump(self, send: Send) -> None:
        async for chunk in self._stream.chunks:
            if self._usage is not None:
                self._usage.feed(chunk)
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        self._ended = True
        await self._settle()  # before the client knows that the answer has ended

    async def _settle(self) -> None:
        """Count what the answer used, for the client's limits and for the statistics."""
        if self._usage is not None:
            listener, self._usage = self._usage, None
            usage = await run_in_thread(listener.read) if listener.size > _LARGE else listener.read()
            if self._on_usage is not None and usage is not None and (usage.prompt or usage.completion):
                self._on_usage(usage)
            await asyncio.shield(self._reservation.settle(usage, is_complete=self._ended))


class UsageListener:
    """Finds the usage in an answer as it is forwarded: in a stream, in JSON, or at the end of long JSON."""

    def __init__(self, upstream: Upstream, stream: HttpStream) -> None:
        self._upstream = upstream
        listener = WholeEventListener if upstream.wire.whole_events else EdgeListener
        self._stream = listener(upstream.dialect, upstream.route) if stream.is_event_stream else None
        self._body = bytearray()
        self._is_long = False

    def feed(self, chunk: bytes) -> None:
        """Receive some bytes."""
        if self._stream is not None:
            self._stream.feed(chunk)
            return
        self._body += chunk
        self._is_long = self._is_long or len(self._body) > _MAX_READ_BYTES
        if self._is_long:
            del self._body[:-_END_BYTES]

    @property
    def size(self) -> int:
        """How many bytes `read` parses."""
        return len(self._body)

    def read(self) -> Usage | None:
        """Return the usage; None if there is none, or it is not found."""
        if self._stream is not None:
            reply = self._stream.reply()
            return reply.usage if reply else None
        try:
            return self._upstream.dialect.read(bytes(self._body), self._upstream.route).usage
        except ProviderError:  # not an answer in a conversation
            return self._read_field()

    def _read_field(self) -> Usage | None:
        end = b'{"usage"' + self._body.rpartition(b'"usage"')[2]
        try:
            data = decode_json(end if self._is_long else bytes(self._body))
        except ValueError:
            return None
        usage = data.get("usage") if isinstance(data, dict) else None
        return self._upstream.wire.read_usage(usage) if isinstance(usage, dict) else None


def find_kind(path: str) -> RequestKind | None:
    """Return what a forwarded request is for; None if what it costs cannot be counted.

    >>> find_kind("/v1/embeddings"), find_kind("/v1/completions"), find_kind("/v1/batches")
    ('other', 'completion', None)
    """
    return next((kind for kind, pattern in _KINDS.items() if pattern.fullmatch(path)), None)


def get_upstream_path(path: str, wire: Wire) -> str:
    """Return the path of a request at its upstream; reject one that could lead anywhere else.

    >>> from brimful.wires import find_wire
    >>> get_upstream_path("/v1/files/f1", find_wire("openai"))
    '/files/f1'
    >>> get_upstream_path("/v1/%2e%2e/admin", find_wire("openai"))
    Traceback (most recent call last):
    ...
    brimful.server.errors.ApiError: invalid path '/v1/%2e%2e/admin'
    """
    paths = get_paths(wire)
    inner = path.removeprefix(f"{paths.root}/")
    if inner == path or not _PATH.fullmatch(inner) or _leaves_its_folder(inner.removesuffix("/")):
        raise ApiError("not_found", f"invalid path {path[:80]!r}")
    return paths.at_upstream(path)


def _leaves_its_folder(path: str) -> bool:
    """Return whether a part of a path is empty, `.` or `..`, however it is encoded."""
    for _ in range(_MAX_ENCODED):
        path = unquote(path)
    parts = re.split(r"[/\\]", path)
    return not path.isprintable() or unquote(path) != path or any(part.strip() in ("", ".", "..") for part in parts)


async def _list_models(upstream: Upstream, headers: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return all models of an upstream, which may list them in pages."""
    rows: list[dict[str, Any]] = []
    query = f"?{upstream.wire.models_query}" if upstream.wire.models_query else ""
    path = _models_path(upstream.wire) + query
    for _ in range(_MAX_MODEL_PAGES):
        answer = await _get(upstream, path, headers)
        try:
            data = decode_json(answer.body)
        except ValueError:
            break
        listed = data.get("data") if isinstance(data, dict) else None
        rows += [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
        last = data.get("last_id") if isinstance(data, dict) and data.get("has_more") else None
        if not isinstance(last, str) or not query:
            break
        path = f"{_models_path(upstream.wire)}{query}&after_id={quote(last, safe='')}"
    return rows


async def _get(upstream: Upstream, path: str, headers: Mapping[str, str]) -> HttpResponse:
    with upstream_errors(upstream, runs_model=False):
        return await upstream.connection.get(path, headers=upstream.headers(headers))


def _refuse_web_socket(path: str) -> ApiError:
    """Return the error for a WebSocket. Codex sends its requests over HTTP at once if the status is 426."""
    if any(path in paths.completions for _, paths in served_wires()):
        message = "WebSocket connections are not supported: send the request over HTTP"
        return ApiError("invalid", message, status=_UPGRADE_REQUIRED, headers={"upgrade": "HTTP/1.1"})
    message = "WebSocket connections, such as those of the Realtime API, are not supported"
    return ApiError("invalid", message, status=_NOT_IMPLEMENTED)


def _get_wire(request: Request) -> Wire:
    return find_wire_by_path(request.scope["path"], request.headers)


def _models_path(wire: Wire) -> str:
    return get_paths(wire).at_upstream(f"{get_paths(wire).root}/models")


def _query(request: Request, upstream: Upstream) -> str:
    query = upstream.query(request.scope["query_string"].decode("latin-1").replace("#", "%23"))
    return f"?{query}" if query else ""


def _body_headers(headers: Mapping[str, str], body: bytes | Upload | None) -> dict[str, str]:
    """Return the headers that describe a body. An upload is forwarded as it is, compressed or not."""
    names: Iterable[str] = ("content-type",)
    if isinstance(body, Upload):
        names = ("content-type", "content-encoding", "content-length")
    return {name: headers[name] for name in names if name in headers}


def _model_name(body: Mapping[str, Any]) -> str:
    name = body.get("model")
    return name if isinstance(name, str) else ""


def _require_models(request: Request, client: Client, body: Mapping[str, Any]) -> None:
    """Reject a request of a key that does not allow one of its models.

    A request that runs a model which it does not name, such as that of a file, cannot be allowed.
    """
    if client.models is None:
        return
    models = [name for name in (_model_name(body), _model_in_path(request), *list_fallbacks(body)) if name]
    for model in models or ([""] if request.method in _BILLED_METHODS else []):
        require_model(client, model)


def _list_allowed(client: Client, answer: HttpResponse) -> Response:
    """Return a list of models as it came, but only with those that a key allows."""
    if client.models is None:
        return _unchanged(answer)
    try:
        data = decode_json(answer.body)
    except ValueError:
        data = None
    if not isinstance(data, dict):
        raise ApiError("upstream", "the upstream's list of models cannot be read")
    for field in ("data", "models"):
        if isinstance(rows := data.get(field), list):
            data[field] = [row for row in rows if isinstance(row, dict) and may_use_model(client, _listed_name(row))]
    headers = get_response_headers(answer.headers)
    return Response(msgspec.json.encode(data), status_code=answer.status, headers=headers)


def _listed_name(row: Mapping[str, Any]) -> str:
    """Return the name of a listed model, which is `id` for OpenAI, and `name` for Gemini and Ollama.

    >>> _listed_name({"id": "gpt-4o"}), _listed_name({"name": "models/gemini-2.5-pro"})
    ('gpt-4o', 'gemini-2.5-pro')
    """
    return str(row.get("id") or row.get("name")).removeprefix("models/")


def _model_in_path(request: Request) -> str:
    """Return the model of `DELETE /v1/models/{model}`, which has no body, or of Gemini's `/v1beta/models/{model}:…`."""
    match = _MODEL_PATH.fullmatch(request.scope["path"])
    if match is None or (match["root"] == "/v1" and request.method != "DELETE"):
        return ""
    return match["name"] if match["root"] == "/v1" else match["name"].partition(":")[0]


def _unchanged(answer: HttpResponse) -> Response:
    return Response(answer.body, status_code=answer.status, headers=get_response_headers(answer.headers))
