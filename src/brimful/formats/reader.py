"""Read all records from files, folders and archives.

`check_files` reads everything once and raises if something is damaged, so that an import is all or nothing. Damage
means that data cannot be read: cut off, invalid JSON or UTF-8, too long, or missing. A record that can be read but is
invalid is skipped and reported instead.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Final, Self, TypeVar

import msgspec

from brimful.core.validation import clean_text
from brimful.errors import DamagedFile, ImportRefused, InvalidValue
from brimful.formats.character_card import PNG_SIGNATURE
from brimful.formats.files import (
    DEFAULT_LIMITS,
    STDIN,
    ZIP_MAGIC,
    Archive,
    Directory,
    Folder,
    Limits,
    Siblings,
    Spool,
    open_file,
)
from brimful.formats.registry import BUILTIN_FORMATS, detect_format, has_json_name, load_formats
from brimful.formats.source import Entry, Format, ImportedItem, Skipped, Source
from brimful.records import Memory, Message, Room

BACKUP_FOLDERS: Final = frozenset({"backups", "thumbnails", "__MACOSX", ".git"})
"""Folders with copies of other files, or with nothing to import: SillyTavern saves old chats in `backups`."""
SETTINGS_FOLDERS: Final = frozenset({"OpenAI Settings", "TextGen Settings", "KoboldAI Settings", "NovelAI Settings"})
"""Folders with SillyTavern's model settings: their prompts have roles, but are not messages."""
NESTED_ARCHIVE: Final = "is an archive within an archive: unpack it first"
LINK_OUTSIDE: Final = "is a link that leads elsewhere: import its target instead"
IN_BACKUP_FOLDER: Final = "is in a backup folder"
IN_SETTINGS_FOLDER: Final = "is in a folder of SillyTavern's model settings"
MAX_NAMED_FILES: Final = 5  # damaged files that an error names

_ARCHIVE_SUFFIXES: Final = (".zip", ".charx")
_EMPTY_JSON: Final = (b"[]", b"{}")
_IMAGE_STARTS: Final = (PNG_SIGNATURE, b"\xff\xd8\xff", b"GIF8", b"RIFF")
_CONVERSATION_FILES: Final = ("conversations.json", "../conversations.json")
_IMAGE_NAME_PREFIXES: Final = ("file-", "file_")
_DALLE_FOLDER: Final = "dalle-generations"
_PROGRESS_STEP: Final = 100  # records, or conversations, between two progress reports

_DATABASE_PARTS: Final = ("-wal", "-shm", "-journal")  # files of SQLite, read together with the database

T = TypeVar("T")


