"""The `remember` mode: store the conversation and build each request from its whole history."""

import asyncio
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final
from weakref import WeakValueDictionary

import msgspec

from brimful.core.budget import reduced_reserve_notice
from brimful.core.context import Context
from brimful.core.notice import Notice
from brimful.core.policy import Policy
from brimful.counting import counter_for, make_overflow_observation
from brimful.engine import Engine
from brimful.engine.exchange import describe_overflow, get_smaller_window
from brimful.errors import BudgetExceeded, ContextOverflow
from brimful.records import Content, Message, Room
from brimful.records.reply import Reply
from brimful.server.proxy.conversation import Conversation, assign_ids, conversation_room, parse_conversation
from brimful.server.proxy.exchange import PreparedRequest, completed_future
from brimful.server.proxy.models import ModelResolver, ResolvedModel
from brimful.server.proxy.overlap import Overlap, RoomTail, find_overlap, load_tail
from brimful.server.proxy.reasoning import reasoning_tokens, restore_steps
from brimful.server.proxy.request import ProxyRequest, ProxyResult, run_in_thread_if_large
from brimful.server.proxy.storable import check_tool_results
from brimful.server.proxy.stream import FullListener, StreamListener
from brimful.server.telemetry import Telemetry
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
    """Keeps conversations."""

    name = "remember"
    waits = True  # an answer is kept before it is handed on: who has it may rely on it

    def __init__(
        self,
        policy: Policy,
        *,
        tenants: Tenants,
        knowledge: ModelResolver,
        watch: Telemetry,
        clock: Callable[[], float],
    ) -> None:
        """Take the policy of the engines, and what is shared with the other mode."""
        self._policy = policy
        self._tenants = tenants
        self._knowledge = knowledge
        self._watch = watch
        self._clock = clock
        self._turns = ConversationLocks()

    async def prepare(self, asked: ProxyRequest) -> PreparedRequest:
        """Keep what is new of a request, and return one with the best of all that was said in its conversation."""
        engine = await self._tenants.engine(asked.caller.tenant)
        conversation = await run_in_thread_if_large(asked, parse_conversation, asked)
        known = await self._knowledge.of(asked.line, asked.model, self._tenants.lessons(asked.caller.tenant))
        async with self._turns.of(asked.caller.tenant, conversation.room):
            current = await self._posted(engine, asked, conversation)
            return await self._assembled(engine, asked, conversation, known, current)

    async def smaller(self, asked: ProxyRequest, context: Context, refused: ContextOverflow) -> PreparedRequest | None:
        """Build it again, for the window that the upstream told."""
        engine = await self._tenants.engine(asked.caller.tenant)
        conversation = await run_in_thread_if_large(asked, parse_conversation, asked)
        line, now = asked.line, self._clock()
        id = f"obs-{uuid.uuid4().hex}"
        seen = make_overflow_observation(context, refused, id=id, route=line.route, room=conversation.room, at=now)
        await self._tenants.lessons(asked.caller.tenant).observe(seen, now=now)
        window = get_smaller_window(context, refused)
        await self._watch.overflowed(asked, context, refused)
        self._knowledge.cap(line, context.inputs.model, window)
        known = ResolvedModel(model=context.inputs.model, window=window)
        async with self._turns.of(asked.caller.tenant, conversation.room):
            current = await _current_message(
                engine, context
            )  # it is kept: whatever was said since, it is not said again
            return await self._assembled(
                engine, asked, conversation, known, current, describe_overflow(context, refused)
            )

    def listen(self, asked: ProxyRequest) -> StreamListener:
        """Listen to all of it."""
        return FullListener(asked.line.dialect, asked.line.route)

    async def keep(self, asked: ProxyRequest, answered: ProxyResult) -> None:
        """Keep the answer in its room, as far as it came."""
        engine, reply = await self._tenants.engine(asked.caller.tenant), answered.reply
        async with self._turns.of(asked.caller.tenant, conversation_room(asked)):
            await engine.record_response(
                answered.context,
                content=None if reply is None else _content(reply),
                model=reply.model if reply else "",
                route=asked.line.route,
                usage=reply.usage if reply else None,
                seconds=answered.seconds,
                finish=answered.finish,
                id=f"res-{uuid.uuid4().hex}",
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
    ) -> PreparedRequest:
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
        return PreparedRequest(payload, completed_future(context))

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
    note = Notice(kind="reasoning-reserve", text=text, facts={"tokens": tokens})
    return msgspec.structs.replace(known, window=max(1, known.window - tokens)), (*notices, note)


def _content(reply: Reply) -> Content | None:
    return reply.parts if reply.calls else reply.text or None
