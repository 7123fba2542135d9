"""`brimful monitor`: show builds and answers as they happen, in any process that shares the store."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer

from brimful.cache import LRU
from brimful.cli import output
from brimful.cli.options import Json, PersonaFilter, RoomFilter, StoreOptions
from brimful.cli.records import require_room
from brimful.cli.store import require_store, with_store
from brimful.core.context import Component
from brimful.errors import StoreError, StoreUnavailable
from brimful.records import Persona, Response, Room
from brimful.records.contexts import Build
from brimful.stores import Store
from brimful.views.explain import component_title, format_items
from brimful.views.picture import Band, component_bands, share_width

BAR_WIDTH: Final = 60
_LETTERS: Final = {
    "system": "S",
    "pinned": "P",
    "summaries": "Σ",
    "recent": "R",
    "tools": "T",
    "older": "O",
    "memories": "M",
    "lorebook": "L",
    "notes": "N",
    "media": "I",
    "current": "C",
    "format": "f",
    "free": "·",
    "margin": "-",
    "capped": "/",
    "completion": "=",
}
_COLORS: Final = {
    "system": "magenta",
    "pinned": "bright_yellow",
    "summaries": "bright_magenta",
    "recent": "blue",
    "tools": "bright_blue",
    "older": "cyan",
    "memories": "green",
    "lorebook": "bright_green",
    "notes": "bright_red",
    "media": "yellow",
    "current": "red",
    "format": "bright_black",
    "free": "white",
    "margin": "bright_black",
    "capped": "bright_black",
    "completion": "bright_black",
}
_OTHER: Final = ("x", "bright_cyan")  # for an unknown component
_SHADES: Final = {"free": "░", "margin": "▒", "capped": "▒", "completion": "▓"}


def draw_bar(bands: Sequence[Band], width: int = BAR_WIDTH) -> str:
    """Draw the bands of a window as a bar: colored in a terminal, in letters elsewhere.

    >>> system = Band(name="system", title="", tokens=25, items=1)
    >>> draw_bar([system, Band(name="free", title="", tokens=75, items=0)], 8)
    'SS······'
    """
    cells = zip(bands, share_width([band.tokens for band in bands], width), strict=True)
    draw = _colored if _use_color() else _letters
    return "".join(draw(band.name, count) for band, count in cells if count)


def draw_legend(bands: Sequence[Band]) -> str:
    """Return the legend of a bar.

    >>> draw_legend([Band(name="system", title="System Prompt", tokens=25, items=1)])
    'S System Prompt'
    """
    draw = _colored if _use_color() else _letters
    return "  ".join(f"{draw(band.name, 1)} {band.title}" for band in bands if band.tokens)


def _use_color() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def _letters(name: str, count: int) -> str:
    return _LETTERS.get(name, _OTHER[0]) * count


def _colored(name: str, count: int) -> str:
    return typer.style(_SHADES.get(name, "█") * count, fg=_COLORS.get(name, _OTHER[1]))


CHANGED_MARK: Final = " ← Changed!"
_PER_TURN: Final = ("recent", "tools", "media", "current", "format")
"""Components that differ in every turn, so that a change is not worth mentioning."""
_MAX_LAST_BUILDS: Final = 1000  # pairs of a room and a persona whose last build is remembered
_MAX_CLOCK_TIME: Final = 6e10  # seconds: about the year 3871, well within what a datetime holds


class EventFormatter:
    """Formats events, and remembers the last build of each persona in each room."""

    def __init__(self) -> None:
        self._last: LRU[tuple[str, str | None], Build] = LRU(max_entries=_MAX_LAST_BUILDS)
        self._day = ""
        self._explained = False

    def remember(self, build: Build) -> Build | None:
        """Remember a build, and return the previous one of the same persona and room."""
        key = (build.room, build.persona)
        before = self._last.get(key)
        self._last[key] = build
        return before

    def text(self, event: Build | Response, who: str) -> str:
        """Return an event as text; `who` names its persona and room."""
        who = output.one_line(who)
        lines = self._build(event, who) if isinstance(event, Build) else _response_lines(event, who)
        return "\n".join([*self._dated(event.at), *lines, ""])

    def data(self, event: Build | Response) -> dict[str, Any]:
        data: dict[str, Any] = msgspec.to_builtins(event)
        if isinstance(event, Response):
            return {"event": "answer", **data}
        return {"event": "build", **data, "changed": changes(self.remember(event), event)}

    def _build(self, build: Build, who: str) -> Iterator[str]:
        before = self.remember(build)
        changed = changes(before, build)
        yield f"{_clock(build.at)} BUILD: {who} ({output.one_line(build.id)})"
        for name in ("model", "policy", "window"):
            if name in changed and before is not None:
                yield f"  ├─ {name.title()}: {_build_value(before, name)} → {_build_value(build, name)}{CHANGED_MARK}"
        for component in _visible_components(build):
            yield f"  ├─ {_component(component)}{CHANGED_MARK if component.name in changed else ''}"
        yield from (f"  ├─ ⚠️  {output.one_line(notice.text)}" for notice in build.warnings)
        yield f"  ├─ Left out: {build.left_out:,} of {build.candidates:,} candidates"
        parts = component_bands(
            build.components, window=build.window, available=build.available, completion=build.completion
        )
        yield f"  ├─ {draw_bar(parts)}"
        if not self._explained:
            self._explained = True
            yield f"  ├─ {draw_legend(parts)}"
        yield f"  └─ Total: {build.tokens:,} tokens ({100 * build.tokens / max(1, build.available):.1f}%)"

    def _dated(self, at: float) -> Iterator[str]:
        """Yield the date when a new day begins."""
        day = output.format_time(at)[:10]
        if day and day != self._day:
            yield f"── {day} (UTC) ──"
        self._day = day or self._day


def changes(before: Build | None, build: Build) -> list[str]:
    """Return what changed since the previous build: model, policy, window, and components by name.

    Messages, media and formatting differ in every turn and are not included.
    """
    if before is None:
        return []
    changed = [name for name in ("model", "policy", "window") if getattr(before, name) != getattr(build, name)]
    before_components = {each.name: each for each in before.components}
    components = {each.name: each for each in build.components}
    names = [name for name in dict.fromkeys([*components, *before_components]) if name not in _PER_TURN]
    nothing = Component(name="", tokens=0, items=0)
    return changed + [
        name for name in names if _size(before_components.get(name, nothing)) != _size(components.get(name, nothing))
    ]


def _size(component: Component) -> tuple[int, int]:
    return (component.tokens, component.items)


def _visible_components(build: Build) -> Iterator[Component]:
    """Yield the usual components, and others if they are not empty."""
    for component in build.components:
        if component.tokens or component.name in ("system", "memories", "recent", "media"):
            yield component


def _component(component: Component) -> str:
    items = format_items(component.name, component.items) if component.items else ""
    title = output.one_line(component_title(component.name))
    return f"{title}: {component.tokens:,} tokens{f' ({items})' if items else ''}"


def _response_lines(response: Response, who: str) -> Iterator[str]:
    usage = response.usage
    size = f"{usage.completion:,} tokens generated" if usage else "an answer"
    unknown = "" if usage else " (usage not reported)"
    took = f" in {response.seconds:.1f} s" if response.seconds is not None else ""
    model = f" by {output.one_line(response.model)}" if response.model else ""
    yield f"{_clock(response.at)} RESPONSE: {size}{took}{model}{unknown}, {who}"
    if usage and usage.cached:
        share = usage.cached / usage.prompt if usage.prompt else 1.0
        yield f"  ├─ Cache hit: {usage.cached:,} of {usage.prompt:,} prompt tokens ({share:.0%})"
    elif usage and response.expected_cached:
        yield f"  ├─ Cache miss: {response.expected_cached:,} prompt tokens were expected to be cached"
    yield from (f"  ├─ ⚠️  {output.one_line(note)}" for note in map(str, response.notices))
    yield f"  └─ to {output.one_line(response.context)}{f', {response.finish}' if response.finish else ''}"


def _build_value(build: Build, name: str) -> str:
    value = getattr(build, name)
    return f"{value:,}" if isinstance(value, int) else output.one_line(str(value))


def _clock(at: float) -> str:
    """Format the time of day in UTC.

    >>> _clock(1_700_000_000.5)
    '[22:13:20]'
    """
    if not 0 < at < _MAX_CLOCK_TIME:
        return "[--:--:--]"
    return f"[{datetime.fromtimestamp(at, UTC):%H:%M:%S}]"


POLL_INTERVAL: Final = 0.5  # seconds between two polls
EVENT_PAGE: Final = 100  # events read at once
MAX_RETRY_WAIT: Final = 10.0  # seconds between two attempts to reach the store
_MAX_PERSONAS: Final = 10_000  # contexts whose persona is remembered

Event = Build | Response
GetStore = Callable[[], Awaitable[Store]]
"""Returns the open store, or raises a `StoreError` if its file was moved or replaced."""
OpenStore = Callable[[], AbstractAsyncContextManager[GetStore]]
"""Opens the store; called again after a failure."""


class EventFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which events to show; None means all."""

    room: str | None = None
    persona: str | None = None


