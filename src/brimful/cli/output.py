"""Console output: tables, fields, lines, JSON, errors and exit codes."""

import select
import sys
from collections.abc import Iterable
from datetime import datetime, timedelta
from shutil import get_terminal_size
from textwrap import wrap
from typing import Final

import msgspec
import typer

from brimful.cli.terminal import GAP, Table, plain_lines, print_table

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
    typer.echo(msgspec.json.format(_JSON.encode(value), indent=2))


def write(text: str = "") -> None:
    """Print a line."""
    typer.echo(text)


def write_partial(text: str) -> None:
    """Print text without ending the line."""
    typer.echo(text, nl=False)


def has_reader() -> bool:
    """Return False if the reader of a pipe has gone, as `head` does."""
    try:
        watched = select.poll()
        watched.register(sys.stdout.fileno(), 0)  # no events: poll always reports a closed reader
        return not watched.poll(0)
    except (AttributeError, OSError, ValueError):  # not supported here, or no file behind it
        return True


def warn(text: str) -> None:
    """Print a warning on standard error."""
    typer.echo(f"brimful: warning: {text}", err=True)


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
    r"""Return text with its line breaks and no other control characters.

    >>> printable("two\nlines, \x1b[31mred")
    'two\nlines, [31mred'
    """
    return "\n".join(map(one_line, text.split("\n")))


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


def _wrap_value(value: str, indent: int) -> str:
    """Wrap a value so that it continues below itself in a terminal; a pipe gets it as it is."""
    if not sys.stdout.isatty():
        return value
    width = max(_MIN_VALUE_WIDTH, get_terminal_size().columns - indent)
    lines = wrap(value, width, break_long_words=False, break_on_hyphens=False)
    return f"\n{' ' * indent}".join(lines)
