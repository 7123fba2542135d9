"""A context window as a picture: bands that lie side by side, and HTML for notebooks.

The HTML has no scripts and works in light and dark themes. Everything that comes from a context is escaped.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from itertools import islice
from typing import Final

import msgspec

from brimful.core.context import COMPONENTS, Component, Context
from brimful.core.decision import Decision
from brimful.views.explain import component_title, count_outcomes, describe_decision, format_items
from brimful.views.sections import excluded_decisions

_ORDER: Final = (
    *("system", "pinned", "summaries", "recent", "tools"),
    *("lorebook", "memories", "older", "notes", "media", "current"),
)
"""The usual order of components in a request. Other kinds come with retrieved content, before the notes."""
_TITLES: Final = {
    "pinned": "Pinned",
    "free": "Free",
    "margin": "Safety Margin",
    "capped": "Beyond the Prompt's Limit",
    "completion": "Answer",
}
"""Titles of bands that are not components."""

_RESERVED: Final = frozenset({"margin", "capped", "completion"})  # not part of the budget
_Size = tuple[int, int]  # tokens, items
_NEAREST: Final = 5  # candidates that nearly got in
_LONGEST: Final = 80  # characters of an id
_COLORS: Final = {
    "system": ("#7b4fb5", "#b794f4"),
    "pinned": ("#4a3fa8", "#8f88f0"),
    "summaries": ("#b3459c", "#f08fd8"),
    "recent": ("#2463c9", "#6ea8fe"),
    "tools": ("#0f6f8f", "#4fc3e0"),
    "older": ("#0e8a7d", "#4fd6c4"),
    "memories": ("#2e7d32", "#7bd88a"),
    "lorebook": ("#6b8e12", "#b6d94c"),
    "notes": ("#8a7a00", "#e6d24a"),
    "media": ("#b26a00", "#ffb74d"),
    "current": ("#c62828", "#ff7b7b"),
    "other": ("#8d5a3b", "#d2a184"),
    "format": ("#6b7280", "#9aa3b2"),
    "free": ("#e8eaee", "#2a2f38"),
    "margin": ("#c9ced8", "#3d4450"),
    "capped": ("#dfe2e8", "#333a46"),
    "completion": ("#aab1bf", "#525b6b"),
}
"""The color of each band in light and in dark themes."""
_LAYOUT: Final = """\
.brimful{font:13px/1.45 system-ui,sans-serif;max-width:60em;padding:.75em 1em;border:1px solid var(--line);
border-radius:8px;background:var(--paper);color:var(--ink)}
.brimful svg{display:block;width:100%;height:34px;margin:.6em 0;border-radius:4px}
.brimful b{font-weight:600}.brimful .dim{color:var(--dim)}
.brimful table{border-collapse:collapse;margin:0;font-variant-numeric:tabular-nums;background:none;color:inherit}
.brimful td{padding:.1em 1.2em .1em 0;text-align:left;border:0;background:none;color:inherit;vertical-align:top}
.brimful td.n{text-align:right}
.brimful i{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.5em;vertical-align:-.05em}
.brimful ul{margin:.2em 0 0;padding-left:1.2em}.brimful p{margin:.6em 0 0}
.brimful code{font:12px ui-monospace,monospace;background:none;color:inherit;overflow-wrap:anywhere}"""
_LIGHT: Final = "--paper:#fff;--ink:#1c2330;--dim:#5b6472;--line:#d9dde5"
_DARK: Final = "--paper:#14171d;--ink:#e6e9ef;--dim:#9aa3b2;--line:#333a46"
_DARK_SELECTORS: Final = (
    '[data-jp-theme-light="false"] .brimful',
    ".vscode-dark .brimful",
    '[data-theme="dark"] .brimful',
)
"""Selectors of notebooks that set their own theme, whatever the system says."""
_LIGHT_SELECTORS: Final = (
    '[data-jp-theme-light="true"] .brimful',
    ".vscode-light .brimful",
    '[data-theme="light"] .brimful',
)


class Band(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a window, as wide as its tokens.

    Besides the components there are `pinned`, `free`, `margin` (reserved for what a count may miss), `capped` (beyond
    what the policy or the model allows for a prompt) and `completion`.
    """

    name: str
    title: str
    tokens: int
    items: int


