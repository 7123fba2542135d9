"""Upstream servers: which ones serve a model, whether they answer, their wire formats, and the headers they receive."""

import logging
import os
import re
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import quote, unquote

import msgspec

from brimful.core.model import ModelInfo
from brimful.errors import InvalidConfig, InvalidValue, ProviderError, ProviderTimeout, ProviderUnavailable
from brimful.models.registry import Registry
from brimful.private_files import find_secret, read_secret
from brimful.providers import Connection, Dialect, HttpProvider, HttpStream, find_api_key, make_dialect
from brimful.providers.address import get_base_url, get_route, parse_address, remove_version
from brimful.providers.connection import HOP_BY_HOP_HEADERS, Body, ignore_sent, split_tokens
from brimful.providers.directory import find_server_by_url
from brimful.providers.server_counter import ServerCounter
from brimful.server.config import ANY_MODEL, Config, ModeName, UpstreamConfig
from brimful.server.errors import ApiError
from brimful.stores.admin.api_keys import PREFIX, parse_api_key
from brimful.wires import Wire, find_wire
from brimful.wires.registry import default_wire, served_wires
from brimful.wires.wire import WirePaths

_log = logging.getLogger("brimful.server")
UPSTREAM_HEADER: Final = "x-brimful-upstream"
UpstreamState = Literal["answers", "rests", "fails", "untried"]
"""What the last request to an upstream showed. One that `rests` asked to be left alone for a while."""

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
_PRIVATE_PREFIXES: Final = ("x-brimful-", "x-forwarded-", "sec-")
_OWN_HEADERS: Final = ("date", "server")  # set by our own server
_INERT_TYPES: Final = ("application/json", "text/event-stream", "application/x-ndjson")  # browsers run none of them
_KEY_REFUSED: Final = 401
_BUSY_STATUSES: Final = (408, 429)  # the server works, but not for this request
_SERVER_ERROR: Final = 500  # and above
_NOT_IMPLEMENTED: Final = 501  # an answer: the server works, but does not have this
_DOWN_AFTER: Final = 3  # failures in a row
_MAX_COOLDOWN: Final = 3_600.0  # seconds, whatever an upstream asks for
_HEADER_CHARACTERS: Final = "!#$&'()*+,/:;=?@[] "  # beside letters, digits and _.-~
_KEY_HEADERS: Final = frozenset({"authorization", "x-api-key", "api-key", "x-goog-api-key"})


def get_paths(wire: Wire) -> WirePaths:
    """Return the paths of a wire format that the proxy serves."""
    if wire.paths is None:
        raise ApiError("not_found", f"the wire format {wire.name!r} is not served")
    return wire.paths


class Health:
    """Whether an upstream answers, as its last requests showed. After a failure, it rests for some seconds."""

    def __init__(self, cooldown: float, clock: Callable[[], float]) -> None:
        self._cooldown = cooldown
        self._clock = clock
        self._rests_until = 0.0
        self._failures: int | None = None  # in a row

    @property
    def state(self) -> UpstreamState:
        """What its last request showed."""
        if self._failures is None:
            return "untried"
        if self._failures:
            return "fails"
        return "rests" if self.is_resting else "answers"

    @property
    def is_resting(self) -> bool:
        """Whether other upstreams are tried first."""
        return self._clock() < self._rests_until

    @property
    def is_down(self) -> bool:
        """Whether it rests and failed several times in a row: one failure may be due to its request."""
        return self.is_resting and (self._failures or 0) >= _DOWN_AFTER

    def note_answer(self) -> None:
        self._failures, self._rests_until = 0, 0.0

    def note_outage(self, error: ProviderError) -> None:
        """Let the upstream rest, for as long as it asks for if it does. One that is only busy has not failed."""
        wait = error.retry_after if isinstance(error, ProviderUnavailable) else None
        self._failures = 0 if error.status in _BUSY_STATUSES else (self._failures or 0) + 1
        self._rests_until = self._clock() + (self._cooldown if wait is None else min(wait, _MAX_COOLDOWN))


def is_outage(error: ProviderError) -> bool:
    """Return whether another server may answer a request: this one cannot be reached, is overloaded, or fails.

    >>> is_outage(ProviderError("r", "answered 400", status=400)), is_outage(ProviderUnavailable("r", "no connection"))
    (False, True)
    """
    if error.status is None:
        return isinstance(error, ProviderUnavailable)
    return error.status in _BUSY_STATUSES or (error.status >= _SERVER_ERROR and error.status != _NOT_IMPLEMENTED)


