"""A file to import, with what a format needs to recognize and read it, and `Format` itself.

`head`, `outline` and `keys` describe the beginning of the file. `entries`, `lines`, `fields` and `whole` read it.
"""

import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from io import BufferedReader
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any, BinaryIO, Final, Literal, Self, TypeVar, cast

import msgspec

from brimful.core.validation import clean_text, decode_json
from brimful.errors import BrimfulError, DamagedFile, InvalidValue
from brimful.formats.files import DEFAULT_LIMITS, STDIN, Limits, Opener, Siblings, decompress, open_file
from brimful.formats.json_stream import CHUNK_BYTES, iter_elements, iter_fields, iter_lines, too_long_message
from brimful.records import Lorebook, LoreEntry, Memory, Message, Persona, Response, Room, Snapshot, Summary, User
from brimful.records.usage import UsageReport

KEY_SEARCH_BYTES: Final = 4 * 2**20  # searched for a key that may be anywhere
SHORT_STRING_BYTES: Final = 128  # longer strings are emptied in an outline
HEAD_BYTES: Final = 2**16  # of a file's beginning, from which its format is detected

T = TypeVar("T")
Shape = Literal["lines", "array", "object"]

_OUTLINE_CHUNK_BYTES: Final = 2**16  # read at once
_STRING: Final = re.compile(rb'"((?:[^"\\]++|\\.)*+)"', re.DOTALL)
_COMPLETE_STRINGS: Final = re.compile(rb'(?:[^"]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
_IN_STRING: Final = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_KEY: Final = re.compile(rb'"((?:[^"\\]++|\\.)*+)"(\s*+:)?', re.DOTALL)
_SUFFIX: Final = re.compile(r"(\.(jsonl|ndjson|json|txt|png|charx))?(\.gz)?$", re.IGNORECASE)
_BOM: Final = b"\xef\xbb\xbf"
_UTF16_STARTS: Final = (b"\xff\xfe", b"\xfe\xff", b"{\0", b"[\0", b"\0{", b"\0[")
_POSITION: Final = re.compile(r" \((?:byte|char) [\d,]+\)")
_READ_ERRORS: Final = (OSError, EOFError, zlib.error, zipfile.BadZipFile)


class Entry(msgspec.Struct, frozen=True):
    """One JSON value of a file, with its location (`file:line` or `file[index]`) and its number, from 1."""

    location: str
    data: Any
    number: int


class Skipped(msgspec.Struct, frozen=True):
    """Something that was not imported: its location and the reason. It is `damaged` if it could not be read at all."""

    location: str
    reason: str
    damaged: bool = False

    @classmethod
    def from_error(cls, error: InvalidValue) -> Self:
        """Return the location and the reason of an error."""
        return cls(error.field, error.reason, damaged=isinstance(error, DamagedFile))


class Replaces(msgspec.Struct, frozen=True):
    """The end of a file whose memories have ids with this prefix: stored ones that are not kept are archived.

    `at` is when the file was changed.
    """

    prefix: str
    keep: frozenset[str]
    at: float


class Source:
    """A file to import, plain or gzip, by its path or as one of the files of a folder; `-` is standard input.

    `room` is the room for messages that name none, `requested_room` the one that the user asked for, if any, and
    `location` the position of the piece that was read last.
    """

    def __init__(
        self,
        path: str,
        *,
        room: str | None = None,
        siblings: Siblings | None = None,
        limits: Limits = DEFAULT_LIMITS,
        open: Opener = open_file,
    ) -> None:
        file = Path(clean_text(path)).as_posix()
        self.name = "<stdin>" if path == STDIN else f"{siblings.folder.name}/{file}" if siblings else file
        self.location = self.name
        self.requested_room = room
        self.room = room or ("stdin" if path == STDIN else room_name(self.name))
        self.limits = limits
        self._path = file
        self._siblings = siblings
        with self._damage_as_errors(), ExitStack() as stack:
            opened = siblings.folder.open(path) if siblings else open(path)
            stack.callback(opened.stream.close)
            self._file, self._stored = opened.stream, opened.stored
            self.size, self.modified = opened.size, opened.modified
            self._stream = decompress(self._file, limits)
            self.head = self._read_head().removeprefix(_BOM)
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        """Return itself; the file is open until the end of the `with` block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def closed(self) -> bool:
        return self._file.closed

    @property
    def path(self) -> PurePosixPath:
        """Its path, as far as it is known."""
        return PurePosixPath(self.name)

    @property
    def position(self) -> int:
        """How many bytes were read, in terms of its size on disk; all of them when it is closed."""
        try:
            return self._file.tell() * self._stored // max(1, self.size)
        except ValueError:  # another thread may close it at any time, so `closed` is no help
            return self._stored

    @property
    def local_path(self) -> Path | None:
        """Where it is on disk; None if it is compressed, in an archive, or standard input."""
        plain = self._stream is self._file and isinstance(self._file, BufferedReader)
        return Path(self._file.name) if plain and isinstance(self._file.name, str) else None

    @property
    def place(self) -> str:
        """Its absolute path on disk, or its name if it is not a plain file there."""
        return self.name if self.local_path is None else self.local_path.resolve().as_posix()

    @cached_property
    def path_on_disk(self) -> Path:
        """Where it is on disk, or a temporary copy, for what can only be read by its path."""
        if self.local_path is not None:
            return self.local_path
        folder = self._stack.enter_context(tempfile.TemporaryDirectory())
        copy = Path(folder) / "copy"
        with copy.open("wb") as file:
            shutil.copyfileobj(self.stream(), file)
        return copy

    @cached_property
    def keys(self) -> frozenset[str]:
        """All keys of JSON objects in the outline, at any depth."""
        return find_keys(self.outline)

    @cached_property
    def outline(self) -> bytes:
        """The beginning of its JSON with long strings emptied, so that they hide no keys after them."""
        if len(self.head) < HEAD_BYTES - len(_BOM) or not self.head.lstrip().startswith((b"{", b"[")):
            return self.head
        try:
            self._rewind()
            return read_outline(self._stream.read, HEAD_BYTES, self.limits.outline_bytes)
        except _READ_ERRORS:
            return self.head

    def mentions(self, *keys: str) -> bool:
        """Return whether one of these keys occurs in the first 4 MiB."""
        if not self.keys.isdisjoint(keys):
            return True
        with self._damage_as_errors():
            self._rewind()
            return not find_keys(self._stream.read(KEY_SEARCH_BYTES)).isdisjoint(keys)

    @property
    def shape(self) -> Shape:
        """How the file contains its JSON: one value per line, one array, or one object over several lines."""
        first, newline, rest = self.head.lstrip().partition(b"\n")
        if first.startswith(b"["):
            return "lines" if rest.strip() and _is_json(first) else "array"
        return "object" if newline and first.rstrip().endswith((b"{", b"[", b",", b":")) else "lines"

    def lines(self) -> Iterator[tuple[str, bytes] | Skipped]:
        """Yield the non-empty lines of the file with their locations."""
        for number, piece in self._pieces(iter_lines(self._stream, self.limits.piece_bytes)):
            self.location = f"{self.name}:{number}"
            yield Skipped(self.location, piece, damaged=True) if isinstance(piece, str) else (self.location, piece)

    def entries(self) -> Iterator[Entry | Skipped]:
        """Yield the JSON values of the file one by one, whatever its shape."""
        match self.shape:
            case "lines":
                for number, piece in self._pieces(iter_lines(self._stream, self.limits.piece_bytes)):
                    self.location = f"{self.name}:{number}"
                    yield _parse_entry(self.location, piece, number)
            case "array":
                for number, piece in self._pieces(iter_elements(self._stream, self.limits.piece_bytes)):
                    self.location = f"{self.name}[{number}]"
                    yield _parse_entry(self.location, piece, number + 1)
            case "object":
                yield self.whole()

    def whole(self) -> Entry | Skipped:
        """Return the JSON value of a file that contains only one."""
        try:
            data = self.content()
        except InvalidValue as error:
            return Skipped.from_error(error)
        return _parse_entry(self.name, data, 1)

    def fields(self, *streamed: str) -> Iterator[tuple[str, Entry | Skipped]]:
        """Yield the fields of one object. Arrays under the `streamed` keys are yielded element by element."""
        numbered = enumerate(iter_fields(self._stream, self.limits.piece_bytes, frozenset(streamed)))
        for _, field in self._pieces(numbered):
            key, index, piece = ("", None, field) if isinstance(field, str) else field
            self.location = f"{self.name}: {key}" if index is None else f"{self.name}: {key}[{index}]"
            yield key, _parse_entry(self.location if key else self.name, piece, (index or 0) + 1)

    def content(self) -> bytes:
        """Return the whole file. Raise `DamagedFile` if it is longer than a piece may be."""
        with self._damage_as_errors():
            self._rewind()
            content = self._stream.read(self.limits.piece_bytes + 1)
        if len(content) > self.limits.piece_bytes:
            raise DamagedFile(self.name, too_long_message(self.limits.piece_bytes))
        return content

    def stream(self) -> BinaryIO:
        """Return the file as a stream of bytes, at its beginning."""
        with self._damage_as_errors():
            self._stream.seek(0)
        return self._stream

    def read_through(self) -> Iterator[Skipped]:
        """Read the file to its end, and yield the reason if that fails."""
        try:
            with self._damage_as_errors():
                self._stream.seek(0)
                while self._stream.read(CHUNK_BYTES):
                    pass
        except DamagedFile as error:
            yield Skipped.from_error(error)

    @property
    def is_in_folder(self) -> bool:
        """Whether it is one of the files of a folder or archive that is imported as a whole."""
        return self._siblings is not None

    def sibling(self, path: str) -> Any:
        """Return the JSON of another file of the folder or archive, by its relative path; None if there is none."""
        return self._siblings.json(self._path, path) if self._siblings else None

    def read_sibling(self, path: str) -> bytes | None:
        """Return another file of the folder or archive, by its relative path; None if there is none, or it is huge."""
        return self._siblings.read_relative(self._path, path) if self._siblings else None

    def has_sibling(self, path: str) -> bool:
        """Return whether the folder or archive has a file at a relative path."""
        return self._siblings is not None and self._siblings.has(self._path, path)

    def siblings_in(self, folder: str) -> list[str]:
        """Return the relative paths of the files in another folder, which is given by its relative path."""
        return self._siblings.list_folder(self._path, folder) if self._siblings else []

    def read_sibling_with_prefix(self, prefix: str, max_bytes: int) -> bytes | None:
        """Return the file, anywhere in the folder or archive, whose name starts with a prefix; None if too long."""
        name = self._siblings.find_prefix(prefix) if self._siblings else None
        return self._siblings.read(name, max_bytes) if self._siblings and name else None

    def once(self, key: str, make: Callable[[], T]) -> T:
        """Return a value that is made once for all files of a folder."""
        return self._siblings.once(key, make) if self._siblings else make()

    def is_first(self, key: str) -> bool:
        """Return whether this key is asked for the first time in this folder."""
        calls: list[bool] = self.once(f"first {key}", list)
        calls.append(True)
        return len(calls) == 1

    def _pieces(self, pieces: Iterator[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
        """Yield pieces from the beginning of the file. If it cannot be read to its end, the last piece says so."""
        number = 0
        try:
            self._rewind()
            for number, piece in pieces:
                yield number, piece
        except _READ_ERRORS as error:
            yield number + 1, f"cannot be read further: {_cause(error)}"

    def _read_head(self) -> bytes:
        """Return the first bytes of the file, or as many as come before damage."""
        head = b""
        try:
            while len(head) < HEAD_BYTES and (
                more := cast("BufferedReader", self._stream).read1(HEAD_BYTES - len(head))
            ):
                head += more
        except _READ_ERRORS:
            if not head:
                raise
        return head

    def _rewind(self) -> None:
        self._stream.seek(0)
        if self._stream.read(len(_BOM)) != _BOM:
            self._stream.seek(0)

    @contextmanager
    def _damage_as_errors(self) -> Iterator[None]:
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


def read_outline(read: Callable[[int], bytes], size: int, max_read: int) -> bytes:
    r"""Return an outline of up to `size` bytes: the beginning of a stream of JSON, with long strings emptied.

    No more than `max_read` bytes are read, and a long string is never held in memory.

    >>> import io
    >>> read_outline(io.BytesIO(b'{"content": "' + b"x" * 500_000 + b'", "role": "user"}').read, 64, 2**20)
    b'{"content": "", "role": "user"}'
    """
    outline, buffer, total, in_long_string = bytearray(), b"", 0, False
    while len(outline) < size and total < max_read and (chunk := read(_OUTLINE_CHUNK_BYTES)):
        total += len(chunk)
        buffer += chunk
        if in_long_string:
            end = _match_end(_IN_STRING, buffer, 0)
            in_long_string = buffer[end : end + 1] != b'"'
            buffer = buffer[end:] if in_long_string else b'""' + buffer[end + 1 :]
        if not in_long_string:
            end = _match_end(_COMPLETE_STRINGS, buffer, 0)
            outline += _STRING.sub(_shorten, buffer[:end])
            in_long_string = len(buffer) - end > SHORT_STRING_BYTES
            buffer = buffer[_match_end(_IN_STRING, buffer, end + 1) if in_long_string else end :]
    return bytes(outline + (b'""' if in_long_string else buffer))[:size]


def _match_end(pattern: re.Pattern[bytes], data: bytes, start: int) -> int:
    match = pattern.match(data, start)
    return match.end() if match else start


def _shorten(match: re.Match[bytes]) -> bytes:
    return match[0] if len(match[1]) <= SHORT_STRING_BYTES else b'""'


def find_keys(outline: bytes) -> frozenset[str]:
    r"""Return all keys of JSON objects, at any depth, but none that only occurs in a string.

    >>> sorted(find_keys(b'{"a": {"b": "\\"c\\": 1"}}'))
    ['a', 'b']
    """
    return frozenset(key.decode(errors="replace") for key, colon in _KEY.findall(outline) if colon)


def is_utf16(source: Source) -> bool:
    """Return whether a file is UTF-16; all built-in formats are UTF-8."""
    return source.head.startswith(_UTF16_STARTS)


def room_name(path: str) -> str:
    """Return the name of the room for a file.

    >>> room_name("logs/support.jsonl.gz"), room_name(".json")
    ('support', '.json')
    """
    name = Path(path).name
    return _SUFFIX.sub("", name) or name


def _parse_entry(location: str, piece: bytes | str, number: int) -> Entry | Skipped:
    if isinstance(piece, str):
        return Skipped(location, piece, damaged=True)
    try:
        return Entry(location, decode_json(piece), number)
    except ValueError as error:
        reason = _POSITION.sub("", str(error))  # so that the same damage has the same reason everywhere
        return Skipped(location, reason, damaged=True)


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
"""A record that a format may yield. Ids are idempotency keys: the same file must always give the same ids."""


ImportedItem = ImportedRecord | Replaces | Skipped


class Format(msgspec.Struct, frozen=True, kw_only=True):
    """A file format. `recognizes` looks at the `head`, `outline` and `keys` of a source; `read` yields its records.

    If it `reads_entries`, nothing can be damaged but the entries of the source. Only a format that `reads_binary` is
    asked about binary files.
    """

    name: str
    description: str
    recognizes: Callable[[Source], bool]
    read: Callable[[Source], Iterator[ImportedItem]]
    reads_entries: bool = False
    reads_binary: bool = False

    def read_records(self, source: Source) -> Iterator[ImportedItem]:
        return self.read(source)

    def scan(self, source: Source) -> Iterator[Entry | ImportedItem]:
        """Yield its entries, if damage shows there: this takes a fraction of the time. Otherwise, yield its records.

        In a folder, records may be made from other files as well.
        """
        return source.entries() if self.reads_entries and not source.is_in_folder else self.read(source)


def read_each(
    source: Source, read: Callable[[Entry], Iterable[ImportedRecord | Skipped]]
) -> Iterator[ImportedRecord | Skipped]:
    """Yield the records of each entry of a file. An entry that is not valid is skipped."""
    for entry in source.entries():
        if isinstance(entry, Skipped):
            yield entry
            continue
        try:
            yield from read(entry)
        except (msgspec.ValidationError, BrimfulError) as error:
            yield Skipped(entry.location, str(error))
