"""Open the sources of an import: files, standard input, pipes, directories, zip archives and gzip files.

Nothing is unpacked to disk, and no file is held in memory whole. Zip and gzip bombs, and archives whose names lead
outside of them, are rejected before anything is read.
"""

import calendar
import gzip
import io
import os
import shutil
import sys
import tempfile
import time
import zipfile
import zlib
from bisect import bisect_left
from collections.abc import Callable
from functools import cached_property
from pathlib import Path, PurePosixPath, PureWindowsPath
from posixpath import normpath
from typing import Any, BinaryIO, Final, Protocol, TypeVar, cast
from zipfile import BadZipFile

import msgspec

from brimful.core.validation import clean_text, decode_json
from brimful.errors import BrimfulError, DamagedFile
from brimful.formats.json_stream import CHUNK_BYTES

STDIN: Final = "-"
T = TypeVar("T")

READ_ERRORS: Final = (OSError, EOFError, ValueError, RuntimeError, BadZipFile, zlib.error, BrimfulError)
"""What opening and reading a damaged file may raise; zipfile raises RuntimeError for an encrypted one."""
ZIP_MAGIC: Final = (b"PK\x03\x04", b"PK\x05\x06")  # with files, or empty
_GZIP_MAGIC: Final = b"\x1f\x8b"
_ENCRYPTED: Final = 0x1  # a bit of an archive entry's flags


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits that protect an import from broken and hostile files."""

    piece_bytes: int = 64 * 2**20  # of a line, an array element, an object, or a PNG text: a few large images
    sibling_bytes: int = 64 * 2**20  # of a file that is read whole because another one refers to it
    outline_bytes: int = 64 * 2**20  # read to detect a format: no string in a piece is longer
    archive_files: int = 1_000_000
    compression_ratio: int = 250  # chats compress to a twentieth; deflate reaches 1,032 at most
    unchecked_zip_bytes: int = 64 * 2**20  # decompressed bytes below which the ratio does not matter
    unchecked_gzip_bytes: int = 8 * 2**20  # … of a gzip file: reading more, line by line, takes long
    png_chunks: int = 100_000  # an image has a few hundred


DEFAULT_LIMITS: Final = Limits()


class OpenFile(msgspec.Struct, frozen=True):
    """An open file. `stored` is its size on disk, which is smaller than `size` within an archive."""

    stream: BinaryIO
    size: int  # bytes
    modified: float
    stored: int  # bytes


Opener = Callable[[str], OpenFile]
"""Opens a file by its path."""


class Spool:
    """Opens files. A file that can be read only once is copied, so that it can be opened again."""

    def __init__(self) -> None:
        self._copies: dict[str, OpenFile] = {}

    def open(self, path: str) -> OpenFile:
        """Open a file by its path; `-` is standard input."""
        if path not in self._copies and not _is_readable_once(path):
            return open_file(path)
        if path not in self._copies:
            self._copies[path] = open_file(path)
        copy = self._copies[path]
        stream = os.fdopen(os.dup(copy.stream.fileno()), "rb")
        stream.seek(0)
        return msgspec.structs.replace(copy, stream=stream)

    def close(self) -> None:
        """Delete the copies."""
        for copy in self._copies.values():
            copy.stream.close()


def open_file(path: str) -> OpenFile:
    """Open a file by its path; `-` is standard input."""
    if path == STDIN:
        return _spool(sys.stdin.buffer if sys.stdin else None)
    if _is_readable_once(path):
        with Path(path).open("rb") as pipe:
            return _spool(pipe)
    file = Path(path).open("rb")  # noqa: SIM115 - closed with the source
    stat = Path(path).stat()
    return OpenFile(file, stat.st_size, stat.st_mtime, stat.st_size)


def _is_readable_once(path: str) -> bool:
    """Return whether a path is standard input, a pipe or a device."""
    file = Path(path)
    return path == STDIN or (file.exists() and not file.is_file() and not file.is_dir())


def _spool(stream: BinaryIO | None) -> OpenFile:
    """Copy a stream to a temporary file."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the source
    if stream is not None:
        shutil.copyfileobj(stream, file)
    size = file.tell()
    file.seek(0)
    return OpenFile(cast("BinaryIO", file), size, time.time(), size)


