"""`brimful memory`: add, search and remove memories."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from brimful.cli import output
from brimful.cli.files import read_argument
from brimful.cli.options import (
    DEFAULT_DB,
    DEFAULT_EMBEDDER,
    DEFAULT_TENANT,
    At,
    Db,
    EmbedderSpec,
    Erase,
    Json,
    Limit,
    Tenant,
)
from brimful.cli.records import add_export
from brimful.cli.store import wait_for_index, with_engine
from brimful.cli.terminal import Table, columns
from brimful.errors import UnknownRecord
from brimful.records import Memory, MemoryType

if TYPE_CHECKING:
    from brimful.engine import Engine
    from brimful.retrieval.search import Hit, SearchResult


EXAMPLES: Final = """\
Examples:
  brimful memory add "Ada is allergic to hazelnut." --user ada --pin
  brimful memory search "Which nuts may she eat?" --user ada
  brimful memory forget mem-17"""
ADD_EXAMPLES: Final = """\
Examples:
  brimful memory add "Ada is allergic to hazelnut." --user ada --importance 0.9
  brimful memory add "Run npm start before testing." --type procedural --pin
  cat notes.txt | brimful memory add - --persona nova --source notes.txt"""
LIST_EXAMPLES: Final = """\
Examples:
  brimful memory list
  brimful memory list --user ada --pinned
  brimful memory list --type procedural --json | jq -r '.[].content'"""
SHOW_EXAMPLES: Final = """\
Examples:
  brimful memory show mem-17
  brimful memory show mem-17 --json | jq .accesses"""
PIN_EXAMPLES: Final = """\
Examples:
  brimful memory pin mem-17"""
UNPIN_EXAMPLES: Final = """\
Examples:
  brimful memory unpin mem-17"""
REMOVE_EXAMPLES: Final = """\
Examples:
  brimful memory forget mem-17
  brimful memory forget mem-17 --erase"""
SEARCH_EXAMPLES: Final = """\
Examples:
  brimful memory search "Which nuts may she eat?"
  brimful memory search "nuts" --user ada --persona nova --limit 5
  brimful memory search "nuts" --embedder none --json | jq '.hits[].relevance'"""

_COLUMNS: Final = columns(
    *("id", "type", "persona", "user", "room", "at", "pinned", "text"),
    spare=("type", "user", "pinned", "persona", "at", "room"),
)
_HIT_COLUMNS: Final = columns(
    *("relevance", "words", "meaning", "id", "type", "text"),
    right=("relevance", "words", "meaning"),
    spare=("type", "meaning", "words"),
)

Id = Annotated[str, typer.Argument(metavar="ID", help="The memory's id.")]
Type = Annotated[MemoryType | None, typer.Option("--type", help="Only memories of this type.")]
PersonaScope = Annotated[
    str | None, typer.Option("--persona", metavar="ID", help="What this persona may know, beside what all may.")
]
UserScope = Annotated[
    str | None, typer.Option("--user", metavar="ID", help="What may be known of this user, beside what all may.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(no_args_is_help=True, epilog=EXAMPLES, help="Manage and search memories.")
    group.command("add", epilog=ADD_EXAMPLES)(add)
    group.command("list", epilog=LIST_EXAMPLES)(list_memories)
    group.command("show", epilog=SHOW_EXAMPLES)(show)
    group.command("pin", epilog=PIN_EXAMPLES)(pin)
    group.command("unpin", epilog=UNPIN_EXAMPLES)(unpin)
    group.command("forget", epilog=REMOVE_EXAMPLES)(remove)
    group.command("search", epilog=SEARCH_EXAMPLES)(search)
    add_export(group, Memory, name="memory")
    app.add_typer(group, name="memory")


def add(  # noqa: PLR0913 - the options of a command
    *,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What is to be known. `-` is standard input.")],
    type: Annotated[MemoryType, typer.Option("--type", help="What sort of memory it is.")] = "semantic",
    persona: Annotated[str | None, typer.Option("--persona", metavar="ID", help="Only this persona knows it.")] = None,
    user: Annotated[str | None, typer.Option("--user", metavar="ID", help="It is about this user.")] = None,
    room: Annotated[str | None, typer.Option("--room", metavar="ID", help="It is known in this room alone.")] = None,
    importance: Annotated[
        float, typer.Option("--importance", metavar="0…1", min=0.0, max=1.0, help="How much it matters.")
    ] = 0.5,
    pinned: Annotated[bool, typer.Option("--pin", help="It stands in every context that it belongs to.")] = False,
    source: Annotated[str, typer.Option("--source", metavar="TEXT", help="Where it comes from.")] = "",
    id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="Its id: takes the place of the memory that has it.")
    ] = None,
    at: At = None,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> None:
    """Keep something to be known later, and print its id."""
    told = read_argument(text)

    async def added(engine: "Engine") -> Memory:
        return await engine.remember(
            told,
            type=type,
            persona=persona,
            user=user,
            room=room,
            importance=importance,
            source=source,
            pinned=pinned,
            id=id,
            at=at,
        )

    memory = with_engine(added, db=db, tenant=tenant, new=True)
    if as_json:
        output.show_json(memory)
    else:
        output.write(output.one_line(memory.id))


def list_memories(
    *,
    persona: PersonaScope = None,
    user: UserScope = None,
    type: Type = None,
    pinned: Annotated[
        bool | None, typer.Option("--pinned/--not-pinned", help="Only those that are, or are not.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="At most so many, the newest.")] = 100,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> None:
    """List memories, the newest first."""
    from brimful.retrieval.search import memory_scopes  # noqa: PLC0415 - with the engine, when one is opened

    scopes = None if persona is None and user is None else memory_scopes(persona, user, None)

    async def listed(engine: "Engine") -> list[Memory]:
        types = (type,) if type else ()
        return await engine.store.memories(scopes=scopes, types=types, pinned=pinned, limit=limit)

    found = with_engine(listed, db=db, tenant=tenant)
    if as_json:
        output.show_json(found)
    else:
        output.show_table(Table(_COLUMNS, [_row(memory) for memory in found]))


def show(*, id: Id, db: Db = DEFAULT_DB, tenant: Tenant = DEFAULT_TENANT, as_json: Json = False) -> None:
    """Show a memory, and how often it stood in a context."""

    async def shown(engine: "Engine") -> Memory:
        found = await engine.store.memories(ids=[id], limit=1)
        if not found:
            raise UnknownRecord("memory", id)
        return found[0]

    memory = with_engine(shown, db=db, tenant=tenant)
    if as_json:
        output.show_json(memory)
        return
    output.show_fields(_fields(memory))
    output.write()
    output.write(output.printable(memory.content))


def pin(*, id: Id, db: Db = DEFAULT_DB, tenant: Tenant = DEFAULT_TENANT, as_json: Json = False) -> None:
    """Pin a memory: it stands in every context that it belongs to."""
    _set_pinned(id, pinned=True, db=db, tenant=tenant, as_json=as_json)


def unpin(*, id: Id, db: Db = DEFAULT_DB, tenant: Tenant = DEFAULT_TENANT, as_json: Json = False) -> None:
    """Let a pinned memory go: it has to be found again."""
    _set_pinned(id, pinned=False, db=db, tenant=tenant, as_json=as_json)


def _set_pinned(id: str, *, pinned: bool, db: str, tenant: str, as_json: bool) -> None:
    async def changed(engine: "Engine") -> None:
        await engine.pin(id, pinned=pinned)

    with_engine(changed, db=db, tenant=tenant)
    if as_json:
        output.show_json({"id": id, "pinned": pinned})
    else:
        output.write(f"{'pinned' if pinned else 'unpinned'} {output.one_line(id)}")


def remove(
    *, id: Id, erase: Erase = False, db: Db = DEFAULT_DB, tenant: Tenant = DEFAULT_TENANT, as_json: Json = False
) -> None:
    """Remove a memory."""

    async def forgotten(engine: "Engine") -> None:
        await engine.forget(id, erase=erase)

    with_engine(forgotten, db=db, tenant=tenant)
    if as_json:
        output.show_json({"id": id, "forgotten": True, "erased": erase})
    else:
        output.write(f"forgot {output.one_line(id)}{', and erased it from past contexts' if erase else ''}")


def search(  # noqa: PLR0913 - the options of a command
    *,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to look for.")],
    persona: PersonaScope = None,
    user: UserScope = None,
    room: Annotated[
        str | None, typer.Option("--room", metavar="ID", help="Look among this room's own memories, too.")
    ] = None,
    type: Type = None,
    limit: Limit = 10,
    embedder: EmbedderSpec = DEFAULT_EMBEDDER,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> None:
    """Find memories as a context would: by their words and by their meaning.

    Relevance is from 0 to 1; `read_argument` and `meaning` are what full text and
    vectors say.
    """

    async def searched(engine: "Engine") -> "SearchResult":
        await wait_for_index(engine)
        types = (type,) if type else ()
        return await engine.search(text, room=room, persona=persona, user=user, types=types, limit=limit)

    result = with_engine(searched, db=db, tenant=tenant, embedder=embedder)
    found = [hit for hit in result.hits if isinstance(hit.record, Memory)][:limit]
    for notice in result.degraded:
        output.warn(notice.text)
    if as_json:
        output.show_json({"hits": found, "degraded": result.degraded})
    elif found:
        output.show_table(Table(_HIT_COLUMNS, _hit_rows(found)))
    else:
        output.write("nothing found")


def _hit_rows(hits: "Sequence[Hit]") -> list[list[str]]:
    return [
        [*map(output.format_number, (hit.relevance, hit.lexical, hit.vector)), record.id, record.type, _preview(record)]
        for hit in hits
        if isinstance(record := hit.record, Memory)
    ]


def _preview(memory: Memory) -> str:
    return output.preview(memory.content)


def _row(memory: Memory) -> list[str]:
    whose = [memory.persona or "", memory.user or "", memory.room or ""]
    pinned = "pinned" if memory.pinned else ""
    return [memory.id, memory.type, *whose, output.format_time(memory.at), pinned, _preview(memory)]


def _fields(memory: Memory) -> list[tuple[str, str]]:
    return [
        ("id", memory.id),
        ("type", memory.type),
        ("persona", memory.persona or ""),
        ("user", memory.user or ""),
        ("room", memory.room or ""),
        ("importance", output.format_number(memory.importance)),
        ("pinned", "yes" if memory.pinned else "no"),
        ("source", memory.source),
        ("at", output.format_time(memory.at)),
        ("accesses", f"{memory.accesses:,}"),
        ("accessed", output.format_time(memory.accessed)),
        ("metadata", msgspec.json.encode(memory.metadata).decode() if memory.metadata else ""),
    ]
