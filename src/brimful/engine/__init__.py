"""The engine: the async shell that ties stores, retrieval and the core together."""

from brimful.engine.engine import Engine
from brimful.engine.event import Event, Hook
from brimful.engine.settings import Retrieval

__all__ = ["Engine", "Event", "Hook", "Retrieval"]
