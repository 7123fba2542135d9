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
from brimful.lore.reasons import ActivationReason, LoreExclusion
from brimful.lore.scan import KeywordScan, Turn
from brimful.records.lorebook import LoreEntry, Source


class TimedEffects:
    """The entries that are sticky or cool down, with the number of the message at which that ends."""

    def __init__(self) -> None:
        """Begin with none."""
        self.sticky: dict[str, int] = {}
        self.cooling: dict[str, int] = {}

    def reach(self, turn: int, entries: Iterable[LoreEntry]) -> None:
        """Come to a turn: what has ended is over, and what was sticky cools down from here."""
        for entry in entries:
            if self.sticky.get(entry.id, turn + 1) <= turn:
                del self.sticky[entry.id]
                if entry.cooldown:
                    self.cooling[entry.id] = turn + entry.cooldown
            if self.cooling.get(entry.id, turn + 1) <= turn:
                del self.cooling[entry.id]

    def told(self, turn: int, entries: Iterable[LoreEntry]) -> None:
        """Note what is told at a turn. An entry that is sticky already does not begin anew."""
        for entry in entries:
            if entry.sticky:
                self.sticky.setdefault(entry.id, turn + entry.sticky)
            if entry.cooldown:
                self.cooling.setdefault(entry.id, turn + entry.cooldown)


NORMAL_TRIGGER: Final = "normal"  # what every build is, of the occasions for which SillyTavern may want an entry

CountTokens = Callable[[LoreEntry], int]


class PersonaInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Who answers: its names and tags, by which entries choose, and texts about it that they may look into."""

    names: frozenset[str] = frozenset()
    tags: frozenset[str] = frozenset()
    sources: dict[Source, str] = {}


class ActivatedEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry that is told, with what is told of it: its text without decorators."""

    entry: LoreEntry
    text: str
    why: ActivationReason


class Activation(msgspec.Struct, frozen=True, kw_only=True):
    """What is told, by order, what was held back though it was spoken of, and what went wrong."""

    told: tuple[ActivatedEntry, ...] = ()
    held: tuple[LoreExclusion, ...] = ()
    notices: tuple[Notice, ...] = ()


def activate(
    shelf: LoreIndex,
    turns: Sequence[Turn],
    *,
    seed: str,
    tokens: CountTokens,
    who: PersonaInfo = PersonaInfo(),  # noqa: B008 - frozen
    found: Mapping[str, float] = {},
) -> Activation:
    """Return the entries that are told at the newest of these turns, which come the newest first.

    `seed` (the room) makes chance the same whenever a turn is built. `found` are entries that retrieval brought, with
    their relevance; they bring no others along. Turns before the newest tell which entries are sticky or cool down.
    """
    timed = TimedEffects()
    past = [at for at in range(1, len(turns)) if turns[at].asks] if shelf.timed else []
    for at in reversed(past):
        before = _TurnActivation(shelf, turns[at:], timed, seed, tokens, who)
        if before.spoken.stirs():
            timed.told(turns[at].number, [told.entry for told in before.run({}).told])
    return _TurnActivation(shelf, turns, timed, seed, tokens, who).run(found)


