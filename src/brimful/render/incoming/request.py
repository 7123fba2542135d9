"""Read a client's request, and write it again with the messages that were selected."""

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any, Final, Literal

import msgspec

from brimful.core.chat_rules import OPENING
from brimful.core.content import clean_text
from brimful.core.frame import SYSTEM_ID, Frame, fill_holes, message_index, part_text, replace_with_holes
from brimful.core.prompt import Media, Message, Part, Prompt, Request, Role, Text, Tool, clean_data
from brimful.core.validation import is_whole_number, preview
from brimful.errors import InvalidRequest, InvalidValue
from brimful.render.anthropic import MAX_BREAKPOINTS
from brimful.render.incoming import anthropic, openai
from brimful.render.renderer import Renderer

IncomingWire = Literal["openai", "anthropic"]
_READERS: Final = {"openai": openai, "anthropic": anthropic}
INCOMING_WIRES: Final = tuple(_READERS)

_SHORT_BYTES: Final = 1_024  # bytes of a message; most are shorter
_LONG_BYTES: Final = 16_384  # bytes; what is longer is read anew each time


class IncomingTurn(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A message of the request as one or two of ours, and its frame; None for a role and a plain text.

    Two are needed where a provider lets tools and the user speak in one turn.
    """

    said: tuple[Message, ...]
    frame: Any


class IncomingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a request says: its system prompt where that is no message, its turns, and its tools.

    `raw` are its messages as JSON.
    """

    model: str
    system: tuple[Message, ...]
    turns: tuple[IncomingTurn, ...]
    raw: tuple[bytes, ...]
    tools: tuple[Tool, ...]
    completion: int | None

    @property
    def prompt(self) -> Prompt:
        """All of it, for counting."""
        said = tuple([message for turn in self.turns for message in turn.said])
        return Prompt(model=self.model, messages=(*self.system, *said), tools=self.tools, max_output=self.completion)


def read_incoming(request: object, wire: IncomingWire) -> IncomingRequest:
    """Read a request. Only what is no request at all is refused.

    >>> said = {"role": "user", "content": "Hi", "mood": "good"}
    >>> read_incoming({"model": "m", "messages": [said]}, "openai").turns[0].said[0].parts
    (Text(text='Hi'),)
    >>> read_incoming({"messages": "Hi"}, "openai")
    Traceback (most recent call last):
    ...
    brimful.errors.InvalidRequest: openai would refuse this request: messages: must be a list of messages, not 'Hi'
    """
    if wire not in _READERS:
        raise InvalidValue("wire", f"must be one of {', '.join(INCOMING_WIRES)}, not {preview(wire)}")
    if not isinstance(request, dict):
        raise InvalidRequest(wire, [f"must be an object, not {preview(request)}"])
    model = request.get("model")
    messages = _require_messages(request.get("messages"), wire)
    raw = tuple([encode_json(message, wire, f"messages[{at}]") for at, message in enumerate(messages)])
    last_user = max((at for at, message in enumerate(messages) if message["role"] == "user"), default=-1)
    return IncomingRequest(
        model=clean_text(model) if isinstance(model, str) else "",
        system=_read_system_prompt(request, wire),
        turns=tuple([_cached_turn(each, wire, at > last_user) for at, each in enumerate(raw)]),
        raw=raw,
        tools=read_tools(request, wire),
        completion=requested_max_output(request),
    )


def _require_messages(messages: object, wire: IncomingWire) -> list[dict[str, Any]]:
    if not isinstance(messages, list):
        raise InvalidRequest(wire, [f"messages: must be a list of messages, not {preview(messages)}"])
    if not messages:
        raise InvalidRequest(wire, ["messages: must not be empty"])
    for at, message in enumerate(messages):
        if not isinstance(message, dict):
            raise InvalidRequest(wire, [f"messages[{at}]: must be an object, not {preview(message)}"])
        if not isinstance(message.get("role"), str):
            raise InvalidRequest(wire, [f"messages[{at}].role: must be a text, not {preview(message.get('role'))}"])
    return messages


def _cached_turn(raw: bytes, wire: IncomingWire, current: bool) -> IncomingTurn:  # noqa: FBT001 - a key of the memo
    """Read a message. A conversation comes again with every turn, so that nearly all of it was read before."""
    if len(raw) <= _SHORT_BYTES:
        return _read_short_turn(raw, wire, current)
    return _read_long_turn(raw, wire, current) if len(raw) <= _LONG_BYTES else _read_turn(raw, wire, current)


def _read_turn(raw: bytes, wire: IncomingWire, current: bool) -> IncomingTurn:  # noqa: FBT001
    message = msgspec.json.decode(raw)
    said = _READERS[wire].read_turn(message, current=current)
    return IncomingTurn(said=said, frame=_make_message_frame(message, said))


_read_short_turn: Final = lru_cache(16_384)(_read_turn)
_read_long_turn: Final = lru_cache(2_048)(_read_turn)


def _make_message_frame(message: dict[str, Any], said: tuple[Message, ...]) -> Any:
    match message, said[0].parts:
        case {"role": role, "content": str(text)}, (Text(text=read),) if list(message) == ["role", "content"]:
            if role == said[0].role and text == read:
                return None
    return replace_with_holes(message, [part_text(part) for each in said for part in each.parts])


def _read_system_prompt(request: Request, wire: IncomingWire) -> tuple[Message, ...]:
    if wire != "anthropic" or not request.get(SYSTEM_ID):
        return ()
    return _cached_system(encode_json(request[SYSTEM_ID], wire, SYSTEM_ID))


def read_tools(request: Request, wire: IncomingWire) -> tuple[Tool, ...]:
    """Return the tools on offer, whatever their form."""
    offered = {key: request[key] for key in ("tools", "functions") if request.get(key)}
    return _cached_tools(encode_json(offered, wire, "tools"), wire) if offered else ()


@lru_cache(256)
def _cached_system(raw: bytes) -> tuple[Message, ...]:
    return anthropic.read_system(msgspec.json.decode(raw))


@lru_cache(256)
def _cached_tools(raw: bytes, wire: IncomingWire) -> tuple[Tool, ...]:
    return tuple(_READERS[wire].read_tools(msgspec.json.decode(raw)))


def encode_json(value: object, wire: IncomingWire, place: str) -> bytes:
    """Return JSON; lone surrogates are replaced, for no provider takes them."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(clean_data(value))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidRequest(wire, [f"{place}: must be plain JSON data ({error})"]) from None


def requested_max_output(request: Request) -> int | None:
    """Return how much may be answered, if it is said and can be meant."""
    for field in ("max_completion_tokens", "max_tokens"):
        if is_whole_number(request.get(field)):
            return int(request[field])
    return None


_SYSTEM_ROLES: Final = ("system", "developer")  # roles that are not of the conversation


def make_frame(request: Request, given: IncomingRequest, wire: IncomingWire, *, user_first: bool) -> Frame:
    """Return the request without what was read from it."""
    system = [part_text(part) for message in given.system for part in message.parts]
    said = {key: None if key == "messages" else value for key, value in request.items()}
    fields = msgspec.json.decode(encode_json(said, wire, "request"))
    if system:
        fields[SYSTEM_ID] = replace_with_holes(fields[SYSTEM_ID], system)
    return Frame(wire=wire, fields=fields, messages=tuple([turn.frame for turn in given.turns]), user_first=user_first)


class IncomingRenderer(msgspec.Struct, frozen=True):
    """Writes a given request with the messages of a prompt, and reads it back as tolerantly as it was read before.

    `raw` are the messages of the request as JSON, where they are at hand and none of them can have been cut.
    """

    frame: Frame
    raw: Sequence[bytes] = ()

    @property
    def names_in_text(self) -> bool:
        """Names stay where the caller put them."""
        return False

    def stand_in(self, media: Media, role: Role) -> Text | None:
        """Return nothing: whether a medium can be seen is for the provider to say."""
        del media, role
        return None

    def render(self, prompt: Prompt, *, window: int) -> Request:
        """Write the request with the messages that the prompt holds, in their order, and all else as it was."""
        del window
        said = _parts_by_position(prompt.messages)
        system = [part_text(part) for _, part in said.pop(-1, ())]
        messages = [self._message(place, said[place]) for place in sorted(said)]
        if self._wants_opening(messages, said):
            at = next(at for at, message in enumerate(messages) if message["role"] not in _SYSTEM_ROLES)
            messages.insert(at, {"role": "user", "content": OPENING})
        fields = self.frame.fields
        return {
            key: messages if key == "messages" else fill_holes(value, system) if key == SYSTEM_ID else value
            for key, value in fields.items()
        }

    def parse(self, request: Request) -> Prompt:
        """Read it back for counting."""
        return read_incoming(request, self.frame.wire).prompt

    def _message(self, place: int, said: Sequence[tuple[Role, Part]]) -> dict[str, Any]:
        if self.raw:
            as_it_was: dict[str, Any] = msgspec.json.decode(self.raw[place])
            return as_it_was
        frame = self.frame.messages[place]
        if frame is None:
            role, part = said[0]
            return {"role": role, "content": part_text(part)}
        message: dict[str, Any] = fill_holes(frame, [part_text(part) for _, part in said])
        return message

    def _wants_opening(self, messages: Sequence[dict[str, Any]], kept: Collection[int]) -> bool:
        """Say whether the conversation would begin with somebody else than the user, where it did not before."""
        if not self.frame.user_first or len(kept) == len(self.frame.messages):
            return False
        first = next((message["role"] for message in messages if message["role"] not in _SYSTEM_ROLES), "user")
        return first != "user"


def _parts_by_position(messages: Sequence[Message]) -> dict[int, list[tuple[Role, Part]]]:
    said: dict[int, list[tuple[Role, Part]]] = {}
    for message in messages:
        for source in message.sources:
            said.setdefault(message_index(source), []).extend((message.role, part) for part in message.parts)
    return said


_OUR_FIELDS: Final = ("system", "messages")


class ClientFieldsRenderer(msgspec.Struct, frozen=True):
    """Writes the messages of a prompt as its wire does, and every other field as the caller did.

    What a caller's tools are is for the provider to judge: they are counted, whatever their form.
    """

    wire: Renderer
    frame: Frame

    @property
    def names_in_text(self) -> bool:
        """Names stand where the wire has them."""
        return self.wire.names_in_text

    def stand_in(self, media: Media, role: Role) -> Text | None:
        """Return what the wire puts in the place of a medium."""
        return self.wire.stand_in(media, role)

    def render(self, prompt: Prompt, *, window: int) -> Request:
        """Write the request."""
        written = self.wire.render(
            _limit_breakpoints(prompt, MAX_BREAKPOINTS - _breakpoints(self.frame.fields)), window=window
        )
        theirs = {key: value for key, value in self.frame.fields.items() if key not in _OUR_FIELDS}
        return theirs | {key: written[key] for key in _OUR_FIELDS if key in written}

    def parse(self, request: Request) -> Prompt:
        """Read it back: our messages by the rules of the wire, the tools as they come."""
        ours = {key: value for key, value in request.items() if key in _OUR_FIELDS}
        prompt = self.wire.parse({"model": "(any)", "max_tokens": 1} | ours)
        model = request.get("model")
        return msgspec.structs.replace(
            prompt,
            model=model if isinstance(model, str) else "",
            tools=read_tools(request, self.frame.wire),
            max_output=requested_max_output(request),
        )


def _breakpoints(fields: dict[str, Any]) -> int:
    """Count the breakpoints that a caller set: on tools, or once for the whole request."""
    tools = fields.get("tools")
    marked = [fields, *(tools if isinstance(tools, list) else ())]
    return sum(isinstance(each, dict) and each.get("cache_control") is not None for each in marked)


def _limit_breakpoints(prompt: Prompt, left: int) -> Prompt:
    """Return a prompt with so many breakpoints at the most: the first, the most stable one, and the latest."""
    marked = [at for at, message in enumerate(prompt.messages) if message.cache]
    if len(marked) <= left:
        return prompt
    kept = {*marked[: min(1, max(0, left))], *marked[len(marked) - max(0, left - 1) :]}
    messages = tuple(_with_cache_mark(message, at in kept) for at, message in enumerate(prompt.messages))
    return msgspec.structs.replace(prompt, messages=messages)


def _with_cache_mark(message: Message, cache: bool) -> Message:  # noqa: FBT001 - whether it is
    return message if message.cache == cache else msgspec.structs.replace(message, cache=cache)
