"""Run the server with uvicorn until it receives a stop signal."""

import asyncio
import ctypes
import errno
import faulthandler
import gc
import logging
import multiprocessing
import os
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from multiprocessing.synchronize import Event
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Final, NamedTuple

import msgspec
import uvicorn

from brimful.errors import BrimfulError, InvalidConfig, StoreUnavailable
from brimful.server.app import create_app
from brimful.server.config import Config, TelemetryConfig, require_keys_or_loopback
from brimful.server.connections import connection_settings
from brimful.server.logs import configure_logging
from brimful.server.reload import ReloadableApp, reread_config
from brimful.stores import connect
from brimful.telemetry.prometheus import MULTIPROCESS_VARIABLE, forget_process

_STREAM_END_SECONDS: Final = 5.0  # for streams to send a last event, after the grace period
_GC_THRESHOLD: Final = 20_000  # objects; a request with hundreds of messages makes fewer, and almost no cycles
_M_ARENA_MAX: Final = -8  # of mallopt(3)
_MALLOC_ARENAS: Final = 2
_BACKLOG: Final = 2_048  # connections that wait to be accepted; uvicorn's default
_POLL_SECONDS: Final = 0.5  # between two looks at the workers
_BEAT_SECONDS: Final = 0.5  # between two beats of an event loop
_KILL_DELAY: Final = 2.0  # seconds that a blocked worker has to write a traceback and end by itself
_STORE_PAUSE: Final = 0.5  # seconds between two attempts to open the store
_RELOAD: Final = getattr(signal, "SIGHUP", None)  # Windows has no such signal
_SWITCH_INTERVAL: Final = 0.001  # seconds; Python's default of 5 ms would delay requests while another thread counts

_log = logging.getLogger("brimful.server")

Announce = Callable[[str], None]


