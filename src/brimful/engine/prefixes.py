"""Where the last context of each conversation began, so that the next one keeps its prefix."""

from collections import OrderedDict
from typing import Final

import msgspec

from brimful.core.budget import ContextBudget, rules_of
from brimful.core.policy import Policy
from brimful.core.selection import Previous
from brimful.protocols import Store

KEPT: Final = 4096  # conversations that a process remembers; the others are read from the store
_LOOKED_THROUGH: Final = 8  # builds of a room, for the last one of the same model and policy


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """Contexts that share a prefix: those of one persona in one room, for one model, by one policy and budget.

    `rules` tell apart what bears the same name: the policy with all overrides, the window and what is left of it.
    """

    room: str
    persona: str | None
    model: str
    policy: str
    window: int
    rules: str


def conversation_of(room: str, persona: str | None, policy: Policy, budget: ContextBudget) -> Conversation:
    """Return which conversation a build belongs to."""
    return Conversation(
        room=room,
        persona=persona,
        model=budget.model,
        policy=policy.name,
        window=budget.window,
        rules=rules_of(policy, budget),
    )


class Prefixes:
    """Remembers, least recently used first to go."""

    def __init__(self, store: Store, kept: int = KEPT) -> None:
        """Look up in this store what is not remembered."""
        self._store = store
        self._kept = kept
        self._known: OrderedDict[Conversation, Previous | None] = OrderedDict()

    async def last(self, conversation: Conversation) -> Previous | None:
        """Return where the last context began; None if there is none, or if it held no history."""
        if conversation not in self._known:
            self.keep(conversation, await self._stored(conversation))
        return self._known[conversation]

    async def _stored(self, conversation: Conversation) -> Previous | None:
        room, persona = conversation.room, conversation.persona
        same = (conversation.model, conversation.policy, conversation.window)
        for build in await self._store.builds(room=room, persona=persona, limit=_LOOKED_THROUGH):
            if (build.model, build.policy, build.window) != same:
                continue
            if build.rules:
                if build.rules == conversation.rules:
                    return build.history
                continue
            # An older version did not note the rules: the record tells them, and takes a while to read.
            snapshot = await self._store.snapshot(build.id)
            context = snapshot.context if snapshot else None
            if context and conversation_of(room, persona, context.inputs.policy, context.budget) == conversation:
                return context.history
        return None

    def keep(self, conversation: Conversation, history: Previous | None) -> None:
        """Remember where a context began."""
        self._known[conversation] = history
        self._known.move_to_end(conversation)
        if len(self._known) > self._kept:
            self._known.popitem(last=False)
