"""Limits of API keys and users: those that were set for one of them, and what each has used of them.

What a request may cost is reserved before it is sent, by one statement for each period, which adds to the usage
only if the sum stays within the limit. So all servers of a database together stay within it.

A counter knows only a hash of the name, so it outlives the user. Then nobody gets a new budget by being removed.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from brimful.core.validation import MAX_INTEGER
from brimful.records.base import validate_id
from brimful.records.limits import (
    PERIODS,
    Amount,
    Ceiling,
    LimitChanges,
    LimitedKind,
    LimitName,
    LimitsInUse,
    OwnLimits,
    Period,
    PeriodUsage,
    Unit,
    Used,
    check_changes,
    period_start,
)
from brimful.records.own_calls import NANODOLLARS
from brimful.stores.encryption.cipher import is_keyed_address, storage_address
from brimful.stores.session import Session
from brimful.stores.transactions import ReadMethod, Transactions, WriteMethod

_MAX_AMOUNT: Final = 1_000_000_000_000  # tokens or nanodollars of a request; sums stay in the range of a column
_OLD_SECONDS: Final[dict[Period, int]] = {"minute": 3_600, "day": 3 * 86_400, "month": 62 * 86_400}
"""After which a counter is deleted, counted from the beginning of its period. Requests may take some minutes."""
_FIND: Final = "SELECT kind, name, limits FROM usage_limits WHERE tenant = :tenant AND subject IN :subjects"
_LIST: Final = """
SELECT kind, name, limits FROM usage_limits WHERE tenant = :tenant ORDER BY kind, name, subject
LIMIT :limit OFFSET :after
"""
_SET: Final = """
INSERT INTO usage_limits (tenant, subject, kind, name, limits) VALUES (:tenant, :subject, :kind, :name, :limits)
ON CONFLICT (tenant, subject) DO NOTHING
"""
_FORGET: Final = "UPDATE usage_limits SET name = '' WHERE tenant = :tenant AND subject IN :subjects"
_REMOVE: Final = "DELETE FROM usage_limits WHERE tenant = :tenant AND subject IN :subjects"
_USED: Final = """
SELECT subject, requests, tokens, nanodollars, reserved_tokens, reserved_nanodollars FROM limit_counters
WHERE tenant = :tenant AND period = :period AND start = :start AND subject IN :subjects
"""
_ADD: Final = """
INSERT INTO limit_counters (tenant, period, start, subject, requests, tokens, nanodollars,
  reserved_tokens, reserved_nanodollars)
VALUES (:tenant, :period, :start, :subject, :requests, :tokens, :nanodollars, :reserved_tokens, :reserved_nanodollars)
ON CONFLICT (tenant, period, start, subject) DO UPDATE SET
  requests = limit_counters.requests + excluded.requests,
  tokens = limit_counters.tokens + excluded.tokens,
  nanodollars = limit_counters.nanodollars + excluded.nanodollars,
  reserved_tokens = limit_counters.reserved_tokens + excluded.reserved_tokens,
  reserved_nanodollars = limit_counters.reserved_nanodollars + excluded.reserved_nanodollars
"""
_RESERVE: Final = f"""{_ADD}WHERE limit_counters.requests + excluded.requests <= :max_requests
  AND limit_counters.tokens + excluded.tokens <= :max_tokens
  AND limit_counters.nanodollars + excluded.nanodollars <= :max_nanodollars
RETURNING requests, tokens, nanodollars, reserved_tokens, reserved_nanodollars
"""
_SETTLE: Final = """
UPDATE limit_counters SET requests = requests - :requests, tokens = tokens + :tokens - :reserved_tokens,
  nanodollars = nanodollars + :nanodollars - :reserved_nanodollars,
  reserved_tokens = reserved_tokens - :reserved_tokens,
  reserved_nanodollars = reserved_nanodollars - :reserved_nanodollars
