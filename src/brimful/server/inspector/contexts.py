"""Endpoints for contexts: list, one context, its request, and one of its candidates."""

import asyncio
from typing import Final

import msgspec
from starlette.responses import Response as HttpResponse

from brimful.core.content import ContentPackage
from brimful.core.context import Context
from brimful.core.recall import Recalled, is_erased
from brimful.engine.absence import find_absence
from brimful.errors import UnknownRecord
from brimful.packagers.records import plain_text
from brimful.records import Snapshot
from brimful.records.contexts import Build
from brimful.server.background import BackgroundTasks
from brimful.server.endpoint import JSON
from brimful.server.errors import ApiError
from brimful.server.inspector.context_cache import CachedContext, ContextCache
from brimful.server.inspector.executor import NewestFirstExecutor
from brimful.server.inspector.operation import Call
from brimful.server.inspector.queries import ContextsQuery, RecallQuery
from brimful.server.inspector.views import (
    MAX_ANSWERS,
    MAX_TEXT,
    AnswerView,
    ContextList,
    DisplayNames,
    ItemBuild,
    ItemStatus,
    ItemView,
    Prices,
    content_text,
    context_view,
    decision_views,
    load_names,
    load_rows,
    packages_by_id,
)
from brimful.server.tenants import Tenants
from brimful.stores import Store

_MAX_BUILDS: Final = 20
_TASK_WAIT: Final = 2.0  # seconds


async def item_status(store: Store, package: ContentPackage) -> ItemStatus:
    """Return whether a candidate was removed or erased later.

    Removed messages are not reported: the messages of a proxied request were never stored.
    """
    if is_erased(package):
        return "erased"
    if package.kind.startswith("memory-") and not await store.memories(ids=[package.id], limit=1):
        return "removed"
    if package.kind == "lorebook" and not await store.lore(ids=[package.id]):
        return "removed"
    return ""


class Contexts:
    """Endpoints for contexts."""

    def __init__(
        self,
        tenants: Tenants,
        tasks: BackgroundTasks,
        *,
        cache: ContextCache,
        prices: Prices,
        executor: NewestFirstExecutor,
    ) -> None:
        self._tenants = tenants
        self._tasks = tasks
        self._cache = cache
        self._prices = prices
        self._executor = executor

    async def list_page(self, call: Call) -> ContextList:
        """List contexts, newest first."""
        query: ContextsQuery = call.query
        store = self._tenants.store(call.tenant).replica
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
        return ContextList(contexts=await load_rows(store, builds), next=after)

    async def show(self, call: Call) -> HttpResponse:
        """Show one context."""
        await self._tasks.wait(_TASK_WAIT)  # the record of a recent answer may not be written yet
        store = self._tenants.store(call.tenant)
        snapshot = await self._cache.snapshot(store, call.name())
        build = await get_build(store, snapshot)
        responses = await store.responses(context=snapshot.id, limit=MAX_ANSWERS)
        posted = await store.messages([each.message for each in responses if each.message])
        texts = {message.id: plain_text(message.content) for message in posted}
        answers = tuple(
            await asyncio.to_thread(
                lambda: [self._prices.answer_view(each, texts.get(each.message or "", "")) for each in responses]
            )
        )
        names = await load_names(store, [snapshot])
        return HttpResponse(
            await asyncio.to_thread(_encode_view, snapshot, build.number, answers, names), media_type=JSON
        )

    async def request(self, call: Call) -> HttpResponse:
        """Show the request as sent to the provider."""
        await self._tasks.wait(_TASK_WAIT)
        snapshot = await self._cache.snapshot(self._tenants.store(call.tenant), call.name())
        if not snapshot.context.request:
            raise ApiError("not_found", "this request was erased together with some of its content", code="erased")
        return HttpResponse(await asyncio.to_thread(msgspec.json.encode, snapshot.context.request), media_type=JSON)

    async def recall(self, call: Call) -> Recalled:
        """Recall what was shortened or left out."""
        await self._tasks.wait(_TASK_WAIT)
        query: RecallQuery = call.query
        engine = await self._tenants.engine(call.tenant)
        return await engine.recall(query.handle, query=query.query, max_tokens=query.max_tokens, context=call.name())

    async def item(self, call: Call) -> ItemView:
        """Show one candidate in full."""
        store, item = self._tenants.store(call.tenant), call.name("item")
        cached = await self._cache.get(store, call.name())
        snapshot = cached.snapshot
        if item not in {decision.id for decision in snapshot.context.decisions}:
            raise ApiError(
                "not_found", await _explain_absence(store, snapshot, item), code="item_not_found", param="item"
            )
        inclusions = await store.inclusions(item=item, limit=_MAX_BUILDS)
        window, seen = await self._executor.run(
            call.tenant, lambda: (cached.required_window(item), _seen_text(cached, item))
        )
        status = await item_status(store, packages_by_id(snapshot.context)[item])
        builds = tuple(
            ItemBuild(id=each.snapshot, at=each.at, outcome=each.outcome, reason=each.reason) for each in inclusions
        )
        view = await asyncio.to_thread(_item_view, snapshot.context, item, builds)
        return msgspec.structs.replace(view, required_window=window, seen=seen, status=status)


async def get_build(store: Store, snapshot: Snapshot) -> Build:
    """Return the log entry of a context."""
    build = await store.build(snapshot.id)
    if build is None:
        raise UnknownRecord("context", snapshot.id)
    return build


async def _builds_answered_by(store: Store, query: ContextsQuery) -> list[Build]:
    """Return the context that a message answers, if it matches all other filters."""
    builds = [await store.build(answer.context) for answer in await store.responses(message=query.message, limit=1)]
    filters = {"room": query.room, "persona": query.persona, "model": query.model}
    return [
        build
        for build in builds
        if build is not None
        and all(value is None or getattr(build, field) == value for field, value in filters.items())
        and (query.before is None or build.number < query.before)
    ]


async def _explain_absence(store: Store, snapshot: Snapshot, item: str) -> str:
    absence = await find_absence(store, snapshot, item)
    why = "it does not exist" if absence is None else absence.why
    return f"{item[:80]!r} was not a candidate of this context: {why}"


def _encode_view(snapshot: Snapshot, number: int, answers: tuple[AnswerView, ...], names: DisplayNames) -> bytes:
    return msgspec.json.encode(context_view(snapshot, number=number, answers=answers, names=names))


def _seen_text(cached: CachedContext, item: str) -> str:
    """Return what the model saw of a shortened item; empty if something in the request was erased."""
    context = cached.snapshot.context
    decision = context.decision(item)
    if decision.form == "full" or not decision.included or not context.request:
        return ""
    package = cached.included(item)
    return "" if package is None else content_text(package.content)


def _item_view(context: Context, id: str, builds: tuple[ItemBuild, ...]) -> ItemView:
    decision = context.decision(id)
    package = packages_by_id(context)[id]
    text = content_text(package.content)
    view = next(each for each in decision_views(context) if (each.id, each.outcome) == (id, decision.outcome))
    return ItemView(
        decision=view,
        status="",
        text=text[:MAX_TEXT],
        characters=len(text),
        seen="",
        handle=context.handle(id),
        metadata=package.metadata,
        required_window=None,
        builds=builds,
    )
