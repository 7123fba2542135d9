"""`brimful lorebook`: manage lorebooks and try out which entries a message activates."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import msgspec
import typer

from brimful.cli import output
from brimful.cli.files import STDIN, parse_json, read_argument, read_text, source_name, write_bytes
from brimful.cli.options import (
    DEFAULT_EMBEDDER,
    DEFAULT_MODEL,
    EmbedderSpec,
    Json,
    Limit,
    Model,
    NameOption,
    PersonaOption,
    StoreOptions,
    UserOption,
    Window,
    resolve_model,
)
from brimful.cli.output import Failure, Table, columns, progress
from brimful.cli.records import OutFile, RecordKind, add_record_commands
from brimful.cli.store import wait_for_index, with_engine, with_store
from brimful.core.context import Context
from brimful.core.decision import Decision
from brimful.core.validation import preview
from brimful.errors import BrimfulError, InvalidValue, UnknownRecord
from brimful.formats.lorebooks import (
    LorebookFormat,
    detect_lorebook_format,
    read_lorebook,
    read_lorebook_entries,
    write_lorebook,
)
from brimful.lore import check_keywords
from brimful.records import Lorebook, LoreEntry, Persona, Room, User
from brimful.records.lorebook import Logic
from brimful.records.removal import RemovalReport

if TYPE_CHECKING:
    from brimful.engine import Engine
    from brimful.stores import Store


EXAMPLES: Final = """\
Examples:
  brimful lorebook import Eldoria.json
  brimful lorebook add world "The tower fell in 1204." --key tower --key "old keep"
  brimful room edit tavern --lorebook world
  brimful lorebook try --room tavern --message "Who lives in the tower?\""""
ADD_EXAMPLES: Final = """\
Examples:
  brimful lorebook add world "The tower fell in 1204." --key tower --id world/tower
  brimful lorebook add world "Nobody lies here." --constant
  brimful lorebook add world "The queen is old." --key queen --secondary age --logic and-any
  brimful lorebook add world "A storm comes." --key '/storm|rain/i' --set sticky=4 --set probability=0.5"""
EDIT_EXAMPLES: Final = """\
Examples:
  brimful lorebook edit world --set scan_depth=10 --set budget=1200 --set recursion=3
  brimful lorebook edit world world/tower --set cooldown=6 --set 'groups=["places"]'
  brimful lorebook edit world world/tower --set enabled=false"""
IMPORT_EXAMPLES: Final = """\
Examples:
  brimful lorebook import Eldoria.json
  brimful lorebook import Eldoria.json --id world --name "The world"
  brimful lorebook import card.json        # the lorebook in a character card"""
EXPORT_EXAMPLES: Final = """\
Examples:
  brimful lorebook export world --out Eldoria.json
  brimful lorebook export world --format v3 > lorebook.json"""
TRY_EXAMPLES: Final = """\
Examples:
  brimful lorebook try --room tavern --message "Who lives in the tower?"
  brimful lorebook try --room tavern --persona nova --model gpt-4o --window 4096
  brimful lorebook try --room tavern --message "tower" --json | jq '.included[].why'"""

_BATCH: Final = 500  # entries written in one transaction
_HIDDEN_FIELDS: Final = ("content", "settings", "lorebook")
_ENTRY_COLUMNS: Final = columns("id", "name", "keywords", "order", "text", right=["order"], spare=("name", "order"))
_TRY_COLUMNS: Final = columns("entry", "tokens", "why", right=["tokens"])

BookId = Annotated[str, typer.Argument(metavar="LOREBOOK", help="The lorebook's id.")]
EntryId = Annotated[str | None, typer.Argument(metavar="ENTRY", help="An entry's id.")]
Changes = Annotated[
    list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="Set a field, such as sticky=4. Repeatable.")
]

