"""Secrets in files: what is read, what is refused, and what is warned of."""

import os

import pytest

from brimful.errors import InvalidValue
from brimful.private_files import find_secret, read_secret


def secret_file(folder, text, mode=0o600):
    file = folder / "secret"
    file.write_bytes(text)
    file.chmod(mode)
    return file


def test_a_secret_has_no_line_break_at_its_end(tmp_path, caplog):
    file = secret_file(tmp_path, b"sk-1\r\n", 0o640)
    assert read_secret(file, "key_file") == "sk-1"
    assert find_secret({"OPENAI_API_KEY_FILE": str(file)}, "OPENAI_API_KEY") == "sk-1"
    assert not caplog.text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"one\ntwo\n", "must hold one line"),
        (b"sk\0", "must hold one line"),
        (b"\xff\xfe", "is not text"),
    ],
)
def test_a_file_that_is_no_secret_is_refused_and_not_shown(tmp_path, text, reason):
    with pytest.raises(InvalidValue, match=reason) as caught:
        read_secret(secret_file(tmp_path, text), "key_file")
    assert caught.value.field == "key_file"
    assert "two" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InvalidValue, match=r"BRIMFUL_KEY_FILE: .*/none cannot be read: No such file"):
        find_secret({"BRIMFUL_KEY_FILE": str(tmp_path / "none")}, "BRIMFUL_KEY")


def test_a_variable_and_a_file_are_one_too_many(tmp_path):
    environ = {"BRIMFUL_KEY": "x", "BRIMFUL_KEY_FILE": str(secret_file(tmp_path, b"y"))}
    with pytest.raises(InvalidValue, match="and BRIMFUL_KEY_FILE are both set; unset one of them"):
        find_secret(environ, "BRIMFUL_KEY")


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such modes")
def test_a_file_that_everybody_can_read_is_warned_of_once(tmp_path, caplog):
    file = secret_file(tmp_path, b"sk-1", 0o644)
    assert [read_secret(file, "key_file") for _ in range(2)] == ["sk-1"] * 2
    [message] = caplog.messages
    assert message == f"every user of this machine can read the secret in {file}; run: chmod o-r {file}"
