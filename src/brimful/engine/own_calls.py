"""Own calls: every call of a model that Brimful makes by itself goes through here, under a daily limit for each tenant.

Before a call, the most that it may cost is reserved in the store; after it, that is replaced by what was billed. So
servers, workers and restarts share one limit, which is passed by at most one call.
"""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, Final, Literal

from brimful.assembly.assemble import counter_of
from brimful.core.context import Context
from brimful.core.model import ModelInfo
from brimful.core.validation import preview
from brimful.counting import counter_for
from brimful.embedding.openai import BASE_URL, OpenAIEmbedder
from brimful.embedding.remote import MAX_BYTES, truncate_utf8
from brimful.engine.events import Emitter
from brimful.errors import InvalidValue, MissingExtra, SpendingLimitReached, StoreError
from brimful.models.costs import load_prices, request_cost, usage_cost
from brimful.protocols import Embedder, Provider, Purpose
from brimful.records import Usage
from brimful.records.own_calls import NANODOLLARS, SECONDS_PER_DAY, OwnCallKind, Reservation, SpendingLimit
from brimful.records.reply import Reply
from brimful.stores import Store
from brimful.stores.tables.own_calls import Charge
from brimful.threads import run_in_thread
from brimful.wires import find_wire

if TYPE_CHECKING:
    from brimful.protocols import Vectors

BUSY_SECONDS: Final = 60.0  # until the next try, if only reservations of calls under way reach the limit
Unit = Literal["tokens", "dollars"]
_SAMPLE: Final = 1_000  # tokens, to see whether there is a price

_log = logging.getLogger("brimful")


class _Call:
    """A call under way. `usage` is what it is billed: the most that it may cost, until more is known."""

    def __init__(self, usage: Usage) -> None:
        self.usage: Usage | None = usage


class OwnCalls:
    """The own calls of one tenant."""

    def __init__(self, store: Store, limit: SpendingLimit, *, clock: Callable[[], float], events: Emitter) -> None:
        self._store = store
        self._limit = limit
        self._clock = clock
        self._events = events
        self._logged_day = -1

    def require_price(self, model: ModelInfo, wire: str = "") -> None:
        """Raise if dollars are limited and the price of a model is not known."""
        require_price(self._limit, model, wire)

    async def send(self, kind: OwnCallKind, provider: Provider, context: Context) -> Reply:
        """Send the request of a context. Raises `SpendingLimitReached` if nothing may be spent now."""
        most = Usage(prompt=context.tokens, completion=_max_output(context, provider.wire))
        async with self._reserve(kind, context.inputs.model, provider.wire, most) as call:
            reply = await provider.send(context.request)
            call.usage = reply.usage if reply.usage and reply.usage.prompt else await _count_usage(context, reply)
            return reply

    def meter(self, embedder: Embedder | None) -> Embedder | None:
        """Return an embedder whose calls are own calls, if its server bills tokens; any other as it is."""
        model = find_billed_model(embedder)
        return embedder if embedder is None or model is None else _MeteredEmbedder(embedder, model, self)

    async def embed(self, embedder: Embedder, model: ModelInfo, texts: Sequence[str], purpose: Purpose) -> "Vectors":
        """Embed texts."""
        most = Usage(prompt=await run_in_thread(_count_texts, texts, model))
        async with self._reserve("embed", model, model.wire, most):
            return await embedder.embed(texts, purpose)

    @asynccontextmanager
    async def _reserve(self, kind: OwnCallKind, model: ModelInfo, wire: str, usage: Usage) -> AsyncIterator[_Call]:
        now = self._clock()
        most = self._charge(model, wire, usage, now)
        reservation = await self._store.reserve_own_call(kind, most, self._limit, now=now)
        if not reservation.admitted:
            raise self._refuse(reservation, now)
        call = _Call(usage)
        try:
            yield call
        except Exception as error:
            if not getattr(error, "may_be_billed", True):  # it was not sent, or refused
                call.usage = None
            raise
        finally:
            billed = Charge(calls=0) if call.usage is None else self._charge(model, wire, call.usage, now)
            await asyncio.shield(self._settle(kind, reservation.day, most, billed, model))

    async def _settle(self, kind: OwnCallKind, day: int, most: Charge, billed: Charge, model: ModelInfo) -> None:
        """Replace a reservation by what was billed. If the store fails, the reservation stays until the day ends."""
        try:
            await self._store.settle_own_call(kind, day, most, billed)
        except StoreError as error:
            _log.warning("what a call of %s cost was not saved, so all that was reserved counts: %s", model.id, error)
        if billed.calls:
            await self._events.emit(
                "called",
                kind=kind,
                model=model.id,
                prompt=billed.prompt,
                completion=billed.completion,
                dollars=None if billed.nanodollars is None else billed.nanodollars / NANODOLLARS,
                tokens_per_day=self._limit.tokens_per_day,
                dollars_per_day=self._limit.dollars_per_day,
            )

    def _charge(self, model: ModelInfo, wire: str, usage: Usage, at: float) -> Charge:
        dollars = 0 if find_wire(wire).is_free else self._find_cost(model, usage, at)
        nanodollars = None if dollars is None else round(dollars * NANODOLLARS)
        return Charge(prompt=usage.prompt, completion=usage.completion, nanodollars=nanodollars)

    def _find_cost(self, model: ModelInfo, usage: Usage, at: float) -> Decimal | None:
        self.require_price(model)
        try:
            return usage_cost(model, usage, at)
        except MissingExtra:
            return None

    def _refuse(self, found: Reservation, now: float) -> SpendingLimitReached:
        tomorrow = float((found.day + 1) * SECONDS_PER_DAY)
        unit, limit, spent, reserved = max(self._compare(found), key=_get_share)
        is_spent = spent >= limit
        until = tomorrow if is_spent else min(tomorrow, now + BUSY_SECONDS)
        error = SpendingLimitReached(unit, limit=limit, spent=spent, reserved=reserved, until=until)
        if is_spent and self._logged_day != found.day:
            self._logged_day = found.day
            _log.warning("tenant %s: %s", self._store.tenant, error)
        return error

    def _compare(self, found: Reservation) -> Iterator[tuple[Unit, float, float, float]]:
        """Yield each limit in force, with what was spent and is reserved of it."""
        tokens, nanodollars = self._limit.tokens_per_day, self._limit.nanodollars_per_day
        if tokens is not None:
            yield "tokens", tokens, found.tokens, found.reserved_tokens
        if nanodollars is not None:
            dollars = (nanodollars, found.nanodollars, found.reserved_nanodollars)
            limit, spent, reserved = (each / NANODOLLARS for each in dollars)
            yield "dollars", limit, spent, reserved