class Heartbeat:
    """Ends a process whose event loop is blocked, with a traceback of all threads on standard error.

    It works even if a call in C holds the interpreter: faulthandler waits in a thread without Python. The number of
    `beats` shows others that the loop runs.
    """

    def __init__(self, stall_seconds: float, beats: ctypes.c_ulonglong) -> None:
        self._stall_seconds = stall_seconds
        self._beats = beats
        self._next: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Beat in the running event loop."""
        faulthandler.dump_traceback_later(self._stall_seconds, exit=True)
        self._beats.value += 1
        self._next = asyncio.get_running_loop().call_later(_BEAT_SECONDS, self.start)

    def stop(self) -> None:
        """End no process anymore."""
        if self._next is not None:
            self._next.cancel()
            faulthandler.cancel_dump_traceback_later()


class StallDetector:
    """Tells whether a worker stands still, by the number of its beats at each look.

    It counts looks instead of seconds: if all processes were paused together, no worker is to blame.

    >>> detector = StallDetector(max_looks=2)
    >>> [detector.is_stalled(beats) for beats in (1, 2, 2, 2, 2, 3)]
    [False, False, False, True, False, False]
    """

    def __init__(self, max_looks: int) -> None:
        self._max_looks = max_looks
        self._beats = -1
        self._looks = 0

    def is_stalled(self, beats: int) -> bool:
        """Look at a worker; return whether it has now stood still for too long. It is so only once."""
        self._looks = 0 if beats != self._beats else self._looks + 1
        self._beats = beats
        return self._looks == self._max_looks


class _Server(uvicorn.Server):
    """Announces its address, reloads on SIGHUP, and gives running answers time to finish on shutdown."""

    def __init__(self, app: ReloadableApp, config: Config, announce: Announce, beats: ctypes.c_ulonglong) -> None:
        grace = config.limits.grace
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                server_header=False,
                **connection_settings(config),
                ws="none",  # the proxy refuses WebSockets with an error that says so
                timeout_graceful_shutdown=int(grace + _STREAM_END_SECONDS) + 1,
            )
        )
        self._app = app
        self._reloads: set[asyncio.Task[None]] = set()
        self._grace = grace
        self._announce = announce
        self._heartbeat = Heartbeat(config.limits.stall_seconds, beats)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        _tune_gc()
        _limit_malloc_arenas()
        self._heartbeat.start()
        if _RELOAD is not None:
            asyncio.get_running_loop().add_signal_handler(_RELOAD, self._reload)
        for server in self.servers:
            for bound in server.sockets:
                self._announce(_address(bound))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.begin_shutdown()
        asyncio.get_running_loop().call_later(self._grace, self._app.force_shutdown)
        await super().shutdown(sockets)
        self._heartbeat.stop()

    def _reload(self) -> None:
        task = asyncio.get_running_loop().create_task(self._app.reload_on_signal())
        self._reloads.add(task)  # the loop holds only a weak reference
        task.add_done_callback(self._reloads.discard)


def run(config: Config, *, file: str, announce: Announce, read: Callable[[], Config]) -> None:
    """Serve until a stop signal. `read` reads the configuration again.

    `announce` is called with the address, unless the log is JSON.
    """
    require_keys_or_loopback(config, file)
    if _RELOAD is not None:
        signal.signal(_RELOAD, signal.SIG_IGN)  # until it can be handled
    if config.telemetry.log_format == "json":
        announce = _log_address
    app = create_app(config, file=file, read=read)
    asyncio.run(wait_for_store(partial(_check_store, config), config.limits.store_wait))
    with bind_socket(config, file) as listening:
        if config.workers == 1:
            sys.setswitchinterval(_SWITCH_INTERVAL)
            _Server(app, config, announce, ctypes.c_ulonglong()).run(sockets=[listening])
        else:
            del app  # each worker has its own
            with metrics_folder(config):
                Supervisor(config, file, listening, read).run(announce)


class Supervisor:
    """Runs several server processes on one socket, and replaces those that die or stand still.

    On SIGHUP, it lets all of them reload the configuration, unless it cannot be used. A client that asks one of them to
    reload does the same.
    """

    def __init__(self, config: Config, file: str, listening: socket.socket, read: Callable[[], Config]) -> None:
        self._config = config
        self._read = read
        self._version = 0  # of the configuration
        self._must_reload = False
        self._file = file
        self._listening = listening
        self._context = multiprocessing.get_context("spawn")  # a fork would share threads, locks and connections
        self._workers: list[_Worker] = []
        self._stopping = False

    def run(self, announce: Announce) -> None:
        """Serve until a stop signal. `announce` is called with the address when all workers are ready."""
        self._listening.listen(_BACKLOG)  # connections wait until a worker accepts them
        handlers = {number: signal.signal(number, self._stop) for number in (signal.SIGINT, signal.SIGTERM)}
        if _RELOAD is not None:
            handlers[_RELOAD] = signal.signal(_RELOAD, self._request_reload)
        try:
            self._workers = [self._start() for _ in range(self._config.workers)]
            announced = False
            while not self._stopping:
                if not announced and all(worker.ready.is_set() for worker in self._workers):
                    announced = True
                    announce(_address(self._listening))
                if not wait([worker.process.sentinel for worker in self._workers], timeout=_POLL_SECONDS):
                    self._kill_stalled()
                self._replace_dead()
                if self._must_reload:
                    self._must_reload = False
                    self._reload()
                self._signal_outdated()
        finally:
            self._stop_workers()
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def _stop(self, number: int, frame: object) -> None:
        del number, frame
        self._stopping = True

    def _request_reload(self, number: int, frame: object) -> None:
        del number, frame
        self._must_reload = True

    def _reload(self) -> None:
        """Read the configuration again, for all workers if it can be used."""
        try:
            config, _ = reread_config(self._config, self._read, self._file)
            # Without telemetry, whose metrics would count this process, too.
            create_app(msgspec.structs.replace(config, telemetry=TelemetryConfig()), file=self._file)
        except BrimfulError as error:
            _log.error("nothing was changed: %s", error)
            return
        self._config = config
        self._version += 1

    def _signal_outdated(self) -> None:
        """Let workers reload that began with an older configuration. One that is not ready has to wait."""
        for index, worker in enumerate(self._workers):
            process = worker.process.pid
            if _RELOAD is None or process is None or worker.version == self._version or not worker.ready.is_set():
                continue
            self._workers[index] = worker._replace(version=self._version)
            with suppress(ProcessLookupError):
                os.kill(process, _RELOAD)

    def _start(self) -> "_Worker":
        ready, beats = self._context.Event(), self._context.RawValue(ctypes.c_ulonglong)
        process = self._context.Process(
            target=_serve_as_worker,
            args=(self._config, self._file, self._listening, self._read, ready, beats),
            name="brimful-worker",
        )
        process.start()
        looks = (self._config.limits.stall_seconds + _KILL_DELAY) / _POLL_SECONDS
        return _Worker(process, ready, beats, StallDetector(round(looks)), self._version)

    def _kill_stalled(self) -> None:
        """Kill workers that cannot end by themselves, for example because they were stopped by a signal."""
        for worker in self._workers:
            if worker.ready.is_set() and worker.detector.is_stalled(worker.beats.value):
                _log.error("a worker stands still and is killed")
                worker.process.kill()

    def _replace_dead(self) -> None:
        for index, worker in enumerate(self._workers):
            if self._stopping or worker.process.is_alive():
                continue
            forget_process(worker.process.pid or 0)
            code = worker.process.exitcode
            if not worker.ready.is_set():  # it would fail again
                problem = f"a worker ended with exit code {code} before it was ready; see the errors above"
                raise InvalidConfig(self._file, "workers", problem)
            _log.warning("a worker ended with exit code %s and is replaced", code)
            self._workers[index] = self._start()

    def _stop_workers(self) -> None:
        for worker in self._workers:
            if worker.process.is_alive():
                worker.process.terminate()
        for worker in self._workers:
            worker.process.join()


class _Worker(NamedTuple):
    process: SpawnProcess
    ready: Event
    beats: ctypes.c_ulonglong
    detector: StallDetector
    version: int


def _serve_as_worker(
    config: Config,
    file: str,
    listening: socket.socket,
    read: Callable[[], Config],
    ready: Event,
    beats: ctypes.c_ulonglong,
) -> None:
    """Run one server process until it is stopped, or until its supervisor is gone."""
    Thread(target=_stop_with_parent, daemon=True).start()
    configure_logging(config.telemetry)
    sys.setswitchinterval(_SWITCH_INTERVAL)
    app = create_app(config, file=file, read=read)
    app.on_request = _reload_others
    _Server(app, config, lambda _: ready.set(), beats).run(sockets=[listening])


def _reload_others() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None and parent.pid is not None and _RELOAD is not None:
        os.kill(parent.pid, _RELOAD)


def _stop_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def metrics_folder(config: Config) -> Iterator[None]:
    """Give all workers a common folder for their metrics, so that each of them can show the sums."""
    if not config.telemetry.metrics or MULTIPROCESS_VARIABLE in os.environ:
        yield
        return
    with TemporaryDirectory(prefix="brimful-metrics-", ignore_cleanup_errors=True) as folder:
        os.environ[MULTIPROCESS_VARIABLE] = folder
        yield


def _address(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _log_address(address: str) -> None:
    _log.info("listening on %s", address)


def _tune_gc() -> None:
    """Collect garbage less often, and never scan what is loaded at startup: each scan blocks all requests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD, *gc.get_threshold()[1:])


