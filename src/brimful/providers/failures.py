"""What may go wrong on the way to a server and back → errors of ours, all of httpx2's in one place."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from brimful.errors import ProviderError, ProviderUnavailable
from brimful.providers.libraries import libraries
from brimful.providers.limits import Limits
from brimful.providers.refusal import shown
from brimful.providers.retries import Retriable

if TYPE_CHECKING:
    import httpx2


class Line:
    """Watches one attempt: `fresh` says that it made a connection of its own, rather than to take one that was idle."""

    def __init__(self, sent: Callable[[], None]) -> None:
        """Assume that there is one to be had; `sent` is told that the whole request is on its way."""
        self.fresh = False
        self._sent = sent

    async def trace(self, event: str, info: dict[str, Any]) -> None:
        """Note what httpx2 does."""
        del info
        if event.startswith("connection.connect"):
            self.fresh = True
        elif event.endswith("send_request_body.complete"):
            self._sent()


def failed(route: str, error: "httpx2.HTTPError | httpx2.InvalidURL", limits: Limits, *, fresh: bool) -> Exception:
    """Return the error for a request that got no answer, as a `Retriable` where it may safely be sent again."""
    httpx2 = libraries().httpx2
    again = False
    match error:
        case httpx2.ConnectTimeout():
            reason, again = f"no connection within {limits.connect:g} seconds", True
        case httpx2.ConnectError():
            reason, again = f"cannot be reached: {_why(error)}", True
        case httpx2.PoolTimeout():
            reason = f"all {limits.connections:,} connections have been in use for {limits.pool:g} seconds"
        case httpx2.WriteTimeout():
            reason = f"did not take the request within {limits.write:g} seconds"
        case httpx2.TimeoutException():
            reason = f"no answer within {limits.read:g} seconds"
        case httpx2.NetworkError() | httpx2.RemoteProtocolError():
            reason, again = f"the connection broke before an answer came: {_why(error)}", not fresh
        case _:
            return ProviderError(route, f"cannot be asked: {type(error).__name__}")
    unavailable = ProviderUnavailable(route, reason)
    return Retriable(unavailable) if again else unavailable


def broken_off(route: str, error: "httpx2.HTTPError", limits: Limits) -> ProviderError:
    """Return the error for an answer that began and did not end."""
    httpx2 = libraries().httpx2
    match error:
        case httpx2.TimeoutException():
            return ProviderUnavailable(route, f"the answer broke off: nothing more came for {limits.read:g} seconds")
        case httpx2.DecodingError():
            return ProviderError(route, f"the answer cannot be unpacked: {_why(error)}")
        case _:
            return ProviderUnavailable(route, f"the answer broke off: {_why(error)}")


def _why(error: Exception) -> str:
    return shown(str(error)) or type(error).__name__
