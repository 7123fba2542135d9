"""Rebuild a context with other settings, and compare contexts."""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from starlette.responses import Response

from brimful.assembly.assemble import with_overrides
from brimful.core.context import Context
from brimful.core.stages import assemble_candidates
from brimful.errors import BudgetExceeded, InvalidRequest
from brimful.models.registry import Registry
from brimful.policies import policy_names
from brimful.records.search import Build
from brimful.server.endpoint import JSON
from brimful.server.errors import ApiError
from brimful.server.inspector.context_cache import CachedContext, ContextCache
from brimful.server.inspector.contexts import get_build
from brimful.server.inspector.executor import NewestFirstExecutor
from brimful.server.inspector.operation import Call
from brimful.server.inspector.queries import WhatIfBody
from brimful.server.inspector.views import (
    ChangeView,
    ComparedPart,
    DiffView,
    DisplayNames,
    Exceeded,
    WhatIf,
    content_text,
    context_row,
    context_view,
    load_names,
    make_excerpt,
    packages_by_id,
    parse_request,
)
from brimful.server.tenants import Tenants
from brimful.views.explain import Change, diff


class ChangeViews:
    """Shows changes between two contexts: each with its kind, and the beginning of its text."""

    def __init__(self, before: Context, after: Context) -> None:
        """Compare two contexts."""
        self.difference = diff(before, after)
        self._before, self._after = before.fates, after.fates
        self._packages = packages_by_id(before) | packages_by_id(after)

    def shown(self, changes: Iterable[Change]) -> tuple[ChangeView, ...]:
        """Return changes as they are shown."""
        return tuple(
            ChangeView(
                id=change.id,
                kind=(self._after.get(change.id) or self._before[change.id]).kind,
                before=change.before,
                after=change.after,
                before_reason=change.before_reason,
                after_reason=change.after_reason,
                tokens=change.tokens,
                excerpt=make_excerpt(content_text(self._packages[change.id].content)),
            )
            for change in changes
        )


def diff_view(before: tuple[Build, Context], after: tuple[Build, Context], names: DisplayNames) -> DiffView:
    """Return two contexts side by side."""
    changes = ChangeViews(before[1], after[1])
    difference = changes.difference
    return DiffView(
        before=context_row(before[0], names),
        after=context_row(after[0], names),
        entered=changes.shown(difference.entered),
        left=changes.shown(difference.left),
        changed=changes.shown(difference.changed),
        common_prefix=difference.common_prefix,
        prefix_share=difference.prefix_share,
        messages=tuple(_compare_messages(before[1], after[1])),
    )


def _compare_messages(before: Context, after: Context) -> Iterator[ComparedPart]:
    """Yield the messages of the later request; the first that differs ends what is the same."""
    earlier = [(message.role, message.name, message.parts) for message in parse_request(before).messages]
    same = True
    for at, message in enumerate(parse_request(after).messages):
        same = same and at < len(earlier) and earlier[at] == (message.role, message.name, message.parts)
        text = content_text(message.parts)
        yield ComparedPart(role=message.role, excerpt=make_excerpt(text), characters=len(text), same=same)


_MAX_REQUIRED: Final = 20  # of what is required, the largest


class Comparisons:
    """Answers what would be otherwise."""

    def __init__(
        self, tenants: Tenants, registry: Registry, *, loaded: ContextCache, newest: NewestFirstExecutor
    ) -> None:
        """Take the stores, and the rows of all models."""
        self._tenants = tenants
        self._registry = registry
        self._loaded = loaded
        self._newest = newest

    async def what_if(self, inquiry: Call) -> Response:
        """Build a context again, and say what that changes."""
        body: WhatIfBody = inquiry.body
        held = await self._loaded.held(self._tenants.store(inquiry.tenant), inquiry.name())
        _check_policy(body, held.snapshot.context)
        told = await self._newest.run(inquiry.tenant, lambda: msgspec.json.encode(self._supposed(held, body)))
        return Response(told, media_type=JSON)

    async def diff(self, inquiry: Call) -> Response:
        """Show two contexts side by side."""
        store = self._tenants.store(inquiry.tenant)
        before = await self._loaded.snapshot(store, inquiry.name())
        after = await self._loaded.snapshot(store, inquiry.name("other"))
        first, second = await get_build(store, before), await get_build(store, after)
        names = await load_names(store, [before, after])
        told = await self._newest.run(
            inquiry.tenant,
            lambda: msgspec.json.encode(diff_view((first, before.context), (second, after.context), names)),
        )
        return Response(told, media_type=JSON)

    def _supposed(self, held: CachedContext, body: WhatIfBody) -> WhatIf:
        try:
            context = self._built(held, body)
        except BudgetExceeded as error:
            return _exceeded_view(error)
        except InvalidRequest as error:
            raise ApiError("invalid", f"this cannot be written so: {'; '.join(error.violations)}") from None
        return _what_if_view(held, context)

    def _built(self, held: CachedContext, body: WhatIfBody) -> Context:
        """Build it from what is ready: of two questions that differ in their numbers alone, only the fill differs."""
        inputs = held.snapshot.context.inputs
        wanted = with_overrides(
            inputs,
            model=None if body.model in (None, inputs.model.id) else self._registry.resolve(str(body.model)),
            policy=None if body.policy in (None, inputs.policy.name) else body.policy,
            window=body.window,
            completion=body.completion,
            overrides=body.overrides,
        )
        pile = held.pile(wanted)
        asked = msgspec.structs.replace(pile.inputs, window=wanted.window, completion=wanted.completion)
        return assemble_candidates(msgspec.structs.replace(pile, inputs=asked))


def _check_policy(body: WhatIfBody, context: Context) -> None:
    """Refuse a policy that is no name: the files of this machine are not for callers to name."""
    known = {*policy_names(), context.inputs.policy.name}
    if body.policy is not None and body.policy not in known:
        raise ApiError("invalid", f"policy: must be one of {', '.join(sorted(known))}", param="policy")


def _what_if_view(held: CachedContext, context: Context) -> WhatIf:
    changes = ChangeViews(held.snapshot.context, context)
    difference = changes.difference
    would_be = msgspec.structs.replace(held.snapshot, context=context)
    return WhatIf(
        context=context_view(would_be, brief=True),
        exceeded=None,
        entered=changes.shown(difference.entered),
        left=changes.shown(difference.left),
        changed=changes.shown(difference.changed),
        prefix_share=difference.prefix_share,
    )


def _exceeded_view(error: BudgetExceeded) -> WhatIf:
    exceeded = Exceeded(
        needed=error.needed,
        limit=error.limit,
        message=f"what is required needs {error.needed:,} tokens, and there are {max(0, error.limit):,}",
        required=tuple(error.required[:_MAX_REQUIRED]),
    )
    return WhatIf(context=None, exceeded=exceeded, entered=(), left=(), changed=(), prefix_share=0.0)
