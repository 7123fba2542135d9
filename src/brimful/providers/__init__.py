"""Servers that run models: how they are asked, in four dialects, and what may go wrong."""

from brimful.providers.choose import FORMS, dialect_at, key_for, provider_for, provider_of
from brimful.providers.connection import Answered, Answering, Connection
from brimful.providers.dialect import Dialect, Reader
from brimful.providers.known import ENVIRONMENT, KNOWN, Known
from brimful.providers.limits import Limits
from brimful.providers.overflow import Overflow, find_overflow
from brimful.providers.provider import HttpProvider

__all__ = [
    "ENVIRONMENT",
    "FORMS",
    "KNOWN",
    "Answered",
    "Answering",
    "Connection",
    "Dialect",
    "HttpProvider",
    "Known",
    "Limits",
    "Overflow",
    "Reader",
    "dialect_at",
    "find_overflow",
    "key_for",
    "provider_for",
    "provider_of",
]
