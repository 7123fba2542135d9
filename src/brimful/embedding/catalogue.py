"""What there is to embed with, and what it takes."""

import importlib.util

import msgspec

from brimful.embedding.install import is_installed
from brimful.embedding.minilm import DIMENSIONS, EXTRA, ID, INSTALL
from brimful.embedding.static import StaticEmbedder


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """An embedder that can be had.

    `name` is what `embedder_for` takes. `dims` and `id` are known where the model is. `missing` is the command that is
    still to be run, or an empty text. `megabytes` is what it takes on disk, `per_second` how many texts of 60 tokens
    one core reads.
    """

    name: str
    id: str = ""
    dims: int | None = None
    missing: str = ""
    megabytes: int | None = None
    per_second: int | None = None
    licence: str = ""


def offers() -> list[Offer]:
    """Return all that can be had, and what each of them still needs here."""
    remote = _missing("httpx2", "remote")
    library = _missing("sentence_transformers", "sentence-transformers")
    minilm = _missing("onnxruntime", EXTRA) or ("" if is_installed() else INSTALL)
    return [
        Offer(name="static", id=StaticEmbedder.id, dims=256, megabytes=8, per_second=12_000, licence="Apache-2.0"),
        Offer(
            name="minilm",
            id=ID,
            dims=DIMENSIONS,
            missing=minilm,
            megabytes=23,
            per_second=140,
            licence="Apache-2.0",
        ),
        Offer(name="openai:MODEL", missing=remote),
        Offer(name="ollama:MODEL", missing=remote),
        Offer(name="sentence-transformers:MODEL", missing=library),
    ]


def _missing(module: str, extra: str) -> str:
    return "" if importlib.util.find_spec(module) else f"pip install 'brimful[{extra}]'"
