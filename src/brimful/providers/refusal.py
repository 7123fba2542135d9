"""An answer that is none → the error that says so."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from brimful.errors import ContextOverflow, ProviderError, ProviderUnavailable
from brimful.providers.overflow import overflow_in
from brimful.providers.said import Said, read_error

_SHOWN: Final = 300  # characters of what a server says
_SPENT: Final = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})
"""Words for an empty account: a 429 that no waiting mends."""

_PASSING: Final = frozenset(
    {
        "api_error",
        "engine_overloaded_error",
        "internal_server_error",
        "overloaded_error",
        "rate_limit_error",
        "rate_limit_exceeded",
        "server_error",
        "timeout_error",
        "unavailable_error",
        "INTERNAL",
        "RESOURCE_EXHAUSTED",
        "UNAVAILABLE",
    }
)
"""Words for a trouble that passes, where an error stands in a stream and has no status."""

_SHORTEST_SECRET: Final = 8  # characters; what is given for a key to a server without one may be any word
_SECRET_HEADERS: Final = ("authorization", "x-api-key", "x-goog-api-key", "api-key")
_DELAY: Final = re.compile(r'"retryDelay":\s*"(\d+(?:\.\d+)?)s"')  # Google tells the wait in the body


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Who was asked: the route, the name of the key's variable, and the secrets that no message may show."""

    route: str
    key_name: str = ""
    secrets: tuple[str, ...] = ()


def refusal(asked: Asked, status: int | None, body: bytes, *, retry_after: float | None = None) -> ProviderError:
    """Return the error for a body that came with this status, or within a stream (None).

    >>> error = refusal(Asked(route="r"), 401, b'{"error": {"message": "no such key"}}')
    >>> print(error)
    r: answered 401 (check the key): no such key
    """
    body = _without(body, asked.secrets)
    said = read_error(body)
    status = said.code if status is None else status
    reason = f"answered {_spoken(status, asked)}: {shown(said.message) or 'nothing more'}"
    overflow = overflow_in(said, status)
    if overflow is not None:
        numbers = msgspec.structs.asdict(overflow)
        return ContextOverflow(asked.route, reason, status=status, body=body, **numbers)
    if _passes(status, said):
        wait = retry_after if retry_after is not None else _delay(body)
        return ProviderUnavailable(asked.route, reason, status=status, body=body, retry_after=wait)
    return ProviderError(asked.route, reason, status=status, body=body)


def secrets_in(headers: Mapping[str, str]) -> tuple[str, ...]:
    """Return what must not be shown of the headers of a request.

    >>> secrets_in({"Authorization": "Bearer sk-1", "accept": "*/*"})
    ('sk-1',)
    """
    values = (value for name, value in headers.items() if name.lower() in _SECRET_HEADERS)
    return tuple(value.rpartition(" ")[2] for value in values)


def shown(text: str) -> str:
    """Return as much of a server's words as a line can hold."""
    return " ".join(text.split())[:_SHOWN]


def _without(body: bytes, secrets: Iterable[str]) -> bytes:
    """Take the secrets out, for some servers repeat the key that they refuse."""
    for secret in secrets:
        if len(secret) >= _SHORTEST_SECRET:
            body = body.replace(secret.encode(), "…".encode())
    return body


def _spoken(status: int | None, asked: Asked) -> str:
    match status:
        case None:
            return "with an error"
        case 401 | 403:
            return f"{status} (check the key{': ' if asked.key_name else ''}{asked.key_name})"
        case status if 300 <= status < 400:  # noqa: PLR2004 - redirections
            return f"{status} (the address leads elsewhere: give the one that it leads to)"
        case 404:
            return "404 (check the model's name and the address)"
        case _:
            return str(status)


def _passes(status: int | None, said: Said) -> bool:
    if said.kinds & _SPENT:
        return False
    if status is None:
        return bool(said.kinds & _PASSING)
    return status in (408, 409, 425, 429) or status >= 500  # noqa: PLR2004 - the server's own errors


def _delay(body: bytes) -> float | None:
    found = _DELAY.search(body.decode(errors="replace")) if b"retryDelay" in body else None
    return float(found[1]) if found else None
