"""Files that only their owner can read: stores, backups and exports hold what people wrote. Others hold secrets."""

import logging
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO, Final

from brimful.errors import InvalidValue

_OWNER_ONLY: Final = 0o600

_log = logging.getLogger("brimful")


def create_private(path: Path) -> None:
    """Create an empty file that only its owner can read and write, whatever the umask. An existing file stays as it is.

    If it cannot be created, whoever opens it says why.
    """
    with suppress(OSError):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
        try:
            if hasattr(os, "fchmod"):  # not in Windows, whose folders decide who may read a file
                os.fchmod(file, _OWNER_ONLY)
        finally:
            os.close(file)


def open_private(path: Path) -> BinaryIO:
    """Open a file for writing. A new one can only be read by its owner."""
    create_private(path)
    return path.open("wb")


def read_secret(path: Path, field: str) -> str:
    """Return the secret in a file, without the line break at its end. `field` names the setting in errors."""
    try:
        text, mode = path.read_text(encoding="utf-8"), path.stat().st_mode
    except OSError as error:
        raise InvalidValue(field, f"{path} cannot be read: {error.strerror}") from None
    except ValueError:
        raise InvalidValue(field, f"{path} is not text in UTF-8") from None
    secret = text.strip()
    if not secret:
        raise InvalidValue(field, f"{path} is empty; write the secret to it")
    if not secret.isprintable():
        raise InvalidValue(field, f"{path} must hold one line with nothing but the secret")
    if os.name == "posix" and mode & stat.S_IROTH:
        _warn_of_readers(path)
    return secret


@cache  # once per file: secrets are read again and again
def _warn_of_readers(path: Path) -> None:
    _log.warning("every user of this machine can read the secret in %s; run: chmod o-r %s", path, path)


def find_secret(environ: Mapping[str, str], name: str) -> str:
    """Return a secret from a variable, or from the file that `NAME_FILE` names; empty if neither is set.

    >>> find_secret({"BRIMFUL_KEY": "…"}, "BRIMFUL_KEY"), find_secret({}, "BRIMFUL_KEY")
    ('…', '')
    """
    file = environ.get(f"{name}_FILE", "")
    secret = environ.get(name, "").strip()
    if file and secret:
        raise InvalidValue(name, f"and {name}_FILE are both set; unset one of them")
    return read_secret(Path(file), f"{name}_FILE") if file else secret
