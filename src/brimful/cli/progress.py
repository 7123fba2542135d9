"""How far a long command has come: a bar in a terminal, nothing anywhere else."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[float], None]
"""Tells how much of the whole is done."""


@contextmanager
def progress(title: str, total: float | None, *, quiet: bool, unit: str = "", apart: bool = False) -> Iterator[Advance]:
    """Show a bar while something is done; None is a total that nobody knows. `unit` is `bytes`, or what is counted.

    If what is printed goes `apart`, into a file, then only standard error must be a terminal.
    """
    if quiet or not (sys.stderr.isatty() and (apart or sys.stdout.isatty())):
        yield lambda _: None
        return
    from brimful.cli.terminal import bar  # noqa: PLC0415 - its docstring says why

    with bar(title, total, unit=unit) as advance:
        yield advance
