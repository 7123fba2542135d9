"""Providers: model servers, their dialects and their errors."""

from brimful.providers.connection import Connection, HttpResponse, HttpStream, Limits
from brimful.providers.directory import KEY_VARIABLES, KNOWN_SERVERS, KnownServer
from brimful.providers.provider import (
    PROVIDER_FORMS,
    HttpProvider,
    find_api_key,
    make_dialect,
    make_provider,
    make_provider_for_model,
)
from brimful.wires.dialect import Dialect
from brimful.wires.errors import Overflow, find_overflow
from brimful.wires.replies import Reader

__all__ = [
    "KEY_VARIABLES",
    "KNOWN_SERVERS",
    "PROVIDER_FORMS",
    "Connection",
    "Dialect",
    "HttpProvider",
    "HttpResponse",
    "HttpStream",
    "KnownServer",
    "Limits",
    "Overflow",
    "Reader",
    "find_api_key",
    "find_overflow",
    "make_dialect",
    "make_provider",
    "make_provider_for_model",
]
