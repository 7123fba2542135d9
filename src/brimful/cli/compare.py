"""`brimful diff` and `brimful replay`: what changed from one context to another, or would change."""

from collections.abc import Iterator
from typing import Annotated, Final

import typer

from brimful.assembly import replay as replay_context
from brimful.cli import output
from brimful.cli.options import Completion, Json, Out, Settings, Window, complete_model, complete_policy, known_model
from brimful.cli.options import overrides as read_overrides
from brimful.cli.source import read_context, write_context
from brimful.cli.table import Table, columns
from brimful.core.context import Context
from brimful.core.explain import Change, Difference
from brimful.core.explain import diff as difference_of

DIFF_EXAMPLES: Final = """\
Examples:
  brimful diff before.json after.json
  brimful diff before.json after.json --json | jq .prefix_share"""

REPLAY_EXAMPLES: Final = """\
Examples:
  brimful replay context.json
  brimful replay context.json --model gpt-4 --completion 1000
  brimful replay context.json -p window --set pools.recent.most=20 --out b.json"""

_COLUMNS: Final = columns("change", "id", "before", "after", "tokens", right=["tokens"], spare=["tokens", "before"])


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("diff", epilog=DIFF_EXAMPLES)(diff)
    app.command("replay", epilog=REPLAY_EXAMPLES)(replay)


def diff(
    *,
    before: Annotated[str, typer.Argument(metavar="BEFORE", help="The record of a context.")],
    after: Annotated[str, typer.Argument(metavar="AFTER", help="The record of another one.")],
    as_json: Json = False,
) -> None:
    """Compare two contexts: what entered, what left, what changed, and how long their requests agree.

    The common prefix is what a provider's prompt cache can use again.
    """
    _show(read_context(before), read_context(after), as_json=as_json)


def replay(
    *,
    file: Annotated[str, typer.Argument(metavar="CONTEXT", help="The record of a context. `-` is standard input.")],
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", metavar="NAME", help="For another model.", autocompletion=complete_model),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy", "-p", metavar="NAME|FILE.toml", help="Under another policy.", autocompletion=complete_policy
        ),
    ] = None,
    window: Window = None,
    completion: Completion = None,
    settings: Settings = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Build a recorded context again, as it was or under other conditions, and compare.

    Needs nothing but the record. Without options it must come out the same.
    """
    before = read_context(file)
    after = replay_context(
        before,
        model=None if model is None else known_model(model),
        policy=policy,
        window=window,
        completion=completion,
        overrides=read_overrides(settings),
    )
    write_context(out, after)
    _show(before, after, as_json=as_json)


def _show(before: Context, after: Context, *, as_json: bool) -> None:
    difference = difference_of(before, after)
    if as_json:
        output.show_json(difference)
        return
    output.show_facts(_facts(before, after, difference))
    rows = [_row(name, change) for name, change in _changes(difference)]
    if rows:
        output.say()
        output.show_table(Table(_COLUMNS, rows))


def _facts(before: Context, after: Context, difference: Difference) -> Iterator[tuple[str, str]]:
    a, b = before.budget, after.budget
    yield "context", _change(before.id, after.id)
    yield "model", _change(a.model, b.model)
    yield "policy", _change(a.policy, b.policy)
    yield "window", _change(f"{a.window:,}", f"{b.window:,}")
    yield "reserved", _change(f"{a.reserved:,}", f"{b.reserved:,}")
    more = difference.tokens_after - difference.tokens_before
    tokens = _change(f"{difference.tokens_before:,}", f"{difference.tokens_after:,}")
    yield "tokens", f"{tokens} ({more:+,})" if more else tokens
    yield "same prefix", f"{difference.common_prefix:,} bytes, {difference.prefix_share:.1%} of the request"
    counts = (difference.entered, difference.left, difference.changed)
    yield "candidates", "{} entered, {} left, {} changed".format(*(f"{len(changes):,}" for changes in counts))


def _change(before: str, after: str) -> str:
    return after if before == after else f"{before} → {after}"


def _changes(difference: Difference) -> Iterator[tuple[str, Change]]:
    for name in ("entered", "left", "changed"):
        for change in getattr(difference, name):
            yield name, change


def _row(name: str, change: Change) -> list[str]:
    before, after = _fate(change.before, change.before_reason), _fate(change.after, change.after_reason)
    return [name, change.id, before, after, f"{change.tokens:,}"]


def _fate(outcome: str | None, reason: str | None) -> str:
    return f"{outcome}: {reason}" if outcome else "not a candidate"
