"""The stages of assembly in order: dedupe, allocate, fill, arrange, render, verify, record."""

from collections.abc import Callable, Sequence

import msgspec

from brimful.core.arrange import arrange, find_history_start
from brimful.core.budget import ContextBudget, allocate
from brimful.core.context import Component, Context, Inputs, make_id_function
from brimful.core.cost import base_cost, make_cost_function, make_heading_function, recount
from brimful.core.decision import Decision
from brimful.core.dedupe import canonical_order, dedupe_by_id
from brimful.core.exclusions import replace_unsupported_media, split_excluded
from brimful.core.explain import COMPONENTS
from brimful.core.fill import fill
from brimful.core.forms import make_shrinker
from brimful.core.notice import warnings_of
from brimful.core.prompt import Prompt, Request
from brimful.core.queues import Queues, make_queues
from brimful.core.selection import BaseCost, Selection
from brimful.core.tokens import TokenCounter
from brimful.core.units import make_units
from brimful.core.verify import Renderer, Verification, verify
from brimful.errors import BudgetExceeded

_MAX_ROUNDS = 12  # one is the rule, two where a template joins what was counted apart
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


class Candidates(msgspec.Struct, frozen=True, kw_only=True):
    """The candidates of some inputs, lined up: the same whatever the window.

    `decided` are those that no fill can let in. `foreseen` is what a request of theirs costs beside them. `name` tells
    the id of a context of theirs.
    """

    inputs: Inputs
    lineup: Queues
    decided: tuple[Decision, ...]
    foreseen: BaseCost
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

        def attempt(base: BaseCost, rounds: int) -> Filled:
            return self._attempt(budget, base, rounds)

        return _fill_until_verified(attempt, self.foreseen, budget)

    def _attempt(self, budget: ContextBudget, base: BaseCost, rounds: int) -> Filled:
        selection = self._selected(budget, base)
        prompt = _arrange(selection, self.inputs, budget)
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

    def _selected(self, budget: ContextBudget, base: BaseCost) -> Selection:
        inputs = self.inputs
        return fill(
            self.lineup,
            inputs.policy,
            budget,
            base=base,
            shrink=make_shrinker(self.counter),
            previous=inputs.previous,
        )


def prepare(inputs: Inputs, *, counter: TokenCounter, renderer: Renderer) -> Candidates:
    """Make candidates ready for a fill: one of each, counted for this model, bound into units, each in its queue."""
    inputs = msgspec.structs.replace(inputs, packages=tuple(canonical_order(inputs.packages)))
    candidates, duplicates = dedupe_by_id(inputs.packages, inputs.policy)
    candidates, held = split_excluded(candidates)
    candidates, unseen = replace_unsupported_media(candidates, inputs.model, renderer)
    candidates = recount(candidates, counter)
    cost_of = make_cost_function(counter, names_in_text=renderer.names_in_text or inputs.model.names_in_text)
    units, refused = make_units(candidates, inputs.policy, cost_of, make_heading_function(counter), inputs.now)
    required = [package for package in candidates if not package.flex.can_drop]
    return Candidates(
        inputs=inputs,
        lineup=make_queues(units, inputs.policy),
        decided=(*duplicates, *held, *unseen, *refused),
        foreseen=BaseCost(
            full=base_cost(candidates, inputs.tools, inputs.model.id, counter),
            required=base_cost(required, inputs.tools, inputs.model.id, counter),
        ),
        name=make_id_function(inputs.packages),
        counter=counter,
        renderer=renderer,
    )


def _fill_until_verified(attempt: Callable[[BaseCost, int], Filled], base: BaseCost, budget: ContextBudget) -> Filled:
    """Fill until the whole fits, and again if the parts were counted so high that there is room left.

    What the whole costs beyond the plan is added to the base of the next round, so every round comes closer.
    """
    done = attempt(base, 1)
    while done.over(budget):
        if done.verification.rounds == _MAX_ROUNDS:
            raise _unverified_error(done)
        base = _raise_base(base, done)
        done = attempt(base, done.verification.rounds + 1)
    return _use_spare_room(attempt, base, budget, done) if _has_waiting(done.selection) else done


