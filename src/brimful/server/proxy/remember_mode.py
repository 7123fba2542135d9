"""The `remember` mode: store the conversation and build each request from its whole history."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final
from weakref import WeakValueDictionary

import msgspec

from brimful.assembly.recall_tool import RecallCall, room_for_text
from brimful.core.context import Context
from brimful.core.notice import Notice
from brimful.core.policy import Policy, RecallMode
from brimful.core.recall import Recalled
from brimful.core.selection import HistoryStart
from brimful.counting import counter_for
from brimful.engine import Engine
from brimful.engine.exchange import PreparedRequest, get_reply_content
from brimful.records import Message, Room
from brimful.records.usage import UsageReport
from brimful.server.access import choose_policy
from brimful.server.errors import ApiError
from brimful.server.proxy.conversation import (
    Conversation,
    assign_ids,
    conversation_room,
    get_storage,
    parse_conversation,
)
from brimful.server.proxy.models import ModelResolver, ResolvedModel, window_for_request
from brimful.server.proxy.overlap import Overlap, RoomTail, find_overlap, load_tail, name_results
from brimful.server.proxy.reasoning import reasoning_tokens, restore_steps
from brimful.server.proxy.recall_rounds import recall_overrides
from brimful.server.proxy.request import ProxyRequest, ProxyResult, RecordState
from brimful.server.proxy.storable import check_tool_results
from brimful.server.proxy.stream import FullListener, StreamListener
from brimful.server.tenants import Tenants
from brimful.threads import run_in_thread

_TAIL_MESSAGES: Final = 64  # stored messages to compare with, in addition to as many as were sent
_RESERVE: Final = "reasoning-reserve"
_EXTENDED_TAIL: Final = 4096  # if none of them matches: the client may have gone far back


class ConversationLocks:
    """Locks for conversations, each as long as it is in use."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    def of(self, tenant: str, room: str) -> asyncio.Lock:
        return self._locks.setdefault((tenant, room), asyncio.Lock())


