"""A small encoder on this machine: more accurate than the static table, and about fifty times slower."""

import asyncio
import threading
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from brimful.core.language import ENGLISH
from brimful.embedding.rows import unit_rows
from brimful.embedding.static import vocabulary
from brimful.embedding.wordpiece import UNKNOWN, WordPiece
from brimful.errors import EmbeddingError, MissingExtra

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from brimful.protocols import Purpose, Vectors


ID: Final = "small-int8-384@2"
DIMENSIONS: Final = 384
MAX_TOKENS: Final = 256  # including [CLS] and [SEP]; longer texts are truncated
EXTRA: Final = "small"
_BATCH_SIZE: Final = 16  # texts; cancellation takes effect between batches


class SmallEmbedder:
    """Embeds with four layers distilled from all-MiniLM-L6-v2, loaded on first use.

    `threads` is the number of threads per text.
    """

    id: Final = ID
    languages: Final = frozenset({ENGLISH})

    def __init__(self, file: Path | None = None, *, threads: int = 1) -> None:
        """Use this model file, by default the one in the package `brimful-small`, which the extra installs."""
        needed = ("onnxruntime",) if file else ("onnxruntime", "brimful_small")
        if not all(map(find_spec, needed)):
            raise MissingExtra(EXTRA, "the embedder 'small'")
        self._file = file
        self._threads = threads
        self._loading = threading.Lock()
        self._model: _Model | None = None

    async def embed(self, texts: Sequence[str], purpose: "Purpose") -> "Vectors":
        """Return one unit-length row per text, or a row of zeros if none of its word pieces are known."""
        import numpy as np  # noqa: PLC0415 - imported on first use

        del purpose  # the model embeds queries and passages alike
        rows = np.zeros((len(texts), DIMENSIONS), np.float32)
        for start in range(0, len(texts), _BATCH_SIZE):
            batch = slice(start, start + _BATCH_SIZE)
            rows[batch] = await asyncio.to_thread(self._embed, texts[batch])
        return rows

    async def close(self) -> None:
        """Unload the model."""
        self._model = None

    def _embed(self, texts: Sequence[str]) -> "Vectors":
        model = self._get_model()
        return unit_rows(ID, [model.embed(text) for text in texts], len(texts), DIMENSIONS)

    def _get_model(self) -> "_Model":
        with self._loading:
            if self._model is None:
                self._model = _load(self._file, self._threads)
            return self._model


class _Model:
    """A loaded graph."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def embed(self, text: str) -> "npt.NDArray[np.float32]":
        """Return the vector, or zeros for a text without known word pieces."""
        import numpy as np  # noqa: PLC0415 - imported on first use

        ids, unknown, begin, end = _tokenizer().ids(text), *_special_ids()
        if all(id == unknown for id in ids):
            return np.zeros(DIMENSIONS, np.float32)
        # One text at a time: activations are quantized by the range of the batch, so a row would depend on the others.
        row: npt.NDArray[np.float32] = self._session.run(
            None, {"ids": np.array([[begin, *ids[: MAX_TOKENS - 2], end]], np.int64)}
        )[0][0]
        return row


@cache
def _tokenizer() -> WordPiece:
    return WordPiece(vocabulary())


@cache
def _special_ids() -> tuple[int, int, int]:
    unknown, begin, end = map(vocabulary().index, (UNKNOWN, "[CLS]", "[SEP]"))
    return unknown, begin, end


def _load(file: Path | None, threads: int) -> _Model:
    import onnxruntime  # noqa: PLC0415 - an extra

    file = file or import_module("brimful_small").FILE
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # spinning threads waste CPU time
    try:
        return _Model(onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"]))
    except Exception as error:  # onnxruntime's own errors have no common base
        raise EmbeddingError(ID, f"{file} cannot be loaded. Install brimful-small again") from error
