"""Usage statistics over many contexts and responses."""

from typing import Literal

import msgspec

from brimful.core.notice import NoticeKind

GroupKey = Literal["hour", "day", "model", "policy", "persona", "user", "key"]
"""What statistics can be grouped by."""
Grouping = Literal["", GroupKey]
"""What statistics are grouped by; empty: not grouped."""


class Distribution(msgspec.Struct, frozen=True, kw_only=True):
    """Mean, maximum and minimum."""

    mean: float = 0.0
    max: float = 0.0
    min: float = 0.0


class ComponentShare(msgspec.Struct, frozen=True, kw_only=True):
    """A component of contexts: mean tokens and items per context, and its share of all tokens sent."""

    name: str
    tokens: float
    items: float
    share: float


class MemoryStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Memories in contexts: how many, by type, and their average relevance if known.

    `missing` counts contexts without any memory, and `missing_without_vectors` how many of these were built while
    vector search was off.
    """

    total: int = 0
    per_context: float = 0.0
    types: dict[str, int] = {}
    relevance: float | None = None
    missing: int = 0
    missing_without_vectors: int = 0


class ResponseStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Responses and their usage.

    `reported` is the number of responses with usage; the following numbers are sums over them. `counted` are our tokens
    for their prompts, and `naive` the tokens of everything, whole rooms included. `seconds` is the mean duration.
    `cache_misses` counts misses of the prompt cache by cause, and `missed_tokens` the tokens read again.
    """

    total: int = 0
    reported: int = 0
    prompt: int = 0
    cached: int = 0
    expected_cached: int = 0
    completion: int = 0
    reasoning: int = 0
    counted: int = 0
    naive: int = 0
    count_error: float | None = None
    seconds: float | None = None
    cache_misses: dict[str, int] = {}
    missed_tokens: dict[str, int] = {}


class ModelStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Usage of one model, from which its cost is computed."""

    model: str
    contexts: int
    tokens: int
    answers: ResponseStatistics
    summaries: ResponseStatistics = ResponseStatistics()


class PeriodUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Usage of models in a day or an hour: requests that were answered, and what providers reported for them.

    `begin` is the start of the period, and `key` its name. `prompt` includes `cached`, and `completion` includes
    `reasoning` tokens. `cost` is in US dollars; None if no price is known.
    """

    key: str
    begin: float
    requests: int
    prompt: int
    cached: int
    completion: int
    reasoning: int
    cost: float | None


class Statistics(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of a time span.

    `key` is the group: a day, an hour, a model, a policy, a persona, a user, or the id of an API key. `begin` is the
    start of the day or hour. `tokens` are the tokens of requests, `share` is their share of the budget, and `naive` the
    tokens of everything. `warnings` counts contexts by kind of notice, and `degraded` those that were built without
    something. `nearly_full` contexts used more than 80 % of the budget.

    `vector_uptime` is the share of contexts for which vector search worked or was not needed; `breaker_openings` counts
    how often it was suspended. `summaries` are requests for summaries of earlier steps, which have no context.
    """

    key: str = ""
    begin: float | None = None
    contexts: int = 0
    tokens: Distribution = Distribution()
    share: Distribution = Distribution()
    total_tokens: int = 0
    components: tuple[ComponentShare, ...] = ()
    memories: MemoryStatistics = MemoryStatistics()
    candidates: int = 0
    left_out: int = 0
    naive: int = 0
    warnings: dict[NoticeKind, int] = {}
    degraded: int = 0
    nearly_full: int = 0
    breaker_openings: int = 0
    vector_uptime: float = 1.0
    answers: ResponseStatistics = ResponseStatistics()
    summaries: ResponseStatistics = ResponseStatistics()
    models: tuple[ModelStatistics, ...] = ()
