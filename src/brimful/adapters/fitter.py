"""What all adapters share: fit the messages of a framework, and give back its own objects.

An adapter translates each message of its framework into OpenAI's format, one way. What stays is returned as the object
that came in, so that ids, signatures, citations and everything else that a translation does not know survive.
"""

import asyncio
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from itertools import pairwise
from typing import Any, Final, TypedDict, TypeVar, Unpack

import msgspec

from brimful.assembly.assemble import counter
from brimful.assembly.conversations import Conversations
from brimful.assembly.fit import FitOptions
from brimful.core.chat_rules import OPENING
from brimful.core.context import Context
from brimful.core.labels import HISTORY_OPEN
from brimful.core.model import ModelInfo
from brimful.engine import Engine, SyncEngine
from brimful.engine.exchange import get_retry_window
from brimful.engine.options import ResponseOptions
from brimful.errors import BudgetExceeded, ContextOverflow, InvalidValue
from brimful.models import default_registry
from brimful.policies import Overrides
from brimful.providers import Overflow, find_overflow
from brimful.records import Message
from brimful.retrieval.search import Hit
from brimful.wires import Wire, find_wire
from brimful.wires.incoming import read_incoming
from brimful.wires.registry import DEFAULT_WIRE

M = TypeVar("M")
R = TypeVar("R")
WireMessage = dict[str, Any]
"""A message in OpenAI's format, or an item of its Responses API."""
WireMessages = Sequence[Sequence[WireMessage]]
"""The wire messages that each message of a framework is translated to."""

NOTHING_LEFT_OUT: Final = "Nothing of this conversation was left out."
"""The result of a recall without a request."""

_PAGE: Final = 500  # messages that are read at once
_RECORD_FIELDS: Final = ("room", "user", "persona", "sender", "type", "at")


class RequestDetails(TypedDict, total=False):
    """What a framework knows about a request. The model and window in the options of a `Fitter` take precedence.

    `conversation` continues the request before it with this id. `route` names the server that the request goes to.
    `system` and `tools` are counted, and always stay. `pin` and `ties` are indices of the framework's messages.
    `max_prompt_tokens` is one more limit, and `max_output` the length of the answer that the request allows. Whatever
    the options say, the window is at most `max_window`: a provider refused a larger request.
    """

    conversation: str
    route: str
    model: str
    window: int | None
    system: str | None
    tools: Sequence[dict[str, Any]]
    max_prompt_tokens: int
    max_output: int | None
    max_window: int
    pin: Sequence[int]
    ties: Sequence[Sequence[int]]
    wire: str


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a fitted request: the index of the framework's message, or None for one that was added.

    `wire` are its messages in the request if one of them was shortened, else empty.
    """

    index: int | None
    wire: tuple[WireMessage, ...] = ()
    text: str = ""


class Fitted(msgspec.Struct, frozen=True, kw_only=True):
    """A fitted request of a framework: its context, and what became of each message."""

    context: Context
    conversation: str
    model: str
    route: str
    pieces: tuple[Piece, ...]
    count: int  # of the framework's messages

    @property
    def offers_recall(self) -> bool:
        """Whether the request must offer the recall tool, which is counted already."""
        return self.context.inputs.recall

    @property
    def is_unchanged(self) -> bool:
        """Whether all messages are sent as they are."""
        return len(self.pieces) == self.count and not any(piece.wire or piece.index is None for piece in self.pieces)

    def rebuild(
        self, messages: list[M], *, shorten: Callable[[M, Sequence[WireMessage]], M], add: Callable[[str], M]
    ) -> list[M]:
        """Return the messages to send: the given objects, the same list if all of them stay.

        `shorten` makes a copy of a message with the texts of these wire messages, and `add` a user message: the ledger
        of an agent's earlier steps, for example.
        """
        if self.is_unchanged:
            return messages
        return [
            add(piece.text)
            if piece.index is None
            else shorten(messages[piece.index], piece.wire)
            if piece.wire
            else messages[piece.index]
            for piece in self.pieces
        ]


def count_request(
    messages: Sequence[WireMessage],
    *,
    model: str | ModelInfo,
    system: str | None = None,
    tools: Sequence[dict[str, Any]] = (),
) -> int:
    """Count the tokens of a request in OpenAI's format, with the margin of a count that is not exact."""
    first = [] if system is None else [{"role": "system", "content": system}]
    request = {"model": "", "messages": [*first, *messages], **({"tools": list(tools)} if tools else {})}
    prompt = read_incoming(request, "openai").prompt
    count = counter(model).prompt(msgspec.structs.replace(prompt, body=request))
    return count.tokens + count.margin


