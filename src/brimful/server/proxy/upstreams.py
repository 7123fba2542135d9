"""Upstream servers: which one serves a model, its wire format, and the headers it receives."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Final
from urllib.parse import unquote

import msgspec

from brimful.errors import InvalidConfig, ProviderError
from brimful.providers import Connection, Dialect, HttpProvider, find_api_key, make_dialect
from brimful.providers.address import get_base_url, get_route, parse_address, remove_version
from brimful.providers.connection import HOP_BY_HOP_HEADERS, split_tokens
from brimful.providers.directory import find_server_by_url
from brimful.providers.server_counter import ServerCounter
from brimful.server.config import Config, ModeName, UpstreamConfig
from brimful.server.errors import ApiError
from brimful.stores.admin.api_keys import PREFIX, parse_api_key
from brimful.wires import Wire, find_wire
from brimful.wires.registry import served_wires
from brimful.wires.wire import WirePaths

UPSTREAM_HEADER: Final = "x-brimful-upstream"


_NOT_FORWARDED: Final = HOP_BY_HOP_HEADERS | {
    "accept-encoding",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "expect",
    "forwarded",
    "host",
    "if-modified-since",
    "if-none-match",
    "origin",
    "referer",
    "x-real-ip",
}
"""Client headers about the connection to us, the body as it came, caches, or the person who uses the client."""
_COMPATIBLE: Final = "openai"
_PRIVATE_PREFIXES: Final = ("x-brimful-", "x-forwarded-", "sec-")
_OWN_HEADERS: Final = ("date", "server")  # set by our own server
_INERT_TYPES: Final = ("application/json", "text/event-stream", "application/x-ndjson")  # browsers run none of them
_KEY_REFUSED: Final = 401
_KEY_HEADERS: Final = frozenset({"authorization", "x-api-key", "api-key", "x-goog-api-key"})


def get_paths(wire: Wire) -> WirePaths:
    """Return the paths of a wire format that the proxy serves."""
    if wire.paths is None:
        raise ApiError("not_found", f"the wire format {wire.name!r} is not served")
    return wire.paths


class Upstream(msgspec.Struct, frozen=True, kw_only=True):
    """One wire format of an upstream: its connection, the dialect of its answers, and what lets it count.

    If this server has no API key for it, `missing_key` is the environment variable for one.
    """

    config: UpstreamConfig
    wire: Wire
    connection: Connection
    dialect: Dialect
    counter: ServerCounter
    missing_key: str = ""

    @property
    def route(self) -> str:
        """The name under which calibrations and windows are stored."""
        return self.connection.route

    def requests_usage(self, mode: ModeName) -> bool:
        """Return whether to request the usage of streams on behalf of the client.

        As configured; by default if we write the request ourselves and the server is known to support it.
        """
        if self.config.request_usage is not None:
            return self.config.request_usage
        if mode != "remember":
            return False
        known = find_server_by_url(self.config.url)
        return known is not None and known.requests_usage

    def provider(self, client_headers: Mapping[str, str], trace_headers: Mapping[str, str]) -> HttpProvider:
        """Return a provider for requests that we write ourselves, with the client's API key if configured so."""
        forwarded = self.headers(client_headers) if self.config.authorization == "client" else {}
        keys = {name: value for name, value in forwarded.items() if name in _KEY_HEADERS}
        return HttpProvider(self.connection, self.dialect, headers=keys | dict(trace_headers))

    def headers(self, client_headers: Mapping[str, str]) -> dict[str, str]:
        """Return the client headers to forward. Our own API keys are never forwarded, in any header."""
        dropped = _NOT_FORWARDED | set(split_tokens(client_headers.get("connection", "")))
        if self.config.authorization == "server":
            dropped |= _KEY_HEADERS
        forwarded: dict[str, str] = {}
        for name, value in client_headers.items():  # a header may come several times
            if name not in dropped and not name.startswith(_PRIVATE_PREFIXES) and not _has_our_key(value):
                forwarded[name] = f"{forwarded[name]}, {value}" if name in forwarded else value
        return forwarded

    def query(self, client_query: str) -> str:
        """Return the client's query to forward, which may hold an API key as well."""
        parameters = [each for each in client_query.split("&") if each]
        return "&".join(each for each in parameters if not self._is_dropped_key(each))

    def _is_dropped_key(self, parameter: str) -> bool:
        name, _, value = parameter.partition("=")
        is_key = bool(name) and name == self.wire.key_parameter
        return is_key and (self.config.authorization == "server" or _has_our_key(unquote(value)))


