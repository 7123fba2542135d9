"""Threads for CPU-bound work, shared by all tenants, with a limit on the processor time of each request.

A request that takes too long, or whose client has left, is interrupted: an exception is raised in its thread, which
ends any loop in Python. Nothing can interrupt a call in C that does not return; `brimful.server.runner` replaces a
process that such a call blocks.
"""

import asyncio
import ctypes
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from types import FrameType
from typing import Any, Final, Generic, TypeVar

from brimful.server.errors import ApiError

_CHECK_SECONDS: Final = 0.05  # between two looks at running work
_UNSAFE_MODULES: Final = frozenset({"_weakrefset", "brimful.cache", "contextlib", "logging", "threading", "weakref"})
"""Modules that hold locks in Python code, which an exception could leave held, or that are called where it is lost."""
_IMPORT_MODULE: Final = "importlib._bootstrap"
"""The module that imports others, and that would leave one half-imported."""

T = TypeVar("T")


class _Account(Generic[T]):
    """The work of a tenant that waits, how much of it runs, and the processor time that it has used."""

    __slots__ = ("running", "used", "waiting")

    def __init__(self, used: float) -> None:
        self.waiting: deque[T] = deque()
        self.running = 0
        self.used = used


class FairQueue(Generic[T]):
    """Decides whose work runs next: that of the tenant that has used the least processor time.

    Tenants with work get equal numbers of slots, and as many are left for one that comes next, so that it need not wait
    for the work of others to end. A tenant without work is forgotten, and starts again level with the one that has used
    the least.

    >>> queue: FairQueue[str] = FairQueue(slots=2)
    >>> for name in ("a1", "a2", "a3", "b1"):
    ...     queue.add(name[0], name)
    >>> [queue.start(), queue.start(), queue.start()]
    ['a1', 'b1', None]
    >>> queue.end("a", cost=5.0)
    >>> queue.start()
    'a2'
    """

    def __init__(self, slots: int) -> None:
        self._slots = self._free = slots
        self._accounts: dict[str, _Account[T]] = {}

    def add(self, tenant: str, work: T) -> None:
        if tenant not in self._accounts:
            used = min((account.used for account in self._accounts.values()), default=0.0)
            self._accounts[tenant] = _Account(used)
        self._accounts[tenant].waiting.append(work)

    def start(self) -> T | None:
        """Take the next work to run; None if there is none, or no slot for it."""
        accounts = self._accounts.values()
        share = max(1, self._slots // (len(accounts) + 1))
        ready = [account for account in accounts if account.waiting and account.running < share]
        if not self._free or not ready:
            return None
        account = min(ready, key=lambda each: each.used)
        account.running += 1
        self._free -= 1
        return account.waiting.popleft()

    def end(self, tenant: str, *, cost: float) -> None:
        """Free the slot of work that has ended, and charge its cost to its tenant."""
        account = self._accounts[tenant]
        account.running -= 1
        account.used += cost
        self._free += 1
        self._forget_idle(tenant)

    def remove(self, tenant: str, work: T) -> None:
        self._accounts[tenant].waiting.remove(work)
        self._forget_idle(tenant)

    def _forget_idle(self, tenant: str) -> None:
        account = self._accounts[tenant]
        if not account.waiting and not account.running:
            del self._accounts[tenant]


class WorkInterrupted(BaseException):
    """Raised in a thread to end its work. No `except Exception` catches it."""


class _Job:
    """Work of a request. Its `outcome` is set when it ends, or when it must not go on."""

    def __init__(self, share: "Share", work: Callable[[], Any], outcome: "asyncio.Future[Any]") -> None:
        self.share = share
        self.outcome = outcome
        self.is_started = False
        self.seconds = 0.0  # of processor time, once it has ended
        self._work = work
        self._lock = threading.Lock()  # so that only this work is interrupted, and not the next one in its thread
        self._thread: int | None = None
        self._is_interrupted = False
        self._clock: Callable[[], float] = time.monotonic
        self._started = 0.0

    def __call__(self) -> Any:
        thread = threading.get_ident()
        self._clock = _thread_clock(thread)
        self._started = self._clock()
        self._thread = thread
        try:
            return self._work()
        finally:
            while self._thread is not None:
                try:
                    self._end(thread)
                except WorkInterrupted:  # it came when the work had just ended
                    continue

    def _end(self, thread: int) -> None:
        with self._lock:
            if self._is_interrupted:
                # Whether the exception was raised yet cannot be known, so another one replaces it, and is waited for.
                # Until a thread raises what was sent to it, CPython checks for it after every call and in every loop.
                self._is_interrupted = False
                _raise_in_thread(thread, WorkInterrupted)
                while True:
                    pass
            self.seconds = self._clock() - self._started
            self._thread = None

    @property
    def elapsed(self) -> float:
        """The processor time it has used so far, in seconds."""
        return self.seconds if self._thread is None else self._clock() - self._started

    def interrupt(self) -> None:
        """Raise an exception in its thread, unless that is where an exception could do harm."""
        with self._lock:
            thread = self._thread
            frame = None if thread is None else sys._current_frames().get(thread)  # noqa: SLF001 - there is no other way
            if thread is not None and frame and _may_interrupt(frame):
                self._is_interrupted = True
                _raise_in_thread(thread, WorkInterrupted)


def _may_interrupt(frame: FrameType) -> bool:
    """Whether an exception in this frame does no harm: not where locks are held, nor anywhere during an import."""
    if frame.f_globals.get("__name__") in _UNSAFE_MODULES:
        return False
    callers: FrameType | None = frame
    while callers is not None:
        if callers.f_globals.get("__name__") == _IMPORT_MODULE:
            return False
        callers = callers.f_back
    return True


def _thread_clock(thread: int) -> Callable[[], float]:
    """Return the clock of a thread's processor time; where the system has none, one of the time that passes."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.monotonic
    clock = time.pthread_getcpuclockid(thread)
    return lambda: time.clock_gettime(clock)


def _raise_in_thread(thread: int, error: type[BaseException]) -> None:
    """Raise an exception in a thread as soon as it runs Python code."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error))


class Share:
    """A request's share of the threads, and the processor time that it has used."""

    def __init__(self, pool: "WorkPool", tenant: str, seconds: float) -> None:
        self.tenant = tenant
        self.used = 0.0  # seconds, by work that has ended
        self._pool = pool
        self._seconds = seconds

    async def run(self, work: Callable[[], T]) -> T:
        """Run a function in a thread when it is the tenant's turn."""
        self.check()
        return await self._pool.run(self, work)

    def check(self, more: float = 0.0) -> None:
        """Raise an error if the request, with `more` seconds of running work, is over its limit."""
        if self.used + more > self._seconds:
            message = (
                f"this request takes more than {self._seconds:g} seconds of processor time: send less at once, "
                "or raise `limits.processor_seconds` of the server"
            )
            raise ApiError("too_large", message, code="processor_time_exceeded", limit="processor_seconds")

    def renew(self) -> "Share":
        """Return a share of the same tenant for work after the request, with a limit of its own."""
        return Share(self._pool, self.tenant, self._seconds)


class WorkPool:
    """Runs work in threads, which tenants share by the processor time that they use.

    Work of a request that is over its limit is interrupted, and the request gets an error. If the task that waits for
    work is cancelled, the work is dropped or interrupted.
    """

    def __init__(self, threads: int) -> None:
        self._queue: FairQueue[_Job] = FairQueue(threads)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="brimful-work")
        self._running: set[_Job] = set()
        self._is_watching = False

    def share(self, tenant: str, seconds: float) -> Share:
        """Return the share of a new request, which may take so many seconds of processor time."""
        return Share(self, tenant, seconds)

    async def run(self, share: Share, work: Callable[[], T]) -> T:
        """Run work of a request when it is its tenant's turn."""
        outcome: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        job = _Job(share, work, outcome)
        self._queue.add(share.tenant, job)
        self._start_ready()
        try:
            return await outcome
        except asyncio.CancelledError:  # nobody needs the result
            if job.is_started:
                job.interrupt()
            else:
                self._queue.remove(share.tenant, job)
            raise

    async def close(self) -> None:
        """Wait for running work."""
        await asyncio.to_thread(self._threads.shutdown)

    def _start_ready(self) -> None:
        loop = asyncio.get_running_loop()
        while (job := self._queue.start()) is not None:
            job.is_started = True
            self._running.add(job)
            end = partial(self._end, job)
            self._threads.submit(job).add_done_callback(partial(loop.call_soon_threadsafe, end))
        if self._running and not self._is_watching:
            self._is_watching = True
            loop.call_later(_CHECK_SECONDS, self._watch)

    def _end(self, job: _Job, result: "Future[Any]") -> None:
        self._running.discard(job)
        job.share.used += job.seconds
        self._queue.end(job.share.tenant, cost=job.seconds)
        self._check(job)
        error = result.exception()
        if job.outcome.done():
            pass  # it was interrupted, or has ended in spite of that
        elif error is None:
            job.outcome.set_result(result.result())
        else:
            job.outcome.set_exception(error)
        self._start_ready()

    def _watch(self) -> None:
        """Interrupt work that has taken too long or is not needed anymore; again, if it did not end the last time."""
        for job in self._running:
            self._check(job, job.elapsed)
            if job.outcome.done():
                job.interrupt()
        self._is_watching = False
        self._start_ready()

    def _check(self, job: _Job, more: float = 0.0) -> None:
        """Give a request that is over its limit an error instead of a result."""
        try:
            job.share.check(more)
        except ApiError as error:
            if not job.outcome.done():
                job.outcome.set_exception(error)
