"""`brimful budget`: how a policy divides a model's window, and whether so many messages and memories would fit."""

from typing import Annotated, Final, Literal

import msgspec
import typer

from brimful.assembly import budget as budget_of
from brimful.cli import output
from brimful.cli.options import DEFAULT_MODEL, Completion, Json, Model, PolicyName, Settings, Window, known_model
from brimful.cli.options import overrides as read_overrides
from brimful.core.assemble import NEARLY_FULL
from brimful.core.budget import ContextBudget

EXAMPLES: Final = """\
Examples:
  brimful budget --model gpt-4 --policy window --completion 3000
  brimful budget -m qwen2.5:7b -p auction --messages 20 --memories 5 --images 2
  brimful budget -m gpt-4 -p window --json | jq .target_tokens"""

Status = Literal["healthy", "nearly full", "over budget"]


class Typical(msgspec.Struct, frozen=True):
    """What one item of a sort takes, before anything is counted."""

    title: str
    tokens: int


TYPICAL: Final = {
    "system": Typical("System Prompt", 1_200),
    "memories": Typical("Memories", 800),
    "messages": Typical("Messages", 400),
    "images": Typical("Images", 1_300),
}
"""Tokens an item. Source: the founding documents' sample of `rag/budget` (5 memories ~4,000, 20 messages ~8,000,
2 images ~2,600). For a dry run only: a fill counts."""


def _each(name: str) -> str:
    return f"{TYPICAL[name].title}, ~{TYPICAL[name].tokens:,} tokens each."


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """What all items of a sort would take."""

    name: str
    items: int
    tokens: int


class DryRun(msgspec.Struct, frozen=True, kw_only=True):
    """A budget, and estimates held against it."""

    budget: ContextBudget
    estimates: tuple[Estimate, ...]

    @property
    def total(self) -> int:
        """All estimates together."""
        return sum(estimate.tokens for estimate in self.estimates)

    @property
    def percent(self) -> float:
        """How much of the window they would take."""
        return 100 * self.total / self.budget.window

    @property
    def remaining(self) -> int:
        """Tokens that would be left; below zero if they do not fit."""
        return self.budget.available - self.total

    @property
    def status(self) -> Status:
        """How the budget would stand."""
        if self.remaining < 0 or not self.budget.available:
            return "over budget"
        return "nearly full" if self.percent > NEARLY_FULL else "healthy"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("budget", epilog=EXAMPLES)(budget)


def budget(  # noqa: PLR0913 - the options of a command
    *,
    model: Model = DEFAULT_MODEL,
    policy: PolicyName = "default",
    window: Window = None,
    completion: Completion = None,
    messages: Annotated[int, typer.Option(metavar="N", min=0, help=_each("messages"))] = 0,
    memories: Annotated[int, typer.Option(metavar="N", min=0, help=_each("memories"))] = 0,
    images: Annotated[int, typer.Option(metavar="N", min=0, help=_each("images"))] = 0,
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """Show how a policy divides a model's window, without building a context.

    With a number of messages, memories or images, estimate whether they fit
    beside a system prompt of ~1,200 tokens.
    """
    divided = budget_of(
        model=known_model(model),
        policy=policy,
        window=window,
        completion=completion,
        overrides=read_overrides(settings),
    )
    run = DryRun(budget=divided, estimates=estimate(messages=messages, memories=memories, images=images))
    if as_json:
        output.show_json(_data(run))
    else:
        _show(run)


def estimate(**items: int) -> tuple[Estimate, ...]:
    """Estimate what so many items of each sort take, with a system prompt if there are any at all.

    >>> [row.tokens for row in estimate(messages=20, memories=5, images=2)]
    [1200, 4000, 8000, 2600]
    """
    if not any(items.values()):
        return ()
    wanted = {"system": 1, **items}
    return tuple(
        Estimate(name=name, items=wanted[name], tokens=wanted[name] * typical.tokens)
        for name, typical in TYPICAL.items()
        if wanted.get(name)
    )


def _data(run: DryRun) -> dict[str, object]:
    divided = run.budget
    return {
        "model": divided.model,
        "policy": divided.policy,
        "window": divided.window,
        "completion": divided.completion,
        "margin": divided.margin,
        "reserved": divided.reserved,
        "available": divided.available,
        "hard_limit": divided.hard_limit,
        "pools": divided.pools,
        "target_tokens": run.budget.target_tokens,
        "estimates": run.estimates,
        "total": run.total,
        "percent": round(run.percent, 1),
        "remaining": run.remaining,
        "status": run.status,
    }


def _show(run: DryRun) -> None:
    divided = run.budget
    output.say(f"Budget of {divided.model} under policy {divided.policy}:")
    _show_rows(
        ("Window", f"{divided.window:,}"),
        ("Completion", f"{divided.completion:,}"),
        ("Safety Margin", f"{divided.margin:,}"),
        ("Available", f"{divided.available:,}"),
        *((f"  pool {pool.name}", f"{pool.limit:,}") for pool in divided.pools),
    )
    if run.estimates:
        output.say()
        output.say("Estimated Budget:")
        _show_rows(
            *((_title(estimate), f"~{estimate.tokens:,}") for estimate in run.estimates),
            ("Total", f"~{run.total:,}", f" ({run.percent:.1f}%)"),
            ("Reserved", f"{divided.reserved:,}"),
            ("Remaining", f"~{run.remaining:,}"),
        )
        output.say()
        output.say(_verdict(run))


def _show_rows(*rows: tuple[str, str] | tuple[str, str, str]) -> None:
    width = max(len(title) for title, *_ in rows)
    for title, tokens, *more in rows:
        output.say(f"  {title + ':':<{width + 1}} {tokens:>9} tokens{''.join(more)}")


def _title(estimate: Estimate) -> str:
    title = TYPICAL[estimate.name].title
    return title if estimate.name == "system" else f"{title} ({estimate.items:,})"


def _verdict(run: DryRun) -> str:
    match run.status:
        case "over budget":
            return f"⚠️  OVER BUDGET by {-run.remaining:,} tokens!"
        case "nearly full":
            return f"⚠️  Using {run.percent:.1f}% of context window (>{NEARLY_FULL}%)"
        case "healthy":
            return "✅ Budget looks healthy"
