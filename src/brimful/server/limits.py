"""Limits of what API keys and users may use of models in a minute, a day and a month.

A request is counted when it comes in. Before it is sent, its prompt and the answer that it allows are reserved; after
it, what the provider billed takes their place. The sums are in the store, so servers and restarts share them. Nothing
is stored for requests without limits.
"""

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, Literal

import msgspec

from brimful.cache import LRU
from brimful.core.model import ModelInfo
from brimful.core.policy import Completion
from brimful.core.prompt import Request
from brimful.core.validation import preview
from brimful.counting import counter_for
from brimful.errors import BrimfulError, MissingExtra, ProviderError, StoreError
from brimful.models.costs import load_prices, usage_cost
from brimful.protocols import Provider
from brimful.records import Usage
from brimful.records.limits import Amount, Ceiling, LimitedKind, LimitName, PeriodUsage, UsageLimits
from brimful.records.own_calls import NANODOLLARS
from brimful.records.reply import Reply, ReplyChunk
from brimful.server.access import Client, list_fallbacks
from brimful.server.background import BackgroundTasks, log_failure
from brimful.server.errors import ApiError
from brimful.stores import Database
from brimful.stores.admin.limits import LimitExceededError
from brimful.threads import run_in_thread
from brimful.wires import Wire, find_wire
from brimful.wires.incoming import read_incoming

LOOKUP_SECONDS: Final = 5.0  # until limits are looked up again
_STALE_SECONDS: Final = 60.0  # from here on, a request waits for that
_MAX_LOOKUPS: Final = 100_000  # tenants, keys and users
_ANSWER_TOKENS: Final = Completion().tokens  # if a request does not say how long its answer may be
UNKNOWN_PRICE: Final = "unknown_price"
"""The code of the error for a model without a known price, where dollars are limited."""

_Key = tuple[str, str, str]
_OwnLimits = Mapping[LimitName, float | None]


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """A key or a user, and its limits."""

    kind: LimitedKind
    name: str
    limits: UsageLimits


class Reservation:
    """What a request under way may use, until it is known what it used."""

    def __init__(
        self, admission: "Admission", ceilings: tuple[Ceiling, ...], amount: Amount, pricing: "Pricing | None"
    ) -> None:
        self._admission = admission
        self._ceilings = ceilings
        self._amount = amount
        self._pricing = pricing

    async def settle(self, usage: Usage | None, *, is_complete: bool) -> None:
        """Replace the reservation by what was billed. Without a report, or after a cut, at least all of it counts."""
        reserved = billed = self._amount
        if usage is not None and self._pricing is not None and (usage.prompt or usage.completion):
            billed = self._pricing.amount(usage) or reserved
        if not is_complete:
            billed = Amount(
                tokens=max(billed.tokens, reserved.tokens), nanodollars=max(billed.nanodollars, reserved.nanodollars)
            )
        await self._replace(billed)

    async def release(self) -> None:
        """Take the reservation back: the request was not billed."""
        await self._replace(Amount())

    async def _replace(self, billed: Amount) -> None:
        ceilings, self._ceilings = self._ceilings, ()
        await self._admission.settle(ceilings, self._amount, billed)


class Pricing(msgspec.Struct, frozen=True, kw_only=True):
    """The model of a request, in the wire format of its provider, and the time of its prices."""

    model: ModelInfo
    at: float
    in_dollars: bool

    def amount(self, usage: Usage) -> Amount | None:
        """Return what a usage costs; None if dollars count and the price is not known."""
        nanodollars = self._nanodollars(usage) if self.in_dollars else 0
        if nanodollars is None:
            return None
        return Amount(tokens=usage.prompt + usage.completion, nanodollars=nanodollars)

    def _nanodollars(self, usage: Usage) -> int | None:
        if find_wire(self.model.wire).is_free:
            return 0
        try:
            dollars: Decimal | None = usage_cost(self.model, usage, self.at)
        except MissingExtra:
            return None
        return None if dollars is None else math.ceil(dollars * NANODOLLARS)


