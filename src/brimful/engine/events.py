"""Events that an engine sends to its hooks: one frozen event for each thing done, with numbers but no content."""

import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

import msgspec

from brimful.assembly.arguments import require_list
from brimful.core.context import Context
from brimful.core.validation import preview
from brimful.errors import InvalidValue
from brimful.records import Response

EventName = Literal[
    "posted",
    "edited",
    "deleted",
    "remembered",
    "forgotten",
    "pinned",
    "assembled",
    "overflowed",
    "sent",
    "responded",
    "failed",
    "refused",
    "indexed",
    "pruned",
    "tidied",
]

_log = logging.getLogger("brimful")


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was done, after it was done. `facts` say what a monitor would show of it."""

    name: EventName
    at: float
    tenant: str
    room: str | None = None
    facts: dict[str, Any] = {}


Hook = Callable[[Event], Awaitable[None] | None]
"""Is told of every event. It may be async; whatever it raises is logged, and spoils nothing."""


def check_hooks(hooks: Sequence[Hook]) -> tuple[Hook, ...]:
    """Return hooks that can be called."""
    given = tuple(require_list("hooks", hooks))
    for at, hook in enumerate(given):
        if not callable(hook):
            raise InvalidValue(f"hooks[{at}]", f"must be a function that takes an Event, not {preview(hook)}")
    return given


async def notify_hooks(hooks: Sequence[Hook], event: Event) -> None:
    """Tell every hook, in order."""
    for hook in hooks:
        try:
            answer = hook(event)
            if inspect.isawaitable(answer):
                await answer
        except Exception:  # noqa: BLE001 - a hook is anybody's code, and what it watches is done already
            _log.exception("a hook failed at %s", event.name)


def get_build_facts(context: Context, *, seconds: float) -> dict[str, Any]:
    """Return what a monitor shows of a build that took so long."""
    model = context.inputs.model
    return {
        "context": context.id,
        "model": model.id,
        "provider": model.provider,
        "policy": context.inputs.policy.name,
        "tokens": context.tokens,
        "window": context.budget.window,
        "candidates": len(context.decisions),
        "left_out": sum(not decision.included for decision in context.decisions),
        "degraded": list(context.inputs.degraded),
        "seconds": max(0.0, seconds),
    }


def get_response_facts(response: Response, context: Context) -> dict[str, Any]:
    """Return what a monitor shows of an answer: `asked` is the model that was asked for, `model` the one that answered.

    Of usage that was not reported, nothing is told.
    """
    usage = response.usage
    reported = {} if usage is None else {name: getattr(usage, name) for name in usage.__struct_fields__}
    return {
        "id": response.id,
        "context": response.context,
        "asked": context.inputs.model.id,
        "model": response.model,
        "provider": context.inputs.model.provider,
        "route": response.route,
        "finish": response.finish,
        "seconds": response.seconds,
        "usage": reported,
        "expected_cached": response.expected_cached,
        "notes": list(response.notes),
    }
