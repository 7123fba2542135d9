"""Vectors from an embedder, checked: anybody's code may be one, and what it gives is kept for good."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from brimful.errors import EmbeddingError
from brimful.protocols import Embedder, Purpose

Rows = npt.NDArray[np.float32]


async def embedded(embedder: Embedder, texts: Sequence[str], purpose: Purpose) -> Rows:
    """Return one row of finite numbers a text, or say what is wrong with what came."""
    rows = np.asarray(await embedder.embed(texts, purpose))
    if rows.ndim != 2 or len(rows) != len(texts) or not rows.shape[1]:  # noqa: PLR2004 - rows and columns
        raise EmbeddingError(embedder.id, f"gave an array of shape {rows.shape} for {len(texts)} texts")
    if rows.dtype.kind != "f" or not np.isfinite(rows).all():
        raise EmbeddingError(embedder.id, "gave what is no finite number")
    return rows
