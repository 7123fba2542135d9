"""Find keywords in recent messages, in texts of the persona, and in entries that are already activated."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from brimful.lore.index import LoreIndex, PreparedEntry
from brimful.lore.reasons import ActivationReason, KeywordPlace, LoreExclusion
from brimful.records.lorebook import Source


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """A message as lore sees it: its place in the room, who said what, and whether it asks for an answer."""

    id: str
    number: int
    text: str
    speaker: str = ""
    asks: bool = True

    @property
    def named(self) -> str:
        """What was said, with who said it."""
        return f"{self.speaker}: {self.text}" if self.speaker else self.text


class KeywordScan:
    """Where keys stand, at one turn. Messages are the newest first."""

    def __init__(self, shelf: LoreIndex, turns: Sequence[Turn], sources: Mapping[Source, str]) -> None:
        """Look through as many messages as any entry wants."""
        self._shelf = shelf
        self._turns = turns
        seen = turns[: shelf.depth]
        self._plain = self._first(turn.text for turn in seen)
        self._named = self._first(turn.named for turn in seen)
        self._sources = {source: shelf.finder.found(text) for source, text in sources.items() if text}
        self._told: dict[int, str] = {}

    def tell(self, told: Iterable[PreparedEntry]) -> None:
        """Add what was told, to be looked through for more."""
        for ready in told:
            for number in self._shelf.mentioned(ready):
                self._told.setdefault(number, ready.entry.id)

    def candidates(self, *, recursing: bool) -> set[str]:
        """Return the entries one of whose keys stands anywhere."""
        numbers = {*self._plain, *self._named, *(n for found in self._sources.values() for n in found)}
        if recursing:
            numbers |= self._told.keys()
        owners = self._shelf.owners
        return {id for number in numbers if number in owners for id in owners[number]}

    def stirs(self) -> bool:
        """Say whether an entry that is sticky or cools down may begin to be told here."""
        keys = self._shelf.stirring
        return keys is None or not (keys.isdisjoint(self._plain) and keys.isdisjoint(self._named))

    def where(self, number: int, ready: PreparedEntry, *, recursing: bool) -> tuple[KeywordPlace, str] | None:
        """Return where a key stands for an entry: a message, a text of the persona, or another entry."""
        first = (self._named if ready.book.names else self._plain).get(number)
        if first is not None and first < ready.depth:
            return ("message", self._turns[first].id)
        for source in ready.entry.sources:
            if number in self._sources.get(source, ()):
                return ("source", source)
        if recursing and number in self._told and self._told[number] != ready.entry.id:
            return ("entry", self._told[number])
        return None

    def why(self, ready: PreparedEntry, *, recursing: bool) -> ActivationReason | None:
        """Return why an entry is spoken of; None if it is not, or if its other keys hold it back."""
        brought = self._brought(ready, recursing=recursing)
        if brought is None or self._against(ready, recursing=recursing):
            return None
        return msgspec.structs.replace(brought, secondary=self._secondary(ready, recursing=recursing))

    def objection(self, ready: PreparedEntry, *, recursing: bool) -> LoreExclusion | None:
        """Return what an entry's other keys have against it, though one of its keys stands there; None if nothing."""
        brought = self._brought(ready, recursing=recursing)
        detail = self._against(ready, recursing=recursing) if brought else ""
        return LoreExclusion(entry=ready.entry.id, reason="secondary", detail=detail, why=brought) if detail else None

    def score(self, ready: PreparedEntry, *, recursing: bool) -> int:
        """Return how many of an entry's keys stand there; secondary ones count where they are asked for."""
        first = sum(self.where(n, ready, recursing=recursing) is not None for n in ready.keys)
        second = sum(self.where(n, ready, recursing=recursing) is not None for n in ready.secondary)
        counts = ready.entry.logic == "and-any" or (ready.entry.logic == "and-all" and second == len(ready.secondary))
        return first + second if first and counts else first

    def _brought(self, ready: PreparedEntry, *, recursing: bool) -> ActivationReason | None:
        """Return the first of an entry's keys that stands somewhere, and where."""
        for number, key in ready.keys.items():
            there = self.where(number, ready, recursing=recursing)
            if there is not None:
                return ActivationReason(by="key", key=key, place=there[0], where=there[1])
        return None

    def _against(self, ready: PreparedEntry, *, recursing: bool) -> str:
        """Say which keys that should stand there do not, or the other way round; nothing if all is as it should be."""
        excluded, _ = self._parted(ready.excluded, ready, recursing=recursing)
        if excluded:
            return f"{excluded[0]!r} stands there, too"
        additional, without = self._parted(ready.additional, ready, recursing=recursing)
        if without and not additional:
            return f"none of {_quote_all(without)} stands there"
        return self._against_secondary(ready, recursing=recursing) if ready.secondary else ""

    def _against_secondary(self, ready: PreparedEntry, *, recursing: bool) -> str:
        there, missing = self._parted(ready.secondary, ready, recursing=recursing)
        match ready.entry.logic:
            case "and-any":
                return "" if there else f"none of {_quote_all(missing)} stands there"
            case "and-all":
                return f"{missing[0]!r} does not stand there" if missing else ""
            case "not-any":
                return f"{there[0]!r} stands there, too" if there else ""
            case "not-all":
                return "" if missing else f"all of {_quote_all(there)} stand there, too"

    def _secondary(self, ready: PreparedEntry, *, recursing: bool) -> str:
        """Say what the secondary keys do for an entry that they allow."""
        if not ready.secondary:
            return ""
        there, missing = self._parted(ready.secondary, ready, recursing=recursing)
        match ready.entry.logic:
            case "and-any":
                return f", with {there[0]!r}"
            case "and-all":
                return f", with {_quote_all(there)}"
            case "not-any":
                return f", without {_quote_all(missing)}"
            case "not-all":
                return f", without {missing[0]!r}"

    def _parted(self, keys: Mapping[int, str], ready: PreparedEntry, *, recursing: bool) -> tuple[list[str], list[str]]:
        """Return the keys that stand there, and those that do not."""
        there = [key for number, key in keys.items() if self.where(number, ready, recursing=recursing)]
        return there, [key for key in keys.values() if key not in there]

    def _first(self, texts: Iterable[str]) -> dict[int, int]:
        """Return the newest message in which each key stands."""
        first: dict[int, int] = {}
        for at, text in enumerate(texts):
            for number in self._shelf.finder.found(text):
                first.setdefault(number, at)
        return first


def _quote_all(keys: Iterable[str]) -> str:
    return ", ".join(map(repr, keys))
