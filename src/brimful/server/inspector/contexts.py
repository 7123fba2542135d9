"""Endpoints for contexts: list, one context, its request, and one of its candidates."""

from collections.abc import Sequence
from typing import Final, Literal, Required, TypedDict, Unpack

import msgspec
from starlette.responses import Response as HttpResponse

from brimful.assembly.assemble import with_overrides
from brimful.core.content import ContentPackage
from brimful.core.context import Context, Inputs
from brimful.core.policy import PRICES
from brimful.core.recall import Recalled, is_erased
from brimful.core.stages import NOT_WORTH
from brimful.counting import counter_for
from brimful.engine import Engine
from brimful.engine.absence import Absence, find_absence
from brimful.errors import BudgetExceeded, InvalidRequest, UnknownRecord
from brimful.packagers.records import package_memory, plain_text
from brimful.records import Memory, Snapshot
from brimful.records.contexts import Build
from brimful.server.background import BackgroundTasks
from brimful.server.endpoint import JSON
from brimful.server.errors import ApiError
from brimful.server.inspector.context_cache import NO_PINS, CachedContext, ContextCache, Pins
from brimful.server.inspector.operation import Call
from brimful.server.inspector.queries import ContextsQuery, FeedbackBody, RecallQuery
from brimful.server.inspector.request_messages import request_messages
from brimful.server.inspector.views import (
    MAX_ANSWERS,
    MAX_TEXT,
    AbsenceView,
    AnswerView,
    ContextList,
    Costs,
    ItemBuild,
    ItemStatus,
    ItemView,
    MemoryState,
    Remedy,
    RunPlace,
    content_text,
    context_view,
    decision_views,
    load_names,
    load_rows,
    packages_by_id,
)
from brimful.server.tenants import Tenants
from brimful.stores import Store
from brimful.threads import run_in_thread

_MAX_BUILDS: Final = 20
_TASK_WAIT: Final = 2.0  # seconds
_MAX_RATED: Final = 400  # search results among which a record is rated
_PINNABLE: Final = ("memory-", "lorebook", "summary")  # kinds that are pinned as they are
_SEARCHED: Final = ("not-found", "edited")  # reasons why a record was not offered by search
_TRIED: Final = (*_PINNABLE, "message-")  # kinds for which a pin is tried


class _Change(TypedDict, total=False):
    """A change to try, as in `Remedy`."""

    change: Required[Literal["window", "price", "pin"]]
    window: int
    price: str


async def item_status(store: Store, package: ContentPackage) -> ItemStatus:
    """Return whether a candidate was removed or erased later.

    Removed messages are not reported: the messages of a proxied request were never stored.
    """
    if is_erased(package):
        return "erased"
    if package.kind.startswith("memory-") and await _memory_state(store, package.id) is None:
        return "removed"
    if package.kind == "lorebook" and not await store.lore(ids=[package.id]):
        return "removed"
    return ""


async def _memory_state(store: Store, id: str) -> MemoryState | None:
    for memory in await store.memories(ids=[id], limit=1):
        return MemoryState(persona=memory.persona, user=memory.user, room=memory.room, pinned=memory.pinned)
    return None


