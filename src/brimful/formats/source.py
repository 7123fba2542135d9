"""A file to import, with what a format needs to recognize and read it, and `Format` itself.

`head`, `outline` and `keys` describe the beginning of the file. `entries`, `lines`, `fields` and `whole` read it.
"""

import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from io import BufferedReader
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any, BinaryIO, Final, Literal, Self, TypeVar, cast

import msgspec

from brimful.core.content import clean_text
from brimful.core.decode import decode_json
from brimful.errors import DamagedFile, InvalidValue
from brimful.formats.files import STDIN, Opener, Siblings, decompress, open_file
from brimful.formats.json_stream import CHUNK_BYTES, iter_elements, iter_fields, iter_lines, too_long_message
from brimful.records import Lorebook, LoreEntry, Memory, Message, Persona, Response, Room, Snapshot, Summary, User
from brimful.records.usage import UsageReport

KEY_SEARCH_BYTES: Final = 4 * 2**20  # bytes in which a key is looked for that may stand anywhere
MAX_OUTLINE_BYTES: Final = 64 * 2**20  # bytes that are looked through at most: no text in one piece is longer
SHORT_STRING_BYTES: Final = 128  # bytes of a text that stays

_OUTLINE_CHUNK_BYTES: Final = 2**16  # bytes read at once
_STRING: Final = re.compile(rb'"((?:[^"\\]++|\\.)*+)"', re.DOTALL)
_COMPLETE_STRINGS: Final = re.compile(rb'(?:[^"]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
_IN_STRING: Final = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_KEY: Final = re.compile(rb'"((?:[^"\\]++|\\.)*+)"(\s*+:)?', re.DOTALL)


def read_outline(read: Callable[[int], bytes], most: int) -> bytes:
    r"""Return no more than `most` bytes of an outline, read from the beginning of a stream.

    >>> import io
    >>> read_outline(io.BytesIO(b'{"content": "' + b"x" * 500_000 + b'", "role": "user"}').read, 64)
    b'{"content": "", "role": "user"}'
    """
    outline, held, seen, within = bytearray(), b"", 0, False
    while len(outline) < most and seen < MAX_OUTLINE_BYTES and (chunk := read(_OUTLINE_CHUNK_BYTES)):
        seen += len(chunk)
        held += chunk
        if within:  # a long text
            end = _match_end(_IN_STRING, held, 0)
            within = held[end : end + 1] != b'"'
            held = held[end:] if within else b'""' + held[end + 1 :]
        if not within:
            end = _match_end(_COMPLETE_STRINGS, held, 0)
            outline += _STRING.sub(_shorten, held[:end])
            within = len(held) - end > SHORT_STRING_BYTES
            held = held[_match_end(_IN_STRING, held, end + 1) if within else end :]
    return bytes(outline + (b'""' if within else held))[:most]


def _match_end(pattern: re.Pattern[bytes], data: bytes, start: int) -> int:
    found = pattern.match(data, start)
    return found.end() if found else start


def find_keys(outline: bytes) -> frozenset[str]:
    r"""Return all keys of JSON objects, however deep. What only looks like one within a text is none.

    >>> sorted(find_keys(b'{"a": {"b": "\\"c\\": 1"}}'))
    ['a', 'b']
    """
    return frozenset(key.decode(errors="replace") for key, colon in _KEY.findall(outline) if colon)


def _shorten(found: re.Match[bytes]) -> bytes:
    return found[0] if len(found[1]) <= SHORT_STRING_BYTES else b'""'


MAX_PIECE_BYTES: Final = 64 * 2**20  # bytes of a line, of an element of an array, or of one object: a few large images
HEAD_BYTES: Final = 2**16  # bytes by which a format is known

T = TypeVar("T")
Shape = Literal["lines", "array", "object"]

_SUFFIX: Final = re.compile(r"(\.(jsonl|ndjson|json|txt|png|charx))?(\.gz)?$", re.IGNORECASE)
_BOM: Final = b"\xef\xbb\xbf"
_UTF16_STARTS: Final = (b"\xff\xfe", b"\xfe\xff", b"{\0", b"[\0", b"\0{", b"\0[")
_POSITION: Final = re.compile(r" \((?:byte|char) [\d,]+\)")
_READ_ERRORS: Final = (OSError, EOFError, zlib.error, zipfile.BadZipFile)


class Entry(msgspec.Struct, frozen=True):
    """One piece of JSON, where it stands, and the how manyth it is, from 1."""

    place: str
    data: Any
    number: int


class Skipped(msgspec.Struct, frozen=True):
    """What could not be taken: where it stands, and why. What cannot even be read is `damaged`."""

    place: str
    reason: str
    damaged: bool = False

    @classmethod
    def of(cls, error: InvalidValue) -> Self:
        """Return what an error says."""
        return cls(error.field, error.reason, damaged=isinstance(error, DamagedFile))


class Source:
    """A file, plain or compressed by gzip, on the disk or `within` a folder; `-` is standard input.

    `room` is where messages go that name no room; `named` is what the user said it should be, if anything; `place` is
    where the piece stands that was read last.
    """

    def __init__(
        self,
        path: str,
        *,
        room: str | None = None,
        most: int = MAX_PIECE_BYTES,
        within: Siblings | None = None,
        open: Opener = open_file,
    ) -> None:
        """Open the file and read its head."""
        inner = Path(clean_text(path)).as_posix()
        self.name = "<stdin>" if path == STDIN else f"{within.folder.name}/{inner}" if within else inner
        self.place = self.name
        self.named = room
        self.room = room or ("stdin" if path == STDIN else room_name(self.name))
        self._inner = inner
        self._within = within
        self._most = most
        with self._readable(), ExitStack() as opened:
            found = within.folder.open(path) if within else open(path)
            opened.callback(found.stream.close)
            self._file, self.size, self.modified, self._stored = found.stream, found.size, found.modified, found.stored
            self._stream = decompress(self._file)
            self.head = self._beginning().removeprefix(_BOM)
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
    def path(self) -> PurePosixPath:
        """Its name with the folders in which it lies, as far as they are known."""
        return PurePosixPath(self.name)

    @property
    def position(self) -> int:
        """How many bytes were read, as it lies on the disk."""
        return self._file.tell() * self._stored // max(1, self.size)

    @cached_property
    def keys(self) -> frozenset[str]:
        """All keys of JSON objects in the outline, however deep."""
        return find_keys(self.outline)

    @cached_property
    def outline(self) -> bytes:
        """The beginning of its JSON, in which long texts are empty: it shows what stands behind them."""
        if len(self.head) < HEAD_BYTES - len(_BOM) or not self.head.lstrip().startswith((b"{", b"[")):
            return self.head
        try:
            self._rewind()
            return read_outline(self._stream.read, HEAD_BYTES)
        except _READ_ERRORS:
            return self.head

    def mentions(self, *keys: str) -> bool:
        """Say whether one of these keys stands anywhere in the first 4 MiB."""
        if not self.keys.isdisjoint(keys):
            return True
        with self._readable():
            self._rewind()
            return not find_keys(self._stream.read(KEY_SEARCH_BYTES)).isdisjoint(keys)

    @property
    def shape(self) -> Shape:
        """How the file holds its JSON: a line each, one array, or one object over several lines."""
        first, newline, rest = self.head.lstrip().partition(b"\n")
        if first.startswith(b"["):
            return "lines" if rest.strip() and _is_json(first) else "array"
        return "object" if newline and first.rstrip().endswith((b"{", b"[", b",", b":")) else "lines"

    def lines(self) -> Iterator[tuple[str, bytes] | Skipped]:
        """Yield the lines of the file that hold anything, with their places."""
        for number, piece in self._pieces(iter_lines(self._stream, self._most)):
            self.place = f"{self.name}:{number}"
            yield Skipped(self.place, piece, damaged=True) if isinstance(piece, str) else (self.place, piece)

    def entries(self) -> Iterator[Entry | Skipped]:
        """Yield the JSON of the file, piece by piece, whatever its shape."""
        match self.shape:
            case "lines":
                for number, piece in self._pieces(iter_lines(self._stream, self._most)):
                    self.place = f"{self.name}:{number}"
                    yield _parse_entry(self.place, piece, number)
            case "array":
                for number, piece in self._pieces(iter_elements(self._stream, self._most)):
                    self.place = f"{self.name}[{number}]"
                    yield _parse_entry(self.place, piece, number + 1)
            case "object":
                yield self.whole()

    def whole(self) -> Entry | Skipped:
        """Return the JSON of a file that is one piece."""
        try:
            data = self.content()
        except InvalidValue as error:
            return Skipped.of(error)
        return _parse_entry(self.name, data, 1)

    def fields(self, *streamed: str) -> Iterator[tuple[str, Entry | Skipped]]:
        """Yield the values of one object by their keys; of the arrays under the `streamed` ones, each element."""
        found = iter_fields(self._stream, self._most, frozenset(streamed))
        numbered = ((at, field) for at, field in enumerate(found))
        for _, field in self._pieces(numbered):
            key, number, piece = ("", None, field) if isinstance(field, str) else field
            self.place = f"{self.name}: {key}" if number is None else f"{self.name}: {key}[{number}]"
            yield key, _parse_entry(self.place if key else self.name, piece, (number or 0) + 1)

    def content(self) -> bytes:
        """Return the whole file, which must not be longer than one piece may be."""
        with self._readable():
            self._rewind()
            whole = self._stream.read(self._most + 1)
        if len(whole) > self._most:
            raise DamagedFile(self.name, too_long_message(self._most))
        return whole

    def stream(self) -> BinaryIO:
        """Return the file as a stream of bytes, at its beginning."""
        with self._readable():
            self._stream.seek(0)
        return self._stream

    def unreadable(self) -> Iterator[Skipped]:
        """Read the file to its end, and yield why that cannot be done, if so."""
        try:
            with self._readable():
                self._stream.seek(0)
                while self._stream.read(CHUNK_BYTES):
                    pass
        except DamagedFile as error:
            yield Skipped.of(error)

    def beside(self, name: str) -> Any:
        """Return the JSON of a file of the same folder or archive, named from here; None if there is none."""
        return self._within.json(self._inner, name) if self._within else None

    @property
    def is_within(self) -> bool:
        """Whether it lies in a folder or archive that is gone through as a whole."""
        return self._within is not None

    def has_beside(self, name: str) -> bool:
        """Say whether there is such a file in the same folder or archive."""
        return self._within is not None and self._within.has(self._inner, name)

    def names_beside(self, folder: str) -> list[str]:
        """Return the names of files in such a folder, as they are named from here."""
        return self._within.inside(self._inner, folder) if self._within else []

    def once(self, what: str, make: Callable[[], T]) -> T:
        """Return what is made of a folder, made once for all of its files."""
        return self._within.once(what, make) if self._within else make()

    def first(self, what: str) -> bool:
        """Say whether this is asked for the first time of the folder: what many files tell is told once."""
        asked: list[bool] = self.once(f"first {what}", list)
        asked.append(True)
        return len(asked) == 1

    def starting(self, start: str, most: int) -> bytes | None:
        """Return the file, anywhere in the same folder or archive, whose name begins so; None if it is too long."""
        found = self._within.starting(start) if self._within else None
        return self._within.read(found, most) if self._within and found else None

    def _pieces(self, pieces: Iterator[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
        """Yield pieces from the beginning of the file; if it cannot be read to its end, the last one says so."""
        last = 0
        try:
            self._rewind()
            for last, piece in pieces:
                yield last, piece
        except _READ_ERRORS as error:
            yield last + 1, f"cannot be read further: {_cause(error)}"

    def _beginning(self) -> bytes:
        """Return the first bytes of the file; if it is damaged among them, those that stand before."""
        found = b""
        try:
            while len(found) < HEAD_BYTES and (
                more := cast("BufferedReader", self._stream).read1(HEAD_BYTES - len(found))
            ):
                found += more
        except _READ_ERRORS:
            if not found:
                raise
        return found

    def _rewind(self) -> None:
        self._stream.seek(0)
        if self._stream.read(len(_BOM)) != _BOM:
            self._stream.seek(0)

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except InvalidValue:
            raise
        except FileNotFoundError:
            raise DamagedFile(self.name, "no such file") from None
        except IsADirectoryError:
            raise DamagedFile(self.name, "is a directory, not a file") from None
        except (*_READ_ERRORS, ValueError, NotImplementedError, RuntimeError) as error:
            raise DamagedFile(self.name, f"cannot be read: {_cause(error)}") from None


def is_utf16(source: Source) -> bool:
    """Say whether a file is text of another encoding, which all of our formats are not."""
    return source.head.startswith(_UTF16_STARTS)


def room_name(path: str) -> str:
    """Return the name of a room after that of a file.

    >>> room_name("logs/support.jsonl.gz"), room_name(".json")
    ('support', '.json')
    """
    name = Path(path).name
    return _SUFFIX.sub("", name) or name


def _parse_entry(place: str, piece: bytes | str, number: int) -> Entry | Skipped:
    if isinstance(piece, str):
        return Skipped(place, piece, damaged=True)
    try:
        return Entry(place, decode_json(piece), number)
    except ValueError as error:
        reason = _POSITION.sub("", str(error))  # one for all pieces that have the same damage
        return Skipped(place, reason, damaged=True)


def _is_json(piece: bytes) -> bool:
    try:
        decode_json(piece)
    except ValueError:
        return False
    return True


def _cause(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


ImportedRecord = (
    User | Persona | Room | Message | Memory | Lorebook | LoreEntry | Summary | Snapshot | Response | UsageReport
)
"""What an importer may bring. Ids are idempotency keys: the same file must give the same ones again."""


class Format(msgspec.Struct, frozen=True, kw_only=True):
    """One format. `recognizes` gets the source with its `head`, `outline` and `keys`, and reads no further."""

    name: str
    description: str
    recognizes: Callable[[Source], bool]
    read: Callable[[Source], Iterator[ImportedRecord | Skipped]]
