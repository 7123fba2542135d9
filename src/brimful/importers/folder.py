"""Files that belong together: those of a folder, or of an archive. What one of them says may explain another."""

import os
from bisect import bisect_left
from collections.abc import Callable
from functools import cached_property
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import Any, Final, Protocol, TypeVar

from brimful.core.content import clean_text
from brimful.core.lenient import decode_json
from brimful.errors import BrimfulError
from brimful.importers.opening import Opened, open_path

T = TypeVar("T")

MOST_BESIDE: Final = 64 * 2**20  # bytes of a file that is read whole because another one needs it
UNREADABLE: Final = (OSError, EOFError, ValueError, RuntimeError, BrimfulError)
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
    """A folder on the disk. Links to folders are not followed, so there is an end to it."""

    def __init__(self, path: str) -> None:
        """Name it."""
        self.name = Path(clean_text(path)).as_posix()
        self._path = path

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of all files in it, in order."""
        found = []
        for place, folders, files in os.walk(self._path):
            folders.sort()
            found += [
                os.path.relpath(Path(place) / file, self._path) for file in files if (Path(place) / file).is_file()
            ]
        return tuple(sorted(Path(name).as_posix() for name in found))

    def open(self, name: str) -> Opened:
        """Open a file in it."""
        return open_path(str(Path(self._path) / name))

    def stored(self, name: str) -> int:
        """Return how many bytes a file in it takes; 0 if it has gone."""
        try:
            return (Path(self._path) / name).stat().st_size
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
