"""`brimful import` and `brimful export`: move conversations between a store and files."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
import typer

from brimful.cli import output
from brimful.cli.files import atomic_file, source_name, write_lines
from brimful.cli.options import Json, StoreOptions
from brimful.cli.output import Failure, Table, columns, progress
from brimful.cli.store import has_store, with_database, with_engine
from brimful.formats import (
    DamageReport,
    ImportedItem,
    Reader,
    Skipped,
    check_files,
    file_name,
    format_names,
    is_unedited,
    mark_of,
    read_checked,
    write_memory,
)
from brimful.records import Lorebook, Memory, Persona, Room
from brimful.views.explain import plural

if TYPE_CHECKING:
    from brimful.engine import Engine
    from brimful.engine.transfer import ImportReport, ImportTally
    from brimful.stores import Database, Store


IMPORT_EXAMPLES: Final = """\
Examples:
  brimful import chat.jsonl
  brimful import chatgpt-export.zip
  brimful import ~/SillyTavern/data/default-user
  brimful import export.json --room support --db sqlite:///chat.db
  brimful import train-*.jsonl.gz --dry-run
  brimful import half-downloaded.json --salvage
  brimful import ~/.claude-mem/claude-mem.db --user ada
  brimful import notes --format markdown
  brimful import chatgpt-export.zip --queue --tenant acme
  brimful import chat.jsonl --json | jq .skipped"""

_SKIPPED_COLUMNS: Final = columns("skipped", "reason", "first at", right=["skipped"])


def complete_import_format(incomplete: str) -> list[str]:
    """Complete a format name in the shell."""
    return [name for name in format_names() if name.startswith(incomplete)]


ImportFormat = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME",
        help="Format of the files. Default: detected from their content.",
        autocompletion=complete_import_format,
    ),
]


def register(app: typer.Typer) -> None:
    app.command("import", epilog=IMPORT_EXAMPLES)(import_files)
    app.command("export", epilog=EXPORT_EXAMPLES)(export)


def import_files(  # noqa: PLR0913 - the options of a command
    *,
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH", help="Files, folders or zip archives. `-` reads standard input.")
    ],
    room: Annotated[
        str | None, typer.Option("--room", metavar="ID", help="The room to add messages to. Default: the file's name.")
    ] = None,
    user: Annotated[
        str | None,
        typer.Option("--user", metavar="ID", help="Whose memories and rooms these are, if a file does not say."),
    ] = None,
    format: ImportFormat = None,
    salvage: Annotated[
        bool, typer.Option("--salvage", help="Import what can be read from damaged files and report the rest.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be imported without importing it.")
    ] = False,
    queue: Annotated[
        bool,
        typer.Option("--queue", help="Queue it for `brimful work --import-folder`; PATH is relative to that folder."),
    ] = False,
    target: StoreOptions,
    as_json: Json = False,
) -> None:
    """Import conversations and memories from other programs.

    Reads exports of ChatGPT, Claude, Slack and Discord; chats, character cards
    and lorebooks of SillyTavern, or its whole folder; messages of OpenAI,
    LangChain and LlamaIndex; memories of mem0, Letta, claude-mem, Zep and
    Graphiti, and MEMORY.md, CLAUDE.md or AGENTS.md; and the output of `brimful
    export`. The format is detected; use --format if that fails.

    Existing records are not changed, except for memories that are newer in
    the file, so you can import a file again after it has grown, or after an
    interrupted import.

    All files are checked before anything is written. If a file is damaged
    (truncated, not JSON, not UTF-8, a zip bomb), the command fails and the
    store is not changed; with --salvage, what can be read is imported.
    Invalid records are skipped and reported.
    """
    if format is not None and format not in format_names():
        raise typer.BadParameter(f"{format!r} is not one of {', '.join(format_names())}", param_hint="'--format'")
    if queue:
        if dry_run:
            raise typer.BadParameter("cannot be combined with --dry-run", param_hint="'--queue'")
        added = _queue_imports(paths, room, format, user=user, salvage=salvage, target=target)
        text = f"{plural(added, 'import')} queued for `brimful work --import-folder`"
        output.show({"queued": added}, text, as_json=as_json)
        return
    from brimful.engine.transfer import ImportTally  # noqa: PLC0415 - slow to import

    tally = ImportTally()
    with Reader(paths, room=room, format=format, user=user) as walk:
        if dry_run:
            _preview_import(walk, tally, target, salvage=salvage, quiet=as_json)
        else:
            _import_records(walk, tally, target, salvage=salvage, quiet=as_json)
    _show_import(tally.make_report(), paths, dry_run=dry_run, as_json=as_json)


def _queue_imports(
    paths: Sequence[str], room: str | None, format: str | None, *, user: str | None, salvage: bool, target: StoreOptions
) -> int:
    """Add a job for each path, and return how many were not queued already."""
    from brimful.engine.transfer import ImportFile  # noqa: PLC0415 - see above

    files = [ImportFile(path=path, room=room, format=format, user=user, salvage=salvage) for path in paths]

    async def queue(database: "Database") -> int:
        store = database.tenant(target.tenant)
        return sum([await store.add_job("import", msgspec.json.encode(file).decode()) for file in files])

    return with_database(queue, target.db, new=True)


def _preview_import(walk: Reader, tally: "ImportTally", target: StoreOptions, *, salvage: bool, quiet: bool) -> None:
    """Count what would be imported, and reject damaged files."""
    from brimful.engine.transfer import preview_import  # noqa: PLC0415 - see above

    damage = DamageReport(walk)
    with progress("check", walk.total_bytes, quiet=quiet, unit="bytes") as advance:

        async def preview(engine: "Engine | None") -> None:
            store = engine.store if engine else None
            await preview_import(
                store,
                damage.records(),
                tally,
                on_batch=lambda: advance(walk.done_bytes),
                get_location=lambda: walk.location,
            )

        if has_store(target.db):
            with_engine(preview, target=target, indexing=False)
        else:
            asyncio.run(preview(None))
    if not salvage:
        damage.raise_if_damaged()


def _import_records(walk: Reader, tally: "ImportTally", target: StoreOptions, *, salvage: bool, quiet: bool) -> None:
    """Check all files, then write their records."""
    from brimful.engine.transfer import import_records  # noqa: PLC0415 - see above

    if not salvage:
        with progress("check", walk.total_bytes, quiet=quiet, unit="bytes") as advance:
            check_files(walk, on_progress=lambda: advance(walk.done_bytes))
    found = walk.records() if salvage else read_checked(walk)
    first = _first_record(found, tally)  # if nothing can be read, no store is created

    async def write(engine: "Engine") -> None:
        with progress("import", walk.total_bytes, quiet=quiet, unit="bytes") as advance:
            await import_records(
                engine,
                chain(first, found),
                tally,
                on_batch=lambda: advance(walk.done_bytes),
                get_location=lambda: walk.location,
                index=False,
            )
        with progress("index", await engine.store.count_undivided(), quiet=quiet, unit="texts") as advance:
            await engine.index_deferred(advance)

    if first:
        with_engine(write, target=target, new=True)


def _first_record(found: Iterator[ImportedItem], tally: "ImportTally") -> list[ImportedItem]:
    """Return the first record, if there is one; count skipped items before it."""
    for record in found:
        if not isinstance(record, Skipped):
            return [record]
        tally.add_skipped(record)
    return []


def _show_import(intake: "ImportReport", paths: Sequence[str], *, dry_run: bool, as_json: bool) -> None:
    if not intake.read:
        raise Failure(_empty_import_message(intake, paths))
    if as_json:
        output.show_json(intake)
        return
    output.show_fields(_import_fields(intake, dry_run=dry_run))
    if intake.skipped:
        output.write()
        rows = [[f"{skips.count:,}", skips.reason, ", ".join(skips.locations)] for skips in intake.skipped]
        output.show_table(Table(_SKIPPED_COLUMNS, rows))


def _empty_import_message(intake: "ImportReport", paths: Sequence[str]) -> str:
    """Return why nothing was imported: the most frequent reason."""
    if not intake.skipped:
        return f"{', '.join(map(source_name, paths))}: nothing to import"
    skips = intake.skipped[0]
    more = sum(each.count for each in intake.skipped) - 1
    return f"{skips.locations[0]}: {skips.reason}{f'; {more:,} more were skipped' if more else ''}"


def _import_fields(intake: "ImportReport", *, dry_run: bool) -> Iterator[tuple[str, str]]:
    yield ("would import" if dry_run else "imported"), ", ".join(_record_counts(intake)) or "nothing new"
    yield "rooms", f"{intake.rooms:,}"
    yield "updated", plural(intake.updated, "memory") if intake.updated else ""
    yield "archived", plural(intake.archived, "memory") if intake.archived else ""
    yield "already there", f"{intake.known:,}" if intake.known else ""
    yield "skipped", f"{sum(skips.count for skips in intake.skipped):,}" if intake.skipped else ""


def _record_counts(intake: "ImportReport") -> Iterator[str]:
    roles = ", ".join(f"{count:,} {role}" for role, count in intake.roles.items())
    for kind, count in intake.records.items():
        yield f"{count:,} {plural_kind(kind, count)}{f' ({roles})' if kind == 'message' else ''}"


def plural_kind(kind: str, count: int) -> str:
    """Return the name of a kind of record in the singular or plural.

    >>> plural_kind("memory", 2), plural_kind("lore-entry", 2), plural_kind("room", 1)
    ('memories', 'lore entries', 'room')
    """
    name = kind.replace("-", " ")
    if count == 1:
        return name
    return f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"


EXPORT_EXAMPLES: Final = """\
Examples:
  brimful export > everything.jsonl
  brimful export --tenant acme --out acme.jsonl
  brimful export | brimful import - --db postgresql://ada@db.example.org/chat
  brimful export --room support --format openai --out support.jsonl
  brimful export --persona nova --format card --out nova.json
  brimful export --format markdown --out memories"""

EXPORT_FORMATS: Final = {
    "records": ("room", "persona", "lorebook", ""),
    "openai": ("room",),
    "sillytavern": ("room",),
    "card": ("persona",),
    "markdown": ("",),
}
"""The formats, and what each can hold; the empty string means everything."""

_EXPORT_KINDS: Final[dict[str, type[Any]]] = {"room": Room, "persona": Persona, "lorebook": Lorebook}


OutPath = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="PATH", help="Write to this file, or folder, instead of standard output."),
]


def complete_export_format(incomplete: str) -> list[str]:
    """Complete a format name in the shell."""
    return [name for name in EXPORT_FORMATS if name.startswith(incomplete)]


def export(
    *,
    room: Annotated[str | None, typer.Option("--room", metavar="ID", help="Only this room, with its messages.")] = None,
    persona: Annotated[
        str | None, typer.Option("--persona", metavar="ID", help="Only this persona, with its lorebooks.")
    ] = None,
    lorebook: Annotated[
        str | None, typer.Option("--lorebook", metavar="ID", help="Only this lorebook, with its entries.")
    ] = None,
    format: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="NAME",
            help=f"Format: {', '.join(EXPORT_FORMATS)}.",
            autocompletion=complete_export_format,
        ),
    ] = "records",
    out: OutPath = None,
    target: StoreOptions,
) -> None:
    """Export everything, or one room, persona or lorebook.

    Writes JSON lines: users, personas, lorebooks, rooms, messages, summaries,
    contexts, answers, usage and memories, one record per line, with its type
    in `record`. `brimful import` reads them into any store. Vectors are not
    exported. The other formats are for other programs; data that came from
    one of them is written back without loss. To export a lorebook for other
    programs, use `brimful lorebook export`.

    The format markdown writes the memories into the folder --out, one file
    for each. Files that you edited since the last export are left alone.
    """
    chosen = {"room": room, "persona": persona, "lorebook": lorebook}
    named = [(kind, id) for kind, id in chosen.items() if id is not None]
    if len(named) > 1:
        raise typer.BadParameter("cannot be combined", param_hint="'--room' / '--persona' / '--lorebook'")
    kind, id = named[0] if named else ("", "")
    if format not in EXPORT_FORMATS:
        raise typer.BadParameter(f"{format!r} is not one of {', '.join(EXPORT_FORMATS)}", param_hint="'--format'")
    if kind not in EXPORT_FORMATS[format]:
        needed = " or ".join(f"--{each}" for each in EXPORT_FORMATS[format] if each)
        reason = f"{format} needs {needed}" if needed else f"{format} cannot be combined with --{kind}"
        raise typer.BadParameter(reason, param_hint="'--format'")

    if format == "markdown":
        _export_markdown(out, target)
        return
    if out is not None and out.is_dir():
        raise typer.BadParameter(f"{output.one_line(str(out))} is a directory", param_hint="'--out'")

    async def write(engine: "Engine") -> None:
        await write_lines(await _export_lines(engine.store, kind, id, format), out)

    with_engine(write, target=target)


def _export_markdown(folder: Path | None, target: StoreOptions) -> None:
    """Write each memory into a file of its own, and show how many there are."""
    if folder is None:
        raise typer.BadParameter("markdown needs a folder: `--out FOLDER`", param_hint="'--out'")
    if folder.exists() and not folder.is_dir():
        raise typer.BadParameter(f"{output.one_line(str(folder))} is not a folder", param_hint="'--out'")

    async def write(engine: "Engine") -> Counter[str]:
        from brimful.engine.transfer import read_memories  # noqa: PLC0415 - see above

        counts: Counter[str] = Counter()
        names = _names_by_mark(folder)
        with progress("export", None, quiet=False, unit="memories", to_file=True) as advance:
            async for memory in read_memories(engine.store):
                name = file_name(memory)
                counts[_write_unless_edited(folder / names.get(mark_of(name), name), memory)] += 1
                advance(counts.total())
        return counts

    counts = with_engine(write, target=target)
    output.show_fields(
        [
            ("exported", plural(counts["written"], "memory")),
            ("unchanged", f"{counts['unchanged']:,}" if counts["unchanged"] else ""),
            ("edited by you", f"{counts['edited']:,}; `brimful import` reads them" if counts["edited"] else ""),
        ]
    )


def _write_unless_edited(path: Path, memory: Memory) -> Literal["written", "unchanged", "edited"]:
    """Write a memory as Markdown, unless the file has been edited since it was written."""
    text = write_memory(memory).encode()
    if path.exists():
        old = path.read_bytes()
        if old == text:
            return "unchanged"
        if not is_unedited(old.decode(errors="replace")):
            return "edited"
    with atomic_file(path) as file:
        file.write(text)
    return "written"


def _names_by_mark(folder: Path) -> dict[str, str]:
    """Return the files of a folder, which is made if there is none: a memory keeps the name of its file."""
    folder.mkdir(parents=True, exist_ok=True)
    return {mark_of(file.name): file.name for file in folder.iterdir()}


async def _export_lines(store: "Store", kind: str, id: str, format: str) -> AsyncIterator[Any]:
    """Return the lines to write. Missing records are reported before a file is opened."""
    from brimful.engine import transfer  # noqa: PLC0415 - the engine is open, so this is imported already

    if not kind:
        return store.export_records()
    record: Any = await store.require(_EXPORT_KINDS[kind], id)
    listed: dict[tuple[str, str], Callable[..., AsyncIterator[Any]]] = {
        ("room", "records"): transfer.export_room,
        ("room", "sillytavern"): transfer.export_chat_lines,
        ("persona", "records"): transfer.export_persona,
        ("lorebook", "records"): transfer.export_lorebook,
    }
    if (kind, format) in listed:
        return listed[kind, format](store, record)
    whole: dict[str, Callable[..., Awaitable[dict[str, Any]]]] = {
        "room": transfer.export_conversation,
        "persona": transfer.export_card,
    }
    return _single_line(await whole[kind](store, record))


async def _single_line(data: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
    yield data
