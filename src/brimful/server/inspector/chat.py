"""Endpoints to chat in a room: assemble and inspect contexts, recall, and respond, whole or as a stream."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress
from typing import Any, Final

import msgspec
from starlette.requests import ClientDisconnect
from starlette.responses import Response as HttpResponse
from starlette.types import Receive, Scope, Send

from brimful.assembly.arguments import resolve_tools
from brimful.core.content import ToolCall
from brimful.core.context import Context
from brimful.core.notice import Notice
from brimful.core.recall import Recalled
from brimful.core.validation import preview
from brimful.engine import Engine
from brimful.engine.mentions import find_addressees, find_persona
from brimful.engine.personas import get_speaker_name, get_user
from brimful.engine.plan import get_policy_keys
from brimful.engine.responder import Answer
from brimful.errors import BrimfulError, NotRecorded
from brimful.policies import load_policy
from brimful.records import Content, Message, Persona, Room, Snapshot
from brimful.retrieval.breaker import State
from brimful.server.access import Client, choose_policy, may_use_model, require_model, require_scope
from brimful.server.endpoint import JSON, run_until_disconnect, wait_for_disconnect
from brimful.server.errors import ApiError, error_body, to_api_error
from brimful.server.inspector.catalogue import ContentCounter
from brimful.server.inspector.contexts import find_place_in_run, get_build
from brimful.server.inspector.operation import EVENT_STREAM, Call
from brimful.server.inspector.queries import AssembleBody, BuildBody, BuildQuery, RespondBody, RoomRecallQuery
from brimful.server.inspector.record_views import MessageView
from brimful.server.inspector.records import Messages, read_message
from brimful.server.inspector.served_models import ServedModel, ServedModels
from brimful.server.inspector.views import (
    AnswerView,
    ContextView,
    Costs,
    DisplayNames,
    View,
    context_view,
    load_names,
    to_view,
)
from brimful.server.limits import UNLIMITED, Admission, Limiter
from brimful.server.logs import note_cut
from brimful.server.proxy.upstreams import upstream_errors
from brimful.server.tenants import Tenants
from brimful.stores import Store
from brimful.threads import run_in_thread
from brimful.wires.registry import default_wire

_PAGE_MESSAGES: Final = 500


class AssembledView(View, frozen=True, kw_only=True):
    """A context, and its `request` in a wire format, which you can send to the provider yourself."""

    context: ContextView
    wire: str
    request: dict[str, Any]


class ServedModelList(View, frozen=True, kw_only=True):
    """The names of the models that upstreams offer. An upstream may serve others that it does not list."""

    models: tuple[str, ...]


class InspectionView(View, frozen=True, kw_only=True):
    """A preview of a room's next context. `retrieved` candidates were found by search.

    `breaker` is the state of the embedder's circuit breaker, and `seconds` is the build time.
    """

    context: ContextView
    retrieved: int
    breaker: State
    seconds: float


class ReplyView(AnswerView, frozen=True, kw_only=True):
    """The answer of a persona. `calls` are tools to call before it can continue.

    `tokens` is our own count of the prompt, `left_out` the number of candidates and messages that are not in it.
    """

    persona: str | None
    sender: str
    calls: tuple[ToolCall, ...]
    tokens: int
    left_out: int
    warnings: tuple[Notice, ...]


class ReplyList(View, frozen=True, kw_only=True):
    """The answers of all personas that answered a message, in order. `message` is that message, if one was sent."""

    message: MessageView | None
    answers: tuple[ReplyView, ...]


class ChunkView(View, frozen=True, kw_only=True):
    """Some text of a persona's answer."""

    persona: str | None
    sender: str
    text: str


class SeenView(View, frozen=True, kw_only=True):
    """The id of the context that a persona answers, as soon as its answer begins."""

    persona: str | None
    sender: str
    context: str


class Speaker(msgspec.Struct, frozen=True, kw_only=True):
    """A persona that answers, under its name, with a model."""

    persona: str | None
    sender: str
    served: ServedModel


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """A message to answer in a room, who answers it, and the options of the build.

    `later` are the ids of the messages to supersede as soon as the answer begins.
    """

    engine: Engine
    room: Room
    message: Content | Message | None
    speakers: tuple[Speaker, ...]
    options: dict[str, Any]
    later: tuple[str, ...] = ()
    admission: Admission = UNLIMITED


