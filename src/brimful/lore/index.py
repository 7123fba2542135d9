"""Lorebooks prepared for activation: all keywords in one matcher, all entries with their defaults resolved.

An index is built once for a version of the books and reused until one of them changes. V3 decorators, lines such as
`@@activate` at the beginning of an entry, are parsed here.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from brimful.core.validation import preload_types
from brimful.errors import InvalidValue
from brimful.lore.keys import Keyword, KeywordMatcher
from brimful.lore.patterns import find_refusals
from brimful.records.lorebook import Lorebook, LoreEntry

MAX_LOOKBACK: Final = 4_000  # messages, however long sticky and cooldown periods are: every turn reads them
_MAX_FALLBACKS: Final = 8  # of one decorator; V3 requires at least five


class Decorators(msgspec.Struct, frozen=True, kw_only=True):
    """The supported decorators of an entry."""

    activate: bool = False
    dont_activate: bool = False
    scan_depth: int | None = None
    additional_keys: tuple[str, ...] = ()
    exclude_keys: tuple[str, ...] = ()


preload_types(Decorators)

NO_DECORATORS: Final = Decorators()


def parse_decorators(content: str) -> tuple[Decorators, str]:
    r"""Return the decorators of a text, and the text without them.

    >>> parse_decorators("@@scan_depth 3\n@@unknown 1\n@@@activate\n\nA tower.")[1]
    'A tower.'
    >>> parse_decorators("@@scan_depth 3\n@@unknown 1\n@@@activate\n\nA tower.")[0].activate
    True
    """
    if not content.startswith("@@"):
        return NO_DECORATORS, content
    lines = content.split("\n")
    end = next((i for i, line in enumerate(lines) if not line.startswith("@@")), len(lines))
    values: dict[str, object] = {}
    understood = True  # whether the last decorator was, so that its fallbacks are not needed
    fallbacks = 0
    for line in lines[:end]:
        name, _, value = line.lstrip("@").partition(" ")
        fallbacks = fallbacks + 1 if line.startswith("@@@") else 0
        if fallbacks and (understood or fallbacks > _MAX_FALLBACKS):
            continue
        parsed = _parse_decorator(name.strip(), value.strip())
        understood = bool(parsed)
        values = {**parsed, **values}
    return msgspec.convert(values, Decorators), "\n".join(lines[end:]).strip("\n")


def _parse_decorator(name: str, value: str) -> dict[str, object]:
    """Return the value of a decorator; nothing if it is unknown or invalid."""
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


def check_keywords(*entries: LoreEntry) -> None:
    """Refuse entries with too many keywords, or with a keyword or regular expression that exceeds a limit."""
    for entry in entries:
        decorators, _ = parse_decorators(entry.content)
        keys = (*entry.keys, *entry.secondary, *decorators.additional_keys, *decorators.exclude_keys)
        for refusal in find_refusals((key.strip() for key in keys), regex=entry.regex):
            raise InvalidValue("keys", refusal)


class PreparedEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry with its defaults resolved: keywords by their number in the matcher, and `text` without decorators."""

    entry: LoreEntry
    book: Lorebook
    text: str
    decorators: Decorators
    keywords: dict[int, str]
    secondary: dict[int, str]
    additional: dict[int, str]
    excluded: dict[int, str]
    depth: int

    @property
    def rank(self) -> tuple[bool, float, int, str]:
        """The order in which entries compete: constant ones first, then by priority, or else by order."""
        entry = self.entry
        weight = entry.order if entry.priority is None else entry.priority
        return (not entry.constant, -weight, -entry.order, entry.id)


class LoreIndex:
    """The entries of some lorebooks. Disabled entries, and those without text, are left out."""

    def __init__(self, books: Mapping[str, Lorebook], entries: Iterable[LoreEntry]) -> None:
        self.matcher = KeywordMatcher()
        self.entries: dict[str, PreparedEntry] = {}
        self.entries_by_keyword: dict[int, list[str]] = defaultdict(list)
        for entry in entries:
            book = books.get(entry.lorebook) or Lorebook(id=entry.lorebook)
            prepared = self._prepare(entry, book)
            decorators = prepared.decorators
            if entry.enabled and prepared.text and (decorators.activate or not decorators.dont_activate):
                self.entries[entry.id] = prepared
                for number in prepared.keywords:
                    self.entries_by_keyword[number].append(entry.id)
        self.matcher.build()
        all_entries = list(self.entries.values())
        self.always_on = [each.entry.id for each in all_entries if each.entry.constant or each.decorators.activate]
        self.timed_entries = [each.entry for each in all_entries if each.entry.sticky or each.entry.cooldown]
        self.levels = sorted({each.entry.delay_until_recursion for each in all_entries} - {0})
        self.scan_depth = max((each.depth for each in all_entries), default=0)
        self.rounds = max((each.book.recursion for each in all_entries), default=0)
        self.sources = {source for each in all_entries for source in each.entry.sources}
        self.timed_keywords = self._timed_keywords()

    def _timed_keywords(self) -> frozenset[int] | None:
        """Return the keywords that can start a sticky or cooldown period; None if one can start without any."""
        timed = [self.entries[entry.id] for entry in self.timed_entries]
        if any(prepared.entry.sources or prepared.entry.id in self.always_on for prepared in timed):
            return None
        if self.rounds and (self.always_on or self.sources):
            return None
        if self.rounds:
            return frozenset(self.entries_by_keyword)
        return frozenset(number for prepared in timed for number in prepared.keywords)

    @property
    def lookback(self) -> int:
        """How many past messages can matter for sticky and cooldown: twice the longest effect, and the scan depth."""
        longest = max((entry.sticky + entry.cooldown for entry in self.timed_entries), default=0)
        return min(MAX_LOOKBACK, 2 * longest + self.scan_depth) if longest else 0

    def _prepare(self, entry: LoreEntry, book: Lorebook) -> PreparedEntry:
        decorators, text = parse_decorators(entry.content)
        depth = book.scan_depth if entry.scan_depth is None else entry.scan_depth
        return PreparedEntry(
            entry=entry,
            book=book,
            text=text.strip() and text,
            decorators=decorators,
            keywords=self._number(entry.keys, entry, book),
            secondary=self._number(entry.secondary, entry, book),
            additional=self._number(decorators.additional_keys, entry, book),
            excluded=self._number(decorators.exclude_keys, entry, book),
            depth=depth if decorators.scan_depth is None else decorators.scan_depth,
        )

    def _number(self, keywords: Sequence[str], entry: LoreEntry, book: Lorebook) -> dict[int, str]:
        """Return keywords as they were written, by their numbers; empty ones are left out."""
        case = book.case_sensitive if entry.case_sensitive is None else entry.case_sensitive
        whole = book.whole_words if entry.whole_words is None else entry.whole_words
        stripped = (keyword.strip() for keyword in keywords)
        return {self.matcher.number(Keyword(each, case, whole, entry.regex)): each for each in stripped if each}
