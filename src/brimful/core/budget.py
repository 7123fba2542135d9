"""The token budget of a window, divided among reserve, margin and pools."""

import hashlib
import math
from typing import Final

import msgspec

from brimful.core.model import ModelInfo
from brimful.core.notice import Notice
from brimful.core.policy import Limit, Policy, with_searched_history

_MAX_RESERVE: Final = 0.5  # of the window: what a request allows for the answer beyond that gives way to any content


class PoolLimit(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The token limit of a pool."""

    name: str
    limit: int


class ContextBudget(msgspec.Struct, frozen=True, kw_only=True):
    """A window divided into the reserve for the answer, the safety margin, and what may be filled.

    `hard_limit` is the maximum size of a prompt: `window` − `completion`, or less if the policy or the model caps it.
    `available` is what can be filled: the hard limit without the margin. `system_tokens` are those that the policy sets
    aside for system prompts before it gives history its share.
    """

    model: str
    policy: str
    window: int
    completion: int
    margin: int
    hard_limit: int
    available: int
    pools: tuple[PoolLimit, ...]
    system_tokens: int = 0

    @property
    def reserved(self) -> int:
        """Completion and safety margin together."""
        return self.window - self.available

    @property
    def available_for_messages(self) -> int:
        """What is available, without the tokens set aside for system prompts."""
        return max(0, self.available - self.system_tokens)

    @property
    def target_tokens(self) -> int:
        """The limit of the pool of recent messages, or everything available if the policy has no such pool."""
        return next((row.limit for row in self.pools if row.name == "recent"), self.available)

    def limit(self, pool: str) -> int:
        """Return the limit of a pool."""
        for row in self.pools:
            if row.name == pool:
                return row.limit
        raise KeyError(pool)


def allocate(
    policy: Policy,
    model: ModelInfo,
    *,
    window: int | None = None,
    completion: int | None = None,
    max_output: int | None = None,
) -> ContextBudget:
    """Divide the model's window by the policy. No number shrinks if the window grows.

    `completion` is reserved for the answer. Without it, `max_output` is, but at most half of the window, unless the
    policy reserves more.
    """
    whole = model.window if window is None else window
    reserve = _completion_reserve(policy, model, whole, completion)
    if completion is None and max_output is not None:
        reserve = min(max_output, max(reserve, int(whole * _MAX_RESERVE)))
    caps = [cap for cap in (policy.total_tokens, model.max_input) if cap is not None]
    hard = min([max(0, whole - reserve), *caps])
    in_use = min(whole, hard + reserve)  # of a capped prompt, less can be miscounted
    margin = min(hard, max(math.floor(in_use * policy.margin.share), policy.margin.tokens))
    limits: dict[str, int] = {}
    for pool in policy.pools:
        limits[pool.name] = _limit_tokens(
            pool.limit, limits, window=whole, prompt=max(0, whole - reserve), available=hard - margin
        )
    return ContextBudget(
        model=model.id,
        policy=policy.name,
        window=whole,
        completion=reserve,
        margin=margin,
        hard_limit=hard,
        available=hard - margin,
        pools=tuple(PoolLimit(name=name, limit=tokens) for name, tokens in limits.items()),
        system_tokens=next((pool.limit.subtract for pool in policy.pools if pool.name == "recent"), 0),
    )


def smaller_reserve_notice(reserved: int, requested: int) -> Notice:
    """Return a notice that the request allows a longer answer than there is room for."""
    return Notice(
        kind="smaller-reserve",
        text=f"{reserved:,} tokens are reserved for the answer, not the {requested:,} that the request allows",
        facts={"reserved": reserved, "requested": requested},
    )


def _completion_reserve(policy: Policy, model: ModelInfo, window: int, requested: int | None) -> int:
    if requested is not None:
        return requested
    share = math.floor(window * policy.completion.max_share)
    return max(1, min(policy.completion.tokens, share, model.max_output))


def _limit_tokens(limit: Limit, earlier: dict[str, int], *, window: int, prompt: int, available: int) -> int:
    tokens = available
    if limit.share is not None:
        base = window if limit.of == "window" else prompt
        tokens = math.floor(max(0, base - limit.subtract) * limit.share)
    if limit.min_ratio is not None and limit.ratio_to is not None:
        tokens = max(tokens, math.floor(earlier[limit.ratio_to] * limit.min_ratio))
    return tokens if limit.tokens is None else min(tokens, limit.tokens)


def rules_digest(policy: Policy, budget: ContextBudget) -> str:
    """Return a hash that distinguishes policies and budgets with the same names.

    A conversation that no longer fits goes on as the same one, although its history then takes less.
    """
    rules = (with_searched_history(policy), msgspec.structs.replace(budget, pools=()))
    return hashlib.blake2b(msgspec.json.encode(rules), digest_size=16).hexdigest()
