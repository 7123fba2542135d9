"""Prompt caching: keep the prefix of consecutive contexts stable, and estimate what the provider has cached."""

import hashlib
from typing import Final

import msgspec

from brimful.cache import LRU, content_bytes, memoize
from brimful.core.budget import ContextBudget, rules_digest
from brimful.core.context import Context
from brimful.core.model import CacheRule
from brimful.core.policy import Policy
from brimful.core.prompt import Message, Prompt
from brimful.core.selection import HistoryStart
from brimful.counting import counter_for
from brimful.stores import Store

MAX_CONVERSATIONS: Final = 4096  # in the cache; others are read from the store
_MAX_BUILDS: Final = 8  # of a room, searched for the last one of the same conversation
MAX_REQUESTS: Final = 4_096  # conversations
_START_BYTES: Final = 800  # memory of an entry: names of a conversation, and the start of its history
_HASH_BYTES: Final = 12
_NO_RULE: Final = CacheRule(minimum_tokens=0)
_REQUEST_BREAKPOINT: Final = "cache_control"  # a field of Anthropic's requests: a breakpoint at the end


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """Contexts that share a prefix: of one persona in one room, for one model, policy and budget.

    `rules` is a digest of the policy with all overrides, and of the budget.
    """

    room: str
    persona: str | None
    model: str
    policy: str
    window: int
    rules: str


def make_conversation(room: str, persona: str | None, policy: Policy, budget: ContextBudget) -> Conversation:
    return Conversation(
        room=room,
        persona=persona,
        model=budget.model,
        policy=policy.name,
        window=budget.window,
        rules=rules_digest(policy, budget),
    )


class PrefixTracker:
    """Remembers where history started in the last context of each conversation."""

    def __init__(self, store: Store, max_entries: int = MAX_CONVERSATIONS) -> None:
        self._store = store
        self._known: LRU[Conversation, HistoryStart | None] = LRU(
            max_entries=max_entries, name="conversations", size=lambda _, __: _START_BYTES
        )

    async def last(self, conversation: Conversation) -> HistoryStart | None:
        """Return where history started last time; None if there was no context or no history."""
        if conversation not in self._known:
            self.keep(conversation, await self._load(conversation))
        return self._known.get(conversation)

    async def _load(self, conversation: Conversation) -> HistoryStart | None:
        room, persona = conversation.room, conversation.persona
        same = (conversation.model, conversation.policy, conversation.window)
        for build in await self._store.builds(room=room, persona=persona, limit=_MAX_BUILDS):
            if (build.model, build.policy, build.window) == same and build.rules == conversation.rules:
                return build.history
        return None

    def keep(self, conversation: Conversation, history: HistoryStart | None) -> None:
        """Remember where history started."""
        self._known[conversation] = history


class RequestDigest(msgspec.Struct, frozen=True):
    """Digests of a request's tools and messages, and which messages end with a cache breakpoint.

    `messages` are the digests of all messages, one after the other; `breakpoints` has one byte per message.
    """

    tools: bytes
    messages: bytes
    breakpoints: bytes

    @property
    def nbytes(self) -> int:
        """The size of all digests."""
        return len(self.messages) + len(self.breakpoints)


class LastRequests:
    """The last request of each conversation that this process sent."""

    def __init__(self, max_entries: int = MAX_REQUESTS) -> None:
        self._known: LRU[tuple[str, ...], RequestDigest] = LRU(
            max_entries=max_entries, name="conversations", size=lambda _, sent: _START_BYTES + sent.nbytes
        )

    def expect(self, context: Context, prompt: Prompt, *conversation: str) -> int:
        """Return how many tokens of a sent context the provider should have cached, and remember the request.

        `prompt` is the context's request as it is read back.
        """
        sent = _digest_request(prompt, ends_cached=context.request.get(_REQUEST_BREAKPOINT) is not None)
        before = self._known.get(conversation)
        self._known[conversation] = sent
        if before is None:
            return 0
        return _count_cached(prompt, _count_shared(before, sent, _get_cache_rule(context)), context)


def _count_cached(prompt: Prompt, shared: int, context: Context) -> int:
    """Count the tokens of the shared messages; below the provider's minimum, nothing is cached."""
    if not shared:
        return 0
    counter = counter_for(context.inputs.model, context.inputs.method)
    beginning = msgspec.structs.replace(prompt, messages=prompt.messages[:shared], body=None)
    tokens = max(0, counter.prompt(beginning).tokens - counter.request_overhead())
    return tokens if tokens >= _get_cache_rule(context).minimum_tokens else 0


def _count_shared(before: RequestDigest, after: RequestDigest, rule: CacheRule) -> int:
    """Return how many messages both start with, up to the last breakpoint if the provider needs them."""
    if before.tools != after.tools:
        return 0
    length, size = min(len(before.messages), len(after.messages)), _HASH_BYTES
    pairs = ((i, before.messages[i : i + size], after.messages[i : i + size]) for i in range(0, length, size))
    shared = next((i for i, first, second in pairs if first != second), length) // size
    while rule.breakpoints and shared and not before.breakpoints[shared - 1]:
        shared -= 1
    return shared


def _digest_request(prompt: Prompt, *, ends_cached: bool) -> RequestDigest:
    *before, last = [message.cache for message in prompt.messages] or [False]
    return RequestDigest(
        _hash(prompt.tools),
        b"".join(map(_hash_message, prompt.messages)),
        bytes([*before, last or ends_cached]),
    )


def _hash(value: object) -> bytes:
    return hashlib.blake2b(msgspec.json.encode(value), digest_size=_HASH_BYTES).digest()


def _hash_without_breakpoint(message: Message) -> bytes:
    return _hash(msgspec.structs.replace(message, cache=False) if message.cache else message)


_hash_message: Final = memoize(
    _hash_without_breakpoint, name="conversations", size=lambda args, _: content_bytes(args[0].parts)
)


def _get_cache_rule(context: Context) -> CacheRule:
    return context.inputs.model.cache or _NO_RULE
