"""`brimful models`, `brimful policies` and `brimful budget`."""

import os
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Annotated, Any, Final, Literal

import msgspec
import typer

from brimful.assembly.assemble import budget as budget_of
from brimful.cli import output
from brimful.cli.options import (
    DEFAULT_MODEL,
    Completion,
    Json,
    MaxPromptTokens,
    Model,
    PolicyName,
    Settings,
    Window,
    complete_model,
    complete_policy,
    read_overrides,
    resolve_model,
)
from brimful.cli.output import Failure, Table, columns
from brimful.core.budget import ContextBudget
from brimful.core.content import Media as MediaPart
from brimful.core.model import ModelInfo
from brimful.core.notice import Notice, find_nearly_full
from brimful.core.policy import NO_HISTORY_LIMITS, HistoryLimits, Policy, Pool, Weights
from brimful.core.validation import clean_text
from brimful.counting import is_verified
from brimful.counting.media import ASSUMED_SIDE, MediaCounter
from brimful.errors import MissingExtra
from brimful.models import default_registry, request_cost, unknown_model_warning
from brimful.policies import load_policy, policy_names

MODELS_EXAMPLES: Final = """\
Examples:
  brimful models --provider anthropic
  brimful models gpt-4o claude-3-5-sonnet-20241022 qwen2.5:7b
  brimful models gpt-4o --json | jq '.[0].window'"""

_SAMPLE_TOKENS: Final = 1_000  # tokens; few, since some prices rise with the prompt length
_MODEL_COLUMNS: Final = columns(
    *("model", "provider", "window", "max output", "tokenizer", "counts", "wire", "images", "as of"),
    right=("window", "max output"),
    spare=("counts", "provider", "tokenizer", "max output", "wire", "images", "as of"),
)


def register(app: typer.Typer) -> None:
    app.command("models", epilog=MODELS_EXAMPLES)(models)
    app.command("policies", epilog=POLICIES_EXAMPLES)(policies)
    app.command("budget", epilog=BUDGET_EXAMPLES)(budget)


