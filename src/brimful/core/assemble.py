"""The stages in order: dedupe → allocate → fill (substitute, trim, lend) → arrange → render → verify → record."""

from collections.abc import Sequence

import msgspec

from brimful.core.arrange import arrange, previous_mark
from brimful.core.budget import ContextBudget, allocate
from brimful.core.context import Component, Context, Inputs, context_id
from brimful.core.cost import base_cost, recounted, surcharge
from brimful.core.decision import Decision
from brimful.core.dedupe import canonical_order, same_id
from brimful.core.explain import COMPONENTS
from brimful.core.fill import Selection, fill
from brimful.core.prompt import Prompt, Request
from brimful.core.shrink import shrinker
from brimful.core.tokens import TokenCounter
from brimful.core.unit import make_units
from brimful.core.verify import Renderer, Verification, verify
from brimful.errors import BudgetExceeded, InvalidRequest

NEARLY_FULL = 80  # percent of the window; the seeds warn above it
_MOST_ROUNDS = 12  # each round learns at least one token that the parts did not foresee; one or two are the rule


def assemble(inputs: Inputs, *, counter: TokenCounter, renderer: Renderer) -> Context:
    """Build the context that these inputs give. Pure: equal inputs give an equal context, byte for byte."""
    inputs = msgspec.structs.replace(inputs, packages=tuple(canonical_order(inputs.packages)))
    budget = allocate(inputs.policy, inputs.model, window=inputs.window, completion=inputs.completion)
    candidates, duplicates = same_id(inputs.packages, inputs.policy)
    counts = recounted(candidates, counter)
    candidates = [
        package if package.tokens is count else msgspec.structs.replace(package, tokens=count)
        for package, count in zip(candidates, counts, strict=True)
    ]
    around = surcharge(counter, names_in_text=renderer.names_in_text)
    units, refused = make_units(
        candidates, inputs.policy, lambda package: package.tokens.upper + around(package), inputs.now
    )
    base = base_cost(candidates, inputs.tools, inputs.model.id, counter)
    for rounds in range(1, _MOST_ROUNDS + 1):
        selection = fill(units, inputs.policy, budget, base=base, shrink=shrinker(counter), previous=inputs.previous)
        prompt = _arranged(selection, inputs, budget)
        request = _written(prompt, inputs, budget, renderer)
        verification = verify(
            request, prompt, renderer, counter, limit=budget.hard_limit, parts=selection.used, rounds=rounds
        )
        if verification.tokens <= verification.limit:
            decisions = (*duplicates, *refused, *selection.decisions)
            return _record(inputs, budget, selection, decisions, verification, request)
        base += max(1, verification.tokens - max(selection.used, verification.limit))
    raise BudgetExceeded(
        needed=verification.tokens,
        limit=budget.hard_limit,
        required=[(unit.key, unit.cost) for unit in selection.units],
        where=f"the request counts {verification.difference:,} tokens more than its parts",
    )


def _arranged(selection: Selection, inputs: Inputs, budget: ContextBudget) -> Prompt:
    return arrange(
        selection,
        model=inputs.model,
        tools=inputs.tools,
        max_output=budget.completion or None,
        layout=inputs.policy.layout,
    )


def _written(prompt: Prompt, inputs: Inputs, budget: ContextBudget, renderer: Renderer) -> Request:
    request = renderer.render(prompt, window=budget.window)
    violations = renderer.check(request)
    if violations:
        raise InvalidRequest(inputs.model.wire, violations)
    return request


def _record(
    inputs: Inputs,
    budget: ContextBudget,
    selection: Selection,
    decisions: Sequence[Decision],
    verification: Verification,
    request: Request,
) -> Context:
    components = _components(decisions, verification.tokens)
    context = Context(
        id=context_id(inputs),
        inputs=inputs,
        budget=budget,
        pools=selection.pools,
        components=components,
        decisions=tuple(sorted(decisions, key=lambda d: (d.id, d.outcome, d.reason, d.tokens))),
        verification=verification,
        request=request,
        history=previous_mark(selection),
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
    rows = [Component(name=name, tokens=tokens[name], items=items[name]) for name in tokens]
    return (*rows, Component(name="format", tokens=whole - sum(tokens.values()), items=0))


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
