"""The mode `fit`: a request is made to fit, and nothing of it is remembered but the record of what was left out."""

import asyncio
import uuid
from collections.abc import Callable
from typing import Any, Final

import msgspec

from brimful.core.budget import allocate
from brimful.core.context import Context
from brimful.core.model import UNKNOWN_PRIOR
from brimful.core.policy import Policy
from brimful.counting import observation_of, overflow_of
from brimful.engine.answering import notes_on
from brimful.engine.expected import LastRequests
from brimful.engine.facts import answer_facts, build_facts
from brimful.engine.overflow import refusal, smaller_window
from brimful.errors import ContextOverflow
from brimful.fitting import fit
from brimful.observation import Observation
from brimful.records import Response, Snapshot, Usage
from brimful.render.given.reading import completion_of
from brimful.server.asked import Answered, Asked, aside
from brimful.server.config import Config
from brimful.server.conversation import opening_of, room_of
from brimful.server.knowledge import Knowledge, Known
from brimful.server.mode import Prepared, done
from brimful.server.records import Records
from brimful.server.tasks import Tasks, log_failure
from brimful.server.tee import Ends, Tee
from brimful.server.tenants import Tenants
from brimful.server.threads import Threads, chain_of
from brimful.server.watching import Watch

ROOM: Final = "proxy"
"""Where the records of requests stand that name no conversation."""

_HEAD_START: Final = 0.002  # seconds in which an answer is handed on before work on it would hold that up
_FRAME: Final = 64  # tokens around a message, at the most
_TOOL: Final = 256  # … around a tool
_REQUEST: Final = 2_048  # … around a request
_SURE: Final = 1.25  # for texts that a tokenizer makes longer before it counts them
_MEDIA: Final = (b'"image', b"audio", b'"file', b'"document', b'"video')
"""Whatever may cost more tokens than it has bytes names itself so."""
_PLAIN: Final = frozenset(("role", "content", "name", "tool_calls", "tool_call_id"))
"""Fields of a message that hold nothing but text, if its content does not."""


class _Fitted(msgspec.Struct, frozen=True):
    context: Context
    payload: bytes
    seconds: float


