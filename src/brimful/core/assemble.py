"""The stages in order: dedupe, allocate, line up, fill (substitute, trim, lend), arrange, render, verify, record."""

from collections.abc import Callable, Sequence

import msgspec

from brimful.core.arrange import arrange, previous_mark
from brimful.core.budget import ContextBudget, allocate
from brimful.core.context import Component, Context, Inputs, context_id
from brimful.core.cost import base_cost, cost_in_place, recounted
from brimful.core.decision import Decision
from brimful.core.dedupe import canonical_order, same_id
from brimful.core.explain import COMPONENTS
from brimful.core.fill import fill
from brimful.core.lineup import line_up
from brimful.core.modality import perceivable
from brimful.core.prompt import Prompt, Request
from brimful.core.selection import Base, Selection
from brimful.core.shrink import shrinker
from brimful.core.tokens import TokenCounter
from brimful.core.unit import make_units
from brimful.core.verify import Renderer, Verification, verify
from brimful.errors import BudgetExceeded

NEARLY_FULL = 80  # percent of the window; the seeds warn above it
_MOST_ROUNDS = 12  # one is the rule, two where a template joins what was counted apart
_WORTH_A_ROUND = 0.005  # of the budget: room that turned out to be left


class _Attempt(msgspec.Struct, frozen=True):
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


def assemble(inputs: Inputs, *, counter: TokenCounter, renderer: Renderer) -> Context:
    """Build the context that these inputs give. Pure: equal inputs give an equal context, byte for byte."""
    inputs = msgspec.structs.replace(inputs, packages=tuple(canonical_order(inputs.packages)))
    budget = allocate(inputs.policy, inputs.model, window=inputs.window, completion=inputs.completion)
    candidates, duplicates = same_id(inputs.packages, inputs.policy)
    candidates, unseen = perceivable(candidates, inputs.model, renderer)
    candidates = recounted(candidates, counter)
    cost_of = cost_in_place(counter, names_in_text=renderer.names_in_text or inputs.model.names_in_text)
    units, refused = make_units(candidates, inputs.policy, cost_of, inputs.now)
    lineup = line_up(units, inputs.policy)
    required = [package for package in candidates if not package.flex.can_drop]
    foreseen = Base(
        full=base_cost(candidates, inputs.tools, inputs.model.id, counter),
        required=base_cost(required, inputs.tools, inputs.model.id, counter),
    )

    def attempt(base: Base, rounds: int) -> _Attempt:
        selection = fill(lineup, inputs.policy, budget, base=base, shrink=shrinker(counter), previous=inputs.previous)
        prompt = _arranged(selection, inputs, budget)
        request = renderer.render(prompt, window=budget.window)
        planned = base.full if selection.optional else base.required
        expected = foreseen.full if selection.optional else foreseen.required
        parts = selection.used - planned + expected
        verification = verify(request, prompt, renderer, counter, limit=budget.hard_limit, parts=parts, rounds=rounds)
        return _Attempt(selection, request, verification)

    done = _to_the_brim(attempt, foreseen, budget)
    return _record(inputs, budget, done, [*duplicates, *unseen, *refused, *done.selection.decisions])


def _to_the_brim(attempt: Callable[[Base, int], _Attempt], base: Base, budget: ContextBudget) -> _Attempt:
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


def _fuller(attempt: Callable[[Base, int], _Attempt], base: Base, budget: ContextBudget, done: _Attempt) -> _Attempt:
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


def _spare(done: _Attempt, base: Base) -> int:
    """Guess how much more can be planned: content will go on to cost as much for each planned token as it did."""
    planned = done.selection.used - base.full
    return -done.surprise * planned // max(1, done.verification.tokens)


def _dearer(base: Base, done: _Attempt) -> Base:
    """Charge what was not foreseen to whatever may still give way: optional content first, then what may shrink."""
    if done.selection.optional:
        return Base(full=base.full + done.surprise, required=base.required)
    return Base(full=base.full + done.surprise, required=base.required + done.surprise)


def _wanted(selection: Selection) -> bool:
    """Say whether anything stayed out only for want of room."""
    return any(decision.reason in ("pool-full", "window-full", "older", "trimmed") for decision in selection.decisions)


def _unverified(done: _Attempt) -> BudgetExceeded:
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


def _record(inputs: Inputs, budget: ContextBudget, done: _Attempt, decisions: Sequence[Decision]) -> Context:
    verification = done.verification
    components = _components(decisions, verification.tokens)
    context = Context(
        id=context_id(inputs),
        inputs=inputs,
        budget=budget,
        pools=done.selection.pools,
        components=components,
        decisions=tuple(decisions),
        verification=verification,
        request=done.request,
        history=previous_mark(done.selection),
        warnings=(),
    )
    return msgspec.structs.replace(context, warnings=tuple(_warnings(context)))


def _components(decisions: Sequence[Decision], whole: int) -> tuple[Component, ...]:
    """Sum what is in by component. `format` is what the request costs beside its packages, so that all adds up."""
    tokens: dict[str, int] = dict.fromkeys(("system", "memories", "recent", "media", "current"), 0)
    items = dict(tokens)
    for decision in decisions:
        if decision.included:
            name = COMPONENTS.get(decision.kind, decision.kind)
            tokens[name] = tokens.get(name, 0) + decision.cost
            items[name] = items.get(name, 0) + 1
    tokens = _within(tokens, whole)
    rows = [Component(name=name, tokens=tokens[name], items=items[name]) for name in tokens]
    return (*rows, Component(name="format", tokens=whole - sum(tokens.values()), items=0))


def _within(tokens: dict[str, int], whole: int) -> dict[str, int]:
    """Return what each component takes of the whole: where parts, counted one by one, came to more, each its share."""
    total = sum(tokens.values())
    if total <= whole:
        return tokens
    taken, ends = 0, []
    for count in tokens.values():
        taken += count
        ends.append(taken * whole // total)
    return {name: end - start for name, start, end in zip(tokens, [0, *ends], ends, strict=False)}


def _warnings(context: Context) -> list[str]:
    warnings = list(context.inputs.degraded)
    if not context.inputs.model.known:
        window = context.budget.window
        warnings.append(f"⚠️  Unknown model {context.inputs.model.id!r}: assuming a window of {window:,} tokens")
    if context.remaining < 0:
        warnings.append(f"⚠️  {-context.remaining:,} tokens of the safety margin are in use")
    if context.percent > NEARLY_FULL:
        warnings.append(f"⚠️  Using {context.percent:.1f}% of context window (>80%)")
    if not context.component("memories").items:
        warnings.append("ℹ️  No memories in this context")
    if context.verification.basis != "exact":
        warnings.append(f"ℹ️  Token counts are {context.verification.basis}, not exact")
    return warnings
