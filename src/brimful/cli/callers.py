"""`brimful callers`: the keys of those who may ask a server of ours, and in whose name they ask."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import msgspec
import typer

from brimful.cli import output
from brimful.cli.failure import Failure
from brimful.cli.opened import want_store
from brimful.cli.options import DEFAULT_DB, DEFAULT_TENANT, Db, Json, Tenant
from brimful.cli.table import Table, columns

if TYPE_CHECKING:
    from brimful.stores import Caller, Callers

T = TypeVar("T")

SCOPES: Final = ("chat", "read", "write", "metrics")  # as the server knows them; it is an extra
EXAMPLES: Final = """\
Examples:
  brimful callers create --tenant acme --name "the support bot"
  brimful callers list --tenant acme
  brimful callers revoke 5f1c0a9e77d2 --tenant acme"""

_COLUMNS: Final = columns("id", "name", "scopes", "since", "state", spare=("since",))


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(no_args_is_help=True, epilog=EXAMPLES, help="Keys for those who ask a server: `brimful serve`.")
    group.command("create")(create)
    group.command("list")(show)
    group.command("revoke")(revoke)
    app.add_typer(group, name="callers")


def create(
    *,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Who it is for.")],
    scopes: Annotated[
        str, typer.Option("--scopes", metavar="LIST", help="What it allows: chat, read, write, metrics, with commas.")
    ] = "chat,read",
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> None:
    """Make a key, and print it: now, and never again. Only a digest of it is kept."""
    wanted = _scopes(scopes)
    caller, key = _ask(lambda callers: callers.create(name=name, scopes=wanted, at=time.time()), db, tenant, new=True)
    if as_json:
        output.show_json({"key": key, **_data(caller)})
        return
    output.say(key)
    output.warn(f"this is the only time that the key is shown; `brimful callers revoke {caller.id}` ends it")


def show(*, db: Db = DEFAULT_DB, tenant: Tenant = DEFAULT_TENANT, as_json: Json = False) -> None:
    """List the keys of a tenant. The keys themselves are not kept, and cannot be shown."""
    found = _ask(lambda callers: callers.listed(), db, tenant)
    if as_json:
        output.show_json([_data(caller) for caller in found])
    elif found:
        output.show_table(Table(_COLUMNS, [_row(caller) for caller in found]))
    else:
        output.say("no keys; see `brimful callers create`")


def revoke(
    *,
    id: Annotated[str, typer.Argument(metavar="ID", help="The key's id, as the list shows it.")],
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
) -> None:
    """Let a key hold no longer. Servers that are running know within seconds."""
    if not _ask(lambda callers: callers.revoke(id, at=time.time()), db, tenant):
        raise Failure(f"no key {id!r} that holds; see `brimful callers list`")
    output.say(f"revoked {id}")


def _ask(question: "Callable[[Callers], Awaitable[T]]", db: str, tenant: str, *, new: bool = False) -> T:
    from brimful.stores import connect  # noqa: PLC0415 - commands without a store start the faster for it

    if not new:
        want_store(db)

    async def asked() -> T:
        async with connect(db) as database:
            return await question(database.callers(tenant))

    return asyncio.run(asked())


def _scopes(text: str) -> list[str]:
    wanted = list(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    wrong = [word for word in wanted if word not in SCOPES]
    if wrong or not wanted:
        named = f"not {wrong[0]!r}" if wrong else "and none is named"
        raise typer.BadParameter(f"must be among {', '.join(SCOPES)}, {named}", param_hint="'--scopes'")
    return wanted


def _data(caller: "Caller") -> dict[str, Any]:
    return msgspec.structs.asdict(caller)


def _row(caller: "Caller") -> list[str]:
    state = "holds" if caller.revoked is None else f"revoked {output.moment(caller.revoked)}"
    return [caller.id, caller.name, ", ".join(caller.scopes), output.moment(caller.created), state]