class Contexts:
    """Endpoints for contexts."""

    def __init__(self, tenants: Tenants, tasks: BackgroundTasks, *, cache: ContextCache, costs: Costs) -> None:
        self._tenants = tenants
        self._tasks = tasks
        self._cache = cache
        self._costs = costs

    async def list_page(self, call: Call) -> ContextList:
        query: ContextsQuery = call.query
        store = self._tenants.store(call.tenant).replica
        builds = await store.builds(
            room=query.room,
            persona=query.persona,
            model=query.model,
            user=query.user,
            message=query.message,
            feedback=query.feedback,
            by_run=query.runs and query.feedback is None,
            before=query.before,
            limit=query.limit,
        )
        if query.message is not None:
            builds = [*await _builds_answered_by(store, query), *builds]
        after = builds[-1].number if len(builds) == query.limit else None
        return ContextList(contexts=await load_rows(store, builds, self._costs), next=after)

    async def show(self, call: Call) -> HttpResponse:
        await self._tasks.wait(_TASK_WAIT)  # the record of a recent answer may not be written yet
        store = self._tenants.store(call.tenant)
        snapshot = await self._cache.snapshot(store, call.name())
        build = await get_build(store, snapshot)
        responses = await store.responses(context=snapshot.id, limit=MAX_ANSWERS)
        posted = await store.messages([each.message for each in responses if each.message])
        texts = {message.id: plain_text(message.content) for message in posted}
        answers = tuple(
            await run_in_thread(
                lambda: [self._costs.answer_view(each, texts.get(each.message or "", "")) for each in responses]
            )
        )
        names = await load_names(store, [snapshot])
        run = await find_place_in_run(store, build)
        body = await run_in_thread(
            lambda: msgspec.json.encode(
                context_view(snapshot, number=build.number, answers=answers, names=names, run=run)
            )
        )
        return HttpResponse(body, media_type=JSON)

    async def rate(self, call: Call) -> AnswerView:
        """Store feedback on an answer."""
        body: FeedbackBody = call.body
        engine = await self._tenants.engine(call.tenant)
        response = await engine.rate(call.name(), body.rating, note=body.note)
        return await run_in_thread(self._costs.answer_view, response)

    async def request(self, call: Call) -> HttpResponse:
        """Show the request as sent to the provider."""
        cached = await self._with_request(call)
        request = cached.snapshot.context.request
        return HttpResponse(await run_in_thread(msgspec.json.encode, request), media_type=JSON)

    async def messages(self, call: Call) -> HttpResponse:
        """Show the request message by message, and what was left out between them."""
        cached = await self._with_request(call)
        body = await run_in_thread(lambda: msgspec.json.encode(request_messages(cached)))
        return HttpResponse(body, media_type=JSON)

    async def _with_request(self, call: Call) -> CachedContext:
        await self._tasks.wait(_TASK_WAIT)
        cached = await self._cache.get(self._tenants.store(call.tenant), call.name())
        if not cached.snapshot.context.request:
            raise ApiError("not_found", "this request was erased together with some of its content", code="erased")
        return cached

    async def recall(self, call: Call) -> Recalled:
        """Recall what was shortened or left out."""
        await self._tasks.wait(_TASK_WAIT)
        query: RecallQuery = call.query
        engine = await self._tenants.engine(call.tenant)
        return await engine.recall(query.handle, query=query.query, max_tokens=query.max_tokens, context=call.name())

    async def item(self, call: Call) -> ItemView:
        """Show one candidate in full, or why something was not a candidate."""
        store, item = self._tenants.store(call.tenant), call.name("item")
        cached = await self._cache.get(store, call.name())
        snapshot = cached.snapshot
        inclusions = await store.inclusions(item=item, limit=_MAX_BUILDS)
        builds = tuple(
            ItemBuild(id=each.snapshot, at=each.at, outcome=each.outcome, reason=each.reason) for each in inclusions
        )
        if item not in snapshot.context.decisions_by_id:
            return await self._absent(call, cached, item, builds)
        decision = snapshot.context.decision(item)
        may_pin = not decision.included and decision.kind.startswith(_TRIED)
        pins = await load_pins(store, snapshot, [item]) if may_pin else NO_PINS
        window, seen, remedies = await run_in_thread(
            lambda: (cached.required_window(item), _seen_text(cached, item), _find_remedies(cached, item, pins))
        )
        status = await item_status(store, packages_by_id(snapshot.context)[item])
        memory = await _memory_state(store, item) if decision.kind.startswith("memory-") else None
        view = await run_in_thread(_item_view, snapshot.context, item, builds)
        return msgspec.structs.replace(
            view, required_window=window, seen=seen, status=status, remedies=remedies, memory=memory
        )

    async def _absent(self, call: Call, cached: CachedContext, item: str, builds: tuple[ItemBuild, ...]) -> ItemView:
        engine, snapshot = await self._tenants.engine(call.tenant), cached.snapshot
        absence = await find_absence(engine.store, snapshot, item)
        if absence is None:
            message = f"{item[:80]!r} was not a candidate of this context: it does not exist"
            raise ApiError("not_found", message, code="item_not_found", param="item")
        pins = await load_pins(engine.store, snapshot, [item]) if absence.reason in _SEARCHED else NO_PINS
        remedies = await run_in_thread(_find_remedies, cached, item, pins)
        return ItemView(
            absence=await _absence_view(engine, snapshot, absence),
            remedies=remedies,
            memory=await _memory_state(engine.store, item),
            text=absence.text[:MAX_TEXT],
            characters=len(absence.text),
            builds=builds,
        )


async def _absence_view(engine: Engine, snapshot: Snapshot, absence: Absence) -> AbsenceView:
    relevance = await _rate(engine, snapshot, absence.id) if absence.reason in _SEARCHED else None
    fields = {name: getattr(absence, name) for name in ("kind", "reason", "why", "fix")}
    if absence.reason == "edited" and relevance is not None and relevance > _least_relevance(snapshot.context):
        fields["fix"] = "build a new context, which would find it now"
    return AbsenceView(**fields, relevance=relevance)


def _least_relevance(context: Context) -> float:
    """Return the relevance with which a memory is likely to be included, or the lowest that search offered."""
    if context.inputs.policy.price:
        return context.inputs.policy.min_best_relevance
    offered = (each for each in context.inputs.packages if each.kind.startswith("memory-"))
    return min((each.relevance for each in offered if each.relevance is not None), default=0.0)


async def _rate(engine: Engine, snapshot: Snapshot, id: str) -> float | None:
    """Return the relevance that search gives a record for the question of a context."""
    packages = snapshot.context.inputs.packages
    question = next((plain_text(each.content) for each in packages if each.kind == "message-current"), "")
    if not question.strip():
        return None
    found = await engine.search(
        question, persona=snapshot.persona, user=snapshot.user, room=snapshot.room, limit=_MAX_RATED, now=snapshot.at
    )
    return next((hit.relevance for hit in found.hits if hit.record.id == id), None)


