"""The data of plugins: one store for all programs, and a log of each session.

A log is a file of JSON lines to which every hook appends, so that hooks that run at once lose nothing, and the status
line can read it without opening the store.
"""

import hashlib
import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from brimful.private_files import create_private

FOLDER_VARIABLE: Final = "BRIMFUL_DATA"
"""Environment variable with the folder of the plugins' data."""
STORE: Final = "plugins.db"
_ERRORS: Final = "hooks.log"
_MAX_ERRORS: Final = 1_000_000  # bytes of the log of errors, which then begins anew
_OWNER_ONLY: Final = 0o700
_MAX_NAME: Final = 80  # characters of a session's id that are part of a file name
_UNSAFE: Final = re.compile(r"[^\w-]+", re.ASCII)


def data_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the plugins' data, by the conventions of the system.

    >>> data_folder({"BRIMFUL_DATA": "/srv/brimful"}).as_posix()
    '/srv/brimful'
    >>> data_folder({"XDG_DATA_HOME": "/home/ada/data"}).as_posix()
    '/home/ada/data/brimful'
    """
    if chosen := environ.get(FOLDER_VARIABLE):
        return Path(chosen)
    system = "LOCALAPPDATA" if sys.platform == "win32" else "XDG_DATA_HOME"
    base = environ.get(system)
    return (Path(base) if base else Path.home() / ".local" / "share") / "brimful"


def store_url(folder: Path) -> str:
    """Return the URL of the plugins' store. Creates the folder, so that the store can be created in it."""
    _make_folder(folder)
    return f"sqlite:///{folder / STORE}"


def report_error(folder: Path, line: str) -> None:
    """Append a line to the log of errors."""
    _make_folder(folder)
    path = folder / _ERRORS
    if path.exists() and path.stat().st_size > _MAX_ERRORS:
        path.unlink()
    _append(path, " ".join(line.split()))


class SessionLog:
    """What the hooks of one session noted: prompts, shortened results, memories that were added, compactions."""

    def __init__(self, folder: Path, program: str, session: str) -> None:
        self.room = f"{program}/{session}"
        self._folder = folder
        self._path = folder / "sessions" / f"{file_name(self.room)}.jsonl"
        self._entries: list[dict[str, Any]] | None = None

    @property
    def entries(self) -> list[dict[str, Any]]:
        """All entries, oldest first. Lines that cannot be read are skipped: a hook may have been killed."""
        if self._entries is None:
            lines = self._path.read_bytes().splitlines() if self._path.exists() else []
            self._entries = [entry for line in lines if isinstance(entry := _read_line(line), dict)]
        return self._entries

    def add(self, **entry: Any) -> None:
        """Append an entry."""
        _make_folder(self._folder)
        _make_folder(self._path.parent)
        _append(self._path, json.dumps(entry))
        self.entries.append(entry)

    def values(self, key: str) -> list[Any]:
        """Return the values of a key, oldest first."""
        return [entry[key] for entry in self.entries if key in entry]

    @property
    def prompts(self) -> list[str]:
        return [prompt for prompt in self.values("prompt") if isinstance(prompt, str)]

    @property
    def memories(self) -> set[str]:
        """The ids of memories that were added since the session began or was compacted."""
        since = max((index for index, entry in enumerate(self.entries) if "started" in entry), default=0)
        return {id for entry in self.entries[since:] for id in entry.get("memories", ())}

    @property
    def results(self) -> list[dict[str, Any]]:
        """The results that were shortened, each with its handle, what it is, its tokens and those that are shown."""
        return [entry for entry in self.entries if "handle" in entry]

    @property
    def saved(self) -> int:
        """The tokens that shortened results are smaller by."""
        return sum(entry["tokens"] - entry["shown"] for entry in self.results)


def file_name(id: str) -> str:
    """Return an id as the name of a file: different for each id, whatever is in it.

    >>> file_name("codex/01a1f15c-3a96")
    'codex_01a1f15c-3a96-f64767'
    """
    digest = hashlib.sha256(id.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{_UNSAFE.sub('_', id)[:_MAX_NAME]}-{digest[:6]}"


def _make_folder(folder: Path) -> None:
    """Create a folder that only its owner can read. What is above it is created as usual."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=_OWNER_ONLY, exist_ok=True)


def _append(path: Path, line: str) -> None:
    create_private(path)
    with path.open("ab") as file:
        file.write(line.encode("utf-8", "replace") + b"\n")


def _read_line(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None