class Chat:
    """Endpoints that build and answer the next turn of a room."""

    def __init__(
        self,
        tenants: Tenants,
        models: ServedModels,
        *,
        messages: Messages,
        tokens: ContentCounter,
        costs: Costs,
        limiter: Limiter,
        stopping: asyncio.Event,
        clock: Callable[[], float],
    ) -> None:
        self._tenants = tenants
        self._models = models
        self._messages = messages
        self._tokens = tokens
        self._costs = costs
        self._limiter = limiter
        self._stopping = stopping
        self._clock = clock

    async def list_models(self, call: Call) -> ServedModelList:
        """List the models that a client may ask. An upstream that does not answer lists none."""
        names = await self._models.list_names()
        return ServedModelList(models=tuple(name for name in names if may_use_model(call.client, name)))

    async def assemble(self, call: Call) -> HttpResponse:
        """Build the context for the next answer, without sending it."""
        body: AssembleBody = call.body
        if body.save:
            require_scope(call.client, "chat")
        turn = await self._plan(call, body)
        context = await self._build(turn, save=body.save)
        store = turn.engine.store
        snapshot, number, run = _preview_snapshot(turn, context), None, None
        if body.save:
            with suppress(NotRecorded):
                snapshot = await store.snapshot(context.id) or snapshot
            build = await get_build(store, snapshot)
            number, run = build.number, await find_place_in_run(store, build)
        names = await load_names(store, [snapshot])

        def encode() -> bytes:
            view = context_view(snapshot, number=number, names=names, run=run)
            wire = context.inputs.model.wire
            return msgspec.json.encode(AssembledView(context=view, wire=wire, request=context.request))

        return HttpResponse(await run_in_thread(encode), media_type=JSON)

    async def inspect(self, call: Call) -> HttpResponse:
        """Preview the context for the next answer. Nothing is stored."""
        turn = await self._plan(call, call.query, default_model=self._tokens.default)
        started = time.perf_counter()
        context = await self._build(turn, save=False)
        seconds = time.perf_counter() - started
        names = await load_names(turn.engine.store, [_preview_snapshot(turn, context)])
        breaker = turn.engine.breaker.state(self._clock())

        def encode() -> bytes:
            view = _inspection_view(turn, context, names, breaker=breaker, seconds=seconds)
            return msgspec.json.encode(view)

        return HttpResponse(await run_in_thread(encode), media_type=JSON)

    async def recall(self, call: Call) -> Recalled:
        """Return what a room holds under a handle, or what matches a query."""
        query: RoomRecallQuery = call.query
        engine = await self._tenants.engine(call.tenant)
        persona = None if query.persona is None else await _find_persona(engine, query.persona)
        return await engine.recall(
            query.handle,
            query=query.query,
            max_tokens=query.max_tokens,
            room=call.name(),
            persona=persona,
            user=query.user,
            model=query.model or self._tokens.default,
        )

    async def respond(self, call: Call) -> ReplyList | HttpResponse:
        """Store a message, send the context to the upstream, and store and return the answers."""
        body: RespondBody = call.body
        turn = await self._plan(call, body)
        if body.rewind:
            turn = msgspec.structs.replace(turn, later=await _find_later(turn))
        for speaker in turn.speakers:
            self._models.require_upstream(speaker.served)
        async with self._limiter.admit(call.client, call.client.user or body.user or turn.room.user) as admission:
            turn, message = await self._post(turn, body)
            turn = msgspec.structs.replace(turn, admission=admission)
            if body.stream:
                return await ReplyEvents(self._stream(call, turn, message), self._stopping).start()
            answers = [await self._answer(call, turn, speaker) for speaker in turn.speakers]
            if turn.later:
                await turn.engine.supersede(turn.later)
            return ReplyList(message=message, answers=tuple(answers))

    async def _plan(self, call: Call, body: BuildQuery | BuildBody, *, default_model: str = "") -> Turn:
        """Find the room, who answers, and with which models."""
        engine = await self._tenants.engine(call.tenant)
        store, id = engine.store, call.name()
        room = await store.require(Room, id)
        addressees = await find_addressees(store, id, await _find_message(store, id, body))
        personas = addressees.personas if body.persona is None else (await _find_persona(engine, body.persona),)
        speakers = [await self._find_speaker(call.client, engine, each, body, default_model) for each in personas]
        policy = self._tenants.find_policy(choose_policy(call.client, body.policy))
        user = await get_user(store, body.user or room.user)
        sender = body.sender if body.sender is not None else (user.name or user.id) if user else ""
        options: dict[str, Any] = {
            name: getattr(body, name) for name in ("user", "focus", "completion", "max_prompt_tokens")
        }
        if isinstance(body, BuildBody):
            options |= {name: getattr(body, name) for name in ("system", "overrides", "retrieval")}
            options["tools"] = resolve_tools(body.tools)
            load_policy(
                policy or self._tenants.default_policy or "default", overrides=get_policy_keys(body.overrides) or None
            )
        return Turn(
            engine=engine,
            room=room,
            message=addressees.message,
            speakers=tuple(speakers),
            options=options | {"sender": sender, "policy": policy, "key": call.client.key or None},
        )

    async def _find_speaker(
        self, client: Client, engine: Engine, id: str | None, body: BuildQuery | BuildBody, default_model: str
    ) -> Speaker:
        persona = None if id is None else await engine.store.get(Persona, id)
        name = body.model or (persona.model if persona else "") or default_model
        if not name:
            who = f"the persona {persona.called!r} has none" if persona else "no persona answers here"
            raise ApiError("invalid", f"model: required, since {who}", param="model")
        require_model(client, name)
        served = await self._models.find(client.tenant, name)
        if body.window is not None:
            served = msgspec.structs.replace(served, window=body.window)
        return Speaker(persona=id, sender=get_speaker_name(persona, id), served=served)

    async def _build(self, turn: Turn, *, save: bool) -> Context:
        speaker = turn.speakers[0]
        served, upstream = speaker.served, speaker.served.upstream
        return await turn.engine.assemble(
            room=turn.room.id,
            persona=speaker.persona,
            message=turn.message,
            model=served.model,
            window=served.window,
            wire=upstream.wire.name if upstream else None,
            route=upstream.route if upstream else "",
            save=save,
            **turn.options,
        )

    async def _post(self, turn: Turn, body: RespondBody) -> tuple[Turn, MessageView | None]:
        """Store the message to answer."""
        if body.content is None:
            return turn, None
        fields = {"content": turn.message, "sender": turn.options["sender"], "role": "user", "id": body.id}
        message = await self._messages.post(turn.engine, turn.room.id, fields)
        view = await self._messages.view(turn.engine.store, message, turn.speakers[0].served.model.id)
        return msgspec.structs.replace(turn, message=message), view

    def _arguments(self, call: Call, turn: Turn, served: ServedModel) -> dict[str, Any]:
        """Return the options of `respond`. A persona's own provider is ignored: only upstreams are trusted."""
        provider = turn.admission.hold(self._models.provider(served, call.headers), served.model)
        return turn.options | {"model": served.model, "window": served.window, "provider": provider}

    async def _answer(self, call: Call, turn: Turn, speaker: Speaker) -> ReplyView:
        options = self._arguments(call, turn, speaker.served)
        with upstream_errors(self._models.require_upstream(speaker.served)):
            answer = await turn.engine.respond(turn.room.id, turn.message, persona=speaker.persona, **options)
        return await run_in_thread(self._reply_view, answer, speaker)

    async def _stream(
        self, call: Call, turn: Turn, message: MessageView | None
    ) -> AsyncGenerator[tuple[str, msgspec.Struct], None]:
        """Yield the names and values of events: the message, and the context, chunks and answer of each persona."""
        if message is not None:
            yield "message", message
        for speaker in turn.speakers:
            options = self._arguments(call, turn, speaker.served)
            with upstream_errors(self._models.require_upstream(speaker.served)):
                async with turn.engine.stream(turn.room.id, turn.message, persona=speaker.persona, **options) as stream:
                    seen: Context | None = None
                    async for chunk in stream:
                        if seen is None and stream.context is not None:
                            seen = stream.context
                            if turn.later:
                                await turn.engine.supersede(turn.later)
                            yield "context", SeenView(persona=speaker.persona, sender=speaker.sender, context=seen.id)
                        if chunk.text:
                            yield "chunk", ChunkView(persona=speaker.persona, sender=speaker.sender, text=chunk.text)
            yield "answer", await run_in_thread(self._reply_view, stream.answer, speaker)

    def _reply_view(self, answer: Answer, speaker: Speaker) -> ReplyView:
        return to_view(
            ReplyView,
            self._costs.answer_view(answer.response, answer.text),
            persona=speaker.persona,
            sender=speaker.sender,
            calls=answer.calls,
            tokens=answer.context.tokens,
            left_out=answer.context.left_out,
            warnings=answer.context.warnings,
        )


