"""Candidates made ready, and filled to the brim: what a window changes is apart from what it does not."""

from collections.abc import Callable

import msgspec

from brimful.core.arrange import arrange
from brimful.core.budget import ContextBudget, allocate
from brimful.core.context import Inputs, naming
from brimful.core.cost import base_cost, cost_in_place, heading_in_place, recounted
from brimful.core.decision import Decision
from brimful.core.dedupe import canonical_order, same_id
from brimful.core.fill import fill
from brimful.core.held import held_back
from brimful.core.lineup import Lineup, line_up
from brimful.core.modality import perceivable
from brimful.core.prompt import Prompt, Request
from brimful.core.selection import Base, Selection
from brimful.core.shrink import shrinker
from brimful.core.tokens import TokenCounter
from brimful.core.unit import make_units
from brimful.core.verify import Renderer, Verification, verify
from brimful.errors import BudgetExceeded

_MOST_ROUNDS = 12  # one is the rule, two where a template joins what was counted apart
_WORTH_A_ROUND = 0.005  # of the budget: room that turned out to be left


class Filled(msgspec.Struct, frozen=True):
    """One fill, written out and counted as a whole."""

    selection: Selection
    request: Request
    verification: Verification

    @property
    def surprise(self) -> int:
        """What the whole costs beyond what the fill planned with; negative if it planned with too much."""
        return self.verification.tokens - self.selection.used

    def over(self, budget: ContextBudget) -> bool:
        """Whether it takes more than it may: the safety margin is for what was planned to need it, and nothing else."""
        planned = budget.hard_limit if self.selection.used > budget.available else budget.available
        return self.verification.tokens > planned


class Pile(msgspec.Struct, frozen=True, kw_only=True):
    """The candidates of some inputs, lined up: the same whatever the window.

    `decided` are those that no fill can let in. `foreseen` is what a request of theirs costs beside them. `name` tells
    the id of a context of theirs.
    """

    inputs: Inputs
    lineup: Lineup
    decided: tuple[Decision, ...]
    foreseen: Base
    name: Callable[[Inputs], str]
    counter: TokenCounter
    renderer: Renderer

    def budget(self, window: int | None) -> ContextBudget:
        """Divide a window, or the inputs' own."""
        inputs = self.inputs
        chosen = inputs.window if window is None else window
        return allocate(inputs.policy, inputs.model, window=chosen, completion=inputs.completion)

    def planned(self, window: int) -> Selection:
        """Return what a window would hold by the counts of the parts alone: not written out, and so not verified."""
        return self._selected(self.budget(window), self.foreseen)

    def filled(self, budget: ContextBudget) -> Filled:
        """Fill a window to the brim, written out and verified."""

        def attempt(base: Base, rounds: int) -> Filled:
            return self._attempt(budget, base, rounds)

        return _to_the_brim(attempt, self.foreseen, budget)

    def _attempt(self, budget: ContextBudget, base: Base, rounds: int) -> Filled:
        selection = self._selected(budget, base)
        prompt = _arranged(selection, self.inputs, budget)
        request = self.renderer.render(prompt, window=budget.window)
        planned = base.full if selection.optional else base.required
        expected = self.foreseen.full if selection.optional else self.foreseen.required
        verification = verify(
            request,
            prompt,
            self.renderer,
            self.counter,
            limit=budget.hard_limit,
            parts=selection.used - planned + expected,
            rounds=rounds,
        )
        return Filled(selection, request, verification)

    def _selected(self, budget: ContextBudget, base: Base) -> Selection:
        inputs = self.inputs
        return fill(
            self.lineup,
            inputs.policy,
            budget,
            base=base,
            shrink=shrinker(self.counter),
            previous=inputs.previous,
        )


def prepare(inputs: Inputs, *, counter: TokenCounter, renderer: Renderer) -> Pile:
    """Make candidates ready for a fill: one of each, counted for this model, bound into units, each in its queue."""
    inputs = msgspec.structs.replace(inputs, packages=tuple(canonical_order(inputs.packages)))
    candidates, duplicates = same_id(inputs.packages, inputs.policy)
    candidates, held = held_back(candidates)
    candidates, unseen = perceivable(candidates, inputs.model, renderer)
    candidates = recounted(candidates, counter)
    cost_of = cost_in_place(counter, names_in_text=renderer.names_in_text or inputs.model.names_in_text)
    units, refused = make_units(candidates, inputs.policy, cost_of, heading_in_place(counter), inputs.now)
    required = [package for package in candidates if not package.flex.can_drop]
    return Pile(
        inputs=inputs,
        lineup=line_up(units, inputs.policy),
        decided=(*duplicates, *held, *unseen, *refused),
        foreseen=Base(
            full=base_cost(candidates, inputs.tools, inputs.model.id, counter),
            required=base_cost(required, inputs.tools, inputs.model.id, counter),
        ),
        name=naming(inputs.packages),
        counter=counter,
        renderer=renderer,
    )


def _to_the_brim(attempt: Callable[[Base, int], Filled], base: Base, budget: ContextBudget) -> Filled:
    """Fill until the whole fits, and again if the parts were counted so high that there is room left.

    What the whole costs beyond the plan is added to the base of the next round, so every round comes closer.
    """
    done = attempt(base, 1)
    while done.over(budget):
        if done.verification.rounds == _MOST_ROUNDS:
            raise _unverified(done)
        base = _dearer(base, done)
        done = attempt(base, done.verification.rounds + 1)
    return _fuller(attempt, base, budget, done) if _wanted(done.selection) else done


def _fuller(attempt: Callable[[Base, int], Filled], base: Base, budget: ContextBudget, done: Filled) -> Filled:
    """Plan with less for the base, as long as that fits: what was counted too high makes room for more."""
    best, rounds = done, done.verification.rounds
    fitting, too_much, more = 0, None, _spare(done, base)
    while more - fitting > _WORTH_A_ROUND * budget.available and rounds < _MOST_ROUNDS:
        rounds += 1
        tried = attempt(Base(full=base.full - more, required=base.required), rounds)
        if tried.over(budget):
            too_much = more
        else:
            fitting, best = more, max(best, tried, key=lambda one: one.verification.tokens)
        more = fitting + _spare(best, base) if too_much is None else (fitting + too_much) // 2
    return best


def _spare(done: Filled, base: Base) -> int:
    """Guess how much more can be planned: content will go on to cost as much for each planned token as it did."""
    planned = done.selection.used - base.full
    return -done.surprise * planned // max(1, done.verification.tokens)


def _dearer(base: Base, done: Filled) -> Base:
    """Charge what was not foreseen to whatever may still give way: optional content first, then what may shrink."""
    if done.selection.optional:
        return Base(full=base.full + done.surprise, required=base.required)
    return Base(full=base.full + done.surprise, required=base.required + done.surprise)


def _wanted(selection: Selection) -> bool:
    """Say whether anything stayed out only for want of room."""
    return any(decision.reason in ("pool-full", "window-full", "older", "trimmed") for decision in selection.decisions)


def _unverified(done: Filled) -> BudgetExceeded:
    return BudgetExceeded(
        needed=done.verification.tokens,
        limit=done.verification.limit,
        required=[(unit.key, unit.cost) for unit in done.selection.units],
        where=f"the request counts {done.surprise:,} tokens more than its parts, round after round",
    )


def _arranged(selection: Selection, inputs: Inputs, budget: ContextBudget) -> Prompt:
    return arrange(
        selection,
        model=inputs.model,
        tools=inputs.tools,
        max_output=budget.completion,
        layout=inputs.policy.layout,
    )
