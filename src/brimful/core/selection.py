"""What goes into the fill beside its units, and what comes out of it."""

from collections.abc import Sequence
from functools import cached_property

import msgspec

from brimful.core.budget import ContextBudget
from brimful.core.decision import Decision
from brimful.core.unit import Unit
from brimful.core.verdict import Account, PoolUse, summary_verdicts, verdicts
from brimful.errors import BudgetExceeded


class Previous(msgspec.Struct, frozen=True, kw_only=True):
    """What the next context needs of this one to keep its prefix: where history began, and its summaries."""

    first: str
    summaries: tuple[str, ...] = ()


class Base(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the request costs before any unit is in it: with all that may come, and with the required units alone."""

    full: int
    required: int


class Selection(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The units that are in, and what decisions on all candidates rest on. `summaries` were held ready for clusters."""

    required: tuple[Unit, ...]
    accounts: tuple[Account, ...]
    summaries: tuple[Unit, ...]
    used: int

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """All that is in: what is required, then pool by pool."""
        return (*self.required, *(unit for account in self.accounts for unit in account.chosen.values()))

    @property
    def pools(self) -> tuple[PoolUse, ...]:
        """What each pool may take, and what it took."""
        return tuple(account.use for account in self.accounts)

    @cached_property
    def decisions(self) -> tuple[Decision, ...]:
        """One for each candidate, with its reason. Of a pile that is filled again, only the last are asked for."""
        standing = {unit.key: unit for account in self.accounts for unit in account.chosen.values()}
        decided = [decision for unit in self.required for decision in unit.decisions("kept", "required")]
        for account in self.accounts:
            decided += verdicts(account, standing)
        return (*decided, *summary_verdicts(self.summaries, standing))

    @property
    def optional(self) -> bool:
        """Whether anything is in that might have been left out."""
        return not all(unit.fixed for unit in self.units)


def exceeded(units: Sequence[Unit], budget: ContextBudget, base: Base, needed: int) -> BudgetExceeded:
    """Return the error that names what is required and how much there is."""
    required = [(package.id, cost) for unit in units for package, cost in zip(unit.packages, unit.costs, strict=True)]
    window = f"window {budget.window:,} − completion {budget.completion:,}"
    return BudgetExceeded(
        needed=needed,
        limit=budget.hard_limit,
        required=sorted(required, key=lambda row: (-row[1], row[0])),
        where=f"{window}; {base.required:,} for the request itself",
    )
