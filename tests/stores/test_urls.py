"""Store URLs: passwords are never shown, and the time to wait is checked."""

import asyncio
import re
from urllib.parse import unquote

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


def test_a_password_in_a_file_is_read_for_each_connection(tmp_path):
    file = tmp_path / "password"
    target = parse_url(f"postgresql://ada@db/chat?connections=2&password_file={file}&sslmode=require")
    for password, escaped in (("sword@fish\n", "sword%40fish"), ("new/fish", "new%2Ffish")):
        file.write_text(password)
        file.chmod(0o600)
        assert target.connection_url() == f"postgresql://ada@db/chat?sslmode=require&password={escaped}"
    assert "fish" not in target.shown + repr(target)
    file.unlink()
    with pytest.raises(InvalidValue, match=r"password_file: .* cannot be read"):
        target.connection_url()


@pytest.mark.parametrize(
    "url", ["postgresql://ada:x@db/chat?password_file=f", "postgresql://db/?password=x&password_file=f"]
)
def test_two_passwords_are_one_too_many(url):
    with pytest.raises(InvalidValue, match="has a password and a password_file"):
        parse_url(url)


def test_a_store_opens_with_a_password_in_a_file(postgres_url, tmp_path):
    file = tmp_path / "password"
    login, password = re.match(r"postgresql://([^:@/]*):?([^@/]*)@", postgres_url).groups()
    url = re.sub("//.*?@", f"//{login}@", postgres_url, count=1)
    url += f"{'&' if '?' in url else '?'}password_file={file}"

    async def ping():
        async with connect(url) as database:
            await database.ping()

    with pytest.raises(InvalidValue, match="password_file"):
        asyncio.run(ping())
    file.write_text(unquote(password) or "the server trusts local users")
    file.chmod(0o600)
    asyncio.run(ping())
