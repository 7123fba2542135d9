"""`brimful room` and `brimful message`: manage rooms and their messages."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from brimful.cli import output
from brimful.cli.files import read_argument
from brimful.cli.options import (
    DEFAULT_DB,
    DEFAULT_TENANT,
    At,
    CharacterFields,
    Db,
    Erase,
    Json,
    Limit,
    Lorebooks,
    Notes,
    Tenant,
    character_fields,
    format_note,
    read_character_fields,
    read_notes,
    update_character,
)
from brimful.cli.output import Failure
from brimful.cli.records import add_export
from brimful.cli.store import with_engine
from brimful.cli.terminal import Table, columns
from brimful.core.content import Role
from brimful.errors import UnknownRecord
from brimful.packagers.records import plain_text
from brimful.records import Message, Room

if TYPE_CHECKING:
    from brimful.engine import Engine
    from brimful.stores import Store


ROOM_EXAMPLES: Final = """\
Examples:
  brimful room create support --user ada --goal "Solve her problem"
  brimful room list"""
ROOM_ADD_EXAMPLES: Final = """\
Examples:
  brimful room create support
  brimful room create support --user ada --goal "Solve her problem"
  brimful room create support --header "Answer in French." --lorebook products
  brimful room create docks --persona nova --character scenario="{{user}} missed the boat."
  brimful room create tavern --note "4=It is raining, and {{user}} is late.\""""
ROOM_LIST_EXAMPLES: Final = """\
Examples:
  brimful room list
  brimful room list --user ada
  brimful room list --json | jq -r '.[].id'"""
ROOM_SHOW_EXAMPLES: Final = """\
Examples:
  brimful room show support
  brimful room show support --json | jq .messages"""

_ROOM_COLUMNS: Final = columns(
    "room", "name", "user", "messages", "last", right=["messages"], spare=["last", "name", "user"]
)

RoomId = Annotated[str, typer.Argument(metavar="ROOM", help="The room's id.")]


class RoomStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A room, how many messages it holds, and the time of the last of them."""

    room: Room
    messages: int
    last: float | None

    def data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {**msgspec.to_builtins(self.room), "messages": self.messages, "last": self.last}


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(no_args_is_help=True, epilog=ROOM_EXAMPLES, help="Manage rooms (conversations).")
    group.command("create", epilog=ROOM_ADD_EXAMPLES)(add_room)
    group.command("list", epilog=ROOM_LIST_EXAMPLES)(list_rooms)
    group.command("show", epilog=ROOM_SHOW_EXAMPLES)(show_room)
    add_export(group, Room, name="room")
    app.add_typer(group, name="room")
    messages = typer.Typer(no_args_is_help=True, epilog=MESSAGE_EXAMPLES, help="Manage the messages of rooms.")
    messages.command("post", epilog=MESSAGE_ADD_EXAMPLES)(add_message)
    messages.command("list", epilog=MESSAGE_LIST_EXAMPLES)(list_messages)
    messages.command("show", epilog=MESSAGE_SHOW_EXAMPLES)(show_message)
    messages.command("edit", epilog=MESSAGE_EDIT_EXAMPLES)(edit_message)
    messages.command("delete", epilog=MESSAGE_REMOVE_EXAMPLES)(remove_message)
    add_export(messages, Message, name="message")
    app.add_typer(messages, name="message")


def add_room(  # noqa: PLR0913 - the options of a command
    *,
    id: RoomId,
    name: Annotated[str | None, typer.Option("--name", metavar="TEXT", help="What people call it.")] = None,
    user: Annotated[str | None, typer.Option("--user", metavar="ID", help="Whose room it is.")] = None,
    persona: Annotated[
        str | None, typer.Option("--persona", metavar="ID", help="Who answers in it, where nobody else is named.")
    ] = None,
    goal: Annotated[
        str | None, typer.Option("--goal", metavar="TEXT", help="What it is about. Stands in every context.")
    ] = None,
    headers: Annotated[
        list[str] | None,
        typer.Option("--header", metavar="TEXT", help="A text that stands in every context. Repeatable."),
    ] = None,
    character: CharacterFields = None,
    lorebooks: Lorebooks = None,
    notes: Notes = None,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> None:
    """Make a room, or change one: what is not said stays as it is.

    A room that is written to is made by itself; this gives it a goal, an
    owner, or texts that stand in each of its contexts. What `--character`
    says holds here in the place of what the persona's character says.
    """
    given: dict[str, Any] = {"name": name, "user": user, "persona": persona, "goal": goal}
    given |= {"headers": tuple(headers) if headers else None, "lorebooks": tuple(lorebooks) if lorebooks else None}
    given["notes"], traits = read_notes(notes), read_character_fields(character)

    async def put(engine: "Engine") -> Room:
        held = await engine.store.get(Room, id) or Room(id=id, created=time.time())
        room = msgspec.structs.replace(held, **{key: value for key, value in given.items() if value is not None})
        room = msgspec.structs.replace(room, character=update_character(room.character, traits))
        await engine.put(room)
        return room

    room = with_engine(put, db=db, tenant=tenant, new=True)
    if as_json:
        output.show_json(room)
    else:
        output.show_fields(_room_fields(room))


def list_rooms(
    *,
    user: Annotated[
        str | None, typer.Option("--user", metavar="ID", help="Only this user's, the last spoken in first.")
    ] = None,
    after: Annotated[str, typer.Option("--after", metavar="ROOM", help="Only rooms after this one.")] = "",
    limit: Limit = 100,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> None:
    """List the rooms by id, with the number of their messages."""
    if user is not None and after:
        raise typer.BadParameter("a user's rooms are not listed by id", param_hint="'--user' / '--after'")

    async def listed(engine: "Engine") -> list[RoomStatus]:
        store = engine.store
        rooms = await (
            store.list_records(Room, after=after, limit=limit) if user is None else store.rooms_of(user, limit=limit)
        )
        return await _room_status(store, rooms)

    found = with_engine(listed, db=db, tenant=tenant)
    if as_json:
        output.show_json([each.data() for each in found])
    else:
        output.show_table(Table(_ROOM_COLUMNS, [_room_row(each) for each in found]))


def show_room(*, id: RoomId, db: Db = DEFAULT_DB, tenant: Tenant = DEFAULT_TENANT, as_json: Json = False) -> None:
    """Show all that is known of a room."""

    async def shown(engine: "Engine") -> RoomStatus:
        [standing] = await _room_status(engine.store, [await _get_room(engine.store, id)])
        return standing

    found = with_engine(shown, db=db, tenant=tenant)
    if as_json:
        output.show_json(found.data())
    else:
        last = [("messages", f"{found.messages:,}"), ("last", output.format_time(found.last))]
        output.show_fields([*_room_fields(found.room), *last])


async def _get_room(store: "Store", id: str) -> Room:
    room = await store.get(Room, id)
    if room is None:
        raise UnknownRecord("room", id)
    return room


async def _room_status(store: "Store", rooms: Sequence[Room]) -> list[RoomStatus]:
    sizes = await store.count_messages([room.id for room in rooms])
    return [
        RoomStatus(room=room, messages=sizes.get(room.id, 0), last=await _last_message_time(store, room.id))
        for room in rooms
    ]


async def _last_message_time(store: "Store", room: str) -> float | None:
    newest = await store.history(room, limit=1, include_archived=True)
    return newest[0].message.at if newest else None


def _room_row(each: RoomStatus) -> list[str]:
    room = each.room
    return [room.id, room.name, room.user or "", f"{each.messages:,}", output.format_time(each.last)]


def _room_fields(room: Room) -> list[tuple[str, str]]:
    return [
        ("room", room.id),
        ("name", room.name),
        ("user", room.user or ""),
        ("persona", room.persona or ""),
        ("goal", room.goal),
        ("character", ", ".join(character_fields(room.character))),
        *(("header", header) for header in room.headers),
        *(("note", format_note(note)) for note in room.notes),
        ("lorebooks", ", ".join(room.lorebooks)),
        ("created", output.format_time(room.created)),
        ("metadata", msgspec.json.encode(room.metadata).decode() if room.metadata else ""),
    ]


MESSAGE_EXAMPLES: Final = """\
Examples:
  brimful message post support "My parcel is late." --sender Ada
  brimful message list support --limit 10
  brimful message delete msg-17 --erase"""
MESSAGE_ADD_EXAMPLES: Final = """\
Examples:
  brimful message post support "My parcel is late." --sender Ada
  brimful message post support "I will look." --role assistant
  cat letter.txt | brimful message post support - --id letter-17"""
MESSAGE_LIST_EXAMPLES: Final = """\
Examples:
  brimful message list support
  brimful message list support --limit 50 --before 400
  brimful message list support --json | jq -r '.[].content'"""
MESSAGE_SHOW_EXAMPLES: Final = """\
Examples:
  brimful message show msg-17
  brimful message show msg-17 --json | jq .metadata"""
MESSAGE_EDIT_EXAMPLES: Final = """\
Examples:
  brimful message edit msg-17 "My parcel is late by a week."
  cat letter.txt | brimful message edit msg-17 -"""
MESSAGE_REMOVE_EXAMPLES: Final = """\
Examples:
  brimful message delete msg-17
  brimful message delete msg-17 --erase"""

_MESSAGE_COLUMNS: Final = columns(
    *("seq", "at", "role", "sender", "id", "text"), right=["seq"], spare=("role", "seq", "at", "sender")
)

MessageId = Annotated[str, typer.Argument(metavar="ID", help="The message's id.")]
MessageText = Annotated[str, typer.Argument(metavar="TEXT", help="What is said. `-` is standard input.")]


def add_message(  # noqa: PLR0913 - the options of a command
    *,
    room: Annotated[str, typer.Argument(metavar="ROOM", help="The room. It is made if there is none.")],
    text: MessageText,
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
    said = read_argument(text)

    async def posted(engine: "Engine") -> Message:
        message = await engine.post(room=room, text=said, sender=sender, role=role, id=id, at=at)
        if not await engine.store.messages([message.id]):
            raise Failure(f"message {message.id!r} was deleted, and its id cannot be used again; nothing was posted")
        return message

    message = with_engine(posted, db=db, tenant=tenant, new=True)
    if (message.content, message.sender, message.role) != (said, sender, role):
        output.warn(f"message {message.id!r} is there already, and stays as it is")
    if as_json:
        output.show_json(message)
    else:
        output.write(output.one_line(message.id))


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

    found = with_engine(listed, db=db, tenant=tenant)
    if as_json:
        output.show_json(found)
    else:
        output.show_table(Table(_MESSAGE_COLUMNS, [_message_row(message) for message in found]))


def show_message(*, id: MessageId, db: Db = DEFAULT_DB, tenant: Tenant = DEFAULT_TENANT, as_json: Json = False) -> None:
    """Show a message: who said it, when, where, and all of its text."""

    async def shown(engine: "Engine") -> Message:
        found = await engine.store.messages([id])
        if not found:
            raise UnknownRecord("message", id)
        return found[0]

    message = with_engine(shown, db=db, tenant=tenant)
    if as_json:
        output.show_json(message)
        return
    output.show_fields(_message_fields(message))
    output.write()
    output.write(output.printable(plain_text(message.content)))


def edit_message(
    *,
    id: MessageId,
    text: MessageText,
    at: At = None,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> None:
    """Give a message another text. Contexts that were built before keep what they held."""
    said = read_argument(text)

    async def edited(engine: "Engine") -> Message:
        return await engine.edit(id, said, at=at)

    message = with_engine(edited, db=db, tenant=tenant)
    if as_json:
        output.show_json(message)
    else:
        output.show_fields(_message_fields(message))


def remove_message(
    *, id: MessageId, erase: Erase = False, db: Db = DEFAULT_DB, tenant: Tenant = DEFAULT_TENANT, as_json: Json = False
) -> None:
    """Take a message out of its room. The same id cannot be posted again."""

    async def deleted(engine: "Engine") -> None:
        await engine.delete(id, erase=erase)

    with_engine(deleted, db=db, tenant=tenant)
    if as_json:
        output.show_json({"id": id, "deleted": True, "erased": erase})
    else:
        output.write(f"deleted {output.one_line(id)}{', and erased from past contexts' if erase else ''}")


def _message_row(message: Message) -> list[str]:
    said = output.preview(plain_text(message.content))
    return [f"{message.seq:,}", output.format_time(message.at), message.role, message.sender, message.id, said]


def _message_fields(message: Message) -> list[tuple[str, str]]:
    return [
        ("id", message.id),
        ("room", message.room),
        ("seq", f"{message.seq:,}"),
        ("role", message.role),
        ("sender", message.sender),
        ("at", output.format_time(message.at)),
        ("edited", output.format_time(message.edited)),
        ("metadata", msgspec.json.encode(message.metadata).decode() if message.metadata else ""),
    ]
