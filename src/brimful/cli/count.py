"""`brimful count`: count the tokens of text, files or a whole conversation."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from brimful.cli import output
from brimful.cli.files import STDIN, parse_json, read_text, source_name
from brimful.cli.options import DEFAULT_MODEL, Json, Model, TokenizerName, resolve_model
from brimful.cli.output import Failure, Table, columns
from brimful.core.policy import Method
from brimful.core.tokens import Count
from brimful.core.validation import clean_text
from brimful.counting.counters import counter_for

if TYPE_CHECKING:
    from brimful.core.prompt import Prompt

EXAMPLES: Final = """\
Examples:
  brimful count "Fill the window to the brim." --model gpt-4o
  brimful count --file README.md --file CHANGELOG.md --json
  git diff | brimful count --model claude-sonnet-4-5
  brimful count --messages --file request.json
  brimful count --messages --file request.json --tokenizer model.gguf"""

_COLUMNS: Final = columns("tokens", "at most", "basis", "tokenizer", "source", right=("tokens", "at most"))


def register(app: typer.Typer) -> None:
    app.command("count", epilog=EXAMPLES)(count)


def count(
    *,
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT", help="Text to count; words are joined by spaces. `-` reads standard input."),
    ] = None,
    files: Annotated[
        list[str] | None, typer.Option("--file", "-f", metavar="FILE", help="A UTF-8 file. Repeatable.")
    ] = None,
    model: Model = DEFAULT_MODEL,
    tokenizer: TokenizerName = None,
    method: Annotated[
        Method, typer.Option("--method", help="Counting method; hybrid uses the best one for the model.")
    ] = "hybrid",
    messages: Annotated[
        bool,
        typer.Option(
            "--messages",
            help="Read a JSON list of messages in OpenAI's format, or a request, and count everything that is billed, "
            "including message overhead, tools and images.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Count tokens.

    Reads standard input if there is neither TEXT nor --file. Shows whether
    the count is exact.
    """
    sources = _sources(texts or [], files or [])
    info = resolve_model(model, tokenizer)
    counter = counter_for(info, method)
    if messages:
        counts = [counter.prompt(_prompt(name, text)) for name, text in sources]
    else:
        counts = counter.texts([clean_text(text) for _, text in sources])
    rows = [(name, counted) for (name, _), counted in zip(sources, counts, strict=True)]
    if as_json:
        output.show_json({"model": info.id, "method": method, **_data(rows)})
    else:
        output.show_table(_table(rows))


def _sources(texts: Sequence[str], files: Sequence[str]) -> list[tuple[str, str]]:
    """Return the name and text of everything to count."""
    if not texts and not files and sys.stdin and sys.stdin.isatty():
        raise typer.BadParameter("nothing to count: pass a TEXT or a --file, or pipe something in", param_hint="TEXT")
    named = [(source_name(path), read_text(path)) for path in files]
    if list(texts) == [STDIN] or not (texts or files):
        return [(source_name(STDIN), read_text(STDIN)), *named]
    return [("TEXT", " ".join(texts)), *named] if texts else named


def _prompt(name: str, text: str) -> "Prompt":
    from brimful.errors import InvalidRequest  # noqa: PLC0415 - counting plain text starts faster without these
    from brimful.wires import find_wire  # noqa: PLC0415

    data = parse_json(text, name)
    request = {"messages": data} if isinstance(data, list) else data
    if not isinstance(request, dict):
        raise Failure(f"{name}: must be a list of messages or a request, not {type(data).__name__}")
    try:
        return find_wire("openai").parse({"model": "any", **request})
    except InvalidRequest as error:
        raise Failure(f"{name}: {'; '.join(error.violations)}") from None


def _data(rows: Sequence[tuple[str, Count]]) -> dict[str, object]:
    counts = [counted for _, counted in rows]
    bases = {counted.basis for counted in counts}
    return {
        "tokens": sum(counted.tokens for counted in counts),
        "margin": sum(counted.margin for counted in counts),
        "basis": bases.pop() if len(bases) == 1 else "mixed",
        "tokenizer": counts[0].tokenizer,
        "counts": [
            {"source": name, "tokens": counted.tokens, "margin": counted.margin, "basis": counted.basis}
            for name, counted in rows
        ],
    }


def _table(rows: Sequence[tuple[str, Count]]) -> Table:
    """Return one row per source, and the total if there are several. `at most` is shown if a count is not exact."""
    counts = [counted for _, counted in rows]
    shown = [[f"{c.tokens:,}", f"{c.upper:,}", c.basis, c.tokenizer, name] for name, c in rows]
    if len(rows) > 1:
        tokens, upper = sum(c.tokens for c in counts), sum(c.upper for c in counts)
        shown.append([f"{tokens:,}", f"{upper:,}", "", "", "total"])
    table = Table(_COLUMNS, shown)
    return table if any(c.margin for c in counts) else table.without("at most")
