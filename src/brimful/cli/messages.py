"""`brimful message`: what was said, posted, listed, shown, edited and deleted."""

from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from brimful.cli import output
from brimful.cli.exports import add_export
from brimful.cli.failure import Failure
from brimful.cli.opened import ask
from brimful.cli.options import DEFAULT_DB, DEFAULT_TENANT, At, Db, Erase, Json, Tenant
from brimful.cli.source import STDIN, read_text
from brimful.cli.table import Table, columns
from brimful.core.content import Role
from brimful.errors import UnknownRecord
from brimful.packagers.stored import plain_text
from brimful.records import Message, Room

if TYPE_CHECKING:
    from brimful.engine import Engine

EXAMPLES: Final = """\
Examples:
  brimful message post support "My parcel is late." --sender Ada
  brimful message list support --limit 10
  brimful message delete msg-17 --erase"""
POST_EXAMPLES: Final = """\
Examples:
  brimful message post support "My parcel is late." --sender Ada
  brimful message post support "I will look." --role assistant
  cat letter.txt | brimful message post support - --id letter-17"""
LIST_EXAMPLES: Final = """\
Examples:
  brimful message list support
  brimful message list support --limit 50 --before 400
  brimful message list support --json | jq -r '.[].content'"""
SHOW_EXAMPLES: Final = """\
Examples:
  brimful message show msg-17
  brimful message show msg-17 --json | jq .metadata"""
EDIT_EXAMPLES: Final = """\
Examples:
  brimful message edit msg-17 "My parcel is late by a week."
  cat letter.txt | brimful message edit msg-17 -"""
DELETE_EXAMPLES: Final = """\
Examples:
  brimful message delete msg-17
  brimful message delete msg-17 --erase"""

_COLUMNS: Final = columns(
    *("seq", "at", "role", "sender", "id", "text"), right=["seq"], spare=("role", "seq", "at", "sender")
)

Id = Annotated[str, typer.Argument(metavar="ID", help="The message's id.")]
Words = Annotated[str, typer.Argument(metavar="TEXT", help="What is said. `-` is standard input.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(no_args_is_help=True, epilog=EXAMPLES, help="What was said in rooms.")
    group.command("post", epilog=POST_EXAMPLES)(post)
    group.command("list", epilog=LIST_EXAMPLES)(list_messages)
    group.command("show", epilog=SHOW_EXAMPLES)(show)
    group.command("edit", epilog=EDIT_EXAMPLES)(edit)
    group.command("delete", epilog=DELETE_EXAMPLES)(delete)
    add_export(group, Message, name="message")
    app.add_typer(group, name="message")


def post(  # noqa: PLR0913 - the options of a command
    *,
    room: Annotated[str, typer.Argument(metavar="ROOM", help="The room. It is made if there is none.")],
    text: Words,
    sender: Annotated[str, typer.Option("--sender", metavar="NAME", help="Who says it.")] = "",
    role: Annotated[Role, typer.Option("--role", help="As whom.")] = "user",
    id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="Its id: the same id twice is one message.")
    ] = None,
    at: At = None,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> None:
    """Say something in a room, and print the id under which it is kept.

    What is kept under an id stays as it is. If it says something else, a
    warning tells so; an id of another room is refused.
    """
    said = words(text)

    async def posted(engine: "Engine") -> Message:
        message = await engine.post(room=room, text=said, sender=sender, role=role, id=id, at=at)
        if not await engine.store.messages([message.id]):
            raise Failure(f"message {message.id!r} was deleted, and its id cannot be used again; nothing was posted")
        return message

    message = ask(posted, db=db, tenant=tenant, new=True)
    if (message.content, message.sender, message.role) != (said, sender, role):
        output.warn(f"message {message.id!r} is there already, and stays as it is")
    if as_json:
        output.show_json(message)
    else:
        output.say(output.one_line(message.id))


def list_messages(
    *,
    room: Annotated[str, typer.Argument(metavar="ROOM", help="The room.")],
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="So many, the newest.")] = 20,
    before: Annotated[
        int | None, typer.Option("--before", metavar="SEQ", min=1, help="Only those said before this one.")
    ] = None,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> None:
    """List the newest messages of a room, in the order in which they were said."""

    async def listed(engine: "Engine") -> list[Message]:
        found = await engine.store.history(room, before=before, limit=limit)
        if not found and await engine.store.get(Room, room) is None:
            raise UnknownRecord("room", room)
        return [entry.message for entry in reversed(found)]

    found = ask(listed, db=db, tenant=tenant)
    if as_json:
        output.show_json(found)
    else:
        output.show_table(Table(_COLUMNS, [_row(message) for message in found]))


def show(*, id: Id, db: Db = DEFAULT_DB, tenant: Tenant = DEFAULT_TENANT, as_json: Json = False) -> None:
    """Show a message: who said it, when, where, and all of its text."""

    async def shown(engine: "Engine") -> Message:
        found = await engine.store.messages([id])
        if not found:
            raise UnknownRecord("message", id)
        return found[0]

    message = ask(shown, db=db, tenant=tenant)
    if as_json:
        output.show_json(message)
        return
    output.show_facts(_facts(message))
    output.say()
    output.say(output.lines(plain_text(message.content)))


def edit(
    *,
    id: Id,
    text: Words,
    at: At = None,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> None:
    """Give a message another text. Contexts that were built before keep what they held."""
    said = words(text)

    async def edited(engine: "Engine") -> Message:
        return await engine.edit(id, said, at=at)

    message = ask(edited, db=db, tenant=tenant)
    if as_json:
        output.show_json(message)
    else:
        output.show_facts(_facts(message))


def delete(
    *, id: Id, erase: Erase = False, db: Db = DEFAULT_DB, tenant: Tenant = DEFAULT_TENANT, as_json: Json = False
) -> None:
    """Take a message out of its room. The same id cannot be posted again."""

    async def deleted(engine: "Engine") -> None:
        await engine.delete(id, erase=erase)

    ask(deleted, db=db, tenant=tenant)
    if as_json:
        output.show_json({"id": id, "deleted": True, "erased": erase})
    else:
        output.say(f"deleted {output.one_line(id)}{', and erased from past contexts' if erase else ''}")


def words(text: str) -> str:
    """Return a text that was given as an argument, or standard input for `-`."""
    return read_text(STDIN).removesuffix("\n") if text == STDIN else text


def _row(message: Message) -> list[str]:
    said = output.preview(plain_text(message.content))
    return [f"{message.seq:,}", output.moment(message.at), message.role, message.sender, message.id, said]


def _facts(message: Message) -> list[tuple[str, str]]:
    return [
        ("id", message.id),
        ("room", message.room),
        ("seq", f"{message.seq:,}"),
        ("role", message.role),
        ("sender", message.sender),
        ("at", output.moment(message.at)),
        ("edited", output.moment(message.edited)),
        ("metadata", msgspec.json.encode(message.metadata).decode() if message.metadata else ""),
    ]
