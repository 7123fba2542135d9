"""The embedder that comes along: a table of vectors, one a piece of a word; a text is their weighted sum.

The table is distilled from all-MiniLM-L6-v2 by `tools/distill_static.py`. It knows words and nothing of their order,
takes no download and no library but numpy, and reads thousands of texts a second.
"""

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
_AT_ONCE: Final = 4096  # pieces of one text that are summed at once: 5 MB, however long the text is


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
        for row, text in zip(sums, texts, strict=True):
            self._add(row, np.array(self._pieces.ids(text), np.intp))
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        np.divide(sums, lengths, out=sums, where=lengths > 0)
        return sums

    def _add(self, row: "Vectors", ids: "npt.NDArray[np.intp]") -> None:
        for start in range(0, len(ids), _AT_ONCE):
            some = ids[start : start + _AT_ONCE]
            row += self._scales[some] @ self._rows[some].astype(row.dtype)


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
