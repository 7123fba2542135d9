"""Parse server URLs: validate them, strip credentials, and derive a route name."""

import base64
import re
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec

from brimful.errors import InvalidValue

_VERSION: Final = re.compile(r"/v\d+(?:beta|alpha)?$")


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """A URL without a slash at its end and without a user. `signed` is the header that the user became."""

    url: str
    host: str
    signed: dict[str, str]

    def __repr__(self) -> str:
        """Show no password."""
        return f"Address({self.url!r})"


def parse_address(url: str) -> Address:
    """Read the URL of a server.

    A name and a password in it become a header, for URLs are logged by many, headers by few.

    >>> parse_address("http://me:secret@localhost:8081/v1/").url
    'http://localhost:8081/v1'
    """
    parts = _split_url(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidValue("url", f"must be an http or https address, not {hide_credentials(url)!r}")
    if parts.query or parts.fragment:
        raise InvalidValue("url", f"must end with a path, without '?' or '#': {hide_credentials(url)!r}")
    host = parts.netloc.rpartition("@")[2].lower()
    return Address(url=f"{parts.scheme}://{host}{parts.path.rstrip('/')}", host=host, signed=_make_auth_header(parts))


def get_route(url: str) -> str:
    """Name the server behind a URL, without a user and without the version of its API.

    >>> get_route("https://api.openai.com/v1"), get_route("http://me:secret@localhost:8081/team/v1/")
    ('api.openai.com', 'localhost:8081/team')
    """
    return _VERSION.sub("", parse_address(url).url).partition("://")[2]


def hide_credentials(url: str) -> str:
    """Return a URL, or what was given for one, as it may be shown.

    >>> hide_credentials("ftp://me:secret@host/x")
    'ftp://host/x'
    """
    return re.sub(r"(?<=//)[^/]*@", "", url)


def _split_url(url: str) -> SplitResult:
    try:
        parts = urlsplit(url.strip())
        parts.port  # noqa: B018 - raises if it is none
    except ValueError as error:
        raise InvalidValue("url", f"is no address ({error}): {hide_credentials(url)!r}") from None
    return parts


def _make_auth_header(parts: SplitResult) -> dict[str, str]:
    if not parts.username:
        return {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