class Fitter:
    """Fits the requests of a framework's conversations.

    The options are the same as for `brimful.fit`. With an `engine`, counts are calibrated by the usage that providers
    report, and every request is recorded in its store, where the inspector shows it. `refusals` are errors of the
    framework that mean that a request is too long, whatever their text is. With `recall`, a request that leaves
    something out offers the recall tool: see `Fitted.offers_recall`.
    """

    def __init__(
        self,
        *,
        engine: Engine | SyncEngine | None = None,
        refusals: tuple[type[Exception], ...] = (),
        recall: bool = False,
        **options: Unpack[FitOptions],
    ) -> None:
        unknown = sorted(options.keys() - FitOptions.__annotations__.keys())
        if unknown:
            known = ", ".join(sorted(FitOptions.__annotations__))
            raise InvalidValue(unknown[0], f"is not an option; the options are engine, {known}")
        self.engine = None if engine is None else require_engine(engine)
        self._refusals = refusals
        given = options.get("overrides") or {}
        fixed = {"tools.trim": False, "completion.gives_way": False}  # the framework sends its tools and limit itself
        own = fixed | ({"recall": "tool"} if recall else {})
        options["overrides"] = {**(given.keys() if isinstance(given, Overrides) else given), **own}
        self._options = options
        self._conversations = Conversations()
        self._windows: dict[tuple[str, str], int] = {}  # by model and route, as providers named them

    def fit(self, messages: WireMessages, **details: Unpack[RequestDetails]) -> Fitted:
        """Fit messages, each given as the wire messages that it is translated to. Those of one stay or go together."""
        request, options = self._prepare(messages, details)
        conversation, route = details.get("conversation", ""), details.get("route", "")
        if isinstance(self.engine, SyncEngine):
            context = self.engine.fit(request, conversation=conversation, route=route, **options)
        elif self.engine is None:
            context = self._conversations.fit(conversation, request, **options)
        else:
            raise InvalidValue("engine", "is asynchronous: pass a brimful.SyncEngine where calls are synchronous")
        return _make_fitted(context, messages, details)

    async def afit(self, messages: WireMessages, **details: Unpack[RequestDetails]) -> Fitted:
        """Like `fit`, without blocking the event loop."""
        if not isinstance(self.engine, Engine):
            return await asyncio.to_thread(self.fit, messages, **details)
        request, options = self._prepare(messages, details)
        conversation, route = details.get("conversation", ""), details.get("route", "")
        context = await self.engine.fit(request, conversation=conversation, route=route, **options)
        return _make_fitted(context, messages, details)

    def refit(
        self, messages: WireMessages, fitted: Fitted, error: Exception, **details: Unpack[RequestDetails]
    ) -> Fitted | None:
        """Fit a request again that a provider refused as too long; None for another error, or if nothing fits."""
        overflow = find_refusal(error, self._refusals)
        if overflow is None:
            return None
        self.observe_overflow(fitted, overflow)
        try:
            return self.fit(messages, **_with_limit(details, fitted, overflow))
        except BudgetExceeded:
            return None

    async def arefit(
        self, messages: WireMessages, fitted: Fitted, error: Exception, **details: Unpack[RequestDetails]
    ) -> Fitted | None:
        """Like `refit`, without blocking the event loop."""
        overflow = find_refusal(error, self._refusals)
        if overflow is None:
            return None
        await self.aobserve_overflow(fitted, overflow)
        try:
            return await self.afit(messages, **_with_limit(details, fitted, overflow))
        except BudgetExceeded:
            return None

    def call(
        self,
        messages: WireMessages,
        send: Callable[[Fitted], R],
        read: Callable[[R], ResponseOptions],
        **details: Unpack[RequestDetails],
    ) -> R:
        """Fit a request, send it, and record what `read` finds in the response.

        A request that the provider refuses as too long is sent once more, smaller.
        """
        fitted = self.fit(messages, **details)
        try:
            response = send(fitted)
        except Exception as error:
            smaller = self.refit(messages, fitted, error, **details)
            if smaller is None:
                raise
            fitted, response = smaller, send(smaller)
        self.observe(fitted, **read(response))
        return response

    async def acall(
        self,
        messages: WireMessages,
        send: Callable[[Fitted], Awaitable[R]],
        read: Callable[[R], ResponseOptions],
        **details: Unpack[RequestDetails],
    ) -> R:
        """Like `call`, without blocking the event loop."""
        fitted = await self.afit(messages, **details)
        try:
            response = await send(fitted)
        except Exception as error:
            smaller = await self.arefit(messages, fitted, error, **details)
            if smaller is None:
                raise
            fitted, response = smaller, await send(smaller)
        await self.aobserve(fitted, **read(response))
        return response

    def observe(self, fitted: Fitted, **response: Unpack[ResponseOptions]) -> None:
        """Record what the provider reported about a request: `usage`, `model`, `seconds`, `finish`."""
        if isinstance(self.engine, SyncEngine):
            self.engine.observe(fitted.context, conversation=fitted.conversation, **_with_route(response, fitted))

    async def aobserve(self, fitted: Fitted, **response: Unpack[ResponseOptions]) -> None:
        """Like `observe`, without blocking the event loop."""
        if isinstance(self.engine, Engine):
            options = _with_route(response, fitted)
            await self.engine.observe(fitted.context, conversation=fitted.conversation, **options)
        else:
            await asyncio.to_thread(self.observe, fitted, **response)

    def observe_overflow(self, fitted: Fitted, error: ContextOverflow) -> None:
        """Learn from a request that the provider refused as too long: later requests fit the window it named."""
        self._learn_window(fitted, error)
        if isinstance(self.engine, SyncEngine):
            self.engine.observe_overflow(fitted.context, error, route=fitted.route)

    async def aobserve_overflow(self, fitted: Fitted, error: ContextOverflow) -> None:
        """Like `observe_overflow`, without blocking the event loop."""
        if isinstance(self.engine, Engine):
            self._learn_window(fitted, error)
            await self.engine.observe_overflow(fitted.context, error, route=fitted.route)
        else:
            await asyncio.to_thread(self.observe_overflow, fitted, error)

    def _learn_window(self, fitted: Fitted, error: ContextOverflow) -> None:
        if error.window is not None:
            self._windows[fitted.model, fitted.route] = get_retry_window(fitted.context, error)

    def _prepare(self, messages: WireMessages, details: RequestDetails) -> tuple[dict[str, Any], FitOptions]:
        """Return the request and the options of `fit`."""
        own, wire, system = self._options, _get_wire(details), details.get("system")
        places = _places(messages, details)
        listed = [message for group in messages for message in group]
        request: dict[str, Any] = {"model": details.get("model", "")}
        if system is not None and (field := wire.system_field(request)):
            request[field] = system
        elif system is not None:
            listed = [{"role": "system", "content": system}, *listed]
        request[wire.message_field] = listed
        if tools := details.get("tools"):
            request["tools"] = list(tools)
        if (max_output := details.get("max_output")) is not None:
            request = wire.write_max_output(request, max_output, "")
        pins = (place for index in details.get("pin", ()) for place in places[index])
        info = _resolve(own.get("model") or request["model"])
        groups = [(index,) for index, group in enumerate(places) if len(group) > 1]
        turns = _turns(messages) if not wire.user_first and find_wire(info.wire).user_first else []
        given = (*groups, *turns, *details.get("ties", ()))
        ties = [tuple(place for index in tie for place in places[index]) for tie in given]
        options = FitOptions(**{**own, "wire": wire.name, "pin": [*own.get("pin", ()), *pins], "ties": ties})
        window = details.get("window")
        if window is not None and own.get("window") is None and info.assumed_window:
            options["window"] = window
        if (limit := details.get("max_prompt_tokens")) is not None:
            options["max_prompt_tokens"] = min(limit, own.get("max_prompt_tokens") or limit)
        largest = details.get("max_window") or self._windows.get((request["model"], details.get("route", "")))
        if largest is not None:
            options["window"] = min(largest, options.get("window") or largest)
        return request, options


