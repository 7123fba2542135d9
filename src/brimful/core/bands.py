"""A window as bands that lie side by side: what stands in it, what is free, and what is kept back."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from brimful.core.content import ContentPackage
from brimful.core.cost import region_of
from brimful.core.explain import COMPONENTS, component_title

if TYPE_CHECKING:
    from brimful.core.context import Component, Context

_OPENING: Final = ("system", "pinned")
_HISTORY: Final = ("summaries", "recent", "tools")
_RELATED: Final = ("lorebook", "memories", "older")
_CLOSING: Final = ("notes", "media", "current", "format")
_TITLES: Final = {
    "pinned": "Pinned",
    "free": "Free",
    "margin": "Safety Margin",
    "capped": "Beyond the Prompt's Limit",
    "completion": "Answer",
}
"""Titles of what is no component."""

Size = tuple[int, int]  # tokens, items


class Band(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a window, so many tokens wide.

    Beside the components there are `pinned`, `free`, `margin` (kept for what a count may miss), `capped` (beyond what
    the policy or the model lets a prompt have) and `completion`.
    """

    name: str
    title: str
    tokens: int
    items: int


def window_bands(context: "Context") -> list[Band]:
    """Return the bands of a context's window, in the order of its request; they add up to the window."""
    budget, used = context.budget, context.tokens
    return [
        *_used_bands(_component_sizes(context), related_first=context.inputs.policy.layout.related == "system"),
        _make_band("free", max(0, budget.available - used)),
        _make_band("margin", max(0, budget.hard_limit - max(budget.available, used))),
        *_capped_bands(budget.window - budget.completion - budget.hard_limit),
        _make_band("completion", budget.completion),
    ]


def component_bands(components: Iterable["Component"], *, window: int, available: int, completion: int) -> list[Band]:
    """Return the same from a digest, which does not tell what is pinned, nor whether the prompt is capped."""
    parts = {each.name: (each.tokens, each.items) for each in components}
    used = sum(tokens for tokens, _ in parts.values())
    free = max(0, available - used)
    return [
        *_used_bands(parts, related_first=False),
        _make_band("free", free),
        _make_band("margin", max(0, window - completion - used - free)),
        _make_band("completion", completion),
    ]


def band_name(package: ContentPackage) -> str:
    """Return the name of the band that a candidate belongs to: its component, or `pinned`."""
    return "pinned" if _is_pinned(package) else COMPONENTS.get(package.kind, package.kind)


def share_width(parts: Sequence[int], width: int) -> list[int]:
    """Share a width among parts: in proportion, whole, and none that there is but would vanish, if there is room.

    >>> share_width([1, 5_000, 4_999, 0], 20)
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


def _used_bands(parts: Mapping[str, Size], *, related_first: bool) -> Iterator[Band]:
    """Yield what is in the request, in its order; kinds that nobody knows stand with what was retrieved."""
    known = {*_OPENING, *_HISTORY, *_RELATED, *_CLOSING}
    related = (*_RELATED, *(name for name in parts if name not in known))
    middle = (*related, *_HISTORY) if related_first else (*_HISTORY, *related)
    for name in (*_OPENING, *middle, *_CLOSING):
        tokens, items = parts.get(name, (0, 0))
        if tokens or items:
            yield _make_band(name, tokens, items)


def _component_sizes(context: "Context") -> dict[str, Size]:
    """Return tokens and items by component, with those that are pinned taken out of each."""
    parts: dict[str, Size] = {each.name: (each.tokens, each.items) for each in context.components}
    pinned = _pinned_ids(context)
    if not pinned:
        return parts
    costs, pins, items = Counter[str](), Counter[str](), Counter[str]()
    for decision in context.decisions:
        if decision.included:
            name = COMPONENTS.get(decision.kind, decision.kind)
            costs[name] += decision.cost
            if decision.id in pinned:
                pins[name] += decision.cost
                items[name] += 1
    apart = (0, 0)
    for name, (tokens, count) in parts.items():
        taken = tokens * pins[name] // costs[name] if costs[name] else 0
        apart = (apart[0] + taken, apart[1] + items[name])
        parts[name] = (tokens - taken, count - items[name])
    return parts | {"pinned": apart}


def _pinned_ids(context: "Context") -> set[str]:
    return {package.id for package in context.inputs.packages if _is_pinned(package)}


def _is_pinned(package: ContentPackage) -> bool:
    return bool(package.metadata) and region_of(package) == "pinned"


def _capped_bands(tokens: int) -> Iterator[Band]:
    if tokens > 0:
        yield _make_band("capped", tokens)


def _make_band(name: str, tokens: int, items: int = 0) -> Band:
    return Band(name=name, title=_TITLES.get(name) or component_title(name), tokens=tokens, items=items)
