"""All that a server is made of, put together once."""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from brimful.engine.retention import Retention
from brimful.errors import StoreError
from brimful.models import default_registry, load_registry
from brimful.policies import load_policy
from brimful.protocols import Store
from brimful.server.access import Access, Keyed, Open
from brimful.server.answers import Answers
from brimful.server.config import Config
from brimful.server.config import Mode as ModeName
from brimful.server.endpoint import Door
from brimful.server.fitting import Fitting
from brimful.server.inspector.inspector import Inspector
from brimful.server.inspector.tokens import DEFAULT_MODEL, Tokens
from brimful.server.janitor import Janitor
from brimful.server.knowledge import Knowledge
from brimful.server.limits import Gate
from brimful.server.mode import Mode
from brimful.server.page import Page
from brimful.server.passing import Passing
from brimful.server.relay import Relay
from brimful.server.remembering import Remembering
from brimful.server.tasks import Tasks
from brimful.server.tenants import Tenants
from brimful.server.upstreams import Upstreams
from brimful.server.watching import Watch
from brimful.stores import connect
from brimful.stores.urls import parse_url

LISTENERS: Final = 1_000
"""Streams of events of one key at a time."""


class Stopping:
    """Whether the server is to stop: `begun` when it takes no more requests, `now` when answers end, done or not."""

    def __init__(self) -> None:
        """Begin without an end."""
        self.begun = asyncio.Event()
        self.now = asyncio.Event()


class Parts:
    """What serves requests. Nothing is opened before `open`."""

    def __init__(
        self, config: Config, *, file: str, environ: Mapping[str, str] | None, clock: Callable[[], float]
    ) -> None:
        """Put all of it together; what the configuration names and cannot be had is refused here."""
        registry = load_registry(Path(file).parent / config.models) if config.models else default_registry()
        self._config = config
        self._upstreams = Upstreams(config, file=file, environ=environ)
        self._database = connect(config.store)
        self._file = parse_url(config.store).path
        self.watch = Watch(config.telemetry, registry, clock=clock)
        self._tenants = Tenants(self._database, config.remember, hooks=self.watch.hooks, clock=clock)
        self._knowledge = Knowledge(registry, clock)
        self._tasks = Tasks()
        self._retention = Retention(self._stores, config.keep, clock=clock) if config.keep else None
        self._janitor = Janitor(self._tenants, self._database.tenants, config.tidy) if config.tidy else None
        self.stopping = Stopping()
        self.keyed = config.keys
        self.page = Page()
        self.door = self._door(config, clock)
        self.listening = msgspec.structs.replace(self.door, gate=Gate(concurrency=LISTENERS, requests_per_minute=6_000))
        self.answers = Answers(
            self._modes(config, clock),
            config.mode,
            upstreams=self._upstreams,
            relay=Relay(tasks=self._tasks, stopping=self.stopping.now, watch=self.watch, clock=clock),
            tasks=self._tasks,
            clock=clock,
        )
        self.passing = Passing(self._upstreams, registry)
        self.inspector = Inspector(
            self._tenants,
            registry,
            tokens=Tokens(registry, next((each.like for each in config.upstreams if each.like), DEFAULT_MODEL)),
            access=self.door.access,
            tasks=self._tasks,
            stopping=self.stopping.begun,
            clock=clock,
        )

    def _door(self, config: Config, clock: Callable[[], float]) -> Door:
        limits = config.limits
        access: Access = Keyed(self._database, clock) if config.keys else Open(config.tenant)
        return Door(
            access=access,
            watch=self.watch,
            gate=Gate(concurrency=limits.concurrency, requests_per_minute=limits.requests_per_minute),
            stopping=self.stopping.now,
            body_bytes=limits.body_bytes,
            clock=clock,
        )

    def _modes(self, config: Config, clock: Callable[[], float]) -> dict[ModeName, Mode]:
        tenants, knowledge, policy = self._tenants, self._knowledge, load_policy(config.fit.policy)
        return {
            "fit": Fitting(
                config,
                policy,
                tenants=tenants,
                knowledge=knowledge,
                tasks=self._tasks,
                watch=self.watch,
                clock=clock,
            ),
            "remember": Remembering(
                load_policy(config.remember.policy, environ=os.environ),
                tenants=tenants,
                knowledge=knowledge,
                watch=self.watch,
                clock=clock,
            ),
        }

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None, None]:
        """Open the store; at the end, wait for all that is to be kept, and let go of everything."""
        async with self._database:
            await asyncio.to_thread(self._knowledge.warm_up, self._config)
            chores = [chore for chore in (self._retention, self._janitor) if chore is not None]
            for chore in chores:
                chore.start()
            yield
            for chore in chores:
                await chore.stop()
            await self._tasks.drain()
            await self.inspector.close()
            await self._tenants.close()
            await self._upstreams.close()

    async def _stores(self) -> list[Store]:
        return [self._tenants.store(name) for name in await self._database.tenants()]

    async def ready(self) -> bool:
        """Say whether requests can be served: not while it stops, nor without its store."""
        if self.stopping.begun.is_set():
            return False
        await self._database.tenants()
        if self._file and not await asyncio.to_thread(_can_be_written, Path(self._file)):
            raise StoreError(self._file, "is gone, or cannot be written")
        return True


def _can_be_written(file: Path) -> bool:
    """Say whether a database is still there, and may be written: while it is open, it can be read even so."""
    return os.access(file, os.R_OK | os.W_OK) and os.access(file.parent, os.W_OK)  # its log is written beside it