class Folder(Protocol):
    """A directory or an archive."""

    @property
    def name(self) -> str:
        """Its name in reports."""

    @property
    def names(self) -> tuple[str, ...]:
        """The paths of all files in it, relative and with `/`, in order."""

    def open(self, name: str) -> OpenFile: ...

    def stored_size(self, name: str) -> int:
        """Return the bytes that a file takes on disk."""


class Directory:
    """A folder on disk. Links to folders, or out of the folder, are not followed."""

    def __init__(self, path: str) -> None:
        self.name = Path(clean_text(path)).as_posix()
        self._path = path

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(name for name in self._all_names if name not in self.links and self._at(name).is_file()))

    @cached_property
    def links(self) -> frozenset[str]:
        """The paths of links that lead to a folder, out of this one, or nowhere."""
        root = Path(self._path).resolve()
        links = (name for name in self._all_names if self._at(name).is_symlink())
        return frozenset(name for name in links if not self._is_within(name, root))

    @cached_property
    def _all_names(self) -> list[str]:
        """The paths of all files and links in it, at any depth."""
        names = []
        for parent, folders, files in os.walk(self._path):
            links = [folder for folder in folders if (Path(parent) / folder).is_symlink()]
            names += [(Path(parent) / file).relative_to(self._path).as_posix() for file in (*files, *links)]
        return names

    def _at(self, name: str) -> Path:
        return Path(self._path) / name

    def _is_within(self, name: str, root: Path) -> bool:
        try:
            target = self._at(name).resolve()
        except (OSError, RuntimeError):  # links that form a cycle
            return False
        return target.is_file() and target.is_relative_to(root)

    def open(self, name: str) -> OpenFile:
        return open_file(str(self._at(name)))

    def stored_size(self, name: str) -> int:
        """Return the size of a file in bytes; 0 if it is gone."""
        try:
            return self._at(name).stat().st_size
        except OSError:
            return 0


class Siblings:
    """The other files of a folder, which a file may refer to by relative paths. None leads out of the folder."""

    def __init__(self, folder: Folder, limits: Limits = DEFAULT_LIMITS) -> None:
        self.folder = folder
        self._limits = limits
        self._names = frozenset(folder.names)
        self._by_file_name = sorted((PurePosixPath(name).name, name) for name in folder.names)
        self._json: dict[str, Any] = {}
        self._cache: dict[str, Any] = {}

    def json(self, file: str, path: str) -> Any:
        """Return the JSON at a path relative to a file, cached; None if there is none that can be read."""
        name = _resolve(file, path)
        if name not in self._json:
            try:
                self._json[name] = decode_json(self.read(name, self._limits.sibling_bytes) or b"null")
            except ValueError:
                self._json[name] = None
        return self._json[name]

    def read_relative(self, file: str, path: str) -> bytes | None:
        """Return the file at a path relative to another file; None if there is none, or it is too long."""
        return self.read(_resolve(file, path), self._limits.sibling_bytes)

    def has(self, file: str, path: str) -> bool:
        """Return whether there is a file at a path relative to another file."""
        return _resolve(file, path) in self._names

    def list_folder(self, file: str, path: str) -> list[str]:
        """Return the files in a folder, which is given relative to a file, as their paths relative to that file."""
        folder = PurePosixPath(_resolve(file, path))
        return [f"{path}/{end}" for end, name in self._by_file_name if PurePosixPath(name).parent == folder]

    def once(self, key: str, make: Callable[[], T]) -> T:
        """Return a value that is made once for the folder."""
        if key not in self._cache:
            self._cache[key] = make()
        value: T = self._cache[key]
        return value

    def find_prefix(self, prefix: str) -> str | None:
        """Return the first file, in any folder, whose name starts with a prefix."""
        index = bisect_left(self._by_file_name, (prefix, ""))
        file_name, name = self._by_file_name[index] if index < len(self._by_file_name) else ("", "")
        return name if prefix and file_name.startswith(prefix) else None

    def read(self, name: str, max_bytes: int) -> bytes | None:
        """Return the content of a file; None if it is missing, unreadable, or longer than `max_bytes`."""
        if name not in self._names:
            return None
        try:
            opened = self.folder.open(name)
            with opened.stream as stream:
                data = stream.read(max_bytes + 1)
        except READ_ERRORS:
            return None
        return data if len(data) <= max_bytes else None


def _resolve(file: str, path: str) -> str:
    return normpath(str(PurePosixPath(file).parent / path))


