"""Endpoints for the janitor and for learning memories: run them, list the runs, and undo them."""

from brimful.engine import Engine
from brimful.engine.janitor import JanitorReport
from brimful.engine.learning import LearningReport
from brimful.protocols import Summarizer
from brimful.records import Room
from brimful.records.runs import JanitorRun
from brimful.server.access import require_model, require_scope
from brimful.server.errors import ApiError
from brimful.server.inspector.operation import Call
from brimful.server.inspector.queries import JanitorBody, JanitorQuery, LearnBody, UndoLearningBody, UndoQuery
from brimful.server.inspector.served_models import ServedModel, ServedModels
from brimful.server.inspector.views import View
from brimful.server.tenants import Tenants


class JanitorRuns(View, frozen=True, kw_only=True):
    """The runs of the janitor and of learning, newest first, and how many messages and memories are archived."""

    runs: tuple[JanitorRun, ...]
    archived: dict[str, int]


class JanitorEndpoints:
    """Endpoints for the janitor."""

    def __init__(self, tenants: Tenants, models: ServedModels) -> None:
        self._tenants = tenants
        self._models = models

    async def run(self, call: Call) -> JanitorReport:
        """Clean up a room, or say what would be done."""
        body: JanitorBody = call.body
        engine, room = await self._tenants.engine(call.tenant), call.name()
        await engine.store.require(Room, room)
        summarizer = None if body.model is None else await self._make_summarizer(call, engine, body.model)
        return await engine.run_janitor(
            room,
            older_than=body.older_than,
            dry_run=body.dry_run,
            summarizer=None if body.dry_run else summarizer,
            focus=body.focus,
        )

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
        served = await self._find_model(call, body.model)
        return await engine.learn(
            body.messages,
            from_room=body.from_room,
            user=body.user,
            persona=body.persona,
            room=body.room,
            metadata=body.metadata,
            model=served.model,
            provider=self._models.provider(served, call.headers),
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

    async def _make_summarizer(self, call: Call, engine: Engine, name: str) -> Summarizer:
        served = await self._find_model(call, name)
        provider = self._models.provider(served, call.headers)
        return engine.make_summarizer(served.model, provider=provider, window=served.window)