def models(
    *,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Show details of these models.", autocompletion=complete_model),
    ] = None,
    provider: Annotated[
        str | None, typer.Option("--provider", metavar="NAME", help="Only models of this provider.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List known models, or show their details.

    Add or correct models in the file named by BRIMFUL_MODELS.
    """
    registry = default_registry()
    found = (
        [registry.resolve(clean_text(name)) for name in names]
        if names
        else sorted(registry, key=lambda info: (info.provider, info.id))
    )
    for unknown in (info for info in found if info.assumed_window):
        raise Failure(unknown_model_warning(unknown))
    selected = [info for info in found if provider in (None, info.provider)]
    if not selected:
        providers = sorted({info.provider for info in found})
        raise Failure(f"there are no models of provider {provider!r}; providers are {', '.join(providers)}")
    if as_json:
        output.show_json([_model_data(info, with_cost=bool(names)) for info in selected])
    elif names:
        _show_details(selected)
    else:
        output.show_table(Table(_MODEL_COLUMNS, [_model_row(info) for info in selected]))


def _model_row(info: ModelInfo) -> list[str]:
    sizes = [f"{info.window:,}", f"{info.max_output:,}"]
    rules = [_tokenizer(info), _certainty(info), info.wire, info.image_rule or ""]
    return [info.id, info.provider, *sizes, *rules, info.as_of]


def _show_details(rows: Sequence[ModelInfo]) -> None:
    for index, info in enumerate(rows):
        if index:
            output.write()
        output.show_fields(_model_fields(info))


def _model_fields(info: ModelInfo) -> list[tuple[str, str]]:
    return [
        ("model", info.id),
        ("known as", info.canonical if info.canonical != info.id else ""),
        ("provider", info.provider),
        ("window", f"{info.window:,} tokens"),
        ("max output", f"{info.max_output:,} tokens"),
        ("tokenizer", _counted_by(info)),
        ("overhead", info.chat_template or info.overhead),
        ("wire", info.wire),
        ("takes", ", ".join(info.modalities)),
        ("images", info.image_rule or ""),
        ("audio", info.audio_rule or ""),
        ("video", info.video_rule or ""),
        ("cache", _cache(info)),
        ("cost", _cost_line(info)),
        ("source", info.source),
        ("as of", info.as_of),
    ]


def _tokenizer(info: ModelInfo) -> str:
    if info.prior:
        return f"{info.prior.tokenizer} × {info.prior.factor:g}"
    return info.tokenizer or "characters"


def _certainty(info: ModelInfo) -> str:
    if info.tokenizer is None:
        return "calibrated"
    return "exact" if is_verified(info.tokenizer, info.runtime) else "calibrated"


def _counted_by(info: ModelInfo) -> str:
    margin = f", +{info.prior.margin * 100:g}% margin" if info.prior else ""
    return f"{_tokenizer(info)} ({_certainty(info)}{margin})"


def _cache(info: ModelInfo) -> str:
    if info.cache is None:
        return ""
    how = f"{info.cache.breakpoints} breakpoints" if info.cache.breakpoints else "automatic"
    return f"{how}, from {info.cache.minimum_tokens:,} tokens"


def _costs(info: ModelInfo) -> dict[str, Any] | None:
    """Return US dollars per million tokens, or None if no price is known."""
    spent, answered = request_cost(info, _SAMPLE_TOKENS), request_cost(info, 0, _SAMPLE_TOKENS)
    if spent is None or answered is None:
        return None
    million = Decimal(1_000_000) / _SAMPLE_TOKENS
    return {
        "prompt": (spent.prompt * million).normalize(),
        "completion": (answered.completion * million).normalize(),
        "source": spent.source,
        "as_of": spent.as_of,
    }


def _cost_line(info: ModelInfo) -> str:
    try:
        costs = _costs(info)
    except MissingExtra as error:
        return f"unknown: {error}"
    if costs is None:
        return ""
    prompt, completion = _dollars(costs["prompt"]), _dollars(costs["completion"])
    return f"{prompt} prompt, {completion} completion per million tokens ({costs['source']})"


def _dollars(amount: Decimal) -> str:
    """Format an amount of dollars with at least two digits.

    >>> _dollars(Decimal("2.5")), _dollars(Decimal("0.075"))
    ('$2.50', '$0.075')
    """
    return f"${amount:.2f}" if amount == round(amount, 2) else f"${amount:f}"


def _model_data(info: ModelInfo, *, with_cost: bool) -> dict[str, Any]:
    """Return plain data. Costs are looked up only for models given by name, since that takes a moment."""
    data: dict[str, Any] = msgspec.to_builtins(info)
    if not with_cost:
        return data
    try:
        return {**data, "cost_per_million": _costs(info)}
    except MissingExtra:
        return {**data, "cost_per_million": None}


POLICIES_EXAMPLES: Final = """\
Examples:
  brimful policies
  brimful policies window --model gpt-4
  brimful policies ./mine.toml --json"""

SCORE_PARTS: Final = ("priority", "importance", "relevance", "recency")
_POOL_COLUMNS: Final = columns(
    *("pool", "limit", "order", "min", "max", "kinds", "rules"), right=("limit", "min", "max")
)


def policies(
    *,
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME|FILE.toml", help="Show details of this policy.", autocompletion=complete_policy),
    ] = None,
    model: Model = DEFAULT_MODEL,
    as_json: Json = False,
) -> None:
    """List policies, or show the details of one."""
    if name is not None:
        policy = load_policy(name, environ=os.environ)
        divided = budget_of(model=resolve_model(model), policy=policy)
        if as_json:
            figures = {"reserved": divided.reserved, **msgspec.structs.asdict(divided)}
            output.show_json({"policy": policy, "budget": figures})
        else:
            _show_policy(policy, divided)
        return
    loaded = [load_policy(each) for each in policy_names()]
    if as_json:
        output.show_json([{"name": policy.name, "description": policy.description} for policy in loaded])
    else:
        rows = [[policy.name, policy.description] for policy in loaded]
        output.show_table(Table(columns("policy", "description"), rows))


def _show_policy(policy: Policy, divided: ContextBudget) -> None:
    output.show_fields(_policy_fields(policy, divided))
    output.write()
    output.show_table(Table(_POOL_COLUMNS, [_pool_row(pool, divided) for pool in policy.pools]))


def _score_formula(weights: Weights) -> str:
    alone = weights.multiply_by_relevance
    added = [f"{getattr(weights, part):g} {part}" for part in SCORE_PARTS if not (alone and part == "relevance")]
    return f"relevance × ({' + '.join(added)})" if alone else " + ".join(added)


def _policy_fields(policy: Policy, divided: ContextBudget) -> Iterator[tuple[str, str]]:
    yield "policy", policy.name
    yield "description", policy.description
    yield "model", divided.model
    yield "window", f"{divided.window:,}"
    yield "completion", f"{divided.completion:,}"
    yield "safety margin", f"{divided.margin:,}"
    yield "available", f"{divided.available:,}"
    yield "score", _score_formula(policy.weights)
    yield "recency", f"exp(−days / {policy.weights.recency_days:g})"
    yield "counting", policy.counting
    steps = (f"drop {step.drop}" if step.drop else f"summarize {step.summarize}" for step in policy.trim)
    yield "trim", ", then ".join(steps)
    yield "related items", policy.layout.related


def _pool_row(pool: Pool, divided: ContextBudget) -> list[str]:
    numbers = [output.format_number(pool.min_items or None), output.format_number(pool.max_items)]
    return [pool.name, f"{divided.limit(pool.name):,}", pool.order, *numbers, ", ".join(pool.kinds), _pool_rules(pool)]


def _pool_rules(pool: Pool) -> str:
    rules = {
        "pinned": pool.pinned is True,
        "not pinned": pool.pinned is False,
        "contiguous": pool.contiguous,
        "best set": pool.optimize,
        "borrows": pool.borrow,
        "summarizes": pool.summarize,
        _history_rule(pool.history): pool.history != NO_HISTORY_LIMITS,
        f"trims to {pool.low_water or 0:.0%}": pool.low_water is not None,
    }
    return ", ".join(rule for rule, holds in rules.items() if holds)


def _history_rule(limits: HistoryLimits) -> str:
    """Return the limits for history as text.

    >>> _history_rule(HistoryLimits(min_items=2, max_items=50, share=0.8))
    'messages: at least 2, at most 50, at most 80%'
    """
    rules = {
        f"at least {limits.min_items:,}": limits.min_items,
        f"at most {limits.max_items or 0:,}": limits.max_items,
        f"at most {limits.share or 0:.0%}": limits.share is not None,
    }
    return f"messages: {', '.join(rule for rule, holds in rules.items() if holds)}"


BUDGET_EXAMPLES: Final = """\
Examples:
  brimful budget --model gpt-4 --policy window --completion 3000
  brimful budget -m qwen2.5:7b -p auction --messages 20 --memories 5 --images 2
  brimful budget -m gpt-4o --images 10 --image-size 1920x1080
  brimful budget -m gpt-4 -p window --json | jq .target_tokens"""

BudgetStatus = Literal["fits", "over budget"]


class TypicalItem(msgspec.Struct, frozen=True):
    """A kind of item with its typical size."""

    title: str
    tokens: int


TYPICAL_ITEMS: Final = {
    "system": TypicalItem("System Prompt", 1_200),
    "memories": TypicalItem("Memories", 800),
    "messages": TypicalItem("Messages", 400),
    "images": TypicalItem("Images", 1_300),
}
"""Tokens per item. Source: the founding documents' sample of `rag/budget` (5 memories ~4,000, 20 messages ~8,000,
2 images ~2,600). For estimates only: a real context is counted. Images use the model's own rule if it has one."""


def _per_item_help(name: str) -> str:
    return f"{TYPICAL_ITEMS[name].title}, ~{TYPICAL_ITEMS[name].tokens:,} tokens each."


class ImageSize(msgspec.Struct, frozen=True):
    """An image's width and height in pixels."""

    width: int
    height: int

    def __str__(self) -> str:
        """Return the form of the option."""
        return f"{self.width}x{self.height}"


def read_image_size(text: str) -> ImageSize:
    """Parse the size of an image.

    >>> read_image_size("1920x1080")
    ImageSize(width=1920, height=1080)
    """
    match = re.fullmatch(r"([1-9]\d{0,4})x([1-9]\d{0,4})", text, re.ASCII)
    if match is None:
        raise typer.BadParameter(f"{text!r} is not a size in pixels, such as 1920x1080", param_hint="'--image-size'")
    return ImageSize(int(match[1]), int(match[2]))


class Estimate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The estimated tokens of all items of a kind: by typical size, or by the model's rule for images."""

    name: str
    items: int
    tokens: int
    rule: str
    size: str = ""


class DryRun(msgspec.Struct, frozen=True, kw_only=True):
    """A budget with estimates."""

    budget: ContextBudget
    estimates: tuple[Estimate, ...]
    takes_memories: bool = True

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What a context like this would warn of."""
        full = find_nearly_full(self.total, self.budget.available)
        return (*self._find_no_memories(), *([full] if full else []))

    def _find_no_memories(self) -> Iterator[Notice]:
        if not self.takes_memories and any(each.name == "memories" for each in self.estimates):
            text = f"policy {self.budget.policy!r} has no pool for memories: a context would have none"
            yield Notice(kind="no-memories", text=text, facts={"policy": self.budget.policy})

    @property
    def total(self) -> int:
        """The sum of all estimates."""
        return sum(estimate.tokens for estimate in self.estimates)

    @property
    def percent(self) -> float:
        """The share of the budget that they would take, in percent."""
        return 100 * self.total / max(1, self.budget.available)

    @property
    def remaining(self) -> int:
        """Remaining tokens; negative if the estimates do not fit."""
        return self.budget.available - self.total

    @property
    def status(self) -> BudgetStatus:
        """Whether the estimates fit."""
        return "over budget" if self.remaining < 0 else "fits"


def budget(  # noqa: PLR0913 - the options of a command
    *,
    model: Model = DEFAULT_MODEL,
    policy: PolicyName = "default",
    window: Window = None,
    completion: Completion = None,
    max_prompt_tokens: MaxPromptTokens = None,
    messages: Annotated[int, typer.Option(metavar="N", min=0, help=_per_item_help("messages"))] = 0,
    memories: Annotated[int, typer.Option(metavar="N", min=0, help=_per_item_help("memories"))] = 0,
    images: Annotated[int, typer.Option(metavar="N", min=0, help="Number of images, counted by the model's rule.")] = 0,
    image_size: Annotated[
        str, typer.Option(metavar="WIDTHxHEIGHT", help="Size of each image in pixels.")
    ] = f"{ASSUMED_SIDE}x{ASSUMED_SIDE}",
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """Show how a policy divides a model's window.

    With a number of messages, memories or images, estimates whether they fit
    together with a system prompt of ~1,200 tokens.
    """
    info = resolve_model(model)
    overrides = read_overrides(settings)
    divided = budget_of(
        model=info,
        policy=policy,
        window=window,
        completion=completion,
        max_prompt_tokens=max_prompt_tokens,
        overrides=overrides,
    )
    estimates = estimate(info, read_image_size(image_size), messages=messages, memories=memories, images=images)
    pool = load_policy(policy, overrides=overrides).pool_for_kind("memory-semantic")
    run = DryRun(budget=divided, estimates=estimates, takes_memories=pool is not None)
    if as_json:
        output.show_json(_dry_run_data(run))
    else:
        _show_dry_run(run)


def estimate(model: ModelInfo, size: ImageSize, **items: int) -> tuple[Estimate, ...]:
    """Estimate the tokens of items of each kind, with a system prompt if there are any.

    >>> blind = ModelInfo(id="m", provider="p", window=8192, max_output=1024, wire="openai")
    >>> [row.tokens for row in estimate(blind, ImageSize(1024, 1024), messages=20, memories=5, images=2)]
    [1200, 4000, 8000, 2600]
    """
    if not any(items.values()):
        return ()
    counts = {"system": 1, **items}
    return tuple(_estimate_one(name, counts[name], model, size) for name in TYPICAL_ITEMS if counts.get(name))


def _estimate_one(name: str, items: int, model: ModelInfo, size: ImageSize) -> Estimate:
    if name == "images" and model.image_rule:
        image = MediaPart(modality="image", url="of:some-size", width=size.width, height=size.height)
        tokens = items * MediaCounter.of(model).count(image).tokens
        return Estimate(name=name, items=items, tokens=tokens, rule=model.image_rule, size=str(size))
    return Estimate(name=name, items=items, tokens=items * TYPICAL_ITEMS[name].tokens, rule="typical")


def _dry_run_data(run: DryRun) -> dict[str, object]:
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
        "system_tokens": divided.system_tokens,
        "available_for_messages": divided.available_for_messages,
        "target_tokens": divided.target_tokens,
        "estimates": run.estimates,
        "total": run.total,
        "percent": round(run.percent, 1),
        "remaining": run.remaining,
        "status": run.status,
        "notices": run.notices,
    }


def _show_dry_run(run: DryRun) -> None:
    divided = run.budget
    output.write(f"Budget of {divided.model} under policy {divided.policy}:")
    _show_rows(
        ("Window", f"{divided.window:,}"),
        ("Completion", f"{divided.completion:,}"),
        ("Safety Margin", f"{divided.margin:,}"),
        ("Available", f"{divided.available:,}"),
        *(_system_rows(divided) if divided.system_tokens else ()),
        *((f"  pool {pool.name}", f"{pool.limit:,}") for pool in divided.pools),
    )
    if run.estimates:
        output.write()
        output.write("Estimated Budget:")
        _show_rows(
            *(
                (_estimate_title(estimate), f"~{estimate.tokens:,}", _estimate_rule(estimate))
                for estimate in run.estimates
            ),
            ("Total", f"~{run.total:,}", f" ({run.percent:.1f}%)"),
            ("Reserved", f"{divided.reserved:,}"),
            ("Remaining", f"~{run.remaining:,}"),
        )
        output.write()
        for notice in run.notices:
            output.write(f"Warning: {notice.text}")
        output.write(_verdict(run))


def _system_rows(divided: ContextBudget) -> list[tuple[str, str]]:
    return [("  System", f"{divided.system_tokens:,}"), ("  Messages", f"{divided.available_for_messages:,}")]


def _show_rows(*rows: tuple[str, str] | tuple[str, str, str]) -> None:
    width = max(len(title) for title, *_ in rows)
    for title, tokens, *more in rows:
        output.write(f"  {title + ':':<{width + 1}} {tokens:>9} tokens{''.join(more)}")


def _estimate_title(estimate: Estimate) -> str:
    title = TYPICAL_ITEMS[estimate.name].title
    return title if estimate.name == "system" else f"{title} ({estimate.items:,})"


def _estimate_rule(estimate: Estimate) -> str:
    if estimate.name != "images":
        return ""
    return f" ({estimate.rule}, {estimate.size})" if estimate.size else " (typical size)"


def _verdict(run: DryRun) -> str:
    if run.status == "over budget":
        return f"Over budget by {-run.remaining:,} tokens."
    return f"Fits, with {run.remaining:,} tokens to spare."
