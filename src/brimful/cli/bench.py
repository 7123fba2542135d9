"""`brimful bench`: measure on recorded conversations what trimming loses, what memory finds, and what caches save."""

import asyncio
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from brimful.cli import output
from brimful.cli.options import (
    DEFAULT_EMBEDDER,
    DEFAULT_MODEL,
    DEFAULT_TENANT,
    EmbedderSpec,
    Json,
    Model,
    StoreOptions,
    Tenant,
    resolve_model,
)
from brimful.cli.output import Failure, Table, columns, progress
from brimful.cli.store import with_store
from brimful.cli.transfer import ImportFormat
from brimful.formats import Reader, Skipped
from brimful.records import Message, Room

if TYPE_CHECKING:
    from brimful.core.model import ModelInfo
    from brimful.engine.bench import Figures, Recording, Report
    from brimful.stores import Store

EXAMPLES: Final = """\
Examples:
  brimful bench chat.jsonl
  brimful bench chatgpt-export.zip --window 8192 --window 32768
  brimful bench --db sqlite:///chat.db --room support --model claude-sonnet-4-5
  brimful bench runs.jsonl --requests 20 --json
  brimful bench chat.jsonl --model smollm2 --answers http://127.0.0.1:8081/v1"""

_MAX_ROOMS: Final = 1_000
_WAYS: Final = {"newest": "newest messages", "fit": "brimful fit", "memory": "brimful memory"}
_COLUMNS: Final = columns(
    *("way", "facts shown", "task shown", "broken", "input", "cached", "cost"),
    right=("facts shown", "task shown", "broken", "input", "cached", "cost"),
    spare=("broken", "task shown", "input"),
)
_ANSWER_COLUMNS: Final = columns(
    *("way", "facts answered", "95% interval", "failed", "output"),
    right=("facts answered", "95% interval", "failed", "output"),
)
_LEGEND: Final = """\
facts shown  names, numbers and ids of the recorded answers that had come up before, and that the request had
task shown   requests that had the first message of the user, word for word
broken       requests with a tool result without its call, or that did not fit; providers refuse them
cached       input tokens that repeat the beginning of the request before"""

_ANSWER_LEGEND: Final = "facts answered  the same facts, in the new answers of the model"


def register(app: typer.Typer) -> None:
    app.command("bench", epilog=EXAMPLES)(bench)


def bench(  # noqa: PLR0913 - the options of a command
    *,
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="PATH", help="Files, folders or zip archives, as for `brimful import`."),
    ] = None,
    format: ImportFormat = None,
    db: Annotated[str | None, typer.Option("--db", metavar="URL", help="Measure a store instead of files.")] = None,
    room: Annotated[str | None, typer.Option("--room", metavar="ID", help="Only this room.")] = None,
    tenant: Tenant = DEFAULT_TENANT,
    model: Model = DEFAULT_MODEL,
    windows: Annotated[
        list[int] | None,
        typer.Option("--window", metavar="TOKENS", min=256, help="Size of the window. Repeatable. Default: 8192."),
    ] = None,
    completion: Annotated[
        int, typer.Option("--completion", metavar="TOKENS", min=1, help="Tokens reserved for an answer.")
    ] = 1024,
    requests: Annotated[
        int,
        typer.Option(
            "--requests", metavar="N", min=1, help="Number of answers to replay in each conversation, newest first."
        ),
    ] = 50,
    answers: Annotated[
        str,
        typer.Option(
            "--answers", metavar="URL", help="Let the model at this server answer again, and compare what it says."
        ),
    ] = "",
    embedder: EmbedderSpec = DEFAULT_EMBEDDER,
    as_json: Json = False,
) -> None:
    """Measure on your own history what trimming loses and memory finds.

    Replays recorded conversations answer by answer, in a window of your
    choice: with the newest messages that fit, with `brimful fit`, and with
    the engine, which searches older messages. The recorded answers tell
    what was needed, so no model is called and nothing leaves this machine.

    With `--answers`, the model answers again, three times for each replayed
    answer that contains facts. `facts answered` is how many it got right.
    """
    if bool(paths) == (db is not None):
        raise typer.BadParameter("pass files, or --db and a store", param_hint="'PATH'")
    sizes = windows or [8192]
    if min(sizes) <= completion:
        raise typer.BadParameter(f"leaves no room for a prompt in {min(sizes):,} tokens", param_hint="'--completion'")
    info = resolve_model(model)
    found = list(_read_files(paths or [], format) if db is None else _read_store(db, tenant, room))
    recordings = [each for each in found if room in (None, each.room) and each.answers]
    if not recordings:
        raise Failure("there is no conversation with answers to replay: messages need the roles user and assistant")
    with progress("replay", 1, quiet=as_json) as advance:
        reports = asyncio.run(_measure(recordings, info, sizes, completion, requests, embedder, answers, advance))
    if as_json:
        output.show_json(reports)
        return
    for report in reports:
        _show(report)
    if any(report.requests for report in reports):
        output.write(_LEGEND)
    if answers:
        output.write(_ANSWER_LEGEND)


