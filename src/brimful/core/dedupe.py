"""One of each: the same id, then the same normalized text."""

from collections.abc import Collection, Sequence
from itertools import pairwise

import msgspec

from brimful.core.content import ContentPackage
from brimful.core.cost import PLACED
from brimful.core.decision import Decision, Reason
from brimful.core.policy import Policy
from brimful.core.unit import Unit


def canonical_order(packages: Sequence[ContentPackage]) -> list[ContentPackage]:
    """Sort candidates in time, so that the order of the input list says nothing.

    What is equal in time, id and text is told apart by all of its data.
    """

    def in_time(package: ContentPackage) -> tuple[float, int, str, str]:
        return (package.timestamp, package.position, package.id, package.hash)

    ordered = sorted(packages, key=in_time)
    if any(in_time(a) == in_time(b) for a, b in pairwise(ordered)):
        ordered.sort(key=lambda package: (in_time(package), msgspec.json.encode(package)))
    return ordered


def same_id(packages: Sequence[ContentPackage], policy: Policy) -> tuple[list[ContentPackage], list[Decision]]:
    """Keep one package of each id: a required one first, then the earlier pool, then the newer."""
    survivors: dict[str, ContentPackage] = {}
    decisions = []
    for package in packages:
        if package.id not in survivors:
            survivors[package.id] = package
            continue
        winner, loser = sorted((survivors[package.id], package), key=lambda rival: _rank(rival, policy))
        survivors[package.id] = winner
        decisions.append(_duplicate(loser, "same-id", package.id))
    return list(survivors.values()), decisions


def same_content(
    units: Sequence[Unit], kept: Collection[Unit], *, everything: bool
) -> tuple[list[Unit], list[tuple[Unit, str]]]:
    """Part single packages whose normalized text is in `kept`, or in an earlier one of `units`, from all others.

    Each comes with the id of the one that has its text. Turns of the conversation are spared, unless `everything` is
    meant: two people may say "ok".
    """
    seen = {package.normalized_hash: package.id for unit in kept for package in unit.packages}
    unique: list[Unit] = []
    doubles: list[tuple[Unit, str]] = []
    for unit in units:
        first = unit.packages[0]
        if unit.items > 1 or (first.kind in PLACED and not everything):
            unique.append(unit)
        elif first.normalized_hash in seen:
            doubles.append((unit, seen[first.normalized_hash]))
        else:
            seen[first.normalized_hash] = first.id
            unique.append(unit)
    return unique, doubles


def true_duplicates(doubles: Sequence[tuple[Unit, str]], inside: Sequence[Unit]) -> list[tuple[Unit, str]]:
    """Return the doubles of something that is in; of the others, the one that came first may have lost its place."""
    ids = {package.id for unit in inside for package in unit.packages}
    return [(unit, other) for unit, other in doubles if other in ids]


def _rank(package: ContentPackage, policy: Policy) -> tuple[bool, int, float]:
    pool = policy.pool_for(package)
    at = policy.pools.index(pool) if pool else len(policy.pools)
    return (package.flex.can_drop, at, -package.timestamp)


def _duplicate(package: ContentPackage, reason: Reason, by: str) -> Decision:
    return Decision(
        id=package.id, kind=package.kind, outcome="duplicate", reason=reason, tokens=package.tokens.tokens, by=by
    )