def window_bands(context: Context) -> list[Band]:
    """Return the bands of a context's window, in the order of its request. They add up to the window."""
    budget, used = context.budget, context.tokens
    sizes = _band_sizes(context)
    return [
        *(_make_band(name, *sizes[name]) for name in sorted(sizes, key=_first_positions(context))),
        *_format_band(context.components),
        _make_band("free", max(0, budget.available - used)),
        _make_band("margin", max(0, budget.hard_limit - max(budget.available, used))),
        *_capped_bands(budget.window - budget.completion - budget.hard_limit),
        _make_band("completion", budget.completion),
    ]


def component_bands(components: Sequence[Component], *, window: int, available: int, completion: int) -> list[Band]:
    """Return the bands of a stored summary, which does not know what is pinned or capped."""
    used = sum(each.tokens for each in components)
    free = max(0, available - used)
    filled = [each for each in components if each.name != "format" and (each.tokens or each.items)]
    return [
        *(_make_band(each.name, each.tokens, each.items) for each in sorted(filled, key=_usual_order)),
        *_format_band(components),
        _make_band("free", free),
        _make_band("margin", max(0, window - completion - used - free)),
        _make_band("completion", completion),
    ]


def band_name(decision: Decision) -> str:
    """Return the name of a candidate's band: its component, or `pinned` if it is in the pinned block."""
    return "pinned" if decision.region == "pinned" else COMPONENTS.get(decision.kind, decision.kind)


def share_width(parts: Sequence[int], width: int) -> list[int]:
    """Divide a width among parts in proportion, in whole cells. A part that is not empty gets at least one if possible.

    >>> share_width([1, 5_000, 4_999, 0], 20)
    [1, 10, 9, 0]
    """
    whole = sum(parts)
    if not whole:
        return [0 for _ in parts]
    shares = [part * width / whole for part in parts]
    cells = [max(1, int(share)) if part else 0 for part, share in zip(parts, shares, strict=True)]
    while sum(cells) > width:  # take what was rounded up from the widest
        cells[cells.index(max(cells))] -= 1
    while sum(cells) < width:  # give what was rounded down to the part that lost most
        lost = [share - cell if part else -1.0 for part, share, cell in zip(parts, shares, cells, strict=True)]
        cells[lost.index(max(lost))] += 1
    return cells


def _band_sizes(context: Context) -> dict[str, _Size]:
    """Return tokens and items of each component that is not empty, with the pinned items taken out of it."""
    costs, pinned_costs, items, pinned = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for decision in context.decisions:
        if decision.included:
            component = COMPONENTS.get(decision.kind, decision.kind)
            costs[component] += decision.cost
            items[component] += 1
            if decision.region == "pinned":
                pinned_costs[component] += decision.cost
                pinned[component] += 1
    sizes: dict[str, _Size] = {}
    pinned_size = (0, 0)
    for each in context.components:
        taken = each.tokens * pinned_costs[each.name] // costs[each.name] if costs[each.name] else 0
        pinned_size = (pinned_size[0] + taken, pinned_size[1] + pinned[each.name])
        sizes[each.name] = (each.tokens - taken, each.items - pinned[each.name])
    sizes["pinned"] = pinned_size
    return {name: size for name, size in sizes.items() if size != (0, 0) and name != "format"}


def _first_positions(context: Context) -> Callable[[str], int]:
    """Return a function that tells where the first item of a band is in the request."""
    first: dict[str, int] = {}
    for decision in context.decisions:
        if decision.position is not None:
            name = band_name(decision)
            first[name] = min(first.get(name, decision.position), decision.position)
    return lambda name: first.get(name, len(context.decisions))


def _usual_order(component: Component) -> tuple[int, str]:
    name = component.name
    return (_ORDER.index(name), "") if name in _ORDER else (_ORDER.index("notes") - 1, name)


def _format_band(components: Iterable[Component]) -> Iterator[Band]:
    yield from (_make_band(each.name, each.tokens) for each in components if each.name == "format" and each.tokens)


def _capped_bands(tokens: int) -> Iterator[Band]:
    if tokens > 0:
        yield _make_band("capped", tokens)


