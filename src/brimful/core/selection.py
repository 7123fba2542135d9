"""The result of a fill: the units that are in, the use of each pool, and a decision for every candidate."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from math import inf
from typing import Final

import msgspec

from brimful.core.budget import ContextBudget
from brimful.core.decision import Decision, FormName, Reason
from brimful.core.policy import Pool
from brimful.core.units import Unit, count_items
from brimful.errors import BudgetExceeded

LEDGER_ID: Final = "ledger"
"""The id of the ledger of an agent's steps, and its kind."""


class PoolUse(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How many tokens a pool may use and did use; `borrowed` of them came from other pools.

    `max_tokens` is what it could ever use: its limit, or the whole budget if it borrows.
    """

    name: str
    limit: int
    max_tokens: int
    used: int
    items: int
    borrowed: int = 0


class PoolAccount(msgspec.Struct, frozen=True, kw_only=True):
    """A pool after the fill: its candidates, their order, those that are in, and reasons found on the way.

    `stepped` means that history was trimmed to its low water in one large step, `continued` that it begins where it
    began in the previous context, so that older messages stay out even if there is room. Each of the `duplicates` comes
    with the id of what it duplicates. `price` is that of a token. `replaced` maps units to the summaries that replaced
    them.
    """

    pool: Pool
    use: PoolUse
    stepped: bool
    continued: bool
    waiting: Sequence[Unit]
    order: Sequence[Unit]
    chosen: Mapping[str, Unit]
    reasons: Mapping[str, Reason]
    replaced: Mapping[str, Unit]
    duplicates: Sequence[tuple[Unit, str]]
    price: float = 0.0


def pool_decisions(account: PoolAccount, included: Mapping[str, Unit]) -> list[Decision]:
    """Return one decision for each candidate of the pool. `included` is everything that is in."""
    order = [unit for unit in account.order if not unit.replaced_region]
    ranks = _ranks(account.pool, order)
    cut = max((ranks.get(key, 0) for key in account.chosen), default=0)
    why_in, why_out = _make_why_in(account, order), _make_why_out(account, cut)
    decisions: list[Decision] = []
    for unit, other in account.duplicates:
        decisions += unit.decisions("duplicate", "same-content", by=other)
    duplicates = {unit.key for unit, _ in account.duplicates}
    dropped: list[Decision] = []
    several: list[Decision] = []
    chosen, replaced = account.chosen, account.replaced
    for unit in account.waiting:
        key = unit.key
        rank = ranks.get(key, 0)
        if key in chosen:
            decisions += chosen[key].decisions("kept", why_in(unit), rank=rank, cut=cut)
        elif key in replaced and replaced[key].key in included:
            by = replaced[key]
            why_replaced: Reason = "ledger" if by.packages[0].kind == LEDGER_ID else "summary"
            decisions += unit.decisions("replaced", why_replaced, by=by.key, rank=rank, cut=cut)
        elif key in duplicates:
            continue
        elif len(unit.packages) == 1:
            package = unit.packages[0]  # the usual case of many candidates, so it is kept fast
            dropped.append(
                Decision(
                    id=key,
                    kind=package.kind,
                    outcome="dropped",
                    reason=why_out(unit, rank),
                    tokens=package.tokens.tokens,
                    pool=unit.pool,
                    score=unit.score,
                    rank=rank,
                    cut=cut,
                )
            )
        else:
            several += unit.decisions("dropped", why_out(unit, rank), rank=rank, cut=cut)
    if LEDGER_ID in chosen:
        decisions += chosen[LEDGER_ID].decisions("kept", "ledger")
    return decisions + dropped + several


def summary_decisions(summaries: Iterable[tuple[Unit, Reason]], included: Mapping[str, Unit]) -> Iterator[Decision]:
    """Yield one decision for each summary that was available for a cluster."""
    for unit, reason in summaries:
        inside = included.get(unit.key)
        yield from unit.decisions("dropped", reason) if inside is None else inside.decisions("kept", reason)


def _ranks(pool: Pool, order: Sequence[Unit]) -> dict[str, int]:
    """Return each candidate's rank, from 1. In a pool that takes the best set, they are ranked by score per token."""
    if pool.optimize:
        order = sorted(order, key=lambda unit: -unit.score.total / (unit.cost or 1))
    return {unit.key: i for i, unit in enumerate(order, start=1)}


def _make_why_in(account: PoolAccount, order: Sequence[Unit]) -> Callable[[Unit], Reason]:
    """Return a function that says why a unit is in."""
    required = account.use.items - count_items(account.chosen.values())
    minimum = {unit.key for unit in order[: max(0, account.pool.min_items - required)]}

    def why(unit: Unit) -> Reason:
        if unit.key in account.reasons:
            return account.reasons[unit.key]
        if unit.key in minimum:
            return "min-items"
        return "free" if unit.free and not unit.earns(account.price) else "fits"

    return why


def _make_why_out(account: PoolAccount, cut: int) -> Callable[[Unit, int], Reason]:
    """Return a function that says why a unit of some rank is out."""
    pool, use, reasons, stepped = account.pool, account.use, account.reasons, account.stepped
    headings = {unit.heading for unit in account.chosen.values()}
    price = account.price * pool.optimize
    room_for_items = inf if pool.max_items is None else pool.max_items - use.items
    # Only the unit after the cut was tried and did not fit. If history went on unchanged, not even that one was.
    last = cut + (stepped or not account.continued) if pool.contiguous else inf
    left = max(use.limit, use.used) - use.used
    sizes: tuple[tuple[int, Reason], ...] = ((use.max_tokens, "too-large"), (left, "pool-full"))

    def why(unit: Unit, rank: int) -> Reason:
        if unit.key in reasons:
            return reasons[unit.key]
        if price and not unit.is_worth(price):
            return "unlikely" if unit.unlikely else "not-worth"
        if len(unit.packages) > room_for_items:
            return "max-items"
        if rank > last or stepped:
            return "older" if rank > last else "low-water"
        # Under a heading that is in, a unit could have got in without paying for it.
        cost = unit.cost + unit.heading_due(headings)
        return next((reason for tokens, reason in sizes if cost > tokens), "window-full")

    return why


class LedgerState(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the next context needs to write the same ledger again.

    `lines` are the units in it, in order, each with the numbers of the values in its line. Units up to `last` are in
    the ledger unless they stay (`whole`). Those without a line are in its summary, which has at most `folded` tokens.
    """

    lines: tuple[tuple[str, tuple[int, ...]], ...] = ()
    whole: tuple[str, ...] = ()
    last: str = ""
    folded: int = 0


class RetrievedItem(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A search result of a question, with everything needed to load it again and to show it unchanged.

    `limit` is the cost that it was shortened to, 0 if it was not. `matches` are the passages that a search found in it.
    """

    id: str
    kind: str
    limit: int = 0
    relevance: float | None = None
    matches: tuple[tuple[int, int], ...] = ()


class HistoryStart(msgspec.Struct, frozen=True, kw_only=True):
    """Where history began, and which summaries were in it: what the next context needs to keep its prefix.

    `forms` are the units that were shortened, each with the cost it was shortened to. `media` are the media of its
    messages, each with its form. `divided` says that history gave room to search results. `ledger` is the ledger of an
    agent's run, and `carried` a digest of the ledgers and summaries that were among the messages.

    `retrieved` is the retrieved content, in its order, and `question` the message that it was found for. While a model
    calls tools to answer that message, it stays as it is.
    """

    first: str
    summaries: tuple[str, ...] = ()
    forms: tuple[tuple[str, int], ...] = ()
    media: tuple[tuple[str, FormName], ...] = ()
    divided: bool = False
    ledger: LedgerState | None = None
    carried: str = ""
    question: str = ""
    retrieved: tuple[RetrievedItem, ...] = ()


class ToolLoop(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation that ends with results of tools: the model goes on to answer the message `question`.

    `retrieved` are its search results in order, each with the cost it was shortened to; None if unknown.
    """

    question: str
    retrieved: Mapping[str, int] | None = None


class BaseCost(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the request costs before any unit is in it: with everything that may come, or with required units alone."""

    full: int
    required: int

    def of(self, selection: "Selection") -> int:
        """Return the cost that applies to a selection."""
        return self.full if selection.optional else self.required


class Selection(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The units that are in, and what the decisions are made from.

    `summaries` were available for clusters, each with the reason why it is in or out.

    `media` are the optional media of messages that are in, each with the reason for its form; `other_media` are those
    of other messages. `divided` says that history gave room to search results. `ledger` is the state of the ledger.
    """

    required: tuple[Unit, ...]
    accounts: tuple[PoolAccount, ...]
    summaries: tuple[tuple[Unit, Reason], ...]
    media: tuple[tuple[Unit, Reason], ...]
    other_media: tuple[Unit, ...]
    used: int
    divided: bool = False
    ledger: LedgerState | None = None

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """Everything that is in: required units first, then pool by pool, then media."""
        chosen = (unit for account in self.accounts for unit in account.chosen.values())
        return (*self.required, *chosen, *(unit for unit, _ in self.media))

    @property
    def pools(self) -> tuple[PoolUse, ...]:
        """How many tokens each pool may use and did use."""
        return tuple(account.use for account in self.accounts)

    @cached_property
    def decisions(self) -> tuple[Decision, ...]:
        """One decision for each candidate. Computed on demand, because only the last round needs them."""
        included = {unit.key: unit for account in self.accounts for unit in account.chosen.values()}
        decided = [each for unit in self.required for each in unit.decisions("kept", _why_required(unit))]
        for account in self.accounts:
            decided += pool_decisions(account, included)
        decided += [decision for unit, reason in self.media for decision in unit.decisions("kept", reason)]
        for unit in self.other_media:
            decided += unit.decisions("dropped", "message-dropped", by=unit.tie.message if unit.tie else "")
        return (*decided, *summary_decisions(self.summaries, included))

    @property
    def optional(self) -> bool:
        """Whether anything is in that is not required. The line of a media item is part of its message."""
        return not all(unit.fixed or (unit.tie and unit.form == "stub") for unit in self.units)


def _why_required(unit: Unit) -> Reason:
    return (unit.tie and unit.tie.reason) or ("required" if unit.fixed else "fits")


_HINT: Final = "{} is a tool call, whose arguments and reasoning must stay as they are: go back to before it"


def make_budget_error(units: Sequence[Unit], budget: ContextBudget, base: BaseCost, needed: int) -> BudgetExceeded:
    """Return the error for required units that do not fit."""
    required = [(package.id, cost) for unit in units for package, cost in zip(unit.packages, unit.costs, strict=True)]
    packages = [package for unit in units for package in unit.packages]
    largest = max(packages, key=lambda package: package.tokens.upper, default=None)
    window = f"window {budget.window:,} − completion {budget.completion:,}"
    return BudgetExceeded(
        needed=needed,
        limit=budget.hard_limit,
        required=sorted(required, key=lambda row: (-row[1], row[0])),
        where=f"{window}; {base.required:,} for the request itself",
        hint=_HINT.format(largest.id) if largest and largest.kind == "tool-call" else "",
    )
