"""What a build is based on before anything is loaded: room, persona, model, policy, budget and current message."""

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import takewhile
from typing import Any, TypedDict, Unpack

import msgspec

from brimful.core.budget import ContextBudget, allocate
from brimful.core.content import ContentPackage, Flex, ToolCall, ToolResult
from brimful.core.counter import TokenCounter
from brimful.core.model import ModelInfo
from brimful.core.policy import Policy, Pool
from brimful.core.tokens import Count
from brimful.core.validation import preview
from brimful.counting import counter_for, vocabulary_for
from brimful.engine.personas import as_seen_by
from brimful.errors import InvalidValue
from brimful.lore.reasons import CURRENT_MESSAGE
from brimful.packagers.records import package_message, plain_text
from brimful.policies import Overrides, load_policy
from brimful.records import Content, Message, Persona, Room

_TOKENS_PER_HIT = 20  # with its label: a short message, so that the budget is met by them and some are left over
_MIN_HITS = 100  # who said it, and what, is weighed after the search: even a small budget chooses among so many


class BuildPlan(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One build's frame."""

    room: Room
    persona: Persona | None
    model: ModelInfo
    policy: Policy
    counter: TokenCounter
    vocabulary: str | None
    budget: ContextBudget

    def finds(self, most: int) -> int:
        """Return how many finds are worth bringing: as many very short ones as there is room for, and some at least."""
        return min(most, max(_MIN_HITS, self.tokens_for_finds // _TOKENS_PER_HIT)) if self.tokens_for_finds else 0

    @cached_property
    def tokens_for_finds(self) -> int:
        """What finds may take: the limit of their pool; 0 where there is no place for what stands alone."""
        pool = find_pool(self.policy, "message-older")
        return 0 if pool is None or pool.contiguous else self.budget.limit(pool.name)


def find_pool(policy: Policy, kind: str) -> Pool | None:
    """Return the pool in which a kind competes, by asking with a package of it."""
    probe = ContentPackage(id="probe", kind=kind, content="", tokens=Count(tokens=0, basis="exact"))
    return policy.pool_for(probe)


class BudgetOptions(TypedDict):
    """What a call changes of the policy and of its budget."""

    overrides: Mapping[str, Any] | Overrides | None
    window: int | None
    completion: int | None


def make_plan(
    room: Room, persona: Persona | None, *, model: ModelInfo, policy: str | Policy, **limits: Unpack[BudgetOptions]
) -> BuildPlan:
    """Return the frame of a build; the persona's overrides change the policy, and the call's change it again."""
    chosen = _load_policy(policy, persona, limits["overrides"])
    return BuildPlan(
        room=room,
        persona=persona,
        model=model,
        policy=chosen,
        counter=counter_for(model, chosen.counting),
        vocabulary=vocabulary_for(model, chosen.counting),
        budget=allocate(chosen, model, window=limits["window"], completion=limits["completion"]),
    )


def get_policy_keys(overrides: Mapping[str, Any] | Overrides | None) -> dict[str, Any]:
    """Return overrides as a policy's dotted keys; a mapping may use the names of `Overrides`, too.

    >>> get_policy_keys({"most_messages": 50, "margin.tokens": 64})
    {'pools.recent.most': 50, 'margin.tokens': 64}
    """
    if overrides is None:
        return {}
    if isinstance(overrides, Overrides):
        return overrides.keys()
    if not isinstance(overrides, Mapping):
        raise InvalidValue("overrides", f"must be Overrides, or the keys of a policy, not {preview(overrides)}")
    named = {key: value for key, value in overrides.items() if key in Overrides.__struct_fields__}
    try:
        short = msgspec.convert(named, Overrides).keys()
    except msgspec.ValidationError as error:
        raise InvalidValue("overrides", str(error)) from None
    return short | {key: value for key, value in overrides.items() if key not in named}


def _load_policy(
    policy: str | Policy, persona: Persona | None, overrides: Mapping[str, Any] | Overrides | None
) -> Policy:
    changes = get_policy_keys(persona.overrides if persona else None) | get_policy_keys(overrides)
    return load_policy(policy, overrides=changes or None, environ=os.environ)


_REQUIRED = Flex(can_drop=False, priority=10)


class CurrentMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The message to be answered; None if history ends with it. `text` is what retrieval looks for."""

    message: Message | None = None

    @property
    def text(self) -> str:
        """What it says, in words."""
        return plain_text(self.message.content) if self.message else ""

    @property
    def sender(self) -> str:
        """Who asks."""
        return self.message.sender if self.message else ""

    @property
    def posted(self) -> Message | None:
        """It, if it is in the store."""
        return self.message if self.message and self.message.seq else None

    @property
    def id(self) -> str | None:
        """Its id in the store, if it is there."""
        return self.posted.id if self.posted else None

    def packages(self, counter: TokenCounter) -> list[ContentPackage]:
        """Package it: it is required."""
        return [package_message(self.message, counter=counter, current=True)] if self.message else []


def make_current(
    message: Content | Message | None, *, room: str, sender: str, now: float, persona: Persona | None = None
) -> CurrentMessage:
    """Read what the caller gave, as the persona that answers sees it."""
    match message:
        case None:
            return CurrentMessage()
        case Message():
            if message.room != room:
                raise InvalidValue("message", f"is of room {preview(message.room)}, not {preview(room)}")
            return CurrentMessage(message=as_seen_by([message], persona)[0])
        case str() | tuple():
            return CurrentMessage(
                message=Message(id=CURRENT_MESSAGE, room=room, content=message, sender=sender, at=now)
            )
        case _:
            raise InvalidValue("message", f"must be a text, a tuple of parts or a Message, not {preview(message)}")


def require_last_turn(packages: Sequence[ContentPackage]) -> list[ContentPackage]:
    """Return history, newest first, with its end required: the last words of a person, and the turn that came last.

    Without them there would be nothing to answer. What lies between, an agent's many steps, is history as any other.
    """
    last_user = next((at for at, package in enumerate(packages) if package.role == "user"), None)
    required = {*_find_last_turn(packages), *([] if last_user is None else [last_user])}
    return [
        msgspec.structs.replace(package, flex=_REQUIRED, importance=1.0) if at in required else package
        for at, package in enumerate(packages)
    ]


def _find_last_turn(packages: Sequence[ContentPackage]) -> range:
    """Return the places of what came last: one message, or results with their call; nothing if a half is missing."""
    results = list(takewhile(lambda package: package.kind == "tool-result", packages))
    turn = packages[: len(results) + 1]
    called = {part.id for part in turn[-1].parts if isinstance(part, ToolCall)} if turn else set()
    answers = {part.id for result in results for part in result.parts if isinstance(part, ToolResult)}
    return range(len(turn) if called == answers else 0)