WHERE tenant = :tenant AND period = :period AND start = :start AND subject = :subject
"""
_REMOVE_COUNTER: Final = """
DELETE FROM limit_counters WHERE tenant = :tenant AND period = :period AND start = :start AND subject = :subject
"""
_ALL_LIMITS: Final = "SELECT subject, kind, name, limits FROM usage_limits WHERE tenant = :tenant"
_ALL_COUNTERS: Final = """
SELECT period, start, subject, requests, tokens, nanodollars, reserved_tokens, reserved_nanodollars
FROM limit_counters WHERE tenant = :tenant
"""
_DELETE_OLD: Final = "DELETE FROM limit_counters WHERE tenant = :tenant AND period = :period AND start < :limit"


class LimitExceededError(Exception):
    """An amount does not fit into a limit. Nothing was reserved."""

    def __init__(self, ceiling: Ceiling, unit: Unit, used: PeriodUsage) -> None:
        super().__init__(f"{ceiling.name}: {unit}")
        self.ceiling = ceiling
        self.unit: Unit = unit
        self.used = used


def _has_own(session: Session) -> bool:
    """Whether limits were set for a key or user of the tenant."""
    return session.row("SELECT 1 FROM usage_limits WHERE tenant = :tenant LIMIT 1") is not None


def _find(session: Session, kind: LimitedKind, name: str) -> dict[LimitName, float | None]:
    """Return the limits that were set for a key or a user; none if there are none."""
    row = session.row(_FIND, subjects=_addresses(session, kind, name))
    return {} if row is None else _decode(*row).limits


def _list_own(session: Session, *, after: int = 0, limit: int = MAX_INTEGER) -> list[OwnLimits]:
    """Return limits that were set for a key or a user, in order of name: `limit` of them `after` so many others."""
    return [_decode(*row) for row in session.rows(_LIST, after=after, limit=limit)]


def _set_own(session: Session, kind: LimitedKind, name: str, changes: LimitChanges) -> OwnLimits:
    """Set some limits of a key or a user, and return all of them."""
    check_changes(changes)
    validate_id(kind, name)
    session.dialect.lock(session, "usage limits")
    limits = _find(session, kind, name) | dict(changes)
    body = msgspec.json.encode(limits).decode()
    session.run(_REMOVE, subjects=_addresses(session, kind, name))
    session.run(_SET, subject=_address(session, kind, name), kind=kind, name=name, limits=body)
    return OwnLimits(kind=kind, name=name, limits=limits)


def _remove_own(session: Session, kind: LimitedKind, name: str) -> bool:
    """Remove the limits that were set for a key or a user. Return False if there are none."""
    return bool(session.run(_REMOVE, subjects=_addresses(session, kind, name)))


def _used(session: Session, kind: LimitedKind, name: str, *, now: float) -> dict[Period, PeriodUsage]:
    """Return what a key or a user has used in this minute, on this day and in this month."""
    subject = _address(session, kind, name)
    return {period: _read(session, period, period_start(period, now), [subject])[0] for period in PERIODS}


def _in_use(session: Session, limits: Sequence[OwnLimits], *, now: float) -> list[LimitsInUse]:
    """Return limits with their usage. Nothing is known of users who were removed."""
    known = [own for own in limits if own.name]
    subjects = [_address(session, own.kind, own.name) for own in known]
    columns = [_read(session, period, period_start(period, now), subjects) for period in PERIODS]
    used = {
        (own.kind, own.name): {
            period: Used(requests=each.requests, tokens=each.tokens, dollars=each.nanodollars / NANODOLLARS)
            for period, each in zip(PERIODS, sums, strict=True)
        }
        for own, *sums in zip(known, *columns, strict=True)
    }
    return [
        LimitsInUse(kind=own.kind, name=own.name, limits=own.limits, used=used.get((own.kind, own.name), {}))
        for own in limits
    ]


def _reserve(session: Session, ceilings: Sequence[Ceiling], amount: Amount) -> list[tuple[Ceiling, PeriodUsage]]:
    """Add an amount to the usage under each limit, and return the sums.

    Raises `LimitExceededError` if it does not fit into one of them.
    """
    amount = _bounded(amount)
    sums = []
    for subject, ceiling in _order(session, ceilings):
        place = {"period": ceiling.period, "start": ceiling.start, "subject": subject}
        limits = [MAX_INTEGER if limit is None else limit for limit in _limits(ceiling)]
        fits = ceiling.find_exceeded(Amount(), amount) is None  # a new row is not compared
        row = (
            session.row(
                _RESERVE,
                **place,
                requests=amount.requests,
                tokens=amount.tokens,
                nanodollars=amount.nanodollars,
                reserved_tokens=amount.tokens,
                reserved_nanodollars=amount.nanodollars,
                max_requests=limits[0],
                max_tokens=limits[1],
                max_nanodollars=limits[2],
            )
            if fits
            else None
        )
        if row is None:
            [used] = _read(session, ceiling.period, ceiling.start, [subject])
            raise LimitExceededError(ceiling, ceiling.find_exceeded(used, amount) or "tokens", used)
        used = PeriodUsage(**dict(zip(PeriodUsage.__struct_fields__, row, strict=True)))
        sums.append((ceiling, used))
        if (used.requests, used.tokens) == (amount.requests, amount.tokens):  # the first of its period
            limit = ceiling.start - _OLD_SECONDS[ceiling.period]
            session.run(_DELETE_OLD, period=ceiling.period, limit=limit)
    return sums


def _settle(session: Session, ceilings: Sequence[Ceiling], reserved: Amount, billed: Amount) -> None:
    """Replace what was reserved by what was billed. Requests are taken back, too, if none was billed."""
    reserved, billed = _bounded(reserved), _bounded(billed)
    for subject, ceiling in _order(session, ceilings):
        session.run(
            _SETTLE,
            period=ceiling.period,
            start=ceiling.start,
            subject=subject,
            requests=reserved.requests - billed.requests,
            tokens=billed.tokens,
            nanodollars=billed.nanodollars,
            reserved_tokens=reserved.tokens,
            reserved_nanodollars=reserved.nanodollars,
        )


def forget_name(session: Session, kind: LimitedKind, name: str) -> None:
    """Erase a name from the limits that were set for it. They stay in force."""
    session.run(_FORGET, subjects=_addresses(session, kind, name))


def rekey_limits(session: Session, after: str) -> tuple[str | None, int]:
    """Change the hashes of all limits and counters to keyed ones. They are few, so this is one batch."""
    del after
    limits = [row for row in session.rows(_ALL_LIMITS) if not is_keyed_address(row[0])]
    for subject, kind, name, body in limits:
        session.run(_REMOVE, subjects=[subject])
        session.run(_SET, subject=storage_address(session, subject), kind=kind, name=name, limits=body)
    counters = [row for row in session.rows(_ALL_COUNTERS) if not is_keyed_address(row[2])]
    for period, start, subject, *used in counters:
        session.run(_REMOVE_COUNTER, period=period, start=start, subject=subject)
        values = dict(zip(PeriodUsage.__struct_fields__, used, strict=True))
        session.run(_ADD, period=period, start=start, subject=storage_address(session, subject), **values)
    return None, len(limits) + len(counters)


class Limits(Transactions):
    """The limits of one tenant's API keys and users."""

    has_own = ReadMethod(_has_own)
    find = ReadMethod(_find)
    list_own = ReadMethod(_list_own)
    set_own = WriteMethod(_set_own)
    remove_own = WriteMethod(_remove_own)
    used = ReadMethod(_used)
    in_use = ReadMethod(_in_use)
    reserve = WriteMethod(_reserve)
    settle = WriteMethod(_settle)


