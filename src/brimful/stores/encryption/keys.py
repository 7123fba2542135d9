"""Key-encryption keys: provided by the application or the environment, and never written to a store."""

import base64
import binascii
import hashlib
import os
import shlex
import subprocess
from collections.abc import Mapping
from typing import Final, Literal, cast, get_args

from brimful.errors import InvalidValue, KeyUnavailable
from brimful.private_files import find_secret
from brimful.stores.encryption.xaes import KEY_BYTES, Cipher

Search = Literal["none", "terms", "vectors"]
"""What can be searched in an encrypted store: nothing, terms, or terms and vectors that the database can read."""
SEARCHES: Final[tuple[str, ...]] = get_args(Search)

_MIN_DISTINCT: Final = 8  # distinct bytes; of 32 random bytes nearly all differ
_HINT: Final = "make one with: openssl rand -base64 32"
KEY_COMMAND_VARIABLE: Final = "BRIMFUL_KEY_COMMAND"
TIME_LIMIT: Final = 30.0  # seconds
_MAX_OUTPUT: Final = 65_536  # bytes
KEY_VARIABLE: Final = "BRIMFUL_KEY"
PREVIOUS_VARIABLE: Final = "BRIMFUL_KEY_PREVIOUS"
COMMAND_VARIABLE: Final = KEY_COMMAND_VARIABLE
SEARCH_VARIABLE: Final = "BRIMFUL_KEY_SEARCH"
KEY_VARIABLES: Final = (KEY_VARIABLE, PREVIOUS_VARIABLE, COMMAND_VARIABLE, SEARCH_VARIABLE)


class Keys:
    """The key that wraps data keys, and previous keys that can still unwrap them.

    A key is 32 random bytes, raw or as base64. Its id is a fingerprint.
    """

    __slots__ = ("_ciphers", "id", "search")

    def __init__(self, current: str | bytes, *previous: str | bytes, search: Search = "terms") -> None:
        """Take the current key and any number of previous ones."""
        if search not in SEARCHES:
            raise InvalidValue("search", f"must be one of {', '.join(SEARCHES)}, not {search!r}")
        self.search: Search = search
        secrets = [parse_key("key", current), *(parse_key("previous key", key) for key in previous)]
        self.id: str = fingerprint(secrets[0])
        self._ciphers = {fingerprint(secret): Cipher(secret) for secret in secrets}

    def __repr__(self) -> str:
        """Show ids only."""
        previous = "".join(f", {id!r}" for id in self.ids[1:])
        return f"<Keys {self.id!r}{previous}, search={self.search!r}>"

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of all keys, the current one first."""
        return tuple(self._ciphers)

    def wrap(self, secret: bytes, bound: bytes) -> bytes:
        """Wrap a secret with the current key."""
        return self._ciphers[self.id].encrypt(secret, bound)

    def unwrap(self, id: str, wrapped: bytes, bound: bytes) -> bytes:
        """Unwrap a secret with the key that has this id."""
        return self._ciphers[id].decrypt(wrapped, bound)


def parse_key(field: str, value: str | bytes) -> bytes:
    """Return the 32 bytes of a key that is given raw or as base64.

    >>> parse_key("BRIMFUL_KEY", "correct horse battery staple")
    Traceback (most recent call last):
    ...
    brimful.errors.InvalidValue: BRIMFUL_KEY: is not base64; a key is 32 random bytes; \
make one with: openssl rand -base64 32
    """
    if not isinstance(value, str | bytes):
        raise InvalidValue(field, f"must be {KEY_BYTES} bytes, or those as base64; {_HINT}")
    raw = _decode_base64(field, value) if isinstance(value, str) else value
    if len(raw) != KEY_BYTES:
        raise InvalidValue(field, f"has {len(raw)} bytes; a key is {KEY_BYTES} random bytes; {_HINT}")
    if len(set(raw)) < _MIN_DISTINCT:
        raise InvalidValue(field, f"is no random key, but the same bytes again and again; {_HINT}")
    return raw


def fingerprint(key: bytes) -> str:
    """Return the id of a key, which reveals nothing about it."""
    return hashlib.blake2b(b"id", key=key, digest_size=8, person=b"brimful key").hexdigest()


def _decode_base64(field: str, text: str) -> bytes:
    plain = text.strip().translate(str.maketrans("-_", "+/"))
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):  # ValueError: a non-ASCII character
        raise InvalidValue(field, f"is not base64; a key is {KEY_BYTES} random bytes; {_HINT}") from None


def run_key_command(command: str, *, time_limit: float = TIME_LIMIT) -> list[str]:
    """Run a command without a shell, and return the lines it prints: the current key, then previous ones.

    Its output is never logged or shown in errors.
    """
    printed = _run_command(_split_command(command), time_limit)
    if len(printed) > _MAX_OUTPUT:
        raise KeyUnavailable(f"printed more than {_MAX_OUTPUT:,} bytes, and not one key a line")
    try:
        lines = printed.decode("ascii").split()
    except UnicodeDecodeError:
        raise KeyUnavailable("printed something that is not base64; it must print one key per line") from None
    if not lines:
        raise KeyUnavailable("printed nothing; it must print one key a line, the current one first")
    return lines


def _split_command(command: str) -> list[str]:
    try:
        words = shlex.split(command, posix=os.name == "posix")
    except ValueError as error:
        raise InvalidValue(KEY_COMMAND_VARIABLE, f"cannot be read as a command: {error}") from None
    if not words:
        raise InvalidValue(KEY_COMMAND_VARIABLE, "is empty; unset it, or give a command that prints a key")
    return words


def _run_command(words: list[str], time_limit: float) -> bytes:
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


def keys_from_environment(environ: Mapping[str, str]) -> Keys | None:
    """Return the keys set in the environment, or in the files that it names, or None."""
    key, previous = find_secret(environ, KEY_VARIABLE), find_secret(environ, PREVIOUS_VARIABLE)
    if key and environ.get(COMMAND_VARIABLE):
        raise InvalidValue(KEY_VARIABLE, f"and {COMMAND_VARIABLE} are both set; unset one of them")
    encoded = run_key_command(environ[COMMAND_VARIABLE]) if environ.get(COMMAND_VARIABLE) else [key]
    if encoded[0]:
        variable = COMMAND_VARIABLE if environ.get(COMMAND_VARIABLE) else KEY_VARIABLE
        opening = [parse_key(variable, key) for key in encoded] + [
            parse_key(PREVIOUS_VARIABLE, key) for key in previous.replace(",", " ").split()
        ]
        return Keys(*opening, search=_search(environ))
    if previous:
        raise InvalidValue(PREVIOUS_VARIABLE, f"is set, and {KEY_VARIABLE} is not; set the key that is used now")
    return None


def _search(environ: Mapping[str, str]) -> Search:
    search = environ.get(SEARCH_VARIABLE) or "terms"
    if search not in SEARCHES:
        raise InvalidValue(SEARCH_VARIABLE, f"must be one of {', '.join(SEARCHES)}, not {search!r}")
    return cast("Search", search)