class Archive:
    """The files of a zip archive. One that is damaged or hostile raises `DamagedFile`."""

    def __init__(self, name: str, opened: OpenFile, limits: Limits = DEFAULT_LIMITS) -> None:
        self.name = name
        self._modified = opened.modified
        try:
            self._zip = zipfile.ZipFile(opened.stream)
        except (zipfile.BadZipFile, EOFError, ValueError, OSError, NotImplementedError, UnicodeDecodeError) as error:
            opened.stream.close()
            raise DamagedFile(name, f"is a damaged archive ({error}); nothing was read from it") from None
        self._files = {entry.filename: entry for entry in self._zip.infolist() if not entry.is_dir()}
        try:
            _reject_hostile(name, list(self._files.values()), opened.stored, limits)
        except DamagedFile:
            opened.stream.close()
            raise
        self._file = opened.stream
        self.names = tuple(sorted(self._files))

    def open(self, name: str) -> OpenFile:
        entry = self._files[name]
        if entry.flag_bits & _ENCRYPTED:
            raise DamagedFile(f"{self.name}/{name}", "is encrypted: unpack the archive first")
        stream = cast("BinaryIO", self._zip.open(entry))
        return OpenFile(stream, entry.file_size, self._time(entry), entry.compress_size)

    def stored_size(self, name: str) -> int:
        """Return the compressed size of a file in bytes."""
        return self._files[name].compress_size

    def close(self) -> None:
        self._zip.close()
        self._file.close()

    def _time(self, entry: zipfile.ZipInfo) -> float:
        """Return when a file was modified. Archives store no time zone, and no time before 1980."""
        try:
            return float(calendar.timegm((*entry.date_time, 0, 0, 0)))
        except (ValueError, OverflowError):
            return self._modified


def _reject_hostile(name: str, files: list[zipfile.ZipInfo], size: int, limits: Limits) -> None:
    if len(files) > limits.archive_files:
        raise DamagedFile(name, f"contains {len(files):,} files; the limit is {limits.archive_files:,}")
    outside = next((entry.filename for entry in files if _escapes_archive(entry.filename)), None)
    if outside is not None:
        raise DamagedFile(name, f"contains a name that leads out of it ({outside!r}); nothing was read from it")
    total = sum(entry.file_size for entry in files)
    large = [entry for entry in files if entry.file_size > limits.unchecked_zip_bytes]
    ratio = max((entry.file_size / max(1, entry.compress_size) for entry in large), default=0)
    if ratio > limits.compression_ratio or (
        total > limits.unchecked_zip_bytes and total > limits.compression_ratio * size
    ):
        raise DamagedFile(
            name, f"would expand from {size:,} to {total:,} bytes, like a zip bomb; nothing was read from it"
        )


def _escapes_archive(name: str) -> bool:
    """Return whether a name is absolute or leads out of its folder, on any system."""
    posix, windows = PurePosixPath(name), PureWindowsPath(name)
    return posix.is_absolute() or bool(windows.drive or windows.root) or ".." in (*posix.parts, *windows.parts)


def decompress(file: BinaryIO, limits: Limits = DEFAULT_LIMITS) -> BinaryIO:
    """Return a stream of a file's content, decompressed if the file is gzip."""
    magic = file.read(len(_GZIP_MAGIC))
    file.seek(0)
    return cast("BinaryIO", io.BufferedReader(_GzipStream(file, limits), CHUNK_BYTES)) if magic == _GZIP_MAGIC else file


class _GzipStream(io.RawIOBase):
    """A gzip file that is decompressed while it is read; it raises OSError as soon as it looks like a bomb."""

    def __init__(self, file: BinaryIO, limits: Limits) -> None:
        self._file = file
        self._limits = limits
        self._content = gzip.GzipFile(fileobj=file)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._content.seek(offset, whence)

    def tell(self) -> int:
        return self._content.tell()

    def readinto(self, buffer: Any) -> int:
        data = self._content.read1(len(buffer))  # what comes before damage is read first
        buffer[: len(data)] = data
        ratio, size = self._limits.compression_ratio, self.tell()
        if size > self._limits.unchecked_gzip_bytes and size > ratio * max(1, self._file.tell()):
            raise OSError(f"it expands to more than {ratio} times its size, like a gzip bomb")
        return len(data)
