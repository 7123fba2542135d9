"""The records of contexts: what was sent, what was left out, and why."""

from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from brimful.core.context import Component
from brimful.core.decision import Decision
from brimful.core.explain import decision_line
from brimful.records import Snapshot, Usage
from brimful.server.asked import Caller
from brimful.server.endpoint import JSON
from brimful.server.errors import Refusal
from brimful.server.tasks import Tasks
from brimful.server.tenants import Tenants

_MOST_ANSWERS: Final = 20
_PATIENCE: Final = 2.0  # seconds


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one candidate, and why, in a line."""

    decision: Decision
    why: str


class AnswerView(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a context: why the answer ended, how long it took, and what the upstream reported.

    `expected_cached` are the tokens that should have been in its prompt cache; `notes` say what was amiss.
    """

    id: str
    model: str
    route: str
    finish: str
    seconds: float | None
    usage: Usage | None
    expected_cached: int
    notes: tuple[str, ...]


class ContextView(msgspec.Struct, frozen=True, kw_only=True):
    """A context as its record tells it. `report` is for people.

    `request` is what was sent. In the mode `remember`, what was sent had its `messages` and its `system`, and all other
    fields as the caller wrote them, which are not kept.
    """

    id: str
    room: str
    at: float
    model: str
    policy: str
    window: int
    completion: int
    tokens: int
    limit: int
    basis: str
    components: tuple[Component, ...]
    warnings: tuple[str, ...]
    left_out: int
    decisions: tuple[Explained, ...]
    answers: tuple[AnswerView, ...]
    report: str
    request: dict[str, Any]


class Contexts:
    """Shows contexts to those whose they are."""

    def __init__(self, tenants: Tenants, tasks: Tasks) -> None:
        """Take the stores, and the work that is under way there."""
        self._tenants = tenants
        self._tasks = tasks

    async def show(self, request: Request, caller: Caller, raw: bytes) -> Response:
        """Show one, by its id."""
        del raw
        id, store = request.path_params["id"], self._tenants.store(caller.tenant)
        await self._tasks.settle(_PATIENCE)  # its answer may have come a moment ago, and its record be on its way
        snapshot = None if "\0" in id else await store.snapshot(id)
        if snapshot is None:
            raise Refusal("unknown", f"no context {id[:80]!r}", code="context_not_found", param="id")
        answers = await store.responses(context=id, limit=_MOST_ANSWERS)
        told = tuple(msgspec.convert(each, AnswerView, from_attributes=True) for each in answers)
        return Response(msgspec.json.encode(_view(snapshot, told)), media_type=JSON)


def _view(snapshot: Snapshot, answers: tuple[AnswerView, ...]) -> ContextView:
    context = snapshot.context
    decisions = tuple(Explained(decision=each, why=decision_line(context, each)) for each in context.decisions)
    return ContextView(
        id=snapshot.id,
        room=snapshot.room,
        at=snapshot.at,
        model=context.inputs.model.id,
        policy=context.inputs.policy.name,
        window=context.budget.window,
        completion=context.budget.completion,
        tokens=context.tokens,
        limit=context.budget.hard_limit,
        basis=context.verification.basis,
        components=context.components,
        warnings=context.warnings,
        left_out=sum(not each.included for each in context.decisions),
        decisions=decisions,
        answers=answers,
        report=context.report(),
        request=context.request,
    )
