"""Find keywords in recent messages, in texts of the persona, and in entries that are already activated."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from brimful.lore.index import LoreIndex, PreparedEntry
from brimful.lore.keys import HasTime
from brimful.lore.reasons import ActivationReason, KeywordLocation, LoreExclusion
from brimful.records.lorebook import Source


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """A message as lore sees it: its number in the room, its speaker and text, and whether it expects a reply."""

    id: str
    number: int
    text: str
    speaker: str = ""
    expects_reply: bool = True

    @property
    def text_with_speaker(self) -> str:
        """The text with the name of its speaker before it."""
        return f"{self.speaker}: {self.text}" if self.speaker else self.text


class KeywordScan:
    """Where keywords appear at one turn. Messages are the newest first."""

    def __init__(
        self, index: LoreIndex, turns: Sequence[Turn], sources: Mapping[Source, str], has_time: HasTime
    ) -> None:
        self._index = index
        self._has_time = has_time
        self._turns = turns
        scanned = turns[: index.scan_depth]
        self._in_texts = self._newest_matches(turn.text for turn in scanned)
        self._in_texts_with_speaker = self._newest_matches(turn.text_with_speaker for turn in scanned)
        self._in_sources = {source: index.matcher.find(text, has_time) for source, text in sources.items() if text}
        self._in_entries: dict[int, str] = {}

    def add_activated(self, entries: Iterable[PreparedEntry]) -> None:
        """Also scan the texts of activated entries (recursion)."""
        for prepared in entries:
            for number in self._index.matcher.find(prepared.text, self._has_time):
                self._in_entries.setdefault(number, prepared.entry.id)

    def candidates(self, *, recursing: bool) -> set[str]:
        """Return the entries one of whose keywords appears anywhere."""
        in_sources = (number for numbers in self._in_sources.values() for number in numbers)
        numbers = {*self._in_texts, *self._in_texts_with_speaker, *in_sources}
        if recursing:
            numbers |= self._in_entries.keys()
        entries = self._index.entries_by_keyword
        return {id for number in numbers if number in entries for id in entries[number]}

    def may_start_timed_effect(self) -> bool:
        """Return whether a sticky or cooldown period may start at this turn."""
        keywords = self._index.timed_keywords
        return keywords is None or not (
            keywords.isdisjoint(self._in_texts) and keywords.isdisjoint(self._in_texts_with_speaker)
        )

    def find(self, number: int, prepared: PreparedEntry, *, recursing: bool) -> tuple[KeywordLocation, str] | None:
        """Return where a keyword of an entry appears: in a message, a text of the persona, or another entry."""
        newest = (self._in_texts_with_speaker if prepared.book.names else self._in_texts).get(number)
        if newest is not None and newest < prepared.depth:
            return ("message", self._turns[newest].id)
        for source in prepared.entry.sources:
            if number in self._in_sources.get(source, ()):
                return ("source", source)
        if recursing and number in self._in_entries and self._in_entries[number] != prepared.entry.id:
            return ("entry", self._in_entries[number])
        return None

    def activation_reason(self, prepared: PreparedEntry, *, recursing: bool) -> ActivationReason | None:
        """Return why an entry is activated; None if no keyword appears, or its other keywords exclude it."""
        match = self._first_match(prepared, recursing=recursing)
        if match is None or self._objection(prepared, recursing=recursing):
            return None
        return msgspec.structs.replace(match, secondary=self._secondary_text(prepared, recursing=recursing))

    def exclusion(self, prepared: PreparedEntry, *, recursing: bool) -> LoreExclusion | None:
        """Return how the other keywords of a matching entry exclude it; None if they do not."""
        match = self._first_match(prepared, recursing=recursing)
        detail = self._objection(prepared, recursing=recursing) if match else ""
        if not detail:
            return None
        return LoreExclusion(entry=prepared.entry.id, reason="secondary", detail=detail, match=match)

    def score(self, prepared: PreparedEntry, *, recursing: bool) -> int:
        """Return how many keywords of an entry appear; secondary ones count if they are required."""
        first = sum(self.find(n, prepared, recursing=recursing) is not None for n in prepared.keywords)
        second = sum(self.find(n, prepared, recursing=recursing) is not None for n in prepared.secondary)
        logic = prepared.entry.logic
        counts = logic == "and-any" or (logic == "and-all" and second == len(prepared.secondary))
        return first + second if first and counts else first

    def _first_match(self, prepared: PreparedEntry, *, recursing: bool) -> ActivationReason | None:
        """Return the first keyword of an entry that appears, and where."""
        for number, keyword in prepared.keywords.items():
            found = self.find(number, prepared, recursing=recursing)
            if found is not None:
                return ActivationReason(by="keyword", keyword=keyword, location=found[0], where=found[1])
        return None

    def _objection(self, prepared: PreparedEntry, *, recursing: bool) -> str:
        """Return which other keyword excludes an entry by being there or missing; empty if none does."""
        excluded, _ = self._partition(prepared.excluded, prepared, recursing=recursing)
        if excluded:
            return f"{excluded[0]!r} appears, too"
        additional, missing = self._partition(prepared.additional, prepared, recursing=recursing)
        if missing and not additional:
            return f"none of {_quote_all(missing)} appears"
        return self._secondary_objection(prepared, recursing=recursing) if prepared.secondary else ""

    def _secondary_objection(self, prepared: PreparedEntry, *, recursing: bool) -> str:
        present, missing = self._partition(prepared.secondary, prepared, recursing=recursing)
        match prepared.entry.logic:
            case "and-any":
                return "" if present else f"none of {_quote_all(missing)} appears"
            case "and-all":
                return f"{missing[0]!r} does not appear" if missing else ""
            case "not-any":
                return f"{present[0]!r} appears, too" if present else ""
            case "not-all":
                return "" if missing else f"all of {_quote_all(present)} appear, too"

    def _secondary_text(self, prepared: PreparedEntry, *, recursing: bool) -> str:
        """Return how the secondary keywords of an activated entry were satisfied."""
        if not prepared.secondary:
            return ""
        present, missing = self._partition(prepared.secondary, prepared, recursing=recursing)
        match prepared.entry.logic:
            case "and-any":
                return f", with {present[0]!r}"
            case "and-all":
                return f", with {_quote_all(present)}"
            case "not-any":
                return f", without {_quote_all(missing)}"
            case "not-all":
                return f", without {missing[0]!r}"

    def _partition(
        self, keywords: Mapping[int, str], prepared: PreparedEntry, *, recursing: bool
    ) -> tuple[list[str], list[str]]:
        """Return the keywords that appear, and those that do not."""
        present = [keyword for number, keyword in keywords.items() if self.find(number, prepared, recursing=recursing)]
        return present, [keyword for keyword in keywords.values() if keyword not in present]

    def _newest_matches(self, texts: Iterable[str]) -> dict[int, int]:
        """Return the newest message in which each keyword appears."""
        newest: dict[int, int] = {}
        for index, text in enumerate(texts):
            for number in self._index.matcher.find(text, self._has_time):
                newest.setdefault(number, index)
        return newest


def _quote_all(keywords: Iterable[str]) -> str:
    return ", ".join(map(repr, keywords))
