"""Figures as people read them: one time as a report, several beside each other as a table."""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import msgspec

from brimful.cli.table import Column, Table, columns
from brimful.core.explain import shown_score, title_of
from brimful.core.warning import WarningKind
from brimful.errors import MissingExtra
from brimful.models import Spending, spending
from brimful.statistics import Grouping, Statistics

_NAMES: Final = 26  # columns for the name of a figure
_COLUMNS: Final = (
    *("contexts", "tokens", "max", "window", "memories", "warned", "answers", "cached", "error", "cost", "saved"),
)
_TROUBLES: Final[tuple[WarningKind, ...]] = ("overflowed", "margin", "nearly-full", "pins-lost", "degraded")
_USES: Final = (
    ("Average Token Usage", "mean", "{} of all windows together"),
    ("Max Token Usage", "max", "at most {} of a window"),
    ("Min Token Usage", "min", "at least {} of a window"),
)
"""The largest context need not be the one that takes the largest share of its window."""
_SPARE: Final = ("memories", "warned", "max", "error", "cached", "saved")


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """Figures, and what they cost; `unpriced` says why that is not known."""

    figures: Statistics
    spent: Spending | None
    unpriced: str = ""

    def data(self) -> dict[str, Any]:
        """Return them as plain data."""
        spent = self.spent
        return {
            **msgspec.to_builtins(self.figures),
            "cost": spent and spent.cost,
            "saved": spent and spent.saved,
            "saved_by_cache": spent and spent.saved_by_cache,
            "unpriced": spent.unpriced if spent else [each.model for each in self.figures.models],
        }


def told(figures: Statistics) -> Told:
    """Return figures with what they cost, if that can be known."""
    try:
        return Told(figures=figures, spent=spending(figures.models))
    except MissingExtra as error:
        return Told(figures=figures, spent=None, unpriced=str(error))


def report(each: Told, title: str) -> list[str]:
    """Return the lines of a report."""
    figures = each.figures
    lines = [title, "", *_use(figures)]
    for name, section in (
        ("COMPONENT BREAKDOWN (average)", _components(figures)),
        ("MEMORY RETRIEVAL", _memories(figures)),
        ("WARNINGS", _warnings(figures)),
        ("ANSWERS", _answers(figures)),
        ("COST", _cost(each)),
    ):
        lines += ["", f"{name}:", *(f"  {line}" for line in section)]
    return lines


def table(found: Sequence[Told], by: Grouping) -> Table:
    """Return figures beside each other, one a row."""
    titles: tuple[Column, ...] = columns(by, *_COLUMNS, right=_COLUMNS, spare=_SPARE)
    return Table(titles, [[each.figures.key or "–", *_row(each)] for each in found])


def percent(share: float, *, sign: bool = False) -> str:
    """Write a share for people.

    >>> percent(0.0123, sign=True), percent(1.0), percent(-0.0001, sign=True)
    ('+1.2 %', '100.0 %', '0.0 %')
    """
    rounded = round(100 * share, 1) or 0.0  # and not -0.0
    return f"{rounded:+.1f} %" if sign and rounded else f"{rounded:.1f} %"


def dollars(amount: Decimal) -> str:
    """Write an amount for people: a small one is not nothing.

    >>> dollars(Decimal("1234.567")), dollars(Decimal("0.00192")), dollars(Decimal(0))
    ('$1,234.57', '$0.0019', '$0.00')
    """
    return f"${amount:,.4f}" if 0 < abs(amount) < Decimal("0.1") else f"${amount:,.2f}"


def _use(figures: Statistics) -> Iterator[str]:
    yield _line("Total Contexts Built", f"{figures.contexts:,}")
    for name, part, of in _USES:
        tokens, share = getattr(figures.tokens, part), getattr(figures.share, part)
        yield _line(name, f"{tokens:,.0f} tokens ({of.format(percent(share))})")
    yield _line("Candidates", f"{figures.candidates:,}, of them {figures.left_out:,} left out")


def _components(figures: Statistics) -> Iterator[str]:
    for each in figures.components:
        items = f", {each.items:,.1f} items" if each.items else ""
        yield _line(title_of(each.name), f"{each.tokens:,.0f} tokens ({percent(each.share)}{items})")


