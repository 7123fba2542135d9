"""The seams: what the engine asks of stores, embedders, providers and others. Anything with these methods will do."""

from typing import TYPE_CHECKING

from brimful.protocols.embedder import Embedder, Purpose
from brimful.protocols.provider import Provider
from brimful.protocols.store import Store
from brimful.protocols.summarizer import Summarizer
from brimful.records.janitor import Housekeeping
from brimful.records.search import IndexEntry

if TYPE_CHECKING:
    from brimful.protocols.embedder import Vectors as Vectors

__all__ = ["Embedder", "Housekeeping", "IndexEntry", "Provider", "Purpose", "Store", "Summarizer"]
