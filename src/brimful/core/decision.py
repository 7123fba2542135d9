"""Decisions: what happened to each candidate, and why."""

from typing import Literal

import msgspec

from brimful.core.score import Score

Region = Literal["system", "pinned", "history", "related", "note", "current"]
"""A region of the prompt. See `brimful.core.arrange` for their order."""

Outcome = Literal["kept", "shrunk", "replaced", "duplicate", "dropped"]

Reason = Literal[
    "required",  # may not be dropped
    "fits",  # won its place
    "min-items",  # one of the minimum number of items of its pool
    "lent",  # in by tokens that other pools left unspent
    "summary",  # stands for the cluster that it covers, or gave way to the summary that covers it
    "same-id",  # another candidate has its id
    "same-content",  # something kept has its normalized text
    "too-large",  # larger than all that its pool may ever take
    "pool-full",  # the pool's limit is reached
    "window-full",  # the window is full
    "max-items",  # the pool already holds its maximum number of items
    "low-water",  # history was trimmed, or began anew, in one large step, so that its prefix holds for many turns
    "older",  # history is contiguous, and ended after it
    "trimmed",  # in at first, and the worst of its pool when the whole was over the limit
    "no-modality",  # the model cannot see or hear it, or the wire does not carry it
    "no-pool",  # no pool of the policy takes its kind
    "verbatim",  # a summary that is not needed: what it covers stands there itself
    "excluded",  # not allowed to compete: the package says why
    "unpaired",  # a tool result without its call, or a call without its result: no provider takes it
]


class Decision(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What happened to one candidate, and why.

    `tokens` is the candidate's count, or the count of what is left of it if it was shrunk. `cost` is what it took,
    including its message or label (0 if it is not in). `by` names the summary that replaced it, or the candidate that
    it duplicates. `rank` is its position in the order of its pool, from 1, and `cut` is the rank of the last one that
    is in. `group` names the unit it was kept or dropped with. `region` and `position` say where it is in the prompt:
    positions count from 0. Both are None if it is not in.
    """

    id: str
    kind: str
    outcome: Outcome
    reason: Reason
    tokens: int
    cost: int = 0
    pool: str = ""
    score: Score | None = None
    by: str = ""
    rank: int = 0
    cut: int = 0
    group: str = ""
    region: Region | None = None
    position: int | None = None

    @property
    def included(self) -> bool:
        """Whether the model sees it, in full or shrunk."""
        return self.outcome in ("kept", "shrunk")
