"""Embeddings: a text becomes a vector; texts that mean much the same have vectors that point much the same way.

From a short text to an embedder, and from there to rows of numbers:

    choose → static | minilm | openai, ollama → remote | sentence_transformers
           → wordpiece → characters | prompts, rows

Beside them, what there is and how it gets here: catalogue → install → minilm_graph → onnx.
"""

from brimful.embedding.choose import FORMS, embedder_for
from brimful.embedding.minilm import MiniLMEmbedder
from brimful.embedding.ollama import OllamaEmbedder
from brimful.embedding.openai import OpenAIEmbedder
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