def _memories(figures: Statistics) -> Iterator[str]:
    memories = figures.memories
    yield _line("Total Memories Retrieved", f"{memories.total:,}")
    yield _line("Average per Context", f"{memories.per_context:.1f}")
    types = (f"{name} ({count / memories.total:.0%})" for name, count in memories.types.items())
    yield _line("Top Memory Types", ", ".join(types) or "none")
    score = "not told" if memories.relevance is None else shown_score(memories.relevance)
    yield _line("Average Relevance Score", score)


def _warnings(figures: Statistics) -> Iterator[str]:
    counts = figures.warnings
    yield _line("Over-budget", _times(counts.get("overflowed", 0), "refused by the provider, and built again"))
    yield _line("Margin in use", _times(counts.get("margin", 0)))
    yield _line(">80% usage", _times(counts.get("nearly-full", 0)))
    if counts.get("pins-lost"):
        yield _line("Pinned, and lost", _times(counts["pins-lost"]))
    yield _line("No memories retrieved", _without_memories(counts))
    yield _line("Degraded", _times(counts.get("degraded", 0)))
    opened = f"{_times(figures.breaker_openings)}, vector search there for {percent(figures.vector_uptime)}"
    yield _line("Breaker opened", f"{opened} of contexts")
    if counts.get("unknown-model"):
        yield _line("Unknown model", _times(counts["unknown-model"]))


def _answers(figures: Statistics) -> Iterator[str]:
    answers = figures.answers
    yield _line("Answers", f"{answers.total:,}, of them {answers.reported:,} with their usage")
    if answers.reported:
        cached = f"{percent(_share(answers.cached, answers.prompt))} cached"
        expected = f"{percent(_share(answers.expected_cached, answers.prompt))} expected"
        yield _line("Prompt tokens", f"{answers.prompt:,} ({cached}, {expected})")
        yield _line("Completion tokens", f"{answers.completion:,} ({answers.reasoning:,} of them thought)")
    if answers.count_error is not None:
        yield _line("Count error", f"{percent(answers.count_error, sign=True)} against what was reported")
    if answers.seconds is not None:
        yield _line("Average time", f"{answers.seconds:.1f} s")


def _cost(each: Told) -> Iterator[str]:
    answers, spent = each.figures.answers, each.spent
    if spent is not None:
        yield _line("Cost", dollars(spent.cost))
        share = float(spent.saved / (spent.cost + spent.saved)) if spent.saved else 0.0
        yield _line("Saved", f"{dollars(spent.saved)} ({percent(share)}) against sending everything")
        yield _line("Saved by caches", dollars(spent.saved_by_cache))
        if spent.unpriced:
            yield _line("Without a price", ", ".join(spent.unpriced))
    elif answers.reported:
        yield _line("Cost", f"unknown: {each.unpriced}" if each.unpriced else "unknown: no price of these models")
    naive = each.figures.naive
    less = percent(_share(naive - each.figures.total_tokens, naive))
    yield _line("Tokens of everything", f"{naive:,}, and {each.figures.total_tokens:,} were sent ({less} less)")


def _row(each: Told) -> list[str]:
    figures, answers, spent = each.figures, each.figures.answers, each.spent
    return [
        f"{figures.contexts:,}",
        f"{figures.tokens.mean:,.0f}",
        f"{figures.tokens.max:,.0f}",
        percent(figures.share.mean),
        f"{figures.memories.per_context:.1f}",
        f"{sum(figures.warnings.get(kind, 0) for kind in _TROUBLES):,}",
        f"{answers.total:,}",
        percent(_share(answers.cached, answers.prompt)) if answers.reported else "",
        "" if answers.count_error is None else percent(answers.count_error, sign=True),
        "" if spent is None else dollars(spent.cost),
        "" if spent is None else dollars(spent.saved),
    ]


def _line(name: str, value: str) -> str:
    return f"{name + ':':<{_NAMES}}{value}"


def _times(count: int, what: str = "") -> str:
    times = "once" if count == 1 else f"{count:,} times"
    return f"{times}, {what}" if what and count else times


def _without_memories(counts: Mapping[WarningKind, int]) -> str:
    """Say how often there was no memory, and how often of that the breaker was why."""
    all, off = counts.get("no-memories", 0), counts.get("memories-off", 0)
    why = "" if not off else " (circuit breaker)" if off == all else f" (circuit breaker: {off:,})"
    return f"{_times(all)}{why}"


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
