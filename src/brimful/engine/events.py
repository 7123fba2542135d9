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
from brimful.records.contexts import Build

EventName = Literal[
    "posted",
    "edited",
    "deleted",
    "remembered",
    "proposed",
    "reviewed",
    "forgotten",
    "pinned",
    "assembled",
    "overflowed",
    "recalled",
    "sent",
    "first_token",
    "upstream_ended",
    "served",
    "responded",
    "billed",
    "failed",
    "refused",
    "indexed",
    "pruned",
    "janitor_ran",
    "learned",
    "called",
    "worked",
]

_log = logging.getLogger("brimful")
_builds = logging.getLogger("brimful.build")
_builds.addHandler(logging.NullHandler())


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something that an engine did, for its hooks. `facts` are numbers and names for monitoring, never content."""

    name: EventName
    at: float
    tenant: str
    room: str | None = None
    facts: dict[str, Any] = {}


Hook = Callable[[Event], Awaitable[None] | None]
"""A function that is called with every event. It may be async. Exceptions are logged and otherwise ignored."""


def check_hooks(hooks: Sequence[Hook]) -> tuple[Hook, ...]:
    """Return hooks as a tuple. Each must be callable."""
    checked = tuple(require_list("hooks", hooks))
    for index, hook in enumerate(checked):
        if not callable(hook):
            raise InvalidValue(f"hooks[{index}]", f"must be a function that takes an Event, not {preview(hook)}")
    return checked


class Emitter:
    """Sends the events of one tenant to hooks."""

    def __init__(self, hooks: Sequence[Hook], *, tenant: str, clock: Callable[[], float]) -> None:
        self._hooks = hooks
        self._tenant = tenant
        self._clock = clock

    def __bool__(self) -> bool:
        return bool(self._hooks)

    async def emit(self, name: EventName, room: str | None = None, **facts: Any) -> None:
        """Send an event to every hook."""
        if self._hooks:
            event = Event(name=name, at=self._clock(), tenant=self._tenant, room=room, facts=facts)
            await notify_hooks(self._hooks, event)


async def notify_hooks(hooks: Sequence[Hook], event: Event) -> None:
    """Call every hook, in order."""
    for hook in hooks:
        try:
            result = hook(event)
            if inspect.isawaitable(result):
                await result
        except Exception:  # noqa: BLE001 - a hook is user code, and what it reports is done already
            _log.exception("a hook failed on event %s", event.name)


def get_build_facts(context: Context, *, seconds: float) -> dict[str, Any]:
    """Return the facts of an `assembled` event."""
    model = context.inputs.model
    return {
        "context": context.id,
        "model": model.id,
        "provider": model.provider,
        "policy": context.inputs.policy.name,
        "tokens": context.tokens,
        "window": context.budget.window,
        "available": context.budget.available,
        "target": context.budget.target_tokens,
        "candidates": context.offered,
        "left_out": context.left_out,
        "naive": context.naive,
        "loaded": context.loaded,
        "stopped_at": context.stopped_at,
        **_get_parts(context),
        "seconds": max(0.0, seconds),
    }


def _get_parts(context: Context) -> dict[str, Any]:
    """Return what the request consists of, and what was missing when it was built."""
    required = [decision.cost for decision in context.decisions if decision.included and decision.reason == "required"]
    degraded = context.inputs.degraded
    return {
        "components": {each.name: each.tokens for each in context.components},
        "items": {each.name: each.items for each in context.components if each.items},
        "required": sum(required),
        "required_items": len(required),
        "degraded": [notice.kind for notice in degraded],
        "search_errors": {each.kind: each.facts["error"] for each in degraded if "error" in each.facts},
    }


def log_build(
    context: Context,
    *,
    tenant: str,
    room: str,
    seconds: float,
    persona: str | None = None,
    cached: bool | None = None,
    tokenized: int | None = None,
) -> None:
    """Log one line about a build, with its fields as `extra`: numbers and names, never content."""
    if not _builds.isEnabledFor(logging.INFO):
        return
    budget = context.budget
    kept = sum(decision.included for decision in context.decisions)
    fields = {
        "context": context.id,
        "tenant": tenant,
        "room": room,
        "persona": persona,
        "model": budget.model,
        "policy": budget.policy,
        "window": budget.window,
        "available": budget.available,
        "used": context.tokens,
        "target": budget.target_tokens,
        "loaded": context.loaded,
        "stopped_at": context.stopped_at,
        "kept": kept,
        "dropped": len(context.decisions) - kept,
        "left_out": context.left_out,
        "naive": context.naive,
        "cached": cached,
        "tokenized": tokenized,
        "ms": round(1000 * max(0.0, seconds), 1),
        **_get_parts(context),
    }
    _builds.info(format_fields("build", fields), extra=fields)


def format_fields(event: str, fields: dict[str, Any]) -> str:
    """Return fields as one line, without empty ones. Values with spaces or control characters are quoted.

    >>> format_fields("build", {"room": "my room", "used": {"system": 31}, "persona": None, "degraded": ["a", "b"]})
    'build room="my room" used=system:31 degraded=a,b'
    """
    pairs = ((key, _join(value)) for key, value in fields.items())
    return " ".join([event, *(f"{key}={_quote(str(value))}" for key, value in pairs if value not in (None, ""))])


def _join(value: Any) -> Any:
    if isinstance(value, dict):
        value = [f"{key}:{each}" for key, each in value.items()]
    return ",".join(value) if isinstance(value, list) else value


def _quote(text: str) -> str:
    plain = text.isprintable() and not any(mark in text for mark in ' "=')
    return text if plain else msgspec.json.encode(text).decode()


def get_response_facts(response: Response, context: Context | Build) -> dict[str, Any]:
    """Return the facts of a `responded` event.

    `requested_model` is the model of the request, `model` the one that answered. `usage` is empty if none was reported,
    and `cache_miss` if nothing was read again that was in the prompt cache; else it is the cause.
    """
    usage = response.usage
    model, provider = (
        (context.model, "") if isinstance(context, Build) else (context.inputs.model.id, context.inputs.model.provider)
    )
    reported = {} if usage is None else msgspec.structs.asdict(usage)
    return {
        "id": response.id,
        "context": response.context,
        "requested_model": model,
        "model": response.model,
        "provider": provider,
        "route": response.route,
        "finish": response.finish,
        "seconds": response.seconds,
        "usage": reported,
        "expected_cached": response.expected_cached,
        "cache_miss": next((each.facts["cause"] for each in response.notices if each.kind == "cache-missed"), ""),
        "notices": [notice.text for notice in response.notices],
    }
