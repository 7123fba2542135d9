"""A command that prints keys: the client of a key service, or a password store."""

import os
import shlex
import subprocess
from typing import Final

from brimful.errors import InvalidValue, KeyUnavailable

VARIABLE: Final = "BRIMFUL_KEY_COMMAND"
TIME_LIMIT: Final = 30.0  # seconds
_MOST_BYTES: Final = 65_536  # printed; more is no list of keys


def printed_keys(command: str, *, time_limit: float = TIME_LIMIT) -> list[str]:
    """Run a command, without a shell, and return the lines that it prints: the current key, then previous ones.

    Nothing of what it prints is ever shown, neither by us nor by an error.
    """
    printed = _run(_words(command), time_limit)
    if len(printed) > _MOST_BYTES:
        raise KeyUnavailable(f"printed more than {_MOST_BYTES:,} bytes, and not one key a line")
    try:
        lines = printed.decode("ascii").split()
    except UnicodeDecodeError:
        raise KeyUnavailable("printed what is not base64; it must print one key a line") from None
    if not lines:
        raise KeyUnavailable("printed nothing; it must print one key a line, the current one first")
    return lines


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command, posix=os.name == "posix")
    except ValueError as error:
        raise InvalidValue(VARIABLE, f"cannot be read as a command: {error}") from None
    if not words:
        raise InvalidValue(VARIABLE, "is empty; unset it, or give a command that prints a key")
    return words


def _run(words: list[str], time_limit: float) -> bytes:
    try:
        done = subprocess.run(  # noqa: S603 - the user's own command, without a shell
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=time_limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise KeyUnavailable(f"did not end within {time_limit:g} seconds; run {words[0]!r} by hand") from None
    except OSError as error:
        raise KeyUnavailable(f"{words[0]!r} cannot be run: {error.strerror}") from None
    if done.returncode:
        raise KeyUnavailable(f"{words[0]!r} failed with status {done.returncode}; run it by hand to see why")
    return done.stdout
