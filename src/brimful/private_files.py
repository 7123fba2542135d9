"""Files that only their owner can read: stores, backups and exports hold what people wrote."""

import os
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

_OWNER_ONLY: Final = 0o600


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
