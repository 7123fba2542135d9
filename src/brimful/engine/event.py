"""What an engine tells its hooks: one frozen event for each thing that was done."""

import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

import msgspec

from brimful.arguments import listed
from brimful.core.check import shown
from brimful.errors import InvalidValue

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


def hooks_of(hooks: Sequence[Hook]) -> tuple[Hook, ...]:
    """Return hooks that can be called."""
    given = tuple(listed("hooks", hooks))
    for at, hook in enumerate(given):
        if not callable(hook):
            raise InvalidValue(f"hooks[{at}]", f"must be a function that takes an Event, not {shown(hook)}")
    return given


async def tell(hooks: Sequence[Hook], event: Event) -> None:
    """Tell every hook, in order."""
    for hook in hooks:
        try:
            answer = hook(event)
            if inspect.isawaitable(answer):
                await answer
        except Exception:  # noqa: BLE001 - a hook is anybody's code, and what it watches is done already
            _log.exception("a hook failed at %s", event.name)
