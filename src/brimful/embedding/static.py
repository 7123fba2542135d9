"""The built-in embedder: a table with one vector per word or piece. A text's vector is their weighted sum."""

import asyncio
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from brimful.cache import content_bytes, memoize
from brimful.core.language import CYRILLIC, ENGLISH, detect_language
from brimful.embedding.multilingual import LANGUAGES, load_table, load_words
from brimful.embedding.wordpiece import WordPiece

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from brimful.protocols import Purpose, Vectors


_DATA: Final = Path(__file__).with_name("data")
_HALF_WEIGHT_AT: Final = 64  # word pieces into a text, since texts state their topic early
_MAX_INLINE: Final = 1_000  # characters of texts that are embedded on the event loop


class StaticEmbedder:
    """Embeds texts with a table of vectors for English word pieces, and one for the words of some other languages.

    >>> import asyncio
    >>> cat, kitten, tax = asyncio.run(StaticEmbedder().embed(["a cat", "the kittens", "income tax"], "passage"))
    >>> bool(cat @ kitten > cat @ tax)
    True
    """

    id: Final = "static-minilm-256@7"
    languages: Final = frozenset({ENGLISH, *LANGUAGES})

    async def embed(self, texts: Sequence[str], purpose: "Purpose") -> "Vectors":
        """Return one unit-length row per text, or a row of zeros if none of its word pieces are known."""
        del purpose  # the table is the same for queries and passages
        return embed_static(texts) if _is_quick(texts) else await asyncio.to_thread(embed_static, texts)

    async def close(self) -> None:
        """Do nothing: there are no resources to release."""


def embed_static(texts: Sequence[str]) -> "Vectors":
    """Embed texts synchronously."""
    return _table().embed(texts)


def compare_meanings(query: str, texts: Sequence[str]) -> list[float]:
    """Return how similar the meaning of each text is to that of a query.

    >>> [round(each, 1) for each in compare_meanings("How warm is it?", ["the weather report", "a tax form"])]
    [0.3, -0.0]
    """
    import numpy as np  # noqa: PLC0415 - imported on first use

    rows = np.stack([_cached_row(text) for text in texts])
    return [float(each) for each in rows @ _cached_row(query)]


def _is_quick(texts: Sequence[str]) -> bool:
    """Whether texts are embedded faster than a thread is started: a question, once the table is loaded."""
    short = sum(map(len, texts)) <= _MAX_INLINE
    return short and _table.cache_info().currsize > 0 and all(detect_language(text) == ENGLISH for text in texts)


class _Table:
    """The vocabulary and its vectors, quantized to int8 with one scale per row."""

    def __init__(self, pieces: WordPiece, rows: "npt.NDArray[np.int8]", scales: "npt.NDArray[np.float32]") -> None:
        self._pieces = pieces
        self._rows = rows
        self._scales = scales

    def embed(self, texts: Sequence[str]) -> "Vectors":
        import numpy as np  # noqa: PLC0415 - imported on first use

        sums = np.zeros((len(texts), self._rows.shape[1]), np.float32)
        for index, text in enumerate(texts):
            weights = piece_weights(self._ids(text))
            ids = np.fromiter(weights, np.intp, len(weights))
            # Square root: a piece that occurs four times counts twice as much as one that occurs once.
            factors = np.sqrt(np.fromiter(weights.values(), np.float32, len(weights)))
            english = ids < len(self._scales)
            pieces = ids[english]
            sums[index] = (factors[english] * self._scales[pieces]) @ self._rows[pieces].astype(np.float32)
            if len(pieces) < len(ids):
                sums[index] += factors[~english] @ load_table().rows(ids[~english] - len(self._scales))
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        np.divide(sums, lengths, out=sums, where=lengths > 0)
        return sums

    def _ids(self, text: str) -> Sequence[int]:
        """Return the pieces of a text. Rows for words of other languages follow after the rows for English pieces."""
        language = detect_language(text)
        if language in CYRILLIC:
            language = "ru"  # its relatives share many words with it
        if language not in LANGUAGES:
            return self._pieces.ids(text)
        words, ids = load_words()[language], list[int]()
        for unit in words.units(text):
            ids += [len(self._scales) + row for row in words.find(unit)]
        return ids or self._pieces.ids(text)


def piece_weights(ids: Sequence[int]) -> dict[int, float]:
    """Weight each word piece by how often and how early it occurs.

    >>> piece_weights([7, *range(100, 163), 7])[7]
    1.5
    """
    weights: dict[int, float] = {}
    for position, id in enumerate(ids):
        weights[id] = weights.get(id, 0.0) + _HALF_WEIGHT_AT / (_HALF_WEIGHT_AT + position)
    return weights


@cache
def vocabulary() -> tuple[str, ...]:
    """Return the word pieces of the table and of `small`, in the order of their ids."""
    return tuple((_DATA / "vocabulary.txt").read_text(encoding="utf-8").splitlines())


@cache
def _table() -> _Table:
    import numpy as np  # noqa: PLC0415 - imported on first use

    # Memory-mapped, so that processes on one machine share it.
    rows = np.asarray(np.load(_DATA / "static-minilm-256.npy", mmap_mode="r"))
    return _Table(WordPiece(vocabulary()), rows, np.load(_DATA / "static-minilm-256-scales.npy"))


_cached_row: Final = memoize(
    lambda text: embed_static([text])[0], name="vectors", size=lambda args, row: content_bytes(args[0]) + row.nbytes
)