def find_refusal(error: Exception, refusals: tuple[type[Exception], ...] = ()) -> ContextOverflow | None:
    """Return an error of any SDK as an overflow, or None if it is another error. All of `refusals` are overflows.

    >>> find_refusal(RuntimeError("This model's maximum context length is 8192 tokens.")).window
    8192
    """
    if isinstance(error, ContextOverflow):
        return error
    status = getattr(error, "status_code", None)
    status = status if type(status) is int else None
    found = find_overflow(status, str(error).encode()) or (Overflow() if isinstance(error, refusals) else None)
    return None if found is None else ContextOverflow("", str(error), status=status, **msgspec.structs.asdict(found))


# -- the engine --------------------------------------------------------------------------------------------------------


def require_engine(engine: object) -> Engine | SyncEngine:
    """Return an engine, and refuse anything else."""
    if isinstance(engine, Engine | SyncEngine):
        return engine
    raise InvalidValue("engine", f"must be a brimful.Engine or brimful.SyncEngine, not {type(engine).__name__}")


def run(engine: Engine | SyncEngine, use: Callable[[Engine], Coroutine[Any, Any, R]]) -> R:
    """Use an engine where calls are synchronous."""
    if isinstance(engine, SyncEngine):
        return engine.run(use(engine.engine))
    reason = "is asynchronous: use the asynchronous methods of the framework, or pass a brimful.SyncEngine"
    raise InvalidValue("engine", reason)


