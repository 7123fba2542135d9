"""Misses of the prompt cache in a session: what was read again that could have come from the cache, and why.

What a file does not say about its requests, such as their tools, is no cause.
"""

from collections.abc import Iterable, Iterator
from decimal import Decimal

import msgspec

from brimful.core.cache_misses import ADVICE, FIVE_MINUTES, HOUR, CacheMiss, count_missed
from brimful.models import request_cost
from brimful.sessions.events import Call, Compaction, Event
from brimful.sessions.window import find_model


class Miss(msgspec.Struct, frozen=True, kw_only=True):
    """A request that read less from the cache than it could have.

    `tokens` are those that were read again, and `cost` what that cost more than reading them from the cache, in US
    dollars, if the price is known. `message` is the first message that changed, if the file says so. `idle` are the
    seconds since the request before.
    """

    turn: int
    at: float
    model: str
    cause: CacheMiss
    tokens: int
    idle: float
    cost: Decimal | None = None
    message: int | None = None

    @property
    def advice(self) -> str:
        """What would have avoided it."""
        return ADVICE[self.cause]


def find_misses(events: Iterable[Event], *, prices: bool = True) -> Iterator[Miss]:
    """Yield the misses of a session. Without any use of a cache in it, there is nothing to miss."""
    before: Call | None = None
    compacted = cached = False
    number = 0
    for event in events:
        if isinstance(event, Compaction):
            compacted = True
        elif isinstance(event, Call):
            number += 1
            cached = cached or event.read + event.written > 0
            # A shorter prompt, as after a step back, could have had no more from the cache than it has.
            most = before.prompt if before is not None else 0
            lost = count_missed(most if compacted else min(most, event.prompt), event.read) if cached else 0
            if before is not None and lost:
                lost = min(lost, event.prompt - event.read)
                yield _make_miss(number, before, event, lost, compacted=compacted, prices=prices)
            before, compacted = event, False


def _make_miss(turn: int, before: Call, call: Call, lost: int, *, compacted: bool, prices: bool) -> Miss:
    cause, idle = _find_cause(before, call, compacted=compacted), max(0.0, call.at - before.at)
    return Miss(
        turn=turn,
        at=call.at,
        model=call.model,
        cause=cause,
        tokens=lost,
        idle=idle,
        cost=_cost(call.model, lost) if prices else None,
        message=call.rewritten if cause == "messages_rewritten" else None,
    )


def _find_cause(before: Call, call: Call, *, compacted: bool) -> CacheMiss:
    idle, lasts = call.at - before.at, before.lasts or FIVE_MINUTES
    knows_all = bool(call.tools and before.tools) and call.rewritten is not None
    causes: tuple[tuple[CacheMiss, bool], ...] = (
        ("model_changed", before.model != call.model),
        ("compaction", compacted),
        ("tools_changed", bool(before.tools and call.tools) and before.tools != call.tools),
        ("system_prompt_changed", bool(before.system and call.system) and before.system != call.system),
        ("messages_rewritten", call.resumed or (call.rewritten is not None and call.rewritten >= 0)),
        ("ttl_expired_1h" if lasts >= HOUR else "ttl_expired_5m", idle > lasts),
        ("likely_server_side", knows_all),
    )
    return next((cause for cause, holds in causes if holds), "unknown")


def _cost(model: str, tokens: int) -> Decimal | None:
    """Return what tokens cost more if they are not read from the cache."""
    info = find_model(model)
    full, cached = request_cost(info, tokens), request_cost(info, tokens, cached_tokens=tokens)
    return None if full is None or cached is None else full.prompt - cached.prompt
