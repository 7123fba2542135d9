"""JSON lines, to a file or to standard output. A file is there when it is whole."""

import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from brimful.cli.progress import Advance, progress

_STEP: Final = 100  # lines between two words about how far it has come


async def write_lines(lines: AsyncIterator[Any], out: Path | None) -> None:
    """Write records or other data, one a line. How many they are is shown where they do not go to the same terminal."""
    seen = out is None and sys.stdout.isatty()
    with progress("export", None, quiet=seen, unit="lines", apart=True) as advance:
        if out is None:
            sys.stdout.flush()
            await _write(lines, sys.stdout.buffer, advance)
            return
        with _whole(out) as file:
            await _write(lines, file, advance)


@contextmanager
def _whole(out: Path) -> Iterator[BinaryIO]:
    """Open a file to be written, which takes its place when all is in it. What stood there before stays until then."""
    if out.exists() and not out.is_file():  # a pipe or a device
        with out.open("wb") as file:
            yield file
        return
    part = out.with_name(f"{out.name}.part")
    with naming(out):
        try:
            with part.open("wb") as file:
                yield file
            part.replace(out)
        finally:
            part.unlink(missing_ok=True)


@contextmanager
def naming(out: Path) -> Iterator[None]:
    """Tell of what went wrong with a file by the name that was asked for, not by that of the part that becomes it."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, os.strerror(error.errno) if error.errno else str(error), str(out)) from None


async def _write(lines: AsyncIterator[Any], file: BinaryIO, advance: Advance) -> None:
    written = 0
    async for line in lines:
        file.write(msgspec.json.encode(line) + b"\n")
        written += 1
        if written % _STEP == 0:
            advance(written)
