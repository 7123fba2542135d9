"""Keys from code, the environment and a command: what is accepted, what is refused, and what is never shown."""

import asyncio
import base64
import shlex
import sys

import pytest

from brimful.errors import InvalidValue, KeyUnavailable
from brimful.records import Room
from brimful.stores import connect
from brimful.stores.encryption.keys import Keys, keys_from_environment, parse_key, run_key_command

ONE, TWO, THREE = (bytes(range(first, first + 32)) for first in (1, 101, 201))
ONE_TEXT, TWO_TEXT, THREE_TEXT = (base64.b64encode(key).decode() for key in (ONE, TWO, THREE))


def python(code):
    return shlex.join([sys.executable, "-c", code])


def test_a_key_is_given_as_bytes_or_as_base64():
    assert Keys(ONE).id == Keys(ONE_TEXT).id == Keys(ONE_TEXT.rstrip("=") + "\n").id
    assert Keys(base64.urlsafe_b64encode(TWO).decode()).id == Keys(TWO).id != Keys(ONE).id


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (7, "must be 32 bytes, or those as base64"),
        ("correct horse", "is not base64"),
        ("schlüssel", "is not base64"),
        ("", "has 0 bytes"),
        (base64.b64encode(bytes(range(16))).decode(), "has 16 bytes"),
        (ONE.hex(), "has 48 bytes"),
        (bytes(32), "is no random key"),
        (b"ab" * 16, "is no random key"),
    ],
)
def test_a_malformed_key_is_refused_and_not_shown(given, reason):
    with pytest.raises(InvalidValue, match=reason) as refused:
        parse_key("BRIMFUL_KEY", given)
    assert "openssl rand -base64 32" in str(refused.value)
    assert not given or str(given) not in str(refused.value)


def test_keys_show_their_ids_alone():
    keys = Keys(ONE, TWO)
    assert keys.ids == (Keys(ONE).id, Keys(TWO).id)
    assert repr(keys) == f"<Keys {keys.ids[0]!r}, {keys.ids[1]!r}, search='terms'>"


def test_without_a_key_there_is_none():
    assert keys_from_environment({}) is None
    assert keys_from_environment({"BRIMFUL_KEY": "", "BRIMFUL_KEY_COMMAND": "", "BRIMFUL_KEY_PREVIOUS": ""}) is None


def test_keys_of_the_environment():
    keys = keys_from_environment(
        {"BRIMFUL_KEY": ONE_TEXT, "BRIMFUL_KEY_PREVIOUS": f"{TWO_TEXT}, {THREE_TEXT}", "BRIMFUL_KEY_SEARCH": "none"}
    )
    assert keys.ids == Keys(ONE, TWO, THREE).ids
    assert keys.search == "none"


def test_keys_of_a_command():
    command = python(f"print({ONE_TEXT!r}); print({TWO_TEXT!r})")
    assert keys_from_environment({"BRIMFUL_KEY_COMMAND": command}).ids == Keys(ONE, TWO).ids
    both = keys_from_environment({"BRIMFUL_KEY_COMMAND": command, "BRIMFUL_KEY_PREVIOUS": THREE_TEXT})
    assert both.ids == Keys(ONE, TWO, THREE).ids


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"BRIMFUL_KEY": ONE_TEXT, "BRIMFUL_KEY_COMMAND": "true"}, "BRIMFUL_KEY: and BRIMFUL_KEY_COMMAND are both set"),
        ({"BRIMFUL_KEY_PREVIOUS": ONE_TEXT}, "BRIMFUL_KEY_PREVIOUS: is set, and BRIMFUL_KEY is not"),
        ({"BRIMFUL_KEY": "x"}, "BRIMFUL_KEY: is not base64"),
        ({"BRIMFUL_KEY": ONE_TEXT, "BRIMFUL_KEY_PREVIOUS": "x"}, "BRIMFUL_KEY_PREVIOUS: is not base64"),
        ({"BRIMFUL_KEY": ONE_TEXT, "BRIMFUL_KEY_SEARCH": "all"}, "BRIMFUL_KEY_SEARCH: must be one of none, terms"),
        ({"BRIMFUL_KEY_COMMAND": "'"}, "BRIMFUL_KEY_COMMAND: cannot be read as a command"),
        ({"BRIMFUL_KEY_COMMAND": " "}, "BRIMFUL_KEY_COMMAND: is empty"),
        ({"BRIMFUL_KEY_COMMAND": python("print('rubbish!')")}, "BRIMFUL_KEY_COMMAND: is not base64"),
    ],
)
def test_invalid_values_are_refused_by_name(environ, message):
    with pytest.raises(InvalidValue, match=message):
        keys_from_environment(environ)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import sys; print('s3cr3t'); sys.exit(3)", "failed with status 3; run it by hand"),
        ("pass", "printed nothing"),
        ("print('schlüssel' * 3)", "printed something that is not base64"),
        ("print('s3cr3t' * 20000)", "printed more than 65,536 bytes"),
    ],
)
def test_a_command_that_gives_no_key(code, reason):
    with pytest.raises(KeyUnavailable, match=reason) as failed:
        run_key_command(python(code))
    assert "s3cr3t" not in str(failed.value)
    assert failed.value.store == "BRIMFUL_KEY_COMMAND"


def test_a_command_that_hangs_is_ended():
    with pytest.raises(KeyUnavailable, match="did not end within"):
        run_key_command(
            python("import sys; sys.stdin.read(); import threading; threading.Event().wait()"), time_limit=0.2
        )


def test_a_command_that_is_not_there():
    with pytest.raises(KeyUnavailable, match="'/no/such/command' cannot be run: No such file"):
        run_key_command("/no/such/command --key")


def test_keys_come_from_files(tmp_path):
    (tmp_path / "key").write_text(f"{ONE_TEXT}\n")
    (tmp_path / "previous").write_text(f"{TWO_TEXT}, {THREE_TEXT}\n")
    environ = {"BRIMFUL_KEY_FILE": str(tmp_path / "key"), "BRIMFUL_KEY_PREVIOUS_FILE": str(tmp_path / "previous")}
    assert keys_from_environment(environ).ids == Keys(ONE, TWO, THREE).ids


def test_reloaded_keys_must_include_the_one_in_use(tmp_path, monkeypatch, sqlite_url):
    file = tmp_path / "key"
    file.write_text(ONE_TEXT)
    monkeypatch.setenv("BRIMFUL_KEY_FILE", str(file))
    monkeypatch.delenv("BRIMFUL_KEY", raising=False)

    async def rotate():
        async with connect(sqlite_url) as database:
            await database.tenant("acme").put(Room(id="tea", name="Tea"))
            file.write_text(TWO_TEXT)
            with pytest.raises(InvalidValue, match=f"replaces the key {Keys(ONE).id} that is in use"):
                await database.reload_keys()
            monkeypatch.setenv("BRIMFUL_KEY_PREVIOUS", ONE_TEXT)
            await database.reload_keys()
            assert (await database.tenant("acme").get(Room, "tea")).name == "Tea"
            await database.encryption("acme").rotate_kek()
            monkeypatch.delenv("BRIMFUL_KEY_PREVIOUS")
            await database.reload_keys()
            assert (await database.tenant("acme").get(Room, "tea")).name == "Tea"
            monkeypatch.delenv("BRIMFUL_KEY_FILE")
            with pytest.raises(InvalidValue, match="restart the server"):
                await database.reload_keys()

    asyncio.run(rotate())