def _hash(kind: LimitedKind, name: str) -> str:
    return hashlib.sha256(f"limits {kind} {name}".encode()).hexdigest()


def _address(session: Session, kind: LimitedKind, name: str) -> str:
    """Return the hash under which a key or a user is counted: a keyed one if the store is encrypted."""
    return storage_address(session, _hash(kind, name))


def _addresses(session: Session, kind: LimitedKind, name: str) -> list[str]:
    """Return the hashes under which limits may be stored, also while the store is being encrypted."""
    return list({_address(session, kind, name), _hash(kind, name)})


def _order(session: Session, ceilings: Iterable[Ceiling]) -> list[tuple[str, Ceiling]]:
    """Return limits in the order in which all transactions lock them, so that no two wait for each other."""
    found = [(_address(session, each.kind, each.name), each) for each in ceilings]
    return sorted(found, key=lambda each: (each[0], each[1].period, each[1].start))


def _read(session: Session, period: Period, start: int, subjects: Sequence[str]) -> list[PeriodUsage]:
    """Return what each of these keys and users has used in a period."""
    rows = session.rows(_USED, period=period, start=start, subjects=list(subjects)) if subjects else []
    names = PeriodUsage.__struct_fields__
    found = {subject: PeriodUsage(**dict(zip(names, used, strict=True))) for subject, *used in rows}
    return [found.get(subject, PeriodUsage()) for subject in subjects]


def _limits(ceiling: Ceiling) -> tuple[int | None, int | None, int | None]:
    return ceiling.requests, ceiling.tokens, ceiling.nanodollars


def _bounded(amount: Amount) -> Amount:
    return Amount(
        requests=amount.requests,
        tokens=min(_MAX_AMOUNT, amount.tokens),
        nanodollars=min(_MAX_AMOUNT, amount.nanodollars),
    )


def _decode(kind: LimitedKind, name: str, limits: str) -> OwnLimits:
    return OwnLimits(kind=kind, name=name, limits=msgspec.json.decode(limits, type=dict[LimitName, int | float | None]))
