"""The encoder `small`: the numbers of its weights, and every way in which it can be missing."""

import asyncio
import hashlib
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from brimful_small import FILE

from brimful import Engine
from brimful.embedding import SmallEmbedder
from brimful.embedding.registry import list_embedders
from brimful.errors import EmbeddingError, MissingExtra

SENTENCES = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium.", "tea"]
# The cosines of the weights before quantization, computed with numpy in 32 bits.
EXACT = [
    [1.0, 0.6098, 0.1207, 0.1855],
    [0.6098, 1.0, 0.1244, 0.0983],
    [0.1207, 0.1244, 1.0, 0.0516],
    [0.1855, 0.0983, 0.0516, 1.0],
]


def embed(*texts, file=None):
    async def once():
        embedder = SmallEmbedder(file)
        rows = await embedder.embed(texts, "passage")
        await embedder.close()
        return rows

    return asyncio.run(once())


def test_the_similarities_are_those_of_the_weights_before_quantization():
    rows = embed(*SENTENCES)
    assert rows.shape == (4, 384)
    assert rows.dtype == np.float32
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1, abs=1e-6)
    assert rows @ rows.T == pytest.approx(np.array(EXACT), abs=0.03)


def test_the_vectors_of_this_id_are_these():
    """If this fails, the vectors have changed: give them a new id."""
    assert SmallEmbedder.id == "small-int8-384@2"
    row = embed("Fill the context window to the brim.")[0]
    assert row[:4] == pytest.approx([-0.0199, 0.0495, -0.0225, -0.0091], abs=0.005)


def test_the_docs_name_the_hash_of_the_file_and_it_is_small():
    data = FILE.read_bytes()
    page = (Path(__file__).parents[2] / "docs" / "embeddings.md").read_text(encoding="utf-8")
    assert re.findall(r"`([0-9a-f]{64})`", page) == [hashlib.sha256(data).hexdigest()]
    assert len(data) < 12_000_000


def test_a_row_does_not_depend_on_its_batch():
    texts = [*SENTENCES, "漢字 and naïve café", "x"] * 4
    together = embed(*texts)
    assert all(np.array_equal(row, embed(text)[0]) for row, text in zip(together[:6], texts, strict=False))


@pytest.mark.parametrize("text", ["", " \n", "🦖"])
def test_a_text_without_known_pieces_is_zero(text):
    assert embed("tea", text).any(axis=1).tolist() == [True, False]


def test_no_texts_give_no_rows():
    assert embed().shape == (0, 384)


def test_a_text_is_read_up_to_256_tokens():
    whole, more, huge = embed("tea " * 254, "tea " * 254 + "and a bicycle", "tea " * 50_000)
    assert np.array_equal(whole, more)
    assert np.array_equal(whole, huge)


def test_the_small_embedder_is_listed():
    assert next(offer for offer in list_embedders() if offer.name == "small").missing == ""


@pytest.mark.parametrize("module", ["onnxruntime", "brimful_small"])
def test_the_extra_is_named(monkeypatch, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=r"brimful\[small\]"):
        Engine("sqlite:///:memory:", embedder="small")


def test_the_model_is_loaded_once_and_unloaded_when_closed(tmp_path):
    file = tmp_path / "small.onnx"
    shutil.copy(FILE, file)

    async def embed_twice():
        embedder = SmallEmbedder(file)
        rows = await embedder.embed(["tea"], "passage")
        file.unlink()
        assert np.array_equal(await embedder.embed(["tea"], "passage"), rows)
        await embedder.close()
        with pytest.raises(EmbeddingError, match="cannot be loaded"):
            await embedder.embed(["tea"], "passage")

    asyncio.run(embed_twice())


@pytest.mark.parametrize("content", [None, b"no graph"], ids=["absent", "damaged"])
def test_a_file_that_cannot_be_loaded_is_named(tmp_path, content):
    file = tmp_path / "small.onnx"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(EmbeddingError, match=r"small\.onnx cannot be loaded\. Install brimful-small again"):
        embed("tea", file=file)