class EventPage(msgspec.Struct, frozen=True):
    """Events with the names of their persona and room, and whether more are waiting."""

    cursor: str
    events: tuple[tuple[Event, str], ...]
    more: bool


class EventReader:
    """Reads events from a store, with the names of their persona and room."""

    def __init__(self, filter: EventFilter) -> None:
        self._filter = filter
        self._personas: LRU[str, str | None] = LRU(max_entries=_MAX_PERSONAS)
        self._names: dict[tuple[type[Persona | Room], str], str] = {}

    async def last(self, store: Store, limit: int) -> list[tuple[Event, str]]:
        """Return the last events, oldest first."""
        room, persona = self._filter.room, self._filter.persona
        builds = await store.builds(room=room, persona=persona, limit=limit)
        answers = await store.responses(room=room, limit=limit)
        events: list[Event] = [*reversed(builds), *reversed(answers)]
        events.sort(key=lambda event: event.at)  # a stable sort: a build comes before its answer
        labeled = [await self._labeled(store, event) for event in events]
        return [each for each in labeled if each][-limit:]

    async def after(self, store: Store, cursor: str) -> EventPage:
        """Return the events after a position in the log, and the next position."""
        followed = await store.follow(cursor, limit=EVENT_PAGE)
        events = [labeled for event in followed.events if (labeled := await self._labeled(store, event))]
        return EventPage(followed.cursor, tuple(events), more=len(followed.events) == EVENT_PAGE)

    async def _labeled(self, store: Store, event: Event) -> tuple[Event, str] | None:
        """Return an event with its label, or None if the filter excludes it."""
        persona = await self._persona_of(store, event)
        if self._filter.room not in (None, event.room) or self._filter.persona not in (None, persona):
            return None
        room = await self._name(store, Room, event.room)
        return event, room if persona is None else f"{await self._name(store, Persona, persona)} in {room}"

    async def _persona_of(self, store: Store, event: Event) -> str | None:
        """Return the persona of an event. That of an answer is stored with its context."""
        context = event.id if isinstance(event, Build) else event.context
        if isinstance(event, Build):
            self._personas[context] = event.persona
        elif context not in self._personas:
            build = await store.build(context)
            self._personas[context] = build.persona if build else None
        return self._personas[context]

    async def _name(self, store: Store, kind: type[Persona | Room], id: str) -> str:
        if (kind, id) not in self._names:
            found = await store.get(kind, id)
            self._names[kind, id] = (found.name if found else "") or id
        return self._names[kind, id]


