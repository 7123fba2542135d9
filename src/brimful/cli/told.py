"""Builds and answers as they come, told in lines: a tree for each build, with what changed since the one before it."""

from collections import OrderedDict
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from brimful.answers import Build
from brimful.cli import output
from brimful.cli.bar import bar, legend
from brimful.core.bands import bands
from brimful.core.context import Component
from brimful.core.explain import items_of, title_of
from brimful.records import Response

CHANGED: Final = " ← Changed!"
_OF_THE_TURN: Final = ("recent", "tools", "media", "current", "format")
"""Components that differ with every turn: that they do is no news."""
_REMEMBERED: Final = 1000  # pairs of a room and a persona, of which the last build is at hand
_LAST_MOMENT: Final = 6e10  # seconds: about the year 3871, well within what a datetime holds


class Teller:
    """Writes events, and remembers the last build of each persona in each room."""

    def __init__(self) -> None:
        """Begin with nothing seen."""
        self._last: OrderedDict[tuple[str, str | None], Build] = OrderedDict()
        self._day = ""
        self._explained = False

    def seen(self, build: Build) -> Build | None:
        """Take note of a build, and return the one before it of the same persona in the same room."""
        key = (build.room, build.persona)
        before = self._last.pop(key, None)
        self._last[key] = build
        if len(self._last) > _REMEMBERED:
            self._last.popitem(last=False)
        return before

    def text(self, event: Build | Response, who: str) -> str:
        """Tell an event for people; `who` says whose it is and where, by name."""
        who = output.one_line(who)
        lines = self._build(event, who) if isinstance(event, Build) else _answer(event, who)
        return "\n".join([*self._dated(event.at), *lines, ""])

    def data(self, event: Build | Response) -> dict[str, Any]:
        """Tell an event for programs."""
        told: dict[str, Any] = msgspec.to_builtins(event)
        if isinstance(event, Response):
            return {"event": "answer", **told}
        return {"event": "build", **told, "changed": changes(self.seen(event), event)}

    def _build(self, build: Build, who: str) -> Iterator[str]:
        before = self.seen(build)
        changed = changes(before, build)
        yield f"{_clock(build.at)} BUILD: {who} ({output.one_line(build.id)})"
        for name in ("model", "policy", "window"):
            if name in changed and before is not None:
                yield f"  ├─ {name.title()}: {_value(before, name)} → {_value(build, name)}{CHANGED}"
        for component in _shown(build):
            yield f"  ├─ {_component(component)}{CHANGED if component.name in changed else ''}"
        yield from (f"  ├─ ⚠️  {output.one_line(note)}" for note in _worries(build))
        yield f"  ├─ Left out: {build.left_out:,} of {build.candidates:,} candidates"
        parts = bands(build.components, window=build.window, available=build.available, completion=build.completion)
        yield f"  ├─ {bar(parts)}"
        if not self._explained:
            self._explained = True
            yield f"  ├─ {legend(parts)}"
        yield f"  └─ Total: {build.tokens:,} tokens ({100 * build.tokens / build.window:.1f}%)"

    def _dated(self, at: float) -> Iterator[str]:
        """Yield the day where another one begins: times of day alone would lie."""
        day = output.moment(at)[:10]
        if day and day != self._day:
            yield f"── {day} (UTC) ──"
        self._day = day or self._day


def changes(before: Build | None, build: Build) -> list[str]:
    """Return what a build does otherwise than the one before it: model, policy, window, and components by name.

    What differs with every turn is not among them: messages, media, and how the request is written.
    """
    if before is None:
        return []
    changed = [name for name in ("model", "policy", "window") if getattr(before, name) != getattr(build, name)]
    then = {each.name: each for each in before.components}
    now = {each.name: each for each in build.components}
    names = [name for name in dict.fromkeys([*now, *then]) if name not in _OF_THE_TURN]
    nothing = Component(name="", tokens=0, items=0)
    return changed + [name for name in names if _size(then.get(name, nothing)) != _size(now.get(name, nothing))]


def _size(component: Component) -> tuple[int, int]:
    return (component.tokens, component.items)


def _shown(build: Build) -> Iterator[Component]:
    """Yield the components that people look for, and the others where there is anything in them."""
    for component in build.components:
        if component.tokens or component.name in ("system", "memories", "recent", "media"):
            yield component


def _worries(build: Build) -> Iterator[str]:
    """Yield what a build had to do without, and what its window warns of; what is merely worth knowing is left out."""
    yield from build.degraded
    yield from (warning.removeprefix("⚠️").strip() for warning in build.warnings if warning.startswith("⚠️"))


def _component(component: Component) -> str:
    items = items_of(component.name, component.items) if component.items else ""
    return f"{output.one_line(title_of(component.name))}: {component.tokens:,} tokens{f' ({items})' if items else ''}"


def _answer(response: Response, who: str) -> Iterator[str]:
    usage = response.usage
    said = f"{usage.completion:,} tokens generated" if usage else "an answer"
    unknown = "" if usage else " (its tokens were not reported)"
    took = f" in {response.seconds:.1f} s" if response.seconds is not None else ""
    model = f" by {output.one_line(response.model)}" if response.model else ""
    yield f"{_clock(response.at)} RESPONSE: {said}{took}{model}{unknown}, {who}"
    if usage and usage.cached:
        share = usage.cached / usage.prompt if usage.prompt else 1.0
        yield f"  ├─ Cache hit: {usage.cached:,} of {usage.prompt:,} prompt tokens ({share:.0%})"
    elif usage and response.expected_cached:
        yield f"  ├─ Cache miss: {response.expected_cached:,} prompt tokens were expected to be cached"
    yield from (f"  ├─ ⚠️  {output.one_line(note)}" for note in response.notes)
    yield f"  └─ to {output.one_line(response.context)}{f', {response.finish}' if response.finish else ''}"


def _value(build: Build, name: str) -> str:
    value = getattr(build, name)
    return f"{value:,}" if isinstance(value, int) else output.one_line(str(value))


def _clock(at: float) -> str:
    """Write the time of day, in UTC.

    >>> _clock(1_700_000_000.5)
    '[22:13:20]'
    """
    if not 0 < at < _LAST_MOMENT:
        return "[--:--:--]"
    return f"[{datetime.fromtimestamp(at, UTC):%H:%M:%S}]"
