"""The `fit` mode: trim a request so that it fits, and store nothing but the record of the context."""

import asyncio
import hashlib
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from brimful.assembly.fit import fit
from brimful.cache import LRU
from brimful.core.budget import allocate
from brimful.core.context import Context
from brimful.core.model import UNKNOWN_PRIOR
from brimful.core.notice import Notice
from brimful.core.policy import Policy
from brimful.core.selection import HistoryStart
from brimful.counting import make_observation, make_overflow_observation
from brimful.engine.events import get_build_facts, get_response_facts
from brimful.engine.exchange import describe_overflow, get_response_notices, get_smaller_window
from brimful.engine.prompt_cache import LastRequests
from brimful.errors import ContextOverflow
from brimful.records import Response, Snapshot, Usage
from brimful.records.usage import UsageReport
from brimful.render.incoming.request import requested_max_output
from brimful.server.background import BackgroundTasks, log_failure
from brimful.server.config import Config
from brimful.server.proxy.conversation import named_room, opening_digest
from brimful.server.proxy.exchange import PreparedRequest, completed_future
from brimful.server.proxy.models import ModelResolver, ResolvedModel
from brimful.server.proxy.request import ProxyRequest, ProxyResult, run_in_thread_if_large
from brimful.server.proxy.stream import EdgeListener, StreamListener
from brimful.server.telemetry import Telemetry
from brimful.server.tenants import Tenants

MAX_THREADS: Final = 16_384  # requests that are remembered, least recently used first to go

DigestChain = list[bytes]


def digest_chain(messages: Sequence[Any], seed: Sequence[str]) -> DigestChain:
    """Return a digest for each beginning of a list of messages; `seed` tells apart what must not be mixed up.

    >>> short, long = digest_chain(["a"], ["acme"]), digest_chain(["a", "b"], ["acme"])
    >>> long[0] == short[0], digest_chain(["a"], ["other"])[0] == short[0]
    (True, False)
    """
    digest = hashlib.blake2b(msgspec.json.encode(list(seed)), digest_size=16)
    chain = []
    for message in messages:
        digest.update(msgspec.json.encode(message))
        chain.append(digest.digest())
    return chain


class ThreadCache:
    """Remembers where history began in the requests that were trimmed."""

    def __init__(self, kept: int = MAX_THREADS) -> None:
        """Remember so many."""
        self._known: LRU[bytes, HistoryStart] = LRU(max_entries=kept)

    def __len__(self) -> int:
        """Return how many are remembered."""
        return len(self._known)

    def last(self, chain: DigestChain) -> HistoryStart | None:
        """Return where history began in the longest earlier request that this one goes on with."""
        for digest in reversed(chain):
            if (known := self._known.get(digest)) is not None:
                return known
        return None

    def keep(self, chain: DigestChain, previous: HistoryStart | None) -> None:
        """Remember where history began in a request."""
        if previous is None or not chain:
            return
        self._known[chain[-1]] = previous


RESPONSE_WAIT: Final = 0.25  # seconds for which a context waits for its answer before it is written without


class _PendingRecord(msgspec.Struct, frozen=True):
    answer: asyncio.Future[Response]
    written: asyncio.Task[None]


class RecordWriter:
    """Writes contexts and answers in the background."""

    def __init__(self, tenants: Tenants, tasks: BackgroundTasks, patience: float = RESPONSE_WAIT) -> None:
        """Take where they are kept, and who waits for that when the server stops."""
        self._tenants = tenants
        self._tasks = tasks
        self._patience = patience
        self._waiting: dict[tuple[str, str], _PendingRecord] = {}

    def keep(self, tenant: str, snapshot: Snapshot) -> None:
        """Keep a context, before long. The first of an id stands."""
        key = (tenant, snapshot.id)
        if key in self._waiting:
            return
        answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        written = self._tasks.start(self._write(tenant, snapshot, answer), "keeping a context")
        self._waiting[key] = _PendingRecord(answer, written)
        written.add_done_callback(lambda _: self._waiting.pop(key))

    async def answered(self, tenant: str, response: Response) -> None:
        """Keep the answer to a context: with it, or after it, for it is counted with its context."""
        waiting = self._waiting.get((tenant, response.context))
        if waiting is not None and not waiting.answer.done():
            waiting.answer.set_result(response)
            return
        if waiting is not None:
            await asyncio.wait([waiting.written])
        await self._tenants.store(tenant).save_response(response)

    async def _write(self, tenant: str, snapshot: Snapshot, answer: "asyncio.Future[Response]") -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._patience):
                await answer  # one that comes later finds it cancelled, and is written by itself
        await self._tenants.store(tenant).save_context(snapshot, None if answer.cancelled() else answer.result())


