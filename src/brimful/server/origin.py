"""Where a request comes from. Without keys, a browser on this machine is the one way in for strangers' pages.

A page of a stranger may make a browser send requests to this machine, or give a name of its own this machine's address.
Neither can forge the headers that are looked at here. Where callers need keys, a stranger's page has none to send.
"""

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from brimful.server.errors import Refusal


def want_own_page(headers: Mapping[str, str]) -> None:
    """Refuse what another site's page sends, and what is sent to this machine by another name."""
    host = headers.get("host", "")
    if not _is_own_page(headers, host):
        raise Refusal("forbidden", "pages of other sites may not ask here", code="other_origin")
    if not is_this_machine(host):
        raise Refusal(
            "forbidden",
            f"without keys, only requests to this machine are answered here, not to {host[:80]!r}: use keys, or ask "
            "127.0.0.1",
            code="other_host",
        )


def _is_own_page(headers: Mapping[str, str], host: str) -> bool:
    """Say whether no page sent it, or our own. Browsers tell which; those that do not yet, tell the page's origin."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        return site in ("same-origin", "none")
    return origin is None or urlsplit(origin).netloc.lower() == host.lower()


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
