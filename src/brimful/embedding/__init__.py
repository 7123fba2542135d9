"""Embeddings: a text becomes a vector; texts that mean much the same have vectors that point much the same way."""

from brimful.embedding.static import StaticEmbedder, embed_static

__all__ = ["StaticEmbedder", "embed_static"]