class _TurnActivation:
    """One turn: what is told so far, what was held back, and what each book has left."""

    def __init__(
        self,
        shelf: LoreIndex,
        turns: Sequence[Turn],
        timed: TimedEffects,
        seed: str,
        tokens: CountTokens,
        who: PersonaInfo,
    ) -> None:
        self.shelf = shelf
        self.timed = timed
        self.seed = seed
        self.tokens = tokens
        self.who = who
        self.turn = turns[0].number if turns else 0
        self.spoken = KeywordScan(shelf, turns, who.sources)
        self.told: dict[str, ActivatedEntry] = {}
        self.held: dict[str, LoreExclusion] = {}
        self.unfit: dict[str, LoreExclusion] = {}  # by other keys, for now: one that is told later may bring them
        self.settled: set[str] = set()  # by chance or budget: not asked again
        self.spent: dict[str, int] = {}
        self.groups: dict[str, str] = {}
        timed.reach(self.turn, shelf.timed)

    def run(self, found: Mapping[str, float]) -> Activation:
        """Tell what is spoken of, round by round, and at last what retrieval found."""
        levels = list(self.shelf.levels)
        level = levels.pop(0) if levels else 0
        fresh = self._round(self._spoken_of(0, 0))
        for number in range(1, self.shelf.rounds + 1):
            if not fresh:
                if not levels:
                    break
                level = levels.pop(0)
            self.spoken.tell(fresh)
            fresh = self._round(self._spoken_of(number, level))
        self._round(self._found(found))
        ordered = sorted(self.told.values(), key=lambda told: (told.entry.order, told.entry.id))
        return Activation(told=tuple(ordered), held=self._held_back(), notices=tuple(self._notices()))

    # -- who is spoken of --------------------------------------------------------------------------------------------

    def _spoken_of(self, number: int, level: int) -> dict[str, ActivationReason]:
        """Return the entries that may be told in a round, and why; those that may not are held back."""
        ids = {*self.shelf.always, *self.timed.sticky, *self.spoken.candidates(recursing=number > 0)}
        reasons: dict[str, ActivationReason] = {}
        for id in (ids - self.told.keys() - self.settled) & self.shelf.entries.keys():
            ready = self.shelf.entries[id]
            why = self._why(ready, number)
            if why is None:
                self._note_unfit(ready, number)
                continue
            held = self._forbidden(ready, number, level)
            if held is None:
                reasons[id] = why
            elif held.reason != "persona" or why.by == "key":  # what is always told to others is no news here
                self.held[id] = msgspec.structs.replace(held, why=why)
        return reasons

    def _note_unfit(self, ready: PreparedEntry, number: int) -> None:
        held = self.spoken.objection(ready, recursing=_scans_activated(ready, number))
        if held is not None:
            self.unfit[ready.entry.id] = held

    def _why(self, ready: PreparedEntry, number: int) -> ActivationReason | None:
        entry = ready.entry
        if ready.decorators.activate:
            return ActivationReason(by="decorator")
        if entry.constant:
            return ActivationReason(by="constant")
        if entry.id in self.timed.sticky:
            return ActivationReason(by="sticky", until=self.timed.sticky[entry.id])
        return self.spoken.why(ready, recursing=_scans_activated(ready, number))

    def _forbidden(self, ready: PreparedEntry, number: int, level: int) -> LoreExclusion | None:
        """Return why an entry that is spoken of may not be told in this round; None if it may."""
        entry = ready.entry
        sticky = entry.id in self.timed.sticky
        if not self._is_for_whom(entry):
            return LoreExclusion(
                entry=entry.id, reason="persona", detail="it is for others than the persona that answers"
            )
        if entry.triggers and NORMAL_TRIGGER not in entry.triggers:
            return LoreExclusion(
                entry=entry.id, reason="persona", detail=f"it is for {', '.join(entry.triggers)} alone"
            )
        if self.turn < entry.delay:
            return LoreExclusion(entry=entry.id, reason="delay", detail=f"not before message {entry.delay:,}")
        if not sticky and entry.id in self.timed.cooling:
            until = self.timed.cooling[entry.id]
            return LoreExclusion(entry=entry.id, reason="cooldown", detail=f"not before message {until:,}")
        if not sticky and entry.delay_until_recursion and (number == 0 or entry.delay_until_recursion > level):
            return LoreExclusion(entry=entry.id, reason="recursion", detail="it waits for others to be told first")
        return None

    def _is_for_whom(self, entry: LoreEntry) -> bool:
        if entry.personas and self.who.names.isdisjoint(entry.personas) is not entry.exclude_personas:
            return False
        if entry.tags and self.who.tags:
            return self.who.tags.isdisjoint(entry.tags) is entry.exclude_personas
        return True

    def _found(self, found: Mapping[str, float]) -> dict[str, ActivationReason]:
        """Return what retrieval found and nobody spoke of."""
        reasons: dict[str, ActivationReason] = {}
        for id, relevance in found.items():
            ready = self.shelf.entries.get(id)
            if ready is None or not ready.entry.vector or id in self.told or id in self.held:
                continue
            why = ActivationReason(by="found", relevance=relevance)
            held = self._forbidden(ready, self.shelf.rounds, max(self.shelf.levels, default=0))
            if held is None:
                reasons[id] = why
            else:
                self.held[id] = msgspec.structs.replace(held, why=why)
        return reasons

    # -- who is told -------------------------------------------------------------------------------------------------

    def _round(self, reasons: Mapping[str, ActivationReason]) -> list[PreparedEntry]:
        """Choose among those that may be told, and return those whose texts may speak of more."""
        candidates = sorted(
            (self.shelf.entries[id] for id in reasons),
            key=lambda ready: (ready.entry.id not in self.timed.sticky, ready.rank),
        )
        left, lost = resolve_groups(
            candidates,
            self.groups,
            sticky=self.timed.sticky,
            score=lambda ready: self.spoken.score(ready, recursing=bool(ready.book.recursion)),
            seed=self.seed,
            turn=self.turn,
        )
        self.held |= {held.entry: msgspec.structs.replace(held, why=reasons[held.entry]) for held in lost}
        fresh = []
        for ready in left:
            held = self._unlucky(ready) or self._too_dear(ready)
            if held is not None:
                self.settled.add(ready.entry.id)
                self.held[ready.entry.id] = msgspec.structs.replace(held, why=reasons[ready.entry.id])
                continue
            self._tell(ready, reasons[ready.entry.id])
            if ready.book.recursion and not ready.entry.prevent_recursion:
                fresh.append(ready)
        return fresh

    def _unlucky(self, ready: PreparedEntry) -> LoreExclusion | None:
        entry = ready.entry
        if entry.probability == 1.0 or entry.id in self.timed.sticky:
            return None
        rolled = roll(self.seed, entry.id, self.turn)
        if rolled < entry.probability:
            return None
        detail = f"rolled {rolled:.2f}, and is told below {entry.probability:.2f}"
        return LoreExclusion(entry=entry.id, reason="probability", detail=detail)

    def _too_dear(self, ready: PreparedEntry) -> LoreExclusion | None:
        """Hold back what does not fit into what its book has left; smaller ones behind it may still."""
        entry, budget = ready.entry, ready.book.budget
        if budget is None or entry.ignore_budget:
            return None
        cost, spent = self.tokens(entry), self.spent.get(ready.book.id, 0)
        if spent + cost <= budget:
            self.spent[ready.book.id] = spent + cost
            return None
        detail = f"{cost:,} tokens, and its book has {budget - spent:,} of {budget:,} left"
        return LoreExclusion(entry=entry.id, reason="budget", detail=detail)

    def _tell(self, ready: PreparedEntry, why: ActivationReason) -> None:
        id = ready.entry.id
        self.told[id] = ActivatedEntry(entry=ready.entry, text=ready.text, why=why)
        self.held.pop(id, None)
        self.groups |= dict.fromkeys(ready.entry.groups, id)

    # -- what is said of it ------------------------------------------------------------------------------------------

    def _held_back(self) -> tuple[LoreExclusion, ...]:
        patterns = self.shelf.finder.patterns
        for number, text in patterns.hung.items():
            for id in self.shelf.owners.get(number, ()):
                if id not in self.told and id not in self.held:
                    self.held[id] = LoreExclusion(
                        entry=id, reason="pattern", detail=f"its pattern {text!r} took too long"
                    )
        unfit = {id: held for id, held in self.unfit.items() if id not in self.told}
        self.held = unfit | self.held
        return tuple(self.held[id] for id in sorted(self.held))

    def _notices(self) -> Iterator[Notice]:
        lost = [held.entry for held in self.held.values() if held.reason == "budget" and _is_constant(held)]
        for id in sorted(lost):
            detail = self.held[id].detail
            yield Notice(
                kind="lore-dropped",
                text=f"always-on lorebook entry {id!r} did not fit: {detail}",
                facts={"entry": id},
            )
        if self.shelf.finder.patterns.exhausted:
            yield Notice(kind="lore-timeout", text="lorebook patterns took too long: the rest were not searched for")


def _scans_activated(ready: PreparedEntry, number: int) -> bool:
    """Say whether what was told is looked through for an entry in a round."""
    return 0 < number <= ready.book.recursion and not ready.entry.exclude_recursion


def _is_constant(held: LoreExclusion) -> bool:
    return held.why is not None and held.why.by in ("constant", "decorator")
