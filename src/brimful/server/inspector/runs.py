"""Endpoints for the janitor and for learning memories: run them, list the runs, and undo them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from brimful.engine.janitor import JanitorReport
from brimful.engine.learning import LearningReport
from brimful.protocols import Provider
from brimful.records import Room
from brimful.records.runs import JanitorRun
from brimful.server.access import require_model, require_scope
from brimful.server.errors import ApiError
from brimful.server.inspector.operation import Call
from brimful.server.inspector.queries import JanitorBody, JanitorQuery, LearnBody, UndoLearningBody, UndoQuery
from brimful.server.inspector.served_models import ServedModel, ServedModels
from brimful.server.inspector.views import View
from brimful.server.limits import Limiter
from brimful.server.tenants import Tenants


class JanitorRuns(View, frozen=True, kw_only=True):
    """The runs of the janitor and of learning, newest first, and how many messages and memories are archived."""

    runs: tuple[JanitorRun, ...]
    archived: dict[str, int]


class JanitorEndpoints:
    """Endpoints for the janitor."""

    def __init__(self, tenants: Tenants, models: ServedModels, limiter: Limiter) -> None:
        self._tenants = tenants
        self._models = models
        self._limiter = limiter

    async def run(self, call: Call) -> JanitorReport:
        """Clean up a room, or say what would be done."""
        body: JanitorBody = call.body
        engine = await self._tenants.engine(call.tenant)
        room = await engine.store.require(Room, call.name())
        run = partial(engine.run_janitor, room.id, older_than=body.older_than, dry_run=body.dry_run, focus=body.focus)
        if body.model is None:
            return await run()
        if body.dry_run:
            await self._find_model(call, body.model)
            return await run()
        async with self._admit(call, body.model, room.user) as (served, provider):
            return await run(summarizer=engine.make_summarizer(served.model, provider=provider, window=served.window))

    async def list_runs(self, call: Call) -> JanitorRuns:
        query: JanitorQuery = call.query
        engine = await self._tenants.engine(call.tenant)
        runs = await engine.list_janitor_runs(limit=query.limit)
        return JanitorRuns(runs=tuple(runs), archived=await engine.count_archived())

    async def undo(self, call: Call) -> JanitorRun:
        query: UndoQuery = call.query
        engine = await self._tenants.engine(call.tenant)
        undone = await engine.undo_janitor(query.run)
        if undone is None:
            raise ApiError("not_found", "there is no run to undo", code="run_not_found")
        return undone

    async def learn(self, call: Call) -> LearningReport:
        body: LearnBody = call.body
        engine = await self._tenants.engine(call.tenant)
        async with self._admit(call, body.model, body.user) as (served, provider):
            return await engine.learn(
                body.messages,
                from_room=body.from_room,
                user=body.user,
                persona=body.persona,
                room=body.room,
                metadata=body.metadata,
                model=served.model,
                provider=provider,
                window=served.window,
            )

    async def undo_learning(self, call: Call) -> JanitorRun:
        body: UndoLearningBody = call.body
        engine = await self._tenants.engine(call.tenant)
        undone = await engine.undo_learning(body.run)
        if undone is None:
            raise ApiError("not_found", "there is no such run to undo", code="run_not_found")
        return undone

    async def _find_model(self, call: Call, name: str) -> ServedModel:
        require_scope(call.client, "chat")
        require_model(call.client, name)
        return await self._models.find(call.tenant, name)

    @asynccontextmanager
    async def _admit(self, call: Call, name: str, user: str | None) -> AsyncIterator[tuple[ServedModel, Provider]]:
        """Count a request for a model, or reject it, and hold the calls of the model to the limits of the client."""
        served = await self._find_model(call, name)
        async with self._limiter.admit(call.client, call.client.user or user) as admission:
            yield served, admission.hold(self._models.provider(served, call.headers), served.model)
