"""Files that belong together: those of a folder, or of an archive. What one of them says may explain another."""

import os
import zlib
from bisect import bisect_left
from collections.abc import Callable
from functools import cached_property
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import Any, Final, Protocol, TypeVar
from zipfile import BadZipFile

from brimful.core.content import clean_text
from brimful.core.lenient import decode_json
from brimful.errors import BrimfulError
from brimful.importers.opening import Opened, open_path

T = TypeVar("T")

MOST_BESIDE: Final = 64 * 2**20  # bytes of a file that is read whole because another one needs it
UNREADABLE: Final = (OSError, EOFError, ValueError, RuntimeError, BadZipFile, zlib.error, BrimfulError)
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

    def open(self, name: str) -> Opened:
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

    def open(self, name: str) -> Opened:
        """Open a file in it."""
        return open_path(str(self._at(name)))

    def stored(self, name: str) -> int:
        """Return how many bytes a file in it takes; 0 if it has gone."""
        try:
            return self._at(name).stat().st_size
        except OSError:
            return 0


class Companions:
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

    def read(self, name: str, most: int = MOST_BESIDE) -> bytes | None:
        """Return a file as it is; None if it is not there, cannot be read, or is longer than `most` bytes."""
        if name not in self._names:
            return None
        try:
            opened = self.folder.open(name)
            with opened.stream as stream:
                data = stream.read(most + 1)
        except UNREADABLE:
            return None
        return data if len(data) <= most else None
