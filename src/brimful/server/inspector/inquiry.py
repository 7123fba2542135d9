"""What is asked of the inspector: by whom, about what, with which query and which body, each checked once."""

from collections.abc import Mapping
from math import isfinite
from typing import Any, Final, TypeVar

import msgspec
from starlette.requests import Request

from brimful.core.content import clean_text
from brimful.server.asked import Caller
from brimful.server.bodies import read_object
from brimful.server.endpoint import JSON
from brimful.server.errors import Refusal

T = TypeVar("T", bound=msgspec.Struct)

Form = type[msgspec.Struct]

UNSUPPORTED: Final = 415


class Inquiry(msgspec.Struct, frozen=True, kw_only=True):
    """One question. `query` and `body` are of the types that its operation names; a body may be None."""

    caller: Caller
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
            raise Refusal("unknown", f"nothing has the {part} {named[:80]!r}", param=part)
        return named


async def read_inquiry(
    request: Request,
    caller: Caller,
    raw: bytes,
    *,
    query: Form,
    body: Form | None,
) -> Inquiry:
    """Read what is asked; refuse what is not of the form that it must have, by name."""
    return Inquiry(
        caller=caller,
        path=dict(request.path_params),
        headers=request.headers,
        query=_converted(_said(request, query), query, strict=False),
        body=None if body is None else _converted(await _object(request, raw), body, strict=True),
    )


async def _object(request: Request, raw: bytes) -> dict[str, Any]:
    """Read a body. One that does not say that it is JSON may come from another site's page: those need no leave."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        raise Refusal("invalid", f"Content-Type: must be {JSON}", status=UNSUPPORTED, param="Content-Type")
    return await read_object(raw)


def _said(request: Request, kind: Form) -> dict[str, str]:
    """Return the query; a name that is given without a value is not said.

    A name that means nothing is refused: who misspelled one would get the answer to another question.
    """
    known = kind.__struct_fields__
    for name in request.query_params:
        if name not in known:
            there = f"those of this question are {', '.join(known)}" if known else "this question has none"
            raise Refusal("invalid", f"{name[:80]}: there is no such parameter; {there}", param=name[:80])
    return {name: value for name, value in request.query_params.items() if value != ""}


def _converted(said: dict[str, Any], kind: type[T], *, strict: bool) -> T:
    try:
        converted = msgspec.convert(said, kind, strict=strict)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$.")
        field = path.rstrip("`")
        raise Refusal("invalid", f"{field}: {reason}" if field else reason, param=field or None) from None
    for field, value in ({} if strict else msgspec.structs.asdict(converted)).items():
        _check_plain(field, value)
    return converted


def _check_plain(field: str, value: object) -> None:
    """Refuse what no store could look for."""
    if isinstance(value, str) and "\0" in value:
        raise Refusal("invalid", f"{field}: has a null character", param=field)
    if isinstance(value, float) and not isfinite(value):
        raise Refusal("invalid", f"{field}: must be a number that is finite", param=field)
