"""Policies: completion reserve, margin, pools, weights, trim order and layout.

`violations` has all checks; loading a file only adds the file's name to them.
"""

import math
from collections.abc import Iterator, Mapping
from copy import deepcopy
from fnmatch import fnmatchcase
from functools import lru_cache
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, Literal

import msgspec

from brimful.core.content import ContentPackage
from brimful.core.validation import is_timezone

Order = Literal["score", "newest", "relevance"]
Method = Literal["approximate", "exact", "calibrated", "hybrid"]
"""How to count.

- `approximate`: four characters a token, the rule of thumb.
- `exact`: the model's own tokenizer, or an error.
- `calibrated`: another tokenizer's count times a factor, with a margin.
- `hybrid`: exact where possible, calibrated otherwise. A count's basis says which it was.
"""

PRICES: Final = MappingProxyType({"thrifty": 0.05, "balanced": 0.015, "full": 0.0})
"""Named prices of 1,000 tokens, in worth. `full` takes whatever fits."""

_SHARES: Final = (
    *("min_relevance", "min_memory_relevance", "min_share_of_best", "min_best_relevance", "min_total_relevance"),
    *("margin.share", "completion.max_share", "tools.max_share"),
)
"""Keys with a number from 0 to 1."""

RelatedPosition = Literal["before-current", "system"]
RelatedOrder = Literal["best-last", "best-first", "time"]
RecallMode = Literal["off", "tool"]
"""Whether a request that left something out offers the model a tool to recall it."""


class Limit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The token limit of a pool: a `share`, at least `min_ratio` times the limit of pool `ratio_to`, at most `tokens`.

    The share is of the window, or of the window without the completion (`prompt`), after subtracting `subtract` tokens.
    An empty limit means no limit.
    """

    tokens: int | None = None
    share: float | None = None
    of: Literal["window", "prompt"] = "window"
    subtract: int = 0
    min_ratio: float | None = None
    ratio_to: str | None = None


class HistoryLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits for the conversation in a pool that takes other content, too.

    They hold for messages and tool calls, newest first. `share` is of the tokens that the pool may use.
    """

    min_items: int = 0
    max_items: int | None = None
    share: float | None = None


NO_HISTORY_LIMITS: Final = HistoryLimits()


