"""What a provider should find in its prompt cache: the tokens that a request begins with as the one before it did."""

from collections import OrderedDict
from itertools import takewhile
from typing import Final

import msgspec

from brimful.core.context import Context
from brimful.core.model import CacheRule
from brimful.core.prompt import Message, Prompt, Request
from brimful.core.tokens import TokenCounter
from brimful.counting import counter_for
from brimful.render import renderer_of

KEPT: Final = 512  # conversations whose last request a process keeps at hand
_NO_RULE: Final = CacheRule(minimum_tokens=0)


class LastRequests:
    """The last request of each conversation that this process sent, least recently sent first to go."""

    def __init__(self, kept: int = KEPT) -> None:
        """Keep so many."""
        self._kept = kept
        self._known: OrderedDict[tuple[str, ...], Request] = OrderedDict()

    def expect(self, context: Context, route: str) -> int:
        """Return how many tokens of a context that was sent should have been cached; remember it for the next one."""
        key = (context.inputs.origin, context.inputs.model.id, route)
        before = self._known.pop(key, None)
        self._known[key] = context.request
        if len(self._known) > self._kept:
            self._known.popitem(last=False)
        return 0 if before is None else expected_cached(before, context)


def expected_cached(before: Request, context: Context) -> int:
    """Return the tokens that a context's request shares with the one before it, whole messages from the first on.

    What is shorter than the provider's minimum is not cached; where it wants breakpoints, what lies behind the last
    shared one is not, either.
    """
    model, method = context.inputs.model, context.inputs.method
    renderer = renderer_of(context.inputs)
    shared = _shared(renderer.parse(before), renderer.parse(context.request), model.cache or _NO_RULE)
    tokens = _tokens(shared, counter_for(model, method)) if shared is not None else 0
    return tokens if tokens >= (model.cache or _NO_RULE).minimum_tokens else 0


def _shared(before: Prompt, after: Prompt, rule: CacheRule) -> Prompt | None:
    if before.tools != after.tools:
        return None
    pairs = zip(before.messages, after.messages, strict=False)
    same = [first for first, _ in takewhile(lambda pair: _bare(pair[0]) == _bare(pair[1]), pairs)]
    while rule.breakpoints and same and not same[-1].cache:
        same.pop()
    return msgspec.structs.replace(after, messages=tuple(same)) if same else None


def _bare(message: Message) -> Message:
    return msgspec.structs.replace(message, cache=False)


def _tokens(shared: Prompt, counter: TokenCounter) -> int:
    """Count a beginning without what stands only at a request's end."""
    return max(0, counter.prompt(shared).tokens - counter.request_overhead())
