"""The seams: what the engine asks of a store, an embedder and a provider. Anything with these methods will do."""

from typing import TYPE_CHECKING

from brimful.answers import Indexed
from brimful.protocols.embedder import Embedder, Purpose
from brimful.protocols.provider import Provider
from brimful.protocols.store import Store

if TYPE_CHECKING:
    from brimful.protocols.embedder import Vectors as Vectors

__all__ = ["Embedder", "Indexed", "Provider", "Purpose", "Store"]
