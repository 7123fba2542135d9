"""Decide which lorebook entries are activated in a turn.

keywords → filters (persona, delay, cooldown, recursion) → groups → probability → the book's budget → activated
↑                                                                                                      │
└───────────────── activated entries may contain keywords of further entries (recursion) ──────────────┘

Sticky and cooldown periods are counted in messages. They are not stored: past activations are recomputed from past
messages, so the result is the same after a restart, in another process, and when a turn is built again.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from brimful.core.notice import Notice
from brimful.lore.groups import resolve_groups, roll
from brimful.lore.index import LoreIndex, PreparedEntry
from brimful.lore.keys import HasTime
from brimful.lore.reasons import ActivationReason, LoreExclusion
from brimful.lore.scan import KeywordScan, Turn
from brimful.records.lorebook import LoreEntry, Source

NORMAL_TRIGGER: Final = "normal"  # of SillyTavern's generation types, the one that every build is

MAX_SECONDS: Final = 1.0  # for all regular expressions in one activation

CountTokens = Callable[[LoreEntry], int]


class PersonaInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The current persona: names and tags that entries filter by, and texts about it that they may scan."""

    names: frozenset[str] = frozenset()
    tags: frozenset[str] = frozenset()
    sources: dict[Source, str] = {}


class ActivatedEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An activated entry, its text without decorators, and the reason."""

    entry: LoreEntry
    text: str
    reason: ActivationReason


class Activation(msgspec.Struct, frozen=True, kw_only=True):
    """The activated entries by order, the matching entries that were excluded, and notices."""

    activated: tuple[ActivatedEntry, ...] = ()
    excluded: tuple[LoreExclusion, ...] = ()
    notices: tuple[Notice, ...] = ()


def activate(
    index: LoreIndex,
    turns: Sequence[Turn],
    *,
    seed: str,
    count_tokens: CountTokens,
    persona: PersonaInfo = PersonaInfo(),  # noqa: B008 - frozen
    retrieved: Mapping[str, float] = {},
    clock: Callable[[], float] | None = None,
) -> Activation:
    """Return the entries that are activated at the newest of these turns, which come the newest first.

    `seed` (the room's id) makes random choices reproducible. `retrieved` are entries that retrieval found, with their
    relevance; they are not scanned for further keywords. Earlier turns decide which entries are sticky or on cooldown.
    With a `clock`, all regular expressions together get `MAX_SECONDS`.
    """
    has_time = _make_timer(clock)
    effects = TimedEffects()
    past = [i for i in range(1, len(turns)) if turns[i].expects_reply] if index.timed_entries else []
    for position in reversed(past):
        earlier = _TurnActivation(index, turns[position:], effects, seed, count_tokens, persona, has_time=has_time)
        if earlier.scan.may_start_timed_effect():
            effects.start(turns[position].number, [each.entry for each in earlier.run({}).activated])
    return _TurnActivation(index, turns, effects, seed, count_tokens, persona, has_time=has_time).run(retrieved)


def _make_timer(clock: Callable[[], float] | None) -> HasTime:
    if clock is None:
        return lambda: True
    end = clock() + MAX_SECONDS
    return lambda: clock() < end


class TimedEffects:
    """The entries that are sticky or on cooldown, with the number of the message at which that ends."""

    def __init__(self) -> None:
        self.sticky: dict[str, int] = {}
        self.cooldown: dict[str, int] = {}

    def advance(self, turn: int, entries: Iterable[LoreEntry]) -> None:
        """End the effects that are over at a turn, and start the cooldown of entries that were sticky."""
        for entry in entries:
            if self.sticky.get(entry.id, turn + 1) <= turn:
                del self.sticky[entry.id]
                if entry.cooldown:
                    self.cooldown[entry.id] = turn + entry.cooldown
            if self.cooldown.get(entry.id, turn + 1) <= turn:
                del self.cooldown[entry.id]

    def start(self, turn: int, entries: Iterable[LoreEntry]) -> None:
        """Start the effects of entries activated at a turn. One that is sticky already does not start again."""
        for entry in entries:
            if entry.sticky:
                self.sticky.setdefault(entry.id, turn + entry.sticky)
            if entry.cooldown:
                self.cooldown.setdefault(entry.id, turn + entry.cooldown)


class _TurnActivation:
    """One turn: the entries activated and excluded so far, and how much of its budget each book has spent."""

    def __init__(
        self,
        index: LoreIndex,
        turns: Sequence[Turn],
        effects: TimedEffects,
        seed: str,
        count_tokens: CountTokens,
        persona: PersonaInfo,
        *,
        has_time: HasTime,
    ) -> None:
        self.index = index
        self.effects = effects
        self.seed = seed
        self.count_tokens = count_tokens
        self.persona = persona
        self.turn = turns[0].number if turns else 0
        self.has_time = has_time
        self.scan = KeywordScan(index, turns, persona.sources, has_time)
        self.activated: dict[str, ActivatedEntry] = {}
        self.excluded: dict[str, LoreExclusion] = {}
        self.objections: dict[str, LoreExclusion] = {}  # of other keywords, so far: a later entry may satisfy them
        self.final: set[str] = set()  # excluded by probability or budget: not tried again
        self.spent: dict[str, int] = {}  # tokens by book
        self.group_winners: dict[str, str] = {}
        effects.advance(self.turn, index.timed_entries)

    def run(self, retrieved: Mapping[str, float]) -> Activation:
        """Activate entries by keywords, round by round, and at last those that retrieval found."""
        levels = list(self.index.levels)
        level = levels.pop(0) if levels else 0
        fresh = self._activate_round(self._match_keywords(0, 0))
        for number in range(1, self.index.rounds + 1):
            if not fresh:
                if not levels:
                    break
                level = levels.pop(0)
            self.scan.add_activated(fresh)
            fresh = self._activate_round(self._match_keywords(number, level))
        self._activate_round(self._match_retrieved(retrieved))
        ordered = sorted(self.activated.values(), key=lambda each: (each.entry.order, each.entry.id))
        excluded = self._all_excluded()
        return Activation(activated=tuple(ordered), excluded=excluded, notices=tuple(self._notices()))

    # -- matching ----------------------------------------------------------------------------------------------------

    def _match_keywords(self, number: int, level: int) -> dict[str, ActivationReason]:
        """Return the entries that may be activated in a round, and why; exclude those that may not."""
        ids = {*self.index.always_on, *self.effects.sticky, *self.scan.candidates(recursing=number > 0)}
        reasons: dict[str, ActivationReason] = {}
        for id in (ids - self.activated.keys() - self.final) & self.index.entries.keys():
            prepared = self.index.entries[id]
            reason = self._activation_reason(prepared, number)
            if reason is None:
                self._note_objection(prepared, number)
                continue
            exclusion = self._filter(prepared, number, level)
            if exclusion is None:
                reasons[id] = reason
            elif exclusion.reason != "persona" or reason.by == "keyword":  # entries of others are not worth a mention
                self.excluded[id] = msgspec.structs.replace(exclusion, match=reason)
        return reasons

    def _note_objection(self, prepared: PreparedEntry, number: int) -> None:
        exclusion = self.scan.exclusion(prepared, recursing=_scans_activated(prepared, number))
        if exclusion is not None:
            self.objections[prepared.entry.id] = exclusion

    def _activation_reason(self, prepared: PreparedEntry, number: int) -> ActivationReason | None:
        entry = prepared.entry
        if prepared.decorators.activate:
            return ActivationReason(by="decorator")
        if entry.constant:
            return ActivationReason(by="constant")
        if entry.id in self.effects.sticky:
            return ActivationReason(by="sticky", until=self.effects.sticky[entry.id])
        return self.scan.activation_reason(prepared, recursing=_scans_activated(prepared, number))

    def _filter(self, prepared: PreparedEntry, number: int, level: int) -> LoreExclusion | None:
        """Return why a matching entry may not be activated in this round; None if it may."""
        entry = prepared.entry
        sticky = entry.id in self.effects.sticky
        if not self._applies_to_persona(entry):
            return LoreExclusion(entry=entry.id, reason="persona", detail="only for other personas")
        if entry.triggers and NORMAL_TRIGGER not in entry.triggers:
            return LoreExclusion(entry=entry.id, reason="persona", detail=f"only for {', '.join(entry.triggers)}")
        if self.turn < entry.delay:
            return LoreExclusion(entry=entry.id, reason="delay", detail=f"not before message {entry.delay:,}")
        if not sticky and entry.id in self.effects.cooldown:
            until = self.effects.cooldown[entry.id]
            return LoreExclusion(entry=entry.id, reason="cooldown", detail=f"not before message {until:,}")
        if not sticky and entry.delay_until_recursion and (number == 0 or entry.delay_until_recursion > level):
            return LoreExclusion(entry=entry.id, reason="recursion", detail="only activated by other entries")
        return None

    def _applies_to_persona(self, entry: LoreEntry) -> bool:
        if entry.personas and self.persona.names.isdisjoint(entry.personas) is not entry.exclude_personas:
            return False
        if entry.tags and self.persona.tags:
            return self.persona.tags.isdisjoint(entry.tags) is entry.exclude_personas
        return True

    def _match_retrieved(self, retrieved: Mapping[str, float]) -> dict[str, ActivationReason]:
        """Return the entries that only retrieval found."""
        reasons: dict[str, ActivationReason] = {}
        for id, relevance in retrieved.items():
            prepared = self.index.entries.get(id)
            if prepared is None or not prepared.entry.vector or id in self.activated or id in self.excluded:
                continue
            reason = ActivationReason(by="retrieval", relevance=relevance)
            exclusion = self._filter(prepared, self.index.rounds, max(self.index.levels, default=0))
            if exclusion is None:
                reasons[id] = reason
            else:
                self.excluded[id] = msgspec.structs.replace(exclusion, match=reason)
        return reasons

    # -- activating --------------------------------------------------------------------------------------------------

    def _activate_round(self, reasons: Mapping[str, ActivationReason]) -> list[PreparedEntry]:
        """Activate entries that pass groups, probability and budget; return those to scan in the next round."""
        candidates = sorted(
            (self.index.entries[id] for id in reasons),
            key=lambda prepared: (prepared.entry.id not in self.effects.sticky, prepared.rank),
        )
        remaining, lost = resolve_groups(
            candidates,
            self.group_winners,
            sticky=self.effects.sticky,
            score=lambda prepared: self.scan.score(prepared, recursing=bool(prepared.book.recursion)),
            seed=self.seed,
            turn=self.turn,
        )
        self.excluded |= {each.entry: msgspec.structs.replace(each, match=reasons[each.entry]) for each in lost}
        fresh = []
        for prepared in remaining:
            exclusion = self._roll_probability(prepared) or self._spend_budget(prepared)
            if exclusion is not None:
                self.final.add(prepared.entry.id)
                self.excluded[prepared.entry.id] = msgspec.structs.replace(exclusion, match=reasons[prepared.entry.id])
                continue
            self._add(prepared, reasons[prepared.entry.id])
            if prepared.book.recursion and not prepared.entry.prevent_recursion:
                fresh.append(prepared)
        return fresh

    def _roll_probability(self, prepared: PreparedEntry) -> LoreExclusion | None:
        entry = prepared.entry
        if entry.probability == 1.0 or entry.id in self.effects.sticky:
            return None
        rolled = roll(self.seed, entry.id, self.turn)
        if rolled < entry.probability:
            return None
        detail = f"rolled {rolled:.2f}, needs less than {entry.probability:.2f}"
        return LoreExclusion(entry=entry.id, reason="probability", detail=detail)

    def _spend_budget(self, prepared: PreparedEntry) -> LoreExclusion | None:
        """Exclude an entry that exceeds its book's budget; smaller ones after it may still fit."""
        entry, budget = prepared.entry, prepared.book.budget
        if budget is None or entry.ignore_budget:
            return None
        cost, spent = self.count_tokens(entry), self.spent.get(prepared.book.id, 0)
        if spent + cost <= budget:
            self.spent[prepared.book.id] = spent + cost
            return None
        detail = f"{cost:,} tokens, but its lorebook has {budget - spent:,} of {budget:,} left"
        return LoreExclusion(entry=entry.id, reason="budget", detail=detail)

    def _add(self, prepared: PreparedEntry, reason: ActivationReason) -> None:
        id = prepared.entry.id
        self.activated[id] = ActivatedEntry(entry=prepared.entry, text=prepared.text, reason=reason)
        self.excluded.pop(id, None)
        self.group_winners |= dict.fromkeys(prepared.entry.groups, id)

    # -- the result --------------------------------------------------------------------------------------------------

    def _all_excluded(self) -> tuple[LoreExclusion, ...]:
        for number, text in self.index.matcher.regexes.timed_out.items():
            for id in self.index.entries_by_keyword.get(number, ()):
                if id not in self.activated and id not in self.excluded:
                    detail = f"the regular expression {text!r} took too long"
                    self.excluded[id] = LoreExclusion(entry=id, reason="pattern", detail=detail)
        objections = {id: each for id, each in self.objections.items() if id not in self.activated}
        self.excluded = objections | self.excluded
        return tuple(self.excluded[id] for id in sorted(self.excluded))

    def _notices(self) -> Iterator[Notice]:
        lost = [each for each in self.excluded.values() if each.reason == "budget" and _is_constant(each)]
        for each in sorted(lost, key=lambda each: each.entry):
            text = f"always-on lorebook entry {each.entry!r} did not fit: {each.detail}"
            yield Notice(kind="lore-dropped", text=text, facts={"entry": each.entry})
        if refused := list(self.index.matcher.refused.values()):
            more = f", and {len(refused) - 1:,} more" if len(refused) > 1 else ""
            text = f"a lorebook's regular expression is not used: {refused[0]}{more}"
            yield Notice(kind="lore-refused", text=text, facts={"expressions": len(refused)})
        if self.index.matcher.regexes.exhausted or not self.has_time():
            yield Notice(
                kind="lore-timeout", text="lorebook regular expressions took too long: the rest were not tried"
            )


def _scans_activated(prepared: PreparedEntry, number: int) -> bool:
    """Return whether the keywords of an entry are searched for in activated entries in a round."""
    return 0 < number <= prepared.book.recursion and not prepared.entry.exclude_recursion


def _is_constant(exclusion: LoreExclusion) -> bool:
    return exclusion.match is not None and exclusion.match.by in ("constant", "decorator")
