"""Parse store URLs."""

import re
from typing import Final, Literal
from urllib.parse import parse_qsl

import msgspec

from brimful.errors import InvalidValue

URL_FORMS = "sqlite:///chat.db, sqlite:////var/lib/chat.db, sqlite:// (in memory), postgresql://user@host/name"
_SERVER: Final = r"(?:\[[^]/@]*]|[^][:/@,]*)(?::\d*)?"
_HOSTS: Final = re.compile(rf"{_SERVER}(?:,{_SERVER})*(?:/[^@]*)?")
"""Hosts with ports, and the name of a database."""
_INVALID: Final = re.compile(r"%(?![0-9A-Fa-f]{2})|%00|\s")
"""What libpq rejects, with an error message that would show the password."""
_FILE_NAME: Final = re.compile(r"[\w./\\~-]{1,200}")
_SAFE_SETTINGS: Final = ("host", "port", "dbname", "user")  # settings without secrets


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """The location of a store. `shown` has no password, for errors and logs."""

    kind: Literal["sqlite", "postgres"]
    shown: str
    path: str = ""
    url: str = ""

    def __repr__(self) -> str:
        """Show no password."""
        return f"Target({self.shown!r})"

    @property
    def in_memory(self) -> bool:
        """Whether it is an in-memory database."""
        return self.kind == "sqlite" and not self.path


def parse_url(url: str) -> Target:
    """Parse a store URL.

    >>> parse_url("sqlite:///chat.db").path, parse_url("sqlite:////srv/chat.db").path, parse_url("sqlite://").in_memory
    ('chat.db', '/srv/chat.db', True)
    >>> parse_url("postgresql://ada:secret@db.example.org/chat").shown
    'postgresql://ada@db.example.org/chat'
    >>> parse_url("chat.db")
    Traceback (most recent call last):
    ...
    brimful.errors.InvalidValue: url: 'chat.db' is not a store URL. Did you mean sqlite:///chat.db?
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
        return _postgres(url)
    if isinstance(url, str) and _FILE_NAME.fullmatch(url):
        raise InvalidValue("url", f"{url!r} is not a store URL. Did you mean sqlite:///{url}?")
    shown = f"{scheme}://…" if scheme else "text without ://"  # the rest may contain a password
    raise InvalidValue("url", f"must be one of {URL_FORMS}, not {shown!r}")


def _sqlite(url: str) -> Target:
    rest = url.removeprefix("sqlite://")
    if rest in ("", "/", "/:memory:"):
        return Target(kind="sqlite", shown="sqlite://")
    if not rest.startswith("/"):
        raise InvalidValue("url", f"sqlite://{rest.split('/')[0]}…: a path starts with a third slash: {URL_FORMS}")
    return Target(kind="sqlite", shown=url, path=rest.removeprefix("/"))


def _postgres(url: str) -> Target:
    """Parse a URL as libpq does: user and password end at the first @, unless a / comes before it.

    If a password with such characters is not escaped, a part of it would be taken for the host and shown in errors. So
    anything that does not look like a host is rejected.
    """
    scheme, _, rest = url.partition("://")
    login, at, address = rest.partition("@")
    if not at or "/" in login:
        login, at, address = "", "", rest
    location, _, settings = address.partition("?")
    readable = _HOSTS.fullmatch(location) and all("=" in each for each in settings.split("&") if each)
    if not readable or _INVALID.search(rest):
        raise InvalidValue(
            "url",
            "is not a valid postgresql://user:password@host:port/name; write characters such as @ / % or a space in "
            "a password as %40 %2F %25 %20",
        )
    known = "&".join(f"{name}={value}" for name, value in parse_qsl(settings) if name in _SAFE_SETTINGS)
    shown = f"{scheme}://{login.partition(':')[0]}{at}{location}{'?' if known else ''}{known}"
    return Target(kind="postgres", shown=shown, url=url)
