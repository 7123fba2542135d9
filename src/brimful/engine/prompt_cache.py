"""Prompt caching: keep the prefix of consecutive contexts stable, and estimate what the provider has cached."""

import hashlib
from typing import Final

import msgspec

from brimful.cache import LRU, content_bytes, memoize
from brimful.core.budget import ContextBudget, rules_digest
from brimful.core.cache_misses import FIVE_MINUTES, CacheMiss, count_missed
from brimful.core.content import Text
from brimful.core.context import Context
from brimful.core.labels import RELATED_OPEN
from brimful.core.model import CacheRule
from brimful.core.policy import Policy
from brimful.core.prompt import Message, Prompt
from brimful.core.selection import HistoryStart
from brimful.counting import counter_for
from brimful.records import Usage
from brimful.stores import Store

MAX_CONVERSATIONS: Final = 4096  # in the cache; others are read from the store
_MAX_BUILDS: Final = 8  # of a room, searched for the last one of the same conversation
MAX_REQUESTS: Final = 4_096  # conversations
_START_BYTES: Final = 800  # memory of an entry: names of a conversation, and the start of its history
_HASH_BYTES: Final = 12
_CACHE_LOST: Final = frozenset[CacheMiss]({"ttl_expired_5m", "likely_server_side"})
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
    """What was sent: digests of tools and messages, and which messages end with a cache breakpoint.

    `tools` and `messages` are the digests of all tools and messages, one after the other; `breakpoints` has one byte
    per message, the first `system` messages are system prompts, and the first `stable` ones stand before what was found
    for the question, which is not in the next prompt. `first` is where history began, if not all
    of it was sent. `at` is the time, and `tokens` what the provider counted.
    """

    tools: bytes
    messages: bytes
    breakpoints: bytes
    system: int
    stable: int
    first: str
    at: float
    tokens: int

    @property
    def nbytes(self) -> int:
        """The size of all digests."""
        return len(self.tools) + len(self.messages) + len(self.breakpoints)


class CacheUse(msgspec.Struct, frozen=True, kw_only=True):
    """How many tokens of a request should have been in the provider's cache, and what was read again.

    `missed` are the tokens of the request before that the provider read again, because of the `cause`.
    """

    expected: int = 0
    missed: int = 0
    cause: CacheMiss = "unknown"


class LastRequests:
    """The last request of each conversation that this process sent, for each model."""

    def __init__(self, max_entries: int = MAX_REQUESTS) -> None:
        self._known: LRU[tuple[str, ...], RequestDigest] = LRU(
            max_entries=max_entries, name="conversations", size=lambda _, sent: _START_BYTES + sent.nbytes
        )
        self._models: LRU[tuple[str, ...], str] = LRU(
            max_entries=max_entries, name="conversations", size=lambda *_: _START_BYTES
        )

    def compare(self, context: Context, prompt: Prompt, usage: Usage, at: float, *conversation: str) -> CacheUse:
        """Return what the provider should have cached of a sent context, and remember the request.

        `prompt` is the context's request as it is read back.
        """
        model, rule = context.inputs.model.id, _get_cache_rule(context)
        sent = _digest_request(context, prompt, usage.prompt, at)
        same, other = self._known.get((*conversation, model)), self._models.get(conversation)
        changed = self._known.get((*conversation, other)) if other not in {None, model} else None
        self._known[*conversation, model] = sent
        self._models[conversation] = model
        before = changed or same
        if before is None:
            return CacheUse()
        expected = 0 if same is None else _count_cached(prompt, _count_shared(same, sent, rule), context)
        cause: CacheMiss = "model_changed" if changed is not None else _find_cause(before, sent)
        sent_before = expected if cause in _CACHE_LOST else min(before.tokens, usage.prompt)
        caches = rule.minimum_tokens > 0 or usage.cached > 0
        return CacheUse(expected=expected, missed=count_missed(sent_before, usage.cached) if caches else 0, cause=cause)


def _find_cause(before: RequestDigest, sent: RequestDigest) -> CacheMiss:
    """Return what changed first in the prompt. If nothing did, the cache lost it."""
    same = _count_same(before, sent) * _HASH_BYTES
    causes: tuple[tuple[CacheMiss, bool], ...] = (
        ("tools_reordered", before.tools != sent.tools and sorted(_split(before.tools)) == sorted(_split(sent.tools))),
        ("tools_changed", before.tools != sent.tools),
        ("system_prompt_changed", same < min(before.system, sent.system) * _HASH_BYTES),
        ("trimmed", same < before.stable * _HASH_BYTES and sent.first not in {"", before.first}),
        ("messages_rewritten", same < before.stable * _HASH_BYTES),
        ("ttl_expired_5m", sent.at - before.at > FIVE_MINUTES),
    )
    return next((cause for cause, holds in causes if holds), "likely_server_side")


def _split(digests: bytes) -> list[bytes]:
    return [digests[i : i + _HASH_BYTES] for i in range(0, len(digests), _HASH_BYTES)]


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
    shared = _count_same(before, after)
    while rule.breakpoints and shared and not before.breakpoints[shared - 1]:
        shared -= 1
    return shared


def _count_same(before: RequestDigest, after: RequestDigest) -> int:
    """Return how many messages both start with."""
    length, size = min(len(before.messages), len(after.messages)), _HASH_BYTES
    pairs = ((i, before.messages[i : i + size], after.messages[i : i + size]) for i in range(0, length, size))
    return next((i for i, first, second in pairs if first != second), length) // size


def _digest_request(context: Context, prompt: Prompt, tokens: int, at: float) -> RequestDigest:
    ends_cached = context.request.get(_REQUEST_BREAKPOINT) is not None
    *before, last = [message.cache for message in prompt.messages] or [False]
    return RequestDigest(
        tools=b"".join(map(_hash, prompt.tools)),
        messages=b"".join(map(_hash_message, prompt.messages)),
        breakpoints=bytes([*before, last or ends_cached]),
        system=next((i for i, each in enumerate(prompt.messages) if each.role != "system"), len(prompt.messages)),
        stable=next((i for i, each in enumerate(prompt.messages) if _has_finds(each)), len(prompt.messages)),
        first=context.history.first if context.history is not None and context.is_reduced else "",
        at=at,
        tokens=tokens,
    )


def _has_finds(message: Message) -> bool:
    return any(isinstance(part, Text) and RELATED_OPEN in part.text for part in message.parts)


def _hash(value: object) -> bytes:
    return hashlib.blake2b(msgspec.json.encode(value), digest_size=_HASH_BYTES).digest()


def _hash_without_breakpoint(message: Message) -> bytes:
    return _hash(msgspec.structs.replace(message, cache=False) if message.cache else message)


_hash_message: Final = memoize(
    _hash_without_breakpoint, name="conversations", size=lambda args, _: content_bytes(args[0].parts)
)


def _get_cache_rule(context: Context) -> CacheRule:
    return context.inputs.model.cache or _NO_RULE
