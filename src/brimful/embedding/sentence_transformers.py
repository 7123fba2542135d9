"""Any model of the sentence-transformers library, on this machine. The library depends on torch."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from brimful.core.validation import clean_text
from brimful.embedding.rows import is_embeddable, scatter_rows, unit_rows
from brimful.errors import EmbeddingError, MissingExtra

if TYPE_CHECKING:
    from brimful.protocols import Purpose, Vectors


_PROBE: Final = "."  # encoded to learn the vector size if all texts are empty


class SentenceEncoder(Protocol):
    """The part of `SentenceTransformer` that is used."""

    def encode_query(self, sentences: list[str], **options: Any) -> Any:
        """Embed queries, with the model's own prompt for them."""
        ...

    def encode_document(self, sentences: list[str], **options: Any) -> Any:
        """Embed passages, with the model's own prompt for them."""
        ...


class SentenceTransformersEmbedder:
    """Embeds with a sentence-transformers model, loaded on first use."""

    def __init__(self, name: str, encoder: SentenceEncoder | None = None) -> None:
        """Use the model with this name, or `encoder` if you have loaded it already."""
        self.id: Final = f"sentence-transformers:{name}@1"
        self._name = name
        self._encoder = encoder
        self._dims: int | None = None
        self._lock = asyncio.Lock()  # the models are not thread-safe

    async def embed(self, texts: Sequence[str], purpose: "Purpose") -> "Vectors":
        """Return one unit-length row per text, or a row of zeros for an empty text."""
        async with self._lock:
            return await asyncio.to_thread(self._embed, texts, purpose)

    async def close(self) -> None:
        """Unload the model."""
        self._encoder = None

    def _embed(self, texts: Sequence[str], purpose: "Purpose") -> "Vectors":
        cleaned = [clean_text(text) for text in texts if is_embeddable(text)]
        try:
            encoder = self._encoder = self._encoder or _load(self._name)
            rows = _encode(encoder, cleaned or [_PROBE], purpose)
        except MissingExtra:
            raise
        except Exception as error:  # custom models may raise anything
            raise EmbeddingError(self.id, f"the model failed: {error}") from error
        vectors = unit_rows(self.id, rows, len(cleaned) or 1, self._dims)
        self._dims = vectors.shape[1]
        return scatter_rows(texts, [vectors] if cleaned else [], self._dims)


def _encode(encoder: SentenceEncoder, texts: list[str], purpose: "Purpose") -> Any:
    encode = encoder.encode_query if purpose == "query" else encoder.encode_document
    return encode(texts, convert_to_numpy=True, show_progress_bar=False)


def _load(name: str) -> SentenceEncoder:
    try:
        from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtra("sentence-transformers", f"the model {name!r}") from error
    model: SentenceEncoder = SentenceTransformer(name)
    return model
