"""`brimful policies`: the named ways to fill a window, and the numbers each of them gives for a model."""

import os
from collections.abc import Iterator
from typing import Annotated, Final

import typer

from brimful.assembly import budget as budget_of
from brimful.cli import output
from brimful.cli.options import DEFAULT_MODEL, Json, Model, complete_policy, known_model
from brimful.cli.table import Table, columns
from brimful.core.budget import ContextBudget
from brimful.core.policy import Policy, Pool, Step, Weights
from brimful.policies import load_policy, policy_names

EXAMPLES: Final = """\
Examples:
  brimful policies
  brimful policies window --model gpt-4
  brimful policies ./mine.toml --json"""

PARTS: Final = ("priority", "importance", "relevance", "recency")
_COLUMNS: Final = columns(
    *("pool", "limit", "order", "least", "most", "kinds", "rules"),
    right=("limit", "least", "most"),
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("policies", epilog=EXAMPLES)(policies)


def policies(
    *,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME|FILE.toml]", help="One policy, in numbers.", autocompletion=complete_policy),
    ] = None,
    model: Model = DEFAULT_MODEL,
    as_json: Json = False,
) -> None:
    """List the policies, or show one of them: its pools, and their tokens for a model."""
    if name is not None:
        policy = load_policy(name, environ=os.environ)
        divided = budget_of(model=known_model(model), policy=policy)
        if as_json:
            output.show_json({"policy": policy, "budget": {"reserved": divided.reserved, **_data(divided)}})
        else:
            _show(policy, divided)
        return
    all_of_them = [load_policy(known) for known in policy_names()]
    if as_json:
        output.show_json([{"name": policy.name, "description": policy.description} for policy in all_of_them])
    else:
        rows = [[policy.name, policy.description] for policy in all_of_them]
        output.show_table(Table(columns("policy", "description"), rows))


def _show(policy: Policy, divided: ContextBudget) -> None:
    output.show_facts(_facts(policy, divided))
    output.say()
    output.show_table(Table(_COLUMNS, [_row(pool, divided) for pool in policy.pools]))


def _formula(weights: Weights) -> str:
    alone = weights.relevance_multiplies
    added = [f"{getattr(weights, part):g} {part}" for part in PARTS if not (alone and part == "relevance")]
    return f"relevance × ({' + '.join(added)})" if alone else " + ".join(added)


def _facts(policy: Policy, divided: ContextBudget) -> Iterator[tuple[str, str]]:
    yield "policy", policy.name
    yield "description", policy.description
    yield "model", divided.model
    yield "window", f"{divided.window:,}"
    yield "completion", f"{divided.completion:,}"
    yield "safety margin", f"{divided.margin:,}"
    yield "available", f"{divided.available:,}"
    yield "score", _formula(policy.weights)
    yield "recency", f"exp(−days / {policy.weights.recency_days:g})"
    yield "counting", policy.counting
    yield "trim", ", then ".join(map(_step, policy.trim))
    yield "related stands", policy.layout.related


def _row(pool: Pool, divided: ContextBudget) -> list[str]:
    numbers = [output.number(pool.least or None), output.number(pool.most)]
    return [pool.name, f"{divided.limit(pool.name):,}", pool.order, *numbers, ", ".join(pool.kinds), _rules(pool)]


def _rules(pool: Pool) -> str:
    said = {
        "pinned": pool.pinned is True,
        "not pinned": pool.pinned is False,
        "contiguous": pool.contiguous,
        "best set": pool.optimize,
        "borrows": pool.borrow,
        "summarizes": pool.summarize,
        f"trims to {pool.low_water or 0:.0%}": pool.low_water is not None,
    }
    return ", ".join(rule for rule, holds in said.items() if holds)


def _step(step: Step) -> str:
    below = "" if step.below is None else f" below {step.below:g}"
    return f"drop {step.drop}{below}" if step.drop else f"summarize {step.summarize}"


def _data(divided: ContextBudget) -> dict[str, object]:
    return {name: getattr(divided, name) for name in divided.__struct_fields__}
