"""The stages in order: dedupe, allocate, line up, fill (substitute, trim, lend), arrange, render, verify, record."""

from collections.abc import Sequence

import msgspec

from brimful.core.arrange import previous_mark
from brimful.core.budget import ContextBudget
from brimful.core.context import Component, Context, Inputs
from brimful.core.decision import Decision
from brimful.core.explain import COMPONENTS
from brimful.core.pile import Filled, Pile, prepare
from brimful.core.tokens import TokenCounter
from brimful.core.verify import Renderer
from brimful.core.warning import warnings_of


def assemble(inputs: Inputs, *, counter: TokenCounter, renderer: Renderer) -> Context:
    """Build the context that these inputs give. Pure: equal inputs give an equal context, byte for byte."""
    return poured(prepare(inputs, counter=counter, renderer=renderer))


def poured(pile: Pile) -> Context:
    """Build the context of candidates that are ready, for the window and the reserve that their inputs name."""
    budget = pile.budget(pile.inputs.window)
    done = pile.filled(budget)
    return _record(pile, budget, done, [*pile.decided, *done.selection.decisions])


def _record(pile: Pile, budget: ContextBudget, done: Filled, decisions: Sequence[Decision]) -> Context:
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
        history=previous_mark(done.selection),
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