def get_response_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of an upstream to forward. Pages that it sends must not run scripts on our origin."""
    forwarded = {name: value for name, value in headers.items() if name not in _OWN_HEADERS}
    is_inert = forwarded.get("content-type", "").lower().startswith(_INERT_TYPES)
    return forwarded if is_inert else forwarded | {"content-security-policy": "sandbox"}


@contextmanager
def upstream_errors(upstream: Upstream) -> Iterator[None]:
    """Context manager that prepares errors of an upstream for the client, and rewords those about our key."""
    try:
        yield
    except ProviderError as error:
        error.headers = get_response_headers(error.headers) if error.headers else {}
        if error.status != _KEY_REFUSED or upstream.config.authorization == "client":
            raise
        name, key = upstream.config.name, upstream.missing_key
        why = f"wants an API key, {describe_missing_key(key)}" if key else "rejected this server's API key"
        raise ApiError("upstream", f"the upstream {name!r} {why} ({error.status})") from None


def describe_missing_key(variable: str) -> str:
    """Return what to do about an API key that this server does not have."""
    return (
        f"but {variable} is not set, and the keys of clients are not forwarded: set it, "
        'or set authorization = "client" for this upstream in the configuration'
    )


def find_missing_keys(config: Config, environ: Mapping[str, str] | None = None) -> list[str]:
    """Return a warning for each upstream that is known to need an API key, if this server has none for it."""
    variables = os.environ if environ is None else environ
    return [
        f"the upstream {each.name!r} ({known.name}) needs an API key, {describe_missing_key(variable)}"
        for each in config.upstreams
        if (known := find_server_by_url(each.url)) is not None and known.keys
        if (variable := _missing_key(each, variables))
    ]


def _missing_key(config: UpstreamConfig, environ: Mapping[str, str]) -> str:
    """Return the variable to set, if no API key would be sent to an upstream: neither ours nor the client's."""
    key, variable = find_api_key(config.url, environ)
    has_key = key or config.key is not None or parse_address(config.url).auth
    return "" if has_key or config.authorization == "client" else variable


class Upstreams:
    """All upstreams. Belongs to the event loop in which it is first used."""

    def __init__(self, config: Config, *, file: str = "", environ: Mapping[str, str] | None = None) -> None:
        self._upstreams = [
            _make_upstream(each, wire, file, os.environ if environ is None else environ)
            for each in config.upstreams
            for wire in _wires(each)
        ]

    def of(self, wire: Wire) -> Sequence[Upstream]:
        """Return all upstreams of a wire format, in the order of the configuration."""
        return [upstream for upstream in self._upstreams if upstream.wire == wire]

    def find_any(self, model: str) -> Upstream | None:
        """Return the first upstream that serves a model, in any wire format that we write requests in."""
        written = (upstream for upstream in self._upstreams if upstream.wire.write is not None)
        return next((upstream for upstream in written if _serves_model(upstream.config, model)), None)

    def find(self, wire: Wire, model: str) -> Upstream:
        """Return the first upstream of a wire format that serves a model."""
        running = [upstream for upstream in self._upstreams if _serves_model(upstream.config, model)]
        found = next((upstream for upstream in running if upstream.wire == wire), None)
        if found is not None:
            return found
        if running:
            named = ", ".join(sorted({upstream.config.name for upstream in running}))
            others = ", ".join(sorted({upstream.wire.name for upstream in running}))
            raise ApiError(
                "not_found",
                f"no upstream serves the model {model!r} in the wire format {wire.name!r}: {named} only speaks "
                f"{others}, and requests are not translated",
                code="model_not_found",
                param="model",
            )
        raise self.not_served(model)

    def not_served(self, model: str) -> ApiError:
        """Return the error for a model that no upstream serves."""
        why = f"no upstream serves the model {model!r}" if self._upstreams else "this server has no upstreams"
        return ApiError("not_found", why, code="model_not_found", param="model")

    def choose(self, wire: Wire, model: str, name: str) -> Upstream:
        """Return the upstream of a request that need not name a model: by its model, by name, or the first one."""
        if model:
            return self.find(wire, model)
        upstreams = [each for each in self.of(wire) if name in ("", each.config.name)]
        if upstreams:
            return upstreams[0]
        if not name:
            why = (
                f"no upstream speaks the wire format {wire.name!r}"
                if self._upstreams
                else "this server has no upstreams"
            )
            raise ApiError("not_found", why)
        known = ", ".join(each.config.name for each in self.of(wire)) or "none"
        message = f"{UPSTREAM_HEADER}: no upstream {name[:80]!r} speaks {wire.name!r}; there are: {known}"
        raise ApiError("invalid", message, param=UPSTREAM_HEADER)

    async def close(self) -> None:
        """Close all connections."""
        for upstream in self._upstreams:
            await upstream.connection.close()


