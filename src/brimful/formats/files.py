"""Open what is to be imported: files, standard input, pipes, directories, zip archives and gzip files.

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

from brimful.core.content import clean_text
from brimful.core.decode import decode_json
from brimful.errors import BrimfulError, DamagedFile
from brimful.formats.json_stream import CHUNK_BYTES

STDIN: Final = "-"


class OpenFile(msgspec.Struct, frozen=True):
    """A file that is open, its size, its time, and how many bytes it takes where it lies."""

    stream: BinaryIO
    size: int
    modified: float
    stored: int


Opener = Callable[[str], OpenFile]
"""Opens a file by its path."""


class Spool:
    """Opens files, and holds a copy of what can be read only once, so that it can be opened again."""

    def __init__(self) -> None:
        """Begin with nothing."""
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
        """Let go of the copies."""
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
    """Say whether something can be read only once: standard input, a pipe, a device."""
    here = Path(path)
    return path == STDIN or (here.exists() and not here.is_file() and not here.is_dir())


def _spool(stream: BinaryIO | None) -> OpenFile:
    """Copy what can be read only once."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the source
    if stream is not None:
        shutil.copyfileobj(stream, file)
    size = file.tell()
    file.seek(0)
    return OpenFile(cast("BinaryIO", file), size, time.time(), size)


T = TypeVar("T")

MAX_SIBLING_BYTES: Final = 64 * 2**20  # bytes of a file that is read whole because another one needs it
READ_ERRORS: Final = (OSError, EOFError, ValueError, RuntimeError, BadZipFile, zlib.error, BrimfulError)
"""What opening and reading a damaged file may raise; zipfile says with RuntimeError that a file is encrypted."""


class Folder(Protocol):
    """What holds files."""

    @property
    def name(self) -> str:
        """What it is called in places and reports."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all files in it, with `/` between folders, in order."""
        ...

    def open(self, name: str) -> OpenFile:
        """Open one of them."""
        ...

    def stored(self, name: str) -> int:
        """Return how many bytes one of them takes on the disk."""
        ...


