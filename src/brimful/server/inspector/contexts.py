"""Contexts: the list of them, one of them, its request, and one of its candidates."""

import asyncio
from typing import Final

import msgspec
from starlette.responses import Response as HttpResponse

from brimful.answers import Build
from brimful.core.context import Context
from brimful.engine.absence import absence_of
from brimful.errors import UnknownRecord
from brimful.protocols import Store
from brimful.records import Snapshot
from brimful.server.endpoint import JSON
from brimful.server.errors import Refusal
from brimful.server.inspector.costs import Costs
from brimful.server.inspector.inquiry import Inquiry
from brimful.server.inspector.loaded import Loaded
from brimful.server.inspector.names import Names, names_in
from brimful.server.inspector.newest import Newest
from brimful.server.inspector.queries import ContextsQuery
from brimful.server.inspector.showing import decisions_of, packages_of, row_of, told, view_of
from brimful.server.inspector.since import since_of
from brimful.server.inspector.views import AnswerView, ContextList, Fate, ItemView, Since
from brimful.server.tasks import Tasks
from brimful.server.tenants import Tenants

_MOST_ANSWERS: Final = 20
_MOST_BUILDS: Final = 20
_PATIENCE: Final = 2.0  # seconds


class Contexts:
    """Shows contexts to those whose they are."""

    def __init__(self, tenants: Tenants, tasks: Tasks, *, loaded: Loaded, costs: Costs, newest: Newest) -> None:
        """Take the stores, and the work that is under way there."""
        self._tenants = tenants
        self._tasks = tasks
        self._loaded = loaded
        self._costs = costs
        self._newest = newest

    async def listed(self, inquiry: Inquiry) -> ContextList:
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
            builds = [*await _behind(store, query), *builds]
        after = builds[-1].number if len(builds) == query.limit else None
        names = await names_in(store, builds)
        return ContextList(contexts=tuple(row_of(build, names) for build in builds), next=after)

    async def show(self, inquiry: Inquiry) -> HttpResponse:
        """Show one, by its id."""
        await self._tasks.settle(_PATIENCE)  # its answer may have come a moment ago, and its record be on its way
        store = self._tenants.store(inquiry.tenant)
        snapshot = await self._loaded.snapshot(store, inquiry.name())
        build = await build_of(store, snapshot)
        responses = await store.responses(context=snapshot.id, limit=_MOST_ANSWERS)
        answers = tuple(await asyncio.to_thread(lambda: [self._costs.answered(each) for each in responses]))
        names = await names_in(store, [snapshot])
        return HttpResponse(await asyncio.to_thread(_shown, snapshot, build.number, answers, names), media_type=JSON)

    async def request(self, inquiry: Inquiry) -> HttpResponse:
        """Show the request as the provider got it."""
        snapshot = await self._loaded.snapshot(self._tenants.store(inquiry.tenant), inquiry.name())
        if not snapshot.context.request:
            raise Refusal("unknown", "something in this request was erased, and the request with it", code="erased")
        return HttpResponse(await asyncio.to_thread(msgspec.json.encode, snapshot.context.request), media_type=JSON)

    async def item(self, inquiry: Inquiry) -> ItemView:
        """Show one candidate, whole."""
        store, item = self._tenants.store(inquiry.tenant), inquiry.name("item")
        held = await self._loaded.held(store, inquiry.name())
        snapshot = held.snapshot
        if item not in {decision.id for decision in snapshot.context.decisions}:
            raise Refusal("unknown", await _absent(store, snapshot, item), code="item_not_found", param="item")
        fates = await store.inclusions(item=item, limit=_MOST_BUILDS)
        window = await self._newest.run(inquiry.tenant, lambda: held.window_for(item))
        since = await since_of(store, packages_of(snapshot.context)[item])
        builds = tuple(Fate(id=each.snapshot, at=each.at, outcome=each.outcome, reason=each.reason) for each in fates)
        return await asyncio.to_thread(_item, snapshot.context, item, window, builds, since)


async def build_of(store: Store, snapshot: Snapshot) -> Build:
    """Return the line of a context in the log."""
    found = await store.build(snapshot.id)
    if found is None:
        raise UnknownRecord("context", snapshot.id)
    return found


async def _behind(store: Store, query: ContextsQuery) -> list[Build]:
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


async def _absent(store: Store, snapshot: Snapshot, item: str) -> str:
    absence = await absence_of(store, snapshot, item)
    why = "there is nothing of that name" if absence is None else absence.why
    return f"{item[:80]!r} was no candidate of this context: {why}"


def _shown(snapshot: Snapshot, number: int, answers: tuple[AnswerView, ...], names: Names) -> bytes:
    return msgspec.json.encode(view_of(snapshot, number=number, answers=answers, names=names))


def _item(context: Context, id: str, window: int | None, builds: tuple[Fate, ...], since: Since) -> ItemView:
    decision = context.decision(id)
    package = packages_of(context)[id]
    shown = next(each for each in decisions_of(context) if (each.id, each.outcome) == (id, decision.outcome))
    return ItemView(
        decision=shown,
        since=since,
        text=told(package.content),
        metadata=package.metadata,
        window_for=window,
        builds=builds,
    )