async def arun(engine: Engine | SyncEngine, use: Callable[[Engine], Coroutine[Any, Any, R]]) -> R:
    """Use an engine on its own event loop."""
    return await (engine.wait(use(engine.engine)) if isinstance(engine, SyncEngine) else use(engine))


async def read_newest(engine: Engine, room: str, limit: int = sys.maxsize) -> list[Message]:
    """Return the latest messages of a room, the newest first; all of them, if there is no limit."""
    messages: list[Message] = []
    while len(messages) < limit:
        size = min(_PAGE, limit - len(messages))
        before = messages[-1].seq if messages else None
        page = await engine.store.history(room, before=before, limit=size, include_archived=True)
        messages += [each.message for each in page]
        if len(page) < size:
            break
    return messages


def describe_hit(hit: Hit) -> dict[str, Any]:
    """Return the facts about a search result, for the metadata of a framework's documents."""
    record = hit.record
    known = {name: value for name in _RECORD_FIELDS if (value := getattr(record, name, None))}
    return {**getattr(record, "metadata", {}), "kind": record.__struct_config__.tag, **known}


# -- pieces of a request -----------------------------------------------------------------------------------------------


def _with_limit(details: RequestDetails, fitted: Fitted, overflow: ContextOverflow) -> RequestDetails:
    """Return details that limit a request to what the provider accepts."""
    return {**details, "max_window": get_retry_window(fitted.context, overflow)}


def _places(messages: WireMessages, details: RequestDetails) -> list[range]:
    """Return the places of each message in the request."""
    index = int(details.get("system") is not None and not _get_wire(details).system_field({}))
    places = []
    for group in messages:
        places.append(range(index, index + len(group)))
        index += len(group)
    return places


def _make_fitted(context: Context, messages: WireMessages, details: RequestDetails) -> Fitted:
    groups = _places(messages, details)
    owners = {place: index for index, group in enumerate(groups) for place in group}
    own = dict(zip(owners, (message for group in messages for message in group), strict=True))
    sent, shortened = context.request[_get_wire(details).message_field], frozenset(context.shortened)
    places, added = deque(context.positions), len(sent) - len(context.positions)
    order: list[int | str] = []
    wires: dict[int, list[WireMessage]] = {}
    for message in sent:
        text = _text_of(message)
        is_own = bool(places) and message == own.get(places[0])
        if added and not is_own and text.startswith((HISTORY_OPEN, OPENING)):
            added -= 1
            order.append(text)
        elif (index := owners.get(places.popleft())) is not None:
            if index not in wires:
                order.append(index)
            wires.setdefault(index, []).append(message)
    return Fitted(
        context=context,
        conversation=details.get("conversation", ""),
        model=details.get("model", ""),
        route=details.get("route", ""),
        pieces=tuple(
            Piece(index=None, text=each)
            if isinstance(each, str)
            else Piece(index=each, wire=tuple(wires[each]) if shortened.intersection(groups[each]) else ())
            for each in order
        ),
        count=len(messages),
    )


def _get_wire(details: RequestDetails) -> Wire:
    return find_wire(details.get("wire", DEFAULT_WIRE))


def _text_of(message: WireMessage) -> str:
    content = message.get("content") or message.get("parts")
    block = content[0] if isinstance(content, list) and content else content
    text = block.get("text") if isinstance(block, dict) else block
    return text if isinstance(text, str) else ""


def _turns(messages: WireMessages) -> list[tuple[int, int]]:
    """Return pairs of a user's message and its answer: a history of such pairs begins with the user."""
    roles = [group[0].get("role") if group and not group[-1].get("tool_calls") else None for group in messages]
    return [(i, i + 1) for i, pair in enumerate(pairwise(roles)) if pair == ("user", "assistant")]


def _resolve(model: str | ModelInfo) -> ModelInfo:
    return model if isinstance(model, ModelInfo) else default_registry().resolve(model)


def _with_route(response: ResponseOptions, fitted: Fitted) -> ResponseOptions:
    return {"route": fitted.route, **response}