class Outage:
    """Reports when the store becomes unavailable and available again, and paces retries."""

    def __init__(self, notice: Callable[[str], None]) -> None:
        self._notice = notice
        self._wait = 0.0

    def failed(self, error: StoreError) -> float:
        """Record a failure, and return the seconds until the next attempt."""
        if not self._wait:
            self._notice(f"the store is unavailable ({error}); retrying")
        self._wait = min(MAX_RETRY_WAIT, 2 * self._wait or POLL_INTERVAL)
        return self._wait

    def succeeded(self) -> None:
        """Record a success."""
        if self._wait:
            self._notice("the store is available again")
        self._wait = 0.0


async def follow_events(
    opening: OpenStore,
    watch: EventReader,
    *,
    limit: int,
    pause: Callable[[float], Awaitable[None]],
    keep_going: Callable[[], bool],
    notice: Callable[[str], None],
) -> AsyncIterator[tuple[Event, str]]:
    """Yield the last events, then every new one, while `keep_going()` is true.

    `pause` waits between two polls. If the store becomes unavailable, it is retried and no event is lost; `notice`
    receives a message when that happens and when it is over.
    """
    outage, log = Outage(notice), EventLog(watch, limit)
    while keep_going():
        try:
            async with opening() as look:
                while keep_going():
                    for named in await log.read(await look()):
                        yield named
                    outage.succeeded()
                    if not log.more:
                        await pause(POLL_INTERVAL)
        except StoreError as error:
            await pause(outage.failed(error))


