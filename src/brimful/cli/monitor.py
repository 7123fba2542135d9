"""`brimful monitor`: builds and answers as they happen, in any process that shares the store."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from brimful.cli import output
from brimful.cli.opened import ask, want_store
from brimful.cli.options import DEFAULT_DB, DEFAULT_TENANT, Db, Json, OfPersona, OfRoom, Tenant
from brimful.errors import StoreUnavailable

if TYPE_CHECKING:
    from brimful.answers import Build
    from brimful.cli.watching import Look
    from brimful.engine import Engine
    from brimful.protocols import Store
    from brimful.records import Response

EXAMPLES: Final = """\
Examples:
  brimful monitor
  brimful monitor --follow
  brimful monitor --persona nova --follow
  brimful monitor --room support --follow --json | jq -c 'select(.event == "build")'

Ctrl-C ends it, with the exit code 130."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("monitor", epilog=EXAMPLES)(monitor)


def monitor(
    *,
    persona: OfPersona = None,
    room: OfRoom = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="The last so many to begin with.")] = 10,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on, and show what happens.")] = False,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> None:
    """Show the last builds and answers, and with --follow all that come, from any process.

    A build is told by its components, its window as a bar, and what changed
    since the last build of the same persona in the same room. A store that is
    away for a while is waited for. With --json, one event a line.
    """
    want_store(db)
    show = _printer(as_json=as_json)
    if follow:
        asyncio.run(_follow(show, db=db, tenant=tenant, room=room, persona=persona, limit=limit))
        return

    async def last(engine: "Engine") -> "list[tuple[Build | Response, str]]":
        from brimful.cli.watching import Wanted, Watch  # noqa: PLC0415 - with it come the stores

        return await Watch(Wanted(room=room, persona=persona)).last(engine.store, limit)

    found = ask(last, db=db, tenant=tenant)
    for event, who in found:
        show(event, who)
    if not found and not as_json:
        output.say("nothing was built yet; --follow waits for it")


def _printer(*, as_json: bool) -> "Callable[[Build | Response, str], None]":
    from brimful.cli.told import Teller  # noqa: PLC0415 - as above

    teller = Teller()

    def show(event: "Build | Response", who: str) -> None:
        if as_json:
            output.say(msgspec.json.encode(teller.data(event)).decode())
        else:
            output.say(teller.text(event, who))

    return show


async def _follow(
    show: "Callable[[Build | Response, str], None]",
    *,
    db: str,
    tenant: str,
    room: str | None,
    persona: str | None,
    limit: int,
) -> None:
    from brimful.cli.watching import Wanted, Watch, follow  # noqa: PLC0415 - as above
    from brimful.engine import Engine  # noqa: PLC0415

    present = _presence(db)

    @asynccontextmanager
    async def opening() -> "AsyncIterator[Look]":
        present()
        async with Engine(db, tenant=tenant, embedder="none") as engine:

            async def look() -> "Store":
                present()
                return engine.store

            yield look

    watch = Watch(Wanted(room=room, persona=persona))
    events = follow(opening, watch, limit=limit, pause=asyncio.sleep, going=output.is_read, notice=output.warn)
    async for event, who in events:
        show(event, who)


def _presence(db: str) -> Callable[[], None]:
    """Return a check that the file of a store is there, and the one that it was at the last check.

    A database that is open does not notice when its file is removed or replaced.
    """
    from brimful.stores.urls import parse_url  # noqa: PLC0415 - as above

    target = parse_url(db)
    known: list[int] = []

    def check() -> None:
        if not target.path:
            return
        try:
            now = Path(target.path).stat().st_ino
        except OSError:
            known.clear()
            raise StoreUnavailable(target.shown, "its file is gone", retriable=True) from None
        before, known[:] = list(known), [now]
        if before not in ([], [now]):
            raise StoreUnavailable(target.shown, "its file was replaced", retriable=True)

    return check
