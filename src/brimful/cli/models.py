"""`brimful models`: what is known of models, and under which assumptions an unknown one is counted."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated, Any, Final

import msgspec
import typer

from brimful.cli import output
from brimful.cli.failure import Failure
from brimful.cli.options import Json, complete_model, known_model
from brimful.cli.table import Table, columns
from brimful.core.model import ModelInfo
from brimful.counting import is_proven
from brimful.errors import MissingExtra
from brimful.models import default_registry, price

EXAMPLES: Final = """\
Examples:
  brimful models --provider anthropic
  brimful models gpt-4o claude-3-5-sonnet-20241022 qwen2.5:7b
  brimful models gpt-4o --json | jq '.[0].window'"""

_PROBE: Final = 1_000  # tokens; few, for some prices rise with the length of a prompt
_COLUMNS: Final = columns(
    *("model", "provider", "window", "max output", "tokenizer", "counts", "wire", "images", "as of"),
    right=("window", "max output"),
    spare=("counts", "provider", "tokenizer", "max output", "wire", "images", "as of"),
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("models", epilog=EXAMPLES)(models)


def models(
    *,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help="Models by any of their names: all that is known of them.",
            autocompletion=complete_model,
        ),
    ] = None,
    provider: Annotated[
        str | None, typer.Option("--provider", metavar="NAME", help="Only models of this maker.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the known models, or show all that is known of some of them.

    Add your own, or correct one of ours, in a file that BRIMFUL_MODELS names.
    """
    found = [known_model(name) for name in names] if names else sorted(default_registry(), key=_by_maker)
    wanted = [info for info in found if provider in (None, info.provider)]
    if not wanted:
        makers = sorted({info.provider for info in found})
        raise Failure(f"no models of provider {provider!r}; there are: {', '.join(makers)}")
    if as_json:
        output.show_json([_data(info, priced=bool(names)) for info in wanted])
    elif names:
        _show_details(wanted)
    else:
        output.show_table(Table(_COLUMNS, [_row(info) for info in wanted]))


def _by_maker(info: ModelInfo) -> tuple[str, str]:
    return (info.provider, info.id)


def _row(info: ModelInfo) -> list[str]:
    sizes = [f"{info.window:,}", f"{info.max_output:,}"]
    rules = [_tokenizer(info), _certainty(info), info.wire, info.image_rule or ""]
    return [info.id, info.provider, *sizes, *rules, info.as_of]


def _show_details(rows: Sequence[ModelInfo]) -> None:
    for at, info in enumerate(rows):
        if at:
            output.say()
        output.show_facts(_facts(info))


def _facts(info: ModelInfo) -> list[tuple[str, str]]:
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
        ("price", _price_line(info)),
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
    return "exact" if is_proven(info.tokenizer) else "calibrated"


def _counted_by(info: ModelInfo) -> str:
    margin = f", +{info.prior.margin * 100:g}% margin" if info.prior else ""
    return f"{_tokenizer(info)} ({_certainty(info)}{margin})"


def _cache(info: ModelInfo) -> str:
    if info.cache is None:
        return ""
    how = f"{info.cache.breakpoints} breakpoints" if info.cache.breakpoints else "automatic"
    return f"{how}, from {info.cache.minimum_tokens:,} tokens"


def _prices(info: ModelInfo) -> dict[str, Any] | None:
    """Return US dollars a million tokens, or None where no price is known."""
    spent, answered = price(info, _PROBE), price(info, 0, _PROBE)
    if spent is None or answered is None:
        return None
    million = Decimal(1_000_000) / _PROBE
    return {
        "prompt": (spent.prompt * million).normalize(),
        "completion": (answered.completion * million).normalize(),
        "source": spent.source,
        "as_of": spent.as_of,
    }


def _price_line(info: ModelInfo) -> str:
    try:
        prices = _prices(info)
    except MissingExtra as error:
        return f"unknown: {error}"
    if prices is None:
        return ""
    prompt, completion = _dollars(prices["prompt"]), _dollars(prices["completion"])
    return f"{prompt} prompt, {completion} completion a million tokens ({prices['source']})"


def _dollars(amount: Decimal) -> str:
    """Write an amount with its cents, and with as much more as it has.

    >>> _dollars(Decimal("2.5")), _dollars(Decimal("0.075"))
    ('$2.50', '$0.075')
    """
    return f"${amount:.2f}" if amount == round(amount, 2) else f"${amount:f}"


def _data(info: ModelInfo, *, priced: bool) -> dict[str, Any]:
    """Return the row as plain data. Prices are looked up for models that were asked for by name: it takes a moment."""
    data: dict[str, Any] = msgspec.to_builtins(info)
    if not priced:
        return data
    try:
        return {**data, "price_per_million": _prices(info)}
    except MissingExtra:
        return {**data, "price_per_million": None}
