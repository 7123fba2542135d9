"""Console output: tables, progress bars, fields, lines, JSON, errors and exit codes.

Tables and progress bars are drawn with rich in a terminal and as plain aligned text elsewhere. Rich is imported only
to draw in a terminal, so that piped commands start faster.
"""

import re
import select
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from shutil import get_terminal_size
from textwrap import wrap
from typing import Any, Final, TypeVar

import msgspec
import typer

T = TypeVar("T")

GAP: Final = "  "
_STYLES: Final = {
    "kept": "green",
    "entered": "green",
    "shrunk": "yellow",
    "replaced": "yellow",
    "changed": "yellow",
    "duplicate": "dim",
    "dropped": "red",
    "left": "red",
}
"""Colors of the words that readers look for in a long table."""


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """A column of a table. In a narrow terminal, the column with the largest `spare` is dropped first."""

    title: str
    right: bool = False
    spare: int = 0


class Table(msgspec.Struct, frozen=True):
    """Rows of cells under their columns."""

    columns: tuple[Column, ...]
    rows: Sequence[Sequence[str]]

    def widths(self) -> list[int]:
        """Return the width of each column, its title included."""
        titles = [column.title for column in self.columns]
        return [max(map(len, cells)) for cells in zip(titles, *self.rows, strict=True)]

    def without(self, title: str) -> "Table":
        """Return the table without one of its columns."""
        index = [column.title for column in self.columns].index(title)
        rest = (*self.columns[:index], *self.columns[index + 1 :])
        return Table(rest, [[*row[:index], *row[index + 1 :]] for row in self.rows])


def columns(*titles: str, right: Collection[str] = (), spare: Sequence[str] = ()) -> tuple[Column, ...]:
    """Return columns by title. Those in `right` are right-aligned; those in `spare` may be dropped, the last one first.

    >>> [column.spare for column in columns("id", "kind", "rank", spare=("kind", "rank"))]
    [0, 1, 2]
    """
    order = {title: i for i, title in enumerate(spare, start=1)}
    return tuple(Column(title=title, right=title in right, spare=order.get(title, 0)) for title in titles)


def plain_lines(table: Table) -> list[str]:
    """Return the lines of a table, aligned by spaces and not shortened.

    >>> plain_lines(Table(columns("id", "tokens", right=["tokens"]), [["a", "7"], ["bcd", "1,000"]]))
    ['id   tokens', 'a         7', 'bcd   1,000']
    """
    widths = table.widths()
    lines = []
    for row in ([column.title for column in table.columns], *table.rows):
        cells = zip(table.columns, widths, row, strict=True)
        aligned = [cell.rjust(width) if column.right else cell.ljust(width) for column, width, cell in cells]
        lines.append(GAP.join(aligned).rstrip())
    return lines


def fit_width(table: Table, width: int) -> Table:
    """Return the table without as many spare columns as needed to fit the width.

    >>> wide = Table(columns("id", "kind", spare=["kind"]), [["m1", "message-recent"]])
    >>> [column.title for column in fit_width(wide, 12).columns]
    ['id']
    """
    taken = sum(table.widths()) + len(GAP) * (len(table.columns) - 1)
    worst = max(table.columns, key=lambda column: column.spare)
    if taken <= width or not worst.spare:
        return table
    return fit_width(table.without(worst.title), width)


def print_table(table: Table) -> None:
    """Draw a table that fits the terminal: spare columns are dropped first, then cells are folded."""
    from rich import box  # noqa: PLC0415 - see above
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table as RichTable  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console()
    fitting = fit_width(table, console.width)
    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1), collapse_padding=True)
    for column in fitting.columns:
        drawn.add_column(column.title, justify="right" if column.right else "left", overflow="fold")
    for row in fitting.rows:
        drawn.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
    console.print(drawn)


Advance = Callable[[float], None]
"""Reports how much of the total is done."""


@contextmanager
def progress_bar(title: str, total: float | None, *, unit: str) -> Iterator[Advance]:
    """Draw a progress bar on standard error, and clear it at the end."""
    from rich import progress as bars  # noqa: PLC0415 - see above
    from rich.console import Console  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    count = bars.TextColumn(f"{{task.completed:,.0f}} {unit}") if total is None else bars.TaskProgressColumn()
    amount = bars.DownloadColumn() if unit == "bytes" else count
    columns = (bars.TextColumn("{task.description}"), bars.BarColumn(), amount, bars.TimeRemainingColumn())
    with bars.Progress(*columns, console=Console(stderr=True), transient=True) as drawn:
        task = drawn.add_task(Text(title).markup, total=total)  # escaped: a title may look like markup
        yield lambda done: drawn.update(task, completed=done)


@contextmanager
def progress(
    title: str, total: float | None, *, quiet: bool, unit: str = "", to_file: bool = False
) -> Iterator[Advance]:
    """Show a progress bar while something runs, if a person is watching. A total of None is unknown.

    `unit` is `bytes` or whatever is counted. With `to_file`, the result goes to a file, so only standard error has to
    be a terminal.
    """
    if quiet or not (sys.stderr.isatty() and (to_file or sys.stdout.isatty())):
        yield lambda _: None
        return
    with progress_bar(title, total, unit=unit) as advance:
        yield advance


