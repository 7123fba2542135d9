"""A provider over HTTP, and how to get one from a name, a URL or a model."""

import os
import re
from collections.abc import AsyncGenerator, Mapping
from typing import Final, assert_never

from brimful.core.model import ModelInfo, Wire
from brimful.core.prompt import Request
from brimful.errors import InvalidValue
from brimful.protocols import Provider
from brimful.providers.address import get_route, hide_credentials
from brimful.providers.anthropic import Anthropic
from brimful.providers.connection import Connection, HttpStream, Limits
from brimful.providers.dialect import Dialect
from brimful.providers.directory import (
    DEFAULT_KEY_VARIABLE,
    KNOWN_SERVERS,
    OTHER_HOST_PREFIXES,
    KnownServer,
    find_server_by_maker,
    find_server_by_prefix,
    find_server_by_url,
    split_model_name,
)
from brimful.providers.gemini import Gemini
from brimful.providers.ollama import Ollama
from brimful.providers.openai import OpenAI
from brimful.records.reply import Reply, ReplyChunk


class HttpProvider:
    """Asks a server for answers. Belongs to the event loop in which it is first used.

    A server that is `known` is asked for models as it knows them: `openrouter/qwen/qwen3-8b` is `qwen/qwen3-8b` there.
    """

    def __init__(self, connection: Connection, dialect: Dialect, *, known: KnownServer | None = None) -> None:
        """Take a connection and the dialect that is spoken at its other end."""
        self.connection: Final = connection
        self.dialect: Final = dialect
        self._known = known
        self._counts = True

    def __repr__(self) -> str:
        """Show the route alone."""
        return f"HttpProvider({self.route!r})"

    @property
    def route(self) -> str:
        """Which server it is, without any secret."""
        return self.connection.route

    @property
    def wire(self) -> Wire:
        """The form of request that it takes."""
        return self.dialect.wire

    async def send(self, request: Request) -> Reply:
        """Return the whole answer."""
        named = self._named(request)
        body = self.dialect.body(named, stream=False)
        answer = await self.connection.post(self.dialect.path(named, stream=False), body)
        return self.dialect.read(answer.body, self.route)

    async def stream(self, request: Request) -> AsyncGenerator[ReplyChunk, None]:
        """Yield the answer piece by piece; the last holds all of it. Closing the generator frees the connection."""
        named = self._named(request)
        body = self.dialect.body(named, stream=True)
        async with self.connection.stream(self.dialect.path(named, stream=True), body) as answer:
            if _came_whole(answer):
                reply = self.dialect.read(await answer.read(), self.route)
                yield ReplyChunk(text=reply.text)
            else:
                reader = self.dialect.reader(self.route)
                async for chunk in answer.chunks:
                    for piece in reader.feed(chunk):
                        yield piece
                for piece in reader.last():
                    yield piece
                reply = reader.end()
        yield ReplyChunk(reply=reply)

    async def count(self, request: Request) -> int | None:
        """Return the tokens of the request's prompt as the server counts them; None if it cannot count."""
        if not self._counts:
            return None
        tokens = await self.dialect.count(self.connection, self._named(request))
        self._counts = tokens is not None  # one that does not know the question is not asked again
        return tokens

    async def close(self) -> None:
        """Let go of connections."""
        await self.connection.close()

    def _named(self, request: Request) -> Request:
        name = request.get("model")
        if self._known is None or not isinstance(name, str):
            return request
        return request | {"model": self._known.name_there(name)}


def _came_whole(answer: HttpStream) -> bool:
    """Whether a server took no notice of the wish for a stream."""
    return answer.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"


PROVIDER_FORMS: Final = (*KNOWN_SERVERS, "WIRE:URL", "URL")
"""What `make_provider` understands."""

_WIRE_URL: Final = re.compile(r"(?:(?P<wire>openai|anthropic|gemini|ollama|text):)?(?P<url>https?://.+)", re.DOTALL)
_EXAMPLES: Final = "'ollama', 'openrouter', or 'openai:http://127.0.0.1:8081/v1'"


