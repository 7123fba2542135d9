"""Work that is due in a room: days whose summaries are missing or outdated, and months and years to roll up."""

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
from brimful.records.runs import MessagePosition

LEVEL_KEY: Final = "janitor"
"""The metadata key with the level of a janitor's summary. Summaries without it are not the janitor's."""


class DueDay(msgspec.Struct, frozen=True):
    """A day that needs a new summary, and its summaries so far."""

    day: Day
    summaries: tuple[Summary, ...]


class RollUp(msgspec.Struct, frozen=True):
    """A month or year that gets one summary instead of one for each part.

    Floods are rolled up separately, since their messages are archived. `skipped` are positions that no part covers.
    """

    name: str
    parts: tuple[Summary, ...]
    floods: tuple[Summary, ...]
    skipped: Spans

    @property
    def summaries(self) -> tuple[Summary, ...]:
        """All summaries that the new ones replace."""
        return self.parts + self.floods


def janitor_summaries(summaries: Iterable[Summary]) -> list[Summary]:
    """Return the summaries that the janitor wrote."""
    return [summary for summary in summaries if LEVEL_KEY in summary.metadata]


def summary_level(summary: Summary) -> Level:
    """Return the level of a janitor's summary."""
    level: Level = summary.metadata[LEVEL_KEY]
    return level


def is_roll_up(summary: Summary) -> bool:
    """Return whether a janitor's summary covers a month or a year."""
    return _period(summary) == month_of(_period(summary))


def skipped_spans(summary: Summary) -> Spans:
    """Return the positions within a summary's period that it does not cover, since they are pinned or hidden."""
    return tuple((first, last) for first, last in summary.metadata.get("skipped", ()))


def summarizable(positions: Sequence[MessagePosition]) -> Sequence[MessagePosition]:
    """Return all positions but the newest, which may be waiting for a reply."""
    return positions[:-1]


def find_due_days(positions: Sequence[MessagePosition], summaries: Sequence[Summary]) -> list[DueDay]:
    """Return the days whose summaries are missing or outdated.

    If the summary of a month is outdated, all of its days are due. Purged messages cannot be summarized again, so a day
    or month with purged messages is never due.
    """
    days = group_by_day(summarizable(positions))
    by_period: dict[str, list[Summary]] = {}
    for summary in janitor_summaries(summaries):
        by_period.setdefault(_period(summary), []).append(summary)
    periods: dict[str, list[Day]] = {name: [] for name in by_period}
    for day in days:
        period = next(
            (name for name in (year_of(month_of(day.name)), month_of(day.name)) if name in by_period), day.name
        )
        periods.setdefault(period, []).append(day)
    return [
        DueDay(day, tuple(by_period.get(name, ())))
        for name, members in periods.items()
        if not any(day.is_purged for day in members) and not _is_up_to_date(members, by_period.get(name, ()))
        for day in members or [Day(name, ())]
    ]


def _is_up_to_date(days: Sequence[Day], summaries: Sequence[Summary]) -> bool:
    """Return whether summaries cover exactly these days, and are newer than any edit."""
    positions = [position for day in days for position in day.positions]
    known = merge_spans(span for each in summaries for span in (*each.spans, *skipped_spans(each)))
    if not summaries or known != make_spans(position.seq for position in positions):
        return False
    made = min(float(each.metadata.get("made", 0.0)) for each in summaries)
    if any(position.edited is not None and position.edited > made for position in positions):
        return False
    floods = merge_spans(span for each in summaries if summary_level(each) == "family" for span in each.spans)
    return all(position.archived for position in positions if spans_contain(floods, position.seq))


def find_roll_ups(positions: Sequence[MessagePosition], summaries: Sequence[Summary], now: float) -> list[RollUp]:
    """Return the months, or else the years, that are long past and not rolled up yet."""
    made = sorted(janitor_summaries(summaries), key=lambda summary: (_period(summary), summary.id))
    days = [each for each in made if not is_roll_up(each)]
    months = [each for each in made if is_roll_up(each) and _period(each) != year_of(_period(each))]
    return _due_periods(positions, days, month_of, now) or _due_periods(positions, months, year_of, now)


def _period(summary: Summary) -> str:
    """Return the name of the day, month or year that a summary covers."""
    name: str = summary.metadata["period"]
    return name


def _due_periods(
    positions: Sequence[MessagePosition], summaries: Sequence[Summary], name_of: Callable[[str], str], now: float
) -> list[RollUp]:
    groups = groupby(summaries, key=lambda each: name_of(_period(each)))
    past = [(name, tuple(members)) for name, members in groups if is_past(name, now)]
    days = group_by_day(summarizable(positions)) if past else []
    return [_make_roll_up(name, members, _uncovered_spans(name, days, members)) for name, members in past]


def _make_roll_up(name: str, summaries: Sequence[Summary], skipped: Spans) -> RollUp:
    floods = tuple(each for each in summaries if summary_level(each) == "family")
    return RollUp(name, tuple(each for each in summaries if summary_level(each) != "family"), floods, skipped)


def _uncovered_spans(name: str, days: Sequence[Day], parts: Sequence[Summary]) -> Spans:
    """Return the positions of a month or year that its parts do not cover."""
    covered = merge_spans(span for part in parts for span in part.spans)
    inside = (position.seq for day in days if day.name.startswith(f"{name}-") for position in day.positions)
    return make_spans(seq for seq in inside if not spans_contain(covered, seq))
