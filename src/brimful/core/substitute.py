"""Replace clusters by their newest covering summary, largest saving first."""

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from brimful.core.cost import region_of
from brimful.core.decision import Reason
from brimful.core.units import Unit

Summaries = Mapping[str, Sequence[Unit]]
"""The summaries of each cluster, or of parts of it."""


class Swap(msgspec.Struct, frozen=True):
    """Members of a cluster, and the summary that would replace them."""

    cluster: str
    members: tuple[Unit, ...]
    summary: Unit

    @property
    def saving(self) -> int:
        """Tokens saved."""
        return sum(unit.cost for unit in self.members) - self.summary.cost


def split_summaries(units: Sequence[Unit]) -> tuple[list[Unit], dict[str, list[Unit]]]:
    """Separate summaries from the candidates they cover. A summary that covers no candidate competes by itself."""
    if not any(unit.packages[0].kind == "summary" for unit in units):
        return list(units), {}
    present = {package.cluster for unit in units for package in unit.packages if package.kind != "summary"}
    candidates: list[Unit] = []
    summaries: dict[str, list[Unit]] = {}
    for unit in units:
        package = unit.packages[0]
        # A required summary is in whatever happens to its cluster, so it stands in for nothing.
        if package.kind == "summary" and package.cluster is not None and package.cluster in present and not unit.fixed:
            summaries.setdefault(package.cluster, []).append(unit)
        else:
            candidates.append(unit)
    return candidates, summaries


class Clusters(msgspec.Struct, frozen=True):
    """Clusters with their summaries and members.

    `histories` are the names of contiguous pools.
    """

    summaries: dict[str, list[Unit]]
    members: dict[str, list[Unit]]
    histories: frozenset[str]

    def release(self, pool: str, filled: Collection[str], included: Collection[str]) -> tuple["Clusters", list[Unit]]:
        """Take out the newest summaries that may compete on their own, and return the other clusters and them.

        Nothing else represents a cluster if all pools of its members are `filled` and the summary covers something that
        got into none of them. `included` names the included units and those replaced by an included summary.
        """
        newest = {cluster: max(units, key=lambda unit: unit.when) for cluster, units in self.summaries.items() if units}
        released = {
            cluster: summary
            for cluster, summary in newest.items()
            if summary.pool == pool
            and all(unit.pool in filled for unit in self.members[cluster])
            and _is_needed(summary, self.members[cluster], included)
        }
        left = {
            cluster: [unit for unit in units if cluster not in released or unit.key != released[cluster].key]
            for cluster, units in self.summaries.items()
        }
        return msgspec.structs.replace(self, summaries=left), list(released.values())

    def stand_ins(self, pool: str, inside: Sequence[Unit], texts: set[str]) -> list[Unit]:
        """Return the summaries that could stand in a pool for units that are not `inside`, each text once.

        `texts` are the normalized hashes of the units inside.
        """
        represented, texts = self.find_represented(inside), set(texts)
        standing: list[Unit] = []
        for cluster, summaries in self.summaries.items():
            unit = find_stand_in(summaries, self.members[cluster], represented, texts, self.histories)
            if unit is not None and unit.pool == pool:
                standing.append(unit)
                texts.add(_text(unit))
        return standing

    def find_represented(self, inside: Sequence[Unit]) -> dict[str, Unit]:
        """Return what the model sees or reads a summary of, by its key: the unit itself, or the summary."""
        summarized: dict[str, Unit] = {}
        for unit in inside:
            package = unit.packages[0]
            if package.kind == "summary" and package.cluster in self.members:
                covered = covered_members(unit, self.members[package.cluster])
                summarized.update(dict.fromkeys((member.key for member in covered), unit))
        return summarized | {unit.key: unit for unit in inside}

    def explain(self, inside: Sequence[Unit]) -> list[tuple[Unit, Reason]]:
        """Return all summaries with the reason why they are inside or not."""
        keys, represented = {unit.key for unit in inside}, self.find_represented(inside)

        def why(summary: Unit, members: Sequence[Unit]) -> Reason:
            if summary.key in keys:
                return "summary"
            return "window-full" if find_unrepresented(summary, members, represented, self.histories) else "verbatim"

        return [(unit, why(unit, self.members[cluster])) for cluster, units in self.summaries.items() for unit in units]


def make_clusters(units: Iterable[Unit], summaries: Summaries, histories: Iterable[str]) -> Clusters:
    """Return the clusters that have summaries, each with its members among the units."""
    members: dict[str, list[Unit]] = {cluster: [] for cluster in summaries}
    for unit in units if summaries else ():
        cluster = unit.packages[0].cluster
        if cluster in members:
            members[cluster].append(unit)
    return Clusters({cluster: list(each) for cluster, each in summaries.items()}, members, frozenset(histories))


