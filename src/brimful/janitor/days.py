"""Days, months and years of a room."""

import calendar
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final, Literal

import msgspec

from brimful.core.label import iso_date
from brimful.core.score import SECONDS_A_DAY
from brimful.protocols.housekeeping import Place

Level = Literal["family", "day", "month", "year"]
"""What a summary of the janitor stands for: a flood within a day, the rest of a day, and days and months gone by."""

UNDATED: Final = "undated"
_UNDATED_TOGETHER: Final = 1_000  # messages without a time that make a day
MONTH_RESTS: Final = 31.0  # days after which nobody asks for single days of a month
YEAR_RESTS: Final = 366.0  # … and for single months of a year
_MONTH: Final = len("2026-11")
_YEAR: Final = len("2026")


class Day(msgspec.Struct, frozen=True):
    """A day of a room, and who stands in it, in order."""

    name: str
    places: tuple[Place, ...]

    @property
    def gone(self) -> bool:
        """Whether some of it was purged, so that it cannot be told anew."""
        return any(place.gone for place in self.places)


def days_of(places: Iterable[Place]) -> list[Day]:
    """Return the days of a room, by who stands first in each. What bears no time is told by the thousand."""
    found: dict[str, list[Place]] = {}
    for place in places:
        found.setdefault(iso_date(place.at) or f"{UNDATED}-{place.seq // _UNDATED_TOGETHER}", []).append(place)
    return [Day(name, tuple(members)) for name, members in found.items()]


def month_of(day: str) -> str:
    """Return the month of a day.

    >>> month_of("2026-11-15")
    '2026-11'
    """
    return day[:_MONTH]


def year_of(month: str) -> str:
    """Return the year of a month.

    >>> year_of("2026-11")
    '2026'
    """
    return month[:_YEAR]


def is_past(name: str, now: float) -> bool:
    """Say whether a month or a year lies so far back that its parts may be told together.

    >>> is_past("2026-10", 1_794_700_000.0), is_past("2026-09", 1_794_700_000.0), is_past("undated-3", 0.0)
    (False, True, False)
    """
    if name.startswith(UNDATED):
        return False
    year, _, month = name.partition("-")
    last = int(month or 12)
    end = datetime(int(year), last, calendar.monthrange(int(year), last)[1], tzinfo=UTC).timestamp() + SECONDS_A_DAY
    return now - end >= (MONTH_RESTS if month else YEAR_RESTS) * SECONDS_A_DAY


def clock(at: float) -> str:
    """Return the time of day, in UTC; nothing where there is none.

    >>> clock(1_700_000_000), clock(0)
    ('22:13', '')
    """
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M") if iso_date(at) else ""


def hours(times: Iterable[float]) -> str:
    """Return from when to when something was said; nothing where that is not known.

    >>> hours([1_700_000_000, 1_700_000_100, 1_700_003_600]), hours([0.0])
    (', 22:13–23:13', '')
    """
    known = [at for at in times if iso_date(at)]
    if not known:
        return ""
    begin, end = clock(min(known)), clock(max(known))
    return f", {begin}" if begin == end else f", {begin}–{end}"
