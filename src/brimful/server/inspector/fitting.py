"""Endpoints for clients that send their requests themselves: fit a request, and report what it cost."""

from collections.abc import Callable
from typing import Any, Final

import msgspec
from starlette.responses import Response as HttpResponse

from brimful.core.context import Context
from brimful.core.notice import Notice
from brimful.core.policy import Policy
from brimful.engine.fitting import DEFAULT_ROOM
from brimful.errors import UnknownRecord
from brimful.models.registry import Registry
from brimful.records import Response, Snapshot, Usage
from brimful.server.access import choose_policy, require_model
from brimful.server.background import BackgroundTasks
from brimful.server.config import FitConfig
from brimful.server.endpoint import JSON
from brimful.server.inspector.operation import Call
from brimful.server.inspector.queries import FitBody, UsageBody
from brimful.server.inspector.views import AnswerView, Costs, View
from brimful.server.proxy.fit_mode import RecordWriter
from brimful.server.tenants import Tenants
from brimful.threads import run_in_thread

_TASK_WAIT: Final = 2.0  # seconds


class FitView(View, frozen=True, kw_only=True):
    """A request that fits, and what was changed in it.

    `positions` are the messages that stay, by their indices in the request that you sent, and `shortened` those of them
    that are not complete. `ledger` is the text of the message that stands for the steps of an agent that are out; it is
    empty if there is none. The `request` has `tokens` of at most `limit`. Report its usage for `id` if it is
    `recorded`.
    """

    id: str
    model: str
    policy: str
    window: int
    completion: int
    limit: int
    tokens: int
    positions: tuple[int, ...]
    shortened: tuple[int, ...]
    ledger: str
    warnings: tuple[Notice, ...]
    recorded: bool
    request: dict[str, Any]


class Fitting:
    """Endpoints to fit requests and to report their usage."""

    def __init__(
        self,
        tenants: Tenants,
        registry: Registry,
        *,
        config: FitConfig,
        records: RecordWriter,
        costs: Costs,
        tasks: BackgroundTasks,
        clock: Callable[[], float],
    ) -> None:
        self._tenants = tenants
        self._registry = registry
        self._config = config
        self._records = records
        self._costs = costs
        self._tasks = tasks
        self._clock = clock

    async def fit(self, call: Call) -> HttpResponse:
        """Make a request fit its window, as a continuation of the conversation's request before it."""
        body: FitBody = call.body
        name = body.model or body.request.get("model")
        require_model(call.client, name if isinstance(name, str) else "")
        engine = await self._tenants.engine(call.tenant)
        now = self._clock()
        context = await engine.fit(
            body.request,
            wire=body.wire,
            conversation=body.conversation,
            route=body.route,
            model=self._registry.resolve(name) if isinstance(name, str) and name else None,
            policy=self._tenants.find_policy(choose_policy(call.client, body.policy)) or self._default_policy,
            window=body.window,
            completion=body.completion,
            max_prompt_tokens=body.max_prompt_tokens,
            min_tokens=body.min_tokens or self._config.min_tokens,
            betas=body.betas,
            pin=body.pin,
            ties=body.ties,
            overrides=body.overrides,
            now=now,
            save=False,
        )
        snapshot = Snapshot(
            id=context.id, room=body.conversation or DEFAULT_ROOM, key=call.client.key or None, at=now, context=context
        )
        await self._records.record(call.tenant, snapshot, is_sent=False)
        recorded = self._records.is_recorded(context)
        return HttpResponse(await run_in_thread(_encode_fitted, context, recorded=recorded), media_type=JSON)

    async def report_usage(self, call: Call) -> AnswerView:
        """Record what the provider billed for a request."""
        try:
            response = await self._record_usage(call)
        except UnknownRecord:  # it may not be written yet
            await self._tasks.wait(_TASK_WAIT)
            response = await self._record_usage(call)
        return await run_in_thread(self._costs.answer_view, response)

    async def _record_usage(self, call: Call) -> Response:
        body: UsageBody = call.body
        engine = await self._tenants.engine(call.tenant)
        return await engine.record_response(
            call.name(),
            usage=Usage(prompt=body.prompt, cached=body.cached, completion=body.completion, reasoning=body.reasoning),
            model=body.model,
            route=body.route,
            finish=body.finish,
            seconds=body.seconds,
        )

    @property
    def _default_policy(self) -> str | Policy | None:
        """The policy in the configuration; None leaves the choice to `fit`."""
        name = self._config.policy
        return None if name is None else self._tenants.policies.get(name, name)


def _encode_fitted(context: Context, *, recorded: bool) -> bytes:
    view = FitView(
        id=context.id,
        model=context.inputs.model.id,
        policy=context.inputs.policy.name,
        window=context.budget.window,
        completion=context.budget.completion,
        limit=context.verification.limit,
        tokens=context.tokens,
        positions=context.positions,
        shortened=context.shortened,
        ledger=context.ledger,
        warnings=(*context.warnings, *context.inputs.degraded),
        recorded=recorded,
        request=context.request,
    )
    return msgspec.json.encode(view)
