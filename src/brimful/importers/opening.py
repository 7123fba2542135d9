"""Opening what is to be read: a file, standard input or a pipe, so that it can be read from its beginning again."""

import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import BinaryIO, Final, cast

import msgspec

STDIN: Final = "-"


class Opened(msgspec.Struct, frozen=True):
    """A file that is open, its size, its time, and how many bytes it takes where it lies."""

    stream: BinaryIO
    size: int
    modified: float
    stored: int


def open_path(path: str) -> Opened:
    """Open a file by its path; `-` is standard input."""
    if path == STDIN:
        return _spooled(sys.stdin.buffer if sys.stdin else None)
    if Path(path).exists() and not Path(path).is_file() and not Path(path).is_dir():
        with Path(path).open("rb") as pipe:
            return _spooled(pipe)
    file = Path(path).open("rb")  # noqa: SIM115 - closed with the source
    stat = Path(path).stat()
    return Opened(file, stat.st_size, stat.st_mtime, stat.st_size)


def _spooled(stream: BinaryIO | None) -> Opened:
    """Copy what can be read only once."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the source
    if stream is not None:
        shutil.copyfileobj(stream, file)
    size = file.tell()
    file.seek(0)
    return Opened(cast("BinaryIO", file), size, time.time(), size)
