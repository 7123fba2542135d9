"""One operation of the inspector API: path, schemas, required scope, and the parsing of its input."""

from collections.abc import Awaitable, Callable, Mapping
from math import isfinite
from typing import Any, Final, Literal, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from brimful.core.content import clean_text
from brimful.server import access
from brimful.server.access import require_same_origin
from brimful.server.endpoint import JSON, Endpoint, Gateway, Handler, read_json_object
from brimful.server.errors import ApiError
from brimful.server.inspector.queries import NoQuery
from brimful.server.proxy.request import Client

T = TypeVar("T", bound=msgspec.Struct)

StructType = type[msgspec.Struct]

UNSUPPORTED_MEDIA_TYPE: Final = 415


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One question. `query` and `body` are of the types that its operation names; a body may be None."""

    caller: Client
    path: dict[str, str]
    headers: Mapping[str, str]
    query: Any = None
    body: Any = None

    @property
    def tenant(self) -> str:
        """Whose records are meant."""
        return self.caller.tenant

    def name(self, part: str = "id") -> str:
        """Return a name that stands in the path. What no store could hold is known to nobody."""
        named = self.path[part]
        if not named or "\0" in named or clean_text(named) != named:
            raise ApiError("unknown", f"nothing has the {part} {named[:80]!r}", param=part)
        return named


async def read_call(
    request: Request,
    caller: Client,
    raw: bytes,
    *,
    query: StructType,
    body: StructType | None,
) -> Call:
    """Read what is asked; refuse what is not of the form that it must have, by name."""
    return Call(
        caller=caller,
        path=dict(request.path_params),
        headers=request.headers,
        query=_convert(_query_values(request, query), query, strict=False),
        body=None if body is None else _convert(await _read_json(request, raw), body, strict=True),
    )


async def _read_json(request: Request, raw: bytes) -> dict[str, Any]:
    """Read a body. One that does not say that it is JSON may come from another site's page: those need no leave."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        raise ApiError("invalid", f"Content-Type: must be {JSON}", status=UNSUPPORTED_MEDIA_TYPE, param="Content-Type")
    return await read_json_object(raw)


def _query_values(request: Request, kind: StructType) -> dict[str, str]:
    """Return the query; a name that is given without a value is not said.

    A name that means nothing is refused: who misspelled one would get the answer to another question.
    """
    known = kind.__struct_fields__
    for name in request.query_params:
        if name not in known:
            there = f"those of this question are {', '.join(known)}" if known else "this question has none"
            raise ApiError("invalid", f"{name[:80]}: there is no such parameter; {there}", param=name[:80])
    return {name: value for name, value in request.query_params.items() if value != ""}


def _convert(said: dict[str, Any], kind: type[T], *, strict: bool) -> T:
    try:
        converted = msgspec.convert(said, kind, strict=strict)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$.")
        field = path.rstrip("`")
        raise ApiError("invalid", f"{field}: {reason}" if field else reason, param=field or None) from None
    for field, value in ({} if strict else msgspec.structs.asdict(converted)).items():
        _check_value(field, value)
    return converted


def _check_value(field: str, value: object) -> None:
    """Refuse what no store could look for."""
    if isinstance(value, str) and "\0" in value:
        raise ApiError("invalid", f"{field}: has a null character", param=field)
    if isinstance(value, float) and not isfinite(value):
        raise ApiError("invalid", f"{field}: must be a number that is finite", param=field)


ROOT: Final = "/brimful/v1"
EVENT_STREAM: Final = "text/event-stream"

Method = Literal["GET", "POST", "PUT", "DELETE"]
OperationHandler = Callable[[Call], Awaitable[msgspec.Struct | Response]]
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

    def route(self, answer: OperationHandler, door: Gateway, *, keyed: bool) -> Route:
        """Return the route that serves it; `keyed` says that callers need keys."""
        endpoint = Endpoint(self.described_path, self._serve(answer, keyed=keyed), door, scope=self.scope)
        return Route(ROOT + self.path, endpoint, methods=[self.method])

    def _serve(self, answer: OperationHandler, *, keyed: bool) -> Handler:
        async def serve(request: Request, caller: Client, raw: bytes) -> Response:
            if not keyed:
                require_same_origin(request.headers)
            told = await answer(await read_call(request, caller, raw, query=self.query, body=self.body))
            if isinstance(told, Response):
                return told
            return Response(msgspec.json.encode(told), status_code=self.status, media_type=JSON)

        return serve
