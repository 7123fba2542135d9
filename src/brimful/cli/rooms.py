"""`brimful room` and `brimful message`: manage rooms and their messages."""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from brimful.cli import output
from brimful.cli.files import read_argument
from brimful.cli.options import At, Erase, Json, Limit, Lorebooks, NameOption, NewRoomOption, RoomOption, StoreOptions
from brimful.cli.output import Failure, columns
from brimful.cli.records import (
    CharacterFields,
    FocusField,
    Notes,
    RecordKind,
    add_record_commands,
    character_fields,
    format_note,
    read_character_fields,
    read_notes,
    replace_set,
    require_room,
    update_character,
)
from brimful.cli.store import with_engine
from brimful.core.content import Role
from brimful.errors import UnknownRecord
from brimful.packagers.records import plain_text
from brimful.records import Message, Room
from brimful.records.removal import RemovalReport
from brimful.views.explain import plural

if TYPE_CHECKING:
    from brimful.engine import Engine
    from brimful.stores import Store

ROOM_EXAMPLES: Final = """\
Examples:
  brimful room add support --user ada --goal "Solve her problem"
  brimful room list
  brimful room remove support"""
MESSAGE_EXAMPLES: Final = """\
Examples:
  brimful message add --room support "My parcel is late." --sender Ada
  brimful message list --room support --limit 10
  brimful message remove msg-17 --erase"""
MESSAGE_ADD_EXAMPLES: Final = """\
Examples:
  brimful message add --room support "My parcel is late." --sender Ada
  brimful message add --room support "I will look." --role assistant
  cat letter.txt | brimful message add --room support - --id letter-17"""
MESSAGE_EDIT_EXAMPLES: Final = """\
Examples:
  brimful message edit msg-17 "My parcel is a week late."
  cat letter.txt | brimful message edit msg-17 -"""

RoomId = Annotated[str, typer.Argument(metavar="ROOM", help="The room's id.")]
MessageId = Annotated[str, typer.Argument(metavar="ID", help="The message's id.")]
MessageText = Annotated[str, typer.Argument(metavar="TEXT", help="The message. `-` reads standard input.")]


def register(app: typer.Typer) -> None:
    rooms = typer.Typer(no_args_is_help=True, epilog=ROOM_EXAMPLES, help="Manage rooms (conversations).")
    add_record_commands(rooms, ROOMS)
    app.add_typer(rooms, name="room")
    messages = typer.Typer(no_args_is_help=True, epilog=MESSAGE_EXAMPLES, help="Manage the messages of rooms.")
    messages.command("add", epilog=MESSAGE_ADD_EXAMPLES)(add_message)
    messages.command("edit", epilog=MESSAGE_EDIT_EXAMPLES)(edit_message)
    add_record_commands(messages, MESSAGES)
    app.add_typer(messages, name="message")


# -- rooms -----------------------------------------------------------------------------------------------------------


class RoomStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A room, the number of its messages, and the time of the last one."""

    room: Room
    messages: int
    last: float | None

    def data(self) -> dict[str, Any]:
        return {**msgspec.to_builtins(self.room), "messages": self.messages, "last": self.last}


async def find_rooms(
    store: "Store",
    *,
    user: Annotated[
        str | None, typer.Option("--user", metavar="ID", help="Only rooms of this user, most recently active first.")
    ] = None,
    after: Annotated[str, typer.Option("--after", metavar="ROOM", help="Only rooms after this id.")] = "",
    limit: Limit = 100,
) -> list[RoomStatus]:
    """List rooms by id, with the number of messages in each."""
    if user is not None and after:
        raise typer.BadParameter("cannot be combined with --user", param_hint="'--after'")
    by_id = store.list_records(Room, after=after, limit=limit) if user is None else None
    rooms = await (by_id or store.rooms_of(user or "", limit=limit))
    return await _room_status(store, rooms)


async def get_room(store: "Store", id: RoomId) -> RoomStatus:
    """Show a room."""
    [status] = await _room_status(store, [await store.require(Room, id)])
    return status


def edit_room(  # noqa: PLR0913 - the options of a command
    *,
    name: NameOption = None,
    user: Annotated[str | None, typer.Option("--user", metavar="ID", help="The user who owns the room.")] = None,
    persona: Annotated[
        str | None, typer.Option("--persona", metavar="ID", help="The persona that answers by default.")
    ] = None,
    goal: Annotated[
        str | None, typer.Option("--goal", metavar="TEXT", help="What the room is for. Part of every context.")
    ] = None,
    focus: FocusField = None,
    headers: Annotated[
        list[str] | None, typer.Option("--header", metavar="TEXT", help="Text for every context. Repeatable.")
    ] = None,
    character: CharacterFields = None,
    lorebooks: Lorebooks = None,
    notes: Notes = None,
) -> Callable[[Room], Room]:
    """Rooms are created automatically when a message is added. Use this to set a goal, an owner, or text for every
    context. `--character` fields override the persona's fields in this room.
    """  # noqa: D205 - help text
    changes: dict[str, Any] = {"name": name, "user": user, "persona": persona, "goal": goal, "focus": focus}
    changes |= {"headers": tuple(headers) if headers else None, "lorebooks": tuple(lorebooks) if lorebooks else None}
    changes["notes"], fields = read_notes(notes), read_character_fields(character)

    def apply(room: Room) -> Room:
        changed = replace_set(room, changes)
        return msgspec.structs.replace(changed, character=update_character(room.character, fields))

    return apply


async def remove_room(engine: "Engine", id: RoomId) -> RemovalReport:
    """Remove a room with everything in it.

    This includes its messages, summaries, memories, contexts and answers.
    """
    report = await engine.store.remove(Room, id)
    if not report:
        raise UnknownRecord("room", id)
    return report


async def _room_status(store: "Store", rooms: Sequence[Room]) -> list[RoomStatus]:
    sizes = await store.count_messages([room.id for room in rooms])
    return [
        RoomStatus(room=room, messages=sizes.get(room.id, 0), last=await _last_message_time(store, room.id))
        for room in rooms
    ]


async def _last_message_time(store: "Store", room: str) -> float | None:
    newest = await store.history(room, limit=1, include_archived=True)
    return newest[0].message.at if newest else None


def _room_row(status: RoomStatus) -> list[str]:
    room = status.room
    return [room.id, room.name, room.user or "", f"{status.messages:,}", output.format_time(status.last)]


def _room_fields(status: RoomStatus) -> list[tuple[str, str]]:
    room = status.room
    return [
        ("room", room.id),
        ("name", room.name),
        ("user", room.user or ""),
        ("persona", room.persona or ""),
        ("goal", room.goal),
        ("focus", room.focus),
        ("character", ", ".join(character_fields(room.character))),
        *(("header", header) for header in room.headers),
        *(("note", format_note(note)) for note in room.notes),
        ("lorebooks", ", ".join(room.lorebooks)),
        ("created", output.format_time(room.created)),
        ("metadata", output.format_json(room.metadata)),
        ("messages", f"{status.messages:,}"),
        ("last", output.format_time(status.last)),
    ]


ROOMS: Final = RecordKind(
    name="room",
    plural="rooms",
    columns=columns("room", "name", "user", "messages", "last", right=["messages"], spare=["last", "name", "user"]),
    row=_room_row,
    fields=_room_fields,
    data=RoomStatus.data,
    find=find_rooms,
    get=get_room,
    edit=edit_room,
    remove=remove_room,
    warning=lambda status: (
        f"room {status.room.id!r} with its {plural(status.messages, 'message')}, memories and contexts"
    ),
    entity=Room,
    make=lambda name: Room(id=name, created=time.time()),
    record=Room,
    examples={
        "list": """\
  brimful room list
  brimful room list --user ada
  brimful room list --json | jq -r '.[].id'""",
        "show": """\
  brimful room show support
  brimful room show support --json | jq .messages""",
        "add": """\
  brimful room add support --user ada --goal "Solve her problem"
  brimful room add docks --persona nova --character scenario="{{user}} missed the boat."
  brimful room add tavern --note "4=It is raining, and {{user}} is late.\"""",
        "edit": """\
  brimful room edit support --header "Answer in French." --lorebook products
  brimful room edit support --note \"\"""",
        "remove": """\
  brimful room remove support
  brimful room remove support --yes""",
    },
)


