"""Where input comes from: a file or standard input, with one clear line for everything that can be wrong with it."""

import sys
from pathlib import Path
from typing import Any, BinaryIO, Final

from brimful.cli.failure import Failure
from brimful.core.content import clean_text
from brimful.core.context import Context
from brimful.core.lenient import decode_json
from brimful.errors import InvalidRecord

STDIN: Final = "-"
MOST_BYTES: Final = 256 * 2**20  # beyond this it is a mistake, not a prompt: some 60 million tokens


def source_name(path: str) -> str:
    """Return how we call the source. A path may hold bytes that are no text; a message may not."""
    return "<stdin>" if path == STDIN else clean_text(path)


def read_bytes(path: str) -> bytes:
    """Read a file, or standard input for `-`. An empty standard input is a pipe that broke before us."""
    name = source_name(path)
    try:
        data = _read_stdin() if path == STDIN else _read_file(Path(path))
    except FileNotFoundError:
        raise Failure(f"{name}: no such file") from None
    except IsADirectoryError:
        raise Failure(f"{name}: is a directory, not a file") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise Failure(f"{name}: cannot be read: {reason}") from None
    if len(data) > MOST_BYTES:
        raise Failure(f"{name}: is larger than {MOST_BYTES // 2**20} MiB")
    if not data and path == STDIN:
        raise Failure("<stdin>: is empty")
    return data


def read_text(path: str) -> str:
    """Read a text in UTF-8. A byte order mark is no part of it; line ends stay as they are."""
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Failure(f"{source_name(path)}: is not UTF-8 text (byte {error.start:,})") from None


def parse_json(text: str, where: str) -> Any:
    """Return JSON data; `where` names it in the error. Lone surrogates, written as escapes, are replaced."""
    try:
        return decode_json(text)
    except ValueError as error:
        raise Failure(f"{where}: {error}") from None


def read_context(path: str) -> Context:
    """Read a record that `brimful fill --out` or `Context.to_json` wrote."""
    text = read_text(path)
    try:
        return Context.from_json(text)
    except InvalidRecord as error:
        raise Failure(f"{source_name(path)}: is not the record of a context: {error.reason}") from None


def write_context(path: Path | None, context: Context) -> None:
    """Write a record, if a path is given."""
    if path is not None:
        path.write_bytes(context.to_json())


def _read_stdin() -> bytes:
    return _read(sys.stdin.buffer) if sys.stdin else b""  # None where whoever started us closed it


def _read_file(path: Path) -> bytes:
    with path.open("rb") as file:
        return _read(file)


def _read(stream: BinaryIO) -> bytes:
    return stream.read(MOST_BYTES + 1)
