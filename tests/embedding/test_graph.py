"""A small version of the installed graph: onnxruntime computes what the model defines."""

import json
import math

import numpy as np
import onnxruntime
import pytest

from brimful.embedding.minilm_install import Shape, build_graph
from brimful.embedding.onnx import Node, model

WIDTH, HEADS, WIDE, WORDS, PLACES = 16, 2, 32, 50, 12


def random_weights():
    draw = np.random.default_rng(7)
    shapes = {
        "embeddings.word_embeddings.weight": (WORDS, WIDTH),
        "embeddings.position_embeddings.weight": (PLACES, WIDTH),
        "embeddings.token_type_embeddings.weight": (2, WIDTH),
        "embeddings.LayerNorm.weight": (WIDTH,),
        "embeddings.LayerNorm.bias": (WIDTH,),
    }
    for part in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
        shapes |= {f"encoder.layer.0.{part}.weight": (WIDTH, WIDTH), f"encoder.layer.0.{part}.bias": (WIDTH,)}
    for part in ("attention.output.LayerNorm", "output.LayerNorm"):
        shapes |= {f"encoder.layer.0.{part}.weight": (WIDTH,), f"encoder.layer.0.{part}.bias": (WIDTH,)}
    shapes |= {
        "encoder.layer.0.intermediate.dense.weight": (WIDE, WIDTH),
        "encoder.layer.0.intermediate.dense.bias": (WIDE,),
    }
    shapes |= {"encoder.layer.0.output.dense.weight": (WIDTH, WIDE), "encoder.layer.0.output.dense.bias": (WIDTH,)}
    return {name: (draw.standard_normal(shape) / 4).astype(np.float32) for name, shape in shapes.items()}


def safetensors(weights):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, array in weights.items():
        header[name] = {"dtype": "F32", "shape": array.shape, "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    head = json.dumps(header).encode()
    return len(head).to_bytes(8, "little") + head + data


def reference(weights, ids):
    """Return the mean state of a text: BERT as it is defined, in floats."""

    def linear(x, at):
        return x @ weights[f"{at}.weight"].T + weights[f"{at}.bias"]

    def normal(x, at):
        centred = x - x.mean(-1, keepdims=True)
        return centred / np.sqrt(x.var(-1, keepdims=True) + 1e-12) * weights[f"{at}.weight"] + weights[f"{at}.bias"]

    at = "encoder.layer.0."
    x = weights["embeddings.word_embeddings.weight"][ids] + weights["embeddings.position_embeddings.weight"][: len(ids)]
    x = normal(x + weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    query, key, value = (
        linear(x, f"{at}attention.self.{part}").reshape(len(ids), HEADS, -1) for part in ("query", "key", "value")
    )
    scores = np.exp(np.einsum("qhd,khd->hqk", query, key) / math.sqrt(WIDTH / HEADS))
    seen = np.einsum("hqk,khd->qhd", scores / scores.sum(-1, keepdims=True), value).reshape(len(ids), WIDTH)
    x = normal(x + linear(seen, f"{at}attention.output.dense"), f"{at}attention.output.LayerNorm")
    wide = linear(x, f"{at}intermediate.dense")
    wide = wide * (1 + np.vectorize(math.erf)(wide / math.sqrt(2))) / 2
    return normal(x + linear(wide, f"{at}output.dense"), f"{at}output.LayerNorm").mean(0)


def test_the_graph_computes_the_model():
    weights = random_weights()
    graph = build_graph(safetensors(weights), Shape(layers=1, heads=HEADS, width=WIDTH))
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    for ids in ([1], [3, 1, 4, 1, 5], list(range(PLACES))):
        [[row]] = session.run(None, {"ids": np.array([ids])})
        expected = reference(weights, ids)
        assert row @ expected / np.linalg.norm(row) / np.linalg.norm(expected) > 0.99


def test_a_graph_is_written_as_onnxruntime_reads_it():
    nodes = [
        Node("Cast", ("ids",), ("floats",), {"to": 1}),
        Node("LeakyRelu", ("floats",), ("bent",), {"alpha": 0.5}),
        Node("Transpose", ("bent",), ("turned",), {"perm": (1, 0)}),
        Node("Add", ("turned", "shift"), ("sum",)),
    ]
    written = model(nodes, {"shift": np.array([[0.5]], np.float32)}, {"ids": (1, "length")})
    session = onnxruntime.InferenceSession(written, providers=["CPUExecutionProvider"])
    [answer] = session.run(None, {"ids": np.array([[4, -2, 1000]])})
    assert answer.tolist() == [[4.5], [-0.5], [1000.5]]


def test_other_kinds_of_numbers_are_not_written():
    with pytest.raises(KeyError):
        model([Node("Add", ("a", "b"), ("c",))], {"a": np.array([1j])}, {})
