"""One operation of the inspector API: path, schemas, required scope, and the parsing of its input."""

import re
from collections.abc import Awaitable, Callable, Mapping
from math import isfinite
from typing import Any, Final, Literal, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route

from brimful.core.validation import clean_text
from brimful.errors import UnknownRecord
from brimful.server import access
from brimful.server.access import Client, require_unbound
from brimful.server.endpoint import JSON, Endpoint, Gateway, Handler, read_json_object
from brimful.server.errors import ApiError, method_not_allowed
from brimful.server.inspector.queries import NoQuery

T = TypeVar("T", bound=msgspec.Struct)

StructType = type[msgspec.Struct]

UNSUPPORTED_MEDIA_TYPE: Final = 415
ROOT: Final = "/brimful/v1"
_FIELD_ERROR: Final = re.compile(r"Object (contains unknown|missing required) field `(.*)`")
EVENT_STREAM: Final = "text/event-stream"


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One call of an operation. `query` and `body` have the types that the operation declares."""

    client: Client
    path: dict[str, str]
    headers: Mapping[str, str]
    query: Any = None
    body: Any = None

    @property
    def tenant(self) -> str:
        return self.client.tenant

    def name(self, part: str = "id") -> str:
        """Return a path parameter. A name that no store could hold is not found."""
        named = self.path[part]
        if not named or "\0" in named or clean_text(named) != named:
            raise ApiError("not_found", f"{part} {named[:80]!r} not found", param=part)
        return named


async def read_call(
    request: Request, client: Client, raw: bytes, *, query: StructType, body: StructType | None
) -> Call:
    """Parse and validate the input of an operation."""
    return Call(
        client=client,
        path=dict(request.path_params),
        headers=request.headers,
        query=_convert(_query_values(request, query), query, strict=False),
        body=None if body is None else _convert(await _read_json(request, raw), body, strict=True),
    )


async def _read_json(request: Request, raw: bytes) -> dict[str, Any]:
    """Read a JSON body. Other content types are rejected: web pages can send those to any site without permission."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        raise ApiError("invalid", f"Content-Type: must be {JSON}", status=UNSUPPORTED_MEDIA_TYPE, param="Content-Type")
    return await read_json_object(raw)


def _query_values(request: Request, kind: StructType) -> dict[str, str]:
    """Return the query parameters without empty ones.

    Unknown names are rejected, since a misspelled filter would silently return something else.
    """
    known = kind.__struct_fields__
    for name in request.query_params:
        if name not in known:
            there = f"valid parameters are {', '.join(known)}" if known else "there are none"
            raise ApiError("invalid", f"{name[:80]}: unknown parameter; {there}", param=name[:80])
    return {name: value for name, value in request.query_params.items() if value != ""}


def _convert(values: dict[str, Any], kind: type[T], *, strict: bool) -> T:
    try:
        value = msgspec.convert(values, kind, strict=strict)
    except msgspec.ValidationError as error:
        field, reason = _describe_invalid(str(error), kind)
        raise ApiError("invalid", f"{field}: {reason}" if field else reason, param=field or None) from None
    for field, each in ({} if strict else msgspec.structs.asdict(value)).items():
        _check_value(field, each)
    return value


def _describe_invalid(message: str, kind: StructType) -> tuple[str, str]:
    """Return the field that an error of msgspec is about, and the reason."""
    reason, _, path = message.partition(" - at `$")
    field = path.rstrip("`").removeprefix(".")
    named = _FIELD_ERROR.fullmatch(reason)
    if named is None:
        return field, reason
    known = "" if field else f"; valid fields are {', '.join(kind.__struct_fields__)}"
    what = "required" if named[1] == "missing required" else f"unknown field{known}"
    return f"{field}.{named[2]}" if field else named[2], what


def _check_value(field: str, value: object) -> None:
    """Reject values that no store can look up."""
    if isinstance(value, str) and "\0" in value:
        raise ApiError("invalid", f"{field}: contains a null character", param=field)
    if isinstance(value, float) and not isfinite(value):
        raise ApiError("invalid", f"{field}: must be finite", param=field)


Method = Literal["GET", "POST", "PUT", "DELETE"]
OperationHandler = Callable[[Call], Awaitable[msgspec.Struct | Response]]
"""Handles a call and returns a value to encode as JSON, or a response."""


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """An operation of the API. `answer` is the schema of the response, None for streams and raw JSON.

    Path parameters may contain slashes if declared as `{id:path}`. `headers` maps the headers it uses to descriptions.
    With `streams`, a client may ask for server-sent events instead of `answer`.
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
    streams: bool = False

    @property
    def described_path(self) -> str:
        """The path in OpenAPI notation."""
        return ROOT + self.path.replace(":path}", "}")

    def route(self, answer: OperationHandler, gateway: Gateway) -> Route:
        endpoint = Endpoint(self.described_path, self._serve(answer, gateway), gateway, scope=self.scope)
        return Route(ROOT + self.path, endpoint, methods=[self.method])

    def _methods_below(self, request: Request) -> set[str]:
        """Return the methods of operations below this one that the path fits, since an id may contain slashes."""
        below = [each for each in request.app.routes if each.path.startswith(f"{ROOT}{self.path}/")]
        return {method for each in below if each.matches(request.scope)[0] is not Match.NONE for method in each.methods}

    def _serve(self, answer: OperationHandler, gateway: Gateway) -> Handler:
        async def serve(request: Request, client: Client, raw: bytes) -> Response:
            gateway.access.check_page(request.headers)
            require_unbound(client)
            call = await read_call(request, client, raw, query=self.query, body=self.body)
            try:
                result = await answer(call)
            except UnknownRecord:
                allowed = self._methods_below(request)
                if allowed:
                    raise method_not_allowed(request.url.path, request.method, allowed) from None
                raise
            if isinstance(result, Response):
                return result
            return Response(msgspec.json.encode(result), status_code=self.status, media_type=JSON)

        return serve
