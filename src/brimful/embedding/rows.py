"""Checks and layout of vectors that come from outside code."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from brimful.errors import EmbeddingError

if TYPE_CHECKING:
    from brimful.protocols import Vectors


def unit_rows(embedder: str, rows: Any, count: int, dims: int | None) -> "Vectors":
    """Normalize `count` rows of `dims` numbers to unit length. Raises an error if they are malformed."""
    import numpy as np  # noqa: PLC0415 - imported on first use

    if len(rows) != count:
        raise EmbeddingError(embedder, f"returned {len(rows)} vectors for {count} texts")
    try:
        vectors = np.array(rows, np.float64)
    except ValueError as error:
        raise EmbeddingError(embedder, "returned vectors of different sizes") from error
    found = vectors.shape[-1]
    if not found or dims not in (None, found):
        raise EmbeddingError(embedder, f"returned a vector with {found} dimensions, expected {dims or 'at least one'}")
    with np.errstate(over="ignore"):
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.isfinite(lengths).all():
        raise EmbeddingError(embedder, "returned a vector with a number that is not finite or too large")
    return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def scatter_rows(texts: Sequence[str], vectors: Sequence["Vectors"], dims: int) -> "Vectors":
    """Return one row per text: the next vector for each embeddable text, zeros for the others."""
    import numpy as np  # noqa: PLC0415 - imported on first use

    placed = np.zeros((len(texts), dims), np.float32)
    if vectors:
        placed[[i for i, text in enumerate(texts) if is_embeddable(text)]] = np.concatenate(vectors)
    return placed


def is_embeddable(text: str) -> bool:
    """Return whether a text is worth sending. Models reject empty texts, or return a meaningless vector."""
    return bool(text) and not text.isspace()