def _has_our_key(header: str) -> bool:
    return PREFIX in header and any(parse_api_key(word) is not None for word in re.split(r"[\s,;=\"]+", header))


def _serves_model(config: UpstreamConfig, model: str) -> bool:
    return any(fnmatchcase(model, pattern) for pattern in config.models)


def _wires(config: UpstreamConfig) -> Sequence[Wire]:
    """Return the configured wire formats, or else a known server's, or else all: llama.cpp speaks all of them."""
    if config.wires is not None:
        return [find_wire(name) for name in config.wires]
    known = find_server_by_url(config.url)
    if known is None:
        return [wire for wire, _ in served_wires()]
    wires = (_COMPATIBLE,) if _is_compatible(config.url) else (known.wire, *known.other_wires)
    return [wire for wire, _ in served_wires() if wire.provider in wires]


def _make_upstream(config: UpstreamConfig, wire: Wire, file: str, environ: Mapping[str, str]) -> Upstream:
    dialect = make_dialect(wire.name, config.url, key_header=config.key_header)
    key, variable = _find_key(config, file, environ)
    connection = Connection(
        _base_url(config.url, wire),
        headers=dialect.headers("" if config.authorization == "client" else key),
        route=f"{wire.name}:{get_route(config.url)}",
        limits=config.limits.to_limits(),
        key_name=variable,
    )
    counter = ServerCounter(connection, dialect)
    return Upstream(
        config=config,
        wire=wire,
        connection=connection,
        dialect=dialect,
        counter=counter,
        missing_key=_missing_key(config, environ),
    )


def _base_url(url: str, wire: Wire) -> str:
    """Return the base URL: it has the root of the paths of a wire format, unless those include it."""
    paths = get_paths(wire)
    base, mark, query = get_base_url(url, wire).partition("?")
    base = base.rstrip("/")
    is_bare = parse_address(url).url.partition("://")[2].count("/") == 0
    if is_bare or paths.has_one_version:
        base = remove_version(base) + ("" if paths.is_whole else paths.root)
    return f"{base}{mark}{query}"


def _is_compatible(url: str) -> bool:
    """Whether a URL is that of an API for OpenAI's clients, beside the server's own: `…/v1beta/openai`."""
    return parse_address(url).url.endswith(f"/{_COMPATIBLE}")


def _find_key(config: UpstreamConfig, file: str, environ: Mapping[str, str]) -> tuple[str, str]:
    if config.key is None:
        return find_api_key(config.url, environ)
    key = environ.get(config.key, "").strip()
    if not key and config.authorization == "server":
        raise InvalidConfig(file, f"upstreams.{config.name}.key", f"{config.key} is not set in the environment")
    return key, config.key
