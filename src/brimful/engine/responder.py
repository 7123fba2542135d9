"""Answer a message: post it, build a context, send that to a provider, and record the answer in the room."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from datetime import datetime
from itertools import takewhile
from types import TracebackType
from typing import Any, Final, Self, Unpack
from weakref import WeakSet

import msgspec

from brimful.assembly.arguments import resolve_notices
from brimful.assembly.messages import read_content
from brimful.core.content import Text, ToolCall
from brimful.core.context import Context
from brimful.core.model import ModelInfo
from brimful.core.notice import Notice
from brimful.core.prompt import Request
from brimful.core.validation import preview
from brimful.engine.builder import Builder
from brimful.engine.calibration import Calibrator, get_default_route
from brimful.engine.events import Emitter
from brimful.engine.exchange import (
    Exchange,
    PreparedRequest,
    ResponseDetails,
    ResponseRecorder,
    ResponseTarget,
    get_reply_content,
)
from brimful.engine.mentions import find_addressees
from brimful.engine.options import (
    BuildRequest,
    EngineSettings,
    RespondOptions,
    ResponseOptions,
    check_options,
    get_context_id,
    parse_usage,
    require_string,
)
from brimful.engine.personas import (
    apply_room_character,
    fill_persona_names,
    get_greeting,
    get_speaker_name,
    get_user,
    make_name_filler,
)
from brimful.engine.prompt_cache import LastRequests
from brimful.engine.provider_pool import ProviderPool
from brimful.engine.writer import Writer, new_id
from brimful.errors import BrimfulError, InvalidValue, NotRecorded, ProviderError, UnknownRecord
from brimful.protocols import Provider
from brimful.records import Content, Message, Persona, Response, Room, Snapshot
from brimful.records.base import validate_id, validate_json_object
from brimful.records.contexts import Build, Feedback, Rating
from brimful.records.reply import Reply, ReplyChunk
from brimful.records.usage import UsageReport
from brimful.stores import Store

_MAX_STEPS: Final = 256  # messages after an answer with tool calls that are searched for their results


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A model's answer: its reply, the context it saw, the stored response and the message posted in the room.

    `message` is None if the reply was empty. If a message mentions several personas, this is the answer of the first,
    and `others` are those of the others, in order.
    """

    reply: Reply
    context: Context
    response: Response
    message: Message | None
    others: tuple["Answer", ...] = ()

    @property
    def text(self) -> str:
        """The text of the reply."""
        return self.reply.text

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """Tools to call before the model can continue."""
        return self.reply.calls


