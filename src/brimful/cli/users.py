"""`brimful user`: who talks, and what comes along into each of their rooms."""

from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from brimful.cli import output
from brimful.cli.exports import add_export
from brimful.cli.noting import Notes, note_line, notes_given
from brimful.cli.opened import ask
from brimful.cli.options import DEFAULT_DB, DEFAULT_TENANT, Db, Json, Limit, Lorebooks, Tenant
from brimful.cli.people import all_of, take_out, the
from brimful.cli.table import Table, columns
from brimful.records import User

if TYPE_CHECKING:
    from brimful.engine import Engine

EXAMPLES: Final = """\
Examples:
  brimful user create ada --name Ada
  brimful user list
  brimful user remove ada"""
CREATE_EXAMPLES: Final = """\
Examples:
  brimful user create ada --name Ada
  brimful user create ada --lorebook family
  brimful user create ada --note "head={{user}} is a gardener, and reads no English."
  brimful user create ada --note \"\""""
LIST_EXAMPLES: Final = """\
Examples:
  brimful user list
  brimful user list --json | jq -r '.[].id'"""
SHOW_EXAMPLES: Final = """\
Examples:
  brimful user show ada
  brimful user show ada --json | jq .notes"""
REMOVE_EXAMPLES: Final = """\
Examples:
  brimful user remove ada"""

_COLUMNS: Final = columns("user", "name", "lorebooks", "notes", right=["notes"], spare=("lorebooks", "name"))

Id = Annotated[str, typer.Argument(metavar="USER", help="The user's id.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(no_args_is_help=True, epilog=EXAMPLES, help="Who talks, in any number of rooms.")
    group.command("create", epilog=CREATE_EXAMPLES)(create)
    group.command("list", epilog=LIST_EXAMPLES)(list_users)
    group.command("show", epilog=SHOW_EXAMPLES)(show)
    group.command("remove", epilog=REMOVE_EXAMPLES)(remove)
    add_export(group, User, name="user")
    app.add_typer(group, name="user")


def create(
    *,
    id: Id,
    name: Annotated[str | None, typer.Option("--name", metavar="TEXT", help="What people call them.")] = None,
    lorebooks: Lorebooks = None,
    notes: Notes = None,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> None:
    """Make a user, or change one: what is not said stays as it is."""
    given: dict[str, Any] = {
        "name": name,
        "lorebooks": tuple(lorebooks) if lorebooks else None,
        "notes": notes_given(notes),
    }

    async def put(engine: "Engine") -> User:
        held = await engine.store.get(User, id) or User(id=id)
        user = msgspec.structs.replace(held, **{key: value for key, value in given.items() if value is not None})
        await engine.put(user)
        return user

    _show(ask(put, db=db, tenant=tenant, new=True), as_json=as_json)


def list_users(
    *,
    limit: Limit = 100,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> None:
    """List the users by id."""
    found = all_of(User, limit=limit, db=db, tenant=tenant)
    if as_json:
        output.show_json(found)
    else:
        output.show_table(Table(_COLUMNS, [_row(user) for user in found]))


def show(*, id: Id, db: Db = DEFAULT_DB, tenant: Tenant = DEFAULT_TENANT, as_json: Json = False) -> None:
    """Show a user: the name, and what comes along into each of their rooms."""
    _show(the(User, id, db=db, tenant=tenant), as_json=as_json)


def remove(*, id: Id, db: Db = DEFAULT_DB, tenant: Tenant = DEFAULT_TENANT, as_json: Json = False) -> None:
    """Remove a user, and the memories that belong to them. Their rooms stay."""
    take_out(User, id, db=db, tenant=tenant, as_json=as_json)


def _show(user: User, *, as_json: bool) -> None:
    if as_json:
        output.show_json(user)
    else:
        output.show_facts(_facts(user))


def _row(user: User) -> list[str]:
    return [user.id, user.name, ", ".join(user.lorebooks), f"{len(user.notes):,}"]


def _facts(user: User) -> list[tuple[str, str]]:
    return [
        ("user", user.id),
        ("name", user.name),
        ("lorebooks", ", ".join(user.lorebooks)),
        *(("note", note_line(note)) for note in user.notes),
        ("metadata", msgspec.json.encode(user.metadata).decode() if user.metadata else ""),
    ]
