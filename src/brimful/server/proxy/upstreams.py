"""Upstream servers: which one serves a model, its wire format, and the headers it receives."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from brimful.errors import InvalidConfig, ProviderError
from brimful.providers import Connection, Dialect, find_api_key, make_dialect
from brimful.providers.address import get_route, parse_address
from brimful.providers.directory import find_server_by_url
from brimful.render.incoming import IncomingWire
from brimful.server.config import Config, ModeName, UpstreamConfig
from brimful.server.errors import ApiError
from brimful.stores.admin.api_keys import parse_api_key

COMPLETION_PATHS: Final[dict[IncomingWire, str]] = {"openai": "/chat/completions", "anthropic": "/v1/messages"}
FORWARDED_HEADERS: Final = (
    "anthropic-beta",
    "anthropic-version",
    "http-referer",
    "idempotency-key",
    "openai-beta",
    "openai-organization",
    "openai-project",
    "x-client-request-id",
    "x-title",
)
"""Headers of a caller that reach the upstream. No other does."""
_KEY_REFUSED: Final = (401, 403)
_KEY_HEADERS: Final = ("authorization", "x-api-key")


class Upstream(msgspec.Struct, frozen=True, kw_only=True):
    """One wire of an upstream: how it is reached, and how its answers are read."""

    upstream: UpstreamConfig
    wire: IncomingWire
    connection: Connection
    dialect: Dialect

    @property
    def route(self) -> str:
        """The name under which counts and windows are learned."""
        return self.connection.route

    def asks_usage(self, mode: ModeName) -> bool:
        """Say whether a stream is asked for its usage in the caller's place.

        As the configuration says; else where we write the request ourselves, and the server is known to take it.
        """
        if self.upstream.ask_usage is not None:
            return self.upstream.ask_usage
        if mode != "remember":
            return False
        known = find_server_by_url(self.upstream.url)
        return known is not None and known.asks_usage

    def headers(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return what of a caller's headers goes along. A key to this server is for no other, wherever it stands."""
        names = FORWARDED_HEADERS + (_KEY_HEADERS if self.upstream.authorization == "caller" else ())
        return {name: given[name] for name in names if name in given and not _is_our_key(given[name])}


@contextmanager
def hide_own_key(line: Upstream) -> Iterator[None]:
    """Ask an upstream within this. What it says of a key that is not the caller's is not for the caller's ears."""
    try:
        yield
    except ProviderError as error:
        if error.status not in _KEY_REFUSED or line.upstream.authorization == "caller":
            raise
        name = line.upstream.name
        raise ApiError("upstream", f"the upstream {name!r} refused this server's own key ({error.status})") from None


class Upstreams:
    """All of them. Belongs to the event loop in which it is first used."""

    def __init__(self, config: Config, *, file: str = "", environ: Mapping[str, str] | None = None) -> None:
        """Prepare the connections; nothing is asked yet."""
        self._lines = [
            _make_upstream(upstream, wire, file, os.environ if environ is None else environ)
            for upstream in config.upstreams
            for wire in _wires(upstream)
        ]

    def of(self, wire: IncomingWire) -> Sequence[Upstream]:
        """Return all that speak a wire, in the order of the configuration."""
        return [line for line in self._lines if line.wire == wire]

    def find(self, wire: IncomingWire, model: str) -> Upstream:
        """Return the first that runs a model."""
        running = [line for line in self._lines if _serves_model(line.upstream, model)]
        found = next((line for line in running if line.wire == wire), None)
        if found is not None:
            return found
        if running:
            named = ", ".join(sorted({line.upstream.name for line in running}))
            others = ", ".join(sorted({line.wire for line in running}))
            raise ApiError(
                "unknown",
                f"no upstream speaks the wire {wire!r} for the model {model!r}: {named} speaks {others} only, and "
                "requests are not translated",
                code="model_not_found",
                param="model",
            )
        why = f"no upstream runs the model {model!r}" if self._lines else "this server has no upstream"
        raise ApiError("unknown", why, code="model_not_found", param="model")

    async def close(self) -> None:
        """Let go of all connections."""
        for line in self._lines:
            await line.connection.close()


def _is_our_key(header: str) -> bool:
    return any(parse_api_key(word) is not None for word in header.split())


def _serves_model(upstream: UpstreamConfig, model: str) -> bool:
    return any(fnmatchcase(model, pattern) for pattern in upstream.models)


def _wires(upstream: UpstreamConfig) -> Sequence[IncomingWire]:
    """Return what is said, else the wire of a server that is known, else both: llama.cpp and others speak both."""
    if upstream.wires is not None:
        return upstream.wires
    known = find_server_by_url(upstream.url)
    return [wire for wire in COMPLETION_PATHS if known is None or wire == known.wire]


def _make_upstream(upstream: UpstreamConfig, wire: IncomingWire, file: str, environ: Mapping[str, str]) -> Upstream:
    dialect = make_dialect(wire, upstream.url)
    key, variable = _find_key(upstream, file, environ)
    connection = Connection(
        _base_url(upstream.url, wire),
        headers=dialect.headers("" if upstream.authorization == "caller" else key),
        route=f"{wire}:{get_route(upstream.url)}",
        limits=upstream.limits.of_connection(),
        key_name=variable,
    )
    return Upstream(upstream=upstream, wire=wire, connection=connection, dialect=dialect)


def _base_url(url: str, wire: IncomingWire) -> str:
    """Return where paths begin: Anthropic's hold the version themselves, OpenAI's stand below it."""
    if wire == "anthropic":
        return re.sub(r"/v1/?$", "", url)
    bare = parse_address(url).url.partition("://")[2].count("/") == 0
    return f"{url.rstrip('/')}/v1" if bare else url


def _find_key(upstream: UpstreamConfig, file: str, environ: Mapping[str, str]) -> tuple[str, str]:
    if upstream.key is None:
        return find_api_key(upstream.url, environ)
    key = environ.get(upstream.key, "").strip()
    if not key and upstream.authorization == "key":
        raise InvalidConfig(file, f"upstreams.{upstream.name}.key", f"{upstream.key} is not set in the environment")
    return key, upstream.key
