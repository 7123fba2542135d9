"""The worth of turns of the conversation, and how history and search results share the window.

Both are measured by the probability that they are needed, so that they can be compared: a turn by how long
ago it was, a search result by its relevance.
"""

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final

import msgspec

from brimful.cache import content_bytes, memoize
from brimful.core.content import ContentPackage
from brimful.core.cost import role_of, sender_of
from brimful.core.decision import RETRIEVED_KINDS
from brimful.core.frame import part_text
from brimful.core.policy import FreeItems, Need, Policy, Pool
from brimful.core.units import Unit, make_pool_lookup, time_key, total_cost

_READ: Final = 64  # turns that are searched for words of the current message: older ones are hardly needed anyway
_READ_CHARS: Final = 10_000  # of each of their parts
ADDED_UP: Final = 50  # of the best finds of a search: many unlikely ones may still be likely to have the answer
_RARE: Final = 0.1  # of these turns may have a word that counts as rare
_WORD: Final = re.compile(r"\w{3,}")


def find_needs(packages: Sequence[ContentPackage], policy: Policy) -> dict[str, float]:
    """Return the probability that the answer needs a turn, by id, for each turn in a pool with `need`.

    A message that something older answers is not about the last turns.
    """
    pool = next((pool for pool in policy.pools if pool.need is not None), None)
    if pool is None or pool.need is None:
        return {}
    pool_of = make_pool_lookup(policy)
    current = max((each for each in packages if each.kind == "message-current"), key=time_key, default=None)
    turns = [each for each in packages if each.relevance is None and each is not current and pool_of(each) == pool.name]
    turns.sort(key=time_key, reverse=True)
    none_helps = math.prod(1 - relevance for relevance in _relevances(packages))
    speaker = (role_of(current), sender_of(current)) if current else None
    mentioned = _find_mentioned(turns[:_READ], current) if current else set()
    return {
        turn.id: none_helps
        * _probability(pool.need, n, own=(role_of(turn), sender_of(turn)) == speaker, is_mentioned=turn.id in mentioned)
        for n, turn in enumerate(turns, start=1)
    }


def mark_exceptions(units: Sequence[Unit], policy: Policy) -> list[Unit]:
    """Mark units that need not be worth their tokens, and results that are too unlikely to help.

    The few memories of a user cost less than leaving out the one that matters. Of many, the best ones do.
    """
    if not policy.price:
        return list(units)
    free = {key for pool in policy.pools if pool.free is not None for key in _free_keys(pool, pool.free, units)}
    unlikely = _find_unlikely(units, policy)
    return [
        msgspec.structs.replace(unit, free=unit.key in free, unlikely=unit.key in unlikely)
        if unit.key in free or unit.key in unlikely
        else unit
        for unit in units
    ]


def _free_keys(pool: Pool, free: FreeItems, units: Sequence[Unit]) -> Iterator[str]:
    mine = [unit for unit in units if unit.pool == pool.name and free.takes(unit.packages[0].kind)]
    if total_cost(mine) <= free.tokens:
        return (unit.key for unit in mine)
    best = sorted(mine, key=lambda unit: (-unit.score.total, unit.key))[: free.items]
    spent = accumulate(unit.cost for unit in best)
    return (unit.key for unit, used in zip(best, spent, strict=True) if used <= free.max_tokens)


def _find_unlikely(units: Sequence[Unit], policy: Policy) -> set[str]:
    """Return the units of finds that are unlikely to help."""
    findings = Findings.of([package for unit in units for package in unit.packages])
    return {unit.key for unit in units if all(is_unlikely(each, policy, findings) for each in unit.packages)}


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """What a search found: the highest relevance, and the sum of the highest ones.

    The sum is how many of them are expected to help. It tells whether there is an answer, even if it may be any of
    many texts that are all alike.
    """

    best: float = 1.0
    total: float = 1.0

    @classmethod
    def of(cls, packages: Sequence[ContentPackage]) -> "Findings":
        """Return the findings as if one search had found all messages and memories."""
        found = sorted(_relevances(packages), reverse=True)[:ADDED_UP]
        return cls(best=max(found, default=0.0), total=sum(found))


