"""What is due in a room: days whose summaries are missing or outdated, and months and years to roll up."""

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Final

import msgspec

from brimful.janitor.days import (
    Day,
    Level,
    Spans,
    group_by_day,
    is_past,
    make_spans,
    merge_spans,
    month_of,
    spans_contain,
    year_of,
)
from brimful.records import Summary
from brimful.records.janitor import MessagePosition

LEVEL_KEY: Final = "janitor"
"""The key of metadata that tells the level of a summary of the janitor's; those of others are left alone."""


class DueDay(msgspec.Struct, frozen=True):
    """A day that is to be told anew, and the summaries that tell it so far."""

    day: Day
    told: tuple[Summary, ...]


class RollUp(msgspec.Struct, frozen=True):
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


def janitor_summaries(summaries: Iterable[Summary]) -> list[Summary]:
    """Return the janitor's own summaries."""
    return [summary for summary in summaries if LEVEL_KEY in summary.metadata]


def summary_level(summary: Summary) -> Level:
    """Return what one of the janitor's summaries stands for."""
    level: Level = summary.metadata[LEVEL_KEY]
    return level


def is_roll_up(summary: Summary) -> bool:
    """Say whether one of the janitor's summaries tells of a month or of a year."""
    return _period(summary) == month_of(_period(summary))


def skipped_spans(summary: Summary) -> Spans:
    """Return places that a summary knows of and leaves alone, since what stands there is pinned."""
    return tuple((first, last) for first, last in summary.metadata.get("beside", ()))


def summarizable(places: Sequence[MessagePosition]) -> Sequence[MessagePosition]:
    """Return what may be covered: all but the newest, which may be what is to be answered."""
    return places[:-1]


def find_due_days(places: Sequence[MessagePosition], summaries: Sequence[Summary]) -> list[DueDay]:
    """Return the days of which something is not told, or told other than it is now.

    A month that does not tell what it should is taken apart: all of its days are due. What was purged cannot be told
    anew, so a day or a month with something of it stays as it is.
    """
    days = group_by_day(summarizable(places))
    told: dict[str, list[Summary]] = {}
    for summary in janitor_summaries(summaries):
        told.setdefault(_period(summary), []).append(summary)
    periods: dict[str, list[Day]] = {name: [] for name in told}
    for day in days:
        periods.setdefault(next((name for name in _period_names(day.name) if name in told), day.name), []).append(day)
    return [
        DueDay(day, tuple(told.get(name, ())))
        for name, members in periods.items()
        if not any(day.gone for day in members) and not _is_up_to_date(members, told.get(name, ()))
        for day in members or [Day(name, ())]
    ]


def _period_names(day: str) -> tuple[str, str, str]:
    """Return under which names a day may be told, the longest first."""
    return year_of(month_of(day)), month_of(day), day


def _is_up_to_date(days: Sequence[Day], told: Sequence[Summary]) -> bool:
    """Say whether summaries tell of days exactly as they are: of each place, of no other, and of no older text."""
    places = [place for day in days for place in day.places]
    known = merge_spans(span for each in told for span in (*each.spans, *skipped_spans(each)))
    if not told or known != make_spans(place.seq for place in places):
        return False
    made = min(float(each.metadata.get("made", 0.0)) for each in told)
    if any(place.edited is not None and place.edited > made for place in places):
        return False
    floods = merge_spans(span for each in told if summary_level(each) == "family" for span in each.spans)
    return all(place.aside for place in places if spans_contain(floods, place.seq))


def find_roll_ups(places: Sequence[MessagePosition], summaries: Sequence[Summary], now: float) -> list[RollUp]:
    """Return the months, or else the years, that lie far back and are still told part by part."""
    made = sorted(janitor_summaries(summaries), key=lambda summary: (_period(summary), summary.id))
    days = [each for each in made if not is_roll_up(each)]
    months = [each for each in made if is_roll_up(each) and _period(each) != year_of(_period(each))]
    return _due_periods(places, days, month_of, now) or _due_periods(places, months, year_of, now)


def _period(summary: Summary) -> str:
    """Return the name of the day, the month or the year that a summary is of."""
    name: str = summary.metadata["of"]
    return name


def _due_periods(
    places: Sequence[MessagePosition], told: Sequence[Summary], name_of: Callable[[str], str], now: float
) -> list[RollUp]:
    found = groupby(told, key=lambda each: name_of(_period(each)))
    past = [(name, tuple(members)) for name, members in found if is_past(name, now)]
    days = group_by_day(summarizable(places)) if past else []
    return [_make_roll_up(name, members, _uncovered_spans(name, days, members)) for name, members in past]


def _make_roll_up(name: str, told: Sequence[Summary], left: Spans) -> RollUp:
    floods = tuple(each for each in told if summary_level(each) == "family")
    return RollUp(name, tuple(each for each in told if summary_level(each) != "family"), floods, left)


def _uncovered_spans(name: str, days: Sequence[Day], parts: Sequence[Summary]) -> Spans:
    """Return the places of a month or a year that its parts leave alone."""
    covered = merge_spans(span for part in parts for span in part.spans)
    inside = (place.seq for day in days if day.name.startswith(f"{name}-") for place in day.places)
    return make_spans(seq for seq in inside if not spans_contain(covered, seq))
