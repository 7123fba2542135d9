"""all-MiniLM-L6-v2 as an ONNX graph with weights of 8 bits, made from its safetensors file.

A linear layer keeps its weights as whole numbers, with one scale a column, and rounds what goes in as it goes by. The
weights take 7 of the 8 bits: older processors add two products in 16 bits, and 8 would overflow there. Everything here
is done number by number, so the file is the same to the bit wherever it is made.
"""

import json
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from brimful.embedding.onnx import Node, model

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]

LAYERS, HEADS, WIDTH = 6, 12, 384
LARGEST: Final = 63  # in 7 bits
EPSILON: Final = 1e-12  # of the model's layer norm


def build(safetensors: bytes) -> bytes:
    """Return the graph: `ids` of one text, as one row → the text's vector, not yet of length 1."""
    graph = _Graph(_tensors(safetensors))
    states = graph.embed("ids")
    for layer in range(LAYERS):
        states = graph.layer(states, f"encoder.layer.{layer}.")
    graph.mean(states)
    return model(graph.nodes, graph.constants, {"ids": (1, "length")})


class _Graph:
    """Writes operations one after the other; each method returns the name of what it makes."""

    def __init__(self, weights: Mapping[str, "Floats"]) -> None:
        import numpy as np  # noqa: PLC0415 - only who installs pays for it

        self._weights = weights
        self.nodes: list[Node] = []
        self.constants: dict[str, npt.NDArray[Any]] = {
            "heads": np.array([0, 0, HEADS, WIDTH // HEADS]),
            "whole": np.array([0, 0, WIDTH]),
            "root": np.array(math.sqrt(WIDTH / HEADS), np.float32),
            "from": np.array([0]),
            "rows": np.array([0]),
            "along": np.array(1),
            "text": np.array([1]),
        }

    def embed(self, ids: str) -> str:
        words, scales = _rounded(self._weights["embeddings.word_embeddings.weight"], axis=1)
        rows = self._add("Cast", self._add("Gather", self._keep("words", words), ids), to=1)
        scaled = self._add("Mul", rows, self._add("Gather", self._keep("word_scales", scales), ids))
        kind = self._weights["embeddings.token_type_embeddings.weight"][0]
        places = self._keep("places", self._weights["embeddings.position_embeddings.weight"] + kind)
        length = self._add("Unsqueeze", self._add("Gather", self._add("Shape", ids), "along"), "rows")
        states = self._add("Add", scaled, self._add("Slice", places, "from", length, "rows"))
        return self._normal(states, "embeddings.LayerNorm")

    def layer(self, states: str, at: str) -> str:
        seen = self._linear(self._attend(states, f"{at}attention.self."), f"{at}attention.output.dense")
        states = self._normal(self._add("Add", states, seen), f"{at}attention.output.LayerNorm")
        wide = self._add("Gelu", self._linear(states, f"{at}intermediate.dense"))
        return self._normal(self._add("Add", states, self._linear(wide, f"{at}output.dense")), f"{at}output.LayerNorm")

    def mean(self, states: str) -> str:
        return self._add("ReduceMean", states, "text", keepdims=0)

    def _attend(self, states: str, at: str) -> str:
        query = self._heads(self._linear(states, f"{at}query"), (0, 2, 1, 3))
        key = self._heads(self._linear(states, f"{at}key"), (0, 2, 3, 1))
        value = self._heads(self._linear(states, f"{at}value"), (0, 2, 1, 3))
        shares = self._add("Softmax", self._add("Div", self._add("MatMul", query, key), "root"), axis=-1)
        seen = self._add("Transpose", self._add("MatMul", shares, value), perm=(0, 2, 1, 3))
        return self._add("Reshape", seen, "whole")

    def _heads(self, states: str, order: tuple[int, ...]) -> str:
        return self._add("Transpose", self._add("Reshape", states, "heads"), perm=order)

    def _linear(self, states: str, at: str) -> str:
        weight, scales = _rounded(self._weights[f"{at}.weight"].T, axis=0)
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
        made = f"{operator}_{len(self.nodes)}"
        self.nodes.append(Node(operator, inputs, (made,), attributes))
        return made


def _rounded(weights: "Floats", axis: int) -> "tuple[npt.NDArray[np.int8], Floats]":
    """Return whole numbers, and the scale of each column (axis 0) or row (axis 1)."""
    import numpy as np  # noqa: PLC0415 - only who installs pays for it

    largest = LARGEST if axis == 0 else 127
    scales = np.maximum(np.abs(weights).max(axis, keepdims=True), np.float32(1e-12)) / np.float32(largest)
    small = np.rint(weights / scales).astype(np.int8)
    return small, scales.reshape(-1) if axis == 0 else scales


def _tensors(data: bytes) -> dict[str, "Floats"]:
    return dict(_read(data))


def _read(data: bytes) -> Iterator["tuple[str, Floats]"]:
    """Read a safetensors file: the length of its header, the header, the numbers."""
    import numpy as np  # noqa: PLC0415 - only who installs pays for it

    start = 8 + int.from_bytes(data[:8], "little")
    for name, entry in json.loads(data[8:start]).items():
        if entry.get("dtype") == "F32":
            shape, at = entry["shape"], start + entry["data_offsets"][0]
            yield name, np.frombuffer(data, "<f4", math.prod(shape), at).reshape(shape)
