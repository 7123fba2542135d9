"""Where the last context of each conversation began, so that the next one keeps its prefix."""

from collections import OrderedDict
from typing import Final

import msgspec

from brimful.core.selection import Previous
from brimful.protocols import Store

KEPT: Final = 4096  # conversations that a process remembers; the others are read from the store
_LOOKED_THROUGH: Final = 8  # builds of a room, for the last one of the same model and policy


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """Contexts that share a prefix: those of one persona in one room, for one model, by one policy."""

    room: str
    persona: str | None
    model: str
    policy: str


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
            builds = await self._store.snapshots(conversation.room, persona=conversation.persona, limit=_LOOKED_THROUGH)
            same = (conversation.model, conversation.policy)
            last = next((build for build in builds if (build.model, build.policy) == same), None)
            self.keep(conversation, last.history if last else None)
        return self._known[conversation]

    def keep(self, conversation: Conversation, history: Previous | None) -> None:
        """Remember where a context began."""
        self._known[conversation] = history
        self._known.move_to_end(conversation)
        if len(self._known) > self._kept:
            self._known.popitem(last=False)
