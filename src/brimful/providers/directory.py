"""Model servers known by name: their URL, wire format, key variables and documentation."""

import re
from functools import lru_cache
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


class KnownServer(msgspec.Struct, frozen=True, kw_only=True):
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


KNOWN_SERVERS: Final = {
    known.name: known
    for known in (
        KnownServer(
            name="openai",
            url="https://api.openai.com/v1",
            keys=("OPENAI_API_KEY",),
            makers=("openai",),
            uses_max_tokens=False,
            source="https://platform.openai.com/docs/api-reference",
        ),
        KnownServer(
            name="anthropic",
            wire="anthropic",
            url="https://api.anthropic.com",
            keys=("ANTHROPIC_API_KEY",),
            makers=("anthropic",),
            source="https://docs.claude.com/en/api/overview",
        ),
        KnownServer(
            name="gemini",
            wire="gemini",
            url="https://generativelanguage.googleapis.com/v1beta",
            keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
            makers=("google",),
            prefixes=("google", "google-gla"),
            source="https://ai.google.dev/api",
        ),
        KnownServer(
            name="ollama",
            wire="ollama",
            other_wires=("openai", "anthropic"),
            url="http://localhost:11434",
            prefixes=("ollama_chat",),
            source="https://docs.ollama.com/api",
        ),
        KnownServer(
            name="deepseek",
            url="https://api.deepseek.com/v1",
            keys=("DEEPSEEK_API_KEY",),
            makers=("deepseek",),
            source="https://api-docs.deepseek.com",
        ),
        KnownServer(
            name="mistral",
            url="https://api.mistral.ai/v1",
            keys=("MISTRAL_API_KEY",),
            makers=("mistral",),
            requests_usage=False,  # it rejects unknown fields, and always reports usage
            source="https://docs.mistral.ai/api",
        ),
        KnownServer(
            name="xai",
            url="https://api.x.ai/v1",
            keys=("XAI_API_KEY",),
            makers=("xai",),
            prefixes=("grok",),
            source="https://docs.x.ai/docs/api-reference",
        ),
        KnownServer(
            name="moonshot",
            url="https://api.moonshot.ai/v1",
            keys=("MOONSHOT_API_KEY",),
            makers=("moonshotai",),
            prefixes=("moonshotai",),
            source="https://platform.moonshot.ai/docs/api/chat",
        ),
        KnownServer(
            name="zai",
            url="https://api.z.ai/api/paas/v4",
            keys=("ZAI_API_KEY",),
            makers=("zai",),
            source="https://docs.z.ai/api-reference/introduction",
        ),
        KnownServer(
            name="qwen",
            url="https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
            keys=("DASHSCOPE_API_KEY",),
            makers=("qwen",),
            prefixes=("dashscope",),
            source="https://help.aliyun.com/en/model-studio/base-url",
        ),
        KnownServer(
            name="cohere",
            url="https://api.cohere.ai/compatibility/v1",
            keys=("COHERE_API_KEY",),
            makers=("cohere",),
            requests_usage=False,  # it rejects `stream_options`
            source="https://docs.cohere.com/docs/compatibility-api",
        ),
        KnownServer(
            name="openrouter",
            url="https://openrouter.ai/api/v1",
            keys=("OPENROUTER_API_KEY",),
            own=("openrouter/auto",),
            uses_max_tokens=False,
            source="https://openrouter.ai/docs/api-reference/overview",
        ),
        KnownServer(
            name="groq",
            url="https://api.groq.com/openai/v1",
            keys=("GROQ_API_KEY",),
            own=("groq/compound", "groq/compound-mini"),
            source="https://console.groq.com/docs/openai",
        ),
        KnownServer(
            name="together",
            url="https://api.together.xyz/v1",
            keys=("TOGETHER_API_KEY",),
            prefixes=("together_ai",),
            source="https://docs.together.ai/docs/openai-api-compatibility",
        ),
        KnownServer(
            name="fireworks",
            url="https://api.fireworks.ai/inference/v1",
            keys=("FIREWORKS_API_KEY",),
            prefixes=("fireworks_ai",),
            source="https://docs.fireworks.ai/tools-sdks/openai-compatibility",
        ),
        KnownServer(
            name="cerebras",
            url="https://api.cerebras.ai/v1",
            keys=("CEREBRAS_API_KEY",),
            source="https://inference-docs.cerebras.ai/resources/openai",
        ),
    )
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
