"""`brimful inspect`: what the next context of a persona in a room would be, without asking any model."""

import time
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from brimful.cli import output
from brimful.cli.chat import ModelName, Persona, PolicyOption, User
from brimful.cli.messages import words
from brimful.cli.opened import ask
from brimful.cli.options import (
    DEFAULT_DB,
    DEFAULT_EMBEDDER,
    DEFAULT_MODEL,
    DEFAULT_TENANT,
    Completion,
    Db,
    Embedder,
    Json,
    Now,
    Settings,
    Tenant,
    Window,
    known_model,
)
from brimful.cli.options import overrides as read_overrides

if TYPE_CHECKING:
    from brimful.cli.inspected import Inspection
    from brimful.engine import Engine

EXAMPLES: Final = """\
Examples:
  brimful inspect --persona nova --room support
  brimful inspect --persona nova --room support --message "Where is my parcel?"
  brimful inspect --room support --model gpt-4 --policy window
  brimful inspect --persona nova --room support --json | jq .remaining"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("inspect", epilog=EXAMPLES)(inspect)


def inspect(  # noqa: PLR0913 - the options of a command
    *,
    room: Annotated[str, typer.Option("--room", metavar="ID", help="The room that is to be answered.")],
    persona: Persona = None,
    message: Annotated[
        str | None,
        typer.Option(
            "--message",
            metavar="TEXT",
            help="What would be answered. `-` is standard input. Default: what the room ends with.",
        ),
    ] = None,
    user: User = None,
    model: ModelName = None,
    policy: PolicyOption = None,
    window: Window = None,
    completion: Completion = None,
    settings: Settings = None,
    now: Now = None,
    embedder: Embedder = DEFAULT_EMBEDDER,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> None:
    """Show what the next context in a room would be: nothing is sent, kept or counted as an access.

    Model, window, components with their memories and media, what is left,
    warnings, and how retrieval fares. Without a model, the persona's is
    meant, or gpt-4o.
    """
    asked = None if message is None else words(message)
    info = None if model is None else known_model(model)

    async def look(engine: "Engine") -> "Inspection":
        from brimful.cli.inspected import Inspection  # noqa: PLC0415 - as the engine, only where one is opened
        from brimful.records import Persona as PersonaRecord  # noqa: PLC0415

        who = None if persona is None else await engine.store.get(PersonaRecord, persona)
        began = time.perf_counter()
        context = await engine.assemble(
            room=room,
            persona=persona,
            message=asked,
            user=user,
            model=info or (DEFAULT_MODEL if who is None or not who.model else None),
            policy=policy,
            window=window,
            completion=completion,
            overrides=read_overrides(settings),
            now=now,
            save=False,
        )
        seconds = time.perf_counter() - began
        last = await engine.store.builds(room=room, persona=persona, limit=1)
        return Inspection(
            context=context,
            persona=who.called if who else persona or "",
            room=room,
            seconds=seconds,
            breaker=engine.breaker.state(time.time()),
            embedder=embedder,
            last=last[0] if last else None,
        )

    looked = ask(look, db=db, tenant=tenant, embedder=embedder, indexing=False)
    if as_json:
        output.show_json(_data(looked))
    else:
        output.say(looked.text())


def _data(looked: "Inspection") -> dict[str, object]:
    context = looked.context
    found = [package for package in context.inputs.packages if "found" in package.metadata]
    return {
        "id": context.id,
        "persona": looked.persona,
        "room": looked.room,
        "model": context.budget.model,
        "policy": context.budget.policy,
        "window": context.budget.window,
        "tokens": context.tokens,
        "percent": round(context.percent, 1),
        "reserved": context.budget.reserved,
        "completion": context.budget.completion,
        "remaining": context.remaining,
        "components": context.components,
        "pools": context.pools,
        "memories": [
            {**msgspec.to_builtins(decision), "text": package.text}
            for package in context.inputs.packages
            if package.kind.startswith("memory-") and (decision := context.decision(package.id)).included
        ],
        "found": len(found),
        "degraded": context.inputs.degraded,
        "warnings": context.warnings,
        "breaker": looked.breaker,
        "last": looked.last,
        "seconds": round(looked.seconds, 4),
    }
