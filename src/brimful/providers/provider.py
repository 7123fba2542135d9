"""A provider over HTTP, and how to get one from a name, a URL or a model."""

import os
import re
from collections.abc import AsyncGenerator, Mapping
from typing import Final

from brimful.core.model import ModelInfo
from brimful.core.prompt import Request
from brimful.errors import InvalidValue
from brimful.private_files import find_secret
from brimful.protocols import Provider
from brimful.providers.address import get_base_url, get_route, hide_credentials, parse_address
from brimful.providers.connection import Connection, HttpStream, Limits
from brimful.providers.directory import (
    DEFAULT_KEY_VARIABLE,
    KNOWN_SERVERS,
    OTHER_HOST_PREFIXES,
    KnownServer,
    find_local_server,
    find_server_by_maker,
    find_server_by_prefix,
    find_server_by_url,
    split_model_name,
)
from brimful.providers.server_counter import ServerCounter
from brimful.records.reply import Reply, ReplyChunk
from brimful.wires import find_wire
from brimful.wires.dialect import Dialect
from brimful.wires.registry import DEFAULT_WIRE, all_wires
from brimful.wires.wire import KeyHeader, ServerTraits

PROVIDER_FORMS: Final = (*KNOWN_SERVERS, "WIRE:URL", "URL")
"""What `make_provider` understands."""
_WIRE_URL: Final = re.compile(r"(?:(?P<wire>[a-z]+):)?(?P<url>https?://.+)", re.DOTALL)
_EXAMPLES: Final = "'ollama', 'openrouter', or 'openai:http://127.0.0.1:8081/v1'"


