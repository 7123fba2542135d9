"""`brimful explain`: why was this in, and that out? Answered from the record of a context."""

import sys
from collections.abc import Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from brimful.cli import output
from brimful.cli.failure import Failure
from brimful.cli.opened import ask
from brimful.cli.options import DEFAULT_DB, DEFAULT_TENANT, Db, Json, Tenant
from brimful.cli.source import read_context
from brimful.cli.table import Table, columns
from brimful.core.content import ContentPackage
from brimful.core.context import PREFIX, Context
from brimful.core.decision import Decision, Outcome
from brimful.core.explain import decision_line, shown_score
from brimful.core.label import iso_date
from brimful.errors import UnknownRecord

if TYPE_CHECKING:
    from brimful.engine import Engine

EXAMPLES: Final = """\
Examples:
  brimful explain context.json
  brimful explain context.json msg-000012
  brimful explain context.json --outcome dropped --limit 10
  brimful explain context.json --kind 'memory-*' --json
  brimful explain ctx-81c2f4d19a05b7e36c1f88aa --db sqlite:///brimful.db"""

_COLUMNS: Final = columns(
    *("outcome", "reason", "id", "kind", "pool", "rank/cut", "tokens"),
    *("score", "priority", "importance", "relevance", "recency"),
    right=("rank/cut", "tokens", "score", "priority", "importance", "relevance", "recency"),
    spare=("pool", "kind", "rank/cut", "relevance", "importance", "priority", "recency"),
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
    file: Annotated[
        str,
        typer.Argument(metavar="CONTEXT", help="A record: a file, `-` for standard input, or its id in the store."),
    ],
    id: Annotated[str | None, typer.Argument(metavar="[ID]", help="One candidate, all that is known of it.")] = None,
    outcome: Annotated[Outcome | None, typer.Option("--outcome", help="Only those that ended so.")] = None,
    pool: Annotated[str | None, typer.Option("--pool", metavar="NAME", help="Only those of this pool.")] = None,
    kind: Annotated[
        str | None, typer.Option("--kind", metavar="PATTERN", help="Only kinds like this, as in 'memory-*'.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="At most so many.")] = None,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> None:
    """Say why each candidate is in a context, or out of it.

    Without an ID: the report, and a table of all candidates. What is in
    stands first; of what is out, the nearest to the cut.
    """
    wanted = Filter(outcome=outcome, pool=pool, kind=kind, limit=limit)
    if id is not None and wanted != Filter():
        raise typer.BadParameter("one candidate needs no filters", param_hint="ID")
    context = _stored(file, db, tenant) if _names_stored(file) else read_context(file)
    if id is not None:
        _explain_one(context, id, as_json=as_json)
    elif as_json:
        output.show_json(_data(context, wanted.of(context)))
    else:
        _show(context, wanted.of(context))


def _names_stored(name: str) -> bool:
    """Say whether an id of a context is meant, and not a file that is called so."""
    return name.startswith(PREFIX) and not Path(name).exists()


def _stored(id: str, db: str, tenant: str) -> Context:
    async def read(engine: "Engine") -> Context:
        snapshot = await engine.store.snapshot(id)
        if snapshot is None:
            raise UnknownRecord("context", id)
        return snapshot.context

    return ask(read, db=db, tenant=tenant)


def _explain_one(context: Context, id: str, *, as_json: bool) -> None:
    decision = _found(context, id)
    package = _package(context, decision)
    if as_json:
        output.show_json({"line": context.explain(id), "decision": decision, "package": package})
        return
    output.say(output.one_line(context.explain(id)))
    output.say()
    output.show_facts(_facts(decision, package))


def _found(context: Context, id: str) -> Decision:
    try:
        return context.decision(id)
    except KeyError:
        near = get_close_matches(id, [decision.id for decision in context.decisions], n=3)
        hint = f"; nearest: {', '.join(near)}" if near else ""
        raise Failure(f"no candidate {id!r} in {context.id}{hint}") from None


def _package(context: Context, decision: Decision) -> ContentPackage | None:
    same = [package for package in context.inputs.packages if package.id == decision.id]
    return next((package for package in same if package.kind == decision.kind), None)


def _facts(decision: Decision, package: ContentPackage | None) -> list[tuple[str, str]]:
    score = decision.score
    facts = [
        ("id", decision.id),
        ("kind", decision.kind),
        ("pool", decision.pool),
        ("outcome", decision.outcome),
        ("reason", decision.reason),
        ("tokens", f"{decision.tokens:,}"),
        ("cost", f"{decision.cost:,}" if decision.cost else ""),
        ("rank", f"{decision.rank:,} (cut at {decision.cut:,})" if decision.rank else ""),
        ("by", decision.by),
        ("group", decision.group),
    ]
    if score is not None:
        parts = ((name, getattr(score, name)) for name in ("priority", "importance", "relevance", "recency"))
        facts.append(
            ("score", f"{shown_score(score.total)} ({', '.join(f'{name} {part:.2f}' for name, part in parts)})")
        )
    if package is not None:
        facts += [("date", iso_date(package.timestamp)), ("hash", package.hash), ("text", output.preview(package.text))]
    return facts


def _show(context: Context, decisions: Sequence[Decision]) -> None:
    output.say(context.report())
    output.say()
    if decisions:
        output.show_table(Table(_COLUMNS, [_row(decision) for decision in decisions]))
    else:
        output.say("no such candidates")


def _row(decision: Decision) -> list[str]:
    score = decision.score
    parts = (score.total, score.priority, score.importance, score.relevance, score.recency) if score else (None,) * 5
    rank = f"{decision.rank}/{decision.cut}" if decision.rank else ""
    told = (decision.outcome, decision.reason, decision.id, decision.kind, decision.pool, rank)
    return [*told, f"{decision.tokens:,}", *map(output.number, parts)]


def _data(context: Context, decisions: Sequence[Decision]) -> dict[str, object]:
    return {
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


def _below(decision: Decision) -> int:
    """Return how far below the cut a candidate is; what never had a rank was never near."""
    return max(0, decision.rank - decision.cut) if decision.rank else sys.maxsize
