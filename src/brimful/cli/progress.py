"""How far a long command has come: a bar in a terminal, nothing anywhere else."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[float], None]
"""Tells how much of the whole is done."""


@contextmanager
def progress(title: str, total: float, *, quiet: bool, unit: str = "") -> Iterator[Advance]:
    """Show a bar while something is done. `unit` is `bytes`, or what is counted."""
    if quiet or not (sys.stdout.isatty() and sys.stderr.isatty()):
        yield lambda _: None
        return
    from brimful.cli.terminal import bar  # noqa: PLC0415 - its docstring says why

    with bar(title, total, unit=unit) as advance:
        yield advance
