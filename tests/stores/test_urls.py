"""Store URLs: passwords are never shown, and the time to wait is checked."""

import pytest

from brimful.errors import InvalidValue
from brimful.stores import connect


@pytest.mark.parametrize("password", ["sword#fish", "sword?fish", "sword[fish", "sword]fish", "sword:fish", "%2Ffish"])
def test_a_password_ends_where_the_server_says_and_is_not_shown(password):
    shown = repr(connect(f"postgresql://ada:{password}@db.example.org:5433,[::1]/chat?user=eve&sslpassword=fish"))
    assert shown == "Database('postgresql://ada@db.example.org:5433,[::1]/chat?user=eve')"


@pytest.mark.parametrize(
    "login",
    [
        "a:sword/fish",
        "a:12/fish",
        "a:sword@fish",
        "a:12/sword?fish",
        "sword:fish/a",
        "a:sword%fish",
        "a:%00fish",
        "a: fish",
    ],
)
def test_an_address_whose_password_would_pass_for_a_server_is_refused_without_showing_it(login):
    with pytest.raises(InvalidValue, match="password as %40 %2F %25 %20") as caught:
        connect(f"postgresql://{login}@db.example.org/chat")
    assert "fish" not in repr(caught.value)
    assert "12" not in repr(caught.value)


@pytest.mark.parametrize("url", ["sqlite://", "postgresql://ada@localhost/chat"])
@pytest.mark.parametrize("wait", [-1, float("nan"), float("inf"), None, "3"])
def test_a_time_to_wait_that_is_none_is_refused(url, wait):
    with pytest.raises(InvalidValue, match="wait: must be a number of seconds from 0, not "):
        connect(url, wait=wait)