class Admission:
    """A request of a client that was let in under the limits of its key and its user."""

    def __init__(self, limiter: "Limiter | None", tenant: str, subjects: tuple[Subject, ...]) -> None:
        self._limiter = limiter
        self._tenant = tenant
        self._subjects = subjects
        self._sums: dict[tuple[str, str], tuple[Ceiling, PeriodUsage]] = {}
        self._counted: tuple[Ceiling, ...] = ()

    @property
    def counts_tokens(self) -> bool:
        """Whether tokens or dollars are limited, so that a request has to be counted before it is sent."""
        limits = (msgspec.structs.asdict(each.limits) for each in self._subjects)
        return any(value is not None for each in limits for name, value in each.items() if "requests" not in name)

    @property
    def _counts_dollars(self) -> bool:
        limits = (each.limits for each in self._subjects)
        return any(each.dollars_per_day is not None or each.dollars_per_month is not None for each in limits)

    def require_one_price(self, body: Mapping[str, Any]) -> None:
        """Reject a request that any of several models may answer, if dollars are limited: nobody knows which one."""
        if self._counts_dollars and (models := list_fallbacks(body)):
            raise _unknown_price(", ".join(models))

    async def count_request(self) -> None:
        """Count the request, if requests are limited."""
        amount = Amount(requests=1)
        self._counted = await self._reserve(lambda each: each.requests is not None, amount)

    async def cancel(self) -> None:
        """Take the request back: it failed."""
        counted, self._counted = self._counted, ()
        await self.settle(counted, Amount(requests=1), Amount())

    async def reserve(self, model: ModelInfo, *, prompt: int, completion: int) -> Reservation:
        """Reserve what a request may use before it is sent; reject it if that is too much."""
        now = 0.0 if self._limiter is None else self._limiter.now
        pricing = Pricing(model=model, at=now, in_dollars=self._counts_dollars)
        amount = pricing.amount(Usage(prompt=prompt, completion=completion))
        if amount is None:
            raise _unknown_price(model.id)
        ceilings = await self._reserve(lambda each: each.tokens is not None or each.nanodollars is not None, amount)
        return Reservation(self, ceilings, amount, pricing)

    def hold(self, provider: Provider, model: ModelInfo) -> Provider:
        """Return a provider whose requests are held to the limits."""
        return LimitedProvider(provider, model, self) if self.counts_tokens else provider

    async def settle(self, ceilings: tuple[Ceiling, ...], reserved: Amount, billed: Amount) -> None:
        """Replace what was reserved. If the store fails, all of it counts."""
        if self._limiter is not None and ceilings:
            await self._limiter.settle(self._tenant, ceilings, reserved, billed)

    def headers(self) -> dict[str, str]:
        """Return the headers of the answer that tell what is left of the minute, as OpenAI's servers do."""
        headers: dict[str, str] = {}
        if self._limiter is None:
            return headers
        units: tuple[Literal["requests", "tokens"], ...] = ("requests", "tokens")
        for unit in units:
            left = [
                (limit - getattr(used, unit), limit, ceiling.end)
                for ceiling, used in self._sums.values()
                if ceiling.period == "minute" and (limit := getattr(ceiling, unit)) is not None
            ]
            if left:
                remaining, limit, end = min(left)
                headers |= {
                    f"x-ratelimit-limit-{unit}": str(limit),
                    f"x-ratelimit-remaining-{unit}": str(max(0, remaining)),
                    f"x-ratelimit-reset-{unit}": f"{max(0, math.ceil(end - self._limiter.now))}s",
                }
        return headers

    async def _reserve(self, applies: Callable[[Ceiling], bool], amount: Amount) -> tuple[Ceiling, ...]:
        if self._limiter is None:
            return ()
        now = self._limiter.now
        ceilings = tuple(
            ceiling
            for each in self._subjects
            for ceiling in each.limits.ceilings(each.kind, each.name, now)
            if applies(ceiling)
        )
        for ceiling, used in await self._limiter.reserve(self._tenant, ceilings, amount, now):
            self._sums[ceiling.kind, ceiling.period] = (ceiling, used)
        return ceilings


