"""`brimful room`: conversations, made, listed, shown and exported."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from brimful.cli import output
from brimful.cli.exports import add_export
from brimful.cli.noting import Notes, note_line, notes_given
from brimful.cli.opened import ask
from brimful.cli.options import DEFAULT_DB, DEFAULT_TENANT, Db, Json, Limit, Lorebooks, Tenant
from brimful.cli.table import Table, columns
from brimful.cli.traits import Traits, character_with, traits_given, traits_of
from brimful.errors import UnknownRecord
from brimful.records import Room

if TYPE_CHECKING:
    from brimful.engine import Engine
    from brimful.protocols import Store

EXAMPLES: Final = """\
Examples:
  brimful room create support --user ada --goal "Solve her problem"
  brimful room list"""
CREATE_EXAMPLES: Final = """\
Examples:
  brimful room create support
  brimful room create support --user ada --goal "Solve her problem"
  brimful room create support --header "Answer in French." --lorebook products
  brimful room create docks --persona nova --character scenario="{{user}} missed the boat."
  brimful room create tavern --note "4=It is raining, and {{user}} is late.\""""
LIST_EXAMPLES: Final = """\
Examples:
  brimful room list
  brimful room list --user ada
  brimful room list --json | jq -r '.[].id'"""
SHOW_EXAMPLES: Final = """\
Examples:
  brimful room show support
  brimful room show support --json | jq .messages"""

_COLUMNS: Final = columns(
    "room", "name", "user", "messages", "last", right=["messages"], spare=["last", "name", "user"]
)

Id = Annotated[str, typer.Argument(metavar="ROOM", help="The room's id.")]


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """A room, how many messages it holds, and the time of the last of them."""

    room: Room
    messages: int
    last: float | None

    def data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {**msgspec.to_builtins(self.room), "messages": self.messages, "last": self.last}


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(no_args_is_help=True, epilog=EXAMPLES, help="Conversations: channels, sessions, threads.")
    group.command("create", epilog=CREATE_EXAMPLES)(create)
    group.command("list", epilog=LIST_EXAMPLES)(list_rooms)
    group.command("show", epilog=SHOW_EXAMPLES)(show)
    add_export(group, Room, name="room")
    app.add_typer(group, name="room")


def create(  # noqa: PLR0913 - the options of a command
    *,
    id: Id,
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
    character: Traits = None,
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
    given["notes"], traits = notes_given(notes), traits_given(character)

    async def put(engine: "Engine") -> Room:
        held = await engine.store.get(Room, id) or Room(id=id, created=time.time())
        room = msgspec.structs.replace(held, **{key: value for key, value in given.items() if value is not None})
        room = msgspec.structs.replace(room, character=character_with(room.character, traits))
        await engine.put(room)
        return room

    room = ask(put, db=db, tenant=tenant, new=True)
    if as_json:
        output.show_json(room)
    else:
        output.show_facts(_facts(room))


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

    async def listed(engine: "Engine") -> list[Standing]:
        store = engine.store
        rooms = await (
            store.listed(Room, after=after, limit=limit) if user is None else store.rooms_of(user, limit=limit)
        )
        return await _standing(store, rooms)

    found = ask(listed, db=db, tenant=tenant)
    if as_json:
        output.show_json([each.data() for each in found])
    else:
        output.show_table(Table(_COLUMNS, [_row(each) for each in found]))


def show(*, id: Id, db: Db = DEFAULT_DB, tenant: Tenant = DEFAULT_TENANT, as_json: Json = False) -> None:
    """Show all that is known of a room."""

    async def shown(engine: "Engine") -> Standing:
        [standing] = await _standing(engine.store, [await _room(engine.store, id)])
        return standing

    found = ask(shown, db=db, tenant=tenant)
    if as_json:
        output.show_json(found.data())
    else:
        last = [("messages", f"{found.messages:,}"), ("last", output.moment(found.last))]
        output.show_facts([*_facts(found.room), *last])


async def _room(store: "Store", id: str) -> Room:
    room = await store.get(Room, id)
    if room is None:
        raise UnknownRecord("room", id)
    return room


async def _standing(store: "Store", rooms: Sequence[Room]) -> list[Standing]:
    sizes = await store.sizes([room.id for room in rooms])
    return [Standing(room=room, messages=sizes.get(room.id, 0), last=await _last(store, room.id)) for room in rooms]


async def _last(store: "Store", room: str) -> float | None:
    newest = await store.history(room, limit=1, aside=True)
    return newest[0].message.at if newest else None


def _row(each: Standing) -> list[str]:
    room = each.room
    return [room.id, room.name, room.user or "", f"{each.messages:,}", output.moment(each.last)]


def _facts(room: Room) -> list[tuple[str, str]]:
    return [
        ("room", room.id),
        ("name", room.name),
        ("user", room.user or ""),
        ("persona", room.persona or ""),
        ("goal", room.goal),
        ("character", ", ".join(traits_of(room.character))),
        *(("header", header) for header in room.headers),
        *(("note", note_line(note)) for note in room.notes),
        ("lorebooks", ", ".join(room.lorebooks)),
        ("created", output.moment(room.created)),
        ("metadata", msgspec.json.encode(room.metadata).decode() if room.metadata else ""),
    ]
