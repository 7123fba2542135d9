"""Stores: where records are kept and found again, in SQLite or PostgreSQL."""

from brimful.stores.callers import Caller, Callers
from brimful.stores.database import Database, connect
from brimful.stores.driver import Finding
from brimful.stores.encryption import Encryption, KeyUse
from brimful.stores.keys import Keys
from brimful.stores.store import TenantStore

__all__ = ["Caller", "Callers", "Database", "Encryption", "Finding", "KeyUse", "Keys", "TenantStore", "connect"]
