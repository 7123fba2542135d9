"""The window as a picture: what takes which part of it, from its beginning to its end."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from brimful.core.content import ContentPackage
from brimful.core.context import Context
from brimful.core.cost import place_of
from brimful.core.explain import COMPONENTS, title_of
from brimful.server.inspector.views import Band

_OPENING: Final = ("system", "pinned")
_HISTORY: Final = ("summaries", "recent", "tools")
_RELATED: Final = ("lorebook", "memories", "older")
_CLOSING: Final = ("media", "current", "format")
_TITLES: Final = {
    "pinned": "Pinned",
    "free": "Free",
    "margin": "Safety Margin",
    "capped": "Beyond the Prompt's Limit",
    "completion": "Answer",
}


def bands_of(context: Context) -> tuple[Band, ...]:
    """Return the parts of the window in their order; they add up to the window."""
    return (*_used(context), *_unused(context))


def band_of(package: ContentPackage) -> str:
    """Return the name of the part that a candidate belongs to: its component, or `pinned`."""
    return "pinned" if _is_pinned(package) else _component_of(package.kind)


def _used(context: Context) -> Iterator[Band]:
    """Yield what is in the request, in its order. What is pinned stands apart from others of its kind."""
    parts = _parts(context)
    known = {*_OPENING, *_HISTORY, *_RELATED, *_CLOSING}
    related = (*_RELATED, *(name for name in parts if name not in known))
    middle = (*related, *_HISTORY) if context.inputs.policy.layout.related == "system" else (*_HISTORY, *related)
    for name in (*_OPENING, *middle, *_CLOSING):
        tokens, items = parts.get(name, (0, 0))
        if tokens or items:
            yield _band(name, tokens, items)


def _parts(context: Context) -> dict[str, tuple[int, int]]:
    """Return tokens and items by component, with those that are pinned taken out of each."""
    pinned, costs, items = _pinned(context), Counter[tuple[str, bool]](), Counter[tuple[str, bool]]()
    for decision in context.decisions:
        if decision.included:
            name = _component_of(decision.kind)
            costs[name, decision.id in pinned] += decision.cost
            items[name, decision.id in pinned] += 1
    parts = {}
    apart = [0, 0]
    for component in context.components:
        name, whole = component.name, costs[component.name, True] + costs[component.name, False]
        taken = component.tokens * costs[name, True] // whole if whole else 0
        apart = [apart[0] + taken, apart[1] + items[name, True]]
        parts[name] = (component.tokens - taken, component.items - items[name, True])
    return parts | {"pinned": (apart[0], apart[1])}


def _component_of(kind: str) -> str:
    return COMPONENTS.get(kind, kind)


def _pinned(context: Context) -> set[str]:
    return {package.id for package in context.inputs.packages if _is_pinned(package)}


def _is_pinned(package: ContentPackage) -> bool:
    return bool(package.metadata) and place_of(package) == "pinned"


def _unused(context: Context) -> Iterator[Band]:
    budget, tokens = context.budget, context.tokens
    yield _band("free", max(0, budget.available - tokens))
    yield _band("margin", max(0, budget.hard_limit - max(budget.available, tokens)))
    capped = budget.window - budget.completion - budget.hard_limit
    if capped > 0:
        yield _band("capped", capped)
    yield _band("completion", budget.completion)


def _band(name: str, tokens: int, items: int = 0) -> Band:
    return Band(name=name, title=_TITLES.get(name) or title_of(name), tokens=tokens, items=items)
