"""The mode `remember`: what is said is kept, and the answer is asked for with the best of all that was ever said."""

import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import msgspec

from brimful.core.budget import less_for_the_answer
from brimful.core.context import Context
from brimful.core.policy import Policy
from brimful.counting import counter_for, overflow_of
from brimful.engine import Engine
from brimful.engine.overflow import refusal, smaller_window
from brimful.errors import BudgetExceeded, ContextOverflow
from brimful.records import Content, Message, Room
from brimful.replies import Reply
from brimful.server.asked import Answered, Asked, aside
from brimful.server.carried import check_called
from brimful.server.conversation import Conversation, conversation_of, home_of, with_ids
from brimful.server.knowledge import Knowledge, Known
from brimful.server.mode import Prepared, done
from brimful.server.overlap import Overlap, find_overlap
from brimful.server.tail import Tail, tail_of
from brimful.server.tee import Listener, Tee
from brimful.server.tenants import Tenants
from brimful.server.thoughts import tokens_of, with_steps
from brimful.server.turns import Turns
from brimful.server.watching import Watch

_LOOKED_AT: Final = 64  # messages of a room, beside as many as were sent, among which those are looked for
_LOOKED_FAR: Final = 4096  # … if none is among them: somebody may have gone back a long way


class Remembering:
    """Keeps conversations."""

    name = "remember"
    waits = True  # an answer is kept before it is handed on: who has it may rely on it

    def __init__(
        self,
        policy: Policy,
        *,
        tenants: Tenants,
        knowledge: Knowledge,
        watch: Watch,
        clock: Callable[[], float],
    ) -> None:
        """Take the policy of the engines, and what is shared with the other mode."""
        self._policy = policy
        self._tenants = tenants
        self._knowledge = knowledge
        self._watch = watch
        self._clock = clock
        self._turns = Turns()

    async def prepare(self, asked: Asked) -> Prepared:
        """Keep what is new of a request, and return one with the best of all that was said in its conversation."""
        engine = await self._tenants.engine(asked.caller.tenant)
        conversation = await aside(asked, conversation_of, asked)
        known = await self._knowledge.of(asked.line, asked.model, self._tenants.lessons(asked.caller.tenant))
        async with self._turns.of(asked.caller.tenant, conversation.room):
            current = await self._posted(engine, asked, conversation)
            return await self._assembled(engine, asked, conversation, known, current)

    async def smaller(self, asked: Asked, context: Context, refused: ContextOverflow) -> Prepared | None:
        """Build it again, for the window that the upstream told."""
        engine = await self._tenants.engine(asked.caller.tenant)
        conversation = await aside(asked, conversation_of, asked)
        line, now = asked.line, self._clock()
        id = f"obs-{uuid.uuid4().hex}"
        seen = overflow_of(context, refused, id=id, route=line.route, room=conversation.room, at=now)
        await self._tenants.lessons(asked.caller.tenant).observe(seen, now=now)
        window = smaller_window(context, refused)
        await self._watch.overflowed(asked, context, refused)
        self._knowledge.cap(line, context.inputs.model, window)
        known = Known(model=context.inputs.model, window=window)
        async with self._turns.of(asked.caller.tenant, conversation.room):
            current = await _asked_in(engine, context)  # it is kept: whatever was said since, it is not said again
            return await self._assembled(engine, asked, conversation, known, current, refusal(context, refused))

    def listen(self, asked: Asked) -> Tee:
        """Listen to all of it."""
        return Listener(asked.line.dialect, asked.line.route)

    async def keep(self, asked: Asked, answered: Answered) -> None:
        """Keep the answer in its room, as far as it came."""
        engine, reply = await self._tenants.engine(asked.caller.tenant), answered.reply
        async with self._turns.of(asked.caller.tenant, home_of(asked)):
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

    async def _posted(self, engine: Engine, asked: Asked, conversation: Conversation) -> Message | None:
        """Keep what the room does not hold yet; return the words that are to be answered.

        None if tools answered: their results are at the room's end, and belong to their calls.
        """
        room, said = conversation.room, conversation.said
        tail = await tail_of(engine.store, room, len(said) + _LOOKED_AT)
        overlap = await self._overlap(engine, asked, said, tail)
        if not overlap.new and len(said) > 1 and not tail.whole:
            tail = await tail_of(engine.store, room, len(said) + _LOOKED_FAR)
            overlap = await self._overlap(engine, asked, said, tail)
        check_called(said, conversation.places, tail.messages)
        left = max([tail.left, *(message.seq for message in overlap.left)])
        new = await aside(asked, with_ids, said[overlap.new :], room, overlap.after, left)
        if overlap.left:
            await engine.supersede([message.id for message in overlap.left])
        if overlap.after is None and await engine.store.get(Room, room) is None:
            await engine.put(Room(id=room, user=conversation.user, created=said[0].at))
        if new:
            last: Message | None = (await engine.post_many(new))[-1]
        else:
            last = overlap.after
        return last if last is not None and last.role == "user" else None

    async def _overlap(self, engine: Engine, asked: Asked, said: Sequence[Message], tail: Tail) -> Overlap:
        """Compare what was sent with the end of its room, which may be an answer that was broken off."""
        answers = await engine.store.responses(room=said[0].room, limit=1)
        ends = tail.messages[-1].id if tail.messages else None
        broken_off = any(each.finish == "broken-off" and each.message == ends for each in answers)
        return await aside(asked, partial(find_overlap, broken_off=broken_off), said, tail.messages)

    async def _assembled(
        self,
        engine: Engine,
        asked: Asked,
        conversation: Conversation,
        known: Known,
        current: Message | None,
        *notes: str,
    ) -> Prepared:
        known, notes = _beside_thoughts(asked, conversation, known, notes)
        build = partial(self._context, engine, asked, conversation, known, current)
        try:
            context = await build(conversation.completion, *notes)
        except BudgetExceeded:
            wanted, window = conversation.completion, known.window
            less = less_for_the_answer(self._policy, known.model, window=window, completion=wanted)
            if less is None:
                raise
            context = await build(None, *notes, less)
        sent = with_steps(context.request, conversation.steps, asked.wire)
        payload = await aside(asked, msgspec.json.encode, sent)
        return Prepared(payload, done(context))

    async def _context(
        self,
        engine: Engine,
        asked: Asked,
        conversation: Conversation,
        known: Known,
        current: Message | None,
        completion: int | None,
        *notes: str,
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
            notes=notes,
            fields=asked.body,
            now=asked.at,
        )


async def _asked_in(engine: Engine, context: Context) -> Message | None:
    """Return the message that a context was built to answer; None if it was built to answer tools."""
    asked = [package.id for package in context.inputs.packages if package.kind == "message-current"]
    return next(iter(await engine.store.messages(asked)), None)


def _beside_thoughts(
    asked: Asked, conversation: Conversation, known: Known, notes: tuple[str, ...]
) -> tuple[Known, tuple[str, ...]]:
    """Leave room for what is sent as it came, and is no part of the context."""
    tokens = tokens_of(conversation.steps, asked.wire, counter_for(known.model))
    if not tokens:
        return known, notes
    note = f"{tokens:,} tokens are left to what the model thought between calls, which is sent again and not kept"
    return msgspec.structs.replace(known, window=max(1, known.window - tokens)), (*notes, note)


def _content(reply: Reply) -> Content | None:
    return reply.parts if reply.calls else reply.text or None
