"""all-MiniLM-L6-v2 on this machine: more accurate than the static table, and about a hundred times slower."""

import asyncio
import os
import sys
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from brimful.embedding.rows import unit_rows
from brimful.embedding.static import vocabulary
from brimful.embedding.wordpiece import UNKNOWN, WordPiece
from brimful.errors import EmbeddingError, MissingExtra

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from brimful.protocols import Purpose, Vectors


ENVIRONMENT_KEY: Final = "BRIMFUL_HOME"


def models_dir() -> Path:
    """Return the folder: what BRIMFUL_HOME says, or the user's cache on this platform."""
    if named := os.environ.get(ENVIRONMENT_KEY):
        return Path(named).expanduser()
    return _user_cache_dir(sys.platform) / "brimful"


def _user_cache_dir(platform: str) -> Path:
    if platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


ID: Final = "minilm-int8-384@1"
DIMENSIONS: Final = 384
MAX_TOKENS: Final = 256  # tokens, the two around a text included; the rest of it is not read
INSTALL: Final = "brimful embeddings install minilm"
EXTRA: Final = "minilm"

_BATCH_SIZE: Final = 16  # texts; after that many a caller who has given up is heard


def model_file() -> Path:
    """Return where the model is, or would be."""
    return models_dir() / f"{ID}.onnx"


class MiniLMEmbedder:
    """Embeds with all-MiniLM-L6-v2, loaded on first use. `threads` is for one text; several texts do not mix."""

    id: Final = ID

    def __init__(self, file: Path | None = None, *, threads: int = 1) -> None:
        """Take the file of the model, if it is not where `brimful embeddings install` puts it."""
        self._file = file
        self._threads = threads
        self._loading = threading.Lock()
        self._model: _Model | None = None

    async def embed(self, texts: Sequence[str], purpose: "Purpose") -> "Vectors":
        """Return one row a text of length 1, or of zeros where no piece of it is known."""
        import numpy as np  # noqa: PLC0415 - only who embeds pays for it

        del purpose  # the model makes no difference
        rows = np.zeros((len(texts), DIMENSIONS), np.float32)
        for start in range(0, len(texts), _BATCH_SIZE):
            some = slice(start, start + _BATCH_SIZE)
            rows[some] = await asyncio.to_thread(self._embed, texts[some])
        return rows

    async def close(self) -> None:
        """Let go of the model."""
        self._model = None

    def _embed(self, texts: Sequence[str]) -> "Vectors":
        model = self._loaded()
        return unit_rows(ID, [model.embed(text) for text in texts], len(texts), DIMENSIONS)

    def _loaded(self) -> "_Model":
        with self._loading:
            if self._model is None:
                self._model = _load(self._file or model_file(), self._threads)
            return self._model


class _Model:
    """A loaded graph."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def embed(self, text: str) -> "npt.NDArray[np.float32]":
        """Return a vector of any length; zeros for a text without a known piece."""
        import numpy as np  # noqa: PLC0415 - only who embeds pays for it

        ids, unknown, begin, end = _pieces().ids(text), *_marks()
        if all(id == unknown for id in ids):
            return np.zeros(DIMENSIONS, np.float32)
        row: npt.NDArray[np.float32] = self._session.run(
            None, {"ids": np.array([[begin, *ids[: MAX_TOKENS - 2], end]], np.int64)}
        )[0][0]
        return row


@cache
def _pieces() -> WordPiece:
    return WordPiece(vocabulary())


@cache
def _marks() -> tuple[int, int, int]:
    unknown, begin, end = map(vocabulary().index, (UNKNOWN, "[CLS]", "[SEP]"))
    return unknown, begin, end


def _load(file: Path, threads: int) -> _Model:
    try:
        import onnxruntime  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtra(EXTRA, "the embedder 'minilm'") from error
    if not file.exists():
        raise EmbeddingError(ID, f"is not installed; install it once: {INSTALL}")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # waiting threads would eat the processor
    try:
        return _Model(onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"]))
    except Exception as error:  # onnxruntime's own errors have no common base
        raise EmbeddingError(ID, f"{file} cannot be loaded; delete it, then: {INSTALL}") from error
