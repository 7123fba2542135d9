"""Decisions: what happened to each candidate, and why."""

from typing import Literal

import msgspec

from brimful.core.score import Score

Region = Literal["system", "pinned", "history", "related", "note", "current"]
"""A region of the prompt. See `brimful.core.arrange` for their order."""

Outcome = Literal["kept", "shrunk", "replaced", "duplicate", "dropped"]

Reason = Literal[
    "required",  # may not be dropped
    "fits",  # there was room for it
    "min-items",  # one of the minimum number of items of its pool
    "borrowed",  # fits because its pool borrowed tokens that other pools left unspent
    "summary",  # replaces the cluster that it covers, or was replaced by a summary
    "same-id",  # another candidate has its id
    "same-content",  # a kept candidate has the same normalized text
    "too-large",  # larger than its pool can ever hold
    "pool-full",  # the pool's limit is reached
    "window-full",  # the window is full
    "max-items",  # the pool already holds its maximum number of items
    "low-water",  # history was trimmed in one large step, so that its prefix stays the same for many turns
    "older",  # history is contiguous, and begins after it
    "trimmed",  # in at first, then dropped as the worst of its pool because the whole was over the limit
    "no-modality",  # the model or the wire format does not support this kind of media
    "no-pool",  # no pool of the policy takes its kind
    "verbatim",  # a summary that is not needed because the messages it covers are in
    "excluded",  # not allowed to compete: the package says why
    "unpaired",  # a tool result without its call, or a call without its result: no provider accepts it
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
