"""The file of a backup. It takes its place when it is whole; until then, what stood there stays."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from brimful.errors import InvalidValue

_BESIDE: Final = ("-wal", "-shm", "-journal")  # SQLite's own files beside a database, found by name


def begin(path: Path, store: str) -> Path:
    """Return where to write a backup first; the file of the store that is copied, if it is one, is not touched."""
    part = Path(f"{path}.part")
    if store and any(_is_same(each, Path(store)) for each in (path, part)):
        raise InvalidValue("path", f"{path} is the store itself; write the copy to another file")
    give_up(part)
    return part


def finish(part: Path, path: Path) -> None:
    """Let a backup take its place. It keeps no log beside it until it is opened as a store: it can be read anywhere.

    The copy that stood there may have been opened, and left by a process that was killed. What is in its log then would
    be taken for the newest pages of the new one.
    """
    with closing(sqlite3.connect(part)) as copy:
        copy.execute("PRAGMA journal_mode = DELETE")
    _clear(path)
    part.replace(path)


def address(path: Path) -> str:
    """Return the address by which SQLite reads a backup and writes nothing, not even beside it, if it need not."""
    alone = not Path(f"{path}{_BESIDE[0]}").exists()
    return f"{path.resolve().as_uri()}?mode=ro{'&immutable=1' if alone else ''}"


def give_up(part: Path) -> None:
    """Leave nothing of a backup that did not become whole: where the disk is full, it is the last that should stay."""
    part.unlink(missing_ok=True)
    _clear(part)


def _clear(path: Path) -> None:
    for ending in _BESIDE:
        Path(f"{path}{ending}").unlink(missing_ok=True)


def _is_same(path: Path, store: Path) -> bool:
    return path.exists() and store.exists() and path.samefile(store)
