"""Parse server URLs: validate them, strip credentials, and derive a route name."""

import base64
import re
from typing import Final
from urllib.parse import SplitResult, unquote, unquote_plus, urlsplit

import msgspec

from brimful.errors import InvalidValue
from brimful.wires import Wire

_VERSION: Final = re.compile(r"/v\d+(?:beta|alpha)?$")


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """A URL without a trailing slash, its query, and its credentials as the `auth` header."""

    url: str
    host: str
    query: str
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
    if parts.fragment:
        raise InvalidValue("url", f"must not have a fragment: {hide_credentials(url)!r}")
    host = parts.netloc.rpartition("@")[2].lower()
    base = f"{parts.scheme}://{host}{parts.path.rstrip('/')}"
    return Address(url=base, host=host, query=parts.query, auth=_make_auth_header(parts))


def get_route(url: str) -> str:
    """Return a name for the server at a URL, without credentials and API version.

    >>> get_route("https://api.openai.com/v1"), get_route("http://me:secret@localhost:8081/team/v1/")
    ('api.openai.com', 'localhost:8081/team')
    """
    return remove_version(parse_address(url).url).partition("://")[2]


def remove_version(url: str) -> str:
    """Return a URL without the API version at its end.

    >>> remove_version("http://localhost:8080/v1")
    'http://localhost:8080'
    """
    return _VERSION.sub("", url)


def get_base_url(url: str, wire: Wire) -> str:
    """Return the URL that the paths of a wire format are appended to. They may include the version.

    >>> from brimful.wires import find_wire
    >>> [get_base_url("http://localhost:8081/v1", find_wire(name)) for name in ("anthropic", "openai")]
    ['http://localhost:8081', 'http://localhost:8081/v1']
    """
    if wire.paths is None or not wire.paths.is_whole:
        return url
    base, mark, query = url.partition("?")
    return f"{re.sub(r'/v1/?$', '', base)}{mark}{query}"


def add_query(path: str, query: str) -> str:
    """Add a query to a path that may have one. Parameters of the same name are replaced.

    >>> add_query("/chat", "api-version=1"), add_query("/chat?beta=true&api-version=2", "api-version=1")
    ('/chat?api-version=1', '/chat?beta=true&api-version=1')
    """
    if not query:
        return path
    bare, _, own = path.partition("?")
    replaced = {_parameter_name(pair) for pair in query.split("&")}
    pairs = [pair for pair in own.split("&") if pair and _parameter_name(pair) not in replaced]
    return f"{bare}?{'&'.join([*pairs, query])}"


def _parameter_name(pair: str) -> str:
    return unquote_plus(pair.partition("=")[0]).lower()


def hide_credentials(url: str) -> str:
    """Remove credentials and the query from a URL, which may be invalid.

    >>> hide_credentials("ftp://me:secret@host/x?key=secret")
    'ftp://host/x'
    """
    return re.sub(r"(?<=//)[^/]*@|[?#].*", "", url)


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
