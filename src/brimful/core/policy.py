"""What a policy file says: reserves, margins, pools, weights, trim order, layout.

Every check is here, in `violations`; the reader of the files only adds the file's name.
"""

import math
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Literal

import msgspec

from brimful.core.content import ContentPackage

Order = Literal["score", "newest", "relevance"]
Method = Literal["approximate", "exact", "calibrated", "hybrid"]
"""How to count.

- `approximate`: four characters a token, the rule of thumb.
- `exact`: the model's own tokenizer, or an error.
- `calibrated`: another tokenizer's count times a factor, with a margin.
- `hybrid`: exact where possible, calibrated otherwise. A count's basis says which it was.
"""

RelatedPosition = Literal["before-current", "system"]


class Limit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many tokens a pool may take: a `share`, but at least `times` the limit of `pool`, and at most `tokens`.

    The share is of the window, or of what the window leaves beside the completion (`prompt`), `minus` tokens first.
    A limit that says nothing is no limit.
    """

    tokens: int | None = None
    share: float | None = None
    of: Literal["window", "prompt"] = "window"
    minus: int = 0
    times: float | None = None
    pool: str | None = None


class Pool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of the window, and who may compete for it.

    - `kinds`: patterns (`memory-*`; `!media-*` takes out again); `pinned` narrows them to what is, or is not, pinned.
    - `order`: who comes first. `contiguous`: the first that does not fit ends the pool, so that no gap is left.
    - `optimize`: choose the set of the highest total score instead of going down the list.
    - `least` and `most`: numbers of items. The least may use the safety margin, never the completion reserve.
    - `borrow`: takes tokens that other pools left unspent.
    - `summarize`: clusters that would be dropped give way to their summary first.
    - `low_water`: once history must be trimmed, trim to this share of what it may take, so that it happens rarely.
    - `dedupe`: drop what has the same normalized text as something kept: only what was `retrieved` (two people may say
      "ok"), `all`, or nothing but the same id (`id`).
    """

    name: str
    kinds: tuple[str, ...]
    pinned: bool | None = None
    limit: Limit = Limit()
    order: Order = "score"
    contiguous: bool = False
    optimize: bool = False
    least: int = 0
    most: int | None = None
    borrow: bool = False
    summarize: bool = False
    low_water: float | None = None
    dedupe: Literal["retrieved", "all", "id"] = "retrieved"

    def takes(self, package: ContentPackage) -> bool:
        """Whether the package competes in this pool."""
        if self.pinned is not None and bool(package.metadata.get("pinned")) is not self.pinned:
            return False
        return _matches(self.kinds, package.kind)