class Need(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The probability that an answer needs a turn of the conversation, and what follows from it for history.

    - `newest`: the probability for the last turn. The odds of the turn n turns back are those times n ** −`decay`.
    - `own`: a factor of the odds for turns of the one who speaks now: people mostly refer to what others said.
    - `mentioned`: a factor of the odds for turns with a rare word of the current message.
    - `min_share`: the share of the pool's limit that history has in any case.
    - `reread`: what reading 1,000 tokens of history again costs, in worth, because a step broke the prompt cache.
    - `searched_share`: the share of the limit's base that history takes at most, without borrowing, if tokens have a
      price and a search finds what it leaves out, as in an engine.
    """

    newest: float
    decay: float
    own: float = 1.0
    mentioned: float = 1.0
    min_share: float = 0.0
    reread: float = 0.0
    searched_share: float | None = None


class LedgerRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How an agent's run is trimmed: what the user said and the newest steps stay, others become lines of a ledger.

    - `users`: the share of the pool for what the user said. The first message stays in any case.
    - `newest`: the share of the rest that the newest steps may take in full, even if the ledger needs more.
    - `max_share`: a ledger that takes more of the pool is written again, with a summary of the oldest steps.
    - `clear_at_least`: how much a trim clears, besides what `low_water` asks for: tokens, a share of the pool below 1,
      or `cheapest`: so much that rewriting the cache and what is missing until it has grown back cost least together.
    """

    users: float = 0.25
    newest: float = 0.25
    max_share: float = 0.6
    clear_at_least: float | Literal["cheapest"] = "cheapest"


class FreeItems(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Items of a best set that get in whatever they are worth, as long as there is room: leaving them out costs more.

    If all items of these `kinds` together take at most `tokens`, all of them are free. Otherwise the best `items` are,
    as far as they take at most `max_tokens`.
    """

    kinds: tuple[str, ...]
    tokens: int = 0
    items: int = 0
    max_tokens: int = 0

    def takes(self, kind: str) -> bool:
        """Whether items of this kind may be free."""
        return _matches(self.kinds, kind)


class Pool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of the window, and the packages that compete for it.

    - `kinds`: patterns such as `memory-*`; `!media-*` excludes kinds. `pinned`: only pinned, or only unpinned packages.
    - `order`: what goes in first. `contiguous`: stop at the first item that does not fit, so that there are no gaps.
    - `optimize`: choose the set with the highest total score instead of filling in order.
    - `free`: items of that set which need not be worth their tokens.
    - `min_items`, `max_items`: the minimum may use the safety margin, never the completion reserve.
    - `history`: limits for messages and tool calls among other kinds.
    - `borrow`: use tokens that other pools left over.
    - `summarize`: replace clusters by their summary before dropping them.
    - `low_water`: when history must be trimmed, trim it to this share of its limit, so that it happens rarely.
    - `task_share`: of the pool, for the task of an agent without tools, which stays when older turns are dropped.
    - `need`: divide the window between this pool and best sets after it by what turns and finds are worth.
    - `ledger`: keep what the user said and the newest steps, and write a line for every other step.
    - `dedupe`: drop items with the same normalized text as a kept one: only `retrieved` items, since two people may say
      "ok"; `all`; or only items with the same id (`id`).
    """

    name: str
    kinds: tuple[str, ...]
    pinned: bool | None = None
    limit: Limit = Limit()
    order: Order = "score"
    contiguous: bool = False
    optimize: bool = False
    free: FreeItems | None = None
    min_items: int = 0
    max_items: int | None = None
    history: HistoryLimits = NO_HISTORY_LIMITS
    borrow: bool = False
    summarize: bool = False
    low_water: float | None = None
    task_share: float = 0.0
    need: Need | None = None
    ledger: LedgerRules | None = None
    dedupe: Literal["retrieved", "all", "id"] = "retrieved"

    def takes(self, package: ContentPackage) -> bool:
        """Whether the package goes into this pool, unless an earlier one takes it."""
        if self.pinned is not None and package.pinned is not self.pinned:
            return False
        return _matches(self.kinds, package.kind)


class Weights(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The weights of the composite score. Recency decays as exp(−days / `recency_days`).

    With `multiply_by_relevance`, relevance is the probability that an item is useful and the other parts are its value.
    The score is their product, the expected value, and relevance has no weight of its own.
    """

    priority: float = 0.4
    importance: float = 0.3
    relevance: float = 0.2
    recency: float = 0.1
    recency_days: float = 30.0
    multiply_by_relevance: bool = False


class Margin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The safety margin: a share of the window or a number of tokens, whichever is larger."""

    share: float = 0.0
    tokens: int = 0


class Completion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tokens reserved for the answer, at most `max_share` of the window.

    `gives_way` says that a request that allows a longer answer than this gets less of it before required content is
    shortened.
    """

    tokens: int = 3000
    max_share: float = 1.0
    gives_way: bool = True


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A trimming step: drop the worst items of a pool, or replace its clusters by their summaries."""

    drop: str | None = None
    summarize: str | None = None


SpecialTokens = Literal["break", "keep"]


class Layout(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the prompt is arranged.

    `related` is the position of retrieved content: before the current message, or in a system message before history.
    `order` is the order of its items. `special_tokens` says whether tokens of chat templates that content spells
    out are broken up.

    With `resolve_times`, the date that a relative time means is written behind it in pinned and retrieved content:
    "yesterday (7 May 2023)". With `history_days`, the first message that a user wrote on a day begins with that day.
    `timezone` says when a day begins.
    """

    related: RelatedPosition = "before-current"
    order: RelatedOrder = "best-last"
    special_tokens: SpecialTokens = "break"
    resolve_times: bool = False
    history_days: bool = False
    timezone: str = "UTC"


class Forms(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may be shortened before it is dropped: items of these `kinds` with more than `over` tokens.

    `min_tokens` is the smallest excerpt. Where there is not even room for that, history keeps one line about the item.
    """

    kinds: tuple[str, ...] = ()
    over: int = 300
    min_tokens: int = 60

    def allow(self, kind: str, tokens: int) -> bool:
        """Whether an item of this kind and size may be shortened."""
        return tokens > self.over and _matches(self.kinds, kind)


MediaUse = Literal["always", "needed", "never"]
"""When the pictures, audio and documents of messages are sent.

- `always`: as long as there is room.
- `needed`: media of older messages only if the current message also asks about them.
- `never`: each is one line of text.
"""


Compacting = Literal["off", "rules", "model"]
"""Who writes the summary that stands for what trimmed requests of a conversation leave out.

- `off`: nobody; there is none.
- `rules`: rules, so that equal messages give an equal summary.
- `model`: a model, or the rules if it fails.
"""


class MediaRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When the media of messages are sent."""

    when: MediaUse = "always"


class ToolRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What becomes of tool definitions if the request does not fit.

    - `trim`: whether they may be shortened or left out at all.
    - `max_share`: the share of the budget that they may take. With 1, they give way only to required content.
    """

    trim: bool = True
    max_share: float = 1.0


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A named way to fill a window.

    `price` is what 1,000 tokens cost, in worth. Where the best set is chosen, an item gets in only if it is worth more
    than its tokens, even if there is room. With 0, everything gets in that fits. With a price, a message or memory that
    was found gets in only if it has at least `min_relevance` (or `min_memory_relevance`, since memories are short and
    were kept on purpose), at least `min_share_of_best` of the relevance of the best that its search found, and if that
    search is likely to have found an answer: the best has at least `min_best_relevance`, all add up to
    `min_total_relevance`, or this one stands out among them.

    With `ephemeral_summaries`, the engine summarizes older messages for a single context if they do not fit and no
    stored summary covers them. With `compaction`, the proxy's `fit` mode does so for what it leaves out of requests.

    With `recall = "tool"`, a fitted request that left something out offers the model a tool to recall it.
    """

    name: str
    description: str = ""
    counting: Method = "hybrid"
    total_tokens: int | None = None
    price: float = 0.0
    min_relevance: float = 0.0
    min_memory_relevance: float | None = None
    min_share_of_best: float = 0.0
    min_best_relevance: float = 0.0
    min_total_relevance: float = 1.0
    completion: Completion = Completion()
    margin: Margin = Margin()
    weights: Weights = Weights()
    pools: tuple[Pool, ...]
    trim: tuple[Step, ...] = ()
    layout: Layout = Layout()
    forms: Forms = Forms()
    ephemeral_summaries: bool = False
    compaction: Compacting = "off"
    media: MediaRules = MediaRules()
    recall: RecallMode = "off"
    tools: ToolRules = ToolRules()

    @property
    def token_price(self) -> float:
        """The price of one token."""
        return self.price / 1_000

    def min_relevance_of(self, kind: str) -> float:
        """Return the relevance that a find of a kind must have."""
        own = self.min_memory_relevance if kind.startswith("memory-") else None
        return self.min_relevance if own is None else own

    def pool(self, name: str) -> Pool:
        """Return the pool of that name."""
        return next(pool for pool in self.pools if pool.name == name)

    def pool_for(self, package: ContentPackage) -> Pool | None:
        """Return the first pool that takes the package."""
        return next((pool for pool in self.pools if pool.takes(package)), None)

    def pool_for_kind(self, kind: str) -> Pool | None:
        """Return the first pool that takes unpinned packages of a kind."""
        return next((pool for pool in self.pools if not pool.pinned and _matches(pool.kinds, kind)), None)


def with_searched_history(policy: Policy) -> Policy:
    """Return a policy for a conversation that is searched: history takes less, because what it leaves out is found."""
    if not policy.price:
        return policy
    return msgspec.structs.replace(policy, pools=tuple(map(_with_searched_share, policy.pools)))


def _with_searched_share(pool: Pool) -> Pool:
    share = pool.need.searched_share if pool.need else None
    if share is None:
        return pool
    own = 1.0 if pool.limit.share is None else pool.limit.share
    return msgspec.structs.replace(pool, limit=msgspec.structs.replace(pool.limit, share=min(own, share)), borrow=False)


def apply_overrides(policy: Policy, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the policy as plain data with dotted keys replaced: `pools.recent.max_items = 50`.

    Pools are addressed by name. The caller validates the result by converting it to a `Policy` again.
    """
    data: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(policy))
    for dotted, value in overrides.items():
        *path, last = dotted.split(".")
        node: Any = data
        for key in path:
            node = _child(node, key)
        if not isinstance(node, dict):
            raise KeyError(dotted)
        node[last] = deepcopy(value)  # a later key may change it
    return data


def violations(policy: Policy) -> Iterator[tuple[str, str]]:
    """Yield the key and the reason of everything invalid in a policy."""
    names = [pool.name for pool in policy.pools]
    if not policy.pools:
        yield "pools", "a policy needs at least one pool"
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"pools.{name}", "is the name of two pools"
    # The window is divided between the turns of one pool and the search results in the others.
    for pool in [pool for pool in policy.pools if pool.need is not None][1:]:
        yield f"pools.{pool.name}.need", "is for one pool only, and an earlier one has it"
    for index, pool in enumerate(policy.pools):
        yield from _pool_violations(pool, names[:index])
    for index, step in enumerate(policy.trim):
        yield from _step_violations(f"trim[{index}]", step, names)
    yield from _weight_violations(policy.weights)
    for key in _SHARES:
        yield from _check_number(key, attrgetter(key)(policy), 0.0, 1.0)
    yield from _check_integer("margin.tokens", policy.margin.tokens, 0)
    yield from _check_number("price", policy.price, 0.0, 1e6)
    if not is_timezone(policy.layout.timezone):
        yield "layout.timezone", f"is not a time zone: {policy.layout.timezone!r}; write one such as 'Europe/Berlin'"
    yield from _check_integer("completion.tokens", policy.completion.tokens, 1)
    yield from _check_integer("forms.min_tokens", policy.forms.min_tokens, 1)
    yield from _check_integer("forms.over", policy.forms.over, policy.forms.min_tokens)
    yield from _check_integer("total_tokens", policy.total_tokens, 1)


def _weight_violations(weights: Weights) -> Iterator[tuple[str, str]]:
    for key in ("priority", "importance", "relevance", "recency"):
        yield from _check_number(f"weights.{key}", getattr(weights, key), 0.0, 1.0)
    yield from _check_number("weights.recency_days", weights.recency_days, 1e-6, 1e9)
    if weights.multiply_by_relevance and not weights.priority + weights.importance + weights.recency:
        yield "weights.multiply_by_relevance", "needs a positive weight of priority, importance or recency"


def _pool_violations(pool: Pool, earlier: list[str]) -> Iterator[tuple[str, str]]:
    path = f"pools.{pool.name}"
    if not pool.name:
        yield "pools", "a pool needs a name"
    if not pool.kinds:
        yield f"{path}.kinds", "must contain at least one kind, or '*'"
    if pool.contiguous and pool.optimize:  # a best set may have gaps
        yield f"{path}.optimize", "cannot be combined with contiguous"
    if pool.need is not None and not pool.contiguous:
        yield f"{path}.need", "needs contiguous = true"
    if pool.low_water is not None and not pool.contiguous and pool.ledger is None:
        yield f"{path}.low_water", "needs contiguous = true"
    yield from _ledger_violations(f"{path}.ledger", pool) if pool.ledger is not None else ()
    yield from _free_violations(f"{path}.free", pool.free) if pool.free is not None else ()
    yield from _check_number(f"{path}.low_water", pool.low_water, 0.0, 1.0)
    yield from _check_number(f"{path}.task_share", pool.task_share, 0.0, 1.0)
    yield from _need_violations(f"{path}.need", pool.need) if pool.need is not None else ()
    yield from _item_violations(path, pool)
    yield from _item_violations(f"{path}.history", pool.history)
    yield from _check_number(f"{path}.history.share", pool.history.share, 0.0, 1.0)
    yield from _limit_violations(f"{path}.limit", pool.limit, earlier)


def _item_violations(path: str, limits: Pool | HistoryLimits) -> Iterator[tuple[str, str]]:
    yield from _check_integer(f"{path}.min_items", limits.min_items, 0)
    yield from _check_integer(f"{path}.max_items", limits.max_items, max(1, limits.min_items))


def _free_violations(path: str, free: FreeItems) -> Iterator[tuple[str, str]]:
    if not free.kinds:
        yield f"{path}.kinds", "must contain at least one kind, or '*'"
    for key in ("tokens", "items", "max_tokens"):
        yield from _check_integer(f"{path}.{key}", getattr(free, key), 0)


def _ledger_violations(path: str, pool: Pool) -> Iterator[tuple[str, str]]:
    for key in ("contiguous", "optimize", "summarize", "min_items", "max_items"):
        if getattr(pool, key):
            yield path, f"cannot be combined with {key}"
    for key in ("users", "newest", "max_share"):
        yield from _check_number(f"{path}.{key}", getattr(pool.ledger, key), 0.0, 1.0)
    if pool.ledger is not None and pool.ledger.clear_at_least != "cheapest":
        yield from _check_number(f"{path}.clear_at_least", pool.ledger.clear_at_least, 0.0, 1e9)


def _need_violations(path: str, need: Need) -> Iterator[tuple[str, str]]:
    for key, highest in (("newest", 0.999), ("decay", 100.0), ("own", 100.0), ("mentioned", 100.0), ("min_share", 1.0)):
        yield from _check_number(f"{path}.{key}", getattr(need, key), 0.0, highest)
    yield from _check_number(f"{path}.reread", need.reread, 0.0, 1e6)
    yield from _check_number(f"{path}.searched_share", need.searched_share, 0.0, 1.0)


def _limit_violations(path: str, limit: Limit, earlier: list[str]) -> Iterator[tuple[str, str]]:
    yield from _check_integer(f"{path}.tokens", limit.tokens, 0)
    yield from _check_number(f"{path}.share", limit.share, 0.0, 1.0)
    yield from _check_integer(f"{path}.subtract", limit.subtract, 0)
    if (limit.min_ratio is None) is not (limit.ratio_to is None):
        yield path, "'min_ratio' and 'ratio_to' go together"
    elif limit.min_ratio is not None:
        yield from _check_number(f"{path}.min_ratio", limit.min_ratio, 0.0, 1e6)
        if limit.ratio_to not in earlier:
            yield f"{path}.ratio_to", f"no earlier pool is named {limit.ratio_to!r}"


def _step_violations(path: str, step: Step, names: list[str]) -> Iterator[tuple[str, str]]:
    if (step.drop is None) is (step.summarize is None):
        yield path, "must have either 'drop' or 'summarize'"
    for pool in (step.drop, step.summarize):
        if pool is not None and pool not in names:
            yield path, f"no pool is named {pool!r}"


def _check_number(key: str, value: float | None, low: float, high: float) -> Iterator[tuple[str, str]]:
    if value is not None and (not math.isfinite(value) or not low <= value <= high):
        yield key, f"must be a number from {low:g} to {high:g}, not {value!r}"


def _check_integer(key: str, value: int | None, low: int) -> Iterator[tuple[str, str]]:
    if value is not None and value < low:
        yield key, f"must be at least {low}, not {value!r}"


def _child(node: Any, key: str) -> Any:
    """Return the pool of that name, or the value of that key, or None."""
    if isinstance(node, list):
        return next((item for item in node if item.get("name") == key), None)
    return node.get(key) if isinstance(node, dict) else None


@lru_cache(maxsize=4096)
def _matches(patterns: tuple[str, ...], kind: str) -> bool:
    """Whether some pattern matches the kind, and no pattern that starts with `!` excludes it."""
    included = any(fnmatchcase(kind, pattern) for pattern in patterns if not pattern.startswith("!"))
    return included and not any(fnmatchcase(kind, pattern[1:]) for pattern in patterns if pattern.startswith("!"))