class EventLog:
    """A position in the log of a store. It starts with the last events and returns none of them twice."""

    def __init__(self, watch: EventReader, limit: int) -> None:
        self._watch = watch
        self._limit = limit
        self._cursor = ""
        self._shown: set[str] = set()
        self.more = False

    async def read(self, store: Store) -> list[tuple[Event, str]]:
        """Return new events. The position is read before the last events, so that none is missed."""
        if not self._cursor:
            self._cursor = (await store.follow("", limit=EVENT_PAGE)).cursor
            last = await self._watch.last(store, self._limit)
            self._shown = {event.id for event, _ in last}
            return last
        seen = await self._watch.after(store, self._cursor)
        self._cursor, self.more = seen.cursor, seen.more
        return [named for named in seen.events if named[0].id not in self._shown]


EXAMPLES: Final = """\
Examples:
  brimful monitor
  brimful monitor --follow
  brimful monitor --persona nova --follow
  brimful monitor --room support --follow --json | jq -c 'select(.event == "build")'

Press Ctrl-C to stop (exit code 130)."""


def register(app: typer.Typer) -> None:
    app.command("monitor", epilog=EXAMPLES)(monitor)


def monitor(
    *,
    persona: PersonaFilter = None,
    room: RoomFilter = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="Start with the last N events.")] = 10,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep running and show new events.")] = False,
    target: StoreOptions,
    as_json: Json = False,
) -> None:
    """Show contexts and answers as they happen.

    Shows the last events of all processes that share the store. With
    --follow, new ones are shown as they happen. For a context, you see its
    components, the window as a bar, and what changed since the previous
    context of the same persona and room. With --json, each line is one event.
    """
    require_store(target.db)
    show, watch = _printer(as_json=as_json), EventReader(EventFilter(room=room, persona=persona))
    if follow:
        asyncio.run(_follow(show, watch, limit, target))
        return

    async def last(store: Store) -> list[tuple[Event, str]]:
        events = await watch.last(store, limit)
        if not events:
            await require_room(store, room)
        return events

    found = with_store(last, target=target)
    for event, who in found:
        show(event, who)
    if not found and not as_json:
        output.write("no events yet; use --follow to wait for them")


def _printer(*, as_json: bool) -> Callable[[Event, str], None]:
    formatter = EventFormatter()

    def show(event: Event, who: str) -> None:
        if as_json:
            output.write_json(msgspec.json.encode(formatter.data(event)))
        else:
            output.write(formatter.text(event, who))

    return show


async def _follow(show: Callable[[Event, str], None], watch: EventReader, limit: int, target: StoreOptions) -> None:
    from brimful.engine import Engine  # noqa: PLC0415 - slow to import

    present = _file_check(target.db)

    @asynccontextmanager
    async def opening() -> AsyncIterator[GetStore]:
        present()
        async with Engine(target.db, tenant=target.tenant, embedder="none") as engine:

            async def look() -> Store:
                present()
                return engine.store

            yield look

    events = follow_events(
        opening, watch, limit=limit, pause=asyncio.sleep, keep_going=output.has_reader, notice=output.warn
    )
    async for event, who in events:
        show(event, who)


def _file_check(db: str) -> Callable[[], None]:
    """Return a check that the file of a store still exists and was not replaced.

    An open database does not notice when its file is removed or replaced.
    """
    from brimful.stores.urls import parse_url  # noqa: PLC0415 - as above

    target = parse_url(db)
    known: list[int] = []

    def check() -> None:
        if not target.path:
            return
        try:
            now = Path(target.path).stat().st_ino
        except OSError:
            known.clear()
            raise StoreUnavailable(target.shown, "the file is gone", retriable=True) from None
        before, known[:] = list(known), [now]
        if before not in ([], [now]):
            raise StoreUnavailable(target.shown, "the file was replaced", retriable=True)

    return check
