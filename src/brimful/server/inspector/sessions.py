"""Sessions of coding agents on this machine, as `brimful sessions` shows them.

They are files in the home folder of whoever runs the server, so these endpoints exist only for local use: with the
setting `sessions`, which needs a loopback address and no API keys. Clients name sessions by ids, never by paths.
"""

import asyncio
import hashlib
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from sqlite3 import DatabaseError
from typing import Any, Final

from brimful.cache import LRU
from brimful.core.cache_misses import CacheMiss
from brimful.errors import MissingExtra, UnknownRecord
from brimful.secrets import mask
from brimful.server.errors import ApiError
from brimful.server.inspector.operation import Call
from brimful.server.inspector.queries import SessionsQuery
from brimful.server.inspector.views import View, to_view
from brimful.sessions.cache import Miss, find_misses
from brimful.sessions.events import Category
from brimful.sessions.files import SessionFile, find_sessions
from brimful.sessions.lost import Loss, find_losses
from brimful.sessions.window import Turn, Window

LIST_SECONDS: Final = 5.0
_WAIT: Final = 1.0  # seconds that a request waits for a session that is being read
_ABANDONED: Final = 20.0  # seconds without a request for a session, after which it is not read to its end
_MAX_REPORTS: Final = 16  # in memory
MAX_TURNS: Final = 2_000
_MAX_LISTED: Final = 500  # misses, compactions, and things used again after one, in a report
_MAX_TEXT: Final = 300  # characters of what was used again
_PASSES: Final = 3  # over a file: its windows, its misses and its losses


class SessionRow(View, frozen=True, kw_only=True):
    """A session: its program, the program's own id of it (`name`), its folder, task, and when it was last used.

    `id` is for this API.
    """

    id: str
    name: str
    program: str
    folder: str
    title: str
    modified: float


class SessionList(View, frozen=True, kw_only=True):
    """Sessions, the last used first, and how many there are of each program, whatever the filter.

    Pass `next` as `after` to get the next page; it is null on the last one.
    """

    sessions: tuple[SessionRow, ...]
    next: str | None
    programs: dict[str, int]


class TurnView(View, frozen=True, kw_only=True):
    """A request of a session: what was billed, and the tokens of its prompt by category.

    `unseen` tokens were billed, but what they are is not in the file. `compacted` says that the window was compacted
    before it.
    """

    number: int
    at: float
    model: str
    prompt: int
    read: int
    written: int
    output: int
    tokens: dict[Category, int]
    unseen: int
    compacted: bool


class MissView(View, frozen=True, kw_only=True):
    """A request that read less from the cache than it could have, why, what that cost, and what avoids it.

    `cost` is in US dollars, null if the price is not known.
    """

    turn: int
    at: float
    model: str
    cause: CacheMiss
    tokens: int
    idle: float
    cost: float | None
    message: int | None
    advice: str


class AgainView(View, frozen=True, kw_only=True):
    """Something that a compaction dropped and request `turn` used again: a call, or a value. `handle` recalls it."""

    text: str
    handle: str
    turn: int
    is_call: bool


class LossView(View, frozen=True, kw_only=True):
    """A compaction after request `turn`: how many pieces it dropped, how many were used again, and the first ones."""

    turn: int
    at: float
    dropped: int
    used_again: int
    again: tuple[AgainView, ...]


class SessionReport(View, frozen=True, kw_only=True):
    """What filled the window of a session, why its cache missed, and what compactions lost.

    All sums are of the whole session. `turns`, `misses` and `losses` are limited; `missed_cost` is null if no price is
    known. `unknown` are parts of the file that nobody here knows, by reason.
    """

    model: str
    window: int
    requests: int
    prompt: int
    read: int
    largest: int
    turns: tuple[TurnView, ...]
    missed: int
    missed_tokens: int
    missed_cost: float | None
    misses: tuple[MissView, ...]
    compactions: int
    losses: tuple[LossView, ...]
    unknown: dict[str, int]


