"""The embedder protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Vectors = npt.NDArray[np.float32]

Purpose = Literal["query", "passage"]


class Embedder(Protocol):
    """Converts texts to vectors whose cosine similarity reflects similarity in meaning.

    `id` names the vectors, for example `static-minilm-256@6`. Two embedders with the same id return the same vectors.
    """

    @property
    def id(self) -> str:
        """The name under which vectors are stored."""
        ...

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> Vectors:
        """Return one unit-length row per text, or a row of zeros for a text with no known words."""
        ...

    async def close(self) -> None:
        """Close any connections."""
        ...