class Weights(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much each part adds to the composite score; recency decays as exp(−days / `recency_days`).

    Where `relevance_multiplies`, relevance is taken for the probability that an item is of use, and the other parts for
    its use: the score is their product, what one may expect of the item, and relevance has no weight of its own.
    """

    priority: float = 0.4
    importance: float = 0.3
    relevance: float = 0.2
    recency: float = 0.1
    recency_days: float = 30.0
    relevance_multiplies: bool = False


class Margin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tokens left free for what cannot be known: the larger of a share of the window and a number."""

    share: float = 0.0
    tokens: int = 0


class Completion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tokens kept for the answer, but at most this share of the window."""

    tokens: int = 3000
    at_most_share: float = 1.0


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One step of trimming: drop the worst of a pool, or put summaries in the place of its clusters.

    With `below`, only what scores less is dropped.
    """

    drop: str | None = None
    below: float | None = None
    summarize: str | None = None


class Layout(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where retrieved content stands: right before the current message, or in a system message before history."""

    related: RelatedPosition = "before-current"


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A named way to fill a window."""

    name: str
    description: str = ""
    counting: Method = "hybrid"
    total_tokens: int | None = None
    completion: Completion = Completion()
    margin: Margin = Margin()
    weights: Weights = Weights()
    pools: tuple[Pool, ...]
    trim: tuple[Step, ...] = ()
    layout: Layout = Layout()

    def pool(self, name: str) -> Pool:
        """Return the pool of that name."""
        return next(pool for pool in self.pools if pool.name == name)

    def pool_for(self, package: ContentPackage) -> Pool | None:
        """Return the first pool that takes the package."""
        return next((pool for pool in self.pools if pool.takes(package)), None)


def apply_overrides(policy: Policy, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the policy as plain data with dotted keys replaced: `pools.recent.most = 50`.

    Pools are addressed by name. The result is validated by whoever turns it into a `Policy` again.
    """
    data: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(policy))
    for dotted, value in overrides.items():
        *path, last = dotted.split(".")
        node: Any = data
        for key in path:
            node = _child(node, key)
        if not isinstance(node, dict):
            raise KeyError(dotted)
        node[last] = value
    return data


def violations(policy: Policy) -> Iterator[tuple[str, str]]:
    """Yield (key, reason) for everything in the policy that cannot be meant."""
    names = [pool.name for pool in policy.pools]
    if not policy.pools:
        yield "pools", "a policy needs at least one pool"
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"pools.{name}", "two pools have this name"
    for at, pool in enumerate(policy.pools):
        yield from _pool_violations(pool, names[:at])
    for at, step in enumerate(policy.trim):
        yield from _step_violations(f"trim[{at}]", step, names)
    weights = policy.weights
    for key in ("priority", "importance", "relevance", "recency"):
        yield from _check_number(f"weights.{key}", getattr(weights, key), 0.0, 1.0)
    yield from _check_number("weights.recency_days", weights.recency_days, 1e-6, 1e9)
    if weights.relevance_multiplies and not weights.priority + weights.importance + weights.recency:
        yield "weights.relevance_multiplies", "needs a weight of priority, importance or recency to multiply"
    yield from _check_number("margin.share", policy.margin.share, 0.0, 1.0)
    yield from _check_integer("margin.tokens", policy.margin.tokens, 0)
    yield from _check_integer("completion.tokens", policy.completion.tokens, 1)
    yield from _check_number("completion.at_most_share", policy.completion.at_most_share, 0.0, 1.0)
    if policy.total_tokens is not None:
        yield from _check_integer("total_tokens", policy.total_tokens, 1)


def _pool_violations(pool: Pool, earlier: list[str]) -> Iterator[tuple[str, str]]:
    at = f"pools.{pool.name}"
    if not pool.name:
        yield "pools", "a pool needs a name"
    if not pool.kinds:
        yield f"{at}.kinds", "must name at least one kind (or '*')"
    if pool.contiguous and pool.optimize:
        yield f"{at}.optimize", "a contiguous pool is filled in order; it cannot be optimized"
    if pool.low_water is not None:
        yield from _check_number(f"{at}.low_water", pool.low_water, 0.0, 1.0)
        if not pool.contiguous:
            yield f"{at}.low_water", "only a contiguous pool is trimmed in steps"
    yield from _check_integer(f"{at}.least", pool.least, 0)
    if pool.most is not None:
        yield from _check_integer(f"{at}.most", pool.most, max(1, pool.least))
    yield from _limit_violations(f"{at}.limit", pool.limit, earlier)


def _limit_violations(at: str, limit: Limit, earlier: list[str]) -> Iterator[tuple[str, str]]:
    if limit.tokens is not None:
        yield from _check_integer(f"{at}.tokens", limit.tokens, 0)
    if limit.share is not None:
        yield from _check_number(f"{at}.share", limit.share, 0.0, 1.0)
    yield from _check_integer(f"{at}.minus", limit.minus, 0)
    if (limit.times is None) is not (limit.pool is None):
        yield at, "'times' and 'pool' go together"
    elif limit.times is not None:
        yield from _check_number(f"{at}.times", limit.times, 0.0, 1e6)
        if limit.pool not in earlier:
            yield f"{at}.pool", f"no earlier pool is named {limit.pool!r}"


def _step_violations(at: str, step: Step, names: list[str]) -> Iterator[tuple[str, str]]:
    if (step.drop is None) is (step.summarize is None):
        yield at, "says either 'drop' or 'summarize'"
    if step.below is not None:
        yield from _check_number(f"{at}.below", step.below, 0.0, 1.0)
    for pool in (step.drop, step.summarize):
        if pool is not None and pool not in names:
            yield at, f"no pool is named {pool!r}"


def _check_number(key: str, value: float, low: float, high: float) -> Iterator[tuple[str, str]]:
    if not math.isfinite(value) or not low <= value <= high:
        yield key, f"must be a number from {low:g} to {high:g}, not {value!r}"


def _check_integer(key: str, value: int, low: int) -> Iterator[tuple[str, str]]:
    if value < low:
        yield key, f"must be a whole number of at least {low}, not {value!r}"


def _child(node: Any, key: str) -> Any:
    """Return the pool of that name, or what stands under that key; nothing if there is neither."""
    if isinstance(node, list):
        return next((item for item in node if item.get("name") == key), None)
    return node.get(key) if isinstance(node, dict) else None


@lru_cache(maxsize=4096)
def _matches(patterns: tuple[str, ...], kind: str) -> bool:
    """Tell whether a kind is meant: some pattern names it, and none that begins with `!` takes it out again."""
    wanted = any(fnmatchcase(kind, pattern) for pattern in patterns if not pattern.startswith("!"))
    return wanted and not any(fnmatchcase(kind, pattern[1:]) for pattern in patterns if pattern.startswith("!"))