UNLIMITED: Final = Admission(None, "", ())
"""The admission of a request to which no limit applies."""


UNRESERVED: Final = Reservation(UNLIMITED, (), Amount(), None)
"""The reservation of a request whose tokens are not limited."""


class KnownLimits:
    """What was found in the store, and when: which tenants have limits of single keys and users, and those limits.

    It outlives a reload of the configuration.
    """

    def __init__(self) -> None:
        self.tenants: LRU[str, tuple[bool, float]] = LRU(max_entries=_MAX_LOOKUPS)
        self.own: LRU[_Key, tuple[_OwnLimits, float]] = LRU(max_entries=_MAX_LOOKUPS)


class Limiter:
    """Finds the limits of keys and users, and holds requests to them.

    `keys` and `users` are the limits of those that have none of their own.
    """

    def __init__(
        self,
        database: Database,
        *,
        keys: UsageLimits,
        users: UsageLimits,
        known: KnownLimits,
        tasks: BackgroundTasks,
        clock: Callable[[], float],
    ) -> None:
        self._database = database
        self._known = known
        self.defaults: Mapping[LimitedKind, UsageLimits] = {"key": keys, "user": users}
        self._tasks = tasks
        self._clock = clock

    @property
    def now(self) -> float:
        return self._clock()

    @asynccontextmanager
    async def admit(self, client: Client, user: str | None) -> AsyncIterator[Admission]:
        """Count a request, or reject it. If it fails, it is not counted."""
        subjects = await self._find_subjects(client, user)
        if not subjects:
            yield UNLIMITED
            return
        admission = Admission(self, client.tenant, subjects)
        await admission.count_request()
        try:
            yield admission
        except (BrimfulError, ApiError):
            await admission.cancel()
            raise

    async def reserve(
        self, tenant: str, ceilings: tuple[Ceiling, ...], amount: Amount, now: float
    ) -> list[tuple[Ceiling, PeriodUsage]]:
        """Reserve an amount under some limits, and return what is used of each; reject what does not fit."""
        if not ceilings:
            return []
        try:
            return await self._database.limits(tenant).reserve(ceilings, amount)
        except LimitExceededError as error:
            raise _refuse(error, amount, now) from None

    async def settle(self, tenant: str, ceilings: tuple[Ceiling, ...], reserved: Amount, billed: Amount) -> None:
        """Replace what was reserved. If the store fails, all of it counts."""
        try:
            await self._database.limits(tenant).settle(ceilings, reserved, billed)
        except StoreError as error:
            log_failure("settling what a request used of its limits", error)

    async def _find_subjects(self, client: Client, user: str | None) -> tuple[Subject, ...]:
        has_own = await self._has_own(client)
        names: list[tuple[LimitedKind, str]] = [("key", client.key)]
        if user:
            names.append(("user", user))
        found = []
        for kind, name in names:
            limits = self.defaults[kind]
            if has_own:
                limits = limits.overridden(await self._find_own(client.tenant, kind, name))
            if limits:
                found.append(Subject(kind=kind, name=name, limits=limits))
        return tuple(found)

    async def _has_own(self, client: Client) -> bool:
        """Return whether limits were set for a key or a user. Requests go on meanwhile, unless it is long ago."""
        tenant, now = client.tenant, self._clock()
        known = self._known.tenants.get(tenant)
        if known is None:  # with API keys, all requests need the store
            return await self._look_up(tenant, default=None if client.key else False)
        value, at = known
        if 0 <= now - at < LOOKUP_SECONDS:
            return value
        if not 0 <= now - at < _STALE_SECONDS:
            return await self._look_up(tenant, default=value)
        self._known.tenants[tenant] = (value, now)
        self._tasks.start(self._look_up(tenant, default=value), "looking up limits")
        return value

    async def _look_up(self, tenant: str, *, default: bool | None) -> bool:
        """Return whether limits were set, or the default if the store fails. Without a default, that is an error."""
        try:
            value = await self._database.limits(tenant).has_own()
        except StoreError as error:
            if default is None:
                raise
            log_failure("looking up limits", error)
            value = default
        self._known.tenants[tenant] = (value, self._clock())
        return value

    async def _find_own(self, tenant: str, kind: LimitedKind, name: str) -> _OwnLimits:
        now = self._clock()
        cached = self._known.own.get((tenant, kind, name))
        if cached is not None and 0 <= now - cached[1] < LOOKUP_SECONDS:
            return cached[0]
        limits = await self._database.limits(tenant).find(kind, name)
        self._known.own[tenant, kind, name] = (limits, now)
        return limits


