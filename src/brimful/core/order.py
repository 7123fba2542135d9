"""In which order the candidates that are in stand in the request, as its record tells it."""

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final

from brimful.core.arrange import group_by_heading, place_notes
from brimful.core.content import ContentPackage, ToolCall, ToolResult
from brimful.core.cost import Region, region_of, role_of
from brimful.core.decision import Decision
from brimful.core.units import call_order_key, time_key

if TYPE_CHECKING:
    from brimful.core.context import Context

_LAST: Final[tuple[Region, ...]] = ("system", "pinned", "history", "related", "current")
_IN_SYSTEM: Final[tuple[Region, ...]] = ("system", "pinned", "related", "history", "current")
_BEFORE: Final = (float("-inf"), 0, "")  # what stands before all that has a time

Key = tuple[int, float, tuple[float, int, str], int]


def reading_order(context: "Context") -> dict[str, int]:
    """Return the place of each candidate that is in, from 0; what is out has none."""
    inside = [decision for decision in context.decisions if decision.included]
    ordering = _Ordering(context, inside)
    notes = [each.id for each in inside if ordering.places[each.id] == "note"]
    standing = [each for each in inside if ordering.places[each.id] != "note"] if notes else inside
    said = ordering.gathered([each.id for each in sorted(standing, key=ordering.key)])
    order = ordering.noted(said, notes) if notes else said
    return {id: at for at, id in enumerate(order)}


class _Ordering:
    """Knows what orders decisions: sections first, then time, or worth where the best stands last.

    `places` are those of what is in.
    """

    def __init__(self, context: "Context", inside: Sequence[Decision]) -> None:
        packages = self._packages = {package.id: package for package in context.inputs.packages}
        self._sections = _IN_SYSTEM if context.inputs.policy.layout.related == "system" else _LAST
        self._covered: dict[str, ContentPackage] = {}
        self._calls: dict[tuple[str, str], ContentPackage] = {}
        self._units: dict[str, list[ContentPackage]] = {}
        for decision in context.decisions:
            if decision.outcome == "replaced" or decision.group:
                self._note(decision, packages[decision.id])
        for unit in self._units.values():
            unit.sort(key=call_order_key)
        covered = self._covered
        self.places = {each.id: region_of(covered.get(each.id, packages[each.id])) for each in inside}

    def key(self, decision: Decision) -> Key:
        """Return what to sort a decision by."""
        package = self._packages[decision.id]
        stood = self._covered.get(decision.id, package)  # a summary stands where the newest of its cluster stood
        place = self.places[decision.id]
        section = self._sections.index(place)
        worth = decision.score.total if place == "related" and decision.score else 0.0
        if place == "current" and package.kind.startswith("media-"):
            return section, worth, _BEFORE, 0
        if place == "related" and decision.group:  # one of several of one fate stands where the last of them would
            unit = self._units[decision.group]
            return section, worth, time_key(unit[-1]), unit.index(package)
        call = self._call_of(decision, package)
        return (section, worth, time_key(stood), 0) if call is None else (section, worth, time_key(call), 1)

    def gathered(self, said: list[str]) -> list[str]:
        """Put together what stands under one heading of a block, as `arrange` does."""
        order: list[str] = []
        for place, ids in groupby(said, key=self.places.__getitem__):
            packages = [self._packages[id] for id in ids]
            block = group_by_heading(packages) if place in ("pinned", "related") else packages
            order += [package.id for package in block]
        return order

    def noted(self, said: list[str], notes: list[str]) -> list[str]:
        """Put notes among what is said, as `arrange` does: none stands before what begins every prompt."""
        opening = self._sections.index("history")
        head = [id for id in said if self._sections.index(self.places[id]) < opening]
        rest = said[len(head) :]
        placed = place_notes(rest, [self._packages[id] for id in notes], self._counts)
        for at, note in reversed([(self._before_media(rest, at), note) for at, note in placed]):
            rest.insert(at, note.id)
        return [*head, *rest]

    def _before_media(self, said: list[str], at: int) -> int:
        """Return a place before the media that stand in the same message as what stands there."""
        while 0 < at < len(said) and self._packages[said[at - 1]].kind.startswith("media-"):
            at -= 1
        return at

    def _counts(self, id: str) -> bool:
        """Say whether a candidate is a message of its own, for notes that count them."""
        package = self._packages[id]
        spoken = not package.kind.startswith("media-") and role_of(package) != "tool"
        return spoken and self.places[id] in ("history", "current")

    def _note(self, decision: Decision, package: ContentPackage) -> None:
        if decision.outcome == "replaced":
            newest = self._covered.get(decision.by, package)
            self._covered[decision.by] = max(newest, package, key=time_key)
        if decision.included and decision.group:
            self._units.setdefault(decision.group, []).append(package)
            for part in package.parts:
                if isinstance(part, ToolCall):
                    self._calls[decision.group, part.id] = package

    def _call_of(self, decision: Decision, package: ContentPackage) -> ContentPackage | None:
        """Return the call that a tool's results stand behind."""
        if not decision.group:
            return None
        results = [part for part in package.parts if isinstance(part, ToolResult)]
        return next((call for part in results if (call := self._calls.get((decision.group, part.id)))), None)
