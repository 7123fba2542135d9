"""Contexts with their decisions, as JSON lines or as Parquet: numbers and names, and nothing that was said."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec
import typer

from brimful.answers import Build
from brimful.errors import MissingExtra

if TYPE_CHECKING:
    from brimful.protocols import Store

PAGE: Final = 500  # contexts at once: a row group of a Parquet file

Advance = Callable[[float], None]
Rows = Sequence[dict[str, Any]]


class Sink(Protocol):
    """A file that rows are written to, page by page."""

    def write(self, rows: Rows) -> None:
        """Write some rows."""
        ...

    def close(self) -> None:
        """Say that this was all: the file stands where it should."""
        ...

    def drop(self) -> None:
        """Leave nothing behind."""
        ...


def sink_for(out: Path) -> Callable[[Path], Sink]:
    """Return what opens a file of that name."""
    match out.suffix.lower():
        case ".jsonl":
            return _Lines
        case ".parquet":
            return _parquet()
        case _:
            raise typer.BadParameter(f"{out.name} ends neither in .jsonl nor in .parquet", param_hint="--out")


async def written(store: "Store", sink: Sink, advance: Advance, **chosen: Any) -> int:
    """Write all chosen contexts, newest first, and return how many there were."""
    count = 0
    try:
        async for rows in _pages(store, chosen):
            sink.write(rows)
            count += len(rows)
            advance(count)
    except BaseException:
        sink.drop()
        raise
    sink.close()
    return count


async def _pages(store: "Store", chosen: dict[str, Any]) -> AsyncIterator[Rows]:
    before = None
    while builds := await store.builds(**chosen, before=before, limit=PAGE):
        before = builds[-1].number
        rows = [await _row(store, build) for build in builds]
        yield [row for row in rows if row is not None]


async def _row(store: "Store", build: Build) -> dict[str, Any] | None:
    """Return a build as plain data; None if it was removed meanwhile."""
    snapshot = await store.snapshot(build.id)
    if snapshot is None:
        return None
    row: dict[str, Any] = msgspec.to_builtins(build)
    del row["history"], row["rules"]  # for the engine alone
    answers = await store.responses(context=build.id)
    return {
        **row,
        "decisions": [msgspec.to_builtins(each) for each in snapshot.context.decisions],
        "answers": [msgspec.to_builtins(each) for each in answers],
    }


class _Lines:
    """JSON lines. The file is there when it is whole."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._part = Path(f"{out}.part")
        self._file = self._part.open("wb")

    def write(self, rows: Rows) -> None:
        for row in rows:
            self._file.write(msgspec.json.encode(row) + b"\n")

    def close(self) -> None:
        self._file.close()
        self._part.replace(self._out)

    def drop(self) -> None:
        with suppress(OSError):  # a full disk, which is what is being told already
            self._file.close()
        self._part.unlink(missing_ok=True)


def _parquet() -> Callable[[Path], Sink]:
    try:
        from brimful.cli.parquet import Parquet  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtra("parquet", "a Parquet file") from error
    return Parquet
