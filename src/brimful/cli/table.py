"""A table as data: which columns there are, what they need, and which of them can be done without."""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

GAP: Final = "  "


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
        lines.append(GAP.join(aligned).rstrip())
    return lines


def narrowed(table: Table, width: int) -> Table:
    """Return the table without spare columns, as far as needed to fit into the width.

    >>> wide = Table(columns("id", "kind", spare=["kind"]), [["m1", "message-recent"]])
    >>> [column.title for column in narrowed(wide, 12).columns]
    ['id']
    """
    taken = sum(table.widths()) + len(GAP) * (len(table.columns) - 1)
    worst = max(table.columns, key=lambda column: column.spare)
    if taken <= width or not worst.spare:
        return table
    return narrowed(table.without(worst.title), width)
