"""Units: packages that are kept or dropped together, such as a tool call and its results.

Most units are one package.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from operator import attrgetter
from typing import Final, TypeVar

import msgspec

from brimful.core.content import ContentPackage, ToolCall, ToolResult
from brimful.core.cost import NO_HEADING, Heading, is_from_user, is_question, region_of, role_of
from brimful.core.decision import Decision, FormName, Outcome, Reason, Region, Score
from brimful.core.policy import Policy
from brimful.errors import InvalidPackage

TimeKey = tuple[float, int, str]
N = TypeVar("N", int, str)

time_key: Final[Callable[[ContentPackage], TimeKey]] = attrgetter("timestamp", "position", "id")
"""The sort key of packages by time; the id breaks ties."""


def find_question(packages: Sequence[ContentPackage]) -> ContentPackage | None:
    """Return the message to answer: the current one, or else what the user said last."""
    current = [package for package in packages if is_question(package)]
    turns = current or [each for each in packages if is_from_user(each) and region_of(each) == "history"]
    return max(turns, key=time_key, default=None)


def is_tool_loop(packages: Iterable[ContentPackage]) -> bool:
    """Whether the conversation ends with the result of a tool, so that the model goes on with an earlier question."""
    turns = (package for package in packages if region_of(package) in ("history", "current"))
    last = max(turns, key=time_key, default=None)
    return last is not None and role_of(last) == "tool"


class ShrunkPackage(msgspec.Struct, frozen=True, gc=False):
    """The form of a package that was shortened, and what the next larger and smaller ones would cost (0: none)."""

    id: str
    name: FormName
    larger: int
    smaller: int


class Tie(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Ties a media item to its message: the message's id, the index of its part, and the cost of the line there.

    `is_requested` says whether the current message asks about it, and `reason` why it is left out in any case.
    """

    message: str
    part: int
    line: int
    is_requested: bool
    reason: Reason | None = None


