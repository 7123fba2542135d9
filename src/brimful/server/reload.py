"""Reload the configuration while requests are served.

Each configuration has services of its own. A request finishes with the services that it began with, so nothing changes
under it. The store and the telemetry are shared by all of them.
"""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final, Protocol

import msgspec
from starlette.routing import BaseRoute, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from brimful.errors import BrimfulError
from brimful.server.background import Shutdown, log_failure
from brimful.server.config import Config, ServerLimits, require_keys_or_loopback
from brimful.server.errors import ApiError
from brimful.stores import Database

RESTART_SETTINGS: Final = ("listen", "store", "replica", "workers", "trusted_proxies", "telemetry")
"""Settings of what runs as long as the process: sockets, connections to the store, and telemetry."""
RESTART_LIMITS: Final = (
    *("max_connections", "max_header_bytes", "header_timeout", "write_timeout", "keep_alive", "grace"),
    *("stall_seconds", "store_wait"),
)
"""Likewise, of `[limits]`."""

_log = logging.getLogger("brimful.server")


class RunningServices(Protocol):
    """All that serves requests with one configuration."""

    shutdown: Shutdown

    @property
    def app(self) -> ASGIApp:
        """The app that they answer with."""

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes of the app."""

    async def warm_up(self) -> None:
        """Load what requests need. It may fail, and changes nothing that others use."""

    async def start(self) -> None:
        """Start background work."""

    async def stop_work(self) -> None:
        """Stop background work."""

    async def close(self) -> None:
        """Wait for pending writes and close everything."""


def merge_config(running: Config, config: Config) -> tuple[Config, tuple[str, ...]]:
    """Return a configuration to run from now on, and the names of changed settings that need a restart.

    >>> config, names = merge_config(Config(), Config(listen="127.0.0.1:9000", mode="remember"))
    >>> config.mode, config.listen, names
    ('remember', '127.0.0.1:8080', ('listen',))
    """
    names = [name for name in RESTART_SETTINGS if getattr(running, name) != getattr(config, name)]
    limits = [name for name in RESTART_LIMITS if getattr(running.limits, name) != getattr(config.limits, name)]
    merged = msgspec.structs.replace(
        config,
        **{name: getattr(running, name) for name in names},
        limits=_replace_limits(config.limits, running.limits, limits),
    )
    return merged, (*names, *(f"limits.{name}" for name in limits))


def _replace_limits(limits: ServerLimits, running: ServerLimits, names: list[str]) -> ServerLimits:
    return msgspec.structs.replace(limits, **{name: getattr(running, name) for name in names})


def reread_config(running: Config, read: Callable[[], Config], file: str) -> tuple[Config, tuple[str, ...]]:
    """Read the configuration again, and return what `merge_config` does."""
    config, names = merge_config(running, read())
    require_keys_or_loopback(config, file)
    return config, names


class _Generation:
    """The services of one configuration, and the number of requests that use them."""

    def __init__(self, services: RunningServices) -> None:
        self.services = services
        self.requests = 0
        self.idle = asyncio.Event()

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.requests += 1
        self.idle.clear()
        try:
            await self.services.app(scope, receive, send)
        finally:
            self.requests -= 1
            if not self.requests:
                self.idle.set()

    async def retire(self) -> None:
        """Close the services after the last request. Event streams end, so that their clients connect again."""
        self.services.shutdown.started.set()
        await self.services.stop_work()
        if self.requests:
            await self.idle.wait()
        await self.services.close()


class ReloadableApp:
    """The ASGI app of a server whose configuration can be replaced.

    `build` makes the services of a configuration, without opening anything, and `read` reads the configuration again.
    """

    def __init__(
        self,
        config: Config,
        build: Callable[[Config, "ReloadableApp"], RunningServices],
        database: Database,
        *,
        read: Callable[[], Config],
        file: str,
    ) -> None:
        self._config = config
        self._build = build
        self._database = database
        self._read = read
        self._file = file
        self._current = _Generation(build(config, self))
        self._retiring: dict[asyncio.Task[None], _Generation] = {}
        self._reloading = asyncio.Lock()
        self._lifespan = Router(lifespan=lambda _: self.open())
        self.on_request: Callable[[], None] = lambda: None
        """Called after a reload that a client requested, so that other processes reload, too."""

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes of the current configuration."""
        return self._current.services.routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(scope, receive, send)
        else:
            await self._current.serve(scope, receive, send)

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None, None]:
        """Open the store and start; at the end, wait for running requests and pending writes, and close everything."""
        async with self._database:
            await self._current.services.warm_up()
            await self._current.services.start()
            yield
            async with self._reloading:
                if self._retiring:
                    await asyncio.wait(self._retiring)
                await self._current.services.stop_work()
                await self._current.services.close()

    def begin_shutdown(self) -> None:
        """Report that the server is not ready any more."""
        for generation in self._generations():
            generation.services.shutdown.started.set()

    def force_shutdown(self) -> None:
        """Cut off running answers."""
        for generation in self._generations():
            generation.services.shutdown.forced.set()

    async def reload(self) -> tuple[str, ...]:
        """Serve new requests with the configuration as it is now. Return names of changes that need a restart.

        Raises an error, and changes nothing, if the configuration cannot be used.
        """
        async with self._reloading:
            if self._current.services.shutdown.started.is_set():
                raise ApiError("shutting_down", "the server is shutting down")
            config, names = await asyncio.to_thread(reread_config, self._config, self._read, self._file)
            services = await asyncio.to_thread(self._build, config, self)
            try:
                await services.warm_up()
                await self._database.reload_keys()
                await services.start()
            except BaseException:
                await services.close()
                raise
            self._config = config
            old, self._current = self._current, _Generation(services)
            task = asyncio.create_task(old.retire())
            self._retiring[task] = old
            task.add_done_callback(self._forget)
        changes = f"; restart the server to change {', '.join(names)}" if names else ""
        _log.info("process %d reloaded %s%s", os.getpid(), self._file, changes)
        return names

    async def reload_on_request(self) -> tuple[str, ...]:
        """Reload, and let other processes do so. An error of the configuration becomes an answer for the client."""
        try:
            names = await self.reload()
        except BrimfulError as error:
            raise ApiError("invalid", f"nothing was changed: {error}", code="invalid_config") from None
        self.on_request()
        return names

    async def reload_on_signal(self) -> None:
        """Reload, and log why that was not possible."""
        try:
            await self.reload()
        except (BrimfulError, ApiError) as error:
            _log.error("nothing was changed: %s", error)
        except Exception as error:  # noqa: BLE001 - the edge of the process: it goes on as before
            log_failure("reloading", error)

    def _generations(self) -> tuple[_Generation, ...]:
        return (self._current, *self._retiring.values())

    def _forget(self, task: asyncio.Task[None]) -> None:
        del self._retiring[task]
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            log_failure("closing what a reload replaced", error)
