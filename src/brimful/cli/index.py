"""`brimful index`: vectors for what is stored, and how far they have come."""

from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from brimful.cli import output
from brimful.cli.failure import Failure
from brimful.cli.opened import ask
from brimful.cli.options import DEFAULT_DB, DEFAULT_EMBEDDER, DEFAULT_TENANT, Db, Embedder, Json, Tenant
from brimful.cli.progress import progress
from brimful.cli.table import Table, columns

if TYPE_CHECKING:
    from brimful.answers import Progress
    from brimful.engine import Engine

EXAMPLES: Final = """\
Examples:
  brimful index
  brimful index --embedder minilm
  brimful index --status
  brimful index --drop openai:text-embedding-3-small@1"""

_COLUMNS: Final = columns("embedder", "done", "waiting", right=["done", "waiting"])


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """How far one embedder has come."""

    embedder: str
    done: int
    waiting: int


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("index", epilog=EXAMPLES)(index)


def index(
    *,
    embedder: Embedder = DEFAULT_EMBEDDER,
    status: Annotated[
        bool, typer.Option("--status", help="Show how far each embedder has come; embed nothing.")
    ] = False,
    drop: Annotated[
        str | None, typer.Option("--drop", metavar="ID", help="Forget all vectors of this embedder; embed nothing.")
    ] = None,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> None:
    """Make vectors for all that is stored and has none by this embedder.

    What is done stays done: an index that was interrupted goes on where it
    ended. From then on, the embedder is in use: whatever is written waits for
    its vectors, which a program with an engine makes in the background.
    """
    if status and drop is not None:
        raise typer.BadParameter("one or the other", param_hint="'--status' / '--drop'")
    if drop is not None:
        found = ask(lambda engine: _dropped(engine, drop), db=db, tenant=tenant)
    elif status:
        found = ask(_standings, db=db, tenant=tenant)
    else:
        found = ask(lambda engine: _embedded(engine, quiet=as_json), db=db, tenant=tenant, embedder=embedder)
    if as_json:
        output.show_json(found)
    elif found:
        rows = [[each.embedder, f"{each.done:,}", f"{each.waiting:,}"] for each in found]
        output.show_table(Table(_COLUMNS, rows))
    else:
        output.say("no embedder is in use")


async def _embedded(engine: "Engine", *, quiet: bool) -> list[Standing]:
    with progress("embedding", 1, quiet=quiet) as advance:

        def told(far: "Progress") -> None:
            advance(far.done / max(1, far.done + far.waiting))

        await engine.index(told)
    return await _standings(engine)


async def _dropped(engine: "Engine", id: str) -> list[Standing]:
    known = await engine.store.embedders()
    if id not in known:
        raise Failure(f"no embedder {id!r} is in use; there are: {', '.join(known) or 'none'}")
    await engine.store.drop_embedder(id)
    return await _standings(engine)


async def _standings(engine: "Engine") -> list[Standing]:
    """Return how far each embedder has come, the one that was used first last."""
    found = []
    for id in await engine.store.embedders():
        far = await engine.store.progress(id)
        found.append(Standing(embedder=id, done=far.done, waiting=far.waiting))
    return found
