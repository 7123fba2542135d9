"""The composition of a window as a bar: coloured in a terminal, in letters anywhere else."""

import os
import sys
from collections.abc import Sequence
from typing import Final

import typer

from brimful.core.bands import Band, widths

WIDTH: Final = 60
_LETTERS: Final = {
    "system": "S",
    "pinned": "P",
    "summaries": "Σ",
    "recent": "R",
    "tools": "T",
    "older": "O",
    "memories": "M",
    "lorebook": "L",
    "notes": "N",
    "media": "I",
    "current": "C",
    "format": "f",
    "free": "·",
    "margin": "-",
    "capped": "/",
    "completion": "=",
}
_COLOURS: Final = {
    "system": "magenta",
    "pinned": "bright_yellow",
    "summaries": "bright_magenta",
    "recent": "blue",
    "tools": "bright_blue",
    "older": "cyan",
    "memories": "green",
    "lorebook": "bright_green",
    "notes": "bright_red",
    "media": "yellow",
    "current": "red",
    "format": "bright_black",
    "free": "white",
    "margin": "bright_black",
    "capped": "bright_black",
    "completion": "bright_black",
}
_OTHER: Final = ("x", "bright_cyan")  # a component of a kind that nobody knows
_SHADES: Final = {"free": "░", "margin": "▒", "capped": "▒", "completion": "▓"}


def bar(bands: Sequence[Band], width: int = WIDTH) -> str:
    """Draw the bands of a window side by side.

    >>> bar([Band(name="system", title="", tokens=25, items=1), Band(name="free", title="", tokens=75, items=0)], 8)
    'SS······'
    """
    cells = zip(bands, widths([band.tokens for band in bands], width), strict=True)
    draw = _coloured if _in_colour() else _lettered
    return "".join(draw(band.name, count) for band, count in cells if count)


def legend(bands: Sequence[Band]) -> str:
    """Say what the letters, or the colours, of a bar mean.

    >>> legend([Band(name="system", title="System Prompt", tokens=25, items=1)])
    'S System Prompt'
    """
    draw = _coloured if _in_colour() else _lettered
    return "  ".join(f"{draw(band.name, 1)} {band.title}" for band in bands if band.tokens)


def _in_colour() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def _lettered(name: str, count: int) -> str:
    return _LETTERS.get(name, _OTHER[0]) * count


def _coloured(name: str, count: int) -> str:
    return typer.style(_SHADES.get(name, "█") * count, fg=_COLOURS.get(name, _OTHER[1]))
