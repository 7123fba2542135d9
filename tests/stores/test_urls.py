"""Store URLs: passwords are never shown, and the time to wait is checked."""

import pytest

from brimful.errors import InvalidValue
from brimful.stores import connect
from brimful.stores.urls import parse_url


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


def test_the_settings_of_a_url_are_ours_or_those_of_libpq():
    target = parse_url("postgresql://ada:a%40b@db/chat?sslmode=require&connections=32&prepare=off&wait=0.5&port=5433")
    assert (target.connections, target.wait, target.prepare) == (32, 0.5, False)
    assert target.url == "postgresql://ada:a%40b@db/chat?sslmode=require&port=5433"
    plain = parse_url("postgresql://db/chat?prepare=on")
    assert (plain.connections, plain.wait, plain.prepare, plain.url) == (8, 10.0, True, "postgresql://db/chat")
    assert parse_url("postgresql://db/chat").prepare is None


@pytest.mark.parametrize("value", ["0", "-1", "1000", "4.0", "many", "", "٤"])
def test_a_number_of_connections_that_is_none_is_refused(value):
    with pytest.raises(InvalidValue, match="url: connections must be a whole number from 1 to 999, not "):
        connect(f"postgresql://db/chat?connections={value}")


@pytest.mark.parametrize("value", ["-1", "nan", "inf", "soon", "", "1e9"])
def test_a_wait_in_a_url_that_is_no_number_of_seconds_is_refused(value):
    with pytest.raises(InvalidValue, match="url: wait must be a number of seconds, not "):
        connect(f"postgresql://db/chat?wait={value}")


def test_statements_are_prepared_or_not():
    with pytest.raises(InvalidValue, match="url: prepare must be on or off, not 'yes'"):
        connect("postgresql://db/chat?prepare=yes")


@pytest.mark.parametrize("url", ["sqlite://", "postgresql://ada@localhost/chat"])
@pytest.mark.parametrize("wait", [-1, float("nan"), float("inf"), "3"])
def test_a_time_to_wait_that_is_none_is_refused(url, wait):
    with pytest.raises(InvalidValue, match="wait: must be a number of seconds from 0, not "):
        connect(url, wait=wait)