class Reader:
    """Reads all files at the given paths, one at a time, and knows how far it is.

    Messages that name no room go into `room`. All files have the given `format`, or it is detected for each: among the
    given `formats`, or among all that are installed. Memories and rooms of nobody belong to `user`.
    """

    def __init__(
        self,
        paths: Sequence[str],
        *,
        room: str | None = None,
        format: str | None = None,
        limits: Limits = DEFAULT_LIMITS,
        formats: Sequence[Format] | None = None,
        user: str | None = None,
    ) -> None:
        self._paths = paths
        self._formats = formats
        self._room = room
        self._user = user
        self._format = format
        self._limits = limits
        self._spool = Spool()
        self._finished = 0
        self._current: Source | None = None

    def __enter__(self) -> Self:
        """Keep copies of standard input and pipes until the end of the `with` block, so that they can be read again."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._spool.close()

    @property
    def total_bytes(self) -> int:
        """The size of all files on disk."""
        return sum(map(_size, self._paths))

    @property
    def done_bytes(self) -> int:
        """How much of that was read. Another thread may be reading."""
        finished, current = self._finished, self._current
        return finished + (current.position if current else 0)

    @property
    def location(self) -> str:
        """The location of the last record; empty before the first file and after the last."""
        return self._current.location if self._current else ""

    @property
    def file(self) -> str:
        """The name of the current file; empty between two files."""
        return self._current.name if self._current else ""

    def records(self) -> Iterator[ImportedItem]:
        """Yield all records of all files, from the beginning."""
        items = self._walk(Format.read_records)
        return items if self._user is None else _with_owner(items, self._user)

    def scan(self) -> Iterator[Entry | ImportedItem]:
        """Yield everything that is damaged, as `records` does, among records or the JSON values that they are in."""
        return self._walk(Format.scan)

    def _walk(self, read: Callable[[Format, Source], Iterator[T]]) -> Iterator[T | Skipped]:
        self._finished = 0
        formats = self._formats
        for source in self.sources():
            if isinstance(source, Skipped):
                yield source
                continue
            if formats is None:
                try:
                    formats, broken = load_formats(self._format)
                except InvalidValue as error:
                    yield Skipped.from_error(error)
                    continue
                yield from broken
            yield from self._read(source, formats, read)

    def _read(
        self, source: Source, formats: Sequence[Format], read: Callable[[Format, Source], Iterator[T]]
    ) -> Iterator[T | Skipped]:
        try:
            format = detect_format(source, self._format, formats=formats)
        except InvalidValue as error:
            yield from source.read_through() if _is_ignorable(source) else [_explain_unknown(source, error)]
            return
        if format in BUILTIN_FORMATS:
            try:
                yield from source.read_through() if _is_chat_image(source) else read(format, source)
            except DamagedFile as error:
                yield Skipped.from_error(error)
        else:
            yield from _read_plugin(format, source, read)

    def sources(self) -> Iterator[Source | Skipped]:
        """Yield each file, open until the next one is requested, or the reason why it is skipped."""
        for path in self._paths:
            if path != STDIN and Path(path).is_dir():
                yield from self._read_folder(Directory(path))
            elif path != STDIN and Path(path).is_file() and _is_archive(path):
                yield from self._read_archive(path)
            else:
                yield from self._open(path, None, _size(path))

    def _read_folder(self, folder: Folder) -> Iterator[Source | Skipped]:
        siblings = Siblings(folder, self._limits)
        if isinstance(folder, Directory):
            yield from (Skipped(f"{folder.name}/{name}", LINK_OUTSIDE) for name in folder.links)
        for name in folder.names:
            location = f"{folder.name}/{name}"
            parents = PurePosixPath(name).parts[:-1]
            if BACKUP_FOLDERS.intersection(parents) or SETTINGS_FOLDERS.intersection(parents):
                yield Skipped(
                    location, IN_BACKUP_FOLDER if BACKUP_FOLDERS.intersection(parents) else IN_SETTINGS_FOLDER
                )
            elif isinstance(folder, Directory) and _is_archive(location):
                yield from self._read_archive(location)
            elif not isinstance(folder, Directory) and name.lower().endswith(_ARCHIVE_SUFFIXES):
                yield Skipped(location, NESTED_ARCHIVE)
            else:
                yield from self._open(name, siblings, folder.stored_size(name))

    def _read_archive(self, path: str) -> Iterator[Source | Skipped]:
        name = Path(clean_text(path)).as_posix()
        try:
            archive = Archive(name, open_file(path), self._limits)
        except InvalidValue as error:
            yield Skipped.from_error(error)
            return
        except OSError as error:
            yield Skipped(name, f"cannot be read: {error.strerror}", damaged=True)
            return
        try:
            yield from self._read_folder(archive)
        finally:
            archive.close()

    def _open(self, path: str, siblings: Siblings | None, size: int) -> Iterator[Source | Skipped]:
        try:
            with Source(path, room=self._room, siblings=siblings, limits=self._limits, open=self._spool.open) as source:
                self._current = source
                yield source
        except InvalidValue as error:
            yield Skipped.from_error(error)
        self._current = None
        self._finished += size


def check_files(reader: Reader, *, on_progress: Callable[[], None] = lambda: None) -> None:
    """Read everything without storing it; raise `ImportRefused` if some of it is damaged."""
    if not any(isinstance(item, Skipped) and item.damaged for item in _with_progress(reader.scan(), on_progress)):
        return
    report = DamageReport(reader)
    for _ in _with_progress(report.records(), on_progress):
        pass
    report.raise_if_damaged()


def _with_progress(items: Iterator[T], on_progress: Callable[[], None]) -> Iterator[T]:
    for number, item in enumerate(items):
        if number % _PROGRESS_STEP == 0:
            on_progress()
        yield item


class DamageReport:
    """Counts damage while the records of a reader pass through it."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._first: list[DamagedFile] = []
        self._last_file: str | None = None
        self._files = 0
        self._locations = 0
        self._readable = 0

    def records(self) -> Iterator[ImportedItem]:
        for record in self._reader.records():
            if not isinstance(record, Skipped):
                self._readable += 1
            elif record.damaged:
                self._add(record)
            yield record

    def raise_if_damaged(self) -> None:
        """Raise `ImportRefused` if something is damaged."""
        if self._files:
            raise ImportRefused(self._first, files=self._files, locations=self._locations, readable=self._readable)

    def _add(self, damage: Skipped) -> None:
        self._locations += 1
        file = self._reader.file or damage.location
        if file == self._last_file:
            return
        self._last_file = file
        self._files += 1
        if len(self._first) < MAX_NAMED_FILES:
            self._first.append(DamagedFile(damage.location, damage.reason))


