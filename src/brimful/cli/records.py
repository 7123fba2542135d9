"""The commands that all kinds of records share: list, show, add, edit, remove and export, from one description each.

A kind names the functions that read and remove its records. Their keyword parameters are the options of the commands,
and their docstrings the help.
"""

import inspect
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, TypeVar, cast

import msgspec
import typer

from brimful.cli import output
from brimful.cli.files import write_lines
from brimful.cli.options import Json, StoreOptions
from brimful.cli.output import Column, Failure, Table
from brimful.cli.store import with_engine, with_store
from brimful.errors import InvalidValue, UnknownRecord
from brimful.records import Entity, Note, Record, Room
from brimful.records.character import Character
from brimful.records.note import NoteRole
from brimful.records.removal import RemovalReport

if TYPE_CHECKING:
    from brimful.engine import Engine
    from brimful.stores import Store

R = TypeVar("R")
E = TypeVar("E", bound=Entity)

OutFile = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="FILE", dir_okay=False, help="Write to this file instead of standard output."),
]
FocusField = Annotated[
    str | None, typer.Option("--focus", metavar="TEXT", help="One more thing to search for in every context.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


class RecordKind(msgspec.Struct, Generic[R], frozen=True, kw_only=True):
    """One kind of record: its names, how it is read, changed and removed, and how it is printed.

    `find`, `get` and `remove` take the store, or the engine, and then the parameters of `list`, `show` and `remove`.
    `edit` takes the options of `add` and `edit`, and returns a function that applies them to an entity.
    """

    name: str  # the command group, as in `brimful room`
    plural: str
    examples: Mapping[str, str]  # by command
    columns: tuple[Column, ...]  # of the list
    row: Callable[[R], list[str]]
    fields: Callable[[R], Sequence[tuple[str, str]]] = lambda _: ()  # of a single record
    text: Callable[[R], Sequence[str]] = lambda _: ()  # paragraphs below the fields
    table: Callable[[R], Table | None] = lambda _: None  # below the text
    data: Callable[[R], object] = lambda record: record  # what `show --json` prints
    row_data: Callable[[R], object] | None = None  # what `list --json` prints; by default the same
    find: Callable[..., Awaitable[Sequence[R]]]
    get: Callable[..., Awaitable[R]] | None = None
    edit: Callable[..., Callable[[Any], Entity]] | None = None
    remove: Callable[..., Awaitable[RemovalReport | None]] | None = None
    warning: Callable[[R], str] | None = None  # what `remove` removes besides: it asks for confirmation
    get_removed: Callable[..., Awaitable[R]] | None = None  # what the warning is about; by default `get`
    entity: type[Entity] | None = None  # what `add` and `edit` write
    make: Callable[[str], Entity] | None = None  # makes a new entity from its id; by default `entity(id=id)`
    record: type[Record] | None = None  # what `export` writes


def add_record_commands(group: typer.Typer, kind: RecordKind[Any]) -> None:
    export = f"  brimful {kind.name} export"
    examples = {"export": f"{export} > {kind.plural}.jsonl\n{export} --out {kind.plural}.jsonl", **kind.examples}
    for name, command in _commands(kind):
        group.command(name, epilog=f"Examples:\n{examples[name]}")(command)


def _commands(kind: RecordKind[Any]) -> Iterator[tuple[str, Callable[..., None]]]:
    yield "list", _list_command(kind)
    if kind.get is not None:
        yield "show", _show_command(kind, kind.get)
        if kind.edit is not None and kind.entity is not None:
            yield "add", _save_command(kind, kind.get, kind.edit, kind.entity, new=True)
            yield "edit", _save_command(kind, kind.get, kind.edit, kind.entity, new=False)
        if kind.remove is not None:
            yield "remove", _remove_command(kind, kind.get_removed or kind.get, kind.remove)
    if kind.record is not None:
        yield "export", export_command(kind.record, f"Write all {kind.plural} as JSON lines.")


def export_command(kind: type[Record], help: str) -> Callable[..., None]:
    """Return a command that writes all records of a kind as JSON lines, which `brimful import` reads."""

    def export(*, out: OutFile = None, target: StoreOptions) -> None:
        async def write(store: "Store") -> None:
            await write_lines(_filter_kind(kind, store.export_records()), out)

        with_store(write, target=target)

    export.__doc__ = help
    return export


async def require_room(store: "Store", id: str | None) -> None:
    """Raise `UnknownRecord` if a room is named that is not there."""
    if id is not None:
        await store.require(Room, id)


def show_record(kind: RecordKind[R], record: R, *, as_json: bool) -> None:
    if as_json:
        output.show_json(kind.data(record))
        return
    output.show_fields(kind.fields(record))
    for text in kind.text(record):
        output.write()
        output.write(output.printable(text))
    if (table := kind.table(record)) is not None:
        output.write()
        output.show_table(table)


def _list_command(kind: RecordKind[Any]) -> Callable[..., None]:
    def run(options: dict[str, Any], *, target: StoreOptions, as_json: bool) -> None:
        found = with_store(lambda store: kind.find(store, **options), target=target)
        data = kind.row_data or kind.data
        output.show_rows(found, kind.columns, kind.row, empty=f"no {kind.plural}", as_json=as_json, data=data)

    return _command(kind.find, run)


def _show_command(kind: RecordKind[Any], get: Callable[..., Awaitable[Any]]) -> Callable[..., None]:
    def run(options: dict[str, Any], *, target: StoreOptions, as_json: bool) -> None:
        record = with_store(lambda store: get(store, **options), target=target)
        show_record(kind, record, as_json=as_json)

    return _command(get, run)


def _save_command(
    kind: RecordKind[Any],
    get: Callable[..., Awaitable[Any]],
    edit: Callable[..., Callable[[Any], Entity]],
    entity: type[Entity],
    *,
    new: bool,
) -> Callable[..., None]:
    async def save(engine: "Engine", id: str, apply: Callable[[Any], Entity]) -> Any:
        known = await engine.store.get(entity, id)
        if known is None and not new:
            raise UnknownRecord(kind.name, id)
        if known is not None and new:
            raise Failure(f"{kind.name} {id!r} already exists; change it with `brimful {kind.name} edit`")
        made = kind.make(id) if kind.make else entity(id=id)
        await engine.put(apply(known or made))
        return await get(engine.store, id=id)

    def run(options: dict[str, Any], *, target: StoreOptions, as_json: bool) -> None:
        id = options.pop("id")
        apply = edit(**options)
        record = with_engine(lambda engine: save(engine, id, apply), new=new, target=target)
        if as_json:
            output.show_json(kind.data(record))
        else:
            output.show_fields(kind.fields(record))

    argument = Annotated[str, typer.Argument(metavar=kind.name.upper(), help=f"The {kind.name}'s id.")]
    command = _command(edit, run, _parameter("id", argument, inspect.Parameter.empty), skip=0)
    action = f"Add a {kind.name}." if new else f"Change a {kind.name}. Fields that you do not set stay as they are."
    command.__doc__ = f"{action}\n\n{inspect.cleandoc(edit.__doc__ or '')}"
    return command


def _remove_command(
    kind: RecordKind[Any], get: Callable[..., Awaitable[Any]], remove: Callable[..., Awaitable[RemovalReport | None]]
) -> Callable[..., None]:
    def run(options: dict[str, Any], *, target: StoreOptions, as_json: bool) -> None:
        confirmed = kind.warning is None or options.pop("yes")
        names = [value for value in options.values() if isinstance(value, str)]
        if not confirmed and kind.warning is not None:
            _confirm(kind.warning(with_store(lambda store: get(store, id=names[0]), target=target)))
        report = with_engine(lambda engine: remove(engine, **options), target=target)
        erased = {"erased": options["erase"]} if "erase" in options else {}
        more = ", and erased its content from past contexts" if options.get("erase") else ""
        text = f"removed {output.one_line(names[-1])}{_describe(report) if report else more}"
        counts = {"counts": report.counts} if report else {}
        output.show({"id": names[-1], "removed": True, **erased, **counts}, text, as_json=as_json)

    return _command(remove, run, *([_YES] if kind.warning else []))


def _describe(report: RemovalReport) -> str:
    """Return what was removed.

    >>> _describe(RemovalReport(users=1, memories=20, lore_entries=1, summaries=2))
    ': 1 user, 1 lore entry, 2 summaries, 20 memories'
    """
    names = (kind.replace("_", " ").replace("api", "API") for kind in report.counts)
    numbers = zip(report.counts.values(), names, strict=True)
    return ": " + ", ".join(f"{count:,} {_singular(name) if count == 1 else name}" for count, name in numbers)


def _singular(plural: str) -> str:
    return f"{plural.removesuffix('ies')}y" if plural.endswith("ies") else plural.removesuffix("s")


def _confirm(what: str) -> None:
    """Ask before records are removed that belong to another one. Without a terminal, `--yes` is needed."""
    if not sys.stdin.isatty():
        raise Failure(f"this removes {what}; confirm it with --yes")
    if not typer.confirm(f"Remove {what}?", err=True):
        raise Failure("nothing was removed")


def _command(
    function: Callable[..., Any], run: Callable[..., None], *more: inspect.Parameter, skip: int = 1
) -> Callable[..., None]:
    """Return a command with the parameters of a function, but for the first, and with the options of the store."""

    def command(**options: Any) -> None:
        run(options, target=options.pop("target"), as_json=options.pop("as_json"))

    own = list(inspect.signature(function).parameters.values())[skip:]
    keywords = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*more, *own, *_STORE_OPTIONS)]
    command.__dict__["__signature__"] = inspect.Signature(keywords)
    command.__annotations__ = {}
    command.__doc__ = function.__doc__
    return command


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