class Directory:
    """A folder on the disk. Links to folders or out of it are not followed: there is an end to it, and a limit."""

    def __init__(self, path: str) -> None:
        """Name it."""
        self.name = Path(clean_text(path)).as_posix()
        self._path = path

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of all files in it, in order."""
        return tuple(sorted(name for name in self._all if name not in self.links and self._at(name).is_file()))

    @cached_property
    def links(self) -> frozenset[str]:
        """The names of links to folders, out of this one, or to nothing."""
        home = Path(self._path).resolve()
        return frozenset(name for name in self._all if self._at(name).is_symlink() and not self._is_in(name, home))

    @cached_property
    def _all(self) -> list[str]:
        """All that lies in it, at whatever depth, and is no folder of its own."""
        found = []
        for place, folders, files in os.walk(self._path):
            linked = [folder for folder in folders if (Path(place) / folder).is_symlink()]
            found += [(Path(place) / file).relative_to(self._path).as_posix() for file in (*files, *linked)]
        return found

    def _at(self, name: str) -> Path:
        return Path(self._path) / name

    def _is_in(self, name: str, home: Path) -> bool:
        try:
            target = self._at(name).resolve()
        except (OSError, RuntimeError):  # a circle of links
            return False
        return target.is_file() and target.is_relative_to(home)

    def open(self, name: str) -> OpenFile:
        """Open a file in it."""
        return open_file(str(self._at(name)))

    def stored(self, name: str) -> int:
        """Return how many bytes a file in it takes; 0 if it has gone."""
        try:
            return self._at(name).stat().st_size
        except OSError:
            return 0


class Siblings:
    """The other files of a folder, as one of them may ask for them. None leads out of the folder."""

    def __init__(self, folder: Folder) -> None:
        """Look into this folder."""
        self.folder = folder
        self._names = frozenset(folder.names)
        self._by_end = sorted((PurePosixPath(name).name, name) for name in folder.names)
        self._data: dict[str, Any] = {}
        self._made: dict[str, Any] = {}

    def json(self, beside: str, name: str) -> Any:
        """Return the JSON of the file that lies so to another; None if there is none that can be read. It is kept."""
        wanted = normpath(str(PurePosixPath(beside).parent / name))
        if wanted not in self._data:
            try:
                self._data[wanted] = decode_json(self.read(wanted) or b"null")
            except ValueError:
                self._data[wanted] = None
        return self._data[wanted]

    def has(self, beside: str, name: str) -> bool:
        """Say whether there is a file that lies so to another."""
        return normpath(str(PurePosixPath(beside).parent / name)) in self._names

    def inside(self, beside: str, name: str) -> list[str]:
        """Return the names of files in the folder that lies so to a file, as they are named from it."""
        wanted = PurePosixPath(normpath(str(PurePosixPath(beside).parent / name)))
        return [f"{name}/{end}" for end, whole in self._by_end if PurePosixPath(whole).parent == wanted]

    def once(self, what: str, make: Callable[[], T]) -> T:
        """Return what is made of the folder, made once."""
        if what not in self._made:
            self._made[what] = make()
        made: T = self._made[what]
        return made

    def starting(self, start: str) -> str | None:
        """Return the first file whose name, without its folders, begins so."""
        at = bisect_left(self._by_end, (start, ""))
        found = self._by_end[at] if at < len(self._by_end) else ("", "")
        return found[1] if start and found[0].startswith(start) else None

    def read(self, name: str, most: int = MAX_SIBLING_BYTES) -> bytes | None:
        """Return a file as it is; None if it is not there, cannot be read, or is longer than `most` bytes."""
        if name not in self._names:
            return None
        try:
            opened = self.folder.open(name)
            with opened.stream as stream:
                data = stream.read(most + 1)
        except READ_ERRORS:
            return None
        return data if len(data) <= most else None


ZIP_MAGIC: Final = (b"PK\x03\x04", b"PK\x05\x06")  # files, or none
MAX_ARCHIVE_FILES: Final = 1_000_000
MAX_COMPRESSION_RATIO: Final = 250  # times its size: chats shrink to a twentieth, and deflate can do no more than 1,032
ZIP_UNCHECKED_BYTES: Final = 64 * 2**20  # bytes that swell as they like
_ENCRYPTED: Final = 0x1  # a bit of an entry's flags


class Archive:
    """The files of a zip archive."""

    def __init__(self, name: str, opened: OpenFile) -> None:
        """Read its directory, and refuse what is damaged or hostile."""
        self.name = name
        self._modified = opened.modified
        try:
            self._zip = zipfile.ZipFile(opened.stream)
        except (zipfile.BadZipFile, EOFError, ValueError, OSError, NotImplementedError, UnicodeDecodeError) as error:
            opened.stream.close()
            raise DamagedFile(name, f"is a damaged archive ({error}): nothing of it was read") from None
        self._files = {entry.filename: entry for entry in self._zip.infolist() if not entry.is_dir()}
        try:
            _reject_hostile(name, list(self._files.values()), opened.stored)
        except DamagedFile:
            opened.stream.close()
            raise
        self._file = opened.stream
        self.names = tuple(sorted(self._files))

    def open(self, name: str) -> OpenFile:
        """Open a file in it."""
        entry = self._files[name]
        if entry.flag_bits & _ENCRYPTED:
            raise DamagedFile(f"{self.name}/{name}", "is encrypted: unpack the archive first")
        stream = cast("BinaryIO", self._zip.open(entry))
        return OpenFile(stream, entry.file_size, self._time(entry), entry.compress_size)

    def stored(self, name: str) -> int:
        """Return how many bytes a file in it takes."""
        return self._files[name].compress_size

    def close(self) -> None:
        """Close the archive."""
        self._zip.close()
        self._file.close()

    def _time(self, entry: zipfile.ZipInfo) -> float:
        """Return when a file was written, as far as the archive tells: it knows no zone, and no time before 1980."""
        try:
            return float(calendar.timegm((*entry.date_time, 0, 0, 0)))
        except (ValueError, OverflowError):
            return self._modified


def _reject_hostile(name: str, files: list[zipfile.ZipInfo], size: int) -> None:
    if len(files) > MAX_ARCHIVE_FILES:
        raise DamagedFile(name, f"holds {len(files):,} files, and more than {MAX_ARCHIVE_FILES:,} are not read")
    strange = next((entry.filename for entry in files if _escapes_archive(entry.filename)), None)
    if strange is not None:
        raise DamagedFile(name, f"holds a file whose name leads out of it ({strange!r}): nothing of it was read")
    swollen = sum(entry.file_size for entry in files)
    worst = max(
        (entry.file_size / max(1, entry.compress_size) for entry in files if entry.file_size > ZIP_UNCHECKED_BYTES),
        default=0,
    )
    if worst > MAX_COMPRESSION_RATIO or (swollen > ZIP_UNCHECKED_BYTES and swollen > MAX_COMPRESSION_RATIO * size):
        raise DamagedFile(
            name, f"would swell from {size:,} to {swollen:,} bytes, as only a zip bomb does: nothing of it was read"
        )


def _escapes_archive(name: str) -> bool:
    """Say whether a name is absolute or climbs out of its folder, on any system."""
    posix, windows = PurePosixPath(name), PureWindowsPath(name)
    return posix.is_absolute() or bool(windows.drive or windows.root) or ".." in (*posix.parts, *windows.parts)


GZIP_UNCHECKED_BYTES: Final = 8 * 2**20  # bytes that may swell as they like: reading more, line by line, takes long
_GZIP_MAGIC: Final = b"\x1f\x8b"


def decompress(file: BinaryIO) -> BinaryIO:
    """Return what a file holds: as it is, or inflated if it is compressed."""
    magic = file.read(len(_GZIP_MAGIC))
    file.seek(0)
    return cast("BinaryIO", io.BufferedReader(_GzipStream(file), CHUNK_BYTES)) if magic == _GZIP_MAGIC else file


class _GzipStream(io.RawIOBase):
    """Measures each block that is inflated."""

    def __init__(self, packed: BinaryIO) -> None:
        self._packed = packed
        self._inflated = gzip.GzipFile(fileobj=packed)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._inflated.seek(offset, whence)

    def tell(self) -> int:
        return self._inflated.tell()

    def readinto(self, buffer: Any) -> int:
        data = self._inflated.read1(len(buffer))  # what stands before damage is given first
        buffer[: len(data)] = data
        if self.tell() > GZIP_UNCHECKED_BYTES and self.tell() > MAX_COMPRESSION_RATIO * max(1, self._packed.tell()):
            raise OSError(f"it swells to more than {MAX_COMPRESSION_RATIO} times its size, as only a bomb does")
        return len(data)
