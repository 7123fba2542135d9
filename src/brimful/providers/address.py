"""Parse server URLs: validate them, strip credentials, and derive a route name."""

import base64
import re
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec

from brimful.errors import InvalidValue

_VERSION: Final = re.compile(r"/v\d+(?:beta|alpha)?$")


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """A URL without a trailing slash and without credentials, which become the `auth` header."""

    url: str
    host: str
    auth: dict[str, str]

    def __repr__(self) -> str:
        """Hide the password."""
        return f"Address({self.url!r})"


def parse_address(url: str) -> Address:
    """Parse the URL of a server.

    Credentials in it become a header, since URLs end up in logs more often than headers.

    >>> parse_address("http://me:secret@localhost:8081/v1/").url
    'http://localhost:8081/v1'
    """
    parts = _split_url(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidValue("url", f"must be an http or https URL, not {hide_credentials(url)!r}")
    if parts.query or parts.fragment:
        raise InvalidValue("url", f"must not have a query or fragment: {hide_credentials(url)!r}")
    host = parts.netloc.rpartition("@")[2].lower()
    return Address(url=f"{parts.scheme}://{host}{parts.path.rstrip('/')}", host=host, auth=_make_auth_header(parts))


def get_route(url: str) -> str:
    """Return a name for the server at a URL, without credentials and API version.

    >>> get_route("https://api.openai.com/v1"), get_route("http://me:secret@localhost:8081/team/v1/")
    ('api.openai.com', 'localhost:8081/team')
    """
    return _VERSION.sub("", parse_address(url).url).partition("://")[2]


def hide_credentials(url: str) -> str:
    """Remove credentials from a URL, which may be invalid.

    >>> hide_credentials("ftp://me:secret@host/x")
    'ftp://host/x'
    """
    return re.sub(r"(?<=//)[^/]*@", "", url)


def _split_url(url: str) -> SplitResult:
    try:
        parts = urlsplit(url.strip())
        parts.port  # noqa: B018 - raises if it is invalid
    except ValueError as error:
        raise InvalidValue("url", f"is not a URL ({error}): {hide_credentials(url)!r}") from None
    return parts


def _make_auth_header(parts: SplitResult) -> dict[str, str]:
    if not parts.username:
        return {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
