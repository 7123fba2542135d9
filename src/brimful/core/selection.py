"""What goes into the fill beside its units, and what comes out of it."""

from collections.abc import Sequence

import msgspec

from brimful.core.budget import ContextBudget
from brimful.core.decision import Decision
from brimful.core.unit import Unit
from brimful.core.verdict import PoolUse
from brimful.errors import BudgetExceeded


class Previous(msgspec.Struct, frozen=True, kw_only=True):
    """What the next context needs of this one to keep its prefix: where history began, and its summaries."""

    first: str
    summaries: tuple[str, ...] = ()


class Base(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the request costs before any unit is in it: with all that may come, and with the required units alone."""

    full: int
    required: int


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The units that are in, one decision for each candidate, and the pools' accounts."""

    units: tuple[Unit, ...]
    decisions: tuple[Decision, ...]
    pools: tuple[PoolUse, ...]
    used: int

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
