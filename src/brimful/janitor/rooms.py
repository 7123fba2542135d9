"""What is to be done in a room: which days are not told as they are, and which months may be told as one."""

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Final

import msgspec

from brimful.janitor.days import Day, Level, days_of, is_past, month_of, year_of
from brimful.janitor.spans import Spans, holds, joined, spans_of
from brimful.protocols.housekeeping import Place
from brimful.records import Summary

MARK: Final = "janitor"
"""The key of metadata that tells the level of a summary of the janitor's; those of others are left alone."""


class Due(msgspec.Struct, frozen=True):
    """A day that is to be told anew, and the summaries that tell it so far."""

    day: Day
    told: tuple[Summary, ...]


class Past(msgspec.Struct, frozen=True):
    """A month or a year that is to be told as one, by its name: what tells of its parts, and what those leave alone.

    Its floods are told by themselves: what they tell is set aside, and stands in no history.
    """

    name: str
    parts: tuple[Summary, ...]
    floods: tuple[Summary, ...]
    left: Spans

    @property
    def told(self) -> tuple[Summary, ...]:
        """All that tells of it so far."""
        return self.parts + self.floods


def own(summaries: Iterable[Summary]) -> list[Summary]:
    """Return the janitor's own summaries."""
    return [summary for summary in summaries if MARK in summary.metadata]


def level_of(summary: Summary) -> Level:
    """Return what one of the janitor's summaries stands for."""
    level: Level = summary.metadata[MARK]
    return level


def is_rolled_up(summary: Summary) -> bool:
    """Say whether one of the janitor's summaries tells of a month or of a year."""
    return _of(summary) == month_of(_of(summary))


def beside(summary: Summary) -> Spans:
    """Return places that a summary knows of and leaves alone, since what stands there is pinned."""
    return tuple((first, last) for first, last in summary.metadata.get("beside", ()))


def coverable(places: Sequence[Place]) -> Sequence[Place]:
    """Return what may be covered: all but the newest, which may be what is to be answered."""
    return places[:-1]


def due(places: Sequence[Place], summaries: Sequence[Summary]) -> list[Due]:
    """Return the days of which something is not told, or told other than it is now.

    A month that does not tell what it should is taken apart: all of its days are due. What was purged cannot be told
    anew, so a day or a month with something of it stays as it is.
    """
    days = days_of(coverable(places))
    told: dict[str, list[Summary]] = {}
    for summary in own(summaries):
        told.setdefault(_of(summary), []).append(summary)
    periods: dict[str, list[Day]] = {name: [] for name in told}
    for day in days:
        periods.setdefault(next((name for name in _names(day.name) if name in told), day.name), []).append(day)
    return [
        Due(day, tuple(told.get(name, ())))
        for name, members in periods.items()
        if not any(day.gone for day in members) and not _is_told(members, told.get(name, ()))
        for day in members or [Day(name, ())]
    ]


def _names(day: str) -> tuple[str, str, str]:
    """Return under which names a day may be told, the longest first."""
    return year_of(month_of(day)), month_of(day), day


def _is_told(days: Sequence[Day], told: Sequence[Summary]) -> bool:
    """Say whether summaries tell of days exactly as they are: of each place, of no other, and of no older text."""
    places = [place for day in days for place in day.places]
    known = joined(span for each in told for span in (*each.spans, *beside(each)))
    if not told or known != spans_of(place.seq for place in places):
        return False
    made = min(float(each.metadata.get("made", 0.0)) for each in told)
    if any(place.edited is not None and place.edited > made for place in places):
        return False
    floods = joined(span for each in told if level_of(each) == "family" for span in each.spans)
    return all(place.aside for place in places if holds(floods, place.seq))


def rolled_up(places: Sequence[Place], summaries: Sequence[Summary], now: float) -> list[Past]:
    """Return the months, or else the years, that lie far back and are still told part by part."""
    made = sorted(own(summaries), key=lambda summary: (_of(summary), summary.id))
    days = [each for each in made if not is_rolled_up(each)]
    months = [each for each in made if is_rolled_up(each) and _of(each) != year_of(_of(each))]
    return _past(places, days, month_of, now) or _past(places, months, year_of, now)


def _of(summary: Summary) -> str:
    """Return the name of the day, the month or the year that a summary is of."""
    name: str = summary.metadata["of"]
    return name


def _past(places: Sequence[Place], told: Sequence[Summary], name_of: Callable[[str], str], now: float) -> list[Past]:
    found = groupby(told, key=lambda each: name_of(_of(each)))
    past = [(name, tuple(members)) for name, members in found if is_past(name, now)]
    days = days_of(coverable(places)) if past else []
    return [_parted(name, members, _left(name, days, members)) for name, members in past]


def _parted(name: str, told: Sequence[Summary], left: Spans) -> Past:
    floods = tuple(each for each in told if level_of(each) == "family")
    return Past(name, tuple(each for each in told if level_of(each) != "family"), floods, left)


def _left(name: str, days: Sequence[Day], parts: Sequence[Summary]) -> Spans:
    """Return the places of a month or a year that its parts leave alone."""
    covered = joined(span for part in parts for span in part.spans)
    inside = (place.seq for day in days if day.name.startswith(f"{name}-") for place in day.places)
    return spans_of(seq for seq in inside if not holds(covered, seq))