async def _find_persona(engine: Engine, name: str) -> str:
    persona = await find_persona(engine.store, name)
    if persona is None:
        raise ApiError("not_found", f"no persona {preview(name)}", code="persona_not_found", param="persona")
    return persona.id


async def _find_message(store: Store, room: str, body: BuildQuery | BuildBody) -> Content | Message | None:
    """Return what to answer: the content that is passed, or a message that the room has; None for its last one."""
    if body.message is None:
        return None if body.content is None else read_message(body.content)[0]
    if body.content is not None:
        raise ApiError("invalid", "message: pass either `message` or `content`", param="message")
    message = next(iter(await store.messages([body.message])), None)
    if message is None or message.room != room:
        raise ApiError(
            "not_found", f"no message {preview(body.message)} in this room", code="message_not_found", param="message"
        )
    if message.role != "user":
        raise ApiError("invalid", "message: must be of a user; pass the message that it answers", param="message")
    return message


async def _find_later(turn: Turn) -> tuple[str, ...]:
    """Return the ids of everything that was said after the message to answer, and is still part of the room."""
    if not isinstance(turn.message, Message):
        raise ApiError("invalid", "rewind: needs a `message` to go back to", param="rewind")
    later: list[str] = []
    before = None
    while page := await turn.engine.store.history(turn.room.id, before=before, limit=_PAGE_MESSAGES):
        messages = [entry.message for entry in page if entry.message.seq > turn.message.seq]
        later += [message.id for message in messages if not message.hidden]
        if len(messages) < len(page):
            break
        before = messages[-1].seq
    return tuple(later)


