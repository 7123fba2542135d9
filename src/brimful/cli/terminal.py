"""Tables and progress bars: drawn with rich in a terminal, as plain aligned text elsewhere.

Rich is imported only to draw in a terminal, so that piped commands start faster.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec

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
        at = [column.title for column in self.columns].index(title)
        rest = (*self.columns[:at], *self.columns[at + 1 :])
        return Table(rest, [[*row[:at], *row[at + 1 :]] for row in self.rows])


def columns(*titles: str, right: Iterable[str] = (), spare: Sequence[str] = ()) -> tuple[Column, ...]:
    """Return columns by title. Those in `right` are right-aligned; those in `spare` may be dropped, the last one first.

    >>> [column.spare for column in columns("id", "kind", "rank", spare=("kind", "rank"))]
    [0, 1, 2]
    """
    order = {title: at for at, title in enumerate(spare, start=1)}
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
