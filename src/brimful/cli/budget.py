"""`brimful budget`: how a policy divides a model's window, and whether so many messages and memories would fit."""

import re
from typing import Annotated, Final, Literal

import msgspec
import typer

from brimful.assembly import budget as budget_of
from brimful.cli import output
from brimful.cli.options import DEFAULT_MODEL, Completion, Json, Model, PolicyName, Settings, Window, known_model
from brimful.cli.options import overrides as read_overrides
from brimful.core.budget import ContextBudget
from brimful.core.content import Media as MediaPart
from brimful.core.model import ModelInfo
from brimful.core.warning import NEARLY_FULL
from brimful.counting.media import ASSUMED_SIDE, MediaCounter

EXAMPLES: Final = """\
Examples:
  brimful budget --model gpt-4 --policy window --completion 3000
  brimful budget -m qwen2.5:7b -p auction --messages 20 --memories 5 --images 2
  brimful budget -m gpt-4o --images 10 --image-size 1920x1080
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
2 images ~2,600). For a dry run only: a fill counts. Images are so only where the model has no rule for them."""


def _each(name: str) -> str:
    return f"{TYPICAL[name].title}, ~{TYPICAL[name].tokens:,} tokens each."


class Size(msgspec.Struct, frozen=True):
    """An image's width and height in pixels."""

    width: int
    height: int

    def __str__(self) -> str:
        """Return it as the option takes it."""
        return f"{self.width}x{self.height}"


def read_size(text: str) -> Size:
    """Read the size of an image.

    >>> read_size("1920x1080")
    Size(width=1920, height=1080)
    """
    found = re.fullmatch(r"([1-9]\d{0,4})x([1-9]\d{0,4})", text, re.ASCII)
    if found is None:
        raise typer.BadParameter(f"{text!r} is no size in pixels, as 1920x1080 is", param_hint="'--image-size'")
    return Size(int(found[1]), int(found[2]))


class Estimate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What all items of a sort would take: by a typical item, or by the model's rule for images of some size."""

    name: str
    items: int
    tokens: int
    rule: str
    size: str = ""


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
    images: Annotated[int, typer.Option(metavar="N", min=0, help="Images, by the model's rule for their size.")] = 0,
    image_size: Annotated[
        str, typer.Option(metavar="WIDTHxHEIGHT", help="Pixels of each image.")
    ] = f"{ASSUMED_SIDE}x{ASSUMED_SIDE}",
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """Show how a policy divides a model's window, without building a context.

    With a number of messages, memories or images, estimate whether they fit
    beside a system prompt of ~1,200 tokens.
    """
    info = known_model(model)
    divided = budget_of(
        model=info,
        policy=policy,
        window=window,
        completion=completion,
        overrides=read_overrides(settings),
    )
    estimates = estimate(info, read_size(image_size), messages=messages, memories=memories, images=images)
    run = DryRun(budget=divided, estimates=estimates)
    if as_json:
        output.show_json(_data(run))
    else:
        _show(run)


def estimate(model: ModelInfo, size: Size, **items: int) -> tuple[Estimate, ...]:
    """Estimate what so many items of each sort take, with a system prompt if there are any at all.

    >>> blind = ModelInfo(id="m", provider="p", window=8192, max_output=1024, wire="openai")
    >>> [row.tokens for row in estimate(blind, Size(1024, 1024), messages=20, memories=5, images=2)]
    [1200, 4000, 8000, 2600]
    """
    if not any(items.values()):
        return ()
    wanted = {"system": 1, **items}
    return tuple(_estimate(name, wanted[name], model, size) for name in TYPICAL if wanted.get(name))


def _estimate(name: str, items: int, model: ModelInfo, size: Size) -> Estimate:
    if name == "images" and model.image_rule:
        image = MediaPart(modality="image", url="of:some-size", width=size.width, height=size.height)
        tokens = items * MediaCounter.of(model).count(image).tokens
        return Estimate(name=name, items=items, tokens=tokens, rule=model.image_rule, size=str(size))
    return Estimate(name=name, items=items, tokens=items * TYPICAL[name].tokens, rule="typical")


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
            *((_title(estimate), f"~{estimate.tokens:,}", _by(estimate)) for estimate in run.estimates),
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


def _by(estimate: Estimate) -> str:
    if estimate.name != "images":
        return ""
    return f" ({estimate.rule}, {estimate.size})" if estimate.size else " (typical: the model has no rule for images)"


def _verdict(run: DryRun) -> str:
    match run.status:
        case "over budget":
            return f"⚠️  OVER BUDGET by {-run.remaining:,} tokens!"
        case "nearly full":
            return f"⚠️  Using {run.percent:.1f}% of context window (>{NEARLY_FULL}%)"
        case "healthy":
            return "✅ Budget looks healthy"
