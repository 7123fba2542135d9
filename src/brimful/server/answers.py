"""Endpoints that ask models: OpenAI's chat completions and Anthropic's messages."""

from collections.abc import Callable, Mapping
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from brimful.render.given import GivenWire
from brimful.server.asked import Asked, Caller
from brimful.server.bodies import read_object
from brimful.server.config import Mode as ModeName
from brimful.server.endpoint import Serve
from brimful.server.errors import Refusal
from brimful.server.mode import Mode
from brimful.server.relay import Relay
from brimful.server.relayed import CONTEXT_HEADER
from brimful.server.tasks import Tasks
from brimful.server.upstreams import Upstreams
from brimful.server.usage import asking_usage

MODE_HEADER: Final = "x-brimful-mode"


class Answers:
    """Reads requests for answers, and hands each to the mode that it asks for."""

    def __init__(
        self,
        modes: Mapping[ModeName, Mode],
        default: ModeName,
        *,
        upstreams: Upstreams,
        relay: Relay,
        tasks: Tasks,
        clock: Callable[[], float],
    ) -> None:
        """Take the modes by name."""
        self._modes = modes
        self._default: ModeName = default
        self._upstreams = upstreams
        self._relay = relay
        self._tasks = tasks
        self._clock = clock

    def endpoint(self, wire: GivenWire) -> Serve:
        """Return what serves requests of a wire."""

        async def serve(request: Request, caller: Caller, raw: bytes) -> Response:
            await self._tasks.room()
            name, mode = self._mode(request)
            body = await read_object(raw)
            model = body.get("model")
            if isinstance(model, str) and "\0" in model:
                raise Refusal("invalid", "model: has a null character, which no name may have", param="model")
            came = Asked(
                wire=wire,
                raw=raw,
                body=body,
                headers={name: _spelt(value) for name, value in request.headers.items()},
                query=request.url.query,
                caller=caller,
                line=self._upstreams.find(wire, model if isinstance(model, str) else ""),
                at=self._clock(),
            )
            asked = asking_usage(came, name)
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
        raise Refusal("invalid", f"{MODE_HEADER}: must be one of {known}, not {wanted[:40]!r}", param=MODE_HEADER)


def _spelt(value: str) -> str:
    """Return the value of a header as it was meant: in UTF-8, where its bytes are that, as the body's texts are.

    >>> _spelt("Café".encode().decode("latin-1")), _spelt("Café")
    ('Café', 'Café')
    """
    try:
        return value if value.isascii() else value.encode("latin-1").decode()
    except UnicodeError:
        return value