def read_checked(reader: Reader) -> Iterator[ImportedItem]:
    """Yield all records of files that `check_files` has passed. Damage now means that they changed in the meantime."""
    for record in reader.records():
        if isinstance(record, Skipped) and record.damaged:
            raise DamagedFile(
                record.location,
                f"{record.reason}: it changed during the import; the records before it are in the store, "
                "and are not duplicated if you import it again",
            )
        yield record


def _explain_unknown(source: Source, error: InvalidValue) -> Skipped:
    """Return why a file is not read. One that is named JSON but is not was damaged before its format shows."""
    if not isinstance(error, DamagedFile) and source.head.strip() and has_json_name(source):
        damage = next((entry for entry in source.entries() if isinstance(entry, Skipped)), None)
        return damage or Skipped.from_error(error)
    return Skipped.from_error(error)


def _read_plugin(
    format: Format, source: Source, read: Callable[[Format, Source], Iterator[T]]
) -> Iterator[T | Skipped]:
    """Read with a third-party format. If it fails, only this file is lost."""
    try:
        yield from read(format, source)
    except Exception as error:  # noqa: BLE001 - third-party code may raise anything
        reason = f"the format {format.name!r} failed ({type(error).__name__}: {error})"
        yield Skipped(source.name, reason, damaged=True)


def _is_ignorable(source: Source) -> bool:
    """Return whether it is an empty list in a folder, as Slack writes many, or belongs to another file."""
    belongs = _is_chat_image(source) or source.path.name.endswith(_DATABASE_PARTS)
    return source.is_in_folder and (source.head.strip() in _EMPTY_JSON or belongs)


def _is_chat_image(source: Source) -> bool:
    """Return whether it is an image of a ChatGPT export: it is imported with its message."""
    named = source.path.name.startswith(_IMAGE_NAME_PREFIXES) or source.path.parent.name == _DALLE_FOLDER
    return named and source.head.startswith(_IMAGE_STARTS) and any(map(source.has_sibling, _CONVERSATION_FILES))


def _is_archive(path: str) -> bool:
    try:
        with Path(path).open("rb") as file:
            return file.read(4) in ZIP_MAGIC
    except OSError:
        return False


def _with_owner(items: Iterator[ImportedItem], user: str) -> Iterator[ImportedItem]:
    """Give what belongs to nobody to a user, also rooms that only their messages name."""
    rooms: set[str] = set()
    for item in items:
        if isinstance(item, Room):
            rooms.add(item.id)
        elif isinstance(item, Message) and item.room not in rooms:
            rooms.add(item.room)
            yield Room(id=item.room, user=user)
        is_free = isinstance(item, Memory | Room) and item.user is None
        yield msgspec.structs.replace(item, user=user) if is_free else item


def _size(path: str) -> int:
    file = Path(path)
    if path == STDIN or not file.exists():
        return 0
    if file.is_dir():
        folder = Directory(path)
        return sum(folder.stored_size(name) for name in folder.names)
    return file.stat().st_size
