"""The `fit` mode: trim a request so that it fits, and store nothing but the record of the context."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import msgspec

from brimful.assembly.arguments import with_prompt_limit
from brimful.assembly.conversations import CACHE_MARK, DigestChain, TrimmedRequests, digest_chain, without_cache_marks
from brimful.assembly.fit import fit
from brimful.assembly.recall_tool import RecallCall, room_for_text
from brimful.core.budget import allocate
from brimful.core.compaction import Compaction
from brimful.core.context import Context
from brimful.core.model import UNKNOWN_PRIOR, ModelInfo
from brimful.core.notice import Notice
from brimful.core.policy import Policy
from brimful.core.recall import Recalled
from brimful.core.selection import HistoryStart
from brimful.counting import canonical_model_id, is_preloaded, preload, vocabulary_for
from brimful.engine.events import get_build_facts, log_build
from brimful.engine.exchange import PreparedRequest, ResponseDetails, ResponseRecorder, ResponseTarget
from brimful.engine.prompt_cache import LastRequests
from brimful.engine.writer import new_id
from brimful.errors import StoreError, StoreUnavailable
from brimful.policies import load_policy
from brimful.records import Response, Snapshot, Usage
from brimful.records.usage import RequestUsage, UsageReport
from brimful.server.background import BackgroundTasks, log_failure
from brimful.server.config import Config, RecordMode
from brimful.server.proxy.compactor import Compactor
from brimful.server.proxy.conversation import named_room, named_user, opening_digest, recorded_user
from brimful.server.proxy.models import ModelResolver, ResolvedModel, window_for_request
from brimful.server.proxy.recall_rounds import recall_overrides
from brimful.server.proxy.request import ProxyRequest, ProxyResult, RecordState, record_error
from brimful.server.proxy.stream import EdgeListener, StreamListener, WholeEventListener
from brimful.server.telemetry import Telemetry
from brimful.server.tenants import Tenants
from brimful.stores import Database
from brimful.stores.log.responses import LogRecord
from brimful.threads import run_in_thread
from brimful.wires import Wire
from brimful.wires.incoming import read_tools

RESPONSE_WAIT: Final = 0.25  # seconds; then a context is written without its response
BATCH_PAUSE: Final = 0.05  # seconds in which records are collected
DEFAULT_ROOM: Final = "proxy"
"""The room of requests that name no conversation."""
_FORWARD_DELAY: Final = 0.002  # seconds; the answer is forwarded first, since recording would delay it
_MAX_HASHED_AT_ONCE: Final = 1_048_576  # bytes; hashing takes a millisecond or two
_MAX_SHARED_DIGESTS: Final = 200  # the messages that a client adds between two requests
_SHARED_TIME_LIMIT: Final = 0.5  # seconds; without the start, a prompt cache may be missed, and nothing else
_MESSAGE_OVERHEAD: Final = 64  # tokens around a message at most
_TOOL_OVERHEAD: Final = 256  # … around a tool
_REQUEST_OVERHEAD: Final = 2_048  # … around a request
_SAFETY_FACTOR: Final = 1.25  # for texts that a tokenizer lengthens before it counts them
_MEDIA_MARKERS: Final = (b'"image', b"audio", b'"file', b'"document', b'"video', b'"inline')
"""Marks of content that may cost more tokens than it has bytes."""
_TEXT_FIELDS: Final = frozenset(("role", "content", "name", "tool_calls", "tool_call_id"))
"""Fields of a text-only message."""


class _Batch(msgspec.Struct, frozen=True):
    records: list[LogRecord]
    stored: asyncio.Future[None]


class _Responses(msgspec.Struct, frozen=True):
    """The responses to a context that is not yet written."""

    responses: list[Response]
    arrived: asyncio.Event


class RecordWriter:
    """Writes contexts, responses and usage reports in the background.

    A transaction takes some milliseconds in which the event loop cannot forward the first bytes of an answer. So a
    context waits for its response for a while, and all records that come within `pause` seconds are written together.
    """

    def __init__(
        self,
        tenants: Tenants,
        tasks: BackgroundTasks,
        mode: RecordMode = "all",
        *,
        wait: float = RESPONSE_WAIT,
        pause: float = BATCH_PAUSE,
    ) -> None:
        self._tenants = tenants
        self._tasks = tasks
        self.mode = mode
        self._wait = wait
        self._pause = pause
        self._waiting: dict[tuple[str, str], _Responses] = {}  # for the response, by tenant and context
        self._batches: dict[str, _Batch] = {}  # by tenant
        self._writing: set[str] = set()  # tenants; their batches are written one after the other
        self._failing: set[str] = set()  # tenants whose last records could not be written

    def is_failing(self, tenant: str) -> bool:
        """Whether the last records of a tenant could not be written."""
        return tenant in self._failing

    def is_recorded(self, context: Context) -> bool:
        """Whether a context is written at all, by the configuration."""
        match self.mode:
            case "required" | "all":
                return True
            case "trimmed":
                return context.is_reduced
            case "none":
                return False

    async def record(self, tenant: str, snapshot: Snapshot, *, is_sent: bool) -> None:
        """Write a context if it should be recorded: now if records are required, or else soon.

        If the server itself has sent it, it is written together with its response.
        """
        if not self.is_recorded(snapshot.context):
            return
        if self.mode == "required":
            await self.write_now(tenant, snapshot)
        elif is_sent:
            self.write(tenant, snapshot)
        else:
            self._tasks.start(self.add(tenant, snapshot), "recording a context")

    def write(self, tenant: str, snapshot: Snapshot) -> None:
        """Write a context soon. The first one with an id wins."""
        key = (tenant, snapshot.id)
        if key not in self._waiting:
            self._waiting[key] = _Responses([], asyncio.Event())
            self._tasks.start(self._write_with_response(tenant, snapshot), "recording a context")

    async def write_now(self, tenant: str, snapshot: Snapshot) -> None:
        """Write a context, or raise an API error."""
        if not await self._save(tenant, [snapshot]):
            raise record_error()

    async def add_response(self, tenant: str, response: Response) -> None:
        """Write the response to a context, together with it or after it."""
        waiting = self._waiting.get((tenant, response.context))
        if waiting is None:
            await self.add(tenant, response)
        else:
            waiting.responses.append(response)
            waiting.arrived.set()

    async def add(self, tenant: str, *records: LogRecord) -> None:
        """Write records soon, and wait until they are stored. Failures are logged."""
        if tenant not in self._batches:
            self._batches[tenant] = _Batch([], asyncio.get_running_loop().create_future())
        batch = self._batches[tenant]
        batch.records.extend(records)
        if tenant not in self._writing:
            self._writing.add(tenant)
            self._tasks.start(self._write_batches(tenant), "writing records")
        await asyncio.wait([batch.stored])

    def write_usage(self, tenant: str, usage: RequestUsage, route: str) -> None:
        """Record the usage of a request without a stored context in the background, and report it to telemetry."""
        self._tasks.start(self._write_usage(tenant, usage, route), "recording usage")

    async def _write_usage(self, tenant: str, usage: RequestUsage, route: str) -> None:
        facts = {"model": usage.model, "requested_model": usage.model, "route": route}
        await self._tenants.emitter(tenant).emit("billed", **facts, usage=msgspec.structs.asdict(usage.usage))
        if self.mode in ("all", "required"):
            await self.add(tenant, usage)

    async def _write_with_response(self, tenant: str, snapshot: Snapshot) -> None:
        waiting = self._waiting[tenant, snapshot.id]
        with suppress(TimeoutError):
            async with asyncio.timeout(self._wait):
                await waiting.arrived.wait()
        del self._waiting[tenant, snapshot.id]  # a later response is written separately, after the context
        await self.add(tenant, snapshot, *waiting.responses)

    async def _write_batches(self, tenant: str) -> None:
        try:
            while tenant in self._batches:
                await asyncio.sleep(self._pause)
                batch = self._batches.pop(tenant)
                await self._save(tenant, batch.records)
                batch.stored.set_result(None)
        finally:
            self._writing.discard(tenant)

    async def _save(self, tenant: str, records: Sequence[LogRecord]) -> bool:
        """Save records together. If one of them cannot be saved, the others still are."""
        try:
            await self._tenants.store(tenant).save_records(records, share=self._tenants.record_share)
        except Exception as error:  # noqa: BLE001 - the answers are sent, and only their records are at stake
            if len(records) == 1 or isinstance(error, StoreUnavailable):
                self._failing.add(tenant)
                log_failure("recording a context", error)
                return False
            return all([await self._save(tenant, [record]) for record in records])
        self._failing.discard(tenant)
        return True


class _FittedRequest(msgspec.Struct, frozen=True):
    """A request that fits. If something was left out, `chain` has the digests of its messages."""

    context: Context
    payload: bytes
    seconds: float
    chain: DigestChain = []
    summary: Compaction | None = None


class FitMode:
    """Trims requests so that they fit, and stores nothing but the record of what was left out."""

    name = "fit"
    records_first = False

    def __init__(
        self,
        config: Config,
        *,
        tenants: Tenants,
        models: ModelResolver,
        records: RecordWriter,
        tasks: BackgroundTasks,
        telemetry: Telemetry,
        shared: Database | None,
        clock: Callable[[], float],
    ) -> None:
        """Remember where trimmed requests began, also in the `shared` database of several servers."""
        self._config = config
        self._policy = load_policy(config.fit.policy or "fit")
        self._tenants = tenants
        self._models = models
        self._tasks = tasks
        self._telemetry = telemetry
        self._shared = shared
        self._clock = clock
        self._trimmed = TrimmedRequests()
        self._compactor = Compactor(config.fit, tasks, clock, self._record_summary, tenants.own_calls)
        self._requests = LastRequests()
        self._records = records

    @property
    def requires_records(self) -> bool:
        """Whether a request that cannot be recorded is refused."""
        return self._records.mode == "required"

    def record_state(self, request: ProxyRequest, context: Context | None) -> RecordState:
        """Return what is known about the record of a request, which is written after its answer."""
        if self._records.mode == "none" or (context is not None and not self._records.is_recorded(context)):
            return "stored"
        if context is None:
            return "failed"
        return "unconfirmed" if self._records.is_failing(request.client.tenant) else "stored"

    def room(self, request: ProxyRequest) -> str:
        """Return the room that the client named, or a common one."""
        return named_room(request) or DEFAULT_ROOM

    async def prepare(self, request: ProxyRequest) -> PreparedRequest[bytes]:
        """Trim a request. One that fits for sure, or may, is sent at once and counted while the upstream works."""
        named_user(request)  # refuse another user than that of the key
        model = await self._models.of(request, self._tenants.calibrator(request.client.tenant))
        is_plain = _has_messages(request) and not request.pin and not request.ties
        if is_plain and (self._passes_on(request, model) or self._surely_fits(request, model)):
            sent = asyncio.Event()
            context = asyncio.create_task(self._count_later(request, model, sent))
            if self.requires_records:
                sent.set()
                if await context is None:
                    raise record_error()
            return PreparedRequest(request.raw, context, sent.set)
        fitted = await self._fit(request, model, ())
        return PreparedRequest(fitted.payload, fitted.context)

    async def rebuild(
        self, request: ProxyRequest, context: Context, window: int, notice: Notice
    ) -> PreparedRequest[bytes] | None:
        """Trim a request again, for a smaller window or because it goes on with what the model recalled."""
        model = ResolvedModel(model=context.inputs.model, window=window)
        fitted = await self._fit(request, model, (notice,), after=context)
        unchanged = fitted.context.request == context.request
        return None if unchanged else PreparedRequest(fitted.payload, fitted.context)

    async def recall(self, request: ProxyRequest, context: Context, call: RecallCall) -> Recalled:
        """Recall something that a context left out."""
        del request
        return await run_in_thread(
            partial(context.recall, call.handle, query=call.query, max_tokens=room_for_text(call))
        )

    async def learn(self, request: ProxyRequest, report: UsageReport) -> None:
        """Learn in the background: the store may be slow or down, and the client waits."""
        self._tasks.start(self._observe(request, report), "learning from a response")

    def listen(self, request: ProxyRequest) -> StreamListener:
        """Listen for usage and finish only."""
        listener = WholeEventListener if request.wire.whole_events else EdgeListener
        return listener(request.upstream.dialect, request.upstream.route)

    async def record(self, request: ProxyRequest, result: ProxyResult) -> None:
        """Store usage and finish with the context, and learn from them."""
        await asyncio.sleep(_FORWARD_DELAY)
        tenant, context, reply = request.client.tenant, result.context, result.reply
        route, room = request.upstream.route, self.room(request)
        recorder = ResponseRecorder(
            learn=partial(self._observe, request), requests=self._requests, emit=self._telemetry.emitter(tenant).emit
        )
        details = ResponseDetails(
            model=reply.model if reply else "",
            route=route,
            usage=reply.usage if reply else None,
            seconds=result.seconds,
            finish=result.finish,
            notices=result.recalls,
            metadata={"upstream": request.upstream.config.name},  # whose route another one may share
        )
        opening = (
            opening_digest(request)
            if len(request.raw) <= _MAX_HASHED_AT_ONCE
            else await run_in_thread(opening_digest, request)
        )
        target = ResponseTarget(
            id=new_id("res"),
            at=self._clock(),
            room=room,
            context=context.id,
            conversation=(tenant, route, room, opening),
        )

        async def save(response: Response) -> Response:
            if self._records.is_recorded(context):
                self._tasks.start(self._records.add_response(tenant, response), "recording a response")
            return response

        await recorder.record(context, details, target, save)

    # -- one request -------------------------------------------------------------------------------------------------

    async def _count_later(self, request: ProxyRequest, model: ResolvedModel, sent: asyncio.Event) -> Context | None:
        """Build the record of a request once it is sent. If that fails, the answer is not affected."""
        await sent.wait()  # counting at the same time would delay the request
        try:
            fitted = await run_in_thread(self._trim, request, model, ())
        except Exception as error:  # noqa: BLE001 - the request is sent, and only its record is at stake
            log_failure("recording a request", error)
            return None
        await self._record_context(request, fitted)
        return fitted.context

    async def _fit(
        self, request: ProxyRequest, model: ResolvedModel, notices: tuple[Notice, ...], after: Context | None = None
    ) -> _FittedRequest:
        by = self._compactor.choose(request, self._policy)
        trim = partial(self._trim, request, model, notices, after)
        fitted = await run_in_thread(trim, summarize=by != "off")
        if fitted.chain and after is None and await self._continues_elsewhere(request, fitted.chain):
            fitted = await run_in_thread(trim, summarize=by != "off")
        self._remember(fitted)
        if by != "off" and fitted.context.is_reduced and not self._passes_on(request, model):
            if by == "model" and request.admission.counts_tokens:
                await (await request.reserve(fitted.context)).release()  # no model writes for a client over its limit
            name = self._config.fit.summarizer
            own = await self._find_model(request, name) if name and by == "model" else model
            summary = await self._compactor.compact(request, fitted.context, by, own.model, own.window)
            if summary is not None:
                fitted = await run_in_thread(trim, summary=summary)
                self._remember(fitted)
        if fitted.chain and self._shared is not None:
            self._tasks.start(self._share_start(request, fitted), "sharing where a request began")
        await self._record_context(request, fitted)
        return fitted

    def _remember(self, fitted: _FittedRequest) -> None:
        self._trimmed.remember(fitted.chain, fitted.context.history, fitted.summary)

    async def _continues_elsewhere(self, request: ProxyRequest, chain: DigestChain) -> bool:
        """Whether another server trimmed a later part of this conversation. Its start is remembered here, too."""
        if self._shared is None:
            return False
        earlier = chain[:-1][-_MAX_SHARED_DIGESTS:]
        try:
            async with asyncio.timeout(_SHARED_TIME_LIMIT):
                state = self._shared.shared_state(request.client.tenant)
                found = await state.find_start([digest.hex() for digest in earlier])
        except (StoreError, TimeoutError) as error:
            log_failure("looking up where a request began", error)
            return False
        if found is None or earlier.index(digest := bytes.fromhex(found[0])) <= self._trimmed.last_position(earlier):
            return False
        self._trimmed.remember([digest], msgspec.msgpack.decode(found[1], type=HistoryStart))
        return True

    async def _share_start(self, request: ProxyRequest, fitted: _FittedRequest) -> None:
        if self._shared is not None and fitted.context.history is not None:
            state = self._shared.shared_state(request.client.tenant)
            start = msgspec.msgpack.encode(fitted.context.history)
            await state.save_start(fitted.chain[-1].hex(), start, now=self._clock())

    async def _find_model(self, request: ProxyRequest, name: str) -> ResolvedModel:
        return await self._models.find(request.upstream, name, self._tenants.calibrator(request.client.tenant))

    def _trim(
        self,
        request: ProxyRequest,
        model: ResolvedModel,
        notices: tuple[Notice, ...],
        after: Context | None = None,
        *,
        summary: Compaction | None = None,
        summarize: bool = False,
    ) -> _FittedRequest:
        """Trim a request, as a continuation of the one before it, or like the context `after` which it is sent.

        It gets this summary, or to `summarize` that of the request before it.
        """
        started = self._clock()
        as_it_is = self._passes_on(request, model)
        window = "" if model.assumed else str(model.window)
        seed = (request.client.tenant, request.upstream.route, model.model.id, window)
        model = window_for_request(model, request, self._policy)
        info = model.model
        vocabulary = vocabulary_for(info, self._policy.counting)
        if vocabulary is not None and not is_preloaded(vocabulary):
            preload(vocabulary)  # counting without it costs more with every request
        if model.window < info.window:  # which bounds what documents of unknown size may count
            info = msgspec.structs.replace(info, window=model.window)
        policy = self._chosen_policy(request) if after is None else after.inputs.policy
        goes_on = after is not None and after.inputs.window == model.window
        start = after.history if after is not None and goes_on else None
        # As long as nothing was trimmed, there is no request to continue.
        chain = digest_chain(_comparable_messages(request), seed) if self._trimmed else None
        if summarize and summary is None and chain is not None:
            summary = self._trimmed.last_summary(chain)
        context = fit(
            request.body,
            wire=request.wire.name,
            model=info,
            policy=policy,
            overrides=recall_overrides(request, (policy or self._policy).recall, self._config.fit.recall),
            window=model.window,
            max_prompt_tokens=request.max_prompt_tokens,
            min_tokens=self._config.fit.min_tokens,
            pin=request.pin,
            ties=request.ties,
            previous=start or (None if chain is None else self._trimmed.last(chain)),
            compaction=summary,
            now=request.at,
            degraded=(*notices, *model.notices),
            origin=named_room(request),
        )
        if as_it_is or not context.is_reduced:
            is_lowered = context.is_output_lowered and not as_it_is
            payload = msgspec.json.encode(context.request) if is_lowered else request.raw
            return _FittedRequest(context, payload, self._clock() - started)
        chain = chain or digest_chain(_comparable_messages(request), seed)
        return _FittedRequest(context, msgspec.json.encode(context.request), self._clock() - started, chain, summary)

    def _chosen_policy(self, request: ProxyRequest) -> Policy | None:
        """Return the policy of the request, or else of the configuration; None leaves the choice to `fit`."""
        policy = self._tenants.find_policy(request.policy)
        if policy is not None:
            return load_policy(policy)
        return None if self._config.fit.policy is None else self._policy

    def _passes_on(self, request: ProxyRequest, model: ResolvedModel) -> bool:
        """Whether nobody knows a limit for the request."""
        return model.assumed and request.max_prompt_tokens is None and self._policy.total_tokens is None

    def _surely_fits(self, request: ProxyRequest, model: ResolvedModel) -> bool:
        """Whether a request fits without being counted, since no text has more tokens than bytes."""
        messages = request.messages
        if _may_hold_media(request):
            return False
        prior = model.model.prior or UNKNOWN_PRIOR
        factor = 1.0 if model.model.tokenizer else prior.factor * (1 + prior.margin)
        tools = len(read_tools(request.body, request.wire))
        overhead = _MESSAGE_OVERHEAD * len(messages) + _TOOL_OVERHEAD * tools + _REQUEST_OVERHEAD
        completion = request.wire.read_max_output(request.body)
        policy = with_prompt_limit(self._chosen_policy(request) or self._policy, request.max_prompt_tokens)
        budget = allocate(policy, model.model, window=model.window, completion=completion)
        return len(request.raw) * factor * _SAFETY_FACTOR + overhead <= budget.available

    # -- records -----------------------------------------------------------------------------------------------------

    async def _record_context(self, request: ProxyRequest, fitted: _FittedRequest) -> None:
        context, tenant, room = fitted.context, request.client.tenant, self.room(request)
        user, key = recorded_user(request), request.client.key or None
        snapshot = Snapshot(
            id=context.id,
            room=room,
            user=user,
            key=key,
            at=request.at,
            context=context,
            build_seconds=max(0.0, fitted.seconds),
        )
        await self._records.record(tenant, snapshot, is_sent=True)
        log_build(context, tenant=tenant, room=room, seconds=fitted.seconds)
        events = self._telemetry.emitter(tenant)
        if events:
            await events.emit("assembled", room, **get_build_facts(context, seconds=fitted.seconds))

    async def _observe(self, request: ProxyRequest, report: UsageReport) -> None:
        tenant = request.client.tenant
        await self._tenants.calibrator(tenant).use(report, now=self._clock())
        self._tasks.start(self._records.add(tenant, report), "recording usage")

    def _record_summary(self, request: ProxyRequest, model: ModelInfo, usage: Usage) -> None:
        report = UsageReport(
            id=new_id("obs"),
            kind="summary",
            model=canonical_model_id(model),
            route=request.upstream.route,
            room=self.room(request),
            at=self._clock(),
            reported=usage.prompt,
            cached=usage.cached,
            completion=usage.completion,
            reasoning=usage.reasoning,
        )
        self._tasks.start(self._records.add(request.client.tenant, report), "recording usage")


def _comparable_messages(request: ProxyRequest) -> Iterable[bytes]:
    """Return the messages of a request, encoded in a form that stays the same while the conversation goes on."""
    listed = request.messages
    messages = map(without_cache_marks, listed) if CACHE_MARK.encode() in request.raw else listed
    return map(msgspec.json.encode, messages)


def _has_messages(request: ProxyRequest) -> bool:
    """Whether a request is valid enough to be sent before it is read."""
    return bool(request.messages) and all(_is_message(message, request.wire) for message in request.messages)


def _is_message(value: object, wire: Wire) -> bool:
    return isinstance(value, dict) and (not wire.needs_role or isinstance(value.get("role"), str))


def _may_hold_media(request: ProxyRequest) -> bool:
    """Whether a request may contain media. Messages that are plainly text, as most are, need not be searched."""
    if all(map(_is_text_only, request.messages)):
        field = request.wire.message_field
        rest = msgspec.json.encode({key: value for key, value in request.body.items() if key != field})
    elif not all(map(request.wire.holds_content, request.messages)):
        return True
    else:
        rest = request.raw
    return any(mark in rest for mark in _MEDIA_MARKERS)


def _is_text_only(message: dict[str, Any]) -> bool:
    content = message.get("content")
    return (content is None or isinstance(content, str)) and message.keys() <= _TEXT_FIELDS
