"""The `remember` mode: store the conversation and build each request from its whole history."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final
from weakref import WeakValueDictionary

import msgspec

from brimful.core.budget import reduced_reserve_notice
from brimful.core.context import Context
from brimful.core.notice import Notice
from brimful.core.policy import Policy
from brimful.counting import counter_for
from brimful.engine import Engine
from brimful.engine.exchange import PreparedRequest, get_reply_content
from brimful.errors import BudgetExceeded
from brimful.records import Message, Room
from brimful.records.usage import UsageReport
from brimful.server.proxy.conversation import Conversation, assign_ids, conversation_room, parse_conversation
from brimful.server.proxy.models import ModelResolver, ResolvedModel
from brimful.server.proxy.overlap import Overlap, RoomTail, find_overlap, load_tail
from brimful.server.proxy.reasoning import reasoning_tokens, restore_steps
from brimful.server.proxy.request import ProxyRequest, ProxyResult, run_in_thread_if_large
from brimful.server.proxy.storable import check_tool_results
from brimful.server.proxy.stream import FullListener, StreamListener
from brimful.server.tenants import Tenants


class ConversationLocks:
    """A lock for each conversation, as long as somebody wants it."""

    def __init__(self) -> None:
        """Begin with nobody."""
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    def of(self, tenant: str, room: str) -> asyncio.Lock:
        """Return the lock of a conversation."""
        return self._locks.setdefault((tenant, room), asyncio.Lock())


_TAIL_MESSAGES: Final = 64  # messages of a room, beside as many as were sent, among which those are looked for
_EXTENDED_TAIL: Final = 4096  # … if none is among them: somebody may have gone back a long way


class RememberMode:
    """Stores conversations, and builds each request from all of what is stored."""

    name = "remember"
    records_first = True  # a client that has an answer may rely on it being stored

    def __init__(
        self,
        policy: Policy,
        *,
        tenants: Tenants,
        knowledge: ModelResolver,
        clock: Callable[[], float],
    ) -> None:
        self._policy = policy
        self._tenants = tenants
        self._models = knowledge
        self._clock = clock
        self._locks = ConversationLocks()

    def room(self, request: ProxyRequest) -> str:
        """Return the room of a request's conversation."""
        return conversation_room(request)

    async def prepare(self, request: ProxyRequest) -> PreparedRequest[bytes]:
        """Store the new messages of a request, and build one from the whole conversation."""
        tenant = request.caller.tenant
        engine = await self._tenants.engine(tenant)
        conversation = await run_in_thread_if_large(request, parse_conversation, request)
        model = await self._models.of(request.line, request.model, self._tenants.lessons(tenant))
        async with self._locks.of(tenant, conversation.room):
            current = await self._posted(engine, request, conversation)
            return await self._assembled(engine, request, conversation, model, current)

    async def rebuild(
        self, request: ProxyRequest, context: Context, window: int, notice: Notice
    ) -> PreparedRequest[bytes] | None:
        """Build a request again for a smaller window."""
        engine = await self._tenants.engine(request.caller.tenant)
        conversation = await run_in_thread_if_large(request, parse_conversation, request)
        self._models.cap(request.line, context.inputs.model, window)
        model = ResolvedModel(model=context.inputs.model, window=window)
        async with self._locks.of(request.caller.tenant, conversation.room):
            current = await _current_message(engine, context)  # it is stored already
            return await self._assembled(engine, request, conversation, model, current, notice)

    async def learn(self, request: ProxyRequest, report: UsageReport) -> None:
        """Store a report about a request, and calibrate with it."""
        await self._tenants.lessons(request.caller.tenant).observe(report, now=self._clock())

    def listen(self, request: ProxyRequest) -> StreamListener:
        """Listen to the whole answer."""
        return FullListener(request.line.dialect, request.line.route)

    async def record(self, request: ProxyRequest, result: ProxyResult) -> None:
        """Store the answer in its room, as far as it came."""
        engine, reply = await self._tenants.engine(request.caller.tenant), result.reply
        async with self._locks.of(request.caller.tenant, self.room(request)):
            await engine.record_response(
                result.context,
                content=None if reply is None else get_reply_content(reply),
                model=reply.model if reply else "",
                route=request.line.route,
                usage=reply.usage if reply else None,
                seconds=result.seconds,
                finish=result.finish,
            )

    # -- one request -------------------------------------------------------------------------------------------------

    async def _posted(self, engine: Engine, asked: ProxyRequest, conversation: Conversation) -> Message | None:
        """Keep what the room does not hold yet; return the words that are to be answered.

        None if tools answered: their results are at the room's end, and belong to their calls.
        """
        room, said = conversation.room, conversation.said
        tail = await load_tail(engine.store, room, len(said) + _TAIL_MESSAGES)
        overlap = await self._overlap(engine, asked, said, tail)
        if not overlap.new and len(said) > 1 and not tail.whole:
            tail = await load_tail(engine.store, room, len(said) + _EXTENDED_TAIL)
            overlap = await self._overlap(engine, asked, said, tail)
        check_tool_results(said, conversation.places, tail.messages)
        left = max([tail.left, *(message.seq for message in overlap.left)])
        new = await run_in_thread_if_large(asked, assign_ids, said[overlap.new :], room, overlap.after, left)
        if overlap.left:
            await engine.supersede([message.id for message in overlap.left])
        if overlap.after is None and await engine.store.get(Room, room) is None:
            await engine.put(Room(id=room, user=conversation.user, created=said[0].at))
        if new:
            last: Message | None = (await engine.post_many(new))[-1]
        else:
            last = overlap.after
        return last if last is not None and last.role == "user" else None

    async def _overlap(self, engine: Engine, asked: ProxyRequest, said: Sequence[Message], tail: RoomTail) -> Overlap:
        """Compare what was sent with the end of its room, which may be an answer that was broken off."""
        answers = await engine.store.responses(room=said[0].room, limit=1)
        ends = tail.messages[-1].id if tail.messages else None
        broken_off = any(each.finish == "broken-off" and each.message == ends for each in answers)
        return await run_in_thread_if_large(asked, partial(find_overlap, broken_off=broken_off), said, tail.messages)

    async def _assembled(
        self,
        engine: Engine,
        asked: ProxyRequest,
        conversation: Conversation,
        known: ResolvedModel,
        current: Message | None,
        *notices: Notice,
    ) -> PreparedRequest[bytes]:
        known, notices = _reserve_reasoning(asked, conversation, known, notices)
        build = partial(self._context, engine, asked, conversation, known, current)
        try:
            context = await build(conversation.completion, *notices)
        except BudgetExceeded:
            wanted, window = conversation.completion, known.window
            less = reduced_reserve_notice(self._policy, known.model, window=window, completion=wanted)
            if less is None:
                raise
            context = await build(None, *notices, less)
        sent = restore_steps(context.request, conversation.steps, asked.wire)
        payload = await run_in_thread_if_large(asked, msgspec.json.encode, sent)
        return PreparedRequest(payload, context)

    async def _context(
        self,
        engine: Engine,
        asked: ProxyRequest,
        conversation: Conversation,
        known: ResolvedModel,
        current: Message | None,
        completion: int | None,
        *notices: Notice,
    ) -> Context:
        return await engine.assemble(
            room=conversation.room,
            message=current,
            user=conversation.user,
            model=known.model,
            window=known.window,
            completion=completion,
            tools=conversation.tools,
            system=conversation.system,
            wire=asked.wire,
            route=asked.line.route,
            notices=notices,
            fields=asked.body,
            now=asked.at,
        )


async def _current_message(engine: Engine, context: Context) -> Message | None:
    """Return the message that a context was built to answer; None if it was built to answer tools."""
    asked = [package.id for package in context.inputs.packages if package.kind == "message-current"]
    return next(iter(await engine.store.messages(asked)), None)


def _reserve_reasoning(
    asked: ProxyRequest, conversation: Conversation, known: ResolvedModel, notices: tuple[Notice, ...]
) -> tuple[ResolvedModel, tuple[Notice, ...]]:
    """Leave room for what is sent as it came, and is no part of the context."""
    tokens = reasoning_tokens(conversation.steps, asked.wire, counter_for(known.model))
    if not tokens:
        return known, notices
    text = f"{tokens:,} tokens are reserved for the model's reasoning between tool calls"
    notice = Notice(kind="reasoning-reserve", text=text, facts={"tokens": tokens})
    return msgspec.structs.replace(known, window=max(1, known.window - tokens)), (*notices, notice)
