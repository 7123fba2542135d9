"""The seam of an embedder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Vectors = npt.NDArray[np.float32]

Purpose = Literal["query", "passage"]


class Embedder(Protocol):
    """Turns texts into vectors whose cosine tells how alike the texts are.

    `id` names the vectors, for example `static-minilm-256@1`: two embedders of one id give the same vectors.
    """

    @property
    def id(self) -> str:
        """The name under which vectors are kept."""
        ...

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> Vectors:
        """Return one row a text, each of length 1; a text without anything known in it gives a row of zeros."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...