class RememberMode:
    """Stores conversations, and builds each request from everything stored."""

    name = "remember"
    records_first = True  # a client that has an answer may rely on it being stored

    def __init__(
        self,
        policy: Policy,
        *,
        tenants: Tenants,
        models: ModelResolver,
        requires_records: bool,
        recall: RecallMode | None,
        clock: Callable[[], float],
    ) -> None:
        self._policy = policy
        self._tenants = tenants
        self._models = models
        self.requires_records = requires_records
        self._recall = recall
        self._clock = clock
        self._locks = ConversationLocks()

    def record_state(self, request: ProxyRequest, context: Context | None) -> RecordState:
        """Return that the record is stored: without it, the request would not have been sent."""
        del request, context
        return "stored"

    def room(self, request: ProxyRequest) -> str:
        """Return the room of a request's conversation."""
        return conversation_room(request)

    async def prepare(self, request: ProxyRequest) -> PreparedRequest[bytes]:
        """Store the new messages of a request, and build one from the whole conversation."""
        get_storage(request)
        tenant = request.client.tenant
        request.retrieval, request.recall  # noqa: B018 - refuse invalid headers before anything is stored
        engine = await self._tenants.engine(tenant)
        conversation = await run_in_thread(parse_conversation, request)
        model = await self._models.of(request, self._tenants.calibrator(tenant))
        model = await run_in_thread(window_for_request, model, request, self._policy)
        async with self._locks.of(tenant, conversation.room):
            await _check_owner(engine, request, conversation.room)
            current = await self._store_messages(engine, request, conversation)
            notices = (notice for notice in model.notices if notice.kind in ("unknown-window", "upstream-failed"))
            return await self._build_request(engine, request, conversation, model, current, notices=tuple(notices))

    async def rebuild(
        self, request: ProxyRequest, context: Context, window: int, notice: Notice
    ) -> PreparedRequest[bytes] | None:
        """Build a request again, for a smaller window or because it goes on with what the model recalled."""
        engine = await self._tenants.engine(request.client.tenant)
        conversation = await run_in_thread(parse_conversation, request)
        goes_on = notice.kind == "recalled"
        if goes_on:
            window += _reserved(context.inputs.degraded)
        model = ResolvedModel(model=context.inputs.model, window=window)
        previous = context.history if goes_on else None
        async with self._locks.of(request.client.tenant, conversation.room):
            current = await _current_message(engine, context)  # it is stored already
            return await self._build_request(
                engine, request, conversation, model, current, previous=previous, notices=(notice,)
            )

    async def recall(self, request: ProxyRequest, context: Context, call: RecallCall) -> Recalled:
        """Recall something that a context left out, or that is stored."""
        engine = await self._tenants.engine(request.client.tenant)
        return await engine.recall(call.handle, query=call.query, max_tokens=room_for_text(call), context=context)

    async def learn(self, request: ProxyRequest, report: UsageReport) -> None:
        """Store a report about a request, and calibrate with it."""
        await self._tenants.calibrator(request.client.tenant).add(report, now=self._clock())

    def listen(self, request: ProxyRequest) -> StreamListener:
        """Listen to the whole answer."""
        return FullListener(request.upstream.dialect, request.upstream.route)

    async def record(self, request: ProxyRequest, result: ProxyResult) -> None:
        """Store the answer in its room, as far as it came. Of rounds that others follow, only the usage is stored."""
        engine, reply = await self._tenants.engine(request.client.tenant), result.reply
        async with self._locks.of(request.client.tenant, self.room(request)):
            await engine.record_response(
                result.context,
                content=None if reply is None or result.continues else get_reply_content(reply),
                model=reply.model if reply else "",
                route=request.upstream.route,
                usage=reply.usage if reply else None,
                seconds=result.seconds,
                finish=result.finish,
                notices=result.recalls,
                metadata={"upstream": request.upstream.config.name},  # whose route another one may share
            )

    # -- one request -------------------------------------------------------------------------------------------------

    async def _store_messages(
        self, engine: Engine, request: ProxyRequest, conversation: Conversation
    ) -> Message | None:
        """Store the messages that are new in the room, and return the message to answer.

        None if the request ends with tool results.
        """
        room, messages = conversation.room, conversation.messages
        tail = await load_tail(engine.store, room, len(messages) + _TAIL_MESSAGES)
        by_name = request.wire.pairs_by_name
        overlap = await self._find_overlap(engine, messages, tail, by_name=by_name)
        if not overlap.new and len(messages) > 1 and not tail.whole:
            tail = await load_tail(engine.store, room, len(messages) + _EXTENDED_TAIL)
            overlap = await self._find_overlap(engine, messages, tail, by_name=by_name)
        new: Sequence[Message] = messages[overlap.new :]
        if by_name:
            new = await run_in_thread(name_results, new, tail.messages)
        check_tool_results(request, new, conversation.positions[overlap.new :], (*messages, *tail.messages))
        left = max([tail.left, *(message.seq for message in overlap.left)])
        new = await run_in_thread(assign_ids, new, room, overlap.after, left)
        if overlap.left:
            await engine.supersede([message.id for message in overlap.left])
        if overlap.after is None and await engine.store.get(Room, room) is None:
            await engine.put(Room(id=room, user=conversation.user, created=messages[0].at))
        if new:
            last: Message | None = (await engine.post_many(new))[-1]
        else:
            last = overlap.after
        return last if last is not None and last.role == "user" else None

    async def _find_overlap(
        self, engine: Engine, messages: Sequence[Message], tail: RoomTail, *, by_name: bool
    ) -> Overlap:
        """Compare the request with the end of its room, which may be an interrupted answer."""
        answers = await engine.store.responses(room=messages[0].room, limit=1)
        last_id = tail.messages[-1].id if tail.messages else None
        broken_off = any(each.finish == "broken-off" and each.message == last_id for each in answers)
        return await run_in_thread(
            partial(find_overlap, broken_off=broken_off, by_name=by_name), messages, tail.messages
        )

    async def _build_request(
        self,
        engine: Engine,
        request: ProxyRequest,
        conversation: Conversation,
        model: ResolvedModel,
        current: Message | None,
        *,
        previous: HistoryStart | None = None,
        notices: tuple[Notice, ...],
    ) -> PreparedRequest[bytes]:
        notices = (*notices, *await run_in_thread(_count_reasoning, conversation, model))
        context = await engine.assemble(
            room=conversation.room,
            message=current,
            user=conversation.user,
            key=request.client.key or None,
            model=model.model,
            window=model.window,
            reserve=_reserved(notices) or None,
            max_output=conversation.completion,
            max_prompt_tokens=request.max_prompt_tokens,
            tools=conversation.tools,
            system=conversation.system,
            policy=self._tenants.find_policy(choose_policy(request.client, None)),
            retrieval=request.retrieval,
            overrides=recall_overrides(request, self._policy.recall, self._recall),
            steps=conversation.recalled,
            previous=previous,
            wire=request.wire.name,
            route=request.upstream.route,
            notices=notices,
            fields={"model": request.model} | request.body,
            now=request.at,
        )
        payload = await run_in_thread(_write_payload, request, conversation, context)
        return PreparedRequest(payload, context)


def _write_payload(request: ProxyRequest, conversation: Conversation, context: Context) -> bytes:
    """Return the request as it is sent: it names the model only if the client's did."""
    written = restore_steps(context.request, request, conversation.steps, get_storage(request))
    return msgspec.json.encode({key: value for key, value in written.items() if key != "model" or key in request.body})


async def _check_owner(engine: Engine, request: ProxyRequest, room: str) -> None:
    """Reject a key that is bound to a user, if the room exists and belongs to somebody else or to nobody."""
    user = request.client.user
    known = None if user is None else await engine.store.get(Room, room)
    if known is not None and known.user != user:
        message = f"this API key is bound to the user {user!r}, and the conversation {room!r} is not theirs"
        raise ApiError("forbidden", message, code="bound_key")


async def _current_message(engine: Engine, context: Context) -> Message | None:
    """Return the message that a context was built to answer; None if it answers tool results."""
    build = await engine.store.build(context.id)
    return next(iter(await engine.store.messages([build.message] if build and build.message else [])), None)


def _count_reasoning(conversation: Conversation, model: ResolvedModel) -> tuple[Notice, ...]:
    """Return a notice about the reasoning that is sent but is not part of the context, if there is any."""
    tokens = reasoning_tokens(conversation.steps, counter_for(model.model))
    text = f"{tokens:,} tokens are reserved for the model's reasoning between tool calls"
    return (Notice(kind=_RESERVE, text=text, facts={"tokens": tokens}),) if tokens else ()


def _reserved(notices: Sequence[Notice]) -> int:
    return sum(notice.facts["tokens"] for notice in notices if notice.kind == _RESERVE)
