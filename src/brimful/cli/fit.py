"""`brimful fit`: trim a finished request so that it fits its window."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Annotated, Any, Final

import msgspec
import typer

from brimful.assembly.fit import fit as fit_request
from brimful.cli import output
from brimful.cli.files import parse_json, read_context, read_text, source_name, write_context
from brimful.cli.options import (
    Completion,
    Json,
    MaxPromptTokens,
    Now,
    Out,
    Previous,
    RequestOnly,
    Settings,
    TokenizerName,
    Window,
    model_option,
    policy_option,
    read_overrides,
    resolve_model,
)
from brimful.wires import request_bytes
from brimful.wires.registry import IncomingWire

EXAMPLES: Final = """\
Examples:
  brimful fit request.json --max-prompt-tokens 8000 --request > body.json
  brimful fit request.json --wire anthropic --pin 0 --tie 3,4
  brimful fit request.json -m gpt-4o --previous last.json --out next.json --json"""


def register(app: typer.Typer) -> None:
    app.command("fit", epilog=EXAMPLES)(fit)


def _read_tie(text: str) -> tuple[int, ...]:
    """Parse a tie.

    >>> _read_tie("3,4")
    (3, 4)
    """
    try:
        return tuple(map(int, text.split(",")))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a list of indices, such as 3,4") from None


def fit(  # noqa: PLR0913 - the options of a command
    *,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The request, as JSON. `-` reads standard input.")],
    wire: Annotated[IncomingWire, typer.Option("--wire", help="The format of the request.")] = "openai",
    model: Annotated[str | None, model_option("Model name. Default: the request's.")] = None,
    tokenizer: TokenizerName = None,
    policy: Annotated[
        str | None, policy_option("Policy name (see `brimful policies`) or file. Default: chosen for the request.")
    ] = None,
    pin: Annotated[
        list[int] | None,
        typer.Option("--pin", metavar="INDEX", min=0, help="A message that must stay, unchanged. Repeatable."),
    ] = None,
    tie: Annotated[
        list[str] | None,
        typer.Option("--tie", metavar="INDEX,INDEX", help="Messages that are kept or dropped together. Repeatable."),
    ] = None,
    now: Now = None,
    window: Window = None,
    completion: Completion = None,
    max_prompt_tokens: MaxPromptTokens = None,
    min_tokens: Annotated[
        int | None,
        typer.Option("--min-tokens", metavar="TOKENS", min=1, help="Allow texts to be shortened to this many tokens."),
    ] = None,
    previous: Previous = None,
    settings: Settings = None,
    out: Out = None,
    request: RequestOnly = False,
    as_json: Json = False,
) -> None:
    """Trim a finished request so that it fits its window.

    Messages are numbered from 0, as in the request. Everything that stays is
    unchanged, except for long texts that had to be shortened.
    """
    ties = [_read_tie(each) for each in tie or ()]
    options: dict[str, Any] = {} if policy is None else {"policy": policy}
    context = fit_request(
        parse_json(read_text(file), source_name(file)),
        wire=wire,
        model=None if model is None else resolve_model(model, tokenizer),
        tokenizer=tokenizer if model is None else None,
        previous=read_context(previous) if previous else None,
        window=window,
        completion=completion,
        max_prompt_tokens=max_prompt_tokens,
        min_tokens=min_tokens,
        pin=pin or (),
        ties=ties,
        overrides=read_overrides(settings),
        now=now,
        **options,
    )
    write_context(out, context)
    if request:
        output.write_json(request_bytes(context.request))
    elif as_json:
        positions = {"positions": context.positions, "shortened": context.shortened}
        output.show_json(positions | msgspec.structs.asdict(context))
    else:
        output.write(context.report())
        shortened = f" ({_format_positions(context.shortened)} shortened)" if context.shortened else ""
        output.write(f"Messages that stay: {_format_positions(context.positions)}{shortened}")


def _format_positions(positions: Sequence[int]) -> str:
    """Return indices with ranges.

    >>> _format_positions((0, 3, 4, 5))
    '0, 3-5'
    """

    def ranges() -> Iterator[str]:
        for _, run in groupby(enumerate(positions), key=lambda row: row[1] - row[0]):
            first, *rest = [position for _, position in run]
            yield f"{first}-{rest[-1]}" if rest else f"{first}"

    return ", ".join(ranges())
