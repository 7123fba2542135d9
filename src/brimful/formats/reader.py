"""Read all records from files, folders and archives.

`check_files` reads everything once and raises if something is damaged, so that an import is all or nothing. Damage
means that data cannot be read: cut off, invalid JSON or UTF-8, too long, or missing. A record that can be read but is
invalid is skipped and reported instead.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Final, Self

from brimful.core.content import clean_text
from brimful.errors import DamagedFile, ImportRefused, InvalidValue
from brimful.formats.character_card import PNG_SIGNATURE
from brimful.formats.files import STDIN, ZIP_MAGIC, Archive, Directory, Folder, Siblings, Spool, open_file
from brimful.formats.registry import BUILTIN_FORMATS, detect_format, has_json_name, load_formats
from brimful.formats.source import Format, ImportedRecord, Skipped, Source

_EMPTY_JSON: Final = (b"[]", b"{}")
_IMAGE_STARTS: Final = (PNG_SIGNATURE, b"\xff\xd8\xff", b"GIF8", b"RIFF")
_CONVERSATION_FILES: Final = ("conversations.json", "../conversations.json")
_IMAGE_NAME_PREFIXES: Final = ("file-", "file_")
_DALLE_FOLDER: Final = "dalle-generations"


def is_ignorable(source: Source) -> bool:
    """Say whether it is an empty list among other files, as Slack writes many, or a picture that belongs to a chat."""
    return source.is_within and (source.head.strip() in _EMPTY_JSON or is_chat_image(source))


def is_chat_image(source: Source) -> bool:
    """Say whether it is a picture of ChatGPT's export: the message that shows it has brought it."""
    named = source.path.name.startswith(_IMAGE_NAME_PREFIXES) or source.path.parent.name == _DALLE_FOLDER
    return named and source.head.startswith(_IMAGE_STARTS) and any(map(source.has_beside, _CONVERSATION_FILES))


BACKUP_FOLDERS: Final = frozenset({"backups", "thumbnails", "__MACOSX", ".git"})
"""Folders whose files are copies of others, or tell nothing: SillyTavern keeps old chats in `backups`."""
NESTED_ARCHIVE: Final = "is an archive within an archive: unpack it first"
LINK_OUTSIDE: Final = "is a link that leads elsewhere: name what it leads to"
IN_BACKUP_FOLDER: Final = "lies in a folder of copies"
SETTINGS_FOLDERS: Final = frozenset({"OpenAI Settings", "TextGen Settings", "KoboldAI Settings", "NovelAI Settings"})
"""Folders in which SillyTavern keeps how models are asked: their prompts have roles, and nobody said them."""
IN_SETTINGS_FOLDER: Final = "lies in a folder of SillyTavern's settings for models"

_ARCHIVE_SUFFIXES: Final = (".zip", ".charx")


class Reader:
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

    def records(self) -> Iterator[ImportedRecord | Skipped]:
        """Yield all that the files hold, from the beginning."""
        self._behind = 0
        among: Sequence[Format] | None = None
        for source in self.sources():
            if isinstance(source, Skipped):
                yield source
                continue
            if among is None:
                try:
                    among, broken = load_formats(self._format)
                except InvalidValue as error:
                    yield Skipped.of(error)
                    continue
                yield from broken
            yield from self._read(source, among)

    def _read(self, source: Source, among: Sequence[Format]) -> Iterator[ImportedRecord | Skipped]:
        try:
            importer = detect_format(source, self._format, among=among)
        except InvalidValue as error:
            yield from source.unreadable() if is_ignorable(source) else [_explain_unknown(source, error)]
            return
        if importer in BUILTIN_FORMATS:
            yield from source.unreadable() if is_chat_image(source) else importer.read(source)
        else:
            yield from _read_plugin(importer, source)

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
        companions = Siblings(folder)
        if isinstance(folder, Directory):
            yield from (Skipped(f"{folder.name}/{name}", LINK_OUTSIDE) for name in folder.links)
        for name in folder.names:
            place = f"{folder.name}/{name}"
            folders = PurePosixPath(name).parts[:-1]
            if BACKUP_FOLDERS.intersection(folders) or SETTINGS_FOLDERS.intersection(folders):
                yield Skipped(place, IN_BACKUP_FOLDER if BACKUP_FOLDERS.intersection(folders) else IN_SETTINGS_FOLDER)
            elif isinstance(folder, Directory) and _is_archive(place):
                yield from self._unpacked(place)
            elif not isinstance(folder, Directory) and name.lower().endswith(_ARCHIVE_SUFFIXES):
                yield Skipped(place, NESTED_ARCHIVE)
            else:
                yield from self._opened(name, companions, folder.stored(name))

    def _unpacked(self, path: str) -> Iterator[Source | Skipped]:
        name = Path(clean_text(path)).as_posix()
        try:
            archive = Archive(name, open_file(path))
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

    def _opened(self, path: str, within: Siblings | None, size: int) -> Iterator[Source | Skipped]:
        try:
            with Source(path, room=self._room, within=within, open=self._spool.open) as source:
                self._here = source
                yield source
        except InvalidValue as error:
            yield Skipped.of(error)
        self._here = None
        self._behind += size


