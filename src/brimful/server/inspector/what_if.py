"""Rebuild a context with other settings, have it answered again, and compare contexts."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec
from starlette.responses import Response

from brimful.assembly.arguments import resolve_model
from brimful.assembly.assemble import with_overrides
from brimful.core.context import Context
from brimful.errors import BudgetExceeded, InvalidRequest, UnknownPolicy
from brimful.models.registry import Registry
from brimful.records import Response as Answer
from brimful.records import Snapshot
from brimful.records.reply import Reply
from brimful.records.usage import RequestUsage
from brimful.server.access import choose_policy, require_model, require_scope
from brimful.server.endpoint import JSON
from brimful.server.errors import ApiError
from brimful.server.inspector.context_cache import CachedContext, ContextCache, Pins
from brimful.server.inspector.contexts import get_build, load_pins
from brimful.server.inspector.operation import Call
from brimful.server.inspector.queries import WhatIfBody
from brimful.server.inspector.served_models import ServedModels
from brimful.server.inspector.views import (
    AnsweredAgain,
    ChangeView,
    ComparedPart,
    ContextRow,
    Costs,
    DiffView,
    Exceeded,
    WhatIf,
    content_text,
    context_view,
    load_rows,
    make_excerpt,
    packages_by_id,
    parse_request,
    to_view,
)
from brimful.server.limits import Limiter
from brimful.server.proxy.fit_mode import RecordWriter
from brimful.server.proxy.upstreams import upstream_errors
from brimful.server.tenants import Tenants
from brimful.threads import run_in_thread
from brimful.views.explain import Change, diff

_MAX_REQUIRED: Final = 20  # required items listed in an error


class ChangeViews:
    """Views of the changes between two contexts."""

    def __init__(self, before: Context, after: Context) -> None:
        self.difference = diff(before, after)
        self._before, self._after = before.decisions_by_id, after.decisions_by_id
        self._packages = packages_by_id(before) | packages_by_id(after)

    def views(self, changes: Iterable[Change]) -> tuple[ChangeView, ...]:
        return tuple(
            to_view(
                ChangeView,
                change,
                kind=(self._after.get(change.id) or self._before[change.id]).kind,
                tokens=self._cost(change.id),
                relevance=self._packages[change.id].relevance,
                excerpt=make_excerpt(content_text(self._packages[change.id].content)),
            )
            for change in changes
        )

    def _cost(self, id: str) -> int:
        """Return what a candidate takes with its label where it is included; its text alone if it is in neither."""
        decisions = [each for side in (self._after, self._before) if (each := side.get(id)) is not None]
        return next((each.cost for each in decisions if each.included), decisions[0].tokens)


def diff_view(rows: tuple[ContextRow, ...], before: Context, after: Context) -> DiffView:
    """Compare two contexts, whose rows are given in this order."""
    changes = ChangeViews(before, after)
    difference = changes.difference
    return DiffView(
        before=rows[0],
        after=rows[1],
        entered=changes.views(difference.entered),
        left=changes.views(difference.left),
        changed=changes.views(difference.changed),
        common_prefix=difference.common_prefix,
        prefix_share=difference.prefix_share,
        messages=tuple(_compare_messages(before, after)),
    )


def _compare_messages(before: Context, after: Context) -> Iterator[ComparedPart]:
    """Yield the messages of the later request, marked as same up to the first difference."""
    earlier = [(message.role, message.name, message.parts) for message in parse_request(before).messages]
    same = True
    for index, message in enumerate(parse_request(after).messages):
        same = same and index < len(earlier) and earlier[index] == (message.role, message.name, message.parts)
        text = content_text(message.parts)
        yield ComparedPart(role=message.role, excerpt=make_excerpt(text), characters=len(text), same=same)


class Comparisons:
    """Endpoints that rebuild and compare contexts."""

    def __init__(
        self,
        tenants: Tenants,
        registry: Registry,
        *,
        models: ServedModels,
        limiter: Limiter,
        records: RecordWriter,
        cache: ContextCache,
        costs: Costs,
        clock: Callable[[], float],
    ) -> None:
        self._tenants = tenants
        self._registry = registry
        self._models = models
        self._limiter = limiter
        self._records = records
        self._cache = cache
        self._costs = costs
        self._clock = clock

    async def what_if(self, call: Call) -> Response:
        """Rebuild a context with other settings and return the changes."""
        body: WhatIfBody = call.body
        if body.model is not None:
            require_model(call.client, body.model)
        cached, pins = await self._load(call)
        encoded = await run_in_thread(lambda: msgspec.json.encode(self._compare(cached, body, pins)))
        return Response(encoded, media_type=JSON)

    async def answer(self, call: Call) -> AnsweredAgain:
        """Have a context with other settings answered. Nothing is stored but its usage."""
        require_scope(call.client, "read")
        body: WhatIfBody = call.body
        cached, pins = await self._load(call)
        inputs = cached.snapshot.context.inputs
        name = body.model or inputs.model.id
        require_model(call.client, name)
        frame = inputs.frame
        served = await self._models.find(call.tenant, name, frame.wire if frame and frame.messages else None)
        upstream = self._models.require_upstream(served)
        user = call.client.user or cached.snapshot.user
        async with self._limiter.admit(call.client, user) as admission:
            provider = admission.hold(self._models.provider(served, call.headers), served.model)
            context = await run_in_thread(self._rebuild, cached, body, pins, provider.wire)
            started = self._clock()
            with upstream_errors(upstream):
                reply = await provider.send(context.request)
            if reply.usage is not None:
                usage = RequestUsage(
                    model=served.model.id, usage=reply.usage, at=started, user=user or "", key=call.client.key
                )
                self._records.write_usage(call.tenant, usage, provider.route)
            return await run_in_thread(self._answered, cached.snapshot, context, reply, provider.route, started)

    async def _load(self, call: Call) -> tuple[CachedContext, Pins]:
        """Return the context of a call and what to pin, once the policy is known to be allowed."""
        body: WhatIfBody = call.body
        store = self._tenants.store(call.tenant)
        cached = await self._cache.get(store, call.name())
        if body.policy is not None:
            choose_policy(call.client, body.policy)
        self._check_policy(body, cached.snapshot.context)
        return cached, await load_pins(store, cached.snapshot, body.pin)

    async def diff(self, call: Call) -> Response:
        """Compare two contexts."""
        store = self._tenants.store(call.tenant)
        before = await self._cache.snapshot(store, call.name())
        after = await self._cache.snapshot(store, call.name("other"))
        rows = await load_rows(store, [await get_build(store, each) for each in (before, after)], self._costs)
        encoded = await run_in_thread(lambda: msgspec.json.encode(diff_view(rows, before.context, after.context)))
        return Response(encoded, media_type=JSON)

    def _check_policy(self, body: WhatIfBody, context: Context) -> None:
        known = {*self._tenants.policies, context.inputs.policy.name}
        if body.policy is not None and body.policy not in known:
            raise UnknownPolicy(body.policy, sorted(known))

    def _compare(self, cached: CachedContext, body: WhatIfBody, pins: Pins) -> WhatIf:
        try:
            return _what_if_view(cached, self._rebuild(cached, body, pins))
        except BudgetExceeded as error:
            return _exceeded_view(error)

    def _rebuild(self, cached: CachedContext, body: WhatIfBody, pins: Pins, wire: str | None = None) -> Context:
        """Build a context with other settings, for an upstream with its `wire` format."""
        inputs = cached.snapshot.context.inputs
        if wire is not None and wire != inputs.model.wire:
            inputs = msgspec.structs.replace(inputs, model=msgspec.structs.replace(inputs.model, wire=wire))
        other = None if body.model in (None, inputs.model.id) else self._registry.resolve(str(body.model))
        changed = with_overrides(
            inputs,
            model=other and resolve_model(other, wire),
            policy=None if body.policy in (None, inputs.policy.name) else self._tenants.policies[str(body.policy)],
            window=body.window,
            completion=body.completion,
            overrides=body.overrides,
        )
        try:
            return cached.rebuild(changed, pins)
        except InvalidRequest as error:
            raise ApiError("invalid", f"this cannot be rendered: {'; '.join(error.violations)}") from None

    def _answered(
        self, snapshot: Snapshot, context: Context, reply: Reply, route: str, started: float
    ) -> AnsweredAgain:
        now = self._clock()
        answer = Answer(
            id=snapshot.id, context=snapshot.id, room=snapshot.room, at=now, model=reply.model, usage=reply.usage
        )
        return AnsweredAgain(
            text=reply.text,
            calls=reply.calls,
            model=reply.model,
            route=route,
            finish=reply.finish,
            seconds=max(0.0, now - started),
            tokens=context.tokens,
            usage=reply.usage,
            cost=self._costs.cost(answer),
        )


def _what_if_view(cached: CachedContext, context: Context) -> WhatIf:
    changes = ChangeViews(cached.snapshot.context, context)
    difference = changes.difference
    rebuilt = msgspec.structs.replace(cached.snapshot, context=context)
    return WhatIf(
        context=context_view(rebuilt, brief=True),
        exceeded=None,
        entered=changes.views(difference.entered),
        left=changes.views(difference.left),
        changed=changes.views(difference.changed),
        prefix_share=difference.prefix_share,
    )


def _exceeded_view(error: BudgetExceeded) -> WhatIf:
    exceeded = Exceeded(
        needed=error.needed,
        limit=error.limit,
        message=f"the required items need {error.needed:,} tokens, but only {max(0, error.limit):,} are available",
        required=tuple(error.required[:_MAX_REQUIRED]),
    )
    return WhatIf(context=None, exceeded=exceeded, entered=(), left=(), changed=(), prefix_share=0.0)
