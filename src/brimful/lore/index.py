"""Lorebooks prepared for activation: all keywords in one matcher, all entries with their defaults resolved.

An index is built once for a version of the books and reused until one of them changes. V3 decorators, lines such as
`@@activate` at the beginning of an entry, are parsed here.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from brimful.core.decode import preload_types
from brimful.lore.keys import Keyword, KeywordMatcher
from brimful.records.lorebook import Lorebook, LoreEntry

_MAX_FALLBACKS: Final = 8  # of one decorator; V3 asks for five at least


class Decorators(msgspec.Struct, frozen=True, kw_only=True):
    """What the decorators that we know ask for."""

    activate: bool = False
    dont_activate: bool = False
    scan_depth: int | None = None
    additional_keys: tuple[str, ...] = ()
    exclude_keys: tuple[str, ...] = ()


preload_types(Decorators)

NO_DECORATORS: Final = Decorators()


def parse_decorators(content: str) -> tuple[Decorators, str]:
    r"""Return what the decorators of a text ask for, and the text without them.

    >>> parse_decorators("@@scan_depth 3\n@@unknown 1\n@@@activate\n\nA tower.")[1]
    'A tower.'
    >>> parse_decorators("@@scan_depth 3\n@@unknown 1\n@@@activate\n\nA tower.")[0].activate
    True
    """
    if not content.startswith("@@"):
        return NO_DECORATORS, content
    lines = content.split("\n")
    ends = next((at for at, line in enumerate(lines) if not line.startswith("@@")), len(lines))
    asked: dict[str, object] = {}
    settled = True
    fallbacks = 0
    for line in lines[:ends]:
        name, _, value = line.lstrip("@").partition(" ")
        fallbacks = fallbacks + 1 if line.startswith("@@@") else 0
        if fallbacks and (settled or fallbacks > _MAX_FALLBACKS):
            continue
        read = _parse_decorator(name.strip(), value.strip())
        settled = bool(read)
        asked = {**read, **asked}
    return msgspec.convert(asked, Decorators), "\n".join(lines[ends:]).strip("\n")


def _parse_decorator(name: str, value: str) -> dict[str, object]:
    """Return what a decorator asks for; nothing if it is unknown, or its value is none."""
    number = int(value) if value.isdecimal() and len(value) < len("1000000000") else None
    names = [each for part in value.split(",") if (each := part.strip())]
    match name:
        case "activate" | "dont_activate":
            return {name: True}
        case "additional_keys" | "exclude_keys" if names:
            return {name: names}
        case "scan_depth" if number is not None:
            return {"scan_depth": number}
        case _:
            return {}


class PreparedEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry as it is looked for. Keys are numbers of the shelf's finder; `text` is what is told."""

    entry: LoreEntry
    book: Lorebook
    text: str
    decorators: Decorators
    keys: dict[int, str]
    secondary: dict[int, str]
    additional: dict[int, str]
    excluded: dict[int, str]
    depth: int

    @property
    def rank(self) -> tuple[bool, float, int, str]:
        """What entries compete by: the constant ones first, then by priority, where there is none by order."""
        entry = self.entry
        weight = entry.order if entry.priority is None else entry.priority
        return (not entry.constant, -weight, -entry.order, entry.id)


class LoreIndex:
    """The entries of some books."""

    def __init__(self, books: Mapping[str, Lorebook], entries: Iterable[LoreEntry]) -> None:
        """Make entries ready; those that are off, or whose text is empty, are never told."""
        self.finder = KeywordMatcher()
        self.entries: dict[str, PreparedEntry] = {}
        self.owners: dict[int, list[str]] = defaultdict(list)
        for entry in entries:
            book = books.get(entry.lorebook) or Lorebook(id=entry.lorebook)
            ready = self._ready(entry, book)
            if entry.enabled and ready.text and not (ready.decorators.dont_activate and not ready.decorators.activate):
                self.entries[entry.id] = ready
                for number in ready.keys:
                    self.owners[number].append(entry.id)
        self.finder.ready()
        everyone = list(self.entries.values())
        self.always = [each.entry.id for each in everyone if each.entry.constant or each.decorators.activate]
        self.timed = [each.entry for each in everyone if each.entry.sticky or each.entry.cooldown]
        self.levels = sorted({each.entry.delay_until_recursion for each in everyone} - {0})
        self.depth = max((each.depth for each in everyone), default=0)
        self.rounds = max((each.book.recursion for each in everyone), default=0)
        self.sources = {source for each in everyone for source in each.entry.sources}
        self.stirring = self._stirring()
        self._mentioned: dict[str, frozenset[int]] = {}

    def mentioned(self, ready: PreparedEntry) -> frozenset[int]:
        """Return the numbers of the keys that stand in an entry's own text, which is looked through once."""
        id = ready.entry.id
        if id not in self._mentioned:
            self._mentioned[id] = self.finder.found(ready.text)
        return self._mentioned[id]

    def _stirring(self) -> frozenset[int] | None:
        """Return the keys without which no sticky or cooling entry begins to be told; None if one may without any."""
        timed = [self.entries[entry.id] for entry in self.timed]
        if any(ready.entry.sources or ready.entry.id in self.always for ready in timed):
            return None
        if self.rounds and (self.always or self.sources):
            return None
        return frozenset(self.owners if self.rounds else (number for ready in timed for number in ready.keys))

    @property
    def memory(self) -> int:
        """How many messages back an entry's past may matter: twice its longest effect, and what is looked through."""
        longest = max((entry.sticky + entry.cooldown for entry in self.timed), default=0)
        return 2 * longest + self.depth if longest else 0

    def _ready(self, entry: LoreEntry, book: Lorebook) -> PreparedEntry:
        decorators, text = parse_decorators(entry.content)
        depth = book.scan_depth if entry.scan_depth is None else entry.scan_depth
        return PreparedEntry(
            entry=entry,
            book=book,
            text=text.strip() and text,
            decorators=decorators,
            keys=self._numbered(entry.keys, entry, book),
            secondary=self._numbered(entry.secondary, entry, book),
            additional=self._numbered(decorators.additional_keys, entry, book),
            excluded=self._numbered(decorators.exclude_keys, entry, book),
            depth=depth if decorators.scan_depth is None else decorators.scan_depth,
        )

    def _numbered(self, keys: Sequence[str], entry: LoreEntry, book: Lorebook) -> dict[int, str]:
        """Return the numbers of keys, and the keys as their author wrote them; an empty key is none."""
        case = book.case_sensitive if entry.case_sensitive is None else entry.case_sensitive
        whole = book.whole_words if entry.whole_words is None else entry.whole_words
        plain = [key.strip() for key in keys]
        return {self.finder.number(Keyword(key, case, whole, entry.regex)): key for key in plain if key}