class SessionView(View, frozen=True, kw_only=True):
    """A session. While its file is being read, `report` is null, and `progress` the share of it that was read."""

    session: SessionRow
    progress: float
    report: SessionReport | None


class _Abandoned(Exception):
    """Nobody waits for this session any more."""


class _Reading:
    """A session that is being read in a thread."""

    def __init__(self, session: SessionFile, max_turns: int) -> None:
        self.asked = time.monotonic()
        self.progress = 0.0
        self._session = session
        self._max_turns = max_turns
        self._passes = 0

    def run(self) -> SessionReport:
        turns = _Turns(self._max_turns)
        window = Window()
        for turn in window.read(self._events()):
            turns.add(turn)
        try:
            misses = list(find_misses(self._events()))
        except MissingExtra:  # of prices
            misses = list(find_misses(self._events(restart=True), prices=False))
        losses = list(find_losses(self._events()))
        costs = [each.cost for each in misses if each.cost is not None]
        return SessionReport(
            model=window.model,
            window=window.window,
            requests=turns.count,
            prompt=turns.prompt,
            read=turns.read,
            largest=turns.largest,
            turns=tuple(map(_turn_view, turns.shown)),
            missed=len(misses),
            missed_tokens=sum(each.tokens for each in misses),
            missed_cost=float(sum(costs, start=Decimal(0))) if costs else None,
            misses=tuple(map(_miss_view, misses[:_MAX_LISTED])),
            compactions=len(losses),
            losses=tuple(map(_loss_view, losses[:_MAX_LISTED])),
            unknown=dict(window.unknown),
        )

    def _events(self, *, restart: bool = False) -> Iterator[Any]:
        self._passes += not restart
        return self._session.events(0, self._advance)

    def _advance(self, position: int) -> None:
        if time.monotonic() - self.asked > _ABANDONED:
            raise _Abandoned
        share = min(1.0, position / max(1, self._session.size))
        self.progress = (self._passes - 1 + share) / _PASSES