_BREAKS_AND_TABS: Final = re.compile(r"([\n\t]+)")
_TERMINAL_CONTROLS: Final = re.compile(r"[\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Control characters that JSON leaves as they are: C1, with the 8-bit forms of escape sequences, and directions."""
_MIN_VALUE_WIDTH: Final = 20  # columns, however narrow the terminal is
_PREVIEW_LENGTH: Final = 60  # characters
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - shown without a zone
_MAX_TIME: Final = 6e10  # seconds: about the year 3871, well within what a datetime holds
_JSON: Final = msgspec.json.Encoder(decimal_format="number")


class Failure(Exception):
    """A failure outside of Brimful, such as a missing file. The message is the line that the user reads."""


def show_table(table: Table) -> None:
    """Print a table: with rich in a terminal, aligned by spaces elsewhere."""
    clean = Table(table.columns, [[one_line(cell) for cell in row] for row in table.rows])
    if sys.stdout.isatty():
        print_table(clean)
    else:
        typer.echo("\n".join(plain_lines(clean)))


def show_fields(fields: Iterable[tuple[str, str]]) -> None:
    """Print names and values, one pair per line. Empty values are left out."""
    shown = [(name, one_line(value)) for name, value in fields if value]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        typer.echo(f"{name:<{width}}{GAP}{_wrap_value(value, width + len(GAP))}")


def show_json(value: object) -> None:
    """Print a value as indented JSON, in UTF-8 whatever the locale."""
    write_json(msgspec.json.format(_JSON.encode(value), indent=2))


def show(value: object, text: str, *, as_json: bool) -> None:
    """Print a result as JSON, or the text that describes it."""
    if as_json:
        show_json(value)
    else:
        write(text)


def show_rows(
    found: Sequence[T],
    columns: tuple[Column, ...],
    row: Callable[[T], Sequence[str]],
    *,
    empty: str,
    as_json: bool,
    data: Callable[[T], Any] = lambda each: each,
) -> None:
    """Print a list as JSON, or as a table; `empty` says that there is nothing."""
    if as_json:
        show_json([data(each) for each in found])
    elif found:
        show_table(Table(columns, [row(each) for each in found]))
    else:
        write(empty)


def write_json(data: bytes) -> None:
    """Print encoded JSON: byte for byte, except for control characters in a terminal."""
    text = data.decode()
    typer.echo(escape_controls(text) if sys.stdout.isatty() else text)


def escape_controls(text: str) -> str:
    r"""Return JSON in which what a terminal could take for a command is an escape, which means the same.

    >>> escape_controls('"a\x9b31m\u202eb"')
    '"a\\u009b31m\\u202eb"'
    """
    return _TERMINAL_CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def write(text: str = "") -> None:
    """Print lines, without control characters."""
    typer.echo(printable(text))


def write_partial(text: str) -> None:
    """Print text without ending the line, and without control characters."""
    typer.echo(printable(text), nl=False)


def has_reader() -> bool:
    """Return False if the reader of a pipe has gone, as `head` does."""
    try:
        watched = select.poll()
        watched.register(sys.stdout.fileno(), 0)  # no events: poll always reports a closed reader
        return not watched.poll(0)
    except (AttributeError, OSError, ValueError):  # not supported here, or no file behind it
        return True


def warn(text: str) -> None:
    """Print a warning on standard error, as one line."""
    typer.echo(f"brimful: warning: {one_line(text)}", err=True)


def error(text: str) -> None:
    """Print an error on standard error, as one line."""
    typer.echo(f"brimful: error: {one_line(text)}", err=True)


def one_line(text: str) -> str:
    r"""Return text as one line without control characters, since content may come from anywhere.

    >>> one_line("two\nlines, \x1b[31mred")
    'two lines, [31mred'
    """
    if text.isprintable():
        return text
    return "".join(mark if mark.isprintable() else " " for mark in text.replace("\x1b", ""))


def printable(text: str) -> str:
    r"""Return text with its line breaks and tabs, and no other control characters.

    >>> printable("two\n\tlines, \x1b[31mred")
    'two\n\tlines, [31mred'
    """
    if text.isprintable():
        return text
    return "".join(piece if piece[:1] in ("\n", "\t") else one_line(piece) for piece in _BREAKS_AND_TABS.split(text))


def format_time(at: float | None) -> str:
    """Format a time in UTC; an empty string if there is none.

    >>> format_time(1700000000.5), format_time(0.0), format_time(None)
    ('2023-11-14 22:13:20', '', '')
    """
    if not at or not abs(at) < _MAX_TIME:
        return ""
    return f"{_EPOCH + timedelta(seconds=int(at)):%Y-%m-%d %H:%M:%S}"


def preview(text: str) -> str:
    """Return the beginning of a text on one line.

    >>> preview("word " * 100)[-10:]
    'ord word …'
    """
    line = " ".join(text[: 8 * _PREVIEW_LENGTH].split())
    return line if len(line) <= _PREVIEW_LENGTH else f"{line[:_PREVIEW_LENGTH].rstrip()} …"


def format_number(value: float | None) -> str:
    """Format a number; an empty string if there is none.

    >>> format_number(128000), format_number(0.5), format_number(0.0004), format_number(None)
    ('128,000', '0.50', '0.0004', '')
    """
    if value is None:
        return ""
    if isinstance(value, int):
        return f"{value:,}"
    from brimful.views.explain import format_score  # noqa: PLC0415 - not needed by most commands

    return format_score(value)


def format_json(value: object) -> str:
    """Return a value as JSON on one line; nothing for an empty one."""
    return _JSON.encode(value).decode() if value else ""


def _wrap_value(value: str, indent: int) -> str:
    """Wrap a value so that it continues below itself in a terminal; a pipe gets it as it is."""
    if not sys.stdout.isatty():
        return value
    width = max(_MIN_VALUE_WIDTH, get_terminal_size().columns - indent)
    lines = wrap(value, width, break_long_words=False, break_on_hyphens=False)
    return f"\n{' ' * indent}".join(lines)
