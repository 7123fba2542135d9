"""`brimful assemble`: the best context for the next answer in a room, with what retrieval found for it."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from brimful.cli import output
from brimful.cli.fill import show_data
from brimful.cli.messages import words
from brimful.cli.opened import ask, catch_up
from brimful.cli.options import (
    DEFAULT_DB,
    DEFAULT_EMBEDDER,
    DEFAULT_TENANT,
    Completion,
    Db,
    Embedder,
    Json,
    Now,
    Out,
    RequestOnly,
    Settings,
    Tenant,
    Window,
    complete_model,
    complete_policy,
    known_model,
)
from brimful.cli.options import overrides as read_overrides
from brimful.cli.source import write_context
from brimful.cli.table import Table, columns
from brimful.core.content import ContentPackage
from brimful.core.context import Context

if TYPE_CHECKING:
    from brimful.engine import Engine

EXAMPLES: Final = """\
Examples:
  brimful assemble --room support --message "Where is my parcel?" --model gpt-4o
  brimful assemble --room support --persona nova --user ada --out context.json
  echo "Where is it?" | brimful assemble --room support --message - -m gpt-4 --request
  brimful assemble --room support -m gpt-4o --set pools.recent.most=20 --no-save"""

SHOWN: Final = 20  # finds: the best of them say whether the right thing was asked
_COLUMNS: Final = columns(
    *("outcome", "reason", "relevance", "words", "meaning", "query", "id", "text"),
    right=("relevance", "words", "meaning"),
    spare=("reason", "query", "meaning", "words"),
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("assemble", epilog=EXAMPLES)(assemble)


def assemble(  # noqa: PLR0913 - the options of a command
    *,
    room: Annotated[str, typer.Option("--room", metavar="ID", help="The room that is to be answered.")],
    persona: Annotated[str | None, typer.Option("--persona", metavar="ID", help="Who answers.")] = None,
    message: Annotated[
        str | None,
        typer.Option(
            "--message",
            metavar="TEXT",
            help="What is to be answered, if it was not posted. `-` is standard input.",
        ),
    ] = None,
    user: Annotated[str | None, typer.Option("--user", metavar="ID", help="Who asks. Default: the room's own.")] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model", "-m", metavar="NAME", help="The model. Default: the persona's.", autocompletion=complete_model
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy",
            "-p",
            metavar="NAME|FILE.toml",
            help="A policy by name, or a policy file. Default: the persona's.",
            autocompletion=complete_policy,
        ),
    ] = None,
    window: Window = None,
    completion: Completion = None,
    settings: Settings = None,
    now: Now = None,
    embedder: Embedder = DEFAULT_EMBEDDER,
    out: Out = None,
    request: RequestOnly = False,
    save: Annotated[bool, typer.Option("--save/--no-save", help="Keep the record in the store, or not.")] = True,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> None:
    """Build the best context for the next answer in a room, and report what went where.

    History comes from the room; older messages, memories and lore are found
    by what is asked. Without a message, the room ends with what is to be
    answered. The record can be explained, compared and replayed like that of
    `brimful fill`.
    """
    asked = None if message is None else words(message)
    info = None if model is None else known_model(model)

    async def build(engine: "Engine") -> Context:
        await catch_up(engine)
        return await engine.assemble(
            room=room,
            persona=persona,
            message=asked,
            user=user,
            model=info,
            policy=policy,
            window=window,
            completion=completion,
            overrides=read_overrides(settings),
            now=now,
            save=save,
        )

    context = ask(build, db=db, tenant=tenant, embedder=embedder)
    write_context(out, context)
    if not show_data(context, request=request, as_json=as_json):
        output.say(context.report())
        show_found(context)


def show_found(context: Context) -> None:
    """Show what retrieval brought and what became of it, the most relevant first."""
    found = [package for package in context.inputs.packages if "found" in package.metadata]
    if found:
        found.sort(key=lambda package: (-(package.relevance or 0.0), package.id))
        output.say()
        output.show_table(Table(_COLUMNS, [_row(context, package) for package in found[:SHOWN]]))
    if len(found) > SHOWN:
        output.say(f"… and {len(found) - SHOWN:,} more that were found; `brimful explain` tells of all in a record")


def _row(context: Context, package: ContentPackage) -> list[str]:
    decision = context.decision(package.id)
    parts = package.metadata["found"]
    shares = map(output.number, (package.relevance, parts["lexical"], parts["vector"]))
    return [decision.outcome, decision.reason, *shares, parts["query"], package.id, output.preview(package.text)]