class AnswerStream:
    """An answer while it is streamed: iterate over its chunks, then read `answer`.

    It is an async context manager. Leaving it early closes the connection and records what was received so far. If a
    message mentions several personas, their answers follow each other; `speaker` is the name of the current one, and
    `context` what it saw, as soon as its first chunk has come.
    """

    def __init__(self, items: "AsyncGenerator[Turn | Context | ReplyChunk | Answer, None]") -> None:
        """Take a generator that yields the turn, the context, the chunks and the answer of each persona."""
        self._items = items
        self._answers: list[Answer] = []
        self._is_complete = False
        self.speaker = ""
        self.context: Context | None = None

    @property
    def answer(self) -> Answer:
        """The whole answer, once the stream has ended."""
        if not self._is_complete:
            raise BrimfulError("the answer is not complete: iterate over the stream to its end first")
        return _join_answers(self._answers)

    async def __aiter__(self) -> AsyncIterator[ReplyChunk]:
        async for item in self._items:
            match item:
                case Answer():
                    self._answers.append(item)
                case Turn():
                    self.speaker, self.context = item.speaker, None
                case Context():
                    self.context = item
                case _:
                    yield item
        self._is_complete = bool(self._answers)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection, whether or not the stream has ended."""
        with suppress(RuntimeError):  # another task is waiting for the next chunk, and will find the stream closed
            await self._items.aclose()


class PartialAnswer:
    """A streamed answer so far: its first chunk has come."""

    def __init__(self, context: Context, chunks: AsyncGenerator[ReplyChunk, None]) -> None:
        self.context = context
        self._chunks = chunks
        self._first: ReplyChunk | None = None
        self._texts: list[str] = []
        self._reply: Reply | None = None

    async def start(self) -> Self:
        """Wait for the first chunk, which may be an error instead."""
        try:
            self._first = await anext(self._chunks, None)
        except BaseException:
            await self._chunks.aclose()
            raise
        return self

    async def read(self) -> AsyncGenerator[ReplyChunk, None]:
        """Yield all chunks and keep them."""
        async with aclosing(self._chunks):
            if self._first is not None:
                yield self._add(self._first)
                async for chunk in self._chunks:
                    yield self._add(chunk)

    @property
    def is_broken_off(self) -> bool:
        """Whether some text has come, but not the end."""
        return self._reply is None and any(self._texts)

    def make_partial_reply(self) -> Reply:
        """Return what has come so far."""
        return Reply(parts=(Text(text="".join(self._texts)),), finish="broken-off")

    def get_reply(self) -> Reply:
        """Return the whole reply."""
        if self._reply is None:
            raise BrimfulError("the provider's stream ended without an answer")
        return self._reply

    def _add(self, chunk: ReplyChunk) -> ReplyChunk:
        self._texts.append(chunk.text)
        self._reply = chunk.reply or self._reply
        return chunk


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One turn of a conversation in progress: what to build, who speaks, and which provider runs the model.

    `started` is when the call began.
    """

    request: BuildRequest
    model: ModelInfo
    provider: Provider
    speaker: str
    started: float


