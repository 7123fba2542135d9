"""`brimful stats`: what builds and answers of a time come to."""

import time
from typing import TYPE_CHECKING, Annotated, Final

import typer

from brimful.cli import figures, output
from brimful.cli.counts import show_counts
from brimful.cli.opened import ask_store
from brimful.cli.options import (
    DEFAULT_DB,
    DEFAULT_TENANT,
    Db,
    Json,
    Last,
    OfModel,
    OfPersona,
    OfRoom,
    Tenant,
)
from brimful.records import Persona
from brimful.statistics import By, Statistics

if TYPE_CHECKING:
    from brimful.protocols import Store

EXAMPLES: Final = """\
Examples:
  brimful stats
  brimful stats --last 24h --persona helper
  brimful stats --last 30d --by day
  brimful stats --by model --json | jq '.[] | {key, contexts, cost, saved}'
  brimful stats --counts --model claude-sonnet-4-5"""

NOTHING: Final = (
    "nothing was built yet. Contexts are, by `brimful assemble`, `brimful chat`, `brimful serve` and Engine.assemble."
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("stats", epilog=EXAMPLES)(stats)


def stats(  # noqa: PLR0913 - the options of a command
    *,
    last: Last = None,
    persona: OfPersona = None,
    room: OfRoom = None,
    by: Annotated[By | None, typer.Option("--by", help="Tell figures apart, one row each.")] = None,
    counts: Annotated[
        bool, typer.Option("--counts", help="Show how well prompts were counted, by model and server.")
    ] = False,
    model: OfModel = None,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> None:
    """Show what contexts and answers came to: tokens, memories, warnings, cost.

    With --by, one row for each day, hour, model, policy or persona. Figures
    stay when contexts are pruned. A price is known with the extra `prices`.

    With --counts: every answer tells how many tokens its prompt really had.
    ERROR is the mean of our count against it, + if we counted too many; MEAN
    is the same without its sign, WORST the largest. COVERED is the share of
    prompts that had at most our count and its margin: those could not
    overflow. COUNTED BY tells what was known first, and what was learned
    since. CACHED and EXPECTED are the shares of prompts that providers had in
    their caches, and that they should have had. OVERFLOWS were refused as too
    long, CUTS were read only in part, silently.
    """
    since = None if last is None else time.time() - last
    if counts:
        _refuse("--counts has no such option", persona=persona, room=room, by=by)
        show_counts(since=since, model=model, db=db, tenant=tenant, as_json=as_json)
        return
    _refuse("goes with --counts; for figures by model, say --by model", model=model)

    async def asked(store: "Store") -> tuple[list[Statistics], str]:
        who = None if persona is None else await store.get(Persona, persona)
        found = await store.statistics(since=since, persona=persona, room=room, by=by or "")
        return found, who.called if who else persona or ""

    kept, whose = ask_store(asked, db=db, tenant=tenant)
    found = [figures.told(each) for each in kept]
    if as_json:
        output.show_json([each.data() for each in found])
    elif not any(each.figures.contexts or each.figures.answers.total for each in found):
        output.say(NOTHING if last is None and not persona and not room else "nothing was built that fits")
    elif by:
        output.show_table(figures.table(found, by))
    else:
        for line in figures.report(found[0], _title(last, whose, room)):
            output.say(output.one_line(line))


def _refuse(why: str, **options: str | None) -> None:
    for name, value in options.items():
        if value:
            raise typer.BadParameter(why, param_hint=f"--{name}")


def _title(last: float | None, persona: str, room: str | None) -> str:
    whose = f" for {persona}" if persona else ""
    where = f" in {room}" if room else ""
    return f"Statistics{whose}{where} ({_told(last)}):"


def _told(last: float | None) -> str:
    """Say for how long.

    >>> _told(None), _told(86_400.0), _told(5400.0)
    ('all that was built', 'last 24 hours', 'last 90 minutes')
    """
    if last is None:
        return "all that was built"
    for seconds, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if last % seconds == 0 and last > seconds:
            return f"last {last / seconds:g} {unit}"
    return f"last {last:g} seconds"
