"""How long to wait for a server, how often to try, how many connections to hold."""

import math

import msgspec

from brimful.core.check import shown
from brimful.errors import InvalidValue


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a connection. Times are in seconds.

    `connect` is for reaching the server, `write` for handing it a piece of the request, `read` for the silence between
    two pieces of its answer, `pool` for a free one of at most `connections`, of which `idle` stay open unused.
    A request is sent at most `attempts` times; a server that asks to wait longer than `longest_wait` is not waited for.
    """

    connect: float = 10.0
    write: float = 60.0
    read: float = 600.0  # a model may think for minutes before it says the first word
    pool: float = 30.0
    connections: int = 1_000
    idle: int = 100
    attempts: int = 3
    longest_wait: float = 30.0

    def __post_init__(self) -> None:
        """Refuse what is no limit."""
        for field in ("connect", "write", "read", "pool", "longest_wait"):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                raise InvalidValue(f"limits.{field}", f"must be a number of seconds above 0, not {shown(value)}")
        for field, least in (("connections", 1), ("idle", 0), ("attempts", 1)):
            value = getattr(self, field)
            if type(value) is not int or value < least:
                raise InvalidValue(f"limits.{field}", f"must be a whole number from {least} on, not {shown(value)}")
