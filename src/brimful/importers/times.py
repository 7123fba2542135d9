"""When something was said, as other programs write it → seconds since 1970. Without a zone, it is UTC."""

import re
from datetime import UTC, datetime
from typing import Final

from brimful.core import check

_MILLISECONDS: Final = 1e11  # a larger number is no time in seconds: it would be the year 5138
# SillyTavern writes three forms of its own (public/scripts/utils.js, parseTimestamp), in whatever zone it ran:
# `2024-7-12@01h31m37s`, `2024-6-5 @14h 56m 50s 682ms` and `June 19, 2023 2:20pm`.
_TAVERN: Final = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2}) ?@(\d{1,2})h ?(\d{1,2})m ?(\d{1,2})s(?: ?(\d{1,3})ms)?")
_SPOKEN: Final = re.compile(r"([A-Za-z]+) (\d{1,2}), (\d{4}) (\d{1,2}):(\d{2}) ?([ap]m)", re.IGNORECASE)
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NOON: Final = 12


def seconds(value: object) -> float | None:
    """Return a time in seconds since 1970; None for what cannot be read as one.

    >>> seconds(1700000000), seconds(1700000000000), seconds("2023-11-14T22:13:20"), seconds("soon")
    (1700000000.0, 1700000000.0, 1700000000.0, None)
    >>> seconds("2023-11-14@22h13m20s"), seconds("November 14, 2023 10:13pm"), seconds("1700000000.000100")
    (1700000000.0, 1699999980.0, 1700000000.0001)
    """
    if isinstance(value, str):
        return _of_text(value.strip())
    number = check.finite(value)
    if number is None:
        return None
    return number / 1000 if abs(number) > _MILLISECONDS else number


def _of_text(text: str) -> float | None:
    if re.fullmatch(r"\d{1,20}(\.\d{1,9})?", text):
        return seconds(float(text))
    try:
        moment = _tavern(text) or datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def _tavern(text: str) -> datetime | None:
    if found := _TAVERN.match(text):
        *whole, thousandths = (int(part or 0) for part in found.groups())
        year, month, day, hour, minute, second = whole
        return datetime(year, month, day, hour, minute, second, thousandths * 1000, tzinfo=UTC)
    if found := _SPOKEN.match(text):
        name, *numbers, half = found.groups()
        month = _MONTHS.index(name[:3].lower()) + 1
        day, year, hour, minute = map(int, numbers)
        hour = hour % _NOON + _NOON * (half.lower() == "pm")
        return datetime(year, month, day, hour, minute, tzinfo=UTC)
    return None