# -- messages --------------------------------------------------------------------------------------------------------


def add_message(
    *,
    text: MessageText,
    room: NewRoomOption,
    sender: Annotated[str, typer.Option("--sender", metavar="NAME", help="The sender's name.")] = "",
    role: Annotated[Role, typer.Option("--role", help="The sender's role.")] = "user",
    id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="Message id. Adding the same id twice adds one message.")
    ] = None,
    at: At = None,
    target: StoreOptions,
    as_json: Json = False,
) -> None:
    """Add a message to a room and print its id.

    If a message with this id already exists, it is not changed, and you get a
    warning if the new one differs. Using an id of another room is an error.
    """
    content = read_argument(text)

    async def post(engine: "Engine") -> Message:
        message = await engine.post(room=room, text=content, sender=sender, role=role, id=id, at=at)
        if not await engine.store.messages([message.id]):
            raise Failure(f"message {message.id!r} was removed, and its id cannot be used again; nothing was added")
        return message

    message = with_engine(post, target=target, new=True)
    if (message.content, message.sender, message.role) != (content, sender, role):
        output.warn(f"message {message.id!r} already exists and was not changed")
    output.show(message, output.one_line(message.id), as_json=as_json)


def edit_message(
    *, id: MessageId, text: MessageText, at: At = None, target: StoreOptions, as_json: Json = False
) -> None:
    """Change the text of a message. Past contexts keep the old text."""
    content = read_argument(text)

    async def edit(engine: "Engine") -> Message:
        return await engine.edit(id, content, at=at)

    message = with_engine(edit, target=target)
    if as_json:
        output.show_json(message)
    else:
        output.show_fields(_message_fields(message))


async def find_messages(
    store: "Store",
    *,
    room: RoomOption,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="The newest N messages.")] = 20,
    before: Annotated[
        int | None, typer.Option("--before", metavar="SEQ", min=1, help="Only messages before this sequence number.")
    ] = None,
) -> list[Message]:
    """List the newest messages of a room, oldest first."""
    await require_room(store, room)
    return [entry.message for entry in reversed(await store.history(room, before=before, limit=limit))]


async def get_message(store: "Store", id: MessageId) -> Message:
    """Show a message with its full text."""
    found = await store.messages([id])
    if not found:
        raise UnknownRecord("message", id)
    return found[0]


async def remove_message(engine: "Engine", id: MessageId, *, erase: Erase = False) -> None:
    """Remove a message. Its id cannot be used again."""
    await engine.delete(id, erase=erase)


def _message_row(message: Message) -> list[str]:
    text = output.preview(plain_text(message.content))
    return [f"{message.seq:,}", output.format_time(message.at), message.role, message.sender, message.id, text]


def _message_fields(message: Message) -> list[tuple[str, str]]:
    return [
        ("id", message.id),
        ("room", message.room),
        ("seq", f"{message.seq:,}"),
        ("role", message.role),
        ("sender", message.sender),
        ("at", output.format_time(message.at)),
        ("edited", output.format_time(message.edited)),
        ("metadata", output.format_json(message.metadata)),
    ]


MESSAGES: Final = RecordKind(
    name="message",
    plural="messages",
    columns=columns(
        *("seq", "at", "role", "sender", "id", "text"), right=["seq"], spare=("role", "seq", "at", "sender")
    ),
    row=_message_row,
    fields=_message_fields,
    text=lambda message: [plain_text(message.content)],
    find=find_messages,
    get=get_message,
    remove=remove_message,
    record=Message,
    examples={
        "list": """\
  brimful message list --room support
  brimful message list --room support --limit 50 --before 400
  brimful message list --room support --json | jq -r '.[].content'""",
        "show": """\
  brimful message show msg-17
  brimful message show msg-17 --json | jq .metadata""",
        "remove": """\
  brimful message remove msg-17
  brimful message remove msg-17 --erase""",
    },
)
