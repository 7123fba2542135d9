"""The endpoints of chat completions, Anthropic's messages, OpenAI's responses, Gemini's contents and Ollama's chat."""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from brimful.server.access import Client
from brimful.server.background import BackgroundTasks
from brimful.server.config import ModeName
from brimful.server.endpoint import Handler, read_json_object
from brimful.server.errors import ApiError
from brimful.server.proxy.exchange import CONTEXT_HEADER, Mode, Relay
from brimful.server.proxy.request import ProxyRequest
from brimful.server.proxy.stream import with_usage_requested
from brimful.server.proxy.upstreams import Upstreams, get_paths
from brimful.wires import Wire

MODE_HEADER: Final = "x-brimful-mode"
NOTICE_HEADER: Final = "x-brimful-notice"


class ChatEndpoints:
    """Parses requests and passes each to its mode."""

    def __init__(
        self,
        modes: Mapping[ModeName, Mode],
        default: ModeName,
        *,
        upstreams: Upstreams,
        relay: Relay,
        forward: Handler,
        tasks: BackgroundTasks,
        clock: Callable[[], float],
    ) -> None:
        self._modes = modes
        self._default: ModeName = default
        self._upstreams = upstreams
        self._relay = relay
        self._forward = forward
        self._tasks = tasks
        self._clock = clock

    def endpoint(self, wire: Wire) -> Handler:
        """Return the handler for a wire format."""

        async def serve(request: Request, client: Client, raw: bytes) -> Response:
            await self._tasks.wait_for_capacity()
            name, mode = self._mode(request)
            body = await read_json_object(raw)
            if field := wire.find_state(body):
                return await self._pass_on(request, client, raw, field)
            model, streams = wire.read_call(request.scope["path"], request.path_params, body)
            if "\0" in model:
                raise ApiError("invalid", "model: contains a null character", param="model")
            upstream = self._upstreams.find(wire, model)
            query = upstream.query(request.url.query)
            incoming = ProxyRequest(
                wire=wire,
                path=get_paths(wire).at_upstream(request.scope["raw_path"].decode("latin-1")),
                model=model,
                streams=streams,
                in_array=wire.streams_arrays and streams and "alt=sse" not in query.split("&"),
                raw=raw,
                body=body,
                headers={name: _decode_header(value) for name, value in request.headers.items()},
                forwarded=upstream.headers(request.headers),
                query=query,
                client=client,
                upstream=upstream,
                at=self._clock(),
            )
            proxied = with_usage_requested(_with_window(incoming), name)
            log_fields = request.scope["brimful"]
            log_fields |= {"mode": name, "upstream": proxied.upstream.config.name, "model": proxied.model}
            response = await self._relay.answer(proxied, mode)
            log_fields |= {"context": response.headers.get(CONTEXT_HEADER, ""), "stream": proxied.streams}
            return response

        return serve

    async def _pass_on(self, request: Request, client: Client, raw: bytes, field: str) -> Response:
        """Forward a request that cannot be counted, because its provider adds to it what only the provider has."""
        response = await self._forward(request, client, raw)
        response.headers[NOTICE_HEADER] = f"sent as it is, because of {field}"
        return response

    def _mode(self, request: Request) -> tuple[ModeName, Mode]:
        requested = request.headers.get(MODE_HEADER, self._default)
        for name, mode in self._modes.items():
            if name == requested:
                return name, mode
        known = ", ".join(self._modes)
        raise ApiError("invalid", f"{MODE_HEADER}: must be one of {known}, not {requested[:40]!r}", param=MODE_HEADER)


def _with_window(request: ProxyRequest) -> ProxyRequest:
    """Return a request that asks for the configured window, if its server would use a smaller one otherwise."""
    window = request.upstream.config.window
    body = request.body if window is None else request.wire.write_window(request.body, window)
    return (
        request if body is request.body else msgspec.structs.replace(request, body=body, raw=msgspec.json.encode(body))
    )


def _decode_header(value: str) -> str:
    """Decode a header as UTF-8 if possible.

    >>> _decode_header("Café".encode().decode("latin-1")), _decode_header("Café")
    ('Café', 'Café')
    """
    try:
        return value if value.isascii() else value.encode("latin-1").decode()
    except UnicodeError:
        return value
