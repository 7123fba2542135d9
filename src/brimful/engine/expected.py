"""What a provider should find in its prompt cache: the tokens that a request begins with as the one before it did."""

import hashlib
from collections import OrderedDict
from typing import Final

import msgspec

from brimful.core.context import Context
from brimful.core.model import CacheRule
from brimful.core.prompt import Message, Prompt
from brimful.counting import counter_for
from brimful.render import renderer_of

KEPT: Final = 4_096  # conversations whose last request a process remembers
_NO_RULE: Final = CacheRule(minimum_tokens=0)
_OF_ALL: Final = "cache_control"  # of a whole request: Anthropic's breakpoint at the end of what can be cached


class Sent(msgspec.Struct, frozen=True):
    """A request that was sent, by digests: its tools, its messages, and which of these end a part that is cached."""

    tools: bytes
    messages: tuple[bytes, ...]
    breakpoints: tuple[bool, ...]


class LastRequests:
    """The last request of each conversation that this process sent, least recently sent first to go."""

    def __init__(self, kept: int = KEPT) -> None:
        """Remember so many."""
        self._kept = kept
        self._known: OrderedDict[tuple[str, ...], Sent] = OrderedDict()

    def expect(self, context: Context, *conversation: str) -> int:
        """Return how many tokens of a context that was sent should have been cached; remember it for the next one."""
        prompt = renderer_of(context.inputs).parse(context.request)
        sent = _sent(prompt, to_its_end=context.request.get(_OF_ALL) is not None)
        before = self._known.pop(conversation, None)
        self._known[conversation] = sent
        if len(self._known) > self._kept:
            self._known.popitem(last=False)
        return 0 if before is None else _cached(prompt, _shared(before, sent, _rule(context)), context)


def _cached(prompt: Prompt, shared: int, context: Context) -> int:
    """Count the first messages of a prompt, as many as are shared; below the minimum, nothing is cached."""
    if not shared:
        return 0
    counter = counter_for(context.inputs.model, context.inputs.method)
    beginning = msgspec.structs.replace(prompt, messages=prompt.messages[:shared])
    tokens = max(0, counter.prompt(beginning).tokens - counter.request_overhead())
    return tokens if tokens >= _rule(context).minimum_tokens else 0


def _shared(before: Sent, after: Sent, rule: CacheRule) -> int:
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


def _sent(prompt: Prompt, *, to_its_end: bool) -> Sent:
    *before, last = [message.cache for message in prompt.messages] or [False]
    return Sent(
        _digest(prompt.tools),
        tuple(_digest(_bare(message)) for message in prompt.messages),
        (*before, last or to_its_end),
    )


def _bare(message: Message) -> Message:
    return msgspec.structs.replace(message, cache=False)


def _digest(value: object) -> bytes:
    return hashlib.blake2b(msgspec.json.encode(value), digest_size=12).digest()


def _rule(context: Context) -> CacheRule:
    return context.inputs.model.cache or _NO_RULE
