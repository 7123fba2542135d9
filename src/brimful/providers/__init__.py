"""Servers that run models: how they are asked, in four dialects, and what may go wrong."""

from brimful.providers.connection import Answered, Answering, Connection
from brimful.providers.dialect import Dialect, Reader
from brimful.providers.limits import Limits
from brimful.providers.overflow import Overflow, find_overflow
from brimful.providers.provider import HttpProvider

__all__ = [
    "Answered",
    "Answering",
    "Connection",
    "Dialect",
    "HttpProvider",
    "Limits",
    "Overflow",
    "Reader",
    "find_overflow",
]
