"""Helpers for encryption tests."""

import contextlib
import sqlite3
from pathlib import Path

from brimful.stores.encryption.keys import Keys

ONE, TWO = bytes(range(1, 33)), bytes(range(101, 133))


def kek(*keys, **more):
    return Keys(*keys or (ONE,), **more)


def files(url):
    """Return every byte of a database: its file, its log, and whatever lies beside them."""
    path = Path(url.removeprefix("sqlite:///"))
    return b"".join(file.read_bytes() for file in sorted(path.parent.glob(path.name + "*")))


def sql(url, statement, *values):
    """Do something to a database file that no store would do."""
    with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
        return connection.execute(statement, values).fetchall()
