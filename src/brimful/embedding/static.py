"""The built-in embedder: a table with one vector per word piece. A text's vector is their weighted sum."""

import asyncio
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from brimful.embedding.wordpiece import WordPiece

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from brimful.protocols import Purpose, Vectors


_DATA: Final = Path(__file__).with_name("data")
_HALF: Final = 64  # pieces into a text, one weighs half: what a text is about is said early


class StaticEmbedder:
    """Turns texts into vectors by a table. Knows English words, and pieces of others.

    >>> import asyncio
    >>> cat, kitten, tax = asyncio.run(StaticEmbedder().embed(["a cat", "the kittens", "income tax"], "passage"))
    >>> bool(cat @ kitten > cat @ tax)
    True
    """

    id: Final = "static-minilm-256@1"

    async def embed(self, texts: Sequence[str], purpose: "Purpose") -> "Vectors":
        """Return one row a text of length 1, or of zeros where no piece of it is known."""
        del purpose  # a table knows no difference
        return await asyncio.to_thread(embed_static, texts)

    async def close(self) -> None:
        """Do nothing: there is nothing to let go of."""


def embed_static(texts: Sequence[str]) -> "Vectors":
    """Embed texts here and now, in this thread."""
    return _table().embed(texts)


class _Table:
    """The vocabulary and its vectors: a row is whole numbers of 8 bits, times its scale."""

    def __init__(self, pieces: WordPiece, rows: "npt.NDArray[np.int8]", scales: "npt.NDArray[np.float32]") -> None:
        self._pieces = pieces
        self._rows = rows
        self._scales = scales

    def embed(self, texts: Sequence[str]) -> "Vectors":
        import numpy as np  # noqa: PLC0415 - only who embeds pays for it

        sums = np.zeros((len(texts), self._rows.shape[1]), np.float32)
        for at, text in enumerate(texts):
            weights = piece_weights(self._pieces.ids(text))
            ids = np.fromiter(weights, np.intp, len(weights))
            # The root, for a piece that is there four times says twice as much as one that is there once.
            heft = np.sqrt(np.fromiter(weights.values(), np.float32, len(weights))) * self._scales[ids]
            sums[at] = heft @ self._rows[ids].astype(np.float32)
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        np.divide(sums, lengths, out=sums, where=lengths > 0)
        return sums


def piece_weights(ids: Sequence[int]) -> dict[int, float]:
    """Weigh each piece by how early and how often it comes.

    >>> piece_weights([7, *range(100, 163), 7])[7]
    1.5
    """
    weights: dict[int, float] = {}
    for place, id in enumerate(ids):
        weights[id] = weights.get(id, 0.0) + _HALF / (_HALF + place)
    return weights


@cache
def vocabulary() -> tuple[str, ...]:
    """Return the pieces of words that the table and its model know, in the order of their ids."""
    return tuple((_DATA / "vocabulary.txt").read_text(encoding="utf-8").splitlines())


@cache
def _table() -> _Table:
    import numpy as np  # noqa: PLC0415 - only who embeds pays for it

    # Mapped, not read: processes on one machine share the memory.
    rows = np.asarray(np.load(_DATA / "static-minilm-256.npy", mmap_mode="r"))
    return _Table(WordPiece(vocabulary()), rows, np.load(_DATA / "static-minilm-256-scales.npy"))
