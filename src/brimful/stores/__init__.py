"""Stores: where records are kept and found again, in SQLite or PostgreSQL."""

from brimful.stores.database import Database, connect
from brimful.stores.store import TenantStore

__all__ = ["Database", "TenantStore", "connect"]
