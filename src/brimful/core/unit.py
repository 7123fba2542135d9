"""Units: what is kept or dropped whole. Most are one package; a tool call and its results are one unit, too."""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from brimful.core.content import ContentPackage, ToolCall, ToolResult
from brimful.core.decision import Decision, Outcome, Reason
from brimful.core.policy import Policy
from brimful.core.score import Score, score
from brimful.errors import InvalidPackage

When = tuple[float, int, str]


class Unit(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Packages that share one fate, what they cost together, and the best score among them.

    `key` is the id of the first of them, `when` the time of the last. `shrunk` names those of
    them that were cut. `stands_for` is the place of the cluster that a summary
    took the place of.
    """

    key: str
    packages: tuple[ContentPackage, ...]
    costs: tuple[int, ...]
    cost: int
    score: Score
    pool: str
    fixed: bool
    when: When
    shrunk: tuple[str, ...] = ()
    stands_for: str = ""

    @property
    def items(self) -> int:
        """How many packages there are in it."""
        return len(self.packages)

    @property
    def may_shrink(self) -> bool:
        """Whether any of its packages may be cut."""
        first, *others = self.packages
        return first.flex.min_tokens is not None or any(package.flex.min_tokens is not None for package in others)

    def decisions(
        self, outcome: Outcome, reason: Reason, *, by: str = "", rank: int = 0, cut: int = 0
    ) -> list[Decision]:
        """Return one decision for each package; what is kept but was cut is shrunk."""
        kept = outcome == "kept"
        group = self.key if len(self.packages) > 1 else ""
        return [
            Decision(
                id=package.id,
                kind=package.kind,
                outcome="shrunk" if kept and package.id in self.shrunk else outcome,
                reason=reason,
                tokens=package.tokens.tokens,
                cost=cost if kept else 0,
                pool=self.pool,
                score=self.score,
                by=by,
                rank=rank,
                cut=cut,
                group=group,
            )
            for package, cost in zip(self.packages, self.costs, strict=True)
        ]


def time_of(package: ContentPackage) -> When:
    """Return what orders packages in time; the id breaks ties."""
    return (package.timestamp, package.position, package.id)


def make_units(
    packages: Sequence[ContentPackage], policy: Policy, cost_of: Callable[[ContentPackage], int], now: float
) -> tuple[list[Unit], list[Decision]]:
    """Bind what belongs together, and score it. Return the units, and decisions on what cannot be one."""
    groups, unpaired = _groups(packages)
    pools: dict[tuple[str, bool], str] = {}
    units: list[Unit] = []
    decisions: list[Decision] = []
    for members in groups:
        unit = _unit(members, _pool_name(members[0], policy, pools), policy, cost_of, now)
        if unpaired and any(package.id in unpaired for package in members):
            decisions.extend(_refuse(unit, "unpaired"))
        elif not unit.pool and not unit.fixed:
            decisions.extend(_refuse(unit, "no-pool"))
        else:
            units.append(unit)
    return units, decisions


def _unit(
    members: tuple[ContentPackage, ...],
    pool: str,
    policy: Policy,
    cost_of: Callable[[ContentPackage], int],
    now: float,
) -> Unit:
    first = members[0]
    costs: tuple[int, ...] = (cost_of(first),) if len(members) == 1 else tuple(map(cost_of, members))
    best = score(first, policy.weights, now)
    fixed = not first.flex.can_drop
    for other in members[1:]:
        best = max(best, score(other, policy.weights, now), key=lambda parts: parts.total)
        fixed = fixed or not other.flex.can_drop
    return Unit(
        key=first.id,
        packages=members,
        costs=costs,
        cost=sum(costs),
        score=best,
        pool=pool,
        fixed=fixed,
        when=time_of(members[-1]),
    )


def _pool_name(package: ContentPackage, policy: Policy, known: dict[tuple[str, bool], str]) -> str:
    """Return the name of the pool that takes the package, or nothing. Only kind and pin decide: look them up once."""
    key = (package.kind, bool(package.metadata and package.metadata.get("pinned")))
    name = known.get(key)
    if name is None:
        pool = policy.pool_for(package)
        name = known[key] = pool.name if pool else ""
    return name


def _refuse(unit: Unit, reason: Reason) -> Iterable[Decision]:
    if unit.fixed:
        raise InvalidPackage(
            "content",
            f"{unit.key!r} is required, but has a tool call without its result or a result without its call",
        )
    return unit.decisions("dropped", reason)


def _groups(packages: Sequence[ContentPackage]) -> tuple[list[tuple[ContentPackage, ...]], set[str]]:
    """Bind packages by their group, and tool results to the calls they answer. Also name what lacks its other half."""
    bound, unpaired = _pair_tools([package for package in packages if not isinstance(package.content, str)])
    singles: list[tuple[ContentPackage, ...]] = []
    groups: dict[str, list[ContentPackage]] = {}
    leaders = _leaders(packages, bound)
    for package in packages:
        leader = leaders.get(package.id)
        if leader is None:
            singles.append((package,))
        else:
            groups.setdefault(leader, []).append(package)
    return singles + [tuple(sorted(members, key=_call_first)) for members in groups.values()], unpaired


def _leaders(packages: Sequence[ContentPackage], bound: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the leader of everything that is bound, directly or through others."""
    parent: dict[str, str] = {}

    def find(node: str) -> str:
        while parent.setdefault(node, node) != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for package in packages:
        if package.group is not None:
            parent[find(package.id)] = find(f"group {package.group}")
    for result, call in bound:
        parent[find(result)] = find(call)
    return {node: find(node) for node in list(parent)}


def _pair_tools(packages: Iterable[ContentPackage]) -> tuple[list[tuple[str, str]], set[str]]:
    """Walk in time and bind each result to the latest open call of its id, for ids are used again in some histories."""
    open_calls: dict[str, str] = {}
    bound: list[tuple[str, str]] = []
    unpaired: set[str] = set()
    for package in sorted(packages, key=_call_first):
        for part in package.parts:
            if isinstance(part, ToolCall):
                if part.id in open_calls:
                    unpaired.add(open_calls[part.id])
                open_calls[part.id] = package.id
            elif isinstance(part, ToolResult):
                if part.id in open_calls:
                    bound.append((package.id, open_calls.pop(part.id)))
                else:
                    unpaired.add(package.id)
    return bound, unpaired.union(open_calls.values())


def _call_first(package: ContentPackage) -> tuple[float, int, bool, str]:
    return (package.timestamp, package.position, package.kind == "tool-result", package.id)
