"""The endpoints `/v1/chat/completions` and `/v1/messages`."""

from collections.abc import Callable, Mapping
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from brimful.render.incoming import IncomingWire
from brimful.server.background import BackgroundTasks
from brimful.server.config import ModeName
from brimful.server.endpoint import Handler, read_json_object
from brimful.server.errors import ApiError
from brimful.server.proxy.exchange import CONTEXT_HEADER, Mode, Relay
from brimful.server.proxy.request import Client, ProxyRequest
from brimful.server.proxy.stream import with_usage_requested
from brimful.server.proxy.upstreams import Upstreams

MODE_HEADER: Final = "x-brimful-mode"


class ChatEndpoints:
    """Reads requests for answers, and hands each to the mode that it asks for."""

    def __init__(
        self,
        modes: Mapping[ModeName, Mode],
        default: ModeName,
        *,
        upstreams: Upstreams,
        relay: Relay,
        tasks: BackgroundTasks,
        clock: Callable[[], float],
    ) -> None:
        """Take the modes by name."""
        self._modes = modes
        self._default: ModeName = default
        self._upstreams = upstreams
        self._relay = relay
        self._tasks = tasks
        self._clock = clock

    def endpoint(self, wire: IncomingWire) -> Handler:
        """Return what serves requests of a wire."""

        async def serve(request: Request, caller: Client, raw: bytes) -> Response:
            await self._tasks.room()
            name, mode = self._mode(request)
            body = await read_json_object(raw)
            model = body.get("model")
            if isinstance(model, str) and "\0" in model:
                raise ApiError("invalid", "model: has a null character, which no name may have", param="model")
            came = ProxyRequest(
                wire=wire,
                raw=raw,
                body=body,
                headers={name: _decode_header(value) for name, value in request.headers.items()},
                query=request.url.query,
                caller=caller,
                line=self._upstreams.find(wire, model if isinstance(model, str) else ""),
                at=self._clock(),
            )
            asked = with_usage_requested(came, name)
            noted = request.scope["brimful"]
            noted |= {"mode": name, "upstream": asked.line.upstream.name, "model": asked.model}
            response = await self._relay.answer(asked, mode)
            noted |= {"context": response.headers.get(CONTEXT_HEADER, ""), "stream": asked.streams}
            return response

        return serve

    def _mode(self, request: Request) -> tuple[ModeName, Mode]:
        wanted = request.headers.get(MODE_HEADER, self._default)
        for name, mode in self._modes.items():
            if name == wanted:
                return name, mode
        known = ", ".join(self._modes)
        raise ApiError("invalid", f"{MODE_HEADER}: must be one of {known}, not {wanted[:40]!r}", param=MODE_HEADER)


def _decode_header(value: str) -> str:
    """Return the value of a header as it was meant: in UTF-8, where its bytes are that, as the body's texts are.

    >>> _decode_header("Café".encode().decode("latin-1")), _decode_header("Café")
    ('Café', 'Café')
    """
    try:
        return value if value.isascii() else value.encode("latin-1").decode()
    except UnicodeError:
        return value
