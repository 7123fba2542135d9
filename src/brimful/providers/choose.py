"""From a short text, or from a model, to a provider."""

import os
import re
from collections.abc import Mapping
from typing import Final, assert_never

from brimful.core.model import ModelInfo, Wire
from brimful.errors import InvalidValue
from brimful.protocols import Provider
from brimful.providers.address import route_of, without_user
from brimful.providers.anthropic import Anthropic
from brimful.providers.connection import Connection
from brimful.providers.dialect import Dialect
from brimful.providers.gemini import Gemini
from brimful.providers.known import ELSEWHERE, KNOWN, OTHER_KEY, known_at, known_by, known_for, parted
from brimful.providers.limits import Limits
from brimful.providers.ollama import Ollama
from brimful.providers.openai import OpenAI
from brimful.providers.provider import HttpProvider

FORMS: Final = (*KNOWN, "WIRE:URL", "URL")
"""What `provider_for` understands."""

_AT: Final = re.compile(r"(?:(?P<wire>openai|anthropic|gemini|ollama|text):)?(?P<url>https?://.+)", re.DOTALL)
_EXAMPLES: Final = "'ollama', 'openrouter', or 'openai:http://127.0.0.1:8081/v1'"


def provider_for(
    spec: str | Provider,
    *,
    key: str | None = None,
    limits: Limits | None = None,
    environ: Mapping[str, str] | None = None,
) -> Provider:
    """Return the provider that is meant: a name, `WIRE:URL`, or the URL of a server that speaks OpenAI's dialect.

    Without a `key`, the one in the environment is taken: a known server's own variable for that server alone, and
    `BRIMFUL_PROVIDER_KEY` for any other. Nothing is asked before its first use.

    >>> provider_for("http://127.0.0.1:8081/v1").route
    'openai:127.0.0.1:8081'
    """
    if not isinstance(spec, str):
        return spec
    if spec in KNOWN:
        known = KNOWN[spec]
        return _provider(known.wire, known.url, key, limits, environ)
    found = _AT.fullmatch(spec.strip())
    if found is None:
        raise InvalidValue("provider", f"must be one of {', '.join(FORMS)}, not {without_user(spec)!r}")
    return _provider(_wire(found["wire"]), found["url"], key, limits, environ)


def provider_of(
    model: ModelInfo,
    *,
    key: str | None = None,
    limits: Limits | None = None,
    environ: Mapping[str, str] | None = None,
) -> Provider:
    """Return the provider that runs a model: the host in its name, Ollama for its tags, or else its maker.

    `openrouter/qwen/qwen3-8b` is asked of OpenRouter as `qwen/qwen3-8b`.
    """
    first, rest = parted(model.id)
    named = known_by(first) if rest else None
    chosen = KNOWN["ollama"] if model.wire == "ollama" else named or known_for(model.provider)
    if chosen is None or (rest and first.lower() in ELSEWHERE):
        raise InvalidValue("provider", f"no server is known that runs {model.id!r}; name one, such as {_EXAMPLES}")
    return _provider(chosen.wire, chosen.url, key, limits, environ)


def dialect_at(wire: Wire, url: str) -> Dialect:
    """Return the dialect of a wire, as the server at that address speaks it."""
    match wire:
        case "openai" | "text":
            known = known_at(url)
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


def key_for(url: str, environ: Mapping[str, str] | None = None) -> tuple[str, str]:
    """Return the key for a server from the environment, empty if there is none, and the variable to set.

    >>> key_for("http://localhost:8081/v1", {"OPENAI_API_KEY": "sk-1", "BRIMFUL_PROVIDER_KEY": "mine"})
    ('mine', 'BRIMFUL_PROVIDER_KEY')
    """
    given = os.environ if environ is None else environ
    known = known_at(url)
    names = known.keys if known else (OTHER_KEY,)
    for name in names:
        if key := given.get(name, "").strip():
            return key, name
    return "", " or ".join(names)


def _provider(
    wire: Wire,
    url: str,
    key: str | None,
    limits: Limits | None,
    environ: Mapping[str, str] | None,
) -> HttpProvider:
    found, name = key_for(url, environ)
    used = found if key is None else key.strip()
    known = known_at(url)
    if known and known.keys and not used:
        raise InvalidValue("provider", f"{known.name} needs a key: set {name}, or give one")
    base = re.sub(r"/v1/?$", "", url) if wire == "anthropic" else url  # its paths begin with the version
    dialect = dialect_at(wire, url)
    connection = Connection(
        base,
        headers=dialect.headers(used),
        route=f"{wire}:{route_of(url)}",
        limits=limits,
        key_name=name,
    )
    return HttpProvider(connection, dialect, known=known)


def _wire(name: str | None) -> Wire:
    match name:
        case "anthropic" | "gemini" | "ollama" | "text":
            return name
        case _:
            return "openai"


def _is_azure(url: str) -> bool:
    return re.search(r"\.azure\.com(?=[:/]|$)", url) is not None  # OpenAI's own models behind it
