"""Model servers known by name: their URL, wire format, key variables and documentation."""

import re
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from brimful.providers.address import parse_address

_OTHER_HOSTS: Final = (
    "azure bedrock databricks deepinfra github google-vertex hosted_vllm huggingface litellm_proxy lm_studio nebius "
    "novita nvidia_nim perplexity sambanova vercel_ai_gateway vertexai vllm"
)
OTHER_HOST_PREFIXES: Final = frozenset(_OTHER_HOSTS.split())
"""Prefixes of model names that mean a server without a fixed URL, such as one per customer."""
DEFAULT_KEY_VARIABLE: Final = "BRIMFUL_PROVIDER_KEY"
"""The variable with the API key of any other server."""


class KnownServer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A server known by `name`, which runs the models of these `makers`.

    - `keys`: environment variables that may hold its API key, in order; empty if it needs none.
    - `prefixes`: prefixes of model names that mean this server, besides its own name.
    - `own`: models whose names contain the server's name without meaning it as a prefix.
    - `other_wires`: formats that it speaks at the same URL, besides its own.
    - `uses_max_tokens`, `requests_usage`: see the OpenAI dialect.
    """

    name: str
    wire: str = "openai"
    other_wires: tuple[str, ...] = ()
    url: str
    keys: tuple[str, ...] = ()
    makers: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    source: str
    uses_max_tokens: bool = True
    requests_usage: bool = True

    def matches_prefix(self, prefix: str) -> bool:
        """Whether the prefix of a model name means this server."""
        return prefix.lower() in (self.name, *self.prefixes)

    def local_name(self, model: str) -> str:
        """Return the name of a model on this server, without the server's prefix.

        >>> KNOWN_SERVERS["openrouter"].local_name("openrouter/qwen/qwen3-8b")
        'qwen/qwen3-8b'
        """
        first, rest = split_model_name(model)
        return rest if rest and self.matches_prefix(first) and model not in self.own else model


_FILE: Final = Path(__file__).with_name("servers.toml")
KNOWN_SERVERS: Final = {
    name: msgspec.convert({"name": name, **fields}, KnownServer)
    for name, fields in tomllib.loads(_FILE.read_text(encoding="utf-8")).items()
}
"""All known servers, by name."""


KEY_VARIABLES: Final = (*(key for known in KNOWN_SERVERS.values() for key in known.keys), DEFAULT_KEY_VARIABLE)
"""All variables that are read."""


def find_server_by_url(url: str) -> KnownServer | None:
    """Return the server at a URL. Its API key is sent to no other host, and never unencrypted.

    >>> find_server_by_url("https://api.openai.com/v1").name
    'openai'
    >>> find_server_by_url("http://api.openai.com/v1"), find_server_by_url("https://api.openai.com.example/v1")
    (None, None)
    """
    origin = _get_origin(url)
    return next((known for known in KNOWN_SERVERS.values() if _get_origin(known.url) == origin), None)


def find_server_by_maker(maker: str) -> KnownServer | None:
    """Return the server of a maker of models."""
    return next((known for known in KNOWN_SERVERS.values() if maker in known.makers), None)


def find_local_server(wire: str) -> KnownServer | None:
    """Return the server without API keys that runs the models of a wire format."""
    return next((known for known in KNOWN_SERVERS.values() if known.wire == wire and not known.keys), None)


def find_server_by_prefix(prefix: str) -> KnownServer | None:
    """Return the server that the prefix of a model name means."""
    return next((known for known in KNOWN_SERVERS.values() if known.matches_prefix(prefix)), None)


def split_model_name(model: str) -> tuple[str, str]:
    """Split a model name at its first slash or colon.

    >>> split_model_name("openrouter/qwen/qwen3-8b"), split_model_name("gpt-4o")
    (('openrouter', 'qwen/qwen3-8b'), ('gpt-4o', ''))
    """
    first, *rest = re.split("[/:]", model, maxsplit=1)
    return first, rest[0] if rest else ""


@lru_cache(256)
def _get_origin(url: str) -> str:
    address = parse_address(url)
    return f"{address.url.partition('://')[0]}://{address.host}"