def describe_outage(error: ProviderError) -> str:
    """Return what went wrong, without the words of the upstream, which may quote content."""
    if error.status is not None:
        return f"answered {error.status}"
    return "took too long" if isinstance(error, ProviderTimeout) else "could not be reached, or broke off"


def log_next_attempt(failed: "Upstream", error: ProviderError) -> None:
    _log.warning("the upstream %r %s; trying the next", failed.config.name, describe_outage(error))


class Upstream(msgspec.Struct, frozen=True, kw_only=True):
    """One wire format of an upstream: its connection, the dialect of its answers, and what lets it count.

    If this server has no API key for it, `missing_key` is the environment variable for one. Its wire formats share
    their `health`.
    """

    config: UpstreamConfig
    health: Health
    wire: Wire
    connection: Connection
    dialect: Dialect
    counter: ServerCounter
    missing_key: str = ""

    @property
    def route(self) -> str:
        """The name under which calibrations and windows are stored."""
        return self.connection.route

    @property
    def header(self) -> dict[str, str]:
        """The header that names it in answers."""
        return {UPSTREAM_HEADER: quote(self.config.name, safe=_HEADER_CHARACTERS)}

    def rename(self, path: str, body: dict[str, Any], raw: bytes, model: str) -> tuple[str, dict[str, Any], bytes]:
        """Return the path and the body of a request with this upstream's own name for a model."""
        name = self.config.rename.get(model, model)
        if name == model:
            return path, body, raw
        path, renamed = self.wire.write_model(path, body, name)
        return path, renamed, raw if renamed is body else msgspec.json.encode(renamed)

    def resolve(self, registry: Registry, name: str) -> ModelInfo:
        """Return a model by this upstream's own name for it; if that says nothing, by the name that clients use."""
        if self.config.like is not None:
            return registry.resolve(self.config.like)
        names = (name, *(each for each, own in self.config.rename.items() if own == name))
        found = [registry.resolve(each) for each in names]
        return next((each for each in found if each.known), found[0])

    def with_maker(self, model: ModelInfo) -> ModelInfo:
        """Return a model for the price list, in which this server may have models that the registry does not know."""
        server = None if model.known else find_server_by_url(self.config.url)
        return model if server is None else msgspec.structs.replace(model, provider=(*server.makers, server.name)[0])

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        body: Body,
        *,
        method: str = "POST",
        headers: Mapping[str, str],
        on_sent: Callable[[], None] = ignore_sent,
        runs_model: bool = True,
    ) -> AsyncGenerator[HttpStream, None]:
        """Send a request, and yield the response as it arrives; its errors are prepared for the client."""
        with upstream_errors(self, runs_model=runs_model):
            async with self.connection.stream(path, body, method=method, headers=headers, on_sent=on_sent) as stream:
                yield stream

    def requests_usage(self, mode: ModeName, *, is_limited: bool = False) -> bool:
        """Return whether to request the usage of streams on behalf of the client.

        As configured; by default if we write the request ourselves and the server is known to support it, or if a limit
        applies to the tokens of the client and the server is not known to reject it.
        """
        if self.config.request_usage is not None:
            return self.config.request_usage
        if is_limited:
            server = find_server_by_url(self.config.url)
            return server is None or server.requests_usage
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
def upstream_errors(upstream: Upstream, *, runs_model: bool = True) -> Iterator[None]:
    """Context manager that notes whether an upstream answers, and prepares its errors for the client.

    A list of models may still come while no model answers, so a request that does not run one ends no rest. Errors
    about our own key are reworded.
    """
    try:
        yield
    except ProviderError as error:
        is_about_client = upstream.config.authorization == "client" and error.status in _BUSY_STATUSES
        if is_outage(error):
            if not is_about_client:  # another client's key may be answered
                upstream.health.note_outage(error)
        elif error.status is not None and runs_model:
            upstream.health.note_answer()
        error.headers = get_response_headers(error.headers) if error.headers else {}
        if error.status != _KEY_REFUSED or upstream.config.authorization == "client":
            raise
        name, key = upstream.config.name, upstream.missing_key
        why = f"wants an API key, {describe_missing_key(key)}" if key else "rejected this server's API key"
        raise ApiError("upstream", f"the upstream {name!r} {why} ({error.status})") from None
    else:
        if runs_model:
            upstream.health.note_answer()


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
    has_key = key or config.key is not None or config.key_file is not None or parse_address(config.url).auth
    return "" if has_key or config.authorization == "client" else variable


