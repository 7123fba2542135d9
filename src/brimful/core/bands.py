"""A window as bands that lie side by side: what stands in it, what is free, and what is kept back."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from brimful.core.explain import title_of

if TYPE_CHECKING:
    from brimful.core.context import Component, Context

_ORDER: Final = ("system", "summaries", "recent", "tools", "older", "memories", "lorebook")
_LAST: Final = ("media", "current", "format")


class Band(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a window, so many tokens wide."""

    name: str
    title: str
    tokens: int
    items: int = 0


def bands(components: Sequence["Component"], *, window: int, available: int, completion: int) -> list[Band]:
    """Return the bands of a window: its components, then what is free, the safety margin, and the answer's share.

    They add up to the window. `reserve` is what is left of the margin, and what a policy or a model leaves unused.
    """
    inside = [
        Band(name=each.name, title=title_of(each.name), tokens=each.tokens, items=each.items)
        for each in sorted(components, key=_place)
    ]
    used = sum(band.tokens for band in inside)
    free = max(0, available - used)
    answer = min(completion, max(0, window - used))
    return [
        *inside,
        Band(name="free", title="Free", tokens=free),
        Band(name="reserve", title="Safety Margin", tokens=max(0, window - answer - used - free)),
        Band(name="completion", title="Answer", tokens=answer),
    ]


def bands_of(context: "Context") -> list[Band]:
    """Return the bands of a context's window."""
    budget = context.budget
    return bands(context.components, window=budget.window, available=budget.available, completion=budget.completion)


def widths(parts: Sequence[int], width: int) -> list[int]:
    """Share a width among parts: in proportion, whole, and none that there is but would vanish, if there is room.

    >>> widths([1, 5_000, 4_999, 0], 20)
    [1, 10, 9, 0]
    """
    whole = sum(parts)
    if not whole:
        return [0 for _ in parts]
    shares = [part * width / whole for part in parts]
    cells = [max(1, int(share)) if part else 0 for part, share in zip(parts, shares, strict=True)]
    while sum(cells) > width:  # what was rounded up is taken from the widest
        cells[cells.index(max(cells))] -= 1
    while sum(cells) < width:  # and what was rounded down goes to whoever lost most by it
        lost = [share - cell if part else -1.0 for part, share, cell in zip(parts, shares, cells, strict=True)]
        cells[lost.index(max(lost))] += 1
    return cells


def _place(component: "Component") -> tuple[int, str]:
    """Return where a component stands in the window; kinds that nobody knows stand with what was retrieved."""
    name = component.name
    if name in _ORDER:
        return (_ORDER.index(name), "")
    return (len(_ORDER) + 1 + _LAST.index(name), "") if name in _LAST else (len(_ORDER), name)
