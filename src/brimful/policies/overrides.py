"""What a persona may change of a policy without a file of its own."""

from typing import Any

import msgspec

from brimful.core.policy import Method


class Overrides(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A persona's tuning: share of the budget for history, least and most messages, how to count.

    >>> Overrides(budget_share=0.9, least_messages=10).keys()
    {'pools.recent.limit.share': 0.9, 'pools.recent.least': 10}
    """

    budget_share: float | None = None
    least_messages: int | None = None
    most_messages: int | None = None
    counting: Method | None = None

    def keys(self) -> dict[str, Any]:
        """Return the policy keys that change, and their values."""
        said = {
            "pools.recent.limit.share": self.budget_share,
            "pools.recent.least": self.least_messages,
            "pools.recent.most": self.most_messages,
            "counting": self.counting,
        }
        return {key: value for key, value in said.items() if value is not None}