class Fitting:
    """Makes requests fit."""

    name = "fit"
    waits = False

    def __init__(
        self,
        config: Config,
        policy: Policy,
        *,
        tenants: Tenants,
        knowledge: Knowledge,
        tasks: Tasks,
        watch: Watch,
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
        self._threads = Threads()
        self._requests = LastRequests()
        self._records = Records(tenants, tasks)

    async def prepare(self, asked: Asked) -> Prepared:
        """Return the request as it fits. What surely fits goes out at once, and is counted while the upstream works."""
        known = await self._knowledge.of(asked.line, asked.model, self._tenants.lessons(asked.caller.tenant))
        if self._surely_fits(asked, known):
            sent = asyncio.Event()
            return Prepared(asked.raw, asyncio.ensure_future(self._counted(asked, known, sent)), sent.set)
        return await self._prepared(asked, known, ())

    async def smaller(self, asked: Asked, context: Context, refused: ContextOverflow) -> Prepared | None:
        """Fit it again, for the window that the upstream told."""
        lessons, line, now = self._tenants.lessons(asked.caller.tenant), asked.line, self._clock()
        seen = overflow_of(context, refused, id=f"obs-{uuid.uuid4().hex}", route=line.route, room=_room(asked), at=now)
        self._tasks.start(lessons.observe(seen, now=now), "keeping what a refusal taught")
        await self._watch.overflowed(asked, context, refused)
        window = smaller_window(context, refused)
        known = Known(model=context.inputs.model, window=window)
        self._knowledge.cap(line, known.model, window)
        prepared = await self._prepared(asked, known, (refusal(context, refused),))
        again = await prepared.context
        return None if again is None or again.request == context.request else prepared

    def listen(self, asked: Asked) -> Tee:
        """Listen for usage and finish alone."""
        return Ends(asked.line.dialect, asked.line.route)

    # -- one request -------------------------------------------------------------------------------------------------

    async def _counted(self, asked: Asked, known: Known, sent: asyncio.Event) -> Context | None:
        """Build the record of a request that is under way. If that fails, its answer is none the worse for it."""
        await sent.wait()  # to build it at the same time would hold up the request
        try:
            fitted = await asyncio.to_thread(self._fit, asked, known, ())
        except Exception as error:  # noqa: BLE001 - the request is sent, and only its record is at stake
            log_failure("recording a request", error)
            return None
        await self._fitted(asked, fitted)
        return fitted.context

    async def _prepared(self, asked: Asked, known: Known, notes: tuple[str, ...]) -> Prepared:
        fitted = await aside(asked, self._fit, asked, known, notes)
        await self._fitted(asked, fitted)
        return Prepared(fitted.payload, done(fitted.context))

    def _fit(self, asked: Asked, known: Known, notes: tuple[str, ...]) -> _Fitted:
        """Fit it, as a continuation of the request that it goes on with."""
        begun = self._clock()
        seed = (asked.caller.tenant, asked.line.route, known.model.id, str(known.window))
        messages = asked.body.get("messages")
        chain = chain_of(messages, seed) if isinstance(messages, list) else []
        context = fit(
            asked.body,
            wire=asked.wire,
            model=known.model,
            policy=self._policy,
            window=known.window,
            min_tokens=self._config.fit.min_tokens,
            previous=self._threads.last(chain),
            now=asked.at,
            degraded=(*notes, *known.notes),
            origin=room_of(asked),
        )
        if is_as_it_came(context):
            return _Fitted(context, asked.raw, self._clock() - begun)
        self._threads.keep(chain, context.history)
        return _Fitted(context, msgspec.json.encode(context.request), self._clock() - begun)

    def _surely_fits(self, asked: Asked, known: Known) -> bool:
        """Say whether a request fits without being counted: no text has more tokens than bytes."""
        messages = asked.body.get("messages")
        if not messages or not isinstance(messages, list) or not all(map(_is_message, messages)):
            return False  # it is no request, which is not for the upstream to find out
        if _may_hold_media(asked, messages):
            return False
        prior = known.model.prior or UNKNOWN_PRIOR
        factor = 1.0 if known.model.tokenizer else prior.factor * (1 + prior.margin)
        around = _FRAME * len(messages) + _TOOL * _length(asked.body.get("tools")) + _REQUEST
        completion = completion_of(asked.body)
        budget = allocate(self._policy, known.model, window=known.window, completion=completion)
        return len(asked.raw) * factor * _SURE + around <= budget.available

    # -- records -----------------------------------------------------------------------------------------------------

    async def _fitted(self, asked: Asked, fitted: _Fitted) -> None:
        """Keep a context, and tell of it."""
        context, tenant = fitted.context, asked.caller.tenant
        if self._is_kept(context):
            self._records.keep(tenant, Snapshot(id=context.id, room=_room(asked), at=asked.at, context=context))
        if self._watch.hooks:
            facts = build_facts(context, seconds=fitted.seconds)
            await self._watch.tell("assembled", tenant, _room(asked), **facts)

    async def keep(self, asked: Asked, answered: Answered) -> None:
        """Keep usage and finish beside the context, and learn from them."""
        context, reply, now = answered.context, answered.reply, self._clock()
        tenant, id = asked.caller.tenant, f"res-{uuid.uuid4().hex}"
        usage = reply.usage if reply else None
        seen = None
        await asyncio.sleep(_HEAD_START)
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
            notes=notes_on(seen),
        )
        await self._watch.tell("responded", tenant, response.room, **answer_facts(response, context))
        if self._is_kept(context):
            await self._records.answered(tenant, response)

    def _observed(self, asked: Asked, context: Context, usage: Usage, id: str, now: float) -> Observation:
        conversation = (asked.caller.tenant, asked.line.route, context.inputs.model.id, _room(asked), opening_of(asked))
        return observation_of(
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
                return not is_as_it_came(context)
            case _:
                return False


def is_as_it_came(context: Context) -> bool:
    """Say whether nothing was left out of a request, and nothing cut."""
    return all(decision.outcome == "kept" for decision in context.decisions)


def _room(asked: Asked) -> str:
    return room_of(asked) or ROOM


def _is_message(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("role"), str)


def _may_hold_media(asked: Asked, messages: list[dict[str, Any]]) -> bool:
    """Say whether a request may hold anything but texts. Those that are plainly texts are not searched, as most are."""
    if all(map(_is_plain, messages)):
        around = msgspec.json.encode({key: value for key, value in asked.body.items() if key != "messages"})
    else:
        around = asked.raw
    return any(mark in around for mark in _MEDIA)


def _is_plain(message: dict[str, Any]) -> bool:
    content = message.get("content")
    return (content is None or isinstance(content, str)) and message.keys() <= _PLAIN


def _length(value: object) -> int:
    return len(value) if isinstance(value, list) else 0
