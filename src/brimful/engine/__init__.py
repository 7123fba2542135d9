"""The engine: the async shell that connects stores, retrieval and the core."""

from brimful.engine.engine import Engine
from brimful.engine.events import Event, Hook
from brimful.engine.options import Retrieval
from brimful.engine.sync import SyncEngine

__all__ = ["Engine", "Event", "Hook", "Retrieval", "SyncEngine"]
