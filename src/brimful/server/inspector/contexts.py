"""Endpoints for contexts: list, one context, its request, and one of its candidates."""

import asyncio
from typing import Final

import msgspec
from starlette.responses import Response as HttpResponse

from brimful.core.content import ContentPackage
from brimful.core.context import Context
from brimful.engine.absence import find_absence
from brimful.errors import UnknownRecord
from brimful.protocols import Store
from brimful.records import Snapshot
from brimful.records.search import Build
from brimful.server.background import BackgroundTasks
from brimful.server.endpoint import JSON
from brimful.server.errors import ApiError
from brimful.server.inspector.context_cache import ContextCache
from brimful.server.inspector.executor import NewestFirstExecutor
from brimful.server.inspector.operation import Call
from brimful.server.inspector.queries import ContextsQuery
from brimful.server.inspector.views import (
    AnswerView,
    ContextList,
    DisplayNames,
    ItemBuild,
    ItemStatus,
    ItemView,
    Prices,
    content_text,
    context_row,
    context_view,
    decision_views,
    load_names,
    packages_by_id,
)
from brimful.server.tenants import Tenants
from brimful.views.sections import is_erased


async def item_status(store: Store, package: ContentPackage) -> ItemStatus:
    """Say whether a candidate was removed since, or erased.

    Of messages only the latter is known: those that came with a request were never in the store.
    """
    if is_erased(package):
        return "erased"
    if package.kind.startswith("memory-") and not await store.memories(ids=[package.id], limit=1):
        return "removed"
    if package.kind == "lorebook" and not await store.lore(ids=[package.id]):
        return "removed"
    return ""


_MAX_ANSWERS: Final = 20
_MAX_BUILDS: Final = 20
_TASK_WAIT: Final = 2.0  # seconds


class Contexts:
    """Shows contexts to those whose they are."""

    def __init__(
        self,
        tenants: Tenants,
        tasks: BackgroundTasks,
        *,
        loaded: ContextCache,
        costs: Prices,
        newest: NewestFirstExecutor,
    ) -> None:
        """Take the stores, and the work that is under way there."""
        self._tenants = tenants
        self._tasks = tasks
        self._loaded = loaded
        self._costs = costs
        self._newest = newest

    async def listed(self, inquiry: Call) -> ContextList:
        """List contexts, newest first."""
        query: ContextsQuery = inquiry.query
        store = self._tenants.store(inquiry.tenant)
        builds = await store.builds(
            room=query.room,
            persona=query.persona,
            model=query.model,
            message=query.message,
            before=query.before,
            limit=query.limit,
        )
        if query.message is not None:
            builds = [*await _builds_answered_by(store, query), *builds]
        after = builds[-1].number if len(builds) == query.limit else None
        names = await load_names(store, builds)
        return ContextList(contexts=tuple(context_row(build, names) for build in builds), next=after)

    async def show(self, inquiry: Call) -> HttpResponse:
        """Show one, by its id."""
        await self._tasks.settle(_TASK_WAIT)  # its answer may have come a moment ago, and its record be on its way
        store = self._tenants.store(inquiry.tenant)
        snapshot = await self._loaded.snapshot(store, inquiry.name())
        build = await get_build(store, snapshot)
        responses = await store.responses(context=snapshot.id, limit=_MAX_ANSWERS)
        answers = tuple(await asyncio.to_thread(lambda: [self._costs.answered(each) for each in responses]))
        names = await load_names(store, [snapshot])
        return HttpResponse(
            await asyncio.to_thread(_encode_view, snapshot, build.number, answers, names), media_type=JSON
        )

    async def request(self, inquiry: Call) -> HttpResponse:
        """Show the request as the provider got it."""
        snapshot = await self._loaded.snapshot(self._tenants.store(inquiry.tenant), inquiry.name())
        if not snapshot.context.request:
            raise ApiError("unknown", "something in this request was erased, and the request with it", code="erased")
        return HttpResponse(await asyncio.to_thread(msgspec.json.encode, snapshot.context.request), media_type=JSON)

    async def item(self, inquiry: Call) -> ItemView:
        """Show one candidate, whole."""
        store, item = self._tenants.store(inquiry.tenant), inquiry.name("item")
        held = await self._loaded.held(store, inquiry.name())
        snapshot = held.snapshot
        if item not in {decision.id for decision in snapshot.context.decisions}:
            raise ApiError(
                "unknown", await _explain_absence(store, snapshot, item), code="item_not_found", param="item"
            )
        fates = await store.inclusions(item=item, limit=_MAX_BUILDS)
        window = await self._newest.run(inquiry.tenant, lambda: held.window_for(item))
        since = await item_status(store, packages_by_id(snapshot.context)[item])
        builds = tuple(
            ItemBuild(id=each.snapshot, at=each.at, outcome=each.outcome, reason=each.reason) for each in fates
        )
        return await asyncio.to_thread(_item_view, snapshot.context, item, window, builds, since)


async def get_build(store: Store, snapshot: Snapshot) -> Build:
    """Return the line of a context in the log."""
    found = await store.build(snapshot.id)
    if found is None:
        raise UnknownRecord("context", snapshot.id)
    return found


async def _builds_answered_by(store: Store, query: ContextsQuery) -> list[Build]:
    """Return the context that a message is the answer of, if it meets all else that is asked."""
    found = [await store.build(answer.context) for answer in await store.responses(message=query.message, limit=1)]
    asked = {"room": query.room, "persona": query.persona, "model": query.model}
    return [
        build
        for build in found
        if build is not None
        and all(value is None or getattr(build, field) == value for field, value in asked.items())
        and (query.before is None or build.number < query.before)
    ]


async def _explain_absence(store: Store, snapshot: Snapshot, item: str) -> str:
    absence = await find_absence(store, snapshot, item)
    why = "there is nothing of that name" if absence is None else absence.why
    return f"{item[:80]!r} was no candidate of this context: {why}"


def _encode_view(snapshot: Snapshot, number: int, answers: tuple[AnswerView, ...], names: DisplayNames) -> bytes:
    return msgspec.json.encode(context_view(snapshot, number=number, answers=answers, names=names))


def _item_view(
    context: Context, id: str, window: int | None, builds: tuple[ItemBuild, ...], since: ItemStatus
) -> ItemView:
    decision = context.decision(id)
    package = packages_by_id(context)[id]
    shown = next(each for each in decision_views(context) if (each.id, each.outcome) == (id, decision.outcome))
    return ItemView(
        decision=shown,
        since=since,
        text=content_text(package.content),
        metadata=package.metadata,
        window_for=window,
        builds=builds,
    )