class _MeteredEmbedder:
    """An embedder whose calls are a tenant's own calls."""

    def __init__(self, embedder: Embedder, model: ModelInfo, own_calls: OwnCalls) -> None:
        self._embedder = embedder
        self._model = model
        self._own_calls = own_calls

    @property
    def id(self) -> str:
        return self._embedder.id

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> "Vectors":
        return await self._own_calls.embed(self._embedder, self._model, texts, purpose)

    async def close(self) -> None:
        await self._embedder.close()


def _get_share(compared: tuple[Unit, float, float, float]) -> float:
    """Return the share of a limit that is spent or reserved."""
    _, limit, spent, reserved = compared
    return (spent + reserved) / limit if limit else math.inf


def require_price(limit: SpendingLimit, model: ModelInfo, wire: str = "") -> None:
    """Raise if dollars are limited and the price of a model is not known."""
    if limit.dollars_per_day is None or any(find_wire(each).is_free for each in {wire or model.wire, model.wire}):
        return
    if request_cost(model, _SAMPLE, _SAMPLE) is None:
        reason = f"the price of {preview(model.id)} is not known, so its dollars cannot be limited"
        raise InvalidValue("own_calls.dollars_per_day", f"{reason}; set own_calls.tokens_per_day instead")


def check_prices(limit: SpendingLimit, *models: ModelInfo | None) -> None:
    """Raise if dollars are limited and there is no price list, or the price of one of these models is not known."""
    if limit.dollars_per_day is not None:
        load_prices()
    for model in models:
        if model is not None:
            require_price(limit, model)


def find_billed_model(embedder: Embedder | None) -> ModelInfo | None:
    """Return the model of an embedder whose server bills tokens; None for all others."""
    if not isinstance(embedder, OpenAIEmbedder) or not embedder.bills_tokens:
        return None
    maker = "openai" if embedder.url.startswith(BASE_URL) else "unknown"
    return ModelInfo(
        id=embedder.model, provider=maker, window=MAX_BYTES, max_output=1, wire="openai", tokenizer="cl100k_base"
    )


def _max_output(context: Context, wire: str) -> int:
    """Return the length of the longest answer that a request allows."""
    return find_wire(wire).read_max_output(context.request) or context.inputs.model.max_output


async def _count_usage(context: Context, reply: Reply) -> Usage:
    """Return our own count of a request and its answer, whose usage was not reported."""
    parts = [reply.text, *(f"{call.name} {call.arguments}" for call in reply.calls)]
    counter = counter_of(context)
    counts = await run_in_thread(counter.texts, [part for part in parts if part])
    return Usage(prompt=context.tokens, completion=sum(count.upper for count in counts))


def _count_texts(texts: Sequence[str], model: ModelInfo) -> int:
    sent = [truncate_utf8(text, MAX_BYTES) for text in texts]
    return sum(count.upper for count in counter_for(model, "hybrid").texts(sent))
