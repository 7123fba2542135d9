"""Which entries are told now, and why: looked for, looked for again in what is told, and chosen.

spoken of → allowed (persona, delay, cooldown, recursion) → groups → chance → the book's budget → told
↑                                                                                             │
└──────────────────────── what is told may speak of more (recursion) ─────────────────────────┘
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from brimful.lore.chance import roll
from brimful.lore.groups import winners
from brimful.lore.scene import Spoken, Turn
from brimful.lore.shelf import Ready, Shelf
from brimful.lore.timed import Timed
from brimful.lore.why import Held, Why
from brimful.lorebook import LoreEntry, Source

NORMAL: Final = "normal"  # what every build is, of the occasions for which SillyTavern may want an entry

Tokens = Callable[[LoreEntry], int]


class Who(msgspec.Struct, frozen=True, kw_only=True):
    """Who answers: its names and tags, by which entries choose, and texts about it that they may look into."""

    names: frozenset[str] = frozenset()
    tags: frozenset[str] = frozenset()
    sources: dict[Source, str] = {}


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """An entry that is told, with what is told of it: its text without decorators."""

    entry: LoreEntry
    text: str
    why: Why


class Activation(msgspec.Struct, frozen=True, kw_only=True):
    """What is told, by order, what was held back though it was spoken of, and what went wrong."""

    told: tuple[Told, ...] = ()
    held: tuple[Held, ...] = ()
    notes: tuple[str, ...] = ()


def activate(
    shelf: Shelf,
    turns: Sequence[Turn],
    *,
    seed: str,
    tokens: Tokens,
    who: Who = Who(),  # noqa: B008 - frozen
    found: Mapping[str, float] = {},
) -> Activation:
    """Return the entries that are told at the newest of these turns, which come the newest first.

    `seed` (the room) makes chance the same whenever a turn is built. `found` are entries that retrieval brought, with
    their relevance; they bring no others along. Turns before the newest tell which entries are sticky or cool down.
    """
    timed = Timed()
    past = [at for at in range(1, len(turns)) if turns[at].asks] if shelf.timed else []
    for at in reversed(past):
        before = _Telling(shelf, turns[at:], timed, seed, tokens, who)
        if before.spoken.stirs():
            timed.told(turns[at].number, [told.entry for told in before.run({}).told])
    return _Telling(shelf, turns, timed, seed, tokens, who).run(found)


class _Telling:
    """One turn: what is told so far, what was held back, and what each book has left."""

    def __init__(self, shelf: Shelf, turns: Sequence[Turn], timed: Timed, seed: str, tokens: Tokens, who: Who) -> None:
        self.shelf = shelf
        self.timed = timed
        self.seed = seed
        self.tokens = tokens
        self.who = who
        self.turn = turns[0].number if turns else 0
        self.spoken = Spoken(shelf, turns, who.sources)
        self.told: dict[str, Told] = {}
        self.held: dict[str, Held] = {}
        self.unfit: dict[str, Held] = {}  # by other keys, for now: one that is told later may bring them
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
        return Activation(told=tuple(ordered), held=self._held_back(), notes=tuple(self._notes()))

    # -- who is spoken of --------------------------------------------------------------------------------------------

    def _spoken_of(self, number: int, level: int) -> dict[str, Why]:
        """Return the entries that may be told in a round, and why; those that may not are held back."""
        ids = {*self.shelf.always, *self.timed.sticky, *self.spoken.candidates(recursing=number > 0)}
        reasons: dict[str, Why] = {}
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

    def _note_unfit(self, ready: Ready, number: int) -> None:
        held = self.spoken.objection(ready, recursing=_recursing(ready, number))
        if held is not None:
            self.unfit[ready.entry.id] = held

    def _why(self, ready: Ready, number: int) -> Why | None:
        entry = ready.entry
        if ready.decorators.activate:
            return Why(by="decorator")
        if entry.constant:
            return Why(by="constant")
        if entry.id in self.timed.sticky:
            return Why(by="sticky", until=self.timed.sticky[entry.id])
        return self.spoken.why(ready, recursing=_recursing(ready, number))

    def _forbidden(self, ready: Ready, number: int, level: int) -> Held | None:
        """Return why an entry that is spoken of may not be told in this round; None if it may."""
        entry = ready.entry
        sticky = entry.id in self.timed.sticky
        if not self._is_for_whom(entry):
            return Held(entry=entry.id, reason="persona", detail="it is for others than the persona that answers")
        if entry.triggers and NORMAL not in entry.triggers:
            return Held(entry=entry.id, reason="persona", detail=f"it is for {', '.join(entry.triggers)} alone")
        if self.turn < entry.delay:
            return Held(entry=entry.id, reason="delay", detail=f"not before message {entry.delay:,}")
        if not sticky and entry.id in self.timed.cooling:
            until = self.timed.cooling[entry.id]
            return Held(entry=entry.id, reason="cooldown", detail=f"not before message {until:,}")
        if not sticky and entry.delay_until_recursion and (number == 0 or entry.delay_until_recursion > level):
            return Held(entry=entry.id, reason="recursion", detail="it waits for others to be told first")
        return None

    def _is_for_whom(self, entry: LoreEntry) -> bool:
        if entry.personas and self.who.names.isdisjoint(entry.personas) is not entry.exclude_personas:
            return False
        if entry.tags and self.who.tags:
            return self.who.tags.isdisjoint(entry.tags) is entry.exclude_personas
        return True

    def _found(self, found: Mapping[str, float]) -> dict[str, Why]:
        """Return what retrieval found and nobody spoke of."""
        reasons: dict[str, Why] = {}
        for id, relevance in found.items():
            ready = self.shelf.entries.get(id)
            if ready is None or not ready.entry.vector or id in self.told or id in self.held:
                continue
            why = Why(by="found", relevance=relevance)
            held = self._forbidden(ready, self.shelf.rounds, max(self.shelf.levels, default=0))
            if held is None:
                reasons[id] = why
            else:
                self.held[id] = msgspec.structs.replace(held, why=why)
        return reasons

    # -- who is told -------------------------------------------------------------------------------------------------

    def _round(self, reasons: Mapping[str, Why]) -> list[Ready]:
        """Choose among those that may be told, and return those whose texts may speak of more."""
        candidates = sorted(
            (self.shelf.entries[id] for id in reasons),
            key=lambda ready: (ready.entry.id not in self.timed.sticky, ready.rank),
        )
        left, lost = winners(
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

    def _unlucky(self, ready: Ready) -> Held | None:
        entry = ready.entry
        if entry.probability == 1.0 or entry.id in self.timed.sticky:
            return None
        rolled = roll(self.seed, entry.id, self.turn)
        if rolled < entry.probability:
            return None
        detail = f"rolled {rolled:.2f}, and is told below {entry.probability:.2f}"
        return Held(entry=entry.id, reason="probability", detail=detail)

    def _too_dear(self, ready: Ready) -> Held | None:
        """Hold back what does not fit into what its book has left; smaller ones behind it may still."""
        entry, budget = ready.entry, ready.book.budget
        if budget is None or entry.ignore_budget:
            return None
        cost, spent = self.tokens(entry), self.spent.get(ready.book.id, 0)
        if spent + cost <= budget:
            self.spent[ready.book.id] = spent + cost
            return None
        detail = f"{cost:,} tokens, and its book has {budget - spent:,} of {budget:,} left"
        return Held(entry=entry.id, reason="budget", detail=detail)

    def _tell(self, ready: Ready, why: Why) -> None:
        id = ready.entry.id
        self.told[id] = Told(entry=ready.entry, text=ready.text, why=why)
        self.held.pop(id, None)
        self.groups |= dict.fromkeys(ready.entry.groups, id)

    # -- what is said of it ------------------------------------------------------------------------------------------

    def _held_back(self) -> tuple[Held, ...]:
        patterns = self.shelf.finder.patterns
        for number, text in patterns.hung.items():
            for id in self.shelf.owners.get(number, ()):
                if id not in self.told and id not in self.held:
                    self.held[id] = Held(entry=id, reason="pattern", detail=f"its pattern {text!r} took too long")
        unfit = {id: held for id, held in self.unfit.items() if id not in self.told}
        self.held = unfit | self.held
        return tuple(self.held[id] for id in sorted(self.held))

    def _notes(self) -> list[str]:
        lost = [held.entry for held in self.held.values() if held.reason == "budget" and _is_constant(held)]
        notes = [f"⚠️  Lore {id!r} is always to be told, and was not: {self.held[id].detail}" for id in sorted(lost)]
        if self.shelf.finder.patterns.exhausted:
            notes.append("⚠️  Patterns of lorebooks took too long: further ones were not searched for")
        return notes


def _recursing(ready: Ready, number: int) -> bool:
    """Say whether what was told is looked through for an entry in a round."""
    return 0 < number <= ready.book.recursion and not ready.entry.exclude_recursion


def _is_constant(held: Held) -> bool:
    return held.why is not None and held.why.by in ("constant", "decorator")
