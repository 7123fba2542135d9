"""All files of what a user names: a file, a folder with all that lies in it, or an archive. One is open at a time."""

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Final, Self

from brimful.core.content import clean_text
from brimful.errors import DamagedFile, InvalidValue
from brimful.importers.archive import MAGIC, Archive
from brimful.importers.folder import Companions, Directory, Folder
from brimful.importers.importer import Imported, Importer
from brimful.importers.opening import STDIN, Spool, open_path
from brimful.importers.passed_by import is_attached, says_nothing
from brimful.importers.registry import OURS, importer_for, is_called_json, usable_importers
from brimful.importers.source import Skipped, Source

COPIES: Final = frozenset({"backups", "thumbnails", "__MACOSX", ".git"})
"""Folders whose files are copies of others, or tell nothing: SillyTavern keeps old chats in `backups`."""
NESTED: Final = "is an archive within an archive: unpack it first"
LINKED: Final = "is a link that leads elsewhere: name what it leads to"
COPIED: Final = "lies in a folder of copies"
SETTINGS: Final = frozenset({"OpenAI Settings", "TextGen Settings", "KoboldAI Settings", "NovelAI Settings"})
"""Folders in which SillyTavern keeps how models are asked: their prompts have roles, and nobody said them."""
SET: Final = "lies in a folder of SillyTavern's settings for models"

_ARCHIVES: Final = (".zip", ".charx")


class Walk:
    """Goes through what a user names, file by file, and knows how far it has come."""

    def __init__(self, paths: Sequence[str], *, room: str | None = None, format: str | None = None) -> None:
        """Go through these paths; messages that name no room go into `room`. All files are of the `format`, if any."""
        self._paths = paths
        self._room = room
        self._format = format
        self._spool = Spool()
        self._behind = 0
        self._here: Source | None = None

    def __enter__(self) -> Self:
        """Use it: what can be read only once, as standard input, is held until the end, and can be read again."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go of what is held."""
        self._spool.close()

    @property
    def total(self) -> int:
        """How many bytes there are to read, as they lie on the disk."""
        return sum(map(_size, self._paths))

    @property
    def done(self) -> int:
        """How many of them were read."""
        return self._behind + (self._here.position if self._here else 0)

    @property
    def place(self) -> str:
        """Where it stands what was yielded last; empty before the first file and after the last."""
        return self._here.place if self._here else ""

    @property
    def file(self) -> str:
        """The name of the file that is read; empty between two."""
        return self._here.name if self._here else ""

    def records(self) -> Iterator[Imported | Skipped]:
        """Yield all that the files hold, from the beginning."""
        self._behind = 0
        among: Sequence[Importer] | None = None
        for source in self.sources():
            if isinstance(source, Skipped):
                yield source
                continue
            if among is None:
                try:
                    among, broken = usable_importers(self._format)
                except InvalidValue as error:
                    yield Skipped.of(error)
                    continue
                yield from broken
            yield from self._read(source, among)

    def _read(self, source: Source, among: Sequence[Importer]) -> Iterator[Imported | Skipped]:
        try:
            importer = importer_for(source, self._format, among=among)
        except InvalidValue as error:
            yield from source.unreadable() if says_nothing(source) else [_unknown(source, error)]
            return
        if importer in OURS:
            yield from source.unreadable() if is_attached(source) else importer.read(source)
        else:
            yield from _read_guarded(importer, source)

    def sources(self) -> Iterator[Source | Skipped]:
        """Yield each file, open until the next one is asked for, or why it is passed over."""
        for path in self._paths:
            if path != STDIN and Path(path).is_dir():
                yield from self._within(Directory(path))
            elif path != STDIN and Path(path).is_file() and _is_archive(path):
                yield from self._unpacked(path)
            else:
                yield from self._opened(path, None, _size(path))

    def _within(self, folder: Folder) -> Iterator[Source | Skipped]:
        companions = Companions(folder)
        if isinstance(folder, Directory):
            yield from (Skipped(f"{folder.name}/{name}", LINKED) for name in folder.links)
        for name in folder.names:
            place = f"{folder.name}/{name}"
            folders = PurePosixPath(name).parts[:-1]
            if COPIES.intersection(folders) or SETTINGS.intersection(folders):
                yield Skipped(place, COPIED if COPIES.intersection(folders) else SET)
            elif isinstance(folder, Directory) and _is_archive(place):
                yield from self._unpacked(place)
            elif not isinstance(folder, Directory) and name.lower().endswith(_ARCHIVES):
                yield Skipped(place, NESTED)
            else:
                yield from self._opened(name, companions, folder.stored(name))

    def _unpacked(self, path: str) -> Iterator[Source | Skipped]:
        name = Path(clean_text(path)).as_posix()
        try:
            archive = Archive(name, open_path(path))
        except InvalidValue as error:
            yield Skipped.of(error)
            return
        except OSError as error:
            yield Skipped(name, f"cannot be read: {error.strerror}", damaged=True)
            return
        try:
            yield from self._within(archive)
        finally:
            archive.close()

    def _opened(self, path: str, within: Companions | None, size: int) -> Iterator[Source | Skipped]:
        try:
            with Source(path, room=self._room, within=within, open=self._spool.open) as source:
                self._here = source
                yield source
        except InvalidValue as error:
            yield Skipped.of(error)
        self._here = None
        self._behind += size


def _unknown(source: Source, error: InvalidValue) -> Skipped:
    """Say why a file is not read. One that is called JSON and is none was damaged before its format shows."""
    if not isinstance(error, DamagedFile) and source.head.strip() and is_called_json(source):
        damage = next((entry for entry in source.entries() if isinstance(entry, Skipped)), None)
        return damage or Skipped.of(error)
    return Skipped.of(error)


def _read_guarded(importer: Importer, source: Source) -> Iterator[Imported | Skipped]:
    """Read with an importer of another package. If it fails, it costs this file, and not all that follow."""
    try:
        yield from importer.read(source)
    except Exception as error:  # noqa: BLE001 - code of others, of which nothing is sure
        reason = f"the importer {importer.name!r} failed ({type(error).__name__}: {error})"
        yield Skipped(source.name, reason, damaged=True)


def _is_archive(path: str) -> bool:
    try:
        with Path(path).open("rb") as file:
            return file.read(4) in MAGIC
    except OSError:
        return False


def _size(path: str) -> int:
    here = Path(path)
    if path == STDIN or not here.exists():
        return 0
    if here.is_dir():
        folder = Directory(path)
        return sum(folder.stored(name) for name in folder.names)
    return here.stat().st_size
