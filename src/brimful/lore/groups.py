"""Inclusion groups: only one entry of a group is activated. Ties are broken by a reproducible random number."""

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from brimful.lore.index import PreparedEntry
from brimful.lore.reasons import LoreExclusion

_RANGE = 2.0**64


def roll(seed: str, *what: str | int) -> float:
    """Return a number from 0 to 1, which follows from what is rolled for alone.

    >>> roll("room", "entry", 7) == roll("room", "entry", 7), roll("room", "entry", 7) == roll("room", "entry", 8)
    (True, False)
    """
    data = msgspec.json.encode([seed, *what])
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest()) / _RANGE


Score = Callable[[PreparedEntry], int]


def resolve_groups(
    candidates: Sequence[PreparedEntry],
    told: Mapping[str, str],
    *,
    sticky: Collection[str],
    score: Score,
    seed: str,
    turn: int,
) -> tuple[list[PreparedEntry], list[LoreExclusion]]:
    """Part candidates, the best first, into those that are left and those that lost; `told` has won groups already.

    A sticky entry wins, then one whose keys are spoken of most (where groups are scored), then one that is prioritised,
    by order; else chance decides, by weight. Who is in several groups has to win each of them.
    """
    left = {ready.entry.id: ready for ready in candidates}
    held: list[LoreExclusion] = []
    for group in dict.fromkeys(group for ready in candidates for group in ready.entry.groups):
        members = [ready for ready in left.values() if group in ready.entry.groups]
        if not members:
            continue
        by = told.get(group) or _winner(members, sticky, score, roll(seed, "group", group, turn))
        for loser in members:
            if loser.entry.id != by:
                del left[loser.entry.id]
                held.append(_group_exclusion(loser, group, by))
    return list(left.values()), held


def _winner(members: Sequence[PreparedEntry], sticky: Collection[str], score: Score, rolled: float) -> str:
    staying = [ready for ready in members if ready.entry.id in sticky]
    if staying:
        return staying[0].entry.id
    best = _best_scored(members, score)
    prior = [ready for ready in best if ready.entry.group_override]
    if prior:
        return max(prior, key=lambda ready: ready.entry.order).entry.id
    return _weighted_choice(best, rolled).entry.id


def _best_scored(members: Sequence[PreparedEntry], score: Score) -> Sequence[PreparedEntry]:
    """Return those that stay in the race: where they are scored, those with the most keys."""
    scored = {ready.entry.id: _is_scored(ready) for ready in members}
    if len(members) == 1 or not any(scored.values()):
        return members
    scores = {ready.entry.id: score(ready) for ready in members}
    most = max(scores.values())
    return [ready for ready in members if not scored[ready.entry.id] or scores[ready.entry.id] == most]


def _is_scored(ready: PreparedEntry) -> bool:
    own = ready.entry.group_scoring
    return ready.book.group_scoring if own is None else own


def _weighted_choice(members: Sequence[PreparedEntry], rolled: float) -> PreparedEntry:
    """Return one by chance: each has its weight's share."""
    point = rolled * sum(ready.entry.group_weight for ready in members)
    for ready in members:
        point -= ready.entry.group_weight
        if point < 0:
            return ready
    return members[0]


def _group_exclusion(loser: PreparedEntry, group: str, by: str) -> LoreExclusion:
    return LoreExclusion(entry=loser.entry.id, reason="group", detail=f"{by!r} is told for the group {group!r}", by=by)
