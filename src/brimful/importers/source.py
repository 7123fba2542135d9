"""A file to import: its head, by which its format is known, and its pieces, one after the other."""

import gzip
import re
import shutil
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final, Literal, Self, cast

import msgspec

from brimful.core.content import clean_text
from brimful.core.lenient import decode_json
from brimful.errors import InvalidValue
from brimful.importers.pieces import elements, lines, too_long

STDIN: Final = "-"
MOST: Final = 64 * 2**20  # bytes of a line, of an element of an array, or of one object: a few large images
HEAD: Final = 2**16  # bytes by which a format is known

Shape = Literal["lines", "array", "object"]

_SUFFIX: Final = re.compile(r"(\.(jsonl|ndjson|json|txt))?(\.gz)?$", re.IGNORECASE)
_KEY: Final = re.compile(r'"((?:[^"\\]|\\.){1,64})"\s*:')
_BOM: Final = b"\xef\xbb\xbf"
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff", b"{\0", b"[\0", b"\0{", b"\0[")
_GZIP: Final = b"\x1f\x8b"
_WHERE: Final = re.compile(r" \((?:byte|char) [\d,]+\)")


class Entry(msgspec.Struct, frozen=True):
    """One piece of JSON, where it stands, and the how manyth it is, from 1."""

    place: str
    data: Any
    number: int


class Skipped(msgspec.Struct, frozen=True):
    """What could not be taken: where it stands, and why."""

    place: str
    reason: str


class Source:
    """A file, plain or compressed by gzip; `-` is standard input. `room` is where messages go that name no room."""

    def __init__(self, path: str, *, room: str | None = None, most: int = MOST) -> None:
        """Open the file and read its head."""
        self.name = "<stdin>" if path == STDIN else clean_text(path)
        self.room = room or ("stdin" if path == STDIN else room_name(self.name))
        self._most = most
        with self._readable(), ExitStack() as opened:
            self._file, self.size, self.modified = _opened(path)
            opened.callback(self._file.close)
            self._stream = self._decompressed()
            head = self._stream.read(HEAD)
            if head.startswith(_UTF_16):
                raise InvalidValue(self.name, "is UTF-16, not UTF-8: convert it first (iconv -f UTF-16 -t UTF-8)")
            self.head = head.removeprefix(_BOM)
            opened.pop_all()

    def __enter__(self) -> Self:
        """Use it."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        self._file.close()

    @property
    def position(self) -> int:
        """How many bytes of `size` were read."""
        return self._file.tell()

    @property
    def keys(self) -> frozenset[str]:
        """All keys of JSON objects in the head, however deep."""
        return frozenset(_KEY.findall(self.head.decode(errors="replace")))

    @property
    def shape(self) -> Shape:
        """How the file holds its JSON: a line each, one array, or one object over several lines."""
        first, newline, rest = self.head.lstrip().partition(b"\n")
        if first.startswith(b"["):
            return "lines" if rest.strip() and _is_json(first) else "array"
        return "object" if newline and first.rstrip().endswith((b"{", b"[", b",", b":")) else "lines"

    def lines(self) -> Iterator[tuple[str, bytes] | Skipped]:
        """Yield the lines of the file that hold anything, with their places."""
        for number, piece in self._pieces(lines(self._stream, self._most)):
            place = f"{self.name}:{number}"
            yield Skipped(place, piece) if isinstance(piece, str) else (place, piece)

    def entries(self) -> Iterator[Entry | Skipped]:
        """Yield the JSON of the file, piece by piece, whatever its shape."""
        match self.shape:
            case "lines":
                for number, piece in self._pieces(lines(self._stream, self._most)):
                    yield _entry(f"{self.name}:{number}", piece, number)
            case "array":
                for number, piece in self._pieces(elements(self._stream, self._most)):
                    yield _entry(f"{self.name}[{number}]", piece, number + 1)
            case "object":
                whole = self._whole()
                yield _entry(self.name, whole, 1)

    def _whole(self) -> bytes | str:
        with self._readable():
            self._rewind()
            whole = self._stream.read(self._most + 1)
        return too_long(self._most) if len(whole) > self._most else whole

    def _pieces(self, pieces: Iterator[tuple[int, bytes | str]]) -> Iterator[tuple[int, bytes | str]]:
        """Yield pieces from the beginning of the file; if it cannot be read to its end, the last one says so."""
        last = 0
        try:
            self._rewind()
            for last, piece in pieces:
                yield last, piece
        except (OSError, EOFError, zlib.error) as error:
            yield last + 1, f"cannot be read further: {_cause(error)}"

    def _rewind(self) -> None:
        self._stream.seek(0)
        if self._stream.read(len(_BOM)) != _BOM:
            self._stream.seek(0)

    def _decompressed(self) -> BinaryIO:
        magic = self._file.read(len(_GZIP))
        self._file.seek(0)
        return cast("BinaryIO", gzip.GzipFile(fileobj=self._file)) if magic == _GZIP else self._file

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except InvalidValue:
            raise
        except FileNotFoundError:
            raise InvalidValue(self.name, "no such file") from None
        except IsADirectoryError:
            raise InvalidValue(self.name, "is a directory, not a file") from None
        except (OSError, EOFError, ValueError, zlib.error) as error:
            raise InvalidValue(self.name, f"cannot be read: {_cause(error)}") from None


def room_name(path: str) -> str:
    """Return the name of a room after that of a file.

    >>> room_name("logs/support.jsonl.gz"), room_name(".json")
    ('support', '.json')
    """
    name = Path(path).name
    return _SUFFIX.sub("", name) or name


def _opened(path: str) -> tuple[BinaryIO, int, float]:
    """Return a file that can be read from its beginning again, its size, and its time."""
    if path == STDIN:
        return _spooled(sys.stdin.buffer) if sys.stdin else _spooled(None)
    if Path(path).exists() and not Path(path).is_file() and not Path(path).is_dir():
        with Path(path).open("rb") as pipe:
            return _spooled(pipe)
    file = Path(path).open("rb")  # noqa: SIM115 - closed with the source
    return file, Path(path).stat().st_size, Path(path).stat().st_mtime


def _spooled(stream: BinaryIO | None) -> tuple[BinaryIO, int, float]:
    """Copy what can be read only once."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the source
    if stream is not None:
        shutil.copyfileobj(stream, file)
    size = file.tell()
    file.seek(0)
    return cast("BinaryIO", file), size, time.time()


def _entry(place: str, piece: bytes | str, number: int) -> Entry | Skipped:
    if isinstance(piece, str):
        return Skipped(place, piece)
    try:
        return Entry(place, decode_json(piece), number)
    except ValueError as error:
        return Skipped(place, _WHERE.sub("", str(error)))  # one reason for all pieces that have the same damage


def _is_json(piece: bytes) -> bool:
    try:
        decode_json(piece)
    except ValueError:
        return False
    return True


def _cause(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
