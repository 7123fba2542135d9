"""`brimful limits`: limits of single API keys and users in `brimful serve`, and what they have used."""

import time
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from brimful.cli import output
from brimful.cli.options import DEFAULT_DB, DEFAULT_TENANT, Db, Json, Tenant
from brimful.cli.output import Failure, columns
from brimful.cli.store import with_database

if TYPE_CHECKING:
    from brimful.records.limits import LimitedKind, LimitName, LimitsInUse
    from brimful.stores import Database

LIMITS_EXAMPLES: Final = """\
Examples:
  brimful limits set --user ada --dollars-per-month 20 --requests-per-minute 60
  brimful limits set --key 5f1c0a9e77d2 --tokens-per-day none
  brimful limits list --user ada
  brimful limits remove --user ada"""

_COLUMNS: Final = columns("for", "limit", "at most", "used", "until", right=("at most", "used"), spare=("until",))
_NONE: Final = "none"
_NO_LIMIT: Final = "no limit"
_DEFAULT: Final = "default"

Key = Annotated[str | None, typer.Option("--key", metavar="ID", help="The id of an API key.")]
User = Annotated[str | None, typer.Option("--user", metavar="ID", help="The user that requests name.")]


def _amount(text: str) -> Any:
    """Read an amount: `none`, or else a number.

    >>> _amount("None"), _amount("200_000"), _amount("0.5")
    ('none', 200000, 0.5)
    """
    if text.strip().lower() == _NONE:
        return _NONE
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a number, nor `none` for no limit") from None


def _option(name: str, what: str) -> Any:
    return typer.Option(f"--{name}", metavar="N|none", parser=_amount, help=f"{what}; none for no limit.")


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        no_args_is_help=True, epilog=LIMITS_EXAMPLES, help="Limit what a single API key or user may use of models."
    )
    group.command("list")(list_limits)
    group.command("set")(set_limits)
    group.command("remove")(remove_limits)
    app.add_typer(group, name="limits")


def set_limits(  # noqa: PLR0913 - one argument per limit
    *,
    key: Key = None,
    user: User = None,
    requests_per_minute: Annotated[Any, _option("requests-per-minute", "Requests in a minute")] = None,
    tokens_per_minute: Annotated[Any, _option("tokens-per-minute", "Tokens in a minute")] = None,
    tokens_per_day: Annotated[Any, _option("tokens-per-day", "Tokens in a UTC day")] = None,
    dollars_per_day: Annotated[Any, _option("dollars-per-day", "US dollars in a UTC day")] = None,
    tokens_per_month: Annotated[Any, _option("tokens-per-month", "Tokens in a UTC month")] = None,
    dollars_per_month: Annotated[Any, _option("dollars-per-month", "US dollars in a UTC month")] = None,
    db: Db = DEFAULT_DB,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> None:
    """Set limits of one API key or user. Running servers follow them within seconds.

    What you do not name stays as it is: as set before, or else the default in
    the configuration.
    """
    kind, name = _require_subject(key, user)
    named: dict[LimitName, Any] = {
        "requests_per_minute": requests_per_minute,
        "tokens_per_minute": tokens_per_minute,
        "tokens_per_day": tokens_per_day,
        "dollars_per_day": dollars_per_day,
        "tokens_per_month": tokens_per_month,
        "dollars_per_month": dollars_per_month,
    }
    changes = {limit: None if value == _NONE else value for limit, value in named.items() if value is not None}
    if not changes:
        raise typer.BadParameter("name a limit, such as --dollars-per-day 5", param_hint="'set'")

    async def change(database: "Database") -> "list[LimitsInUse]":
        if kind == "key" and name not in {each.id for each in await database.api_keys(tenant).list_keys()}:
            raise Failure(f"there is no API key {name!r}; see `brimful api-key list`")
        limits = database.limits(tenant)
        return await limits.in_use([await limits.set_own(kind, name, changes)], now=time.time())

    _show(with_database(change, db, new=True), as_json=as_json)


def list_limits(
    *, key: Key = None, user: User = None, db: Db = DEFAULT_DB, tenant: Tenant = DEFAULT_TENANT, as_json: Json = False
) -> None:
    """List limits of single API keys and users, and what they have used.

    With --key or --user, show one of them, also if it has no limits of its
    own. The defaults of all others are in the configuration of the server.
    """
    from brimful.records.limits import OwnLimits  # noqa: PLC0415 - commands without a store start faster

    subject = None if key is None and user is None else _require_subject(key, user)

    async def look_up(database: "Database") -> "list[LimitsInUse]":
        limits = database.limits(tenant)
        if subject is None:
            return await limits.in_use(await limits.list_own(), now=time.time())
        own = OwnLimits(kind=subject[0], name=subject[1], limits=await limits.find(*subject))
        return await limits.in_use([own], now=time.time())

    _show(with_database(look_up, db), as_json=as_json)


def remove_limits(*, key: Key = None, user: User = None, db: Db = DEFAULT_DB, tenant: Tenant = DEFAULT_TENANT) -> None:
    """Remove the limits of one API key or user, so that the defaults apply. What was used still counts."""
    kind, name = _require_subject(key, user)
    if not with_database(lambda database: database.limits(tenant).remove_own(kind, name), db):
        raise Failure(f"the {kind} {name!r} has no limits of its own; see `brimful limits list`")
    output.write(f"removed the limits of the {kind} {name}")


def _require_subject(key: str | None, user: str | None) -> "tuple[LimitedKind, str]":
    if key is not None and user is None:
        return "key", key
    if user is not None and key is None:
        return "user", user
    raise typer.BadParameter("name one of them", param_hint="'--key' / '--user'")


def _show(found: "list[LimitsInUse]", *, as_json: bool) -> None:
    if as_json:
        output.show_json(found)
        return
    rows = [row for each in found for row in _rows(each)]
    empty = "no limits of single keys or users; set one with `brimful limits set`"
    output.show_rows(rows, _COLUMNS, lambda row: row, empty=empty, as_json=False)


def _rows(own: "LimitsInUse") -> Iterator[list[str]]:
    """Yield a row for each limit, and for each period in which something was used."""
    from brimful.records.limits import LIMIT_NAMES, PERIODS, period_end, period_start  # noqa: PLC0415 - see above

    who = f"{own.kind} {own.name or '(removed)'}"
    for name in LIMIT_NAMES:
        unit, _, ending = name.partition("_per_")
        period = next(each for each in PERIODS if each == ending)
        amount = getattr(own.used[period], unit) if own.used else None
        if name in own.limits or amount:
            limit = own.limits.get(name, _DEFAULT)
            end = output.format_time(period_end(period, period_start(period, time.time())))
            yield [who, f"{unit} per {period}", _text(limit, unit), _text(amount, unit) if own.used else "", end]


def _text(amount: float | str | None, unit: str) -> str:
    from brimful.cli.stats import format_dollars  # noqa: PLC0415 - see above

    if amount is None:
        return _NO_LIMIT
    if isinstance(amount, str):
        return amount
    return format_dollars(Decimal(amount)) if unit == "dollars" else f"{amount:,}"