def is_unlikely(package: ContentPackage, policy: Policy, findings: Findings) -> bool:
    """Whether a message or memory that was found is unlikely to help, or its search found nothing that is likely to.

    `findings` are for packages that do not know what their search found: what one search found says nothing about the
    finds of another. A find that stands out may get in alone.
    """
    if package.relevance is None or not package.kind.startswith(RETRIEVED_KINDS):
        return False
    best, total, stands_out = findings.best, findings.total, False
    match package.metadata.get("search"):
        case {"best": float() as own_best, "total": float() as own_total, "stands_out": bool() as known}:
            best, total, stands_out = own_best, own_total, known
    least = max(policy.min_relevance_of(package.kind), policy.min_share_of_best * best)
    likely = best >= policy.min_best_relevance or total >= policy.min_total_relevance or stands_out
    return package.relevance < least or not likely


def _relevances(packages: Sequence[ContentPackage]) -> Iterator[float]:
    """Yield the relevance of each message and memory that was found."""
    return (each.relevance for each in packages if each.relevance is not None and each.kind.startswith(RETRIEVED_KINDS))


def _probability(need: Need, n: int, *, own: bool, is_mentioned: bool) -> float:
    factor = (need.own if own else 1.0) * (need.mentioned if is_mentioned else 1.0)
    odds = need.newest / (1 - need.newest) * math.pow(n, -need.decay) * factor
    return odds / (1 + odds)


def _find_mentioned(turns: Sequence[ContentPackage], current: ContentPackage) -> set[str]:
    """Return the ids of turns that have a rare word in common with the current message."""
    asked = _words(current)
    words = {turn.id: _words(turn) & asked for turn in turns}
    often = Counter(word for common in words.values() for word in common)
    return {id for id, common in words.items() if any(often[word] <= max(1.0, _RARE * len(turns)) for word in common)}


def _words(package: ContentPackage) -> frozenset[str]:
    texts = [part_text(part)[:_READ_CHARS] for part in package.parts]
    return _words_in(texts[0]) if len(texts) == 1 else frozenset().union(*map(_words_in, texts))


_words_in: Final = memoize(
    lambda text: frozenset(_WORD.findall(text.lower())), name="texts", size=lambda args, _: 4 * content_bytes(args[0])
)
"""Cached, because history is compared with every message."""


class Balance:
    """What history and finds are worth together, by how many tokens of the window history gets.

    `turns` are the units of history, newest first, and `found` are all units that want the rest of the `tokens`.
    """

    def __init__(self, turns: Sequence[Unit], found: Sequence[Unit], tokens: int, price: float) -> None:
        self._tokens = tokens
        self._costs = list(accumulate((unit.cost for unit in turns), initial=0))
        self._values = list(accumulate((unit.value for unit in turns), initial=0.0))
        worth = [unit for unit in found if unit.is_worth(price)]
        worth.sort(key=lambda unit: unit.value / (unit.cost or 1), reverse=True)
        self._found_costs = list(accumulate((unit.cost for unit in worth), initial=0))
        self._found_values = list(accumulate((unit.value for unit in worth), initial=0.0))

    def worth(self, history: int) -> float:
        """Return the expected number of useful items if history gets so many tokens."""
        return _value_within(self._costs, self._values, history, whole=True) + _value_within(
            self._found_costs, self._found_values, self._tokens - history, whole=False
        )

    def best(self, least: int, most: int) -> int:
        """Return how many tokens history should get, from `least` to `most`; of equally good numbers, the largest."""
        sizes = [least, *(cost for cost in self._costs if least < cost < most), most]
        return max(sizes, key=lambda size: (self.worth(size), size))


def _value_within(costs: Sequence[int], values: Sequence[float], tokens: int, *, whole: bool) -> float:
    """Return the value of what fits into the tokens, in order. Unless only whole units count, with part of the next."""
    tokens = max(0, tokens)
    index = bisect_right(costs, tokens) - 1
    if whole or index + 1 == len(costs):
        return values[index]
    share = (tokens - costs[index]) / (costs[index + 1] - costs[index])
    return values[index] + share * (values[index + 1] - values[index])
