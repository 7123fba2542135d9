"""World Info: SillyTavern's lorebook files, and books of character cards that stand alone (`lorebook_v3`)."""

from collections.abc import Iterator
from typing import Final

from brimful.errors import BrimfulError
from brimful.importers.ids import joined
from brimful.importers.importer import Imported, Importer
from brimful.importers.source import Skipped, Source, room_name
from brimful.importers.tavern import lore_rules
from brimful.lore.formats import book_of, entries_of

_ENTRY: Final = ({"key", "content"}, {"keys", "content"})


def recognises(source: Source) -> bool:
    """Say whether there are entries with keys and contents, or a book among SillyTavern's that has none yet."""
    keys = source.keys
    told = any(each <= keys for each in _ENTRY) or (source.path.parent.name == "worlds" and keys == {"entries"})
    return source.head.lstrip().startswith(b"{") and "entries" in keys and told


def read(source: Source) -> Iterator[Imported | Skipped]:
    """Yield the book, which bears the name of its file, and its entries."""
    found = source.whole()
    if isinstance(found, Skipped):
        yield found
        return
    name = room_name(source.name)
    try:
        book = book_of(found.data, joined(name), name, usual=lore_rules(source))
        records: list[Imported] = [book, *entries_of(found.data, joined(name))]
    except BrimfulError as error:
        yield Skipped(source.name, str(error))
        return
    yield from records


IMPORTER: Final = Importer(
    name="world-info",
    description="World Info of SillyTavern, or the book of a character card: a lorebook with its entries",
    recognises=recognises,
    read=read,
)
