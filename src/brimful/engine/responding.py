"""Responding: a message comes in, a context is built, a model is asked, and its answer is kept beside both."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Unpack

from brimful.core.check import shown
from brimful.core.context import Context
from brimful.counting import overflow_of
from brimful.engine.answer import Answer, AnswerStream, Said
from brimful.engine.answering import Answering, Told
from brimful.engine.asking import Asking, Turn, building_of
from brimful.engine.company import SPOKEN_BY
from brimful.engine.introduction import cast_in, greeting_of, known_user, named, names_of, speaker_of
from brimful.engine.overflow import refusal, smaller_window
from brimful.engine.writing import new_id
from brimful.errors import ContextOverflow, InvalidValue, ProviderError
from brimful.records import Content, Message, Persona, Room
from brimful.replies import Piece, Reply


class Responding(Answering):
    """Asks models, and keeps what they say."""

    async def respond(
        self,
        room: str,
        persona: str | None = None,
        message: Content | Message | None = None,
        **asking: Unpack[Asking],
    ) -> Answer:
        """Post a message, build the context for its answer, ask the model, and keep the answer in the room.

        Without a message, the room ends with what is to be answered: a question, or what tools gave back. `id` is the
        message's own; given twice, it is one message. A prompt that the provider finds too long is built again for the
        window that it told, and sent once more.
        """
        turn = await self._turn(room, persona, message, asking)
        context = await self._context(turn)
        async with self._telling(turn):
            try:
                reply = await turn.provider.send(context.request)
            except ContextOverflow as refused:
                context = await self._smaller(turn, context, refused)
                reply = await turn.provider.send(context.request)
        return await self._answered(turn, context, reply)

    def stream(
        self,
        room: str,
        persona: str | None = None,
        message: Content | Message | None = None,
        **asking: Unpack[Asking],
    ) -> AnswerStream:
        """Do what `respond` does, and give the answer piece by piece as it comes."""
        stream = AnswerStream(self._streamed(room, persona, message, asking))
        self._streams.add(stream)
        return stream

    async def greet(self, room: str, persona: str, *, user: str | None = None, which: int = 0) -> Message | None:
        """Let a persona say its greeting in a room where nobody spoke yet; None if it has none, or somebody did.

        `which` chooses one of its other greetings, from 1 on.
        """
        who = await self.store.get(Persona, persona)
        place = await self.store.get(Room, room)
        who = who and cast_in(who, place)
        if who is None or who.character is None or await self.store.history(room, limit=1):
            return None
        asker = await known_user(self.store, user or (place.user if place else None))
        greeting = greeting_of(named(who, names_of(who, asker)), which)
        if not greeting:
            return None
        by = {SPOKEN_BY: who.id}
        return await self.post(room=room, text=greeting, sender=who.called, role="assistant", metadata=by)

    # -- one turn ----------------------------------------------------------------------------------------------------

    async def _turn(self, room: str, persona: str | None, message: Content | Message | None, asking: Asking) -> Turn:
        """Settle who answers, by which model, and where that runs; and post what is to be answered."""
        begun, building = self._clock(), building_of(asking)
        at = self._moment(asking.get("now"), "now")
        persona = persona or await self._host(room)
        who = None if persona is None else await self.store.get(Persona, persona)
        model = self._model_of(asking.get("model"), who)
        provider = self._providers.find(asking.get("provider"), who, model)
        return Turn(
            room=room,
            persona=persona,
            speaker=speaker_of(who, persona),
            message=await self._posted(room, message, asking, at),
            model=await self._providers.served(model, provider),
            provider=provider,
            window=asking.get("window"),
            building=building,
            at=at,
            begun=begun,
        )

    async def _host(self, room: str) -> str | None:
        place = await self.store.get(Room, room)
        return place.persona if place else None

    async def _posted(self, room: str, message: Content | Message | None, asking: Asking, at: float) -> Message | None:
        match message:
            case None:
                return None
            case Message():
                return message if message.seq else (await self.post_many([message]))[0]
            case _:
                if not message:
                    raise InvalidValue("message", "is empty: there is nothing to answer")
                sender, id = asking.get("sender", ""), asking.get("id")
                posted = await self.post(room=room, content=message, sender=sender, id=id, at=at)
                meant = Message(id=posted.id, room=room, content=message).content  # as a store holds it
                if posted.content != meant and not posted.edited:
                    raise InvalidValue(
                        "id", f"{shown(id)} is that of a message that was deleted, or says something else"
                    )
                return posted

    async def _context(self, turn: Turn, *, window: int | None = None, notes: tuple[str, ...] = ()) -> Context:
        return await self.assemble(
            room=turn.room,
            persona=turn.persona,
            message=turn.message,
            model=turn.model,
            window=window or turn.window,
            wire=turn.provider.wire,
            route=turn.provider.route,
            notes=notes,
            now=turn.at,
            **turn.building,
        )

    @asynccontextmanager
    async def _telling(self, turn: Turn) -> AsyncGenerator[None, None]:
        """Tell the hooks if a provider does not answer."""
        try:
            yield
        except ProviderError as error:
            await self._tell(
                "failed",
                turn.room,
                model=turn.model.id,
                provider=turn.model.provider,
                route=error.route,
                error=type(error).__name__,
                status=error.status,
                seconds=max(0.0, self._clock() - turn.begun),
            )
            raise

    async def _smaller(self, turn: Turn, context: Context, refused: ContextOverflow) -> Context:
        """Learn from a refusal, and build again."""
        now = self._clock()
        seen = overflow_of(context, refused, id=new_id("obs"), route=turn.provider.route, room=turn.room, at=now)
        await self._parts.lessons.observe(seen, now=now)
        await self._tell(
            "overflowed",
            turn.room,
            context=context.id,
            model=turn.model.id,
            route=refused.route,
            window=refused.window,
        )
        window = smaller_window(context, refused)
        return await self._context(turn, window=window, notes=(refusal(context, refused),))

    async def _answered(self, turn: Turn, context: Context, reply: Reply) -> Answer:
        told = Told(
            content=_content(reply),
            sender=turn.speaker,
            model=reply.model,
            route=turn.provider.route,
            usage=reply.usage,
            seconds=self._clock() - turn.begun,
            finish=reply.finish,
        )
        response, message = await self._keep(context, told, room=turn.room, of=context.id)
        return Answer(reply=reply, context=context, response=response, message=message)

    # -- as it comes -------------------------------------------------------------------------------------------------

    async def _streamed(
        self, room: str, persona: str | None, message: Content | Message | None, asking: Asking
    ) -> AsyncGenerator[Piece | Answer, None]:
        turn = await self._turn(room, persona, message, asking)
        said = Said(await self._context(turn))
        try:
            async with self._telling(turn), aclosing(self._pieces(turn, said)) as pieces:
                async for piece in pieces:
                    yield piece
        finally:  # whoever leaves early, or is cut off, finds what was said so far in the room
            if said.broken_off:
                await asyncio.shield(self._answered(turn, said.context, said.so_far()))
        yield await self._answered(turn, said.context, said.whole())

    async def _pieces(self, turn: Turn, said: Said) -> AsyncGenerator[Piece, None]:
        try:
            async with aclosing(turn.provider.stream(said.context.request)) as pieces:
                async for piece in pieces:
                    yield said.heard(piece)
        except ContextOverflow as refused:
            if said.begun:
                raise
            said.context = await self._smaller(turn, said.context, refused)
            async with aclosing(turn.provider.stream(said.context.request)) as pieces:
                async for piece in pieces:
                    yield said.heard(piece)


def _content(reply: Reply) -> Content | None:
    """Return what goes into the room: plain text as such, since its count is kept with it; None if nothing was said."""
    return reply.parts if reply.calls else reply.text or None
