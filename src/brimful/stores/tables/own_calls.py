"""What the calls that Brimful makes by itself have spent, by UTC day and kind, and what calls under way may spend.

A reservation is made under a lock of the tenant, so that servers, workers and restarts share one limit.
"""

from itertools import groupby
from typing import Final

import msgspec

from brimful.core.validation import require_timestamp
from brimful.errors import InvalidValue
from brimful.records.own_calls import (
    NANODOLLARS,
    OWN_CALL_KINDS,
    OwnCallKind,
    OwnCallStatistics,
    OwnSpending,
    Reservation,
    SpendingLimit,
    day_of,
)
from brimful.stores.session import Session, validate_optional_time

_MAX_CALL: Final = 1_000_000_000_000  # tokens or nanodollars; sums stay in the range of a column
_READ: Final = """
SELECT kind, calls, prompt, completion, nanodollars, unpriced, reserved_tokens, reserved_nanodollars,
  tokens_per_day, nanodollars_per_day, day
FROM own_calls WHERE tenant = :tenant AND day >= :first AND day <= :last ORDER BY kind, day
"""
_RESERVE: Final = """
INSERT INTO own_calls (tenant, day, kind, reserved_tokens, reserved_nanodollars)
VALUES (:tenant, :day, :kind, :tokens, :nanodollars)
ON CONFLICT (tenant, day, kind) DO UPDATE SET
  reserved_tokens = own_calls.reserved_tokens + excluded.reserved_tokens,
  reserved_nanodollars = own_calls.reserved_nanodollars + excluded.reserved_nanodollars
"""
_SET_LIMIT: Final = """
UPDATE own_calls SET tokens_per_day = :tokens_per_day, nanodollars_per_day = :nanodollars_per_day
WHERE tenant = :tenant AND day = :day
"""
_SETTLE: Final = """
UPDATE own_calls SET calls = calls + :calls, prompt = prompt + :prompt, completion = completion + :completion,
  nanodollars = nanodollars + :nanodollars, unpriced = unpriced + :unpriced,
  reserved_tokens = reserved_tokens - :reserved_tokens,
  reserved_nanodollars = reserved_nanodollars - :reserved_nanodollars
WHERE tenant = :tenant AND day = :day AND kind = :kind
"""


class Charge(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens of a call and their price, None if it is not known. Without `calls`, the call was not billed."""

    calls: int = 1
    prompt: int = 0
    completion: int = 0
    nanodollars: int | None = 0

    @property
    def tokens(self) -> int:
        return min(_MAX_CALL, self.prompt + self.completion)

    @property
    def price(self) -> int:
        return min(_MAX_CALL, self.nanodollars or 0)


class _Row(msgspec.Struct, frozen=True, array_like=True):
    kind: OwnCallKind
    calls: int
    prompt: int
    completion: int
    nanodollars: int
    unpriced: int
    reserved_tokens: int
    reserved_nanodollars: int
    tokens_per_day: int | None
    nanodollars_per_day: int | None
    day: int


def reserve_own_call(
    session: Session, kind: OwnCallKind, most: Charge, limit: SpendingLimit, *, now: float
) -> Reservation:
    """Reserve the maximum cost of a call, unless spending and reservations have reached the day's limit."""
    day = day_of(require_timestamp("now", now, InvalidValue))
    session.dialect.lock(session, "own calls")
    rows = _read(session, day, day)
    found = Reservation(
        admitted=True,
        day=day,
        tokens=sum(row.prompt + row.completion for row in rows),
        nanodollars=sum(row.nanodollars for row in rows),
        reserved_tokens=sum(row.reserved_tokens for row in rows),
        reserved_nanodollars=sum(row.reserved_nanodollars for row in rows),
    )
    in_force = (limit.tokens_per_day, limit.nanodollars_per_day)
    if _is_reached(in_force[0], found.tokens + found.reserved_tokens) or _is_reached(
        in_force[1], found.nanodollars + found.reserved_nanodollars
    ):
        found = msgspec.structs.replace(found, admitted=False)
    else:
        session.run(_RESERVE, day=day, kind=kind, tokens=most.tokens, nanodollars=most.price)
    if found.admitted or any((row.tokens_per_day, row.nanodollars_per_day) != in_force for row in rows):
        session.run(_SET_LIMIT, day=day, tokens_per_day=in_force[0], nanodollars_per_day=in_force[1])
    return found


def settle_own_call(session: Session, kind: OwnCallKind, day: int, most: Charge, billed: Charge) -> None:
    """Replace the reservation of a call by the billed amount."""
    session.run(
        _SETTLE,
        kind=kind,
        day=day,
        calls=billed.calls,
        prompt=min(_MAX_CALL, billed.prompt),
        completion=min(_MAX_CALL, billed.completion),
        nanodollars=billed.price,
        unpriced=billed.calls if billed.nanodollars is None else 0,
        reserved_tokens=most.tokens,
        reserved_nanodollars=most.price,
    )


def own_spending(session: Session, *, now: float, since: float | None = None) -> OwnSpending:
    """Return the spending since the beginning of a day (by default, ever) and today."""
    since = validate_optional_time("since", since)
    today = day_of(require_timestamp("now", now, InvalidValue))
    rows = _read(session, day_of(since or 0.0), today)
    kinds = {kind: list(found) for kind, found in groupby(rows, key=lambda row: row.kind)}
    current = [row for row in rows if row.day == today]
    limit = next(((row.tokens_per_day, row.nanodollars_per_day) for row in current), (None, None))
    return OwnSpending(
        kinds=tuple(_add_up(kind, kinds[kind]) for kind in OWN_CALL_KINDS if kind in kinds),
        tokens_today=sum(row.prompt + row.completion for row in current),
        dollars_today=sum(row.nanodollars for row in current) / NANODOLLARS,
        reserved_tokens=sum(row.reserved_tokens for row in current),
        reserved_dollars=sum(row.reserved_nanodollars for row in current) / NANODOLLARS,
        tokens_per_day=limit[0],
        dollars_per_day=None if limit[1] is None else limit[1] / NANODOLLARS,
    )


def _read(session: Session, first: int, last: int) -> list[_Row]:
    return [_Row(*row) for row in session.rows(_READ, first=first, last=last)]


def _is_reached(limit: int | None, spent: int) -> bool:
    return limit is not None and spent >= limit


def _add_up(kind: OwnCallKind, rows: list[_Row]) -> OwnCallStatistics:
    return OwnCallStatistics(
        kind=kind,
        calls=sum(row.calls for row in rows),
        prompt=sum(row.prompt for row in rows),
        completion=sum(row.completion for row in rows),
        dollars=sum(row.nanodollars for row in rows) / NANODOLLARS,
        unpriced=sum(row.unpriced for row in rows),
    )
