"""Opening what is to be read: a file, standard input or a pipe, so that it can be read from its beginning again."""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
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


Open = Callable[[str], Opened]
"""Opens a file by its path."""


class Spool:
    """Opens files, and holds a copy of what can be read only once, so that it can be opened again."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._copies: dict[str, Opened] = {}

    def open(self, path: str) -> Opened:
        """Open a file by its path; `-` is standard input."""
        if path not in self._copies and not _runs_dry(path):
            return open_path(path)
        if path not in self._copies:
            self._copies[path] = open_path(path)
        copy = self._copies[path]
        stream = os.fdopen(os.dup(copy.stream.fileno()), "rb")
        stream.seek(0)
        return msgspec.structs.replace(copy, stream=stream)

    def close(self) -> None:
        """Let go of the copies."""
        for copy in self._copies.values():
            copy.stream.close()


def open_path(path: str) -> Opened:
    """Open a file by its path; `-` is standard input."""
    if path == STDIN:
        return _spooled(sys.stdin.buffer if sys.stdin else None)
    if _runs_dry(path):
        with Path(path).open("rb") as pipe:
            return _spooled(pipe)
    file = Path(path).open("rb")  # noqa: SIM115 - closed with the source
    stat = Path(path).stat()
    return Opened(file, stat.st_size, stat.st_mtime, stat.st_size)


def _runs_dry(path: str) -> bool:
    """Say whether something can be read only once: standard input, a pipe, a device."""
    here = Path(path)
    return path == STDIN or (here.exists() and not here.is_file() and not here.is_dir())


def _spooled(stream: BinaryIO | None) -> Opened:
    """Copy what can be read only once."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the source
    if stream is not None:
        shutil.copyfileobj(stream, file)
    size = file.tell()
    file.seek(0)
    return Opened(cast("BinaryIO", file), size, time.time(), size)