async def load_pins(store: Store, snapshot: Snapshot, ids: Sequence[str]) -> Pins:
    """Return candidates, memories and messages as packages of pinned memories."""
    return {id: await _load_pin(store, snapshot, id) for id in ids}


async def _load_pin(store: Store, snapshot: Snapshot, id: str) -> ContentPackage:
    inputs = snapshot.context.inputs
    package = packages_by_id(snapshot.context).get(id)
    if package is not None and package.kind.startswith(_PINNABLE):
        return msgspec.structs.replace(package, pinned=True)
    return package_memory(
        await _pinned_memory(store, snapshot, id, package), counter=counter_for(inputs.model, inputs.method)
    )


async def _pinned_memory(store: Store, snapshot: Snapshot, id: str, package: ContentPackage | None) -> Memory:
    """Return a record as a pinned memory: the stored one, or one with the text of a message."""
    for memory in await store.memories(ids=[id], limit=1):
        return msgspec.structs.replace(memory, pinned=True)
    if package is not None:
        return Memory(id=id, content=content_text(package.content), at=package.timestamp, pinned=True)
    absence = await find_absence(store, snapshot, id)
    if absence is None:
        raise UnknownRecord("candidate, memory or message", id)
    return Memory(id=id, content=absence.text, at=absence.at, pinned=True)


def _find_remedies(cached: CachedContext, item: str, pins: Pins) -> tuple[Remedy, ...]:
    """Return the changes that include an item which was left out, each tried."""
    inputs = cached.snapshot.context.inputs
    decision = cached.snapshot.context.decisions_by_id.get(item)
    remedies = []
    if decision is not None and not decision.included:
        window = cached.required_window(item)
        if window is not None:
            larger = msgspec.structs.replace(inputs, window=window)
            remedies.append(_try(cached, item, larger, change="window", window=window))
        if decision.reason in NOT_WORTH:
            remedies.append(_try_prices(cached, item))
    if pins:
        remedies.append(_try(cached, item, inputs, pins, change="pin"))
    return tuple(each for each in remedies if each is not None)


def _try_prices(cached: CachedContext, item: str) -> Remedy | None:
    """Return the highest named price below that of the context at which an item is included."""
    inputs = cached.snapshot.context.inputs
    lower = [name for name, price in PRICES.items() if price < inputs.policy.price]
    tried = (
        _try(cached, item, with_overrides(inputs, overrides={"price": name}), change="price", price=name)
        for name in sorted(lower, key=PRICES.__getitem__, reverse=True)
    )
    return next((each for each in tried if each is not None), None)


def _try(
    cached: CachedContext, item: str, inputs: Inputs, pins: Pins = NO_PINS, **change: Unpack[_Change]
) -> Remedy | None:
    """Build a context with a change, and return it if the item is included."""
    try:
        after = cached.rebuild(inputs, pins).decisions_by_id
    except (BudgetExceeded, InvalidRequest):
        return None
    if item not in after or not after[item].included:
        return None
    left = sum(
        each.included and not (each.id in after and after[each.id].included)
        for each in cached.snapshot.context.decisions
    )
    return Remedy(**change, tokens=after[item].cost, left=left)


async def get_build(store: Store, snapshot: Snapshot) -> Build:
    """Return the log entry of a context."""
    build = await store.build(snapshot.id)
    if build is None:
        raise UnknownRecord("context", snapshot.id)
    return build


async def find_place_in_run(store: Store, build: Build) -> RunPlace | None:
    """Return the place of a context among those of its run; None if it was removed meanwhile."""
    contexts = await store.run_contexts(build.run)
    if build.id not in contexts:
        return None
    index = contexts.index(build.id)
    return RunPlace(
        id=build.run,
        step=index + 1,
        steps=len(contexts),
        previous=contexts[index - 1] if index else None,
        next=contexts[index + 1] if index + 1 < len(contexts) else None,
    )


async def _builds_answered_by(store: Store, query: ContextsQuery) -> list[Build]:
    """Return the context that a message answers, if it matches all other filters."""
    answers = await store.responses(message=query.message, limit=1)
    if query.feedback is not None:
        answers = [each for each in answers if each.feedback is not None and each.feedback.rating == query.feedback]
    builds = [await store.build(answer.context) for answer in answers]
    filters = {"room": query.room, "persona": query.persona, "model": query.model, "user": query.user}
    return [
        build
        for build in builds
        if build is not None
        and all(value is None or getattr(build, field) == value for field, value in filters.items())
        and (query.before is None or build.number < query.before)
    ]


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
        text=text[:MAX_TEXT],
        characters=len(text),
        handle=context.handle(id),
        metadata=package.metadata,
        builds=builds,
    )
