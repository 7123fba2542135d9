"""From a short text, as it stands in a setting, to an embedder."""

import re
from collections.abc import Callable
from typing import Final

from brimful.embedding import ollama, openai
from brimful.embedding.minilm import MiniLMEmbedder
from brimful.embedding.ollama import OllamaEmbedder
from brimful.embedding.openai import OpenAIEmbedder
from brimful.embedding.sentence_transformers import SentenceTransformersEmbedder
from brimful.embedding.static import StaticEmbedder
from brimful.errors import InvalidValue
from brimful.protocols import Embedder

FORMS: Final = (
    "static",
    "minilm",
    "openai:MODEL",
    "openai:MODEL@URL",
    "ollama:MODEL",
    "ollama:MODEL@URL",
    "sentence-transformers:MODEL",
    "none",
)
"""What `embedder_for` understands."""

_REMOTE: Final = re.compile(r"(?P<kind>openai|ollama):(?P<model>[^@].*?)(?:@(?P<url>https?://.+))?")
_LOCAL: Final[dict[str, Callable[[], Embedder]]] = {"static": StaticEmbedder, "minilm": MiniLMEmbedder}
_LIBRARY: Final = "sentence-transformers:"


def embedder_for(spec: str | Embedder | None = "static") -> Embedder | None:
    """Return the embedder that is meant; nothing is loaded or asked before its first use.

    >>> embedder_for("ollama:nomic-embed-text").id
    'ollama:nomic-embed-text@1'
    >>> embedder_for("none") is None
    True
    """
    if spec is None or spec == "none":
        return None
    if not isinstance(spec, str):
        return _own(spec)
    if spec in _LOCAL:
        return _LOCAL[spec]()
    if spec.startswith(_LIBRARY) and spec != _LIBRARY:
        return SentenceTransformersEmbedder(spec.removeprefix(_LIBRARY))
    if named := _REMOTE.fullmatch(spec):
        return _remote(named["kind"], named["model"], named["url"])
    raise InvalidValue("embedder", f"must be one of {', '.join(FORMS)}, not {spec!r}")


def _own(embedder: Embedder) -> Embedder:
    """Return an embedder of somebody's own, if it is one."""
    for part in ("id", "embed", "close"):
        if not hasattr(embedder, part):
            raise InvalidValue("embedder", f"must be one of {', '.join(FORMS)}, or have `id`, `embed` and `close`")
    return embedder


def _remote(kind: str, model: str, url: str | None) -> Embedder:
    if kind == "openai":
        return OpenAIEmbedder(model, base_url=url or openai.BASE_URL)
    return OllamaEmbedder(model, base_url=url or ollama.BASE_URL)