def _is_needed(summary: Unit, members: Sequence[Unit], included: Collection[str]) -> bool:
    """Whether a summary covers something that is out. One without `covers` covers its whole cluster."""
    covers = summary.packages[0].covers
    out = [unit for unit in members if unit.key not in included]
    if not covers or len(out) == len(members):
        return bool(out)
    return any(package.id in covers for unit in out for package in unit.packages)


def find_swaps(
    units: Iterable[Unit], summaries: Summaries, protected: Collection[str] = (), elsewhere: Collection[str] = ()
) -> list[Swap]:
    """Return every swap that saves tokens, largest saving first, with the newest summary of each cluster.

    `protected` units stay, and no text is used twice: `elsewhere` are the normalized hashes of included texts.
    """
    if not summaries:
        return []
    clusters: dict[str, list[Unit]] = {}
    for unit in units:
        cluster = unit.packages[0].cluster
        if cluster in summaries and not unit.fixed and unit.key not in protected:
            clusters.setdefault(str(cluster), []).append(unit)
    found = [_make_swap(cluster, members, summaries[cluster]) for cluster, members in clusters.items()]
    useful = [swap for swap in found if swap and swap.saving > 0 and _text(swap.summary) not in elsewhere]
    useful.sort(key=lambda swap: (-swap.saving, swap.cluster))
    first = {_text(swap.summary): swap for swap in reversed(useful)}
    return [swap for swap in useful if first[_text(swap.summary)] is swap]


def apply_swaps(units: Sequence[Unit], chosen: Iterable[Swap]) -> list[Unit]:
    """Return the units with the members of each swap replaced by its summary."""
    chosen = list(chosen)
    replaced = {unit.key for swap in chosen for unit in swap.members}
    return [unit for unit in units if unit.key not in replaced] + [swap.summary for swap in chosen]


def take_until_saved(candidates: Iterable[Swap], over: int) -> list[Swap]:
    """Take swaps in order until they have saved `over` tokens."""
    taken: list[Swap] = []
    for swap in candidates:
        if over <= 0:
            break
        taken.append(swap)
        over -= swap.saving
    return taken


def find_stand_in(
    summaries: Sequence[Unit],
    members: Sequence[Unit],
    included: Collection[str],
    elsewhere: Collection[str],
    histories: Collection[str],
) -> Unit | None:
    """Return the newest summary of a cluster that is needed to leave a trace of it; None if there is none.

    It has to cost less than what it stands for, and its text must not be `elsewhere`.
    """
    for summary in sorted(summaries, key=lambda unit: unit.when, reverse=True):
        out = find_unrepresented(summary, members, included, histories)
        if summary.cost < sum(unit.cost for unit in out) and _text(summary) not in elsewhere:
            if any(unit.pool in histories for unit in out):
                return msgspec.structs.replace(summary, replaced_region=region_of(summary.packages[0]))
            return _move_summary(summary, out)
    return None


def find_unrepresented(
    summary: Unit, members: Sequence[Unit], included: Collection[str], histories: Collection[str]
) -> list[Unit]:
    """Return the members of its cluster that nothing else represents.

    If one covered member is `included`, it represents the others. Not in `histories`, which are the names of contiguous
    pools: a message left out there is another part of the conversation.
    """
    covered = covered_members(summary, members)
    out = [unit for unit in covered if unit.key not in included]
    return out if len(out) == len(covered) or any(unit.pool in histories for unit in out) else []


def covered_members(summary: Unit, members: Sequence[Unit]) -> tuple[Unit, ...]:
    """Return the members of its cluster that a summary covers."""
    owners = {package.id: unit for unit in members for package in unit.packages}
    return _covered_members(members, owners, frozenset(summary.packages[0].covers))


def _text(summary: Unit) -> str:
    return summary.packages[0].normalized_hash


def _make_swap(cluster: str, members: Sequence[Unit], summaries: Sequence[Unit]) -> Swap | None:
    owners = {package.id: unit for unit in members for package in unit.packages}
    for summary in sorted(summaries, key=lambda unit: unit.when, reverse=True):
        covered = _covered_members(members, owners, frozenset(summary.packages[0].covers))
        if covered:
            return Swap(cluster, covered, _move_summary(summary, covered))
    return None


def _covered_members(members: Sequence[Unit], owners: Mapping[str, Unit], covers: frozenset[str]) -> tuple[Unit, ...]:
    """Return the members that are fully covered. A summary without `covers` covers all."""
    if not covers:
        return tuple(members)
    touched = {owners[id].key: owners[id] for id in covers if id in owners}
    whole = [unit for unit in touched.values() if covers.issuperset(package.id for package in unit.packages)]
    return tuple(sorted(whole, key=lambda unit: unit.when))


def _move_summary(summary: Unit, members: Sequence[Unit]) -> Unit:
    """Return the summary with the region, time, pool and score of what it replaces."""
    newest = max(members, key=lambda unit: unit.when)
    best = max(members, key=lambda unit: unit.score.total)
    return msgspec.structs.replace(
        summary, pool=newest.pool, moved=newest.when, score=best.score, replaced_region=region_of(newest.packages[0])
    )
