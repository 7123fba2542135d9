"""`brimful explain`: what did the model see, why was this in, and that out? Answered from the record of a context."""

import sys
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Final

import msgspec
import typer

from brimful.cli import output
from brimful.cli.candidate import explain_one
from brimful.cli.explained import cost_of, explanation
from brimful.cli.located import Located, locate
from brimful.cli.options import DEFAULT_DB, DEFAULT_TENANT, Db, Json, Tenant
from brimful.cli.table import Table, columns
from brimful.core.context import Context
from brimful.core.decision import Decision, Outcome
from brimful.core.explain import decision_line, plural
from brimful.core.sections import left_out, sections
from brimful.errors import MissingExtra
from brimful.packagers.stored import plain_text
from brimful.records import Response

EXAMPLES: Final = """\
Examples:
  brimful explain context.json
  brimful explain context.json msg-000012
  brimful explain context.json --outcome dropped --limit 10
  brimful explain context.json --kind 'memory-*' --json
  brimful explain msg-0007
  brimful explain ctx-81c2f4d19a05b7e36c1f88aa mem-refund
  brimful explain ctx-81c2f4d19a05b7e36c1f88aa --full --db sqlite:///brimful.db"""

_COLUMNS: Final = columns(
    *("outcome", "reason", "id", "kind", "pool", "rank/cut", "tokens"),
    *("score", "priority", "importance", "relevance", "recency"),
    right=("rank/cut", "tokens", "score", "priority", "importance", "relevance", "recency"),
    spare=("pool", "kind", "rank/cut", "relevance", "importance", "priority", "recency"),
)
_LEFT_OUT: Final = columns(
    *("reason", "below", "id", "kind", "tokens", "score", "text"),
    right=("below", "tokens", "score"),
    spare=("kind", "text"),
)


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which candidates to show; None is all of them."""

    outcome: Outcome | None = None
    pool: str | None = None
    kind: str | None = None
    limit: int | None = None

    def takes(self, decision: Decision) -> bool:
        """Whether the candidate is wanted. Kinds are patterns, as in policies."""
        return (
            self.outcome in (None, decision.outcome)
            and self.pool in (None, decision.pool)
            and (self.kind is None or fnmatchcase(decision.kind, self.kind))
        )

    def of(self, context: Context) -> list[Decision]:
        """Return the wanted: what is in by pool and rank, then what is out, the nearest to the cut first."""
        pools = [pool.name for pool in context.pools]

        def order(decision: Decision) -> tuple[bool, int, int, str]:
            pool = pools.index(decision.pool) if decision.pool in pools else len(pools)
            if decision.included:
                return (False, pool, decision.rank, decision.id)
            return (True, _below(decision), pool, decision.id)

        wanted = sorted(filter(self.takes, context.decisions), key=order)
        return wanted if self.limit is None else wanted[: self.limit]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("explain", epilog=EXAMPLES)(explain)


def explain(  # noqa: PLR0913 - the options of a command
    *,
    context: Annotated[
        str,
        typer.Argument(
            metavar="CONTEXT",
            help="A record: a file, `-` for standard input, the id of a context in the store, or of a message.",
        ),
    ],
    id: Annotated[str | None, typer.Argument(metavar="[ID]", help="One candidate, all that is known of it.")] = None,
    outcome: Annotated[Outcome | None, typer.Option("--outcome", help="Only those that ended so.")] = None,
    pool: Annotated[str | None, typer.Option("--pool", metavar="NAME", help="Only those of this pool.")] = None,
    kind: Annotated[
        str | None, typer.Option("--kind", metavar="PATTERN", help="Only kinds like this, as in 'memory-*'.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="At most so many.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Show whole texts, and all of them.")] = False,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> None:
    """Say what a model saw when it answered, and why each candidate was in, or out.

    A message means the context that it was answered from, or that it is the
    answer to. Of a context in the store: the parts of its prompt, the answer
    with its tokens, time and cost, and all that was left out, the nearest to
    the cut first. Of a file: the report, and a table of all candidates. With
    an ID: all about one candidate, with the window that it would have taken.
    """
    wanted = Filter(outcome=outcome, pool=pool, kind=kind, limit=limit)
    if id is not None and wanted != Filter():
        raise typer.BadParameter("one candidate needs no filters", param_hint="ID")
    found = locate(context, db=db, tenant=tenant, item=id)
    for note in _doubts(found, context):
        output.warn(note)
    if id is not None:
        explain_one(found, id, full=full, as_json=as_json)
    elif as_json:
        output.show_json(_data(found, wanted.of(found.context)))
    else:
        _show(found, wanted, full=full)


def _doubts(found: Located, name: str) -> Iterator[str]:
    if found.others:
        yield (
            f"{name!r} stands for {len(found.others) + 1} contexts; this is {found.context.id}, "
            f"the others are {', '.join(found.others)}"
        )


def _show(found: Located, wanted: Filter, *, full: bool) -> None:
    if found.stored and wanted in (Filter(), Filter(limit=wanted.limit)):
        output.say(explanation(found, full=full))
        _show_left_out(found.context, wanted.limit)
        return
    output.say(found.context.report())
    output.say()
    if decisions := wanted.of(found.context):
        output.show_table(Table(_COLUMNS, [_row(decision) for decision in decisions]))
    else:
        output.say("no such candidates")


def _show_left_out(context: Context, limit: int | None) -> None:
    """Show what the model did not see: nearest to the cut first, with all that decided."""
    packages = {(package.id, package.kind): package for package in context.inputs.packages}
    every = list(left_out(context))
    if not every:
        output.say("\nnothing was left out")
        return
    output.say(f"\nLEFT OUT: {plural(len(every), 'candidate')}, the nearest to the cut first")
    rows = []
    for decision in every[:limit]:
        package = packages.get((decision.id, decision.kind))
        text = output.preview(plain_text(package.content)) if package else ""
        score = None if decision.score is None else decision.score.total
        below = f"{decision.rank - decision.cut:+,}" if decision.rank > decision.cut else ""
        rows.append(
            [decision.reason, below, decision.id, decision.kind, f"{decision.tokens:,}", output.number(score), text]
        )
    output.show_table(Table(_LEFT_OUT, rows))


def _row(decision: Decision) -> list[str]:
    score = decision.score
    parts = (score.total, score.priority, score.importance, score.relevance, score.recency) if score else (None,) * 5
    rank = f"{decision.rank}/{decision.cut}" if decision.rank else ""
    told = (decision.outcome, decision.reason, decision.id, decision.kind, decision.pool, rank)
    return [*told, f"{decision.tokens:,}", *map(output.number, parts)]


def _data(found: Located, decisions: Sequence[Decision]) -> dict[str, object]:
    context = found.context
    data = {
        "id": context.id,
        "model": context.budget.model,
        "policy": context.budget.policy,
        "window": context.budget.window,
        "reserved": context.budget.reserved,
        "tokens": context.tokens,
        "percent": round(context.percent, 1),
        "remaining": context.remaining,
        "components": context.components,
        "pools": context.pools,
        "warnings": context.warnings,
        "candidates": [
            {**msgspec.to_builtins(decision), "line": decision_line(context, decision)} for decision in decisions
        ],
    }
    return data | _stored_data(found) if found.stored else data


def _stored_data(found: Located) -> dict[str, object]:
    return {
        "persona": found.persona,
        "room": found.room,
        "room_name": found.room_name,
        "at": found.at,
        "message": found.message,
        "others": found.others,
        "parts": sections(found.context),
        "answers": [{**msgspec.to_builtins(each), "cost": _dollars(found.context, each)} for each in found.answers],
    }


def _dollars(context: Context, answer: Response) -> float | None:
    try:
        cost = cost_of(context, answer)
    except MissingExtra:
        return None
    return None if cost is None else float(cost)


def _below(decision: Decision) -> int:
    """Return how far below the cut a candidate is; what never had a rank was never near."""
    return max(0, decision.rank - decision.cut) if decision.rank else sys.maxsize
