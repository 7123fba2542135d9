"""Where a request comes from. Without keys, a browser on this machine is the one way in for strangers' pages.

A page of a stranger may make a browser send requests to this machine, or give a name of its own this machine's address.
Neither can forge the headers that are looked at here. Where callers need keys, a stranger's page has none to send.
"""

import ipaddress
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from brimful.server.errors import Refusal

_OTHER: Final = "other_origin"


def want_own_page(headers: Mapping[str, str]) -> None:
    """Refuse what another site's page sends, and what is sent to this machine by another name."""
    host = headers.get("host", "")
    if not _is_own_page(headers, host):
        raise Refusal("forbidden", "pages of other sites may not ask here", code=_OTHER)
    if not is_this_machine(host):
        raise Refusal(
            "forbidden",
            f"without keys, only requests to this machine are answered here, not to {host[:80]!r}: use keys, or ask "
            "127.0.0.1",
            code="other_host",
        )


def want_no_site(headers: Mapping[str, str]) -> None:
    """Refuse what a page of the web sends. Programs send no origin; apps and pages of this machine have their own.

    A page needs no leave to send a request whose answer it cannot read: it would cost money, and be remembered.

    >>> want_no_site({}), want_no_site({"origin": "app://notes"}), want_no_site({"origin": "http://localhost:3000"})
    (None, None, None)
    """
    origin = headers.get("origin")
    if origin is not None and not _is_of_this_machine(origin):
        raise Refusal("forbidden", "pages of other sites may not ask here: without keys, they are refused", code=_OTHER)


def _is_of_this_machine(origin: str) -> bool:
    scheme, _, host = origin.partition("://")
    return is_this_machine(host) if scheme.lower() in ("http", "https") else bool(host)


def _is_own_page(headers: Mapping[str, str], host: str) -> bool:
    """Say whether no page sent it, or our own. Browsers tell which; those that do not yet, tell the page's origin."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        return site in ("same-origin", "none")
    return origin is None or origin.partition("://")[2].lower() == host.lower()


def is_this_machine(host: str) -> bool:
    """Say whether a host, with its port or without, is a name of this machine for itself.

    >>> [is_this_machine(host) for host in ("localhost:8080", "127.0.0.1", "[::1]:80", "evil.example", "")]
    [True, True, True, False, False]
    """
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or name.endswith(".localhost") or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
