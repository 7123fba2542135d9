"""What if: a context built again with another model, policy, window or reserve, by the same core."""

from typing import Final

import msgspec
from starlette.responses import Response

from brimful.assembly import supposed
from brimful.core.assemble import poured
from brimful.core.context import Context
from brimful.errors import BudgetExceeded, InvalidRequest
from brimful.models.registry import Registry
from brimful.policies import policy_names
from brimful.server.endpoint import JSON
from brimful.server.errors import Refusal
from brimful.server.inspector.comparing import Changes, compared
from brimful.server.inspector.contexts import build_of
from brimful.server.inspector.inquiry import Inquiry
from brimful.server.inspector.loaded import Held, Loaded
from brimful.server.inspector.names import names_in
from brimful.server.inspector.newest import Newest
from brimful.server.inspector.queries import WhatIfBody
from brimful.server.inspector.showing import view_of
from brimful.server.inspector.views import Exceeded, WhatIf
from brimful.server.tenants import Tenants

_NAMED: Final = 20  # of what is required, the largest


class Supposing:
    """Answers what would be otherwise."""

    def __init__(self, tenants: Tenants, registry: Registry, *, loaded: Loaded, newest: Newest) -> None:
        """Take the stores, and the rows of all models."""
        self._tenants = tenants
        self._registry = registry
        self._loaded = loaded
        self._newest = newest

    async def what_if(self, inquiry: Inquiry) -> Response:
        """Build a context again, and say what that changes."""
        body: WhatIfBody = inquiry.body
        held = await self._loaded.held(self._tenants.store(inquiry.tenant), inquiry.name())
        _check_policy(body, held.snapshot.context)
        told = await self._newest.run(inquiry.tenant, lambda: msgspec.json.encode(self._supposed(held, body)))
        return Response(told, media_type=JSON)

    async def diff(self, inquiry: Inquiry) -> Response:
        """Show two contexts side by side."""
        store = self._tenants.store(inquiry.tenant)
        before = await self._loaded.snapshot(store, inquiry.name())
        after = await self._loaded.snapshot(store, inquiry.name("other"))
        first, second = await build_of(store, before), await build_of(store, after)
        names = await names_in(store, [before, after])
        told = await self._newest.run(
            inquiry.tenant,
            lambda: msgspec.json.encode(compared((first, before.context), (second, after.context), names)),
        )
        return Response(told, media_type=JSON)

    def _supposed(self, held: Held, body: WhatIfBody) -> WhatIf:
        try:
            context = self._built(held, body)
        except BudgetExceeded as error:
            return _exceeded(error)
        except InvalidRequest as error:
            raise Refusal("invalid", f"this cannot be written so: {'; '.join(error.violations)}") from None
        return _answer(held, context)

    def _built(self, held: Held, body: WhatIfBody) -> Context:
        """Build it from what is ready: of two questions that differ in their numbers alone, only the fill differs."""
        inputs = held.snapshot.context.inputs
        wanted = supposed(
            inputs,
            model=None if body.model in (None, inputs.model.id) else self._registry.resolve(str(body.model)),
            policy=None if body.policy in (None, inputs.policy.name) else body.policy,
            window=body.window,
            completion=body.completion,
            overrides=body.overrides,
        )
        pile = held.pile(wanted)
        asked = msgspec.structs.replace(pile.inputs, window=wanted.window, completion=wanted.completion)
        return poured(msgspec.structs.replace(pile, inputs=asked))


def _check_policy(body: WhatIfBody, context: Context) -> None:
    """Refuse a policy that is no name: the files of this machine are not for callers to name."""
    known = {*policy_names(), context.inputs.policy.name}
    if body.policy is not None and body.policy not in known:
        raise Refusal("invalid", f"policy: must be one of {', '.join(sorted(known))}", param="policy")


def _answer(held: Held, context: Context) -> WhatIf:
    changes = Changes(held.snapshot.context, context)
    difference = changes.difference
    would_be = msgspec.structs.replace(held.snapshot, context=context)
    return WhatIf(
        context=view_of(would_be, brief=True),
        exceeded=None,
        entered=changes.shown(difference.entered),
        left=changes.shown(difference.left),
        changed=changes.shown(difference.changed),
        prefix_share=difference.prefix_share,
    )


def _exceeded(error: BudgetExceeded) -> WhatIf:
    exceeded = Exceeded(
        needed=error.needed,
        limit=error.limit,
        message=f"what is required needs {error.needed:,} tokens, and there are {max(0, error.limit):,}",
        required=tuple(error.required[:_NAMED]),
    )
    return WhatIf(context=None, exceeded=exceeded, entered=(), left=(), changed=(), prefix_share=0.0)
