"""One operation of the inspector: where it is, what it takes, what it gives, and what a key must allow for it."""

from collections.abc import Awaitable, Callable
from typing import Final, Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from brimful.server import access
from brimful.server.asked import Caller
from brimful.server.endpoint import JSON, Door, Endpoint, Serve
from brimful.server.inspector.inquiry import Inquiry, read_inquiry
from brimful.server.inspector.queries import NoQuery
from brimful.server.origin import want_own_page

ROOT: Final = "/brimful/v1"
EVENT_STREAM: Final = "text/event-stream"

Method = Literal["GET", "POST", "PUT", "DELETE"]
Answer = Callable[[Inquiry], Awaitable[msgspec.Struct | Response]]
"""Answers a question: with a value that is told as JSON, or with a response of its own."""


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """What may be asked at a path below the root. `answer` is the form of the answer, None for a stream or a request.

    Names in the path may hold slashes where it says so (`{id:path}`). `headers` are those that it heeds, and what they
    say.
    """

    method: Method
    path: str
    summary: str
    scope: access.Scope
    answer: type[msgspec.Struct] | None = None
    query: type[msgspec.Struct] = NoQuery
    body: type[msgspec.Struct] | None = None
    media: str = JSON
    status: int = 200
    headers: dict[str, str] = {}

    @property
    def described_path(self) -> str:
        """Its path as a description has it."""
        return ROOT + self.path.replace(":path}", "}")

    def route(self, answer: Answer, door: Door, *, keyed: bool) -> Route:
        """Return the route that serves it; `keyed` says that callers need keys."""
        endpoint = Endpoint(self.described_path, self._serve(answer, keyed=keyed), door, scope=self.scope)
        return Route(ROOT + self.path, endpoint, methods=[self.method])

    def _serve(self, answer: Answer, *, keyed: bool) -> Serve:
        async def serve(request: Request, caller: Caller, raw: bytes) -> Response:
            if not keyed:
                want_own_page(request.headers)
            told = await answer(await read_inquiry(request, caller, raw, query=self.query, body=self.body))
            if isinstance(told, Response):
                return told
            return Response(msgspec.json.encode(told), status_code=self.status, media_type=JSON)

        return serve
