"""Embeddings: convert text to vectors whose cosine similarity reflects similarity in meaning."""

from brimful.embedding.minilm import MiniLMEmbedder
from brimful.embedding.ollama import OllamaEmbedder
from brimful.embedding.openai import OpenAIEmbedder
from brimful.embedding.registry import FORMS, embedder_for
from brimful.embedding.sentence_transformers import SentenceTransformersEmbedder
from brimful.embedding.static import StaticEmbedder, embed_static

__all__ = [
    "FORMS",
    "MiniLMEmbedder",
    "OllamaEmbedder",
    "OpenAIEmbedder",
    "SentenceTransformersEmbedder",
    "StaticEmbedder",
    "embed_static",
    "embedder_for",
]