_YES: Final = _parameter("yes", Yes, default=False)
_STORE_OPTIONS: Final = (
    _parameter("target", StoreOptions, inspect.Parameter.empty),
    _parameter("as_json", Json, default=False),
)


async def _filter_kind(kind: type[Record], records: AsyncIterator[Record]) -> AsyncIterator[Record]:
    async for record in records:
        if isinstance(record, kind):
            yield record


# -- notes and characters --------------------------------------------------------------------------------------------

HEAD: Final = "head"
"""The depth of a note that is placed with the system prompts."""
EVERY_PREFIX: Final = "every-"
"""Precedes the interval of a note that is not in every turn."""
NOTE_FORM: Final = "DEPTH[:ROLE][:every-N]=TEXT"

Notes = Annotated[
    list[str] | None,
    typer.Option(
        "--note",
        metavar=NOTE_FORM,
        help="Text to insert DEPTH messages before the end (0 is last), or with the system prompts (`head`). "
        "Repeatable; an empty value removes all notes.",
    ),
]


def read_notes(values: Sequence[str] | None) -> tuple[Note, ...] | None:
    """Parse `--note` options: None if there are none, and no notes if one is empty.

    >>> [(note.depth, note.text) for note in read_notes(["4=Be brief.", "head=It rains."])]
    [(4, 'Be brief.'), (None, 'It rains.')]
    >>> read_notes([""])
    ()
    """
    return tuple(_read_note(value) for value in values if value) if values else None


