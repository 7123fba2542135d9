"""`brimful lorebook try`: which entries would be told now, which not, and why."""

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from brimful.cli import output
from brimful.cli.failure import Failure
from brimful.cli.messages import words
from brimful.cli.opened import ask, catch_up
from brimful.cli.options import (
    DEFAULT_DB,
    DEFAULT_EMBEDDER,
    DEFAULT_MODEL,
    DEFAULT_TENANT,
    Db,
    Embedder,
    Json,
    Model,
    Tenant,
    Window,
    known_model,
)
from brimful.cli.table import Table, columns
from brimful.core.context import Context
from brimful.core.decision import Decision
from brimful.records import Persona, Room, User

if TYPE_CHECKING:
    from brimful.engine import Engine

EXAMPLES: Final = """\
Examples:
  brimful lorebook try --room tavern --message "Who lives in the tower?"
  brimful lorebook try --room tavern --persona nova --model gpt-4o --window 4096
  brimful lorebook try --room tavern --message "tower" --json | jq '.told[].why'"""

_COLUMNS: Final = columns("entry", "tokens", "why", right=["tokens"])


def register(group: typer.Typer) -> None:
    """Add the command."""
    group.command("try", epilog=EXAMPLES)(try_out)


def try_out(  # noqa: PLR0913 - the options of a command
    *,
    room: Annotated[str, typer.Option("--room", metavar="ID", help="The room whose books are tried.")],
    message: Annotated[
        str | None,
        typer.Option("--message", metavar="TEXT", help="What is said. `-` is standard input. Default: the room's end."),
    ] = None,
    persona: Annotated[str | None, typer.Option("--persona", metavar="ID", help="Who answers.")] = None,
    user: Annotated[str | None, typer.Option("--user", metavar="ID", help="Who asks. Default: the room's own.")] = None,
    model: Model = DEFAULT_MODEL,
    window: Window = None,
    embedder: Embedder = DEFAULT_EMBEDDER,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> None:
    """Say which entries would be told if this were said now, and which not, and why.

    A context is built and thrown away: what the window has no room for is not
    told either. Entries that nothing spoke of are not listed.
    """
    asked = None if message is None else words(message)
    info = known_model(model)

    async def build(engine: "Engine") -> Context:
        await _want_books(engine, room, persona, user)
        await catch_up(engine)
        return await engine.assemble(
            room=room, persona=persona, message=asked, user=user, model=info, window=window, save=False
        )

    context = ask(build, db=db, tenant=tenant, embedder=embedder)
    lore = [decision for decision in context.decisions if decision.kind == "lorebook"]
    told = [decision for decision in lore if decision.included]
    others = [decision for decision in lore if not decision.included]
    if as_json:
        output.show_json(_data(context, told, others))
        return
    _show("told", context, told)
    output.say()
    _show("not told", context, others)
    for note in context.inputs.degraded:
        output.warn(note)


async def _want_books(engine: "Engine", room: str, persona: str | None, user: str | None) -> None:
    """Refuse to look into no book at all: nobody would know why nothing is told."""
    place = await engine.store.get(Room, room)
    persona, user = persona or (place.persona if place else None), user or (place.user if place else None)
    who = None if persona is None else await engine.store.get(Persona, persona)
    asker = None if user is None else await engine.store.get(User, user)
    if not any(each and each.lorebooks for each in (place, who, asker)):
        raise Failure(f"room {room!r} has no lorebook; `brimful room create ROOM --lorebook BOOK` gives it one")


def _show(title: str, context: Context, decisions: list[Decision]) -> None:
    if not decisions:
        output.say(f"{title}: nothing")
        return
    tokens = sum(decision.cost or decision.tokens for decision in decisions)
    output.say(f"{title}: {len(decisions):,} {'entry' if len(decisions) == 1 else 'entries'}, {tokens:,} tokens")
    rows = [[each.id, f"{each.cost or each.tokens:,}", _why(context, each)] for each in decisions]
    output.show_table(Table(_COLUMNS, rows))


def _why(context: Context, decision: Decision) -> str:
    """Say why an entry is told, or why not."""
    if decision.included:
        return context.whys.get(decision.id, "")
    return context.explain(decision.id).removeprefix("dropped: ").removeprefix("held back, ")


def _data(context: Context, told: list[Decision], others: list[Decision]) -> dict[str, Any]:
    found = {package.id: package.metadata.get("lore", {}) for package in context.inputs.packages}

    def row(decision: Decision) -> dict[str, Any]:
        facts = {"id": decision.id, "outcome": decision.outcome, "reason": decision.reason}
        tokens = decision.cost or decision.tokens
        return {**facts, "tokens": tokens, "why": _why(context, decision), "lore": found.get(decision.id, {})}

    return {"told": [row(each) for each in told], "not_told": [row(each) for each in others]}
