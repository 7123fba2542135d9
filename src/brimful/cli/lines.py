"""Records as JSON lines, to a file or to standard output."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from brimful.records import Record


async def write_records(records: AsyncIterator[Record], out: Path | None) -> int:
    """Write records, one a line, and return how many there were."""
    if out is not None:
        with out.open("wb") as file:
            return await _write(records, file)
    sys.stdout.flush()
    return await _write(records, sys.stdout.buffer)


async def _write(records: AsyncIterator[Record], file: BinaryIO) -> int:
    count = 0
    async for record in records:
        file.write(msgspec.json.encode(record) + b"\n")
        count += 1
    return count
