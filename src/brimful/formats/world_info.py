"""World Info files: SillyTavern's lorebooks, and standalone books of character cards (`lorebook_v3`)."""

from collections.abc import Iterator
from typing import Final

from brimful.errors import BrimfulError
from brimful.formats.ids import join_id
from brimful.formats.lorebooks import read_lorebook, read_lorebook_entries
from brimful.formats.sillytavern_folder import lorebook_defaults
from brimful.formats.source import Format, ImportedRecord, Skipped, Source, room_name

_ENTRY: Final = ({"key", "content"}, {"keys", "content"})


def recognizes(source: Source) -> bool:
    """Return whether there are entries with keywords and contents, or an empty lorebook in SillyTavern's folder."""
    keys = source.keys
    has_entries = any(each <= keys for each in _ENTRY) or (source.path.parent.name == "worlds" and keys == {"entries"})
    return source.head.lstrip().startswith(b"{") and "entries" in keys and has_entries


def read(source: Source) -> Iterator[ImportedRecord | Skipped]:
    """Yield the lorebook, which is named after its file, and its entries."""
    entry = source.whole()
    if isinstance(entry, Skipped):
        yield entry
        return
    name = room_name(source.name)
    try:
        book = read_lorebook(entry.data, join_id(name), name, defaults=lorebook_defaults(source))
        records: list[ImportedRecord] = [book, *read_lorebook_entries(entry.data, join_id(name))]
    except BrimfulError as error:
        yield Skipped(source.name, str(error))
        return
    yield from records


FORMAT: Final = Format(
    name="world-info",
    description="SillyTavern World Info, and standalone lorebooks of character cards",
    recognizes=recognizes,
    read=read,
)