class Responder:
    """Gets answers from models and records them in their rooms."""

    def __init__(
        self,
        store: Store,
        settings: EngineSettings,
        *,
        writer: Writer,
        builder: Builder,
        calibrator: Calibrator,
        providers: ProviderPool,
        events: Emitter,
    ) -> None:
        self._store = store
        self._settings = settings
        self._writer = writer
        self._builder = builder
        self._calibrator = calibrator
        self._providers = providers
        self._events = events
        self._recorder = ResponseRecorder(learn=self._learn, requests=LastRequests(), emit=events.emit)
        self._streams: WeakSet[AnswerStream] = WeakSet()

    async def respond(
        self, room: str, persona: str | None, message: Content | Message | None, options: RespondOptions
    ) -> Answer:
        """Answer a message, as each persona that it mentions."""
        turns = self._turns(room, persona, message, options)
        return _join_answers([await self._respond(turn) async for turn in turns])

    async def _respond(self, turn: Turn) -> Answer:
        context = await self._builder.assemble(turn.request)

        async def deliver(prepared: PreparedRequest[Request]) -> tuple[Context | None, Reply]:
            return await prepared.get_context(), await turn.provider.send(prepared.payload)

        async with self._reporting_failure(turn):
            sent, reply = await self._exchange(turn).send(PreparedRequest(context.request, context), deliver)
        return await self._record_answer(turn, sent or context, reply)

    def stream(
        self, room: str, persona: str | None, message: Content | Message | None, options: RespondOptions
    ) -> AnswerStream:
        """Answer a message chunk by chunk."""
        stream = AnswerStream(self._stream_all(room, persona, message, options))
        self._streams.add(stream)
        return stream

    async def close(self) -> None:
        """Close all streams; what has come so far is recorded."""
        for stream in tuple(self._streams):
            await stream.close()

    async def greet(self, room: str, persona: str, *, user: str | None = None, greeting: int = 0) -> Message | None:
        """Post the greeting of a persona in an empty room."""
        who = await self._store.get(Persona, persona)
        stored_room = await self._store.get(Room, room)
        who = who and apply_room_character(who, stored_room)
        if who is None or who.character is None or await self._store.history(room, limit=1):
            return None
        partner = await get_user(self._store, user or (stored_room.user if stored_room else None))
        text = get_greeting(fill_persona_names(who, make_name_filler(who, partner)), greeting)
        if not text:
            return None
        return await self._writer.post(room=room, text=text, sender=who.called, role="assistant", persona=who.id)

    async def record_response(
        self, context: Context | str, text: str | None = None, **options: Unpack[ResponseOptions]
    ) -> Response:
        """Record the answer to a context that the caller got from a provider."""
        check_options(options, ResponseOptions)
        for field in ("sender", "model", "route", "finish"):
            require_string(field, options.get(field))
        answered = await self._find_answered(context)
        persona = None if answered.persona is None else await self._store.get(Persona, answered.persona)
        content = options.get("content") if text is None else text
        details = ResponseDetails(
            content=None if content is None else read_content(content, "content")[0],
            sender=options.get("sender") or get_speaker_name(persona, answered.persona),
            model=options.get("model") or "",
            route=options.get("route") or "",
            usage=parse_usage(options.get("usage")),
            seconds=options.get("seconds"),
            finish=options.get("finish") or "",
            notices=resolve_notices(options.get("notices") or ()),
            metadata=validate_json_object("metadata", options.get("metadata") or {}),
        )
        response, _ = await self._record(
            answered.context if isinstance(answered, Snapshot) else answered,
            details,
            room=answered.room,
            context_id=answered.id,
            id=options.get("id"),
            at=self._settings.resolve_time(options.get("at")),
        )
        return response

    async def rate(
        self, response: Response | str, rating: Rating | None, note: str, at: float | datetime | None
    ) -> Response:
        """Store feedback on an answer, or remove it."""
        id = response.id if isinstance(response, Response) else validate_id("response", response)
        feedback = None if rating is None else Feedback(rating=rating, note=note, at=self._settings.resolve_time(at))
        if feedback is None and note:
            raise InvalidValue("note", "needs a rating: 'good' or 'bad'")
        rated = await self._store.rate_response(id, feedback)
        if rated is None:
            raise UnknownRecord("answer", id)
        return rated

    async def _find_answered(self, context: Context | str) -> Snapshot | Build:
        """Return the record of a context. If there is only its summary, nothing is learned from the usage."""
        try:
            return await find_snapshot(self._store, context)
        except NotRecorded as error:
            build = await self._store.build(error.id)
            if build is None:
                raise
            return build

    # -- one turn ----------------------------------------------------------------------------------------------------

    async def _turns(
        self, room: str, persona: str | None, message: Content | Message | None, options: RespondOptions
    ) -> AsyncGenerator[Turn, None]:
        """Yield the turn of each persona that answers. The first one posts the message."""
        personas: tuple[str | None, ...] = (persona,)
        if not persona:
            require_string("room", room)
            addressees = await find_addressees(self._store, room, message)
            personas, message = addressees.personas, addressees.message
        elif await self._store.get(Persona, persona) is None:
            raise UnknownRecord("persona", persona)
        for each in personas:
            turn = await self._begin_turn(room, each, message, options)
            message = turn.request.message
            yield turn

    async def _begin_turn(
        self, room: str, persona: str | None, message: Content | Message | None, options: RespondOptions
    ) -> Turn:
        """Choose model and provider, and post the message."""
        started = self._settings.clock()
        check_options(options, RespondOptions)
        build: dict[str, Any] = {key: value for key, value in options.items() if key not in ("provider", "id")}
        build["now"] = self._settings.resolve_time(options.get("now"), "now")
        request = BuildRequest(room=room, persona=persona, **build)
        known = None if request.persona is None else await self._store.get(Persona, request.persona)
        model = self._builder.choose_model(request.model, known)
        provider = self._providers.find(options.get("provider"), known, model)
        posted = await self._post_message(request, message, options.get("id"), build["now"])
        model = await self._providers.resolve_served(model, provider)
        return Turn(
            request=msgspec.structs.replace(
                request, message=posted, model=model, wire=provider.wire, route=provider.route
            ),
            model=model,
            provider=provider,
            speaker=get_speaker_name(known, request.persona),
            started=started,
        )

    async def _post_message(
        self, request: BuildRequest, message: Content | Message | None, id: str | None, at: float
    ) -> Message | None:
        match message:
            case None:
                return None
            case Message():
                return message if message.seq else (await self._writer.post_many([message]))[0]
            case _:
                if not message:
                    raise InvalidValue("message", "is empty: there is nothing to answer")
                room = request.room
                posted = await self._writer.post(room=room, content=message, sender=request.sender, id=id, at=at)
                expected = Message(id=posted.id, room=room, content=message).content  # as a store holds it
                if posted.content != expected and not posted.edited:
                    raise InvalidValue("id", f"{preview(id)} is the id of another message, or of a deleted one")
                return posted

    def _exchange(self, turn: Turn) -> Exchange[Request]:
        async def rebuild(context: Context, window: int, notice: Notice) -> PreparedRequest[Request]:
            del context
            smaller = await self._builder.assemble(
                msgspec.structs.replace(turn.request, window=window, notices=(notice,))
            )
            return PreparedRequest(smaller.request, smaller)

        return Exchange(
            route=turn.provider.route,
            room=turn.request.room,
            rebuild=rebuild,
            learn=self._learn,
            emit=self._events.emit,
            clock=self._settings.clock,
            count=turn.provider.count,
        )

    async def _stream_all(
        self, room: str, persona: str | None, message: Content | Message | None, options: RespondOptions
    ) -> AsyncGenerator[Turn | Context | ReplyChunk | Answer, None]:
        async with aclosing(self._turns(room, persona, message, options)) as turns:
            async for turn in turns:
                yield turn
                async with aclosing(self._stream(turn)) as items:
                    async for item in items:
                        yield item

    async def _stream(self, turn: Turn) -> AsyncGenerator[Context | ReplyChunk | Answer, None]:
        context = await self._builder.assemble(turn.request)

        async def deliver(prepared: PreparedRequest[Request]) -> PartialAnswer:
            sent = await prepared.get_context() or context
            return await PartialAnswer(sent, turn.provider.stream(prepared.payload)).start()

        async with self._reporting_failure(turn):
            answer = await self._exchange(turn).send(PreparedRequest(context.request, context), deliver)
            try:
                yield answer.context
                async with aclosing(answer.read()) as chunks:
                    async for chunk in chunks:
                        yield chunk
            finally:  # a caller who leaves early, or is cut off, finds what has come so far in the room
                if answer.is_broken_off:
                    await asyncio.shield(self._record_answer(turn, answer.context, answer.make_partial_reply()))
        yield await self._record_answer(turn, answer.context, answer.get_reply())

    @asynccontextmanager
    async def _reporting_failure(self, turn: Turn) -> AsyncGenerator[None, None]:
        try:
            yield
        except ProviderError as error:
            await self._events.emit(
                "failed",
                turn.request.room,
                model=turn.model.id,
                provider=turn.model.provider,
                route=error.route,
                error=type(error).__name__,
                status=error.status,
                seconds=max(0.0, self._settings.clock() - turn.started),
            )
            raise

    async def _record_answer(self, turn: Turn, context: Context, reply: Reply) -> Answer:
        now = self._settings.clock()
        details = ResponseDetails(
            content=get_reply_content(reply),
            sender=turn.speaker,
            model=reply.model,
            route=turn.provider.route,
            usage=reply.usage,
            seconds=now - turn.started,
            finish=reply.finish,
        )
        response, message = await self._record(context, details, room=turn.request.room, context_id=context.id, at=now)
        return Answer(reply=reply, context=context, response=response, message=message)

    # -- recording ---------------------------------------------------------------------------------------------------

    async def _record(
        self,
        context: Context | Build,
        details: ResponseDetails,
        *,
        room: str,
        context_id: str,
        at: float,
        id: str | None = None,
    ) -> tuple[Response, Message | None]:
        """Post the answer, save the response, and learn from its usage."""
        response_id = id or new_id("res")
        posted = await self._store.messages([f"{id}/message"]) if id else []
        if any(message.room != room for message in posted):
            raise _id_taken(response_id)
        message = None
        if details.content is not None:
            build = await self._store.build(context_id)
            message = await self._post_answer(details, build, room=room, id=f"{response_id}/message", at=at)

        async def save(response: Response) -> Response:
            await self._store.save_response(response)
            saved = await self._store.responses(context=context_id)
            found = next((each for each in saved if each.id == response_id), None)
            if found is None:
                raise _id_taken(response_id)
            return found

        target = ResponseTarget(
            id=response_id,
            at=at,
            room=room,
            context=context_id,
            message=message.id if message else None,
            conversation=() if isinstance(context, Build) else _make_conversation(context, details.route),
        )
        return await self._recorder.record(context, details, target, save), message

    async def _post_answer(
        self, details: ResponseDetails, build: Build | None, *, room: str, id: str, at: float
    ) -> Message:
        """Post an answer and hide older answers to the same message; hide it itself if that message was superseded."""
        question_id = build.message if build else None
        question = next(iter(await self._store.messages([question_id])), None) if question_id else None
        is_late = question is not None and question.superseded
        message = await self._writer.post(
            room=room,
            content=details.content,
            sender=details.sender,
            role="assistant",
            id=id,
            at=at,
            persona=build.persona if build else None,
            hidden=is_late,
            superseded=is_late,
        )
        if build is not None and question is not None and not message.hidden:
            await self._writer.supersede(await find_replaced_answers(self._store, message, build))
        return message

    async def _learn(self, report: UsageReport) -> None:
        await self._calibrator.add(report, now=self._settings.clock())