class HttpProvider:
    """A provider over HTTP. It belongs to the event loop in which it is first used.

    A `known` server gets model names without its own prefix: `openrouter/qwen/qwen3-8b` becomes `qwen/qwen3-8b`.
    `headers` are sent in addition to the connection's own.
    """

    def __init__(
        self,
        connection: Connection,
        dialect: Dialect,
        *,
        known: KnownServer | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.connection: Final = connection
        self.dialect: Final = dialect
        self._known = known
        self._headers = headers or {}
        self._counter = ServerCounter(connection, dialect)

    def __repr__(self) -> str:
        """Show only the route."""
        return f"HttpProvider({self.route!r})"

    @property
    def route(self) -> str:
        """The name of the server, without secrets."""
        return self.connection.route

    @property
    def wire(self) -> str:
        """The format of its requests."""
        return self.dialect.wire.name

    async def send(self, request: Request) -> Reply:
        """Return the complete reply."""
        renamed = self.with_local_name(request)
        body = self.dialect.body(renamed, stream=False)
        path = self.dialect.path(renamed, stream=False)
        answer = await self.connection.post(path, body, headers=self._headers)
        return self.dialect.read(answer.body, self.route)

    async def stream(self, request: Request) -> AsyncGenerator[ReplyChunk, None]:
        """Yield the reply in chunks; the last one holds all of it. Closing the generator frees the connection."""
        renamed = self.with_local_name(request)
        body = self.dialect.body(renamed, stream=True)
        path = self.dialect.path(renamed, stream=True)
        async with self.connection.stream(path, body, headers=self._headers) as answer:
            if _is_complete_json(answer):
                reply = self.dialect.read(await answer.read(), self.route)
                yield ReplyChunk(text=reply.text)
            else:
                reader = self.dialect.reader(self.route)
                async for chunk in answer.chunks:
                    for piece in reader.feed(chunk):
                        yield piece
                for piece in reader.flush():
                    yield piece
                reply = reader.end()
        yield ReplyChunk(reply=reply)

    async def count(self, request: Request) -> int | None:
        """Return the server's token count of a prompt; None if it cannot count."""
        return await self._counter.count(self.with_local_name(request), self._headers)

    async def close(self) -> None:
        """Close all connections."""
        await self.connection.close()

    def with_local_name(self, request: Request) -> Request:
        """Return a request with the model's name on this server."""
        name = request.get("model")
        if self._known is None or not isinstance(name, str):
            return request
        return request | {"model": self._known.local_name(name)}


def _is_complete_json(answer: HttpStream) -> bool:
    """Whether a server ignored the request for a stream."""
    return answer.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"


def make_provider(
    spec: str | Provider,
    *,
    key: str | None = None,
    limits: Limits | None = None,
    environ: Mapping[str, str] | None = None,
) -> Provider:
    """Return a provider by name, by `WIRE:URL`, or by the URL of an OpenAI-compatible server.

    The `key` defaults to the one in the environment: a known server's own variable, or `BRIMFUL_PROVIDER_KEY` for any
    other server. Nothing is sent before the first use.

    >>> make_provider("http://127.0.0.1:8081/v1").route
    'openai:127.0.0.1:8081'
    """
    if not isinstance(spec, str):
        return spec
    if spec in KNOWN_SERVERS:
        known = KNOWN_SERVERS[spec]
        return _make_http_provider(known.wire, known.url, key, limits, environ)
    found = _WIRE_URL.fullmatch(spec.strip())
    written = {wire.name for wire in all_wires() if wire.write is not None}
    if found is None or (found["wire"] or DEFAULT_WIRE) not in written:
        raise InvalidValue("provider", f"must be one of {', '.join(PROVIDER_FORMS)}, not {hide_credentials(spec)!r}")
    return _make_http_provider(found["wire"] or DEFAULT_WIRE, found["url"], key, limits, environ)


def make_provider_for_model(
    model: ModelInfo, *, key: str | None = None, limits: Limits | None = None, environ: Mapping[str, str] | None = None
) -> Provider:
    """Return the provider that runs a model: the host in its name, Ollama for Ollama tags, or else its maker.

    For example, `openrouter/qwen/qwen3-8b` runs at OpenRouter as `qwen/qwen3-8b`.
    """
    first, rest = split_model_name(model.id)
    named = find_server_by_prefix(first) if rest else None
    chosen = find_local_server(model.wire) or named or find_server_by_maker(model.provider)
    if chosen is None or (rest and first.lower() in OTHER_HOST_PREFIXES):
        raise InvalidValue("provider", f"no known server runs {model.id!r}; name one, such as {_EXAMPLES}")
    return _make_http_provider(chosen.wire, chosen.url, key, limits, environ)


def make_dialect(wire: str, url: str, *, key_header: KeyHeader | None = None) -> Dialect:
    """Return the dialect of a wire for the server at a URL. `key_header` overrides the header of its API key."""
    own, known, is_azure = find_wire(wire), find_server_by_url(url), _is_azure(url)
    traits = ServerTraits(
        uses_max_tokens=known.uses_max_tokens if known else not is_azure,
        requests_usage=known.requests_usage if known else True,
        key_header=key_header or ("api-key" if is_azure and own.key_header == "authorization" else None),
    )
    return Dialect(wire=own, traits=traits)


def find_api_key(url: str, environ: Mapping[str, str] | None = None) -> tuple[str, str]:
    """Return the API key of a server from the environment, empty if there is none, and the variable to set.

    `NAME_FILE` may name a file with the key instead.

    >>> find_api_key("http://localhost:8081/v1", {"OPENAI_API_KEY": "sk-1", "BRIMFUL_PROVIDER_KEY": "mine"})
    ('mine', 'BRIMFUL_PROVIDER_KEY')
    """
    variables = os.environ if environ is None else environ
    known = find_server_by_url(url)
    names = known.keys if known else (DEFAULT_KEY_VARIABLE,)
    for name in names:
        if key := find_secret(variables, name):
            return key, name
    return "", " or ".join(names)


def _make_http_provider(
    wire: str, url: str, key: str | None, limits: Limits | None, environ: Mapping[str, str] | None
) -> HttpProvider:
    found, name = find_api_key(url, environ)
    used = found if key is None else key.strip()
    known = find_server_by_url(url)
    if known and known.keys and not used:
        raise InvalidValue("provider", f"{known.name} needs an API key: set {name}, or pass `key`")
    dialect = make_dialect(wire, url)
    connection = Connection(
        get_base_url(url, dialect.wire),
        headers=dialect.headers(used),
        route=f"{wire}:{get_route(url)}",
        limits=limits,
        key_name=name,
    )
    return HttpProvider(connection, dialect, known=known)


def _is_azure(url: str) -> bool:
    return parse_address(url).host.partition(":")[0].endswith(".azure.com")  # runs OpenAI's own models
