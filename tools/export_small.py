"""Make the weights of packages/brimful-small from those that `tools/train_embedders.py small:SEED` wrote.

    python tools/export_small.py OUT/small-1.npz

The graph takes `ids` (rows of word pieces, padded with 0) and returns one unit vector a row. Its linear layers compute
with 8-bit integers; so are the word vectors kept. Needs numpy, onnx and onnxruntime.
"""

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

TARGET = Path(__file__).parent.parent / "packages/brimful-small/src/brimful_small/small.onnx"
HEADS, WIDTH = 12, 384
OPSET = 20  # the first one with Gelu
EPSILON = 1e-12  # of the model's layer norm

Array = npt.NDArray[Any]


class Graph:
    """Adds operations. Each method returns the name of its output."""

    def __init__(self, weights: Mapping[str, Array]) -> None:
        """Take the weights by name."""
        self._weights = weights
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, Array] = {}

    def encoder(self) -> onnx.ModelProto:
        """Return the whole graph."""
        known = self._add("Not", self._add("Equal", "ids", self._keep("zero", np.array(0, np.int64))))
        mask = self._add("Cast", known, to=TensorProto.FLOAT)
        states = self._embed()
        bias = self._add("Mul", self._add("Sub", self._one(), mask), self._keep("far", np.float32(-1e9)))
        away = self._add("Unsqueeze", bias, self._keep("axes", np.array([1, 2])))
        for layer in range(1 + max(int(name.split(".")[1]) for name in self._weights if name.startswith("layers."))):
            states = self._layer(states, f"layers.{layer}.", away)
        self._pool(states, mask)
        return self._model()

    def _embed(self) -> str:
        """Look up word vectors, 8 bits a number, and widen them."""
        words = self._add("Cast", self._add("Gather", self._keep("words", self._weights["words8"]), "ids"), to=1)
        scales = self._keep("scales", self._weights["words_scale"][:, None].astype(np.float32))
        scaled = self._add("Mul", words, self._add("Gather", scales, "ids"))
        wide = self._add("MatMul", scaled, self._weight("up.weight"))
        length = self._add("Slice", self._add("Shape", "ids"), self._at(1), self._at(2))
        positions = self._keep("positions", self._weights["pos"].astype(np.float32))
        states = self._add("Add", wide, self._add("Slice", positions, self._at(0), length, self._at(0)))
        return self._normal(states, "n")

    def _layer(self, states: str, at: str, away: str) -> str:
        query, key, value = (self._heads(self._linear(states, at + part), part) for part in "qkv")
        root = self._keep("root", np.float32((WIDTH / HEADS) ** 0.5))
        scores = self._add("Add", self._add("Div", self._add("MatMul", query, key), root), away)
        seen = self._add("MatMul", self._add("Softmax", scores, axis=-1), value)
        joined = self._add(
            "Reshape", self._add("Transpose", seen, perm=(0, 2, 1, 3)), self._shape("whole", 0, 0, WIDTH)
        )
        states = self._normal(self._add("Add", states, self._linear(joined, at + "o")), at + "n1")
        wide = self._add("Gelu", self._linear(states, at + "u"))
        return self._normal(self._add("Add", states, self._linear(wide, at + "d")), at + "n2")

    def _heads(self, states: str, part: str) -> str:
        split = self._add("Reshape", states, self._shape("heads", 0, 0, HEADS, WIDTH // HEADS))
        return self._add("Transpose", split, perm=(0, 2, 3, 1) if part == "k" else (0, 2, 1, 3))

    def _pool(self, states: str, mask: str) -> None:
        column = self._add("Unsqueeze", mask, self._at(2))
        total = self._add("ReduceSum", self._add("Mul", states, column), self._at(1), keepdims=0)
        self._add("LpNormalization", total, axis=-1, p=2)  # the mean has the same direction as the sum

    def _linear(self, states: str, at: str) -> str:
        product = self._add("MatMul", states, self._weight(f"{at}.weight"))
        return self._add("Add", product, self._keep(f"{at}.bias", self._weights[f"{at}.bias"].astype(np.float32)))

    def _normal(self, states: str, at: str) -> str:
        weight, bias = (
            self._keep(f"{at}.{part}", self._weights[f"{at}.{part}"].astype(np.float32)) for part in ("weight", "bias")
        )
        return self._add("LayerNormalization", states, weight, bias, axis=-1, epsilon=EPSILON)

    def _weight(self, name: str) -> str:
        return self._keep(name, np.ascontiguousarray(self._weights[name].astype(np.float32).T))

    def _one(self) -> str:
        return self._keep("one", np.float32(1))

    def _at(self, axis: int) -> str:
        return self._keep(f"at{axis}", np.array([axis], np.int64))

    def _shape(self, name: str, *sizes: int) -> str:
        return self._keep(name, np.array(sizes, np.int64))

    def _keep(self, name: str, array: Any) -> str:
        self._constants[name] = np.asarray(array)
        return name

    def _add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        output = f"{operator}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, inputs, [output], name=output, **attributes))
        return output

    def _model(self) -> onnx.ModelProto:
        ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["texts", "pieces"])
        result = helper.make_tensor_value_info(self._nodes[-1].output[0], TensorProto.FLOAT, ["texts", WIDTH])
        constants = [numpy_helper.from_array(array, name) for name, array in self._constants.items()]
        graph = helper.make_graph(self._nodes, "small", [ids], [result], constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)


def main(weights: Path, target: Path = TARGET) -> None:
    """Write the file."""
    model = Graph(np.load(weights)).encoder()
    onnx.checker.check_model(model)
    with tempfile.TemporaryDirectory() as folder:
        exact = Path(folder) / "exact.onnx"
        onnx.save(model, exact)
        # 7 bits: with 8, the sums of pairs overflow on processors without VNNI.
        quantize_dynamic(
            exact,
            target,
            op_types_to_quantize=["MatMul"],
            per_channel=True,
            reduce_range=True,
            weight_type=QuantType.QInt8,
        )


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
