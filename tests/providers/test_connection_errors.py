"""httpx2's errors become ours; those that a local server cannot cause are simulated."""

import httpx2
import pytest

from brimful.errors import ProviderError, ProviderTimeout, ProviderUnavailable
from brimful.providers import Limits
from brimful.providers.address import parse_address
from brimful.providers.connection import Retriable, make_request_error, make_stream_error

SECRET = "sk-very-secret"  # noqa: S105 - no secret


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize(
    ("error", "again", "kind", "reason"),
    [
        (httpx2.ConnectTimeout(""), True, ProviderTimeout, "no connection within 10 seconds"),
        (httpx2.ConnectError("refused"), True, ProviderUnavailable, "cannot be reached: refused"),
        (httpx2.ConnectError(""), True, ProviderUnavailable, "cannot be reached: ConnectError"),
        (httpx2.WriteTimeout(""), False, ProviderTimeout, "did not accept the request within 60 seconds"),
        (httpx2.ReadTimeout(""), False, ProviderTimeout, "no answer within 600 seconds"),
    ],
)
def test_errors_of_a_request_without_an_answer(error, again, kind, reason, fresh):
    failure = make_request_error("r", error, Limits(), fresh=fresh)
    assert isinstance(failure, Retriable) is again
    unavailable = failure.error if again else failure
    assert type(unavailable) is kind
    assert unavailable.reason == reason


@pytest.mark.parametrize("error", [httpx2.ReadError("x"), httpx2.WriteError("x"), httpx2.RemoteProtocolError("x")])
def test_a_broken_connection_is_retried_only_if_it_was_idle(error):
    assert isinstance(make_request_error("r", error, Limits(), fresh=False), Retriable)
    assert type(make_request_error("r", error, Limits(), fresh=True)) is ProviderUnavailable


@pytest.mark.parametrize("kind", [httpx2.LocalProtocolError, httpx2.InvalidURL, httpx2.UnsupportedProtocol])
def test_other_request_errors_hide_the_request(kind):
    failure = make_request_error("r", kind(f"Illegal header value b'Bearer {SECRET}'"), Limits(), fresh=True)
    assert type(failure) is ProviderError
    assert failure.reason == f"the request failed: {kind.__name__}"


def test_errors_of_an_answer_that_broke_off():
    assert make_stream_error("r", httpx2.ReadTimeout(""), Limits(read=7)).reason.endswith("no data for 7 seconds")
    assert type(make_stream_error("r", httpx2.DecodingError("bad"), Limits())) is ProviderError
    assert make_stream_error("r", httpx2.ReadError("reset"), Limits()).reason == "the answer broke off: reset"


def test_an_address_shows_no_password():
    address = parse_address(f"http://me:{SECRET}@h/v1")
    assert repr(address) == "Address('http://h/v1')"
    assert address.auth
