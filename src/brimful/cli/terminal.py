"""Tables and bars for a terminal, drawn by rich.

Imported only where there is one: a piped command starts the faster for it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich import box
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table as RichTable
from rich.text import Text

from brimful.cli.table import Table, narrowed

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


def print_table(table: Table) -> None:
    """Draw a table as wide as the terminal allows. Spare columns give way first, then texts are folded."""
    console = Console()
    fitting = narrowed(table, console.width)
    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1), collapse_padding=True)
    for column in fitting.columns:
        drawn.add_column(column.title, justify="right" if column.right else "left", overflow="fold")
    for row in fitting.rows:
        drawn.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
    console.print(drawn)


@contextmanager
def bar(title: str, total: float | None, *, unit: str) -> Iterator[Callable[[float], None]]:
    """Draw a bar on standard error, which is gone when all is done."""
    counted = TextColumn(f"{{task.completed:,.0f}} {unit}") if total is None else TaskProgressColumn()
    amount = DownloadColumn() if unit == "bytes" else counted
    shown = Text(title).markup  # a name is no markup
    columns = (TextColumn("{task.description}"), BarColumn(), amount, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as drawn:
        task = drawn.add_task(shown, total=total)
        yield lambda done: drawn.update(task, completed=done)