class _Turns:
    """The requests of a session: sums of all, and as many of them as a chart can show."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.count = self.prompt = self.read = self.largest = 0
        self._turns: list[Turn] = []
        self._last: Turn | None = None
        self._step = 1

    def add(self, turn: Turn) -> None:
        self.count += 1
        self.prompt += turn.call.prompt
        self.read += turn.call.read
        self.largest = max(self.largest, turn.call.prompt)
        self._last = turn
        if self._is_shown(turn):
            self._turns.append(turn)
        if len(self._turns) > self._limit:
            self._step *= 2
            self._turns = [each for each in self._turns if self._is_shown(each)]

    def _is_shown(self, turn: Turn) -> bool:
        return turn.number % self._step == 1 % self._step

    @property
    def shown(self) -> list[Turn]:
        """Every request, or every second or fourth of many, and the last one."""
        last = self._last
        rest = [] if last is None or self._is_shown(last) else [last]
        return [*self._turns, *rest]


class Sessions:
    """Endpoints for sessions. One session is read at a time, in a thread of its own; what was read is cached.

    The list of files is not read again for `list_seconds`. A report shows `max_turns` requests; of a longer session,
    every second or fourth.
    """

    def __init__(
        self, home: Path, environ: Mapping[str, str], *, list_seconds: float = LIST_SECONDS, max_turns: int = MAX_TURNS
    ) -> None:
        self._home = home
        self._list_seconds = list_seconds
        self._max_turns = max_turns
        self._environ = environ
        self._lock = asyncio.Lock()
        self._found: dict[str, SessionFile] = {}
        self._listed = -list_seconds
        self._reports: LRU[tuple[str, int, float], SessionReport] = LRU(max_entries=_MAX_REPORTS)
        self._readings: dict[tuple[str, int, float], tuple[_Reading, asyncio.Future[SessionReport]]] = {}
        self._thread = ThreadPoolExecutor(1, "brimful-sessions")

    async def list_page(self, call: Call) -> SessionList:
        """Return a page of the sessions in the home folder, the last used first."""
        query: SessionsQuery = call.query
        found = await self._list()
        words = query.q.casefold().split()
        matching = [
            (id, each)
            for id, each in found.items()
            if query.program in ("", each.program)
            and all(word in f"{each.title} {each.folder} {each.id}".casefold() for word in words)
        ]
        ids = [id for id, _ in matching]
        start = ids.index(query.after) + 1 if query.after in ids else 0
        page = matching[start : start + query.limit]
        programs: dict[str, int] = {}
        for each in found.values():
            programs[each.program] = programs.get(each.program, 0) + 1
        more = start + query.limit < len(matching)
        rows = tuple(_row(id, each) for id, each in page)
        return SessionList(sessions=rows, next=page[-1][0] if more else None, programs=programs)

    async def show(self, call: Call) -> SessionView:
        """Return what is in a session. Until its file is read, ask again."""
        id = call.name()
        session = (await self._list()).get(id)
        if session is None:
            raise UnknownRecord("session", id)
        key = (id, session.size, session.modified)
        row, report = _row(id, session), self._reports.get(key)
        if report is not None:
            return SessionView(session=row, progress=1.0, report=report)
        reading, future = self._readings.get(key) or self._start(key, session)
        reading.asked = time.monotonic()
        await asyncio.wait([future], timeout=_WAIT)
        if not future.done():
            return SessionView(session=row, progress=reading.progress, report=None)
        return SessionView(session=row, progress=1.0, report=_result(future))

    def close(self) -> None:
        """Stop reading."""
        for reading, _ in self._readings.values():
            reading.asked = -_ABANDONED
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _start(
        self, key: tuple[str, int, float], session: SessionFile
    ) -> tuple[_Reading, asyncio.Future[SessionReport]]:
        reading = _Reading(session, self._max_turns)
        future = asyncio.get_running_loop().run_in_executor(self._thread, reading.run)
        self._readings[key] = (reading, future)

        def end(done: asyncio.Future[SessionReport]) -> None:
            del self._readings[key]
            if not done.cancelled() and done.exception() is None:
                self._reports[key] = done.result()

        future.add_done_callback(end)
        return reading, future

    async def _list(self) -> dict[str, SessionFile]:
        async with self._lock:
            if time.monotonic() - self._listed >= self._list_seconds:
                found = await asyncio.to_thread(find_sessions, self._home, self._environ)
                self._found = {_make_id(each): each for each in found}
                self._listed = time.monotonic()
            return self._found


def _result(future: asyncio.Future[SessionReport]) -> SessionReport:
    try:
        return future.result()
    except (OSError, DatabaseError, _Abandoned) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
        raise ApiError("not_found", f"the session cannot be read: {reason}", code="session_unreadable") from None


def _make_id(session: SessionFile) -> str:
    """Return an id that says nothing about the path, and that is the same as long as the file is there."""
    name = "\0".join((session.program, str(session.path), session.id))
    return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=9).hexdigest()


def _row(id: str, session: SessionFile) -> SessionRow:
    return to_view(SessionRow, session, id=id, name=session.id, title=mask(session.title)[0])


def _turn_view(turn: Turn) -> TurnView:
    return to_view(TurnView, turn, turn.call, prompt=turn.call.prompt)


def _miss_view(miss: Miss) -> MissView:
    return to_view(MissView, miss, cost=None if miss.cost is None else float(miss.cost))


def _loss_view(loss: Loss) -> LossView:
    again = tuple(
        AgainView(text=_shorten(mask(each.text)[0]), handle=f"p{each.place}", turn=each.turn, is_call=each.is_call)
        for each in loss.again[:_MAX_LISTED]
    )
    return to_view(LossView, loss, used_again=len(loss.again), again=again)


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_TEXT else f"{line[: _MAX_TEXT - 1]}…"
