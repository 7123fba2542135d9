"""Embedders by name."""

import pytest

from brimful.embedding import FORMS, embedder_for
from brimful.embedding.registry import StaticEmbedder
from brimful.errors import InvalidValue


@pytest.mark.parametrize(
    ("spec", "id"),
    [
        ("static", "static-minilm-256@7"),
        ("small", "small-int8-384@2"),
        ("openai:text-embedding-3-small", "openai:text-embedding-3-small@1"),
        ("openai:BAAI/bge-m3@http://localhost:8080/v1", "openai:BAAI/bge-m3@1"),
        ("ollama:nomic-embed-text", "ollama:nomic-embed-text@1"),
        ("ollama:nomic-embed-text:v1.5@http://gpu:11434", "ollama:nomic-embed-text:v1.5@1"),
        ("sentence-transformers:all-mpnet-base-v2", "sentence-transformers:all-mpnet-base-v2@1"),
    ],
)
def test_each_form_is_understood(spec, id):
    assert embedder_for(spec).id == id


@pytest.mark.parametrize(
    ("spec", "url"),
    [
        ("openai:a", "https://api.openai.com/v1/embeddings"),
        ("openai:a@http://here:1/v1/", "http://here:1/v1/embeddings"),
        ("ollama:a", "http://localhost:11434/api/embed"),
        ("ollama:a@https://there", "https://there/api/embed"),
    ],
)
def test_an_address_may_be_given(spec, url):
    assert embedder_for(spec).url == url


@pytest.mark.parametrize("spec", ["none", None])
def test_none_is_none(spec):
    assert embedder_for(spec) is None


def test_the_table_is_the_default():
    assert embedder_for().id == StaticEmbedder.id


def test_an_embedder_is_itself():
    mine = StaticEmbedder()
    assert embedder_for(mine) is mine


@pytest.mark.parametrize("spec", ["", "statik", "openai", "openai:", "ollama:@http://x", "sentence-transformers:"])
def test_anything_else_is_an_error_that_lists_the_forms(spec):
    with pytest.raises(InvalidValue) as caught:
        embedder_for(spec)
    assert all(form in str(caught.value) for form in FORMS)
    assert repr(spec) in str(caught.value)