def _limit_malloc_arenas() -> None:
    """Let threads share a few heaps: with one for each thread, glibc keeps tens of megabytes of free memory in them."""
    if hasattr(os, "confstr_names") and "CS_GNU_LIBC_VERSION" in os.confstr_names:
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _MALLOC_ARENAS)


def bind_socket(config: Config, file: str) -> socket.socket:
    """Bind the address to listen on."""
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    # With an explicit protocol asyncio sets TCP_NODELAY; otherwise small answers wait 40 ms for an ACK.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((config.host, config.port))
    except OSError as error:
        listening.close()
        reason = f"cannot listen on {config.listen}: {error.strerror or error}"
        if error.errno == errno.EADDRINUSE:
            host = config.listen.rpartition(":")[0]
            reason += f". Another port: --listen {host}:{config.port + 1}, or :0 for any free one"
        raise InvalidConfig(file, "listen", reason) from None
    return listening


async def _check_store(config: Config) -> None:
    """Open the store once, to report problems before serving requests."""
    async with connect(config.store):
        pass


async def wait_for_store(
    check: Callable[[], Awaitable[None]],
    seconds: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Check a store until it can be used: a database server may be started at the same time as this one."""
    until, is_told = clock() + seconds, False
    while True:
        try:
            return await check()
        except StoreUnavailable as error:
            if not error.retriable or not seconds:
                raise
            if clock() >= until:
                raise StoreUnavailable(error.store, f"after {seconds:g} seconds, {error.reason}") from None
            if not is_told:
                _log.warning("waiting up to %g seconds for %s: %s", seconds, error.store, error.reason)
                is_told = True
        await sleep(_STORE_PAUSE)
