"""Model calls that Brimful makes by itself, for summaries and the like: their daily limit and spending."""

from typing import Final, Literal, get_args

import msgspec

from brimful.core.validation import MAX_INTEGER, is_whole_number, preview, to_finite_float
from brimful.errors import InvalidValue

OwnCallKind = Literal["summary", "learn", "compact", "embed"]
"""What a call is for.

- `summary`: summaries of the janitor, and those that a policy with `ephemeral_summaries` allows.
- `learn`: memories. `compact`: what a trimmed request leaves out. `embed`: vectors of an embedder that bills tokens.
"""
OWN_CALL_KINDS: Final[tuple[OwnCallKind, ...]] = get_args(OwnCallKind)
SECONDS_PER_DAY: Final = 86_400
NANODOLLARS: Final = 1_000_000_000  # of a dollar: a token of a cheap embedder costs 20
_MAX_DOLLARS: Final = 1_000_000_000


class SpendingLimit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much a tenant's own calls may spend in a UTC day. None: no limit; 0: no calls.

    A day ends with the call that reaches the limit, so the limit is passed by at most one call.

    >>> SpendingLimit(tokens_per_day=200_000, dollars_per_day=0.5).nanodollars_per_day
    500000000
    """

    tokens_per_day: int | None = None
    dollars_per_day: float | None = None

    def __post_init__(self) -> None:
        tokens, dollars = self.tokens_per_day, self.dollars_per_day
        if tokens is not None and not (is_whole_number(tokens, 0) and tokens <= MAX_INTEGER):
            raise InvalidValue("tokens_per_day", f"must be a whole number of tokens from 0, not {preview(tokens)}")
        amount = 0.0 if dollars is None else to_finite_float(dollars)
        if amount is None or not 0 <= amount <= _MAX_DOLLARS:
            raise InvalidValue("dollars_per_day", f"must be an amount of US dollars from 0, not {preview(dollars)}")

    def __bool__(self) -> bool:
        """Whether there is a limit."""
        return self.tokens_per_day is not None or self.dollars_per_day is not None

    @property
    def nanodollars_per_day(self) -> int | None:
        """The limit in dollars as a whole number, as spending is stored."""
        return None if self.dollars_per_day is None else round(self.dollars_per_day * NANODOLLARS)


class OwnCallStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """The calls of one kind in a period, with their tokens and US dollars. `unpriced` calls have no known price."""

    kind: OwnCallKind
    calls: int = 0
    prompt: int = 0
    completion: int = 0
    dollars: float = 0.0
    unpriced: int = 0

    @property
    def tokens(self) -> int:
        """The tokens of prompts and completions."""
        return self.prompt + self.completion


class OwnSpending(msgspec.Struct, frozen=True, kw_only=True):
    """What a tenant's own calls spent in a period, by kind, and today (UTC) under the limit in force, if there is one.

    Calls under way have reserved `reserved_tokens` and `reserved_dollars` of today's limit. A call whose process was
    killed keeps its reservation until the day ends.
    """

    kinds: tuple[OwnCallStatistics, ...] = ()
    tokens_today: int = 0
    dollars_today: float = 0.0
    reserved_tokens: int = 0
    reserved_dollars: float = 0.0
    tokens_per_day: int | None = None
    dollars_per_day: float | None = None

    @property
    def calls(self) -> int:
        """The calls of all kinds."""
        return sum(each.calls for each in self.kinds)

    @property
    def tokens(self) -> int:
        """The tokens of all kinds."""
        return sum(each.tokens for each in self.kinds)

    @property
    def dollars(self) -> float:
        """The dollars of all kinds."""
        return sum(each.dollars for each in self.kinds)

    def __bool__(self) -> bool:
        """Whether there is anything to show."""
        return bool(self.kinds)


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a call may be made, and the tokens and nanodollars spent and reserved earlier that day."""

    admitted: bool
    day: int
    tokens: int = 0
    nanodollars: int = 0
    reserved_tokens: int = 0
    reserved_nanodollars: int = 0


def day_of(at: float) -> int:
    """Return the UTC day of a timestamp, counted from 1970.

    >>> day_of(86_399.9), day_of(86_400.0)
    (0, 1)
    """
    return int(max(-MAX_INTEGER, min(MAX_INTEGER, at // SECONDS_PER_DAY)))