def make_provider(
    spec: str | Provider,
    *,
    key: str | None = None,
    limits: Limits | None = None,
    environ: Mapping[str, str] | None = None,
) -> Provider:
    """Return the provider that is meant: a name, `WIRE:URL`, or the URL of a server that speaks OpenAI's dialect.

    Without a `key`, the one in the environment is taken: a known server's own variable for that server alone, and
    `BRIMFUL_PROVIDER_KEY` for any other. Nothing is asked before its first use.

    >>> make_provider("http://127.0.0.1:8081/v1").route
    'openai:127.0.0.1:8081'
    """
    if not isinstance(spec, str):
        return spec
    if spec in KNOWN_SERVERS:
        known = KNOWN_SERVERS[spec]
        return _make_http_provider(known.wire, known.url, key, limits, environ)
    found = _WIRE_URL.fullmatch(spec.strip())
    if found is None:
        raise InvalidValue("provider", f"must be one of {', '.join(PROVIDER_FORMS)}, not {hide_credentials(spec)!r}")
    return _make_http_provider(_parse_wire(found["wire"]), found["url"], key, limits, environ)


def make_provider_for_model(
    model: ModelInfo,
    *,
    key: str | None = None,
    limits: Limits | None = None,
    environ: Mapping[str, str] | None = None,
) -> Provider:
    """Return the provider that runs a model: the host in its name, Ollama for its tags, or else its maker.

    `openrouter/qwen/qwen3-8b` is asked of OpenRouter as `qwen/qwen3-8b`.
    """
    first, rest = split_model_name(model.id)
    named = find_server_by_prefix(first) if rest else None
    chosen = KNOWN_SERVERS["ollama"] if model.wire == "ollama" else named or find_server_by_maker(model.provider)
    if chosen is None or (rest and first.lower() in OTHER_HOST_PREFIXES):
        raise InvalidValue("provider", f"no server is known that runs {model.id!r}; name one, such as {_EXAMPLES}")
    return _make_http_provider(chosen.wire, chosen.url, key, limits, environ)


def make_dialect(wire: Wire, url: str) -> Dialect:
    """Return the dialect of a wire, as the server at that address speaks it."""
    match wire:
        case "openai" | "text":
            known = find_server_by_url(url)
            renames = known.renames_limit if known else not _is_azure(url)
            return OpenAI(wire=wire, renames_limit=renames, asks_usage=known.asks_usage if known else True)
        case "anthropic":
            return Anthropic()
        case "gemini":
            return Gemini()
        case "ollama":
            return Ollama()
        case _:
            assert_never(wire)


def find_api_key(url: str, environ: Mapping[str, str] | None = None) -> tuple[str, str]:
    """Return the key for a server from the environment, empty if there is none, and the variable to set.

    >>> find_api_key("http://localhost:8081/v1", {"OPENAI_API_KEY": "sk-1", "BRIMFUL_PROVIDER_KEY": "mine"})
    ('mine', 'BRIMFUL_PROVIDER_KEY')
    """
    given = os.environ if environ is None else environ
    known = find_server_by_url(url)
    names = known.keys if known else (DEFAULT_KEY_VARIABLE,)
    for name in names:
        if key := given.get(name, "").strip():
            return key, name
    return "", " or ".join(names)


def _make_http_provider(
    wire: Wire,
    url: str,
    key: str | None,
    limits: Limits | None,
    environ: Mapping[str, str] | None,
) -> HttpProvider:
    found, name = find_api_key(url, environ)
    used = found if key is None else key.strip()
    known = find_server_by_url(url)
    if known and known.keys and not used:
        raise InvalidValue("provider", f"{known.name} needs a key: set {name}, or give one")
    base = re.sub(r"/v1/?$", "", url) if wire == "anthropic" else url  # its paths begin with the version
    dialect = make_dialect(wire, url)
    connection = Connection(
        base,
        headers=dialect.headers(used),
        route=f"{wire}:{get_route(url)}",
        limits=limits,
        key_name=name,
    )
    return HttpProvider(connection, dialect, known=known)


def _parse_wire(name: str | None) -> Wire:
    match name:
        case "anthropic" | "gemini" | "ollama" | "text":
            return name
        case _:
            return "openai"


def _is_azure(url: str) -> bool:
    return re.search(r"\.azure\.com(?=[:/]|$)", url) is not None  # OpenAI's own models behind it