def format_note(note: Note) -> str:
    """Return a note in the form of the option.

    >>> format_note(Note(text="Be brief.", depth=4, role="user", every=3))
    '4:user:every-3=Be brief.'
    """
    role = [note.role] if note.role != "system" else []
    every = [f"{EVERY_PREFIX}{note.every}"] if note.every > 1 else []
    depth = HEAD if note.depth is None else str(note.depth)
    return f"{':'.join([depth, *role, *every])}={note.text}"


def _read_note(value: str) -> Note:
    head, equals, text = value.partition("=")
    depth, *rest = (part.strip() for part in head.split(":"))
    every = [part.removeprefix(EVERY_PREFIX) for part in rest if part.startswith(EVERY_PREFIX)]
    roles = [part for part in rest if not part.startswith(EVERY_PREFIX)]
    numbers = [*every, *([] if depth == HEAD else [depth])]
    if not equals or not text.strip() or len(every) > 1 or len(roles) > 1 or not all(map(_is_number, numbers)):
        reason = f"{value!r} is not of the form {NOTE_FORM}, where DEPTH is a number or `{HEAD}`"
        raise typer.BadParameter(reason, param_hint="'--note'")
    try:
        return Note(
            text=text,
            depth=None if depth == HEAD else int(depth[:9]),
            role=cast("NoteRole", roles[0]) if roles else "system",
            every=int(every[0][:9]) if every else 1,
        )
    except InvalidValue as error:
        raise typer.BadParameter(str(error), param_hint="'--note'") from None


def replace_set(record: E, changes: Mapping[str, Any]) -> E:
    """Return a record with the changes that are set, that is, not None."""
    return msgspec.structs.replace(record, **{key: value for key, value in changes.items() if value is not None})


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()


CharacterFields = Annotated[
    list[str] | None,
    typer.Option(
        "--character",
        metavar="FIELD=TEXT",
        help="Set a field of the character: description, personality, scenario, examples, greeting, greetings "
        "(adds an alternative), nickname or prompt. Repeatable.",
    ),
]


def character_fields(character: Character | None) -> list[str]:
    """Return the names of the fields that are set."""
    return [field for field, value in msgspec.structs.asdict(character or Character()).items() if value]


def update_character(character: Character | None, changes: dict[str, Any]) -> Character | None:
    """Return a character with some fields changed."""
    return Character(**{**msgspec.structs.asdict(character or Character()), **changes}) if changes else character


def read_character_fields(values: Sequence[str] | None) -> dict[str, Any]:
    """Parse `--character` options. `greetings` may be given several times."""
    fields = list(map(_read_character_field, values or ()))
    greetings = tuple(text for field, text in fields if field == "greetings")
    return {**dict(fields), **({"greetings": greetings} if greetings else {})}


def _read_character_field(text: str) -> tuple[str, str]:
    field, equals, value = text.partition("=")
    if not equals or field not in Character.__struct_fields__:
        fields = ", ".join(Character.__struct_fields__)
        raise typer.BadParameter(
            f"{text!r} is not of the form FIELD=TEXT, where FIELD is one of {fields}", param_hint="'--character'"
        )
    return field, value
