"""Limits of what API keys and users may use of models in a minute, a day and a month, and what they have used."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, Literal, get_args

import msgspec

from brimful.core.validation import MAX_INTEGER, is_whole_number, preview, to_finite_float
from brimful.errors import InvalidValue
from brimful.records.own_calls import NANODOLLARS, SECONDS_PER_DAY

LimitedKind = Literal["key", "user"]
"""Who a limit is for: the requests of an API key, or those that name a user."""
Period = Literal["minute", "day", "month"]
"""A minute, a day or a month of the calendar, in UTC."""
PERIODS: Final[tuple[Period, ...]] = get_args(Period)
Unit = Literal["requests", "tokens", "dollars"]
LimitName = Literal[
    "requests_per_minute",
    "tokens_per_minute",
    "tokens_per_day",
    "dollars_per_day",
    "tokens_per_month",
    "dollars_per_month",
]
LIMIT_NAMES: Final[tuple[LimitName, ...]] = get_args(LimitName)
LimitChanges = Mapping[LimitName, float | None]
"""Limits of one key or user in place of the defaults. None means no limit; a missing field stays at the default."""
_SECONDS_PER_MINUTE: Final = 60
_MAX_DOLLARS: Final = 1_000_000_000
_MAX_TIME: Final = 250_000_000_000.0  # seconds: about the year 9892, within what a datetime holds


class UsageLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much an API key or a user may use in a minute, a day and a month. None: no limit.

    >>> UsageLimits(dollars_per_day=5).ceilings("user", "ada", 86_400.5)[0].nanodollars
    5000000000
    """

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    tokens_per_day: int | None = None
    dollars_per_day: float | None = None
    tokens_per_month: int | None = None
    dollars_per_month: float | None = None

    def __post_init__(self) -> None:
        for name in LIMIT_NAMES:
            _check_limit(name, getattr(self, name))

    def __bool__(self) -> bool:
        """Whether there is a limit."""
        return any(getattr(self, name) is not None for name in LIMIT_NAMES)

    def overridden(self, changes: LimitChanges) -> "UsageLimits":
        """Return these limits with some others in their place."""
        return msgspec.structs.replace(self, **{str(name): value for name, value in changes.items()})

    def ceilings(self, kind: LimitedKind, name: str, at: float) -> tuple["Ceiling", ...]:
        """Return the limits of the periods that a time is in, for a key or a user."""
        found = (
            Ceiling(
                kind=kind,
                name=name,
                period=period,
                start=period_start(period, at),
                requests=getattr(self, f"requests_per_{period}", None),
                tokens=getattr(self, f"tokens_per_{period}", None),
                nanodollars=to_nanodollars(getattr(self, f"dollars_per_{period}", None)),
            )
            for period in PERIODS
        )
        return tuple(each for each in found if each)


def check_changes(changes: LimitChanges) -> None:
    """Raise if a value is not a limit, or the name of none."""
    for name, value in changes.items():
        if name not in LIMIT_NAMES:
            raise InvalidValue("limits", f"there is no limit {preview(name)}; limits are {', '.join(LIMIT_NAMES)}")
        _check_limit(name, value)


def _check_limit(name: LimitName, value: float | None) -> None:
    if value is None:
        return
    least = 1 if name.endswith("minute") else 0
    if name.startswith("dollars"):
        amount = to_finite_float(value)
        if amount is None or not least <= amount <= _MAX_DOLLARS:
            raise InvalidValue(name, f"must be an amount of US dollars from 0, not {preview(value)}")
    elif not (is_whole_number(value, least) and value <= MAX_INTEGER):
        raise InvalidValue(name, f"must be a whole number from {least}, not {preview(value)}")


def to_nanodollars(dollars: float | None) -> int | None:
    """Return dollars as a whole number, as they are stored."""
    return None if dollars is None else round(dollars * NANODOLLARS)


class Amount(msgspec.Struct, frozen=True, kw_only=True):
    """What requests use: their number, their tokens, and their price in billionths of a dollar."""

    requests: int = 0
    tokens: int = 0
    nanodollars: int = 0


class Ceiling(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a key or a user in one period, which begins at `start`. None: no limit."""

    kind: LimitedKind
    name: str
    period: Period
    start: int
    requests: int | None = None
    tokens: int | None = None
    nanodollars: int | None = None

    def __bool__(self) -> bool:
        """Whether there is a limit."""
        return (self.requests, self.tokens, self.nanodollars) != (None, None, None)

    @property
    def end(self) -> int:
        """When the next period begins."""
        return period_end(self.period, self.start)

    def find_exceeded(self, used: Amount, amount: Amount) -> Unit | None:
        """Return the unit in which an amount and the usage so far exceed the limit.

        >>> Ceiling(kind="user", name="ada", period="day", start=0, tokens=10).find_exceeded(
        ...     Amount(tokens=8), Amount(tokens=3)
        ... )
        'tokens'
        """
        if self.requests is not None and used.requests + amount.requests > self.requests:
            return "requests"
        if self.tokens is not None and used.tokens + amount.tokens > self.tokens:
            return "tokens"
        if self.nanodollars is not None and used.nanodollars + amount.nanodollars > self.nanodollars:
            return "dollars"
        return None


class PeriodUsage(Amount, frozen=True, kw_only=True):
    """What was used in a period, with what requests under way have reserved."""

    reserved_tokens: int = 0
    reserved_nanodollars: int = 0


class OwnLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits that were set for one key or user. The name of a user who was removed is empty."""

    kind: LimitedKind
    name: str
    limits: dict[LimitName, float | None]


class Used(msgspec.Struct, frozen=True, kw_only=True):
    """What was used in a period."""

    requests: int
    tokens: int
    dollars: float


class LimitsInUse(OwnLimits, frozen=True, kw_only=True):
    """The limits of one key or user, and their usage in the current minute, day and month, if known."""

    used: dict[Period, Used]


def period_start(period: Period, at: float) -> int:
    """Return when the period of a time began, in UTC.

    >>> [period_start(period, 1_700_000_000.5) for period in PERIODS]
    [1699999980, 1699920000, 1698796800]
    """
    at = max(0.0, min(_MAX_TIME, at))
    if period == "month":
        first = datetime.fromtimestamp(at, UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        return int(first.timestamp())
    seconds = _SECONDS_PER_MINUTE if period == "minute" else SECONDS_PER_DAY
    return int(at // seconds) * seconds


def period_end(period: Period, start: int) -> int:
    """Return when the period ends that begins at a time.

    >>> period_end("month", 1_698_796_800) - 1_698_796_800 == 30 * 86_400
    True
    """
    match period:
        case "minute":
            return start + _SECONDS_PER_MINUTE
        case "day":
            return start + SECONDS_PER_DAY
        case "month":
            return period_start("month", start + 32 * SECONDS_PER_DAY)  # no month is longer