class Unit(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Packages that are kept or dropped together, their cost, and the best score among them.

    `key` is the id of the first package. `shares` is the cost of each package if there are several. In a smaller form,
    `forms` has the form of each package that was shortened, `whole` is the unit in full, `limit` the cost it was
    shortened to, and `worth` the share of the whole that it is worth.

    For a summary that replaces a cluster, `replaced_region` is the region of the cluster, and `moved` its time. The
    cost does not include the `heading`, which all units of a pool under it pay for together.

    A unit that is `free` gets in whatever it is worth, if there is room. One that is `unlikely` to help is worth no
    price.

    A media item of a message is a unit with a `tie`. Its cost does not include the line in its place, which is part of
    the message.
    """

    key: str
    packages: tuple[ContentPackage, ...]
    cost: int
    score: Score
    pool: str
    fixed: bool
    may_shrink: bool
    free: bool = False
    unlikely: bool = False
    shares: tuple[int, ...] = ()
    forms: tuple["ShrunkPackage", ...] = ()
    whole: "Unit | None" = None
    limit: int = 0
    worth: float = 1.0
    replaced_region: Region | None = None
    moved: TimeKey | None = None
    heading: str = ""
    heading_cost: int = 0
    tie: Tie | None = None

    @property
    def costs(self) -> tuple[int, ...]:
        """The cost of each package."""
        return self.shares or (self.cost,)

    @property
    def value(self) -> float:
        """Its score; in a smaller form, a part of it."""
        return self.score.total * self.worth

    def is_worth(self, price: float) -> bool:
        """Whether it may get in at this price of a token."""
        return self.free or self.earns(price)

    def earns(self, price: float) -> bool:
        """Whether it is worth more than its tokens. Without a price, everything is."""
        return not price or (not self.unlikely and self.value > price * self.cost)

    @property
    def when(self) -> TimeKey:
        """The time of its last package, or of what it replaces."""
        return self.moved or time_key(self.packages[-1])

    @property
    def items(self) -> int:
        """The number of packages."""
        return len(self.packages)

    @property
    def form(self) -> FormName:
        """The form of its first package."""
        return next((form.name for form in self.forms if form.id == self.key), "full")

    def heading_due(self, present: Collection[str]) -> int:
        """Return the cost of its heading, unless that heading is already there."""
        return 0 if self.heading in present else self.heading_cost

    def decisions(
        self, outcome: Outcome, reason: Reason, *, by: str = "", rank: int = 0, cut: int = 0
    ) -> list[Decision]:
        """Return one decision for each package. A kept package that was cut is `shrunk`; it may go as a whole."""
        if len(self.packages) == 1:  # the usual case of many candidates, so it has to be fast
            form = self.forms[0] if self.forms and outcome == "kept" else None
            rows = [(self.packages[0], self.cost, form, self.whole.cost if self.whole else 0)]
        else:
            forms = {form.id: form for form in self.forms} if outcome == "kept" else {}
            whole = self.whole.costs if self.whole else self.costs
            rows = [
                (package, cost, forms.get(package.id), full)
                for package, cost, full in zip(self.packages, self.costs, whole, strict=True)
            ]
        return [self._decide(row, outcome, reason, by, rank, cut) for row in rows]

    def _decide(
        self,
        row: tuple[ContentPackage, int, ShrunkPackage | None, int],
        outcome: Outcome,
        reason: Reason,
        by: str,
        rank: int,
        cut: int,
    ) -> Decision:
        """Return the decision on a package, given its cost, its form if it was shortened, and its cost in full."""
        package, cost, form, full = row
        if form is None:
            return Decision(
                id=package.id,
                kind=package.kind,
                outcome=outcome,
                reason=reason,
                tokens=package.tokens.tokens,
                cost=cost if outcome == "kept" else 0,
                pool=self.pool,
                score=self.score,
                by=by,
                rank=rank,
                cut=cut,
                group=self.key if len(self.packages) > 1 else "",
            )
        if form.name == "bare" and not cost:
            return Decision(
                id=package.id, kind=package.kind, outcome="dropped", reason="reasoning", tokens=full, pool=self.pool
            )
        return Decision(
            id=package.id,
            kind=package.kind,
            outcome="shrunk",
            reason=reason,
            tokens=package.tokens.tokens,
            cost=cost,
            pool=self.pool,
            score=self.score,
            by=by,
            rank=rank,
            cut=cut,
            group=self.key if len(self.packages) > 1 else "",
            form=form.name,
            larger=form.larger,
            smaller=form.smaller,
            full=full,
        )


def count_items(units: Iterable[Unit]) -> int:
    """Return the number of packages of units."""
    return sum([len(unit.packages) for unit in units])


def total_cost(units: Sequence[Unit]) -> int:
    """Return the total cost of units of a pool. A shared heading counts once."""
    return sum([unit.cost for unit in units]) + sum({unit.heading: unit.heading_cost for unit in units}.values())


def with_heading_costs(units: Sequence[Unit]) -> list[Unit]:
    """Return the units with the cost of each heading added to the earliest unit under it, so that costs add up."""
    first: dict[str, Unit] = {}
    for unit in units:
        if unit.heading and (unit.heading not in first or unit.when < first[unit.heading].when):
            first[unit.heading] = unit
    return [
        msgspec.structs.replace(unit, cost=unit.cost + unit.heading_cost, shares=())
        if first.get(unit.heading) is unit
        else unit
        for unit in units
    ]


def make_units(
    packages: Sequence[ContentPackage],
    policy: Policy,
    cost_of: Callable[[ContentPackage], int],
    heading_of: Callable[[ContentPackage], Heading],
    may_shrink: Callable[[ContentPackage], bool],
    score_of: Callable[[ContentPackage], Score],
) -> tuple[list[Unit], list[Decision]]:
    """Group packages into units and score them. Return the units, and decisions on packages that cannot be in one."""
    singles, groups, unpaired = group_packages(packages)
    pool_of = make_pool_lookup(policy)
    units = [
        Unit(
            key=package.id,
            packages=(package,),
            # A required or grouped package is charged with a heading of its own: it may be the only one under it.
            cost=cost_of(package)
            - (under := heading_of(package) if (flex := package.flex).can_drop else NO_HEADING)[1],
            score=score_of(package),
            pool=pool_of(package),
            fixed=not flex.can_drop,
            may_shrink=may_shrink(package),
            heading=under[0],
            heading_cost=under[1],
        )
        for package in singles
    ]
    units += [
        _make_group_unit(
            members,
            pool_of(members[0]),
            tuple(map(cost_of, members)),
            map(score_of, members),
            may_shrink=any(map(may_shrink, members)),
        )
        for members in groups
    ]
    return _split_refused(units, unpaired)


def _make_group_unit(
    members: tuple[ContentPackage, ...], pool: str, costs: tuple[int, ...], scores: Iterable[Score], *, may_shrink: bool
) -> Unit:
    return Unit(
        key=members[0].id,
        packages=members,
        cost=sum(costs),
        score=max(scores, key=lambda parts: parts.total),
        pool=pool,
        fixed=not all(package.flex.can_drop for package in members),
        may_shrink=may_shrink,
        shares=costs,
    )


def make_pool_lookup(policy: Policy) -> Callable[[ContentPackage], str]:
    """Return a function that names the pool of a package. It depends on kind and pin alone, so it is cached by them."""
    unpinned: dict[str, str] = {}
    pinned: dict[str, str] = {}

    def name_of(package: ContentPackage) -> str:
        known = pinned if package.pinned else unpinned
        name = known.get(package.kind)
        if name is None:
            pool = policy.pool_for(package)
            name = known[package.kind] = pool.name if pool else ""
        return name

    return name_of


def _split_refused(units: Iterable[Unit], unpaired: Collection[str]) -> tuple[list[Unit], list[Decision]]:
    """Separate the units that can get in from those that cannot."""
    accepted: list[Unit] = []
    decisions: list[Decision] = []
    for unit in units:
        if unpaired and any(package.id in unpaired for package in unit.packages):
            decisions.extend(_refuse_unit(unit, "unpaired"))
        elif unit.pool or unit.fixed:
            accepted.append(unit)
        else:
            decisions.extend(_refuse_unit(unit, "no-pool"))
    return accepted, decisions


def _refuse_unit(unit: Unit, reason: Reason) -> Iterable[Decision]:
    if unit.fixed:
        raise InvalidPackage(
            "content", f"{unit.key!r} is required, but has a tool call without its result or a result without its call"
        )
    return unit.decisions("dropped", reason)


def group_packages(
    packages: Sequence[ContentPackage],
) -> tuple[Sequence[ContentPackage], list[tuple[ContentPackage, ...]], set[str]]:
    """Group packages by `group`, and tool results with their calls. Also return the ids of unpaired ones."""
    bound, unpaired = _pair_tools([package for package in packages if not isinstance(package.content, str)])
    named = [(package.id, f"group {package.group}") for package in packages if package.group is not None]
    leaders = find_leaders([*named, *bound])
    if not leaders:
        return packages, [], unpaired
    groups: dict[str, list[ContentPackage]] = {}
    for package in packages:
        if package.id in leaders:
            groups.setdefault(leaders[package.id], []).append(package)
    singles = [package for package in packages if package.id not in leaders]
    return singles, [tuple(sorted(members, key=call_order_key)) for members in groups.values()], unpaired


def find_leaders(ties: Iterable[tuple[N, N]]) -> dict[N, N]:
    """Return the first member of each one's group, where two that are tied belong to one group (union-find).

    >>> find_leaders([(3, 5), (4, 1), (5, 4)])
    {3: 1, 5: 1, 4: 1, 1: 1}
    """
    leader: dict[N, N] = {}

    def find(member: N) -> N:
        while leader.setdefault(member, member) != member:
            leader[member] = leader[leader[member]]
            member = leader[member]
        return member

    for one, other in ties:
        first, second = sorted((find(one), find(other)))
        leader[second] = first
    return {member: find(member) for member in leader}


def _pair_tools(packages: Iterable[ContentPackage]) -> tuple[list[tuple[str, str]], set[str]]:
    """Pair each result with the latest open call of its id, since some histories reuse ids."""
    open_calls: dict[str, str] = {}
    bound: list[tuple[str, str]] = []
    unpaired: set[str] = set()
    for package in sorted(packages, key=call_order_key):
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


def call_order_key(package: ContentPackage) -> tuple[float, int, bool, str]:
    """Return the sort key of packages in a group: by time, and calls before results."""
    return (package.timestamp, package.position, package.kind == "tool-result", package.id)
