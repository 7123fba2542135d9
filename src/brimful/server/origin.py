"""Where a request comes from. Without keys, a browser on this machine is the one way in for strangers' pages.

A page of a stranger may make a browser send requests to this machine, or give a name of its own this machine's address.
Neither can forge the headers that are looked at here.
"""

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from brimful.server.errors import Refusal


def want_own_page(headers: Mapping[str, str], *, keyed: bool) -> None:
    """Refuse what another site's page sends; and without keys, what is sent to this machine by another name."""
    host, origin = headers.get("host", ""), headers.get("origin")
    if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
        raise Refusal("forbidden", "pages of other sites may not ask here", code="other_origin")
    if not keyed and not is_this_machine(host):
        raise Refusal(
            "forbidden",
            f"without keys, only requests to this machine are answered here, not to {host[:80]!r}: use keys, or ask "
            "127.0.0.1",
            code="other_host",
        )


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
