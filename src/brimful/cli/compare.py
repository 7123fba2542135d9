"""`brimful diff` and `brimful replay`: what changed from one context to another, or would change."""

import time
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from brimful.assembly import replay as replay_context
from brimful.cli import output
from brimful.cli.located import locate
from brimful.cli.opened import ask_store
from brimful.cli.options import (
    DEFAULT_DB,
    DEFAULT_TENANT,
    Completion,
    Db,
    Json,
    Out,
    Settings,
    Tenant,
    Window,
    complete_model,
    complete_policy,
    known_model,
    read_duration,
)
from brimful.cli.options import overrides as read_overrides
from brimful.cli.progress import progress
from brimful.cli.source import write_context
from brimful.cli.table import Table, columns
from brimful.core.context import Context
from brimful.core.explain import Change, Difference
from brimful.core.explain import diff as difference_of

if TYPE_CHECKING:
    from brimful.cli.ranges import Outcome, Replay, Span
    from brimful.protocols import Store

DIFF_EXAMPLES: Final = """\
Examples:
  brimful diff before.json after.json
  brimful diff ctx-81c2f4d19a05b7e36c1f88aa msg-0007
  brimful diff before.json after.json --json | jq .prefix_share"""

REPLAY_EXAMPLES: Final = """\
Examples:
  brimful replay context.json
  brimful replay ctx-81c2f4d19a05b7e36c1f88aa --model gpt-4 --completion 1000
  brimful replay context.json -p window --set pools.recent.most=20 --out b.json
  brimful replay --last 24h --window 32000
  brimful replay --last 7d --persona nova --model gpt-4o-mini --sample 500"""

_COLUMNS: Final = columns("change", "id", "before", "after", "tokens", right=["tokens"], spare=["tokens", "before"])
_WORST: Final = columns("lost tokens", "candidates", "context", right=["lost tokens", "candidates"])


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("diff", epilog=DIFF_EXAMPLES)(diff)
    app.command("replay", epilog=REPLAY_EXAMPLES)(replay)


def diff(
    *,
    before: Annotated[str, typer.Argument(metavar="BEFORE", help="A context: a file, or its id in the store.")],
    after: Annotated[str, typer.Argument(metavar="AFTER", help="Another one.")],
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> None:
    """Compare two contexts: what entered, what left, what changed, and how long their requests agree.

    The common prefix is what a provider's prompt cache can use again. A
    context is a file, or the id of a context or of a message in the store.
    """
    found = [locate(name, db=db, tenant=tenant).context for name in (before, after)]
    _show(*found, as_json=as_json)


def replay(  # noqa: PLR0913 - the options of a command
    *,
    context: Annotated[
        str | None,
        typer.Argument(metavar="[CONTEXT]", help="A context: a file, `-` for standard input, or its id in the store."),
    ] = None,
    last: Annotated[
        float | None,
        typer.Option("--last", metavar="TIME", parser=read_duration, help="All contexts of the last 90m, 24h, 7d."),
    ] = None,
    room: Annotated[str | None, typer.Option("--room", metavar="ID", help="With --last: only of this room.")] = None,
    persona: Annotated[
        str | None, typer.Option("--persona", metavar="ID", help="With --last: only of this persona.")
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option("--sample", metavar="N", min=1, help="With --last: only so many, always the same ones."),
    ] = None,
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
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> None:
    """Build a recorded context again, as it was or under other conditions, and compare.

    Needs nothing but the record. Without options it must come out the same.
    With --last, all contexts of a time are built again: how many of them
    would lose something, how much, and which would not fit at all.
    """
    if context is None and last is None:
        raise typer.BadParameter("name a context, or say --last for all of a time", param_hint="CONTEXT")
    if context is not None and last is not None:
        raise typer.BadParameter("is one context, and --last is all of a time: say one of them", param_hint="CONTEXT")
    alone = {"--room": room, "--persona": persona, "--sample": sample} if last is None else {"--out": out}
    if given := [name for name, value in alone.items() if value is not None]:
        raise typer.BadParameter(f"goes {'with' if last is None else 'without'} --last", param_hint=given[0])
    again = partial(
        replay_context,
        model=None if model is None else known_model(model),
        policy=policy,
        window=window,
        completion=completion,
        overrides=read_overrides(settings),
    )
    if context is not None:
        before = locate(context, db=db, tenant=tenant).context
        after = again(before)
        write_context(out, after)
        _show(before, after, as_json=as_json)
        return
    from brimful.cli.ranges import Span  # noqa: PLC0415 - with it come the stores

    span = Span(since=time.time() - (last or 0.0), room=room, persona=persona)
    _show_outcome(_replayed(span, again, sample, db=db, tenant=tenant, quiet=as_json), as_json=as_json)


def _replayed(span: "Span", again: "Replay", sample: int | None, *, db: str, tenant: str, quiet: bool) -> "Outcome":
    from brimful.cli.ranges import replay_all, survey  # noqa: PLC0415 - as above

    async def replayed(store: "Store") -> "Outcome":
        total, ids = await survey(store, span, sample)
        with progress("replaying", total, quiet=quiet, unit="contexts") as advance:
            return await replay_all(store, span, ids, again, advance)

    return ask_store(replayed, db=db, tenant=tenant)


def _show_outcome(outcome: "Outcome", *, as_json: bool) -> None:
    if as_json:
        output.show_json(_outcome_data(outcome))
        return
    if not outcome.contexts:
        output.say("no contexts were built in that time")
        return
    output.show_facts(_outcome_facts(outcome))
    if outcome.worst:
        output.say("\nthe worst")
        rows = [[f"{loss.tokens:,}", f"{loss.items:,}", loss.id] for loss in outcome.worst]
        output.show_table(Table(_WORST, rows))


def _outcome_facts(outcome: "Outcome") -> Iterator[tuple[str, str]]:
    def share(count: int) -> str:
        return f"{count:,} ({count / outcome.replayed:.1%})" if outcome.replayed else f"{count:,}"

    yield "contexts", f"{outcome.contexts:,}"
    yield "replayed", f"{outcome.replayed:,}"
    yield "lose something", share(outcome.losing)
    yield "gain something", share(outcome.gaining)
    worst = outcome.worst[0].tokens if outcome.worst else 0
    yield "tokens lost", f"{outcome.mean_lost:,.0f} on average, {worst:,} at worst" if outcome.losing else "none"
    ids = f": {', '.join(outcome.unfit_ids)}" if outcome.unfit_ids else ""
    yield "would not fit", share(outcome.unfit) + ids
    yield "erased", f"{outcome.erased:,}, not replayed" if outcome.erased else ""
    yield "unreadable", f"{outcome.unreadable:,}, not replayed" if outcome.unreadable else ""


def _outcome_data(outcome: "Outcome") -> dict[str, Any]:
    return {
        **{name: getattr(outcome, name) for name in outcome.__struct_fields__},
        "mean_lost": round(outcome.mean_lost, 1),
    }


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
