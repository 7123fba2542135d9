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
    """Say whether there are entries with keys and contents, or a book among SillyTavern's that has none yet."""
    keys = source.keys
    told = any(each <= keys for each in _ENTRY) or (source.path.parent.name == "worlds" and keys == {"entries"})
    return source.head.lstrip().startswith(b"{") and "entries" in keys and told


def read(source: Source) -> Iterator[ImportedRecord | Skipped]:
    """Yield the book, which bears the name of its file, and its entries."""
    found = source.whole()
    if isinstance(found, Skipped):
        yield found
        return
    name = room_name(source.name)
    try:
        book = read_lorebook(found.data, join_id(name), name, usual=lorebook_defaults(source))
        records: list[ImportedRecord] = [book, *read_lorebook_entries(found.data, join_id(name))]
    except BrimfulError as error:
        yield Skipped(source.name, str(error))
        return
    yield from records


FORMAT: Final = Format(
    name="world-info",
    description="World Info of SillyTavern, or the book of a character card: a lorebook with its entries",
    recognizes=recognizes,
    read=read,
)