async def _measure(  # noqa: PLR0917 - the options of the command
    recordings: "Sequence[Recording]",
    model: "ModelInfo",
    windows: Sequence[int],
    completion: int,
    requests: int,
    embedder: str,
    answers: str,
    advance: output.Advance,
) -> "list[Report]":
    from brimful.engine import Engine  # noqa: PLC0415 - slow to import
    from brimful.engine.bench import measure  # noqa: PLC0415
    from brimful.providers import make_provider  # noqa: PLC0415

    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        provider = make_provider(answers) if answers else None
        if provider:
            stack.push_async_callback(provider.close)
        async with Engine(f"sqlite:///{Path(folder, 'bench.db')}", embedder=embedder) as engine:
            return await measure(
                recordings,
                engine,
                model=model,
                windows=windows,
                completion=completion,
                requests=requests,
                provider=provider,
                on_progress=advance,
            )


def _read_files(paths: Sequence[str], format: str | None) -> "Iterator[Recording]":
    from brimful.engine.bench import Recording  # noqa: PLC0415 - slow to import

    rooms: dict[str, list[Message]] = {}
    skipped = ""
    with Reader(paths, format=format) as reader:
        for record in reader.records():
            if isinstance(record, Message):
                rooms.setdefault(record.room, []).append(record)
            elif isinstance(record, Skipped):
                skipped = skipped or f"{record.location}: {record.reason}"
    if not rooms:
        raise Failure(skipped or "there are no messages")
    if skipped:
        output.warn(f"some records were skipped; the first is {skipped}")
    for room, messages in rooms.items():
        yield Recording.of(room, messages)


def _read_store(db: str, tenant: str, room: str | None) -> "list[Recording]":
    return with_store(lambda store: _read_rooms(store, room), target=StoreOptions(db=db, tenant=tenant))


async def _read_rooms(store: "Store", room: str | None) -> "list[Recording]":
    from brimful.engine.bench import Recording  # noqa: PLC0415 - slow to import
    from brimful.engine.transfer import read_messages  # noqa: PLC0415

    rooms = [await store.require(Room, room)] if room else await store.list_records(Room, limit=_MAX_ROOMS)
    return [Recording.of(each.id, [message async for message in read_messages(store, each)]) for each in rooms]


def _show(report: "Report") -> None:
    output.write(
        f"conversations: {report.conversations:,}, messages: {report.messages:,}, answers: {report.answers:,}\n"
        f"window: {report.window:,} tokens of {report.model}, {report.completion:,} of them for the answer\n"
        f"too long for it: {report.over:,} answers had more history, of which {report.requests:,} were replayed"
    )
    if not report.requests:
        output.write("Nothing has to be trimmed. Try a smaller --window.\n")
        return
    output.write()
    output.show_table(Table(_COLUMNS, [_row(_WAYS[way], each, report.requests) for way, each in report.ways.items()]))
    output.write()
    asked = {way: each for way, each in report.ways.items() if each.answered is not None}
    if asked:
        output.show_table(Table(_ANSWER_COLUMNS, [_answer_row(_WAYS[way], each) for way, each in asked.items()]))
        output.write()
    if report.examples:
        output.write("What the newest messages no longer showed:")
        for example in report.examples:
            output.write(
                f"  {example.word!r} in answer {example.answer:,} of {example.room}, "
                f"last mentioned {example.distance:,} messages before; shown by {_WAYS[example.way]}"
            )
        output.write()


def _row(way: str, figures: "Figures", requests: int) -> list[str]:
    return [
        way,
        f"{_share(figures.shown, figures.facts)} of {figures.facts:,}",
        _share(figures.tasks, requests),
        f"{figures.broken + figures.refused:,}",
        f"{figures.input:,}",
        _share(figures.cached, figures.input),
        "–" if figures.cost is None else f"${figures.cost:,.2f}",
    ]


def _answer_row(way: str, figures: "Figures") -> list[str]:
    low, high = figures.answered_share or (0.0, 0.0)
    answered = f"{_share(figures.answered or 0, figures.facts)} of {figures.facts:,}"
    return [way, answered, f"{low:.1%} to {high:.1%}", f"{figures.failed:,}", f"{figures.output:,}"]


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "–"
