"""One candidate of a context: what became of it, why, what window it would have taken, and how it fared before."""

from difflib import get_close_matches
from typing import Final

from brimful.cli import output
from brimful.cli.failure import Failure
from brimful.cli.located import Located
from brimful.cli.table import Table, columns
from brimful.core.content import ContentPackage
from brimful.core.context import Context
from brimful.core.decision import Decision
from brimful.core.explain import shown_score
from brimful.core.label import iso_date
from brimful.errors import UnknownRecord
from brimful.packagers.stored import plain_text
from brimful.whatif import window_for

_BUILDS: Final = columns("built", "outcome", "reason", "context", spare=["reason"])


def explain_one(found: Located, id: str, *, full: bool, as_json: bool) -> None:
    """Show all that is known of a candidate."""
    context = found.context
    decision = _found(found, id)
    package = _package(context, decision)
    window = window_for(context, id)
    if as_json:
        output.show_json(
            {
                "line": context.explain(id),
                "decision": decision,
                "package": package,
                "window_for": window,
                "builds": found.inclusions,
            }
        )
        return
    output.say(output.one_line(context.explain(id)))
    output.say(_would_take(context, decision, window))
    output.say()
    output.show_facts(_facts(decision, package))
    if package is not None and full:
        output.say(f"\n{output.lines(plain_text(package.content))}")
    if found.inclusions:
        output.say("\nlast builds")
        rows = [[output.moment(each.at), each.outcome, each.reason, each.snapshot] for each in found.inclusions]
        output.show_table(Table(_BUILDS, rows))


def _would_take(context: Context, decision: Decision, window: int | None) -> str:
    """Say what window it would have taken, or that none would have helped."""
    own = f"this one has {context.budget.window:,}"
    if window is None:
        return f"no larger window would let it in ({own}){_why_never(context, decision)}"
    still = " still" if decision.included else ""
    return f"it would{still} be in a window of {window:,} tokens, and not in one of {window - 1:,} ({own})"


def _why_never(context: Context, decision: Decision) -> str:
    """Say why, where the line on the decision does not."""
    pool = next((pool for pool in context.inputs.policy.pools if pool.name == decision.pool), None)
    if pool is None or pool.low_water is None or context.inputs.previous is None:
        return ""
    return ": history begins where it began in the build before it, so that the provider's cache holds"


def _found(found: Located, id: str) -> Decision:
    context = found.context
    try:
        return context.decision(id)
    except UnknownRecord:
        if found.absence:
            raise Failure(f"{id!r} was no candidate of {context.id}: {found.absence}") from None
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
        names = ("priority", "importance", "relevance", "recency")
        parts = ", ".join(f"{name} {shown_score(getattr(score, name))}" for name in names)
        facts.append(("score", f"{shown_score(score.total)} ({parts})"))
    if package is not None:
        facts += [("date", iso_date(package.timestamp)), ("hash", package.hash), ("text", output.preview(package.text))]
    return facts