def _explain_unknown(source: Source, error: InvalidValue) -> Skipped:
    """Say why a file is not read. One that is called JSON and is none was damaged before its format shows."""
    if not isinstance(error, DamagedFile) and source.head.strip() and has_json_name(source):
        damage = next((entry for entry in source.entries() if isinstance(entry, Skipped)), None)
        return damage or Skipped.of(error)
    return Skipped.of(error)


def _read_plugin(importer: Format, source: Source) -> Iterator[ImportedRecord | Skipped]:
    """Read with an importer of another package. If it fails, it costs this file, and not all that follow."""
    try:
        yield from importer.read(source)
    except Exception as error:  # noqa: BLE001 - code of others, of which nothing is sure
        reason = f"the importer {importer.name!r} failed ({type(error).__name__}: {error})"
        yield Skipped(source.name, reason, damaged=True)


def _is_archive(path: str) -> bool:
    try:
        with Path(path).open("rb") as file:
            return file.read(4) in ZIP_MAGIC
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


MAX_NAMED_FILES: Final = 5  # damaged ones that are named
_PROGRESS_STEP: Final = 500  # records between two words about how far it has come


def check_files(walk: Reader, *, told: Callable[[], None] = lambda: None) -> None:
    """Read everything, hold nothing; raise `ImportRefused` if some of it is damaged."""
    damage = DamageReport(walk)
    for at, _ in enumerate(damage.noted()):
        if at % _PROGRESS_STEP == 0:
            told()
    damage.refuse()


class DamageReport:
    """What is damaged of the files that are gone through."""

    def __init__(self, walk: Reader) -> None:
        """Go through these."""
        self._walk = walk
        self._first: list[DamagedFile] = []
        self._last: str | None = None
        self._files = 0
        self._places = 0
        self._readable = 0

    def noted(self) -> Iterator[ImportedRecord | Skipped]:
        """Yield all that the files hold, and note what of it is damaged."""
        for record in self._walk.records():
            if not isinstance(record, Skipped):
                self._readable += 1
            elif record.damaged:
                self._note(record)
            yield record

    def refuse(self) -> None:
        """Raise `ImportRefused` if something is damaged."""
        if self._files:
            raise ImportRefused(self._first, files=self._files, places=self._places, readable=self._readable)

    def _note(self, damage: Skipped) -> None:
        self._places += 1
        file = self._walk.file or damage.place
        if file == self._last:
            return
        self._last = file
        self._files += 1
        if len(self._first) < MAX_NAMED_FILES:
            self._first.append(DamagedFile(damage.place, damage.reason))


def read_checked(walk: Reader) -> Iterator[ImportedRecord | Skipped]:
    """Yield all that files hold in which no damage was found. If there is some now, they changed meanwhile."""
    for record in walk.records():
        if isinstance(record, Skipped) and record.damaged:
            raise DamagedFile(
                record.place,
                f"{record.reason}: it changed while it was imported; what came before is in the store, "
                "and will not come twice when you import it again",
            )
        yield record
