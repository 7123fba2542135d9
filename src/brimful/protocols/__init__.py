"""Interfaces that applications can implement: embedders, providers, rerankers and summarizers."""

from typing import TYPE_CHECKING

from brimful.protocols.embedder import Embedder, Purpose
from brimful.protocols.provider import Provider
from brimful.protocols.reranker import Reranker
from brimful.protocols.summarizer import Summarizer

if TYPE_CHECKING:
    from brimful.protocols.embedder import Vectors as Vectors

__all__ = ["Embedder", "Provider", "Purpose", "Reranker", "Summarizer"]
