"""Days, months and years of a room, and sets of positions stored as spans."""

import calendar
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final, Literal

import msgspec

from brimful.core.decision import SECONDS_PER_DAY
from brimful.core.labels import iso_date
from brimful.records.runs import MessagePosition

Span = tuple[int, int]
Spans = tuple[Span, ...]
UNDATED: Final = "undated"
_UNDATED_BATCH: Final = 1_000  # messages without a time that count as a day
MONTH_ROLL_UP_DAYS: Final = 31.0  # after the end of a month, when single days no longer matter
YEAR_ROLL_UP_DAYS: Final = 366.0  # after the end of a year, when single months no longer matter
_MONTH_CHARS: Final = len("2026-11")
_YEAR_CHARS: Final = len("2026")


def make_spans(positions: Iterable[int]) -> Spans:
    """Return the spans that cover exactly these positions.

    >>> make_spans([7, 3, 4, 5])
    ((3, 5), (7, 7))
    """
    spans: list[list[int]] = []
    for position in sorted(set(positions)):
        if spans and position == spans[-1][1] + 1:
            spans[-1][1] = position
        else:
            spans.append([position, position])
    return tuple((first, last) for first, last in spans)


def merge_spans(spans: Iterable[Span]) -> Spans:
    """Return spans in order, with adjacent and overlapping ones merged.

    >>> merge_spans([(7, 9), (1, 3), (4, 5)])
    ((1, 5), (7, 9))
    """
    merged: list[Span] = []
    for first, last in sorted(spans):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return tuple(merged)


def spans_contain(spans: Sequence[Span], position: int) -> bool:
    """Return whether a position is in one of the spans, which must be in order.

    >>> spans_contain(((3, 5), (7, 7)), 5), spans_contain(((3, 5), (7, 7)), 6)
    (True, False)
    """
    index = bisect_right(spans, (position, position))
    return any(first <= position <= last for first, last in spans[max(0, index - 1) : index + 1])


Level = Literal["family", "day", "month", "year"]
"""What a summary of the janitor covers: a flood within a day, the rest of a day, a month, or a year."""


class Day(msgspec.Struct, frozen=True):
    """A day of a room, and the positions of its messages, in order."""

    name: str
    positions: tuple[MessagePosition, ...]

    @property
    def is_purged(self) -> bool:
        """Whether some of its messages were purged, so that it cannot be summarized again."""
        return any(position.purged for position in self.positions)


def group_by_day(positions: Iterable[MessagePosition]) -> list[Day]:
    """Return the days of a room, in the order of their first messages. Messages without a time form batches."""
    days: dict[str, list[MessagePosition]] = {}
    for position in positions:
        name = iso_date(position.at) or f"{UNDATED}-{position.seq // _UNDATED_BATCH}"
        days.setdefault(name, []).append(position)
    return [Day(name, tuple(members)) for name, members in days.items()]


def month_of(day: str) -> str:
    """Return the month of a day.

    >>> month_of("2026-11-15")
    '2026-11'
    """
    return day[:_MONTH_CHARS]


def year_of(month: str) -> str:
    """Return the year of a month.

    >>> year_of("2026-11")
    '2026'
    """
    return month[:_YEAR_CHARS]


def is_past(name: str, now: float) -> bool:
    """Return whether a month or year ended long enough ago for a rollup.

    >>> is_past("2026-10", 1_794_700_000.0), is_past("2026-09", 1_794_700_000.0), is_past("undated-3", 0.0)
    (False, True, False)
    """
    if name.startswith(UNDATED):
        return False
    year, _, month = name.partition("-")
    last = int(month or 12)
    end = datetime(int(year), last, calendar.monthrange(int(year), last)[1], tzinfo=UTC).timestamp() + SECONDS_PER_DAY
    return now - end >= (MONTH_ROLL_UP_DAYS if month else YEAR_ROLL_UP_DAYS) * SECONDS_PER_DAY


def clock_time(at: float) -> str:
    """Return the time of day in UTC; empty for 0.

    >>> clock_time(1_700_000_000), clock_time(0)
    ('22:13', '')
    """
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M") if iso_date(at) else ""


def time_range(times: Iterable[float]) -> str:
    """Return the first and last time of day, for a title; empty if no time is known.

    >>> time_range([1_700_000_000, 1_700_000_100, 1_700_003_600]), time_range([0.0])
    (', 22:13–23:13', '')
    """
    known = [at for at in times if iso_date(at)]
    if not known:
        return ""
    begin, end = clock_time(min(known)), clock_time(max(known))
    return f", {begin}" if begin == end else f", {begin}–{end}"
