"""Watching a store: what any process builds and answers there, as it happens, through restarts and absences."""

from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Final

import msgspec

from brimful.answers import Build
from brimful.errors import StoreError
from brimful.protocols import Store
from brimful.records import Persona, Response, Room

EVERY: Final = 0.5  # seconds between two looks
PAGE: Final = 100  # events a look brings at once
LONGEST_WAIT: Final = 10.0  # seconds between two tries to reach a store that is away
_REMEMBERED: Final = 10_000  # contexts of which the persona is at hand

Event = Build | Response
Look = Callable[[], Awaitable[Store]]
"""Gives the store that was opened, or raises a `StoreError` if it is no longer where it was."""
Opening = Callable[[], AbstractAsyncContextManager[Look]]
"""Opens the store, as often as it takes."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Whose events are shown; None is everybody's."""

    room: str | None = None
    persona: str | None = None


class Seen(msgspec.Struct, frozen=True):
    """What one look brought: events with who and where by name, and whether more are waiting already."""

    cursor: str
    events: tuple[tuple[Event, str], ...]
    more: bool


class Watch:
    """Reads events of a store, each with whose it is and where, by name."""

    def __init__(self, wanted: Wanted) -> None:
        """Look for these."""
        self._wanted = wanted
        self._personas: OrderedDict[str, str | None] = OrderedDict()
        self._names: dict[tuple[type[Persona | Room], str], str] = {}

    async def last(self, store: Store, limit: int) -> list[tuple[Event, str]]:
        """Return the last events, oldest first, each with whose it is and where."""
        room, persona = self._wanted.room, self._wanted.persona
        builds = await store.builds(room=room, persona=persona, limit=limit)
        answers = await store.responses(room=room, limit=limit)
        events: list[Event] = [*reversed(builds), *reversed(answers)]
        events.sort(key=lambda event: event.at)  # and of one moment, a build before its answer
        named = [await self._named(store, event) for event in events]
        return [each for each in named if each][-limit:]

    async def after(self, store: Store, cursor: str) -> Seen:
        """Return the events after a place in the log, and the place to go on from."""
        followed = await store.follow(cursor, limit=PAGE)
        events = [named for event in followed.events if (named := await self._named(store, event))]
        return Seen(followed.cursor, tuple(events), more=len(followed.events) == PAGE)

    async def _named(self, store: Store, event: Event) -> tuple[Event, str] | None:
        """Return an event with whose it is and where, or nothing if it is not wanted."""
        persona = await self._persona_of(store, event)
        if self._wanted.room not in (None, event.room) or self._wanted.persona not in (None, persona):
            return None
        room = await self._called(store, Room, event.room)
        return event, room if persona is None else f"{await self._called(store, Persona, persona)} in {room}"

    async def _persona_of(self, store: Store, event: Event) -> str | None:
        """Return whose event it is. An answer does not say; its context does."""
        context = event.id if isinstance(event, Build) else event.context
        if isinstance(event, Build):
            self._personas[context] = event.persona
        elif context not in self._personas:
            snapshot = await store.snapshot(context)
            self._personas[context] = snapshot.persona if snapshot else None
        self._personas.move_to_end(context)
        if len(self._personas) > _REMEMBERED:
            self._personas.popitem(last=False)
        return self._personas[context]

    async def _called(self, store: Store, kind: type[Persona | Room], id: str) -> str:
        if (kind, id) not in self._names:
            found = await store.get(kind, id)
            self._names[kind, id] = (found.name if found else "") or id
        return self._names[kind, id]


class Absence:
    """How long a store has been away, and how long to wait before it is asked again."""

    def __init__(self, notice: Callable[[str], None]) -> None:
        """Tell when it goes, and when it is back."""
        self._notice = notice
        self._wait = 0.0

    def failed(self, error: StoreError) -> float:
        """Note that it could not be asked, and return the seconds until the next try."""
        if not self._wait:
            self._notice(f"the store is away ({error}); trying again")
        self._wait = min(LONGEST_WAIT, 2 * self._wait or EVERY)
        return self._wait

    def answered(self) -> None:
        """Note that it answered."""
        if self._wait:
            self._notice("the store is back")
        self._wait = 0.0


async def follow(
    opening: Opening,
    watch: Watch,
    *,
    limit: int,
    pause: Callable[[float], Awaitable[None]],
    going: Callable[[], bool],
    notice: Callable[[str], None],
) -> AsyncIterator[tuple[Event, str]]:
    """Yield the last events, then every new one, until `going` says no.

    `pause` waits so many seconds between two looks. A store that is away is asked again and again, and no event of the
    time between is lost; `notice` is told when it goes and when it is back.
    """
    absence, log = Absence(notice), Log(watch, limit)
    while going():
        try:
            async with opening() as look:
                while going():
                    for named in await log.read(await look()):
                        yield named
                    absence.answered()
                    if not log.more:
                        await pause(EVERY)
        except StoreError as error:
            await pause(absence.failed(error))


class Log:
    """A place in a store's log: it begins with the last events, and none is told twice."""

    def __init__(self, watch: Watch, limit: int) -> None:
        """Begin with so many."""
        self._watch = watch
        self._limit = limit
        self._cursor = ""
        self._shown: set[str] = set()
        self.more = False

    async def read(self, store: Store) -> list[tuple[Event, str]]:
        """Return what is new. The place is taken before the last events are read, so that none falls between."""
        if not self._cursor:
            self._cursor = (await store.follow("", limit=PAGE)).cursor
            last = await self._watch.last(store, self._limit)
            self._shown = {event.id for event, _ in last}
            return last
        seen = await self._watch.after(store, self._cursor)
        self._cursor, self.more = seen.cursor, seen.more
        return [named for named in seen.events if named[0].id not in self._shown]
