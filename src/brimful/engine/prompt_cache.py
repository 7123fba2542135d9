"""Prompt caching: keep the prefix of consecutive contexts stable, and estimate what the provider has cached."""

import hashlib
from typing import Final

import msgspec

from brimful.cache import LRU
from brimful.core.budget import ContextBudget, rules_digest
from brimful.core.context import Context
from brimful.core.model import CacheRule
from brimful.core.policy import Policy
from brimful.core.prompt import Message, Prompt
from brimful.core.selection import HistoryStart
from brimful.counting import counter_for
from brimful.render import renderer_of
from brimful.stores import Store

MAX_CONVERSATIONS: Final = 4096  # conversations that a process remembers; the others are read from the store
_MAX_BUILDS: Final = 8  # builds of a room, for the last one of the same model and policy


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


def make_conversation(room: str, persona: str | None, policy: Policy, budget: ContextBudget) -> Conversation:
    """Return which conversation a build belongs to."""
    return Conversation(
        room=room,
        persona=persona,
        model=budget.model,
        policy=policy.name,
        window=budget.window,
        rules=rules_digest(policy, budget),
    )


class PrefixTracker:
    """Remembers, least recently used first to go."""

    def __init__(self, store: Store, kept: int = MAX_CONVERSATIONS) -> None:
        """Look up in this store what is not remembered."""
        self._store = store
        self._known: LRU[Conversation, HistoryStart | None] = LRU(max_entries=kept)

    async def last(self, conversation: Conversation) -> HistoryStart | None:
        """Return where the last context began; None if there is none, or if it held no history."""
        if conversation not in self._known:
            self.keep(conversation, await self._stored(conversation))
        return self._known.get(conversation)

    async def _stored(self, conversation: Conversation) -> HistoryStart | None:
        room, persona = conversation.room, conversation.persona
        same = (conversation.model, conversation.policy, conversation.window)
        for build in await self._store.builds(room=room, persona=persona, limit=_MAX_BUILDS):
            if (build.model, build.policy, build.window) == same and build.rules == conversation.rules:
                return build.history
        return None

    def keep(self, conversation: Conversation, history: HistoryStart | None) -> None:
        """Remember where a context began."""
        self._known[conversation] = history


MAX_REQUESTS: Final = 4_096  # conversations whose last request a process remembers
_NO_RULE: Final = CacheRule(minimum_tokens=0)
_REQUEST_BREAKPOINT: Final = (
    "cache_control"  # of a whole request: Anthropic's breakpoint at the end of what can be cached
)


class RequestDigest(msgspec.Struct, frozen=True):
    """A request that was sent, by digests: its tools, its messages, and which of these end a part that is cached."""

    tools: bytes
    messages: tuple[bytes, ...]
    breakpoints: tuple[bool, ...]


class LastRequests:
    """The last request of each conversation that this process sent, least recently sent first to go."""

    def __init__(self, kept: int = MAX_REQUESTS) -> None:
        """Remember so many."""
        self._known: LRU[tuple[str, ...], RequestDigest] = LRU(max_entries=kept)

    def expect(self, context: Context, *conversation: str) -> int:
        """Return how many tokens of a context that was sent should have been cached; remember it for the next one."""
        prompt = renderer_of(context.inputs).parse(context.request)
        sent = _digest_request(prompt, to_its_end=context.request.get(_REQUEST_BREAKPOINT) is not None)
        before = self._known.get(conversation)
        self._known[conversation] = sent
        return (
            0
            if before is None
            else _count_cached(prompt, _count_shared(before, sent, _get_cache_rule(context)), context)
        )


def _count_cached(prompt: Prompt, shared: int, context: Context) -> int:
    """Count the first messages of a prompt, as many as are shared; below the minimum, nothing is cached."""
    if not shared:
        return 0
    counter = counter_for(context.inputs.model, context.inputs.method)
    beginning = msgspec.structs.replace(prompt, messages=prompt.messages[:shared])
    tokens = max(0, counter.prompt(beginning).tokens - counter.request_overhead())
    return tokens if tokens >= _get_cache_rule(context).minimum_tokens else 0


def _count_shared(before: RequestDigest, after: RequestDigest, rule: CacheRule) -> int:
    """Return how many messages both begin with; where a provider wants breakpoints, up to the last shared one."""
    if before.tools != after.tools:
        return 0
    pairs = zip(before.messages, after.messages, strict=False)
    shared = next((at for at, (first, second) in enumerate(pairs) if first != second), None)
    if shared is None:
        shared = min(len(before.messages), len(after.messages))
    while rule.breakpoints and shared and not before.breakpoints[shared - 1]:
        shared -= 1
    return shared


def _digest_request(prompt: Prompt, *, to_its_end: bool) -> RequestDigest:
    *before, last = [message.cache for message in prompt.messages] or [False]
    return RequestDigest(
        _hash(prompt.tools),
        tuple(_hash(_without_breakpoint(message)) for message in prompt.messages),
        (*before, last or to_its_end),
    )


def _without_breakpoint(message: Message) -> Message:
    return msgspec.structs.replace(message, cache=False)


def _hash(value: object) -> bytes:
    return hashlib.blake2b(msgspec.json.encode(value), digest_size=12).digest()


def _get_cache_rule(context: Context) -> CacheRule:
    return context.inputs.model.cache or _NO_RULE
