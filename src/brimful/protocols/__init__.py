"""The seams: what the engine asks of stores, embedders, providers and others. Anything with these methods will do."""

from typing import TYPE_CHECKING

from brimful.answers import Indexed
from brimful.protocols.embedder import Embedder, Purpose
from brimful.protocols.housekeeping import Housekeeping
from brimful.protocols.provider import Provider
from brimful.protocols.store import Store
from brimful.protocols.summarizer import Summarizer

if TYPE_CHECKING:
    from brimful.protocols.embedder import Vectors as Vectors

__all__ = ["Embedder", "Housekeeping", "Indexed", "Provider", "Purpose", "Store", "Summarizer"]
