"""Decisions: what happened to each candidate, and why; scores, which decide between candidates."""

from collections.abc import Callable, Mapping
from math import exp
from types import MappingProxyType
from typing import Final, Literal

import msgspec

from brimful.core.content import MAX_PRIORITY, ContentPackage
from brimful.core.policy import Weights

NEUTRAL_RELEVANCE = 0.5  # for packages that did not come from a search
SECONDS_PER_DAY = 86_400.0
RETRIEVED_KINDS: Final = ("message-older", "memory-")  # older messages that a search found, and memories
RECENT: Final = "recent"  # the query of memories that were added only because they are recent
FEW: Final = "few"  # the query of memories that were added only because there are few
_NO_NEEDS: Final[Mapping[str, float]] = MappingProxyType({})


class Score(msgspec.Struct, frozen=True, gc=False):
    """The total, and its four parts before weighting, each from 0 to 1."""

    total: float
    priority: float
    importance: float
    relevance: float
    recency: float


def make_scorer(
    weights: Weights, now: float, needs: Mapping[str, float] = _NO_NEEDS
) -> Callable[[ContentPackage], Score]:
    """Return a function that scores packages at the time `now`.

    `needs` are the probabilities that turns of the conversation are needed, by id: no search gave them a relevance.
    Packages from the future, and those without a timestamp, count as new: their recency is 1.
    """
    of_priority, of_importance, of_recency = weights.priority, weights.importance, weights.recency
    of_relevance, of_merit = weights.relevance, of_priority + of_importance + of_recency
    multiplies, days = weights.multiply_by_relevance, weights.recency_days

    def score(package: ContentPackage) -> Score:
        priority, importance = package.flex.priority / MAX_PRIORITY, package.importance
        relevance = package.relevance
        if relevance is None:
            relevance = needs.get(package.id, NEUTRAL_RELEVANCE)
        age_days = (now - package.timestamp) / SECONDS_PER_DAY
        recency = exp(-age_days / days) if package.timestamp and age_days > 0 else 1.0
        merit = of_priority * priority + of_importance * importance + of_recency * recency
        total = relevance * merit / of_merit if multiplies else merit + of_relevance * relevance
        return Score(total, priority, importance, relevance, recency)

    return score


def format_relevance(relevance: float) -> str:
    """Return a relevance as a percentage. Below one percent, nobody can tell how far.

    >>> [format_relevance(each) for each in (0.0, 0.000347, 0.012, 0.714, 0.9999, 1.0)]
    ['0 %', 'under 1 %', '1 %', '71 %', 'over 99 %', '100 %']
    """
    if 0 < relevance < 0.01:  # noqa: PLR2004 - one percent
        return "under 1 %"
    return "over 99 %" if 0.99 < relevance < 1 else f"{100 * relevance:.0f} %"  # noqa: PLR2004 - percentages


def format_parts(parts: Mapping[str, float]) -> str:
    """Return what speaks for a record in words, the largest part first.

    >>> format_parts({"words": 6.14, "meaning": 2.3, "neighbours": 0.0, "time": 1.5})
    'words 6.1, meaning 2.3, time 1.5'
    """
    shown = sorted((-value, name) for name, value in parts.items() if round(value, 1))
    return ", ".join(f"{name} {-value:.1f}" for value, name in shown)


def explain_search(found: object) -> str:
    """Return why a search hit is a candidate, from the metadata of its package; empty if they are not of a hit.

    >>> explain_search({"query": "message", "relevance": 0.714, "parts": {"words": 6.1}})
    'found by retrieval (relevance 71 %: words 6.1)'
    """
    match found:
        case {"query": str() as query} if query == RECENT:
            return "it is one of the most recent memories"
        case {"query": str() as query} if query == FEW:
            return "it is one of the few memories"
        case {"relevance": float() as relevance, "parts": {**parts}}:
            speaks = format_parts({str(name): value for name, value in parts.items() if isinstance(value, float)})
            why = f"found by retrieval (relevance {format_relevance(relevance)}{': ' if speaks else ''}{speaks})"
        case _:
            return ""
    match found:
        case {"passage": {"number": int() as number, "start": int() as start, "stop": int() as stop}}:
            return f"{why}, passage {number + 1} (characters {start:,} to {stop:,}) matches the query"
        case _:
            return why