class Upstreams:
    """All upstreams. Belongs to the event loop in which it is first used."""

    def __init__(
        self,
        config: Config,
        *,
        file: str = "",
        environ: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        variables = os.environ if environ is None else environ
        self._health = {each.name: Health(each.cooldown, clock) for each in config.upstreams}
        self._upstreams = [
            _make_upstream(each, wire, self._health[each.name], file, variables)
            for each in config.upstreams
            for wire in _wires(each)
        ]

    @property
    def states(self) -> dict[str, UpstreamState]:
        """Whether each upstream answered its last request, by name."""
        return {name: health.state for name, health in self._health.items()}

    @property
    def availability(self) -> dict[str, int]:
        """For each upstream, by name: 1 if it is tried in its turn, 0 if it rests."""
        return {name: int(not health.is_resting) for name, health in self._health.items()}

    @property
    def are_down(self) -> bool:
        """Whether there are upstreams and none of them answers."""
        return bool(self._health) and all(health.is_down for health in self._health.values())

    def of(self, wire: Wire) -> Sequence[Upstream]:
        """Return all upstreams of a wire format, in the order of the configuration."""
        return [upstream for upstream in self._upstreams if upstream.wire == wire]

    def list_written(self) -> list[Upstream]:
        """Return each upstream once, in a wire format that we write requests in."""
        written = [each for each in self._upstreams if each.wire.write is not None]
        return list({each.config.name: each for each in reversed(written)}.values())[::-1]

    def find_any(self, model: str) -> Upstream | None:
        """Return the upstream to try first for a model, in any wire format that we write requests in."""
        written = [
            each for each in self._upstreams if each.wire.write is not None and _serves_model(each.config, model)
        ]
        return next(iter(_order(written, model)), None)

    def find(self, wire: Wire, model: str) -> Upstream:
        """Return the upstream of a wire format to try first for a model."""
        return self.find_all(wire, model)[0]

    def find_all(self, wire: Wire, model: str) -> list[Upstream]:
        """Return the upstreams of a wire format that serve a model, in the order in which to try them."""
        running = [upstream for upstream in self._upstreams if _serves_model(upstream.config, model)]
        found = _order([upstream for upstream in running if upstream.wire == wire], model)
        if found:
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

    def choose(self, wire: Wire, model: str, name: str) -> list[Upstream]:
        """Return the upstreams to try with a request that need not name a model.

        These are the upstreams of its model, or else the one with a name, or the first one.
        """
        if model:
            return self.find_all(wire, model)
        upstreams = [each for each in self.of(wire) if name in ("", each.config.name)]
        if upstreams:
            return upstreams[:1]
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


def _order(upstreams: Sequence[Upstream], model: str) -> list[Upstream]:
    """Return the first upstream and those that may stand in for it; the ones that failed just now come last.

    One that serves just any model, maybe another than it is asked for, stands in only for one of its kind. The key of a
    client is for one upstream only.
    """
    first = next(iter(upstreams), None)
    others = [
        each
        for each in upstreams[1:]
        if first is not None
        and "client" not in (first.config.authorization, each.config.authorization)
        and _names_model(each.config, model) >= _names_model(first.config, model)
    ]
    return sorted([*upstreams[:1], *others], key=lambda each: each.health.is_resting)


def _names_model(config: UpstreamConfig, model: str) -> bool:
    return any(fnmatchcase(model, pattern) for pattern in config.models if pattern != ANY_MODEL)


def _wires(config: UpstreamConfig) -> Sequence[Wire]:
    """Return the configured wire formats, or else a known server's, or else all: llama.cpp speaks all of them."""
    if config.wires is not None:
        return [find_wire(name) for name in config.wires]
    known = find_server_by_url(config.url)
    if known is None:
        return [wire for wire, _ in served_wires()]
    wires = (default_wire().provider,) if _is_compatible(config.url) else (known.wire, *known.other_wires)
    return [wire for wire, _ in served_wires() if wire.provider in wires]


def _make_upstream(
    config: UpstreamConfig, wire: Wire, health: Health, file: str, environ: Mapping[str, str]
) -> Upstream:
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
        health=health,
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
    return parse_address(url).url.endswith(f"/{default_wire().provider}")


def _find_key(config: UpstreamConfig, file: str, environ: Mapping[str, str]) -> tuple[str, str]:
    try:
        if config.key_file is not None:
            return read_secret(Path(file).parent / config.key_file, "key_file"), config.key_file
        if config.key is None:
            return find_api_key(config.url, environ)
        key = find_secret(environ, config.key)
    except InvalidValue as error:
        raise InvalidConfig(file, f"upstreams.{config.name}.{error.field}", error.reason) from None
    if not key and config.authorization == "server":
        raise InvalidConfig(file, f"upstreams.{config.name}.key", f"{config.key} is not set in the environment")
    return key, config.key