def _use_spare_room(
    attempt: Callable[[BaseCost, int], Filled], base: BaseCost, budget: ContextBudget, done: Filled
) -> Filled:
    """Plan with less for the base, as long as that fits: what was counted too high makes room for more."""
    best, rounds = done, done.verification.rounds
    fitting, too_much, more = 0, None, _estimate_spare(done, base)
    while more - fitting > _WORTH_A_ROUND * budget.available and rounds < _MAX_ROUNDS:
        rounds += 1
        tried = attempt(BaseCost(full=base.full - more, required=base.required), rounds)
        if tried.over(budget):
            too_much = more
        else:
            fitting, best = more, max(best, tried, key=lambda one: one.verification.tokens)
        more = fitting + _estimate_spare(best, base) if too_much is None else (fitting + too_much) // 2
    return best


def _estimate_spare(done: Filled, base: BaseCost) -> int:
    """Guess how much more can be planned: content will go on to cost as much for each planned token as it did."""
    planned = done.selection.used - base.full
    return -done.surprise * planned // max(1, done.verification.tokens)


def _raise_base(base: BaseCost, done: Filled) -> BaseCost:
    """Charge what was not foreseen to whatever may still give way: optional content first, then what may shrink."""
    if done.selection.optional:
        return BaseCost(full=base.full + done.surprise, required=base.required)
    return BaseCost(full=base.full + done.surprise, required=base.required + done.surprise)


def _has_waiting(selection: Selection) -> bool:
    """Say whether anything stayed out only for want of room."""
    return any(decision.reason in ("pool-full", "window-full", "older", "trimmed") for decision in selection.decisions)


def _unverified_error(done: Filled) -> BudgetExceeded:
    return BudgetExceeded(
        needed=done.verification.tokens,
        limit=done.verification.limit,
        required=[(unit.key, unit.cost) for unit in done.selection.units],
        where=f"the request counts {done.surprise:,} tokens more than its parts, round after round",
    )


def _arrange(selection: Selection, inputs: Inputs, budget: ContextBudget) -> Prompt:
    return arrange(
        selection,
        model=inputs.model,
        tools=inputs.tools,
        max_output=budget.completion,
        layout=inputs.policy.layout,
    )


def assemble(inputs: Inputs, *, counter: TokenCounter, renderer: Renderer) -> Context:
    """Build the context that these inputs give. Pure: equal inputs give an equal context, byte for byte."""
    return assemble_candidates(prepare(inputs, counter=counter, renderer=renderer))


def assemble_candidates(pile: Candidates) -> Context:
    """Build the context of candidates that are ready, for the window and the reserve that their inputs name."""
    budget = pile.budget(pile.inputs.window)
    done = pile.filled(budget)
    return _record(pile, budget, done, [*pile.decided, *done.selection.decisions])


def _record(pile: Candidates, budget: ContextBudget, done: Filled, decisions: Sequence[Decision]) -> Context:
    verification = done.verification
    components = _components(decisions, verification.tokens)
    context = Context(
        id=pile.name(pile.inputs),
        inputs=pile.inputs,
        budget=budget,
        pools=done.selection.pools,
        components=components,
        decisions=tuple(decisions),
        verification=verification,
        request=done.request,
        history=find_history_start(done.selection),
        warnings=(),
    )
    return msgspec.structs.replace(context, warnings=tuple(warnings_of(context)))


def _components(decisions: Sequence[Decision], whole: int) -> tuple[Component, ...]:
    """Sum what is in by component. `format` is what the request costs beside its packages, so that all adds up."""
    tokens: dict[str, int] = dict.fromkeys(("system", "memories", "recent", "media", "current"), 0)
    items = dict(tokens)
    for decision in decisions:
        if decision.included:
            name = COMPONENTS.get(decision.kind, decision.kind)
            tokens[name] = tokens.get(name, 0) + decision.cost
            items[name] = items.get(name, 0) + 1
    tokens = _scale_to_total(tokens, whole)
    rows = [Component(name=name, tokens=tokens[name], items=items[name]) for name in tokens]
    return (*rows, Component(name="format", tokens=whole - sum(tokens.values()), items=0))


def _scale_to_total(tokens: dict[str, int], whole: int) -> dict[str, int]:
    """Return what each component takes of the whole: where parts, counted one by one, came to more, each its share."""
    total = sum(tokens.values())
    if total <= whole:
        return tokens
    taken, ends = 0, []
    for count in tokens.values():
        taken += count
        ends.append(taken * whole // total)
    return {name: end - start for name, start, end in zip(tokens, [0, *ends], ends, strict=False)}
