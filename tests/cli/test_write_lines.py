"""Writing JSON lines to a file: it appears when it is complete."""

import asyncio
import os
import threading
from pathlib import Path

import pytest

from brimful.cli.files import write_lines


async def rows(*values):
    for value in values:
        if isinstance(value, Exception):
            raise value
        yield value


def test_the_old_file_stays_until_the_new_one_is_complete():
    out = Path("out.jsonl")
    asyncio.run(write_lines(rows(1, {"a": 2}), out))
    assert out.read_bytes() == b'1\n{"a":2}\n'
    with pytest.raises(OSError, match="full"):
        asyncio.run(write_lines(rows(3, OSError("full")), out))
    assert out.read_bytes() == b'1\n{"a":2}\n'
    assert [path.name for path in Path().iterdir()] == ["out.jsonl"]


def test_a_pipe_is_written_to():
    os.mkfifo("pipe")
    got = []
    reader = threading.Thread(target=lambda: got.append(Path("pipe").read_bytes()))
    reader.start()
    asyncio.run(write_lines(rows(1), Path("pipe")))
    reader.join()
    assert got == [b"1\n"]