DEFAULT_ROOM: Final = "proxy"
"""Where the records of requests stand that name no conversation."""

_FORWARD_DELAY: Final = 0.002  # seconds in which an answer is handed on before work on it would hold that up
_MESSAGE_OVERHEAD: Final = 64  # tokens around a message, at the most
_TOOL_OVERHEAD: Final = 256  # … around a tool
_REQUEST_OVERHEAD: Final = 2_048  # … around a request
_SAFETY_FACTOR: Final = 1.25  # for texts that a tokenizer makes longer before it counts them
_MEDIA_MARKERS: Final = (b'"image', b"audio", b'"file', b'"document', b'"video')
"""Whatever may cost more tokens than it has bytes names itself so."""
_TEXT_FIELDS: Final = frozenset(("role", "content", "name", "tool_calls", "tool_call_id"))
"""Fields of a message that hold nothing but text, if its content does not."""


class _FittedRequest(msgspec.Struct, frozen=True):
    context: Context
    payload: bytes
    seconds: float


class FitMode:
    """Makes requests fit."""

    name = "fit"
    waits = False

    def __init__(
        self,
        config: Config,
        policy: Policy,
        *,
        tenants: Tenants,
        knowledge: ModelResolver,
        tasks: BackgroundTasks,
        watch: Telemetry,
        clock: Callable[[], float],
    ) -> None:
        """Take what is shared with the other mode."""
        self._config = config
        self._policy = policy
        self._tenants = tenants
        self._knowledge = knowledge
        self._tasks = tasks
        self._watch = watch
        self._clock = clock
        self._threads = ThreadCache()
        self._requests = LastRequests()
        self._records = RecordWriter(tenants, tasks)

    async def prepare(self, asked: ProxyRequest) -> PreparedRequest:
        """Return the request as it fits. What surely fits goes out at once, and is counted while the upstream works."""
        known = await self._knowledge.of(asked.line, asked.model, self._tenants.lessons(asked.caller.tenant))
        if self._surely_fits(asked, known):
            sent = asyncio.Event()
            return PreparedRequest(asked.raw, asyncio.ensure_future(self._counted(asked, known, sent)), sent.set)
        return await self._prepared(asked, known, ())

    async def smaller(self, asked: ProxyRequest, context: Context, refused: ContextOverflow) -> PreparedRequest | None:
        """Fit it again, for the window that the upstream told."""
        lessons, line, now = self._tenants.lessons(asked.caller.tenant), asked.line, self._clock()
        seen = make_overflow_observation(
            context, refused, id=f"obs-{uuid.uuid4().hex}", route=line.route, room=_room(asked), at=now
        )
        self._tasks.start(lessons.observe(seen, now=now), "keeping what a refusal taught")
        await self._watch.overflowed(asked, context, refused)
        window = get_smaller_window(context, refused)
        known = ResolvedModel(model=context.inputs.model, window=window)
        self._knowledge.cap(line, known.model, window)
        prepared = await self._prepared(asked, known, (describe_overflow(context, refused),))
        again = await prepared.context
        return None if again is None or again.request == context.request else prepared

    def listen(self, asked: ProxyRequest) -> StreamListener:
        """Listen for usage and finish alone."""
        return EdgeListener(asked.line.dialect, asked.line.route)

    # -- one request -------------------------------------------------------------------------------------------------

    async def _counted(self, asked: ProxyRequest, known: ResolvedModel, sent: asyncio.Event) -> Context | None:
        """Build the record of a request that is under way. If that fails, its answer is none the worse for it."""
        await sent.wait()  # to build it at the same time would hold up the request
        try:
            fitted = await asyncio.to_thread(self._fit, asked, known, ())
        except Exception as error:  # noqa: BLE001 - the request is sent, and only its record is at stake
            log_failure("recording a request", error)
            return None
        await self._fitted(asked, fitted)
        return fitted.context

    async def _prepared(
        self, asked: ProxyRequest, known: ResolvedModel, notices: tuple[Notice, ...]
    ) -> PreparedRequest:
        fitted = await run_in_thread_if_large(asked, self._fit, asked, known, notices)
        await self._fitted(asked, fitted)
        return PreparedRequest(fitted.payload, completed_future(fitted.context))

    def _fit(self, asked: ProxyRequest, known: ResolvedModel, notices: tuple[Notice, ...]) -> _FittedRequest:
        """Fit it, as a continuation of the request that it goes on with."""
        begun = self._clock()
        seed = (asked.caller.tenant, asked.line.route, known.model.id, str(known.window))
        messages = asked.body.get("messages")
        chain = digest_chain(messages, seed) if isinstance(messages, list) else []
        context = fit(
            asked.body,
            wire=asked.wire,
            model=known.model,
            policy=self._policy,
            window=known.window,
            min_tokens=self._config.fit.min_tokens,
            previous=self._threads.last(chain),
            now=asked.at,
            degraded=(*notices, *known.notices),
            origin=named_room(asked),
        )
        if is_unchanged(context):
            return _FittedRequest(context, asked.raw, self._clock() - begun)
        self._threads.keep(chain, context.history)
        return _FittedRequest(context, msgspec.json.encode(context.request), self._clock() - begun)

    def _surely_fits(self, asked: ProxyRequest, known: ResolvedModel) -> bool:
        """Say whether a request fits without being counted: no text has more tokens than bytes."""
        messages = asked.body.get("messages")
        if not messages or not isinstance(messages, list) or not all(map(_is_message, messages)):
            return False  # it is no request, which is not for the upstream to find out
        if _may_hold_media(asked, messages):
            return False
        prior = known.model.prior or UNKNOWN_PRIOR
        factor = 1.0 if known.model.tokenizer else prior.factor * (1 + prior.margin)
        around = (
            _MESSAGE_OVERHEAD * len(messages) + _TOOL_OVERHEAD * _length(asked.body.get("tools")) + _REQUEST_OVERHEAD
        )
        completion = requested_max_output(asked.body)
        budget = allocate(self._policy, known.model, window=known.window, completion=completion)
        return len(asked.raw) * factor * _SAFETY_FACTOR + around <= budget.available

    # -- records -----------------------------------------------------------------------------------------------------

    async def _fitted(self, asked: ProxyRequest, fitted: _FittedRequest) -> None:
        """Keep a context, and tell of it."""
        context, tenant = fitted.context, asked.caller.tenant
        if self._is_kept(context):
            self._records.keep(tenant, Snapshot(id=context.id, room=_room(asked), at=asked.at, context=context))
        if self._watch.hooks:
            facts = get_build_facts(context, seconds=fitted.seconds)
            await self._watch.tell("assembled", tenant, _room(asked), **facts)

    async def keep(self, asked: ProxyRequest, answered: ProxyResult) -> None:
        """Keep usage and finish beside the context, and learn from them."""
        context, reply, now = answered.context, answered.reply, self._clock()
        tenant, id = asked.caller.tenant, f"res-{uuid.uuid4().hex}"
        usage = reply.usage if reply else None
        seen = None
        await asyncio.sleep(_FORWARD_DELAY)
        if usage is not None and usage.prompt:
            seen = await asyncio.to_thread(self._observed, asked, context, usage, id, now)
            await self._tenants.lessons(tenant).observe(seen, now=now)
        response = Response(
            id=id,
            context=context.id,
            room=_room(asked),
            model=(reply.model if reply else "") or context.inputs.model.id,
            route=asked.line.route,
            at=now,
            seconds=answered.seconds,
            usage=usage,
            expected_cached=seen.expected_cached if seen else 0,
            finish=answered.finish,
            notices=get_response_notices(seen),
        )
        await self._watch.tell("responded", tenant, response.room, **get_response_facts(response, context))
        if self._is_kept(context):
            await self._records.answered(tenant, response)

    def _observed(self, asked: ProxyRequest, context: Context, usage: Usage, id: str, now: float) -> UsageReport:
        conversation = (
            asked.caller.tenant,
            asked.line.route,
            context.inputs.model.id,
            _room(asked),
            opening_digest(asked),
        )
        return make_observation(
            context,
            usage,
            route=asked.line.route,
            room=_room(asked),
            at=now,
            id=id,
            expected_cached=self._requests.expect(context, *conversation),
        )

    def _is_kept(self, context: Context) -> bool:
        match self._config.records:
            case "all":
                return True
            case "trimmed":
                return not is_unchanged(context)
            case _:
                return False


def is_unchanged(context: Context) -> bool:
    """Say whether nothing was left out of a request, and nothing cut."""
    return all(decision.outcome == "kept" for decision in context.decisions)


def _room(asked: ProxyRequest) -> str:
    return named_room(asked) or DEFAULT_ROOM


def _is_message(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("role"), str)


def _may_hold_media(asked: ProxyRequest, messages: list[dict[str, Any]]) -> bool:
    """Say whether a request may hold anything but texts. Those that are plainly texts are not searched, as most are."""
    if all(map(_is_text_only, messages)):
        around = msgspec.json.encode({key: value for key, value in asked.body.items() if key != "messages"})
    else:
        around = asked.raw
    return any(mark in around for mark in _MEDIA_MARKERS)


def _is_text_only(message: dict[str, Any]) -> bool:
    content = message.get("content")
    return (content is None or isinstance(content, str)) and message.keys() <= _TEXT_FIELDS


def _length(value: object) -> int:
    return len(value) if isinstance(value, list) else 0
