"""In which order the candidates that are in stand in the request, as its record tells it."""

from typing import TYPE_CHECKING, Final

from brimful.core.content import ContentPackage, ToolCall, ToolResult
from brimful.core.cost import Place, place_of
from brimful.core.decision import Decision
from brimful.core.unit import call_first, time_of

if TYPE_CHECKING:
    from brimful.core.context import Context

_LAST: Final[tuple[Place, ...]] = ("system", "pinned", "history", "related", "current")
_IN_SYSTEM: Final[tuple[Place, ...]] = ("system", "pinned", "related", "history", "current")
_BEFORE: Final = (float("-inf"), 0, "")  # what stands before all that has a time

Key = tuple[int, float, tuple[float, int, str], int]


def reading_order(context: "Context") -> dict[str, int]:
    """Return the place of each candidate that is in, from 0; what is out has none."""
    ordering = _Ordering(context)
    inside = [decision for decision in context.decisions if decision.included]
    return {decision.id: at for at, decision in enumerate(sorted(inside, key=ordering.key))}


class _Ordering:
    """Knows what orders decisions: sections first, then time, or worth where the best stands last."""

    def __init__(self, context: "Context") -> None:
        self._packages = {package.id: package for package in context.inputs.packages}
        self._sections = _IN_SYSTEM if context.inputs.policy.layout.related == "system" else _LAST
        self._covered: dict[str, ContentPackage] = {}
        self._calls: dict[tuple[str, str], ContentPackage] = {}
        self._units: dict[str, list[ContentPackage]] = {}
        for decision in context.decisions:
            self._note(decision, self._packages[decision.id])
        for unit in self._units.values():
            unit.sort(key=call_first)

    def key(self, decision: Decision) -> Key:
        """Return what to sort a decision by."""
        package = self._packages[decision.id]
        stood = self._covered.get(decision.id, package)  # a summary stands where the newest of its cluster stood
        place = place_of(stood)
        section = self._sections.index(place)
        worth = decision.score.total if place == "related" and decision.score else 0.0
        if place == "current" and package.kind.startswith("media-"):
            return section, worth, _BEFORE, 0
        if place == "related" and decision.group:  # one of several of one fate stands where the last of them would
            unit = self._units[decision.group]
            return section, worth, time_of(unit[-1]), unit.index(package)
        call = self._call_of(decision, package)
        return (section, worth, time_of(stood), 0) if call is None else (section, worth, time_of(call), 1)

    def _note(self, decision: Decision, package: ContentPackage) -> None:
        if decision.outcome == "replaced":
            newest = self._covered.get(decision.by, package)
            self._covered[decision.by] = max(newest, package, key=time_of)
        if decision.included and decision.group:
            self._units.setdefault(decision.group, []).append(package)
            for part in package.parts:
                if isinstance(part, ToolCall):
                    self._calls[decision.group, part.id] = package

    def _call_of(self, decision: Decision, package: ContentPackage) -> ContentPackage | None:
        """Return the call that a tool's results stand behind."""
        results = [part for part in package.parts if isinstance(part, ToolResult)] if decision.group else []
        return next((call for part in results if (call := self._calls.get((decision.group, part.id)))), None)
