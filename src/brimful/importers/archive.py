"""A zip archive as a folder of files. Nothing of it is unpacked to the disk, and none of its files is held whole.

An archive that is made to do harm is refused as a whole, before anything is read of it: one that would swell beyond all
measure, or that has names which lead elsewhere.
"""

import calendar
import zipfile
from pathlib import PurePosixPath, PureWindowsPath
from typing import BinaryIO, Final, cast

from brimful.errors import DamagedFile
from brimful.importers.opening import Opened

MAGIC: Final = (b"PK\x03\x04", b"PK\x05\x06")  # files, or none
MOST_FILES: Final = 1_000_000
SWELLING: Final = 250  # times its size: chats shrink to a twentieth, and deflate can do no more than 1,032
HARMLESS: Final = 64 * 2**20  # bytes that swell as they like
_ENCRYPTED: Final = 0x1  # a bit of an entry's flags


class Archive:
    """The files of a zip archive."""

    def __init__(self, name: str, opened: Opened) -> None:
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
            _refuse_harm(name, list(self._files.values()), opened.stored)
        except DamagedFile:
            opened.stream.close()
            raise
        self._file = opened.stream
        self.names = tuple(sorted(self._files))

    def open(self, name: str) -> Opened:
        """Open a file in it."""
        entry = self._files[name]
        if entry.flag_bits & _ENCRYPTED:
            raise DamagedFile(f"{self.name}/{name}", "is encrypted: unpack the archive first")
        stream = cast("BinaryIO", self._zip.open(entry))
        return Opened(stream, entry.file_size, self._time(entry), entry.compress_size)

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


def _refuse_harm(name: str, files: list[zipfile.ZipInfo], size: int) -> None:
    if len(files) > MOST_FILES:
        raise DamagedFile(name, f"holds {len(files):,} files, and more than {MOST_FILES:,} are not read")
    strange = next((entry.filename for entry in files if _leads_elsewhere(entry.filename)), None)
    if strange is not None:
        raise DamagedFile(name, f"holds a file whose name leads out of it ({strange!r}): nothing of it was read")
    swollen = sum(entry.file_size for entry in files)
    worst = max(
        (entry.file_size / max(1, entry.compress_size) for entry in files if entry.file_size > HARMLESS), default=0
    )
    if worst > SWELLING or (swollen > HARMLESS and swollen > SWELLING * size):
        raise DamagedFile(
            name, f"would swell from {size:,} to {swollen:,} bytes, as only a zip bomb does: nothing of it was read"
        )


def _leads_elsewhere(name: str) -> bool:
    """Say whether a name is absolute or climbs out of its folder, on any system."""
    posix, windows = PurePosixPath(name), PureWindowsPath(name)
    return posix.is_absolute() or bool(windows.drive or windows.root) or ".." in (*posix.parts, *windows.parts)
