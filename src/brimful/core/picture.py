"""A context's window as a picture: HTML for notebooks, without scripts, in light and dark.

Whatever comes from a context is escaped: it may hold anything.
"""

from collections.abc import Iterator
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Final

from brimful.core.bands import Band, window_bands
from brimful.core.decision import Decision
from brimful.core.explain import count_outcomes, describe_decision, format_items
from brimful.core.sections import excluded_decisions

if TYPE_CHECKING:
    from brimful.core.context import Context

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
"""A colour for light paper and one for dark, of each band."""

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
_DARK_PLACES: Final = (
    '[data-jp-theme-light="false"] .brimful',
    ".vscode-dark .brimful",
    '[data-theme="dark"] .brimful',
)
"""Where a notebook says itself that it is dark, whatever the system says."""
_LIGHT_PLACES: Final = (
    '[data-jp-theme-light="true"] .brimful',
    ".vscode-light .brimful",
    '[data-theme="light"] .brimful',
)


def window_html(context: "Context") -> str:
    """Draw a context: its window as a bar, what each part of it takes, what nearly got in, and what to worry about."""
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
        f"{','.join(_LIGHT_PLACES)}{{{light}}}\n{','.join(_DARK_PLACES)}{{{dark}}}"
    )


def _heading(context: "Context") -> Iterator[str]:
    budget = context.budget
    yield f"<div><b>{escape(budget.model)}</b> <span class='dim'>· policy {escape(budget.policy)} · </span>"
    yield f"<b>{context.tokens:,}</b> of {budget.window:,} tokens ({context.percent:.1f}%)"
    yield f"<span class='dim'> · {context.remaining:,} remaining · {escape(context.id)}</span></div>"


def _bar(context: "Context") -> Iterator[str]:
    """Draw the bands, each as wide as it is: a thousandth of the window is one unit."""
    window, x = context.budget.window, 0
    said = f"{context.tokens:,} of {window:,} tokens"
    yield f"<svg viewBox='0 0 1000 34' preserveAspectRatio='none' role='img' aria-label='{said}'>"
    for band in window_bands(context):
        if band.tokens:
            left, right = 1000 * x / window, 1000 * (x + band.tokens) / window
            yield f"<rect x='{left:.2f}' y='0' width='{right - left:.2f}' height='34' fill='{_band_color(band)}'>"
            yield f"<title>{escape(band.title)}: {_amount(band)}</title></rect>"
        x += band.tokens
    yield "</svg>"


def _table(context: "Context") -> Iterator[str]:
    yield "<table>"
    for band in window_bands(context):
        if band.tokens:
            share = f"{100 * band.tokens / context.budget.window:.1f}%"
            yield f"<tr><td><i style='background:{_band_color(band)}'></i>{escape(band.title)}</td>"
            yield f"<td class='n'>{band.tokens:,}</td><td class='n'>{share}</td>"
            yield f"<td class='dim'>{_items(band)}</td></tr>"
    yield "</table>"


def _left_out(context: "Context") -> Iterator[str]:
    counts = ", ".join(f"{count:,} {outcome}" for outcome, count in count_outcomes(context))
    yield f"<p><span class='dim'>Candidates:</span> {counts}</p>"
    nearest = [_excluded_item(context, decision) for decision in islice(excluded_decisions(context), _NEAREST)]
    if nearest:
        yield f"<p class='dim'>Left out, the nearest to the cut first:</p><ul>{''.join(nearest)}</ul>"


def _excluded_item(context: "Context", decision: Decision) -> str:
    id = decision.id if len(decision.id) <= _LONGEST else f"{decision.id[:_LONGEST]}…"
    return f"<li><code>{escape(id)}</code> {escape(describe_decision(context, decision))}</li>"


def _warnings(context: "Context") -> Iterator[str]:
    if context.warnings:
        yield f"<p><b>Warnings</b></p><ul>{''.join(f'<li>{escape(each)}</li>' for each in context.warnings)}</ul>"


def _band_color(band: Band) -> str:
    return f"var(--{band.name if band.name in _COLORS else 'other'})"


def _amount(band: Band) -> str:
    items = _items(band)
    return f"{band.tokens:,} tokens{f', {items}' if items else ''}"


def _items(band: Band) -> str:
    return escape(format_items(band.name, band.items)) if band.items else ""
