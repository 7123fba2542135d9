"""Embeddings: convert text to vectors whose cosine similarity reflects similarity in meaning."""

from brimful.embedding.ollama import OllamaEmbedder
from brimful.embedding.openai import OpenAIEmbedder
from brimful.embedding.registry import FORMS, embedder_for
from brimful.embedding.sentence_transformers import SentenceTransformersEmbedder
from brimful.embedding.small import SmallEmbedder
from brimful.embedding.static import StaticEmbedder, embed_static

__all__ = [
    "FORMS",
    "OllamaEmbedder",
    "OpenAIEmbedder",
    "SentenceTransformersEmbedder",
    "SmallEmbedder",
    "StaticEmbedder",
    "embed_static",
    "embedder_for",
]
