"""Parse store URLs."""

import re
from pathlib import Path
from typing import Final, Literal
from urllib.parse import parse_qsl, quote, unquote

import msgspec

from brimful.core.validation import preview
from brimful.errors import InvalidValue
from brimful.private_files import read_secret

URL_FORMS = "sqlite:///chat.db, sqlite:////var/lib/chat.db, sqlite:// (in memory), postgresql://user@host/name"
_SERVER: Final = r"(?:\[[^]/@]*]|[^][:/@,]*)(?::\d*)?"
_HOSTS: Final = re.compile(rf"{_SERVER}(?:,{_SERVER})*(?:/[^@]*)?")
"""Hosts with ports, and the name of a database."""
_INVALID: Final = re.compile(r"%(?![0-9A-Fa-f]{2})|%00|\s")
"""What libpq rejects, with an error message that would show the password."""
_FILE_NAME: Final = re.compile(r"[\w./\\~-]{1,200}")
_SAFE_SETTINGS: Final = ("host", "port", "dbname", "user")  # settings without secrets
_OWN_SETTINGS: Final = ("connections", "wait", "prepare", "max_lag", "password_file")  # the others are libpq's
_SWITCH: Final = {"on": True, "off": False}
DEFAULT_WAIT: Final = 10.0
DEFAULT_CONNECTIONS: Final = 8
DEFAULT_MAX_LAG: Final = 60.0
_CONNECTIONS: Final = re.compile(r"[1-9]\d{0,2}", re.ASCII)
_SECONDS: Final = re.compile(r"\d{1,6}(\.\d{1,6})?", re.ASCII)


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """The location of a store. `shown` has no password, for errors and logs.

    `path` is that of a SQLite file. `wait` is the number of seconds to wait for a lock or a connection. PostgreSQL gets
    up to `connections`, and prepares statements if `prepare` says so; None: if there is no pooler in between. A replica
    is not read if it lags more than `max_lag` seconds. `password_file` is the path of a file with the password.
    """

    kind: Literal["sqlite", "postgres"]
    shown: str
    path: str = ""
    url: str = ""
    wait: float = DEFAULT_WAIT
    connections: int = DEFAULT_CONNECTIONS
    prepare: bool | None = None
    max_lag: float = DEFAULT_MAX_LAG
    password_file: str = ""

    def __repr__(self) -> str:
        """Show no password."""
        return f"Target({self.shown!r})"

    def connection_url(self) -> str:
        """Return the URL to connect to. A password in a file is read each time, since it may have changed."""
        if not self.password_file:
            return self.url
        password = quote(read_secret(Path(self.password_file), "password_file"), safe="")
        return f"{self.url}{'&' if '?' in self.url else '?'}password={password}"

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
    login, sign, address = rest.partition("@")
    if not sign or "/" in login:
        login, sign, address = "", "", rest
    location, _, settings = address.partition("?")
    readable = _HOSTS.fullmatch(location) and all("=" in each for each in settings.split("&") if each)
    if not readable or _INVALID.search(rest):
        raise InvalidValue(
            "url",
            "is not a valid postgresql://user:password@host:port/name; write characters such as @ / % or a space in "
            "a password as %40 %2F %25 %20",
        )
    known = "&".join(f"{name}={value}" for name, value in parse_qsl(settings) if name in _SAFE_SETTINGS)
    shown = f"{scheme}://{login.partition(':')[0]}{sign}{location}{'?' if known else ''}{known}"
    own, theirs = _split_settings(settings)
    if "password_file" in own and (":" in login or "password" in dict(parse_qsl(settings))):
        raise InvalidValue("url", "has a password and a password_file; remove one of them")
    return Target(
        kind="postgres",
        shown=shown,
        url=f"{scheme}://{login}{sign}{location}{'?' if theirs else ''}{theirs}",
        wait=_parse_seconds("wait", own["wait"]) if "wait" in own else DEFAULT_WAIT,
        connections=_parse_connections(own["connections"]) if "connections" in own else DEFAULT_CONNECTIONS,
        password_file=own.get("password_file", ""),
        max_lag=_parse_seconds("max_lag", own["max_lag"]) if "max_lag" in own else DEFAULT_MAX_LAG,
        prepare=_parse_switch("prepare", own["prepare"]) if "prepare" in own else None,
    )


def _split_settings(settings: str) -> tuple[dict[str, str], str]:
    """Return our settings of a URL, and the others as they are."""
    own: dict[str, str] = {}
    theirs = []
    for each in settings.split("&"):
        name, _, value = each.partition("=")
        if name in _OWN_SETTINGS:
            own[name] = unquote(value)
        else:
            theirs.append(each)
    return own, "&".join(theirs)


def _parse_seconds(name: str, text: str) -> float:
    """Return a number of seconds.

    >>> parse_url("postgresql://db/chat?wait=soon")
    Traceback (most recent call last):
    ...
    brimful.errors.InvalidValue: url: wait must be a number of seconds, not 'soon'
    """
    if not _SECONDS.fullmatch(text):
        raise InvalidValue("url", f"{name} must be a number of seconds, not {preview(text)}")
    return float(text)


def _parse_connections(text: str) -> int:
    if not _CONNECTIONS.fullmatch(text):
        raise InvalidValue("url", f"connections must be a whole number from 1 to 999, not {preview(text)}")
    return int(text)


def _parse_switch(name: str, text: str) -> bool:
    if text not in _SWITCH:
        raise InvalidValue("url", f"{name} must be on or off, not {preview(text)}")
    return _SWITCH[text]