def check_prices(*limits: UsageLimits) -> None:
    """Raise if dollars are limited and there is no price list."""
    if any(each.dollars_per_day is not None or each.dollars_per_month is not None for each in limits):
        load_prices()


RequestKind = Literal["conversation", "completion", "other"]
"""What a request is for: an answer in a conversation, the continuation of a text, or something without a text."""


def estimate_usage(
    body: Mapping[str, Any], raw: bytes, wire: Wire, model: ModelInfo, kind: RequestKind = "conversation"
) -> Usage:
    """Return what a request of a client may use. What is not a conversation has at most the tokens of its JSON."""
    counter = counter_for(model)
    answer, answers = wire.read_max_output(dict(body)), wire.count_answers(dict(body))
    if kind == "conversation" and wire.message_field in body:
        prompt = counter.prompt(read_incoming(body, wire.name).prompt).upper
    else:
        prompt = counter.text(raw.decode("utf-8", "replace")).upper
    default = 0 if kind == "other" else min(_ANSWER_TOKENS, model.max_output)
    return Usage(prompt=prompt, completion=answers * (answer or default))


class LimitedProvider:
    """A provider whose requests are held to limits."""

    def __init__(self, provider: Provider, model: ModelInfo, admission: Admission) -> None:
        self._provider = provider
        self._model = msgspec.structs.replace(model, wire=find_wire(provider.wire).provider)
        self._admission = admission

    @property
    def route(self) -> str:
        return self._provider.route

    @property
    def wire(self) -> str:
        return self._provider.wire

    async def send(self, request: Request) -> Reply:
        """Return the complete reply."""
        reservation = await self._reserve(request)
        async with released_on_failure(reservation):
            reply = await self._provider.send(request)
        await reservation.settle(reply.usage, is_complete=True)
        return reply

    async def stream(self, request: Request) -> AsyncGenerator[ReplyChunk, None]:
        """Yield the reply in chunks."""
        reservation = await self._reserve(request)
        usage = None
        try:
            async with released_on_failure(reservation), aclosing(self._provider.stream(request)) as chunks:
                async for chunk in chunks:
                    usage = chunk.reply.usage if chunk.reply else usage
                    yield chunk
        finally:
            await reservation.settle(usage, is_complete=True)

    async def count(self, request: Request) -> int | None:
        """Return the server's token count of a prompt; None if it cannot count."""
        return await self._provider.count(request)

    async def close(self) -> None:
        """Close all connections."""
        await self._provider.close()

    async def _reserve(self, request: Request) -> Reservation:
        wire = find_wire(self._provider.wire)
        usage = await run_in_thread(estimate_usage, request, b"", wire, self._model)
        return await self._admission.reserve(self._model, prompt=usage.prompt, completion=usage.completion)


