"""Checks and layout of vectors that come from outside code."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from brimful.errors import EmbeddingError

if TYPE_CHECKING:
    from brimful.protocols import Vectors


def unit_rows(embedder: str, rows: Any, count: int, dims: int | None) -> "Vectors":
    """Return `count` rows of length 1 and of `dims` numbers, or say what is wrong with them."""
    import numpy as np  # noqa: PLC0415 - only who embeds pays for it

    if len(rows) != count:
        raise EmbeddingError(embedder, f"{len(rows)} vectors came back for {count} texts")
    try:
        vectors = np.array(rows, np.float64)
    except ValueError as error:
        raise EmbeddingError(embedder, "the vectors are not all of one length") from error
    found = vectors.shape[-1]
    if not found or dims not in (None, found):
        raise EmbeddingError(embedder, f"a vector has {found} dimensions, not {dims or 'any number of them'}")
    with np.errstate(over="ignore"):
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.isfinite(lengths).all():
        raise EmbeddingError(embedder, "a vector holds a number that is not finite, or beyond measure")
    return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def scatter_rows(texts: Sequence[str], vectors: Sequence["Vectors"], dims: int) -> "Vectors":
    """Give each text that says something its vector, in order, and every other one a row of zeros."""
    import numpy as np  # noqa: PLC0415 - only who embeds pays for it

    placed = np.zeros((len(texts), dims), np.float32)
    if vectors:
        placed[[at for at, text in enumerate(texts) if is_embeddable(text)]] = np.concatenate(vectors)
    return placed


def is_embeddable(text: str) -> bool:
    """Tell whether a text is worth sending: models refuse an empty one, or make up a vector for it."""
    return bool(text) and not text.isspace()
