"""Stores: records in SQLite or PostgreSQL."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from brimful.stores.backends.driver import Finding
from brimful.stores.database import Database, connect
from brimful.stores.encryption.keys import Keys
from brimful.stores.store import Store

if TYPE_CHECKING:
    from brimful.stores.admin.api_keys import ApiKey, ApiKeys
    from brimful.stores.admin.encryption import Encryption, KeyUsage

__all__ = ["ApiKey", "ApiKeys", "Database", "Encryption", "Finding", "KeyUsage", "Keys", "Store", "connect"]

_LAZY: Final = {"ApiKey": "api_keys", "ApiKeys": "api_keys", "Encryption": "encryption", "KeyUsage": "encryption"}


def __getattr__(name: str) -> Any:
    """Import the key management on first use."""
    if name in _LAZY:
        return getattr(import_module(f"brimful.stores.admin.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'brimful.stores' has no attribute {name!r}")