@asynccontextmanager
async def released_on_failure(reservation: Reservation) -> AsyncIterator[None]:
    """Release a reservation if the request fails and was not billed."""
    try:
        yield
    except (BrimfulError, ApiError) as error:
        if isinstance(error, ProviderError) and error.may_be_billed:
            await reservation.settle(None, is_complete=False)
        else:
            await reservation.release()
        raise
    except asyncio.CancelledError:  # the client has left, and the provider may go on
        await asyncio.shield(reservation.settle(None, is_complete=False))
        raise


def _refuse(error: LimitExceededError, amount: Amount, now: float) -> ApiError:
    """Return the error for a request that does not fit into a limit."""
    ceiling = error.ceiling
    name = f"{ceiling.kind}_{error.unit}_per_{ceiling.period}"
    limit, needed, spent, reserved = _numbers(error, amount)
    rule = f"{_describe(ceiling)} may use {limit} per {ceiling.period}"
    so_far = f"{rule}; used so far: {spent}" + (f", and reserved by requests under way: {reserved}" if reserved else "")
    end = datetime.fromtimestamp(ceiling.end, UTC)
    if ceiling.period != "minute":
        ends = f"The {ceiling.period} ends at {end:%Y-%m-%d %H:%M} UTC"
        message = f"spending limit: {so_far}; this request may need {needed}. {ends}"
        return ApiError("spending_limit", message, limit=name)
    if ceiling.find_exceeded(Amount(), amount) is not None:  # it would wait forever
        message = f"{rule}, and this request may need {needed}: shorten it, or let its answer be shorter"
        return ApiError("too_large", message, code="limit_too_small", limit=name)
    left = max(1, math.ceil(ceiling.end - now))
    message = f"rate limit: {so_far}. The next minute begins at {end:%H:%M} UTC, in {left} seconds"
    return ApiError("rate_limited", message, retry_after=left, limit=name)


def _numbers(error: LimitExceededError, amount: Amount) -> tuple[str, str, str, str]:
    """Return the limit, what a request needs, what was used, and what is reserved, as text."""
    ceiling, used = error.ceiling, error.used
    match error.unit:
        case "requests":
            return _count(ceiling.requests or 0, "request"), "1", f"{used.requests:,}", ""
        case "tokens":
            spent, reserved = used.tokens - used.reserved_tokens, used.reserved_tokens
            limit = _count(ceiling.tokens or 0, "token")
            return limit, f"{amount.tokens:,}", f"{spent:,}", f"{reserved:,}" if reserved else ""
        case "dollars":
            reserved = used.reserved_nanodollars
            return (
                _dollars(ceiling.nanodollars or 0),
                _dollars(amount.nanodollars),
                _dollars(used.nanodollars - reserved),
                _dollars(reserved) if reserved else "",
            )


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _dollars(nanodollars: int) -> str:
    """Return an amount with cents, or more digits if it is small.

    >>> _dollars(5_000_000_000), _dollars(1_234_000), _dollars(0)
    ('$5.00', '$0.001234', '$0.00')
    """
    dollars = nanodollars / NANODOLLARS
    return f"${dollars:,.2f}" if not nanodollars or dollars >= 1 else f"${dollars:.9f}".rstrip("0").ljust(5, "0")


def _describe(ceiling: Ceiling) -> str:
    if ceiling.kind == "user":
        return f"the user {preview(ceiling.name)}"
    return f"the API key {ceiling.name}" if ceiling.name else "this server"


def _unknown_price(model: str) -> ApiError:
    message = (
        f"the price of {preview(model)} is not known, so a limit in dollars cannot be kept: choose another model, or "
        "ask for a limit in tokens"
    )
    return ApiError("forbidden", message, code=UNKNOWN_PRICE, param="model")


def uncountable() -> ApiError:
    """Return the error for a request whose cost nobody knows, under a limit in tokens or dollars."""
    message = (
        "what this request costs cannot be counted, and your use of tokens or dollars is limited: files, batches, "
        "audio and the like need a key and a user without such a limit"
    )
    return ApiError("forbidden", message, code="not_countable")
