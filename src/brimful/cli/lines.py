"""JSON lines, to a file or to standard output."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec


async def write_lines(lines: AsyncIterator[Any], out: Path | None) -> None:
    """Write records or other data, one a line."""
    if out is None:
        sys.stdout.flush()
        await _write(lines, sys.stdout.buffer)
        return
    with out.open("wb") as file:
        await _write(lines, file)


async def _write(lines: AsyncIterator[Any], file: BinaryIO) -> None:
    async for line in lines:
        file.write(msgspec.json.encode(line) + b"\n")
