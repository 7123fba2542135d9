"""Numbers as people read them, and tables in Markdown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from isolated import Failure


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page: what was measured, the tables that came out, and the figures (SVG) by file name."""

    title: str
    about: str
    tables: tuple[str, ...]
    figures: Mapping[str, str] = field(default_factory=dict)

    def markdown(self) -> str:
        """Return the section as it stands on the page."""
        return "\n\n".join([f"## {self.title}", self.about, *self.tables])


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, words: int = 1) -> str:
    """Return a table: the first columns hold words, the others numbers, aligned to the right.

    >>> print(table(["way", "ms"], [["a", "1"]]))
    | way | ms |
    |---|--:|
    | a | 1 |
    """
    rule = ["---" if at < words else "--:" for at in range(len(head))]
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "|".join(rule) + "|", *map(_row, rows)])


def duration(seconds: float | Failure | None) -> str:
    """Return a time with a unit that suits it.

    >>> duration(0.00042), duration(0.0213), duration(2.5), duration(Failure("panics"))
    ('0.42 ms', '21.3 ms', '2.50 s', 'panics')
    """
    match seconds:
        case None:
            return "–"
        case Failure():
            return seconds.reason
        case _ if seconds >= 1:
            return f"{seconds:.2f} s"
        case _ if seconds >= 0.01:
            return f"{seconds * 1e3:.1f} ms"
        case _:
            return f"{seconds * 1e3:.2f} ms"


def times(ratio: float) -> str:
    """Return a ratio.

    >>> times(0.314), times(2.71828), times(314.15)
    ('0.31 ×', '2.7 ×', '314 ×')
    """
    if ratio < 1:
        return f"{ratio:.2f} ×"
    return f"{ratio:.1f} ×" if ratio < 100 else f"{ratio:,.0f} ×"


def percent(share: float) -> str:
    """Return a share.

    >>> percent(0.9876)
    '98.8 %'
    """
    return f"{100 * share:.1f} %"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
