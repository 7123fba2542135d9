"""What a call for an answer may say, and the turn that comes of it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict, cast

import msgspec

from brimful.core.content import Media
from brimful.core.model import ModelInfo
from brimful.core.policy import Policy
from brimful.core.prompt import Tool
from brimful.errors import InvalidValue
from brimful.policies import Overrides
from brimful.protocols import Provider
from brimful.records import Message


class Building(TypedDict, total=False):
    """What it may say of the context that is built for it, as `assemble` takes it."""

    policy: str | Policy | None
    user: str | None
    media: Sequence[Media]
    tools: Sequence[Tool | Mapping[str, Any]]
    focus: str
    system: str | None
    completion: int | None
    overrides: Mapping[str, Any] | Overrides | None


class Asking(Building, total=False):
    """All that it may say. `id` and `sender` are those of the message."""

    model: str | ModelInfo | None
    provider: str | Provider | None
    window: int | None
    sender: str
    id: str | None
    now: float | datetime | None


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One turn of a conversation while it is under way: who answers what, by which model, and where that runs.

    `at` is when it was said, `begun` when we were asked.
    """

    room: str
    persona: str | None
    speaker: str
    message: Message | None
    model: ModelInfo
    provider: Provider
    window: int | None
    building: Building
    at: float
    begun: float


def building_of(asking: Asking) -> Building:
    """Return what of a call is for the build alone.

    >>> building_of({"policy": "window", "sender": "Ada"})
    {'policy': 'window'}
    """
    for key in asking.keys() - Asking.__annotations__.keys():
        raise InvalidValue(key, f"is no argument of an answer; known: {', '.join(Asking.__annotations__)}")
    said = {key: value for key, value in asking.items() if key in Building.__annotations__}
    return cast("Building", said)