def _preview_snapshot(turn: Turn, context: Context) -> Snapshot:
    message = turn.message.id if isinstance(turn.message, Message) else None
    persona = turn.speakers[0].persona
    return Snapshot(
        id=context.id, room=turn.room.id, persona=persona, at=context.inputs.now, message=message, context=context
    )


def _inspection_view(
    turn: Turn, context: Context, names: DisplayNames, *, breaker: State, seconds: float
) -> InspectionView:
    return InspectionView(
        context=context_view(_preview_snapshot(turn, context), names=names),
        retrieved=sum("search" in package.metadata for package in context.inputs.packages),
        breaker=breaker,
        seconds=seconds,
    )


class ReplyEvents(HttpResponse):
    """Sends answers as server-sent events until they end, the client leaves, or the server stops."""

    media_type = EVENT_STREAM

    def __init__(self, events: AsyncGenerator[tuple[str, msgspec.Struct], None], stopping: asyncio.Event) -> None:
        super().__init__(headers={"x-accel-buffering": "no"})  # keep proxies from buffering it
        self.raw_headers = [header for header in self.raw_headers if header[0] != b"content-length"]
        self._events = events
        self._stopping = stopping
        self._first: Sequence[bytes] = ()

    async def start(self) -> "ReplyEvents":
        """Wait until the upstream answers. An error before that has a status of its own."""
        first = []
        async for name, value in self._events:
            first.append(_encode_event(name, value))
            if name != "message":
                break
        self._first = first
        return self

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        log_fields = scope["brimful"]
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        last = b""
        try:
            await run_until_disconnect(wait_for_disconnect(receive), self._stopping, self._pump(send))
        except ClientDisconnect:
            log_fields["cut_by"] = "client"
            return
        except (ApiError, BrimfulError) as error:
            note_cut(log_fields, error)
            last = _encode_error(error if isinstance(error, ApiError) else to_api_error(error, default_wire()))
        await send({"type": "http.response.body", "body": last, "more_body": False})

    async def _pump(self, send: Send) -> None:
        async with aclosing(self._events):
            for event in self._first:
                await send({"type": "http.response.body", "body": event, "more_body": True})
            async for name, value in self._events:
                await send({"type": "http.response.body", "body": _encode_event(name, value), "more_body": True})


def _encode_event(name: str, value: msgspec.Struct) -> bytes:
    return f"event: {name}\ndata: ".encode() + msgspec.json.encode(value) + b"\n\n"


def _encode_error(error: ApiError) -> bytes:
    return b"event: error\ndata: " + error_body(error, default_wire()) + b"\n\n"
