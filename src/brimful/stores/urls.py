"""Which store a URL means."""

from typing import Literal
from urllib.parse import parse_qsl, urlsplit, urlunsplit

import msgspec

from brimful.errors import InvalidValue

FORMS = "sqlite:///chat.db, sqlite:////var/lib/chat.db, sqlite:// (in memory), postgresql://user@host/name"


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Where a store is. `shown` is fit for errors and logs: it has no password."""

    kind: Literal["sqlite", "postgres"]
    shown: str
    path: str = ""
    url: str = ""

    def __repr__(self) -> str:
        """Show no password."""
        return f"Target({self.shown!r})"

    @property
    def in_memory(self) -> bool:
        """Whether nothing of it is on a disk."""
        return self.kind == "sqlite" and not self.path


def parse_url(url: str) -> Target:
    """Return what a URL means.

    >>> parse_url("sqlite:///chat.db").path, parse_url("sqlite:////srv/chat.db").path, parse_url("sqlite://").in_memory
    ('chat.db', '/srv/chat.db', True)
    >>> parse_url("postgresql://ada:secret@db.example.org/chat").shown
    'postgresql://ada@db.example.org/chat'
    >>> parse_url("mysql://localhost/chat")
    Traceback (most recent call last):
    ...
    brimful.errors.InvalidValue: url: must be one of sqlite:///chat.db, sqlite:////var/lib/chat.db, \
sqlite:// (in memory), postgresql://user@host/name, not 'mysql://…'
    """
    scheme = url.partition("://")[0] if isinstance(url, str) and "://" in url else ""
    if scheme == "sqlite":
        return _sqlite(url)
    if scheme in ("postgresql", "postgres"):
        return Target(kind="postgres", shown=_without_password(url), url=url)
    raise InvalidValue("url", f"must be one of {FORMS}, not {scheme + '://…' if scheme else 'a text without ://'!r}")


def _sqlite(url: str) -> Target:
    rest = url.removeprefix("sqlite://")
    if rest in ("", "/", "/:memory:"):
        return Target(kind="sqlite", shown="sqlite://")
    if not rest.startswith("/"):
        raise InvalidValue("url", f"sqlite://{rest.split('/')[0]}…: a path begins with a third slash: {FORMS}")
    return Target(kind="sqlite", shown=url, path=rest.removeprefix("/"))


def _without_password(url: str) -> str:
    """Return the URL without whatever follows the user's name, and without settings that may hold a secret."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    known = [f"{name}={value}" for name, value in parse_qsl(parts.query) if name in ("host", "port", "dbname", "user")]
    return urlunsplit((parts.scheme, user.partition(":")[0] + at + host, parts.path, "&".join(known), ""))
