"""What a command says: tables, facts, lines, JSON. Rich in a terminal, plain aligned text anywhere else."""

import sys
from collections.abc import Iterable, Sequence
from shutil import get_terminal_size
from textwrap import wrap
from typing import Final

import msgspec
import typer

_GAP: Final = "  "
_NARROWEST: Final = 20  # columns for a value, however narrow the terminal says it is
_JSON: Final = msgspec.json.Encoder(decimal_format="number")


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """A column of a table. Where a terminal is narrow, the column with the largest `spare` gives way first."""

    title: str
    right: bool = False
    spare: int = 0


class Table(msgspec.Struct, frozen=True):
    """Rows of texts under their columns."""

    columns: tuple[Column, ...]
    rows: Sequence[Sequence[str]]

    def widths(self) -> list[int]:
        """Return what each column needs, its title included."""
        titles = [column.title for column in self.columns]
        return [max(map(len, cells)) for cells in zip(titles, *self.rows, strict=True)]

    def without(self, title: str) -> "Table":
        """Return the table without one of its columns."""
        at = [column.title for column in self.columns].index(title)
        rest = (*self.columns[:at], *self.columns[at + 1 :])
        return Table(rest, [[*row[:at], *row[at + 1 :]] for row in self.rows])


def columns(*titles: str, right: Iterable[str] = (), spare: Sequence[str] = ()) -> tuple[Column, ...]:
    """Return columns by title. `right` are numbers; `spare` can be done without, the first of them last.

    >>> [column.spare for column in columns("id", "kind", "rank", spare=("kind", "rank"))]
    [0, 1, 2]
    """
    order = {title: at for at, title in enumerate(spare, start=1)}
    return tuple(Column(title=title, right=title in right, spare=order.get(title, 0)) for title in titles)


def show_table(table: Table) -> None:
    """Print a table: with rich where a person looks at it, aligned by spaces where a program may."""
    clean = Table(table.columns, [[one_line(cell) for cell in row] for row in table.rows])
    if sys.stdout.isatty():
        _print_rich(clean)
    else:
        typer.echo("\n".join(plain_lines(clean)))


def show_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Print names and values below each other; what has no value is left out."""
    said = [(name, one_line(value)) for name, value in facts if value]
    width = max((len(name) for name, _ in said), default=0)
    for name, value in said:
        typer.echo(f"{name:<{width}}{_GAP}{_hanging(value, width + len(_GAP))}")


def show_json(value: object) -> None:
    """Print a value as JSON and nothing else: UTF-8 whatever the locale says, indented for people."""
    typer.echo(msgspec.json.format(_JSON.encode(value), indent=2))


def say(text: str = "") -> None:
    """Print a text."""
    typer.echo(text)


def warn(text: str) -> None:
    """Print a warning where it does not mix with the result."""
    typer.echo(f"brimful: warning: {text}", err=True)


def complain(text: str) -> None:
    """Print an error as one line."""
    typer.echo(f"brimful: error: {one_line(text)}", err=True)


def one_line(text: str) -> str:
    r"""Return a text as one line that cannot steer a terminal: content comes from anywhere.

    >>> one_line("two\nlines, \x1b[31mred")
    'two lines, [31mred'
    """
    if text.isprintable():
        return text
    return "".join(mark if mark.isprintable() else " " for mark in text.replace("\x1b", ""))


def number(value: float | None) -> str:
    """Write a number for people; nothing where there is none.

    >>> number(128000), number(0.5), number(None)
    ('128,000', '0.50', '')
    """
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{value:.2f}"


def plain_lines(table: Table) -> list[str]:
    """Return the lines of a table, aligned by spaces, cut nowhere.

    >>> plain_lines(Table(columns("id", "tokens", right=["tokens"]), [["a", "7"], ["bcd", "1,000"]]))
    ['id   tokens', 'a         7', 'bcd   1,000']
    """
    widths = table.widths()
    lines = []
    for row in ([column.title for column in table.columns], *table.rows):
        cells = zip(table.columns, widths, row, strict=True)
        aligned = [cell.rjust(width) if column.right else cell.ljust(width) for column, width, cell in cells]
        lines.append(_GAP.join(aligned).rstrip())
    return lines


def narrowed(table: Table, width: int) -> Table:
    """Return the table without spare columns, as far as needed to fit into the width.

    >>> wide = Table(columns("id", "kind", spare=["kind"]), [["m1", "message-recent"]])
    >>> [column.title for column in narrowed(wide, 12).columns]
    ['id']
    """
    taken = sum(table.widths()) + len(_GAP) * (len(table.columns) - 1)
    worst = max(table.columns, key=lambda column: column.spare)
    if taken <= width or not worst.spare:
        return table
    return narrowed(table.without(worst.title), width)


def _hanging(value: str, indent: int) -> str:
    """Break a value where a terminal would, so that it goes on below itself; a pipe gets it as it is."""
    if not sys.stdout.isatty():
        return value
    width = max(_NARROWEST, get_terminal_size().columns - indent)
    lines = wrap(value, width, break_long_words=False, break_on_hyphens=False)
    return f"\n{' ' * indent}".join(lines)


def _print_rich(table: Table) -> None:
    from rich import box  # noqa: PLC0415 - a piped command does without rich, and starts the faster for it
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table as RichTable  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console()
    fitting = narrowed(table, console.width)
    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1), collapse_padding=True)
    for column in fitting.columns:
        drawn.add_column(column.title, justify="right" if column.right else "left", overflow="fold")
    for row in fitting.rows:
        drawn.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
    console.print(drawn)


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
"""Words that a reader looks for in a long table."""
