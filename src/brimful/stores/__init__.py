"""Stores: where records are kept and found again, in SQLite or PostgreSQL."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from brimful.stores.database import Database, connect
from brimful.stores.driver import Finding
from brimful.stores.keys import Keys
from brimful.stores.store import TenantStore

if TYPE_CHECKING:
    from brimful.stores.callers import Caller, Callers
    from brimful.stores.encryption import Encryption, KeyUse

__all__ = ["Caller", "Callers", "Database", "Encryption", "Finding", "KeyUse", "Keys", "TenantStore", "connect"]

_LATE: Final = {"Caller": "callers", "Callers": "callers", "Encryption": "encryption", "KeyUse": "encryption"}


def __getattr__(name: str) -> Any:
    """Load what only those need who manage keys."""
    if name in _LATE:
        return getattr(import_module(f"brimful.stores.{_LATE[name]}"), name)
    raise AttributeError(f"module 'brimful.stores' has no attribute {name!r}")
