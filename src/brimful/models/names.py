"""Model names: parse a name and list its simpler spellings.

Nothing is guessed. Provider prefixes, dates, router tags and quantization suffixes are removed one by one, and the
registry looks for an equal name after each step. So `gpt-4o-mini` can never become `gpt-4o`.
"""

import re
from collections.abc import Iterator
from typing import Final

import msgspec

MAX_NAME_CHARACTERS: Final = 300
"""No model has a longer name, and the bound keeps the patterns below linear."""

_OPENAI_HOSTS: Final = (
    "cerebras databricks deepinfra fireworks fireworks_ai github groq hosted_vllm huggingface litellm_proxy lm_studio "
    "nebius novita nvidia_nim openrouter perplexity sambanova together together_ai vercel_ai_gateway vllm"
)
_OLLAMA_HOSTS: Final = "hf.co ollama ollama_chat"

_HOSTS: Final[dict[str, str]] = {
    **dict.fromkeys(_OPENAI_HOSTS.split(), "openai"),
    **dict.fromkeys(_OLLAMA_HOSTS.split(), "ollama"),
}
"""Hosts that serve other makers' models, and their API. Any other prefix has no meaning."""

_HOST_NAMES: Final = {
    "accounts": "fireworks",
    "aws": "bedrock",
    "fireworks_ai": "fireworks",
    "together_ai": "together",
    "@cf": "cloudflare",
}
"""Hosts by other names. Names at Fireworks begin with `accounts/`, those at Cloudflare with `@cf/`."""

_MAKER_NAMES: Final = (
    "anthropic azure bedrock cohere deepseek gemini google google-gla google-vertex grok meta mistral moonshotai "
    "openai qwen vertexai xai"
)
_MAKERS: Final = frozenset(_MAKER_NAMES.split())
"""Prefixes of `maker:model`. Ollama's `mistral:7b` is looked up first."""

_FINE_TUNED: Final = re.compile(r"^ft:(?P<base>[^:]+)(?::.*)?$|^(?P<azure>.+?)\.ft-.*$", re.DOTALL)
_BEDROCK: Final = re.compile(  # `us.anthropic.claude…`; `deepseek.r1` keeps its maker, because `r1` alone is not a name
    r"^(?:(?:us|us-gov|eu|apac|au|ca|jp|sa|global|regional)\.(?=[a-z]+\.))?"
    r"(?:(?:amazon|anthropic|cohere|google|meta|minimax|mistral|moonshot|moonshotai|nvidia|openai|qwen|xai|zai)\."
    r"(?=[a-z]))?"
)
_HOSTED: Final = re.compile(  # `databricks-claude…`, Azure's `fw-glm…`, and makers before a hyphen
    r"^(?:databricks|fw|alibaba|amazon|anthropic|cohere|minimax(?=-minimax)|nvidia|openai|xai|zai)-(?=[a-z])"
)
_FIREWORKS: Final = re.compile(r"(?<=\d)p(?=\d)")  # `llama-v3p1` is 3.1
_AZURE: Final = re.compile(r"^gpt-35(?=-)")
_SEPARATORS: Final = str.maketrans(" ._@", "----")
_FAMILY: Final = re.compile(r"^(?:meta-)?(llama|qwen|gemma)[-v]*(?=\d)")

_DECORATION: Final = re.compile(
    r"""(?:
      -20\d{6} | -20\d\d-\d\d-\d\d                      # snapshot date
    | -(?:preview|exp)-\d\d-(?:\d\d|20\d\d)             # Google's dates
    | -00[1-9] | -default | -maas                       # Vertex
    | -v\d+:\d+ | (?<=\d)-v1                            # Bedrock
    | [-:]latest
    | :(?:free|nitro|floor|online|exacto|beta|thinking|extended|batch)  # OpenRouter
    | :cloud                                            # Ollama
    | -tput | -dynamic | -hf                            # Together, vLLM, Hugging Face
    | [:-](?:i?q\d(?:-[a-z0-9]{1,3}){0,3} | fp16 | bf16 | f16 | fp8 | fp4 | mxfp4 | nvfp4 | int4 | int8 | qat)
    | -(?:gguf | awq | gptq | mlx | bnb | unsloth | quantized | w\da\d+ | [2-8]bit)
    | -(?:instruct | instruct-turbo | it)
    )$
    | -instruct(?=-(?:\d{4}|v0-\d)$)                    # before a version
    """,
    re.VERBOSE,
)


