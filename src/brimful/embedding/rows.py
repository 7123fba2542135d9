"""What every embedder does to the rows that come from elsewhere."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from brimful.errors import EmbeddingError

if TYPE_CHECKING:
    import numpy.typing as npt

    from brimful.protocols import Vectors


def unit_rows(embedder: str, rows: "npt.ArrayLike", count: int, dims: int | None) -> "Vectors":
    """Return `count` rows of length 1 and of `dims` numbers, or say what is wrong with them."""
    import numpy as np  # noqa: PLC0415 - only who embeds pays for it

    try:
        vectors = np.array(rows, np.float32, ndmin=2)
    except (ValueError, OverflowError) as error:
        raise EmbeddingError(embedder, "the vectors are not all of one length") from error
    if len(vectors) != count:
        raise EmbeddingError(embedder, f"{len(vectors)} vectors came back for {count} texts")
    if not vectors.shape[1] or dims not in (None, vectors.shape[1]):
        raise EmbeddingError(embedder, f"a vector has {vectors.shape[1]} dimensions, not {dims or 'any number'}")
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    if not np.isfinite(lengths).all():
        raise EmbeddingError(embedder, "a vector holds a number that is not finite")
    vectors /= np.where(lengths > 0, lengths, 1)
    return vectors


def place_rows(texts: Sequence[str], vectors: Sequence["Vectors"], dims: int) -> "Vectors":
    """Give each text that says something its vector, in order, and every other one a row of zeros."""
    import numpy as np  # noqa: PLC0415 - only who embeds pays for it

    placed = np.zeros((len(texts), dims), np.float32)
    if vectors:
        placed[[at for at, text in enumerate(texts) if says_something(text)]] = np.concatenate(vectors)
    return placed


def says_something(text: str) -> bool:
    """Tell whether a text is worth sending: models refuse an empty one, or make up a vector for it."""
    return bool(text) and not text.isspace()