R = TypeVar("R", Lorebook, LoreEntry)


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        no_args_is_help=True, epilog=EXAMPLES, help="Manage lorebooks (entries added when their keywords appear)."
    )
    add_record_commands(group, LOREBOOKS)
    group.command("add", epilog=ADD_EXAMPLES)(add)
    group.command("edit", epilog=EDIT_EXAMPLES)(edit)
    group.command("import", epilog=IMPORT_EXAMPLES)(import_book)
    group.command("export", epilog=EXPORT_EXAMPLES)(export_book)
    group.command("try", epilog=TRY_EXAMPLES)(try_message)
    app.add_typer(group, name="lorebook")


# -- lorebooks and entries -------------------------------------------------------------------------------------------


class LorebookStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A lorebook with its entries, or with the one of them that was asked for."""

    lorebook: Lorebook
    entries: list[LoreEntry]
    entry: LoreEntry | None = None


async def find_books(store: "Store", *, limit: Limit = 100) -> list[LorebookStatus]:
    """List lorebooks by id, with their settings."""
    books = await store.list_records(Lorebook, limit=limit)
    return [LorebookStatus(lorebook=book, entries=await store.lore([book.id])) for book in books]


async def get_book(store: "Store", book: BookId, entry: EntryId = None) -> LorebookStatus:
    """Show a lorebook and its entries, or one entry in full."""
    found = await store.require(Lorebook, book)
    if entry is not None:
        return LorebookStatus(lorebook=found, entries=[], entry=await get_entry(store, book, entry))
    return LorebookStatus(lorebook=found, entries=await store.lore([book]))


async def get_entry(store: "Store", book: str, id: str) -> LoreEntry:
    """Return an entry of a lorebook, or raise `UnknownRecord`."""
    await store.require(Lorebook, book)
    found = [each for each in await store.lore(ids=[id]) if each.lorebook == book]
    if not found:
        raise UnknownRecord("lore entry", id)
    return found[0]


async def remove_book(engine: "Engine", book: BookId, entry: EntryId = None) -> RemovalReport | None:
    """Remove a lorebook with its entries, or one entry."""
    if entry is None:
        await engine.store.require(Lorebook, book)
        return await engine.store.remove(Lorebook, book)
    await get_entry(engine.store, book, entry)
    await engine.store.remove_lore(entry)
    return None


def add(  # noqa: PLR0913 - the options of a command
    *,
    book: Annotated[
        str, typer.Argument(metavar="LOREBOOK", help="The lorebook's id. It is created if it does not exist.")
    ],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The entry's text. `-` reads standard input.")],
    keys: Annotated[
        list[str] | None,
        typer.Option("--key", metavar="TEXT", help="Keyword, or a regular expression such as /storm/i. Repeatable."),
    ] = None,
    secondary: Annotated[
        list[str] | None, typer.Option("--secondary", metavar="TEXT", help="Secondary keyword. Repeatable.")
    ] = None,
    logic: Annotated[Logic, typer.Option("--logic", help="How secondary keywords are combined.")] = "and-any",
    constant: Annotated[bool, typer.Option("--constant", help="Always on: needs no keyword.")] = False,
    name: Annotated[str, typer.Option("--name", metavar="TEXT", help="Display name.")] = "",
    order: Annotated[
        int, typer.Option("--order", metavar="N", help="Position among the included entries; higher comes later.")
    ] = 100,
    id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="Entry id. An existing entry with this id is replaced.")
    ] = None,
    changes: Changes = None,
    target: StoreOptions,
    as_json: Json = False,
) -> None:
    """Add an entry to a lorebook and print its id."""
    content = read_argument(text)
    fields: dict[str, Any] = {"keys": keys or [], "secondary": secondary or [], "logic": logic, "constant": constant}
    fields |= {"name": name, "order": order, **_read_changes(changes)}

    async def write(engine: "Engine") -> LoreEntry:
        from brimful.engine.writer import new_id  # noqa: PLC0415 - the engine is open, so this is imported already

        entry = LoreEntry(id=id or new_id("lore"), lorebook=book, content=content)
        if id is not None and any(each.lorebook != book for each in await engine.store.lore(ids=[id])):
            raise Failure(f"{preview(id)} is an entry of another lorebook")
        entry = _apply_changes(entry, fields)
        await engine.write_lore([entry])
        return entry

    entry = with_engine(write, target=target, new=True)
    output.show(entry, output.one_line(entry.id), as_json=as_json)


def edit(
    *,
    book: BookId,
    entry: EntryId = None,
    text: Annotated[
        str | None, typer.Option("--text", metavar="TEXT", help="New text of the entry. `-` reads standard input.")
    ] = None,
    changes: Changes = None,
    target: StoreOptions,
    as_json: Json = False,
) -> None:
    """Change the settings of a lorebook or an entry. Fields that you do not set stay as they are."""
    fields = _read_changes(changes)
    if text is not None:
        if entry is None:
            raise typer.BadParameter("needs an ENTRY: a lorebook has no text", param_hint="'--text'")
        fields["content"] = read_argument(text)
    if not fields:
        raise typer.BadParameter("nothing to change", param_hint="'--set' / '--text'")

    async def write(engine: "Engine") -> Lorebook | LoreEntry:
        if entry is None:
            record = _apply_changes(await engine.store.require(Lorebook, book), fields)
            await engine.put(record)
            return record
        changed = _apply_changes(await get_entry(engine.store, book, entry), fields)
        await engine.write_lore([changed])
        return changed

    record = with_engine(write, target=target)
    if as_json:
        output.show_json(record)
    else:
        output.show_fields(_fields(record, _HIDDEN_FIELDS))


def _read_changes(changes: Sequence[str] | None) -> dict[str, Any]:
    """Parse `--set` options. A value is read as JSON if it is valid JSON, otherwise as a string.

    >>> _read_changes(["sticky=4", "name=Tower"])
    {'sticky': 4, 'name': 'Tower'}
    """
    return dict(map(_read_change, changes or ()))


def _read_change(text: str) -> tuple[str, Any]:
    field, equals, value = text.partition("=")
    if not field or not equals:
        raise typer.BadParameter(f"{text!r} is not of the form FIELD=VALUE", param_hint="'--set'")
    try:
        return field, msgspec.json.decode(value)
    except msgspec.DecodeError:
        return field, value


def _apply_changes(record: R, changes: dict[str, Any]) -> R:
    known = [field for field in type(record).__struct_fields__ if field not in ("id", "lorebook")]
    for field in changes:
        if field not in known:
            raise Failure(f"there is no field {field!r}; the fields are {', '.join(known)}")
    try:
        return msgspec.convert({**msgspec.to_builtins(record), **changes}, type(record))
    except msgspec.ValidationError as error:
        raise Failure(str(error).removesuffix(" - at `$`")) from None
    except BrimfulError as error:
        raise Failure(str(error)) from None


def _book_row(status: LorebookStatus) -> list[str]:
    book = status.lorebook
    numbers = (len(status.entries), book.scan_depth, book.recursion, book.budget)
    return [book.id, book.name, *map(output.format_number, numbers)]


def _entry_row(entry: LoreEntry) -> list[str]:
    keywords = "(always on)" if entry.constant else ", ".join(entry.keys) or "(by relevance)"
    shown = keywords if entry.enabled else "(off)"
    return [entry.id, entry.name, shown, f"{entry.order}", output.preview(entry.content)]


def _fields(record: Lorebook | LoreEntry, hidden: Sequence[str]) -> list[tuple[str, str]]:
    """Return the id, and every field that does not have its default value."""
    fields = [field for field in msgspec.structs.fields(type(record)) if field.name not in hidden]
    always = ("id", "keys", *([field.name for field in fields] if isinstance(record, Lorebook) else ()))
    values = [(field, getattr(record, field.name)) for field in fields]
    return [
        (field.name, _format_value(value)) for field, value in values if field.name in always or value != field.default
    ]


def _format_value(value: object) -> str:
    match value:
        case tuple():
            return ", ".join(map(str, value))
        case bool():
            return "yes" if value else "no"
        case float() | int() | None:
            return output.format_number(value)
        case _:
            return str(value)


LOREBOOKS: Final = RecordKind(
    name="lorebook",
    plural="lorebooks",
    columns=columns(
        *("lorebook", "name", "entries", "depth", "recursion", "budget"),
        right=("entries", "depth", "recursion", "budget"),
        spare=("name", "recursion", "depth"),
    ),
    row=_book_row,
    fields=lambda each: _fields(each.entry, _HIDDEN_FIELDS) if each.entry else _fields(each.lorebook, ("settings",)),
    text=lambda each: [each.entry.content] if each.entry else [],
    table=lambda each: None if each.entry else Table(_ENTRY_COLUMNS, [_entry_row(entry) for entry in each.entries]),
    data=lambda each: each.entry or {**msgspec.to_builtins(each.lorebook), "entries": each.entries},
    row_data=lambda status: {**msgspec.to_builtins(status.lorebook), "entries": len(status.entries)},
    find=find_books,
    get=get_book,
    remove=remove_book,
    examples={
        "list": """\
  brimful lorebook list
  brimful lorebook list --json | jq -r '.[].id'""",
        "show": """\
  brimful lorebook show world
  brimful lorebook show world world/tower
  brimful lorebook show world --json | jq '.entries[].keys'""",
        "remove": """\
  brimful lorebook remove world world/tower
  brimful lorebook remove world""",
    },
)


# -- files -----------------------------------------------------------------------------------------------------------


def import_book(
    *,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A World Info file or a character card. `-` reads standard input.")
    ],
    id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="The lorebook's id. Default: the file's name.")
    ] = None,
    name: NameOption = None,
    target: StoreOptions,
    as_json: Json = False,
) -> None:
    """Import a lorebook.

    Reads SillyTavern World Info, and the lorebook of a character card (V2 or
    V3). Everything in the file is stored, and `export` writes it back.
    Importing a file again replaces the entries of the earlier import.
    """
    where = source_name(file)
    data = _extract_book(parse_json(read_text(file), where))
    book = id or ("lorebook" if file == STDIN else Path(where).stem)
    try:
        format = detect_lorebook_format(data)
        record = read_lorebook(data, book, name or book)
        entries = list(_accept_entries(read_lorebook_entries(data, book)))
    except InvalidValue as error:
        raise Failure(f"{where}: {error}") from None

    async def write(engine: "Engine") -> int:
        before = {entry.id for entry in await engine.store.lore([book]) if entry.settings.get(format)}
        await engine.put(record)
        await _write_entries(engine, entries, quiet=as_json)
        outdated = before - {entry.id for entry in entries}
        for each in sorted(outdated):
            await engine.store.remove_lore(each)
        return len(outdated)

    removed = with_engine(write, target=target, new=True)
    if as_json:
        output.show_json({"id": book, "format": format, "entries": len(entries), "removed": removed})
        return
    output.write(f"{output.one_line(book)}: {len(entries):,} entries ({format})")
    output.write(f"to use it: brimful room edit ROOM --lorebook {output.one_line(book)}")


def _accept_entries(entries: Sequence[LoreEntry]) -> Iterator[LoreEntry]:
    """Yield the entries that can be written, and warn of the others."""
    for entry in entries:
        try:
            check_keywords(entry)
        except InvalidValue as error:
            output.warn(f"skipped {entry.id}: {error.reason}")
        else:
            yield entry


async def _write_entries(engine: "Engine", entries: list[LoreEntry], *, quiet: bool) -> None:
    with progress("importing", max(1, len(entries)), quiet=quiet, unit="entries") as advance:
        for start in range(0, len(entries), _BATCH):
            await engine.write_lore(entries[start : start + _BATCH])
            advance(min(len(entries), start + _BATCH))


def export_book(
    *,
    book: BookId,
    format: Annotated[LorebookFormat, typer.Option("--format", help="File format.")] = "sillytavern",
    out: OutFile = None,
    target: StoreOptions,
) -> None:
    """Export a lorebook for another program. An imported lorebook is restored, with your changes applied."""

    async def read(store: "Store") -> dict[str, Any]:
        return write_lorebook(await store.require(Lorebook, book), await store.lore([book]), format)

    data = with_store(read, target=target)
    if out is None:
        output.show_json(data)
    else:
        write_bytes(out, msgspec.json.format(msgspec.json.encode(data), indent=4) + b"\n")


def _extract_book(data: Any) -> Any:
    """Return the lorebook of a character card; other data as it is."""
    match data:
        case {"spec": str(), "data": {"character_book": dict(book)}} | {"data": {"character_book": dict(book)}}:
            return book
        case {"spec": "chara_card_v2" | "chara_card_v3"}:
            raise Failure("the character card has no lorebook")
        case _:
            return data


# -- try -------------------------------------------------------------------------------------------------------------


def try_message(  # noqa: PLR0913 - the options of a command
    *,
    room: Annotated[str, typer.Option("--room", metavar="ID", help="The room whose lorebooks are used.")],
    message: Annotated[
        str | None,
        typer.Option(
            "--message", metavar="TEXT", help="Message to try. `-` reads standard input. Default: the room as it is."
        ),
    ] = None,
    persona: PersonaOption = None,
    user: UserOption = None,
    model: Model = DEFAULT_MODEL,
    window: Window = None,
    embedder: EmbedderSpec = DEFAULT_EMBEDDER,
    target: StoreOptions,
    as_json: Json = False,
) -> None:
    """Show which entries a message would activate, and why.

    Builds a context without saving it, so entries that do not fit the window
    are left out as well. Entries whose keywords do not appear are not listed.
    """
    text = None if message is None else read_argument(message)
    info = resolve_model(model)

    async def build(engine: "Engine") -> Context:
        await _require_books(engine, room, persona, user)
        await wait_for_index(engine)
        return await engine.assemble(
            room=room, persona=persona, message=text, user=user, model=info, window=window, save=False
        )

    context = with_engine(build, target=target, embedder=embedder)
    lore = [decision for decision in context.decisions if decision.kind == "lorebook"]
    included = [decision for decision in lore if decision.included]
    others = [decision for decision in lore if not decision.included]
    if as_json:
        output.show_json(_try_data(context, included, others))
        return
    _show_decisions("included", context, included)
    output.write()
    _show_decisions("left out", context, others)
    for notice in context.inputs.degraded:
        output.warn(notice.text)


async def _require_books(engine: "Engine", room: str, persona: str | None, user: str | None) -> None:
    """Fail if no lorebook applies to the room, since the result would not say why it is empty."""
    stored_room = await engine.store.require(Room, room)
    persona, user = persona or stored_room.persona, user or stored_room.user
    stored_persona = None if persona is None else await engine.store.get(Persona, persona)
    stored_user = None if user is None else await engine.store.get(User, user)
    if not any(each and each.lorebooks for each in (stored_room, stored_persona, stored_user)):
        raise Failure(f"room {room!r} has no lorebook; add one with `brimful room edit {room} --lorebook LOREBOOK`")


def _show_decisions(title: str, context: Context, decisions: list[Decision]) -> None:
    if not decisions:
        output.write(f"{title}: nothing")
        return
    tokens = sum(decision.cost or decision.tokens for decision in decisions)
    output.write(f"{title}: {len(decisions):,} {'entry' if len(decisions) == 1 else 'entries'}, {tokens:,} tokens")
    rows = [[each.id, f"{each.cost or each.tokens:,}", _why(context, each)] for each in decisions]
    output.show_table(Table(_TRY_COLUMNS, rows))


def _why(context: Context, decision: Decision) -> str:
    """Return why an entry is included or left out."""
    if decision.included:
        return context.explanations.get(decision.id, "")
    return context.explain(decision.id).removeprefix("dropped: ").removeprefix("excluded, ")


def _try_data(context: Context, included: list[Decision], others: list[Decision]) -> dict[str, Any]:
    lore = {package.id: package.metadata.get("lore", {}) for package in context.inputs.packages}

    def row(decision: Decision) -> dict[str, Any]:
        facts = {"id": decision.id, "outcome": decision.outcome, "reason": decision.reason}
        tokens = decision.cost or decision.tokens
        return {**facts, "tokens": tokens, "why": _why(context, decision), "lore": lore.get(decision.id, {})}

    return {"included": [row(each) for each in included], "left_out": [row(each) for each in others]}
