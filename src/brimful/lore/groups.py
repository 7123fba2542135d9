"""Inclusion groups: only one entry of a group is activated. Ties are broken by a reproducible random number."""

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from brimful.lore.index import PreparedEntry
from brimful.lore.reasons import LoreExclusion

_RANGE = 2.0**64


def roll(seed: str, *purpose: str | int) -> float:
    """Return a pseudorandom number from 0 to 1 that depends only on the arguments.

    >>> roll("room", "entry", 7) == roll("room", "entry", 7), roll("room", "entry", 7) == roll("room", "entry", 8)
    (True, False)
    """
    data = msgspec.json.encode([seed, *purpose])
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest()) / _RANGE


Score = Callable[[PreparedEntry], int]


def resolve_groups(
    candidates: Sequence[PreparedEntry],
    earlier_winners: Mapping[str, str],
    *,
    sticky: Collection[str],
    score: Score,
    seed: str,
    turn: int,
) -> tuple[list[PreparedEntry], list[LoreExclusion]]:
    """Return the candidates that remain and those that lost. Candidates come the best first.

    `earlier_winners` are the entries, by group, that earlier rounds activated. A sticky entry wins, then the one with
    the most matching keywords (if groups are scored), then one with an override, by order; else a random one, by
    weight. An entry in several groups has to win all of them.
    """
    remaining = {prepared.entry.id: prepared for prepared in candidates}
    lost: list[LoreExclusion] = []
    for group in dict.fromkeys(group for prepared in candidates for group in prepared.entry.groups):
        members = [prepared for prepared in remaining.values() if group in prepared.entry.groups]
        if not members:
            continue
        winner = earlier_winners.get(group) or _winner(members, sticky, score, roll(seed, "group", group, turn))
        for loser in members:
            if loser.entry.id != winner:
                del remaining[loser.entry.id]
                detail = f"{winner!r} won group {group!r}"
                lost.append(LoreExclusion(entry=loser.entry.id, reason="group", detail=detail, winner=winner))
    return list(remaining.values()), lost


def _winner(members: Sequence[PreparedEntry], sticky: Collection[str], score: Score, rolled: float) -> str:
    sticky_members = [prepared for prepared in members if prepared.entry.id in sticky]
    if sticky_members:
        return sticky_members[0].entry.id
    best = _best_scored(members, score)
    overriding = [prepared for prepared in best if prepared.entry.group_override]
    if overriding:
        return max(overriding, key=lambda prepared: prepared.entry.order).entry.id
    return _weighted_choice(best, rolled).entry.id


def _best_scored(members: Sequence[PreparedEntry], score: Score) -> Sequence[PreparedEntry]:
    """Return the members with the most matching keywords, and those that are not scored."""
    scored = {prepared.entry.id: _is_scored(prepared) for prepared in members}
    if len(members) == 1 or not any(scored.values()):
        return members
    scores = {prepared.entry.id: score(prepared) for prepared in members}
    best = max(scores.values())
    return [prepared for prepared in members if not scored[prepared.entry.id] or scores[prepared.entry.id] == best]


def _is_scored(prepared: PreparedEntry) -> bool:
    own = prepared.entry.group_scoring
    return prepared.book.group_scoring if own is None else own


def _weighted_choice(members: Sequence[PreparedEntry], rolled: float) -> PreparedEntry:
    """Return a member at random, in proportion to its weight."""
    point = rolled * sum(prepared.entry.group_weight for prepared in members)
    for prepared in members:
        point -= prepared.entry.group_weight
        if point < 0:
            return prepared
    return members[0]
