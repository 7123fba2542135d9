"""Available embedders, and resolving a setting such as `openai:text-embedding-3-small` to one."""

import importlib.util
import re
from collections.abc import Callable
from typing import Final

import msgspec

from brimful.core.language import ENGLISH
from brimful.embedding import ollama, openai
from brimful.embedding.multilingual import LANGUAGES
from brimful.embedding.ollama import OllamaEmbedder
from brimful.embedding.openai import OpenAIEmbedder
from brimful.embedding.sentence_transformers import SentenceTransformersEmbedder
from brimful.embedding.small import DIMENSIONS, EXTRA, ID, SmallEmbedder
from brimful.embedding.static import StaticEmbedder
from brimful.errors import InvalidValue
from brimful.protocols import Embedder

FORMS: Final = (
    "static",
    "small",
    "openai:MODEL",
    "openai:MODEL@URL",
    "ollama:MODEL",
    "ollama:MODEL@URL",
    "sentence-transformers:MODEL",
    "none",
)
"""The strings that `embedder_for` accepts."""
_REMOTE: Final = re.compile(r"(?P<kind>openai|ollama):(?P<model>[^@].*?)(?:@(?P<url>https?://.+))?")
_LOCAL: Final[dict[str, Callable[[], Embedder]]] = {"static": StaticEmbedder, "small": SmallEmbedder}
_LIBRARY: Final = "sentence-transformers:"


class EmbedderInfo(msgspec.Struct, frozen=True, kw_only=True):
    """An available embedder.

    `name` is the argument for `embedder_for`. `missing` is the command that installs its extra, or an empty
    string. `megabytes` is its size on disk, `per_second` the number of 60-token texts that one core embeds, `languages`
    the codes of the languages that it knows. For others, they depend on the model; `multilingual` is one for most.
    """

    name: str
    id: str = ""
    dims: int | None = None
    missing: str = ""
    megabytes: int | None = None
    per_second: int | None = None
    languages: tuple[str, ...] = ()
    licence: str = ""
    multilingual: str = ""


def list_embedders() -> list[EmbedderInfo]:
    """Return all embedders, and what each of them still needs on this machine."""
    remote = _missing_extra("httpx2", "remote")
    library = _missing_extra("sentence_transformers", "sentence-transformers")
    return [
        EmbedderInfo(
            name="static",
            id=StaticEmbedder.id,
            dims=256,
            megabytes=11,
            per_second=12_000,
            languages=(ENGLISH, *LANGUAGES),
            licence="Apache-2.0",
        ),
        EmbedderInfo(
            name="small",
            id=ID,
            dims=DIMENSIONS,
            missing=_missing_extra("onnxruntime", EXTRA) or _missing_extra("brimful_small", EXTRA),
            megabytes=12,
            per_second=200,
            languages=(ENGLISH,),
            licence="Apache-2.0",
        ),
        EmbedderInfo(name="openai:MODEL", missing=remote, multilingual="openai:text-embedding-3-small"),
        EmbedderInfo(name="ollama:MODEL", missing=remote, multilingual="ollama:bge-m3"),
        EmbedderInfo(
            name="sentence-transformers:MODEL",
            missing=library,
            multilingual="sentence-transformers:intfloat/multilingual-e5-small",
        ),
    ]


def _missing_extra(module: str, extra: str) -> str:
    return "" if importlib.util.find_spec(module) else f"pip install 'brimful[{extra}]'"


def embedder_for(spec: str | Embedder | None = "static") -> Embedder | None:
    """Return the embedder for a setting. Nothing is loaded and no server is contacted before its first use.

    >>> embedder_for("ollama:nomic-embed-text").id
    'ollama:nomic-embed-text@1'
    >>> embedder_for("none") is None
    True
    """
    if spec is None or spec == "none":
        return None
    if not isinstance(spec, str):
        return _custom(spec)
    if spec in _LOCAL:
        return _LOCAL[spec]()
    if spec.startswith(_LIBRARY) and spec != _LIBRARY:
        return SentenceTransformersEmbedder(spec.removeprefix(_LIBRARY))
    if match := _REMOTE.fullmatch(spec):
        return _remote(match["kind"], match["model"], match["url"])
    raise InvalidValue("embedder", f"must be one of {', '.join(FORMS)}, not {spec!r}")


def _custom(embedder: Embedder) -> Embedder:
    for attribute in ("id", "embed", "close"):
        if not hasattr(embedder, attribute):
            raise InvalidValue("embedder", f"must be one of {', '.join(FORMS)}, or have `id`, `embed` and `close`")
    return embedder


def _remote(kind: str, model: str, url: str | None) -> Embedder:
    if kind == "openai":
        return OpenAIEmbedder(model, base_url=url or openai.BASE_URL)
    return OllamaEmbedder(model, base_url=url or ollama.BASE_URL)
