"""Session files of coding agents: what filled their windows, why caches missed, and what compaction lost.

Each program's file is read as a stream of the same few values (`events`); everything else is computed from these.
"""

from brimful.sessions.cache import Miss, find_misses
from brimful.sessions.events import Call, Category, Compaction, Event, Piece
from brimful.sessions.files import SessionFile, find_session, find_sessions
from brimful.sessions.lost import Loss, find_losses
from brimful.sessions.window import Turn, Window, read_windows

__all__ = [
    "Call",
    "Category",
    "Compaction",
    "Event",
    "Loss",
    "Miss",
    "Piece",
    "SessionFile",
    "Turn",
    "Window",
    "find_losses",
    "find_misses",
    "find_session",
    "find_sessions",
    "read_windows",
]
