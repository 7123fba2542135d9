"""Days, months and years of a room, and sets of positions stored as spans."""

import calendar
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final, Literal

import msgspec

from brimful.core.labels import iso_date
from brimful.core.score import SECONDS_PER_DAY
from brimful.records.janitor import MessagePosition

Span = tuple[int, int]
Spans = tuple[Span, ...]


def make_spans(places: Iterable[int]) -> Spans:
    """Return the spans that hold these places, and no other.

    >>> make_spans([7, 3, 4, 5])
    ((3, 5), (7, 7))
    """
    found: list[list[int]] = []
    for place in sorted(set(places)):
        if found and place == found[-1][1] + 1:
            found[-1][1] = place
        else:
            found.append([place, place])
    return tuple((first, last) for first, last in found)


def merge_spans(spans: Iterable[Span]) -> Spans:
    """Return spans in order, those that meet as one.

    >>> merge_spans([(7, 9), (1, 3), (4, 5)])
    ((1, 5), (7, 9))
    """
    found: list[Span] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return tuple(found)


def spans_contain(spans: Sequence[Span], place: int) -> bool:
    """Say whether a place stands in one of the spans, which are in order.

    >>> spans_contain(((3, 5), (7, 7)), 5), spans_contain(((3, 5), (7, 7)), 6)
    (True, False)
    """
    at = bisect_right(spans, (place, place))
    return any(first <= place <= last for first, last in spans[max(0, at - 1) : at + 1])


Level = Literal["family", "day", "month", "year"]
"""What a summary of the janitor stands for: a flood within a day, the rest of a day, and days and months gone by."""

UNDATED: Final = "undated"
_UNDATED_BATCH: Final = 1_000  # messages without a time that make a day
MONTH_ROLL_UP_DAYS: Final = 31.0  # days after which nobody asks for single days of a month
YEAR_ROLL_UP_DAYS: Final = 366.0  # … and for single months of a year
_MONTH_CHARS: Final = len("2026-11")
_YEAR_CHARS: Final = len("2026")


class Day(msgspec.Struct, frozen=True):
    """A day of a room, and who stands in it, in order."""

    name: str
    places: tuple[MessagePosition, ...]

    @property
    def gone(self) -> bool:
        """Whether some of it was purged, so that it cannot be told anew."""
        return any(place.gone for place in self.places)


def group_by_day(places: Iterable[MessagePosition]) -> list[Day]:
    """Return the days of a room, by who stands first in each. What bears no time is told by the thousand."""
    found: dict[str, list[MessagePosition]] = {}
    for place in places:
        found.setdefault(iso_date(place.at) or f"{UNDATED}-{place.seq // _UNDATED_BATCH}", []).append(place)
    return [Day(name, tuple(members)) for name, members in found.items()]


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
    """Say whether a month or a year lies so far back that its parts may be told together.

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
    """Return the time of day, in UTC; nothing where there is none.

    >>> clock_time(1_700_000_000), clock_time(0)
    ('22:13', '')
    """
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M") if iso_date(at) else ""


def time_range(times: Iterable[float]) -> str:
    """Return from when to when something was said; nothing where that is not known.

    >>> time_range([1_700_000_000, 1_700_000_100, 1_700_003_600]), time_range([0.0])
    (', 22:13–23:13', '')
    """
    known = [at for at in times if iso_date(at)]
    if not known:
        return ""
    begin, end = clock_time(min(known)), clock_time(max(known))
    return f", {begin}" if begin == end else f", {begin}–{end}"