async def find_snapshot(store: Store, context: Context | str) -> Snapshot:
    """Return the record of a context. One that was not recorded is needed itself, since its id is not enough."""
    id = get_context_id(context)
    try:
        snapshot = await store.snapshot(id)
    except NotRecorded:
        build = await store.build(id)
        if build is None or isinstance(context, str):
            raise
        return Snapshot(
            id=id,
            room=build.room,
            persona=build.persona,
            user=build.user,
            key=build.key,
            at=build.at,
            message=build.message,
            context=context,
        )
    if snapshot is None:
        raise UnknownRecord("context", id)
    return snapshot


def _make_conversation(context: Context, route: str) -> tuple[str, ...]:
    return context.inputs.origin, route or get_default_route(context.inputs.model)


def _join_answers(answers: Sequence[Answer]) -> Answer:
    first, *others = answers
    return msgspec.structs.replace(first, others=tuple(others)) if others else first


def _id_taken(id: str) -> InvalidValue:
    return InvalidValue("id", f"{preview(id)} is the id of an answer to another context")


async def find_replaced_answers(store: Store, answer: Message, build: Build) -> list[str]:
    """Return the ids of the same persona's older answers to the same message. Other people's messages stay.

    An older answer that called tools takes along their results and what followed from them.
    """
    others = await store.builds(room=build.room, message=build.message)
    contexts = [each.id for each in others if each.persona == build.persona and each.id != build.id]
    responses = [response for id in contexts for response in await store.responses(context=id)]
    answers = await store.messages([response.message for response in responses if response.message is not None])
    older = [each for each in answers if each.seq < answer.seq and not each.hidden]
    return [id for each in older for id in (each.id, *await _find_tool_steps(store, each, answer.seq))]


async def _find_tool_steps(store: Store, answer: Message, before: int) -> Sequence[str]:
    """Return the messages that followed from an answer's tool calls, up to the next message of somebody else."""
    if not any(isinstance(part, ToolCall) for part in answer.content):
        return ()
    positions = range(answer.seq + 1, min(before, answer.seq + 1 + _MAX_STEPS))
    since = [entry.message for entry in await store.messages_at(answer.room, positions)]
    own = takewhile(lambda each: each.role == "tool" or (each.role, each.sender) == ("assistant", answer.sender), since)
    return [message.id for message in own]