def _make_band(name: str, tokens: int, items: int = 0) -> Band:
    return Band(name=name, title=_TITLES.get(name) or component_title(name), tokens=tokens, items=items)


def window_html(context: Context) -> str:
    """Return a context as HTML: the window as a bar, the size of each part, what nearly got in, and the warnings."""
    return "".join(
        [
            f"<div class='brimful'><style>{_style()}</style>",
            *_heading(context),
            *_bar(context),
            *_table(context),
            *_left_out(context),
            *_warnings(context),
            "</div>",
        ]
    )


def _style() -> str:
    light = ";".join([_LIGHT, *(f"--{name}:{colours[0]}" for name, colours in _COLORS.items())])
    dark = ";".join([_DARK, *(f"--{name}:{colours[1]}" for name, colours in _COLORS.items())])
    return (
        f"{_LAYOUT}\n.brimful{{{light}}}\n@media (prefers-color-scheme:dark){{.brimful{{{dark}}}}}\n"
        f"{','.join(_LIGHT_SELECTORS)}{{{light}}}\n{','.join(_DARK_SELECTORS)}{{{dark}}}"
    )


def _heading(context: Context) -> Iterator[str]:
    budget = context.budget
    yield f"<div><b>{escape(budget.model)}</b> <span class='dim'>· policy {escape(budget.policy)} · </span>"
    yield f"<b>{context.tokens:,}</b> of {budget.available:,} tokens ({context.percent:.1f}%)"
    yield f"<span class='dim'> · {context.remaining:,} remaining · {escape(context.id)}</span></div>"


def _bar(context: Context) -> Iterator[str]:
    """Draw the bands to scale: a thousandth of the window is one unit."""
    window, x = context.budget.window, 0
    label = f"{context.tokens:,} of {window:,} tokens"
    yield f"<svg viewBox='0 0 1000 34' preserveAspectRatio='none' role='img' aria-label='{label}'>"
    for band in window_bands(context):
        if band.tokens:
            left, right = 1000 * x / window, 1000 * (x + band.tokens) / window
            yield f"<rect x='{left:.2f}' y='0' width='{right - left:.2f}' height='34' fill='{_band_color(band)}'>"
            yield f"<title>{escape(band.title)}: {_amount(band)}</title></rect>"
        x += band.tokens
    yield "</svg>"


def _table(context: Context) -> Iterator[str]:
    yield "<table>"
    for band in window_bands(context):
        if band.tokens:
            share = "" if band.name in _RESERVED else f"{100 * band.tokens / max(1, context.budget.available):.1f}%"
            yield f"<tr><td><i style='background:{_band_color(band)}'></i>{escape(band.title)}</td>"
            yield f"<td class='n'>{band.tokens:,}</td><td class='n'>{share}</td>"
            yield f"<td class='dim'>{_items(band)}</td></tr>"
    yield "</table>"


def _left_out(context: Context) -> Iterator[str]:
    counts = ", ".join(f"{count:,} {outcome}" for outcome, count in count_outcomes(context))
    yield f"<p><span class='dim'>Candidates:</span> {counts}</p>"
    nearest = [_excluded_item(context, decision) for decision in islice(excluded_decisions(context), _NEAREST)]
    if nearest:
        yield f"<p class='dim'>Left out, nearest to the cut first:</p><ul>{''.join(nearest)}</ul>"


def _excluded_item(context: Context, decision: Decision) -> str:
    id = decision.id if len(decision.id) <= _LONGEST else f"{decision.id[:_LONGEST]}…"
    return f"<li><code>{escape(id)}</code> {escape(describe_decision(context, decision))}</li>"


def _warnings(context: Context) -> Iterator[str]:
    if context.warnings:
        yield f"<p><b>Warnings</b></p><ul>{''.join(f'<li>{escape(each.text)}</li>' for each in context.warnings)}</ul>"


def _band_color(band: Band) -> str:
    return f"var(--{band.name if band.name in _COLORS else 'other'})"


def _amount(band: Band) -> str:
    items = _items(band)
    return f"{band.tokens:,} tokens{f', {items}' if items else ''}"


def _items(band: Band) -> str:
    return escape(format_items(band.name, band.items)) if band.items else ""