Region = Literal["system", "pinned", "history", "related", "note", "current"]
"""A region of the prompt. See `brimful.core.arrange` for their order."""

FormName = Literal["full", "bare", "excerpt", "digest", "low", "stub"]
"""How much of an item the model sees.

- `full`: all of it.
- `bare`: a message without the model's reasoning.
- `excerpt`: the parts that matter most for the current message, in order.
- `digest`: the parts that matter most by themselves, so that they stay the same from turn to turn.
- `low`: a picture in low detail.
- `stub`: one line that says what it was.
"""

Outcome = Literal["kept", "shrunk", "replaced", "duplicate", "dropped"]

Reason = Literal[
    "required",  # may not be dropped
    "fits",  # there was room for it
    "min-items",  # one of the minimum number of items of its pool
    "free",  # one of few memories, or the best of many: it need not be worth its tokens
    "borrowed",  # fits because its pool borrowed tokens that other pools left unspent
    "used",  # a tool that an earlier call used, or that a search found
    "ledger",  # a line in the ledger of steps replaces it, or it is that ledger
    "summary",  # replaces the cluster that it covers, or was replaced by a summary
    "same-id",  # another candidate has its id
    "same-content",  # a kept candidate has the same normalized text
    "too-large",  # larger than its pool can ever hold
    "pool-full",  # the pool's limit is reached
    "window-full",  # the window is full
    "not-worth",  # worth less than its tokens at the policy's price, even if there is room
    "unlikely",  # a find that is too unlikely to help, or of a search that found nothing likely to
    "max-items",  # the pool already holds its maximum number of items
    "low-water",  # history was trimmed in one large step, so that its prefix stays the same for many turns
    "reasoning",  # the model's reasoning of an earlier turn, which goes before anything else
    "older",  # history is contiguous, and begins after it
    "trimmed",  # in at first, then dropped as the worst of its pool because the whole was over the limit
    "no-modality",  # the model or the wire format does not support this kind of media
    "not-needed",  # media of an older message that the current message does not ask about
    "unchanged",  # media or finds that the previous context left out: the prefix stays the same
    "message-dropped",  # media of a message that is not in
    "no-pool",  # no pool of the policy takes its kind
    "verbatim",  # a summary that is not needed because the messages it covers are in
    "excluded",  # not allowed to compete: the package says why
    "unpaired",  # a tool result without its call, or a call without its result: no provider accepts it
]


class Decision(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What happened to one candidate, and why.

    `tokens` is the candidate's count, or the count of what is left of it if it was shrunk. `cost` is what it took,
    including its message or label (0 if it is not in). `by` names the summary that replaced it, the candidate that it
    duplicates, or the message without which it is not in. `rank` is its position in the order of its pool, from 1, and
    `cut` is the rank of the last one that is in. `group` names the unit it was kept or dropped with. `region` and
    `position` say where it is in the prompt: positions count from 0. Both are None if it is not in. `form` says how
    much of it the model sees; if it was shrunk, `larger` and `smaller` are the costs of the next larger and smaller
    form (0 if there is none), and `full` is its cost in full.
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
    form: FormName = "full"
    larger: int = 0
    smaller: int = 0
    full: int = 0

    @property
    def saved(self) -> int:
        """The tokens that leaving it out or shortening it saved."""
        return max(0, self.full - self.cost) if self.included else self.tokens

    @property
    def included(self) -> bool:
        """Whether the model sees it, in full or shrunk."""
        return self.outcome in ("kept", "shrunk")
