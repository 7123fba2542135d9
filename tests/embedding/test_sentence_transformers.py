"""The adapter, with a tiny class that has the methods of `SentenceTransformer`."""

import asyncio
import gc
import importlib.util
import weakref

import numpy as np
import pytest

from brimful.embedding import SentenceTransformersEmbedder
from brimful.errors import EmbeddingError, MissingExtra


class Encoder:
    """Two numbers a text: its length, and 1 for a query."""

    def __init__(self):
        self.options = {}

    def encode_query(self, sentences, **options):
        return self._encode(sentences, 1.0, options)

    def encode_document(self, sentences, **options):
        return self._encode(sentences, 0.0, options)

    def _encode(self, sentences, last, options):
        if "bomb" in sentences:
            raise RuntimeError("CUDA out of memory")
        self.options = options
        return np.array([[len(text), last] + [0] * ("odd" in sentences) for text in sentences])


def embed(encoder, *texts, purpose="passage"):
    return asyncio.run(SentenceTransformersEmbedder("tiny", encoder).embed(texts, purpose))


def test_queries_and_passages_take_their_own_way():
    encoder = Encoder()
    assert embed(encoder, "abc").tolist() == [[1, 0]]
    assert embed(encoder, "a", purpose="query") == pytest.approx(np.array([[0.5**0.5, 0.5**0.5]]))
    assert encoder.options == {"convert_to_numpy": True, "show_progress_bar": False}


def test_empty_texts_are_zero_and_not_encoded():
    assert embed(Encoder(), "", "abc", " ").tolist() == [[0, 0], [1, 0], [0, 0]]
    assert embed(Encoder(), "").tolist() == [[0, 0]]


def test_whatever_the_model_raises_is_an_error_of_ours():
    with pytest.raises(EmbeddingError, match="sentence-transformers:tiny@1: the model failed: CUDA out of memory"):
        embed(Encoder(), "bomb")


def test_a_model_that_does_not_keep_its_word_is_refused():
    async def twice():
        embedder = SentenceTransformersEmbedder("tiny", Encoder())
        await embedder.embed(["abc"], "passage")
        await embedder.embed(["odd"], "passage")

    with pytest.raises(EmbeddingError, match="3 dimensions, expected 2"):
        asyncio.run(twice())


@pytest.mark.skipif(importlib.util.find_spec("sentence_transformers") is not None, reason="the library is here")
def test_without_the_library_the_extra_is_named():
    with pytest.raises(MissingExtra, match=r"brimful\[sentence-transformers\]"):
        embed(None, "abc")


def test_closing_lets_go_of_the_model():
    async def closed():
        encoder = Encoder()
        released = weakref.ref(encoder)
        embedder = SentenceTransformersEmbedder("tiny", encoder)
        del encoder
        await embedder.embed(["a"], "query")
        assert released() is not None
        await embedder.close()
        gc.collect()
        return released()

    assert asyncio.run(closed()) is None
