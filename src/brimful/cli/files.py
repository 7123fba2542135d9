"""Read input from a file or standard input; write JSON lines to a file or standard output."""

import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import msgspec

from brimful.cli.output import Advance, Failure, progress
from brimful.core.validation import clean_text, decode_json
from brimful.private_files import open_private

if TYPE_CHECKING:
    from brimful.core.context import Context

STDIN: Final = "-"
MAX_BYTES: Final = 256 * 2**20  # about 60 million tokens: more is a mistake, not a prompt
_PROGRESS_STEP: Final = 100  # lines between two progress updates


def source_name(path: str) -> str:
    """Return the name of a source for messages. A path may contain bytes that are not valid text."""
    return "<stdin>" if path == STDIN else clean_text(path)


def read_bytes(path: str) -> bytes:
    """Read a file, or standard input for `-`. Empty standard input is an error: the pipe before us broke."""
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
    if len(data) > MAX_BYTES:
        raise Failure(f"{name}: is larger than {MAX_BYTES // 2**20} MiB")
    if not data and path == STDIN:
        raise Failure("<stdin>: is empty")
    return data


def read_text(path: str) -> str:
    """Read UTF-8 text, without a byte order mark. Line ends stay as they are."""
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Failure(f"{source_name(path)}: is not UTF-8 text (byte {error.start:,})") from None


def read_argument(text: str) -> str:
    """Return the text of an argument, or standard input for `-`."""
    return read_text(STDIN).removesuffix("\n") if text == STDIN else text


def parse_json(text: str, where: str) -> Any:
    """Parse JSON; `where` names the source in errors. Escaped lone surrogates are replaced."""
    try:
        return decode_json(text)
    except ValueError as error:
        raise Failure(f"{where}: {error}") from None


def read_context(path: str) -> "Context":
    """Read a context that `brimful fill --out` or `Context.to_json` wrote."""
    from brimful.core.context import Context  # noqa: PLC0415 - slow to import, and not needed by every command
    from brimful.errors import InvalidRecord  # noqa: PLC0415

    text = read_text(path)
    try:
        return Context.from_json(text)
    except InvalidRecord as error:
        raise Failure(f"{source_name(path)}: is not a context: {error.reason}") from None


def write_context(path: Path | None, context: "Context") -> None:
    """Write a context to a file, if there is a path."""
    if path is not None:
        write_bytes(path, context.to_json())


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file that only its owner can read, if it is new."""
    with open_private(path) as file:
        file.write(data)


def _read_stdin() -> bytes:
    return _read_limited(sys.stdin.buffer) if sys.stdin else b""  # None if the caller closed it


def _read_file(path: Path) -> bytes:
    with path.open("rb") as file:
        return _read_limited(file)


def _read_limited(stream: BinaryIO) -> bytes:
    return stream.read(MAX_BYTES + 1)


async def write_lines(lines: AsyncIterator[Any], out: Path | None) -> None:
    """Write one JSON value per line. Progress is shown unless the lines themselves go to the terminal."""
    in_terminal = out is None and sys.stdout.isatty()
    with progress("export", None, quiet=in_terminal, unit="lines", to_file=True) as advance:
        if out is None:
            sys.stdout.flush()
            await _write_each(lines, sys.stdout.buffer, advance)
            return
        with atomic_file(out) as file:
            await _write_each(lines, file, advance)


@contextmanager
def atomic_file(out: Path) -> Iterator[BinaryIO]:
    """Open a file for writing that replaces the old one when it is complete."""
    if out.exists() and not out.is_file():  # a pipe or a device
        with out.open("wb") as file:
            yield file
        return
    part = out.with_name(f"{out.name}.part")
    with report_as(out):
        try:
            with open_private(part) as file:
                yield file
            part.replace(out)
        finally:
            part.unlink(missing_ok=True)


@contextmanager
def report_as(out: Path) -> Iterator[None]:
    """Report errors under the name that the user gave, not that of the temporary file."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, os.strerror(error.errno) if error.errno else str(error), str(out)) from None


async def _write_each(lines: AsyncIterator[Any], file: BinaryIO, advance: Advance) -> None:
    written = 0
    async for line in lines:
        file.write(msgspec.json.encode(line) + b"\n")
        written += 1
        if written % _PROGRESS_STEP == 0:
            advance(written)