class ModelName(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed name: the whole name, the name without prefixes, its first prefix, and the API of that host, if known.

    >>> parsed = parse_name("openrouter/anthropic/Claude-3.5-Sonnet:beta")
    >>> parsed.bare, parsed.host, parsed.wire
    ('claude-3.5-sonnet:beta', 'openrouter', 'openai')
    >>> parse_name("us.anthropic.claude-3-5-sonnet-20241022-v2:0").bare
    'claude-3-5-sonnet-20241022-v2:0'
    >>> parse_name("ft:gpt-4o-mini-2024-07-18:acme::x1").bare
    'gpt-4o-mini-2024-07-18'
    """

    whole: str
    bare: str
    host: str = ""
    wire: str | None = None

    @property
    def tagged(self) -> bool:
        """Whether it is like Ollama's `name:tag`: `acme:7b`, but not `openai:acme` or Bedrock's `acme-v1:0`."""
        head, _, tag = self.bare.partition(":")
        if not head or not tag or ":" in tag or tag.isdigit():
            return False
        return tag[0].isdigit() or _first_part(self.whole) not in _MAKERS

    @property
    def simplest(self) -> str:
        """The normalized name without a prefix and any decoration.

        >>> parse_name("Qwen/Qwen2.5-7B-Instruct-AWQ").simplest
        'qwen-2-5-7b'
        """
        *_, simplest = _plainer_spellings(self.bare)
        return simplest

    def spellings(self) -> Iterator[str]:
        """Yield the normalized name, then simpler and simpler spellings.

        >>> list(parse_name("Qwen/Qwen2.5-7B-Instruct-AWQ").spellings())
        ['qwen/qwen2-5-7b-instruct-awq', 'qwen-2-5-7b-instruct-awq', 'qwen-2-5-7b-instruct', 'qwen-2-5-7b']
        """
        if len(self.whole) > MAX_NAME_CHARACTERS:
            return
        yield normalize_name(self.whole)
        yield from _plainer_spellings(self.bare)
        head, colon, rest = self.bare.partition(":")
        if colon and (head in _MAKERS or head in _HOSTS):
            yield from _plainer_spellings(rest)


def parse_name(name: str) -> ModelName:
    plain = name.strip().lower()
    if len(plain) > MAX_NAME_CHARACTERS:
        return ModelName(whole=plain, bare=plain)
    first = _first_part(plain)
    last = plain.rsplit("/", 1)[-1]
    tuned = _FINE_TUNED.match(last)
    base = (tuned["base"] or tuned["azure"]) if tuned else last
    unprefixed = _BEDROCK.sub("", base)
    bare = _AZURE.sub("gpt-3.5", _FIREWORKS.sub(".", _HOSTED.sub("", unprefixed)))
    host = plain.partition("/")[0] if "/" in plain else "bedrock" if unprefixed != base else ""
    return ModelName(
        whole=plain,
        bare=bare,
        host=_HOST_NAMES.get(host, host.translate(_SEPARATORS)),
        wire=_HOSTS.get(first) if first != plain else None,
    )


def normalize_name(name: str) -> str:
    """Normalize a name, so that its spellings compare equal.

    >>> normalize_name("Llama3.1:8B"), normalize_name("meta-llama-3.1-8b"), normalize_name("gpt-4.1")
    ('llama-3-1:8b', 'llama-3-1-8b', 'gpt-4-1')
    """
    return _FAMILY.sub(r"\1-", name.strip().lower().translate(_SEPARATORS))


def _first_part(plain: str) -> str:
    return re.split("[/:]", plain, maxsplit=1)[0]


def _plainer_spellings(bare: str) -> Iterator[str]:
    spelling = normalize_name(bare)
    yield spelling
    while (plainer := _DECORATION.sub("", spelling)) != spelling:
        spelling = plainer
        yield spelling
