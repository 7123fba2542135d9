"""What a build rests on before anything is loaded: persona, room, model, policy, counter and budget."""

import os
from collections.abc import Mapping
from functools import cached_property
from typing import Any, TypedDict, Unpack

import msgspec

from brimful.core.budget import ContextBudget, allocate
from brimful.core.check import shown
from brimful.core.content import ContentPackage
from brimful.core.model import ModelInfo
from brimful.core.policy import Policy, Pool
from brimful.core.tokens import Count, TokenCounter
from brimful.counting import counter_for, vocabulary_for
from brimful.errors import InvalidValue
from brimful.policies import Overrides, load_policy
from brimful.records import Persona, Room

_TOKENS_A_FIND = 20  # with its label: a short message, so that the budget is met by them and some are left over
_LEAST_FINDS = 100  # who said it, and what, is weighed after the search: even a small budget chooses among so many


class Plan(msgspec.Struct, frozen=True, kw_only=True, dict=True):
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
        return min(most, max(_LEAST_FINDS, self.tokens_for_finds // _TOKENS_A_FIND)) if self.tokens_for_finds else 0

    @cached_property
    def tokens_for_finds(self) -> int:
        """What finds may take: the limit of their pool; 0 where there is no place for what stands alone."""
        pool = pool_of(self.policy, "message-older")
        return 0 if pool is None or pool.contiguous else self.budget.limit(pool.name)


def pool_of(policy: Policy, kind: str) -> Pool | None:
    """Return the pool in which a kind competes, by asking with a package of it."""
    probe = ContentPackage(id="probe", kind=kind, content="", tokens=Count(tokens=0, basis="exact"))
    return policy.pool_for(probe)


class Limits(TypedDict):
    """What a call changes of the policy and of its budget."""

    overrides: Mapping[str, Any] | Overrides | None
    window: int | None
    completion: int | None


def make_plan(
    room: Room, persona: Persona | None, *, model: ModelInfo, policy: str | Policy, **limits: Unpack[Limits]
) -> Plan:
    """Return the frame of a build; the persona's overrides change the policy, and the call's change it again."""
    chosen = _policy(policy, persona, limits["overrides"])
    return Plan(
        room=room,
        persona=persona,
        model=model,
        policy=chosen,
        counter=counter_for(model, chosen.counting),
        vocabulary=vocabulary_for(model, chosen.counting),
        budget=allocate(chosen, model, window=limits["window"], completion=limits["completion"]),
    )


def keys_of(overrides: Mapping[str, Any] | Overrides | None) -> dict[str, Any]:
    """Return overrides as a policy's dotted keys; a mapping may use the names of `Overrides`, too.

    >>> keys_of({"most_messages": 50, "margin.tokens": 64})
    {'pools.recent.most': 50, 'margin.tokens': 64}
    """
    if overrides is None:
        return {}
    if isinstance(overrides, Overrides):
        return overrides.keys()
    if not isinstance(overrides, Mapping):
        raise InvalidValue("overrides", f"must be Overrides, or the keys of a policy, not {shown(overrides)}")
    named = {key: value for key, value in overrides.items() if key in Overrides.__struct_fields__}
    try:
        short = msgspec.convert(named, Overrides).keys()
    except msgspec.ValidationError as error:
        raise InvalidValue("overrides", str(error)) from None
    return short | {key: value for key, value in overrides.items() if key not in named}


def _policy(policy: str | Policy, persona: Persona | None, overrides: Mapping[str, Any] | Overrides | None) -> Policy:
    changes = keys_of(persona.overrides if persona else None) | keys_of(overrides)
    return load_policy(policy, overrides=changes or None, environ=os.environ)
