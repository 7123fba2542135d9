"""Requests that a client wrote: read as they are, and written again with some of their messages.

These readers are more tolerant than the others. The request is the client's, and the provider decides whether it is
valid; here it only has to be counted, and what belongs together has to stay together.
"""

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any, Final

import msgspec

from brimful.cache import content_bytes, memoize
from brimful.core.chat_rules import OPENING
from brimful.core.content import Media, Part, Role, Text, ToolCall
from brimful.core.context import Inputs
from brimful.core.frame import (
    Frame,
    LeftOut,
    fill_holes,
    message_index,
    message_order,
    part_text,
    replace_with_holes,
    with_low_detail,
    with_text_blocks,
)
from brimful.core.media import MediaLine
from brimful.core.own_output import has_lines
from brimful.core.prompt import Message, Prompt, Renderer, Request, Tool
from brimful.core.selection import LEDGER_ID
from brimful.core.validation import clean_text, preview
from brimful.errors import InvalidRequest
from brimful.wires.call_names import pair_by_name
from brimful.wires.encode import encode_json
from brimful.wires.registry import find_incoming_wire, find_written_wire
from brimful.wires.tools import find_functions, replace_functions
from brimful.wires.wire import LIMIT_FIELDS, Wire, has_limit

_MAX_CACHED_BYTES: Final = 16_384  # of a message; longer ones are not cached
_TURN_BYTES: Final = 1_200  # memory of a message besides its texts
_TURN_COPIES: Final = 3  # of a text in the cache: as JSON, as a string, and in a frame or a part
_SYSTEM_ROLES: Final = ("system", "developer")  # roles that are not of the conversation
_USER_ROLES: Final = (*_SYSTEM_ROLES, "user")
_MODEL_PREFIX: Final = "models/"  # of Gemini's models in a request
_ROLE_AND_TEXT: Final = ("role", "content")
_ANY_PROMPT: Final = Prompt(model="(any)", messages=(), max_output=1)  # whose other fields are valid
_TOOLS: Final = "tools"


class IncomingTurn(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A message of the request as one or two neutral messages, and its frame.

    Two are needed if a turn contains both tool results and the user's words. The frame is None for a role and a text.
    `reasoning` are the parts with the model's reasoning, by index.
    """

    messages: tuple[Message, ...]
    frame: Any
    reasoning: tuple[int, ...] = ()


class IncomingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed request: its separate system prompt, if any, its turns, its tools, and its messages as JSON (`raw`).

    A message that is a role and a text has an empty `raw`: its turn says all about it. `ties` are turns that belong
    together for other reasons than their tool calls, and `pinned` those that must stay, by index. `reasoning` are the
    parts of each turn that the provider does not need; it is empty if there are none.
    """

    model: str
    system: tuple[Message, ...]
    turns: tuple[IncomingTurn, ...]
    raw: tuple[bytes, ...]
    tools: tuple[Tool, ...]
    completion: int | None
    ties: tuple[tuple[int, ...], ...] = ()
    pinned: tuple[int, ...] = ()
    reasoning: tuple[tuple[int, ...], ...] = ()

    @property
    def prompt(self) -> Prompt:
        """The whole request, for counting."""
        messages = [message for turn in self.turns for message in turn.messages]
        return Prompt(
            model=self.model, messages=(*self.system, *messages), tools=self.tools, max_output=self.completion
        )


def read_incoming(request: object, name: str) -> IncomingRequest:
    """Read a request in the format with this name. Only input that is not a request at all is refused.

    >>> message = {"role": "user", "content": "Hi", "mood": "good"}
    >>> read_incoming({"model": "m", "messages": [message]}, "openai").turns[0].messages[0].parts
    (Text(text='Hi'),)
    >>> read_incoming({"messages": "Hi"}, "openai")
    Traceback (most recent call last):
    ...
    brimful.errors.InvalidRequest: openai would refuse this request: messages: must be a list of messages, not 'Hi'
    """
    wire = find_incoming_wire(name)
    field = wire.message_field
    if not isinstance(request, dict):
        reason = f"must be an object with a list of '{field}', not {preview(request)}"
        if isinstance(request, list):
            reason = f"pass the whole request, not only its list: {{'{field}': [...]}}"
        raise InvalidRequest(wire.provider, [reason])
    model = request.get("model")
    is_text = wire.takes_text and isinstance(request.get(field), str)
    messages = [] if is_text else _require_messages(request.get(field), wire)
    turns, raw = _read_text_input(request[field], wire) if is_text else _read_turns(messages, wire)
    return IncomingRequest(
        model=clean_text(model).removeprefix(_MODEL_PREFIX) if isinstance(model, str) else "",
        system=_read_system_prompt(request, wire),
        turns=tuple(turns),
        raw=tuple(raw),
        tools=read_tools(request, wire),
        completion=wire.read_max_output(request),
        ties=wire.find_ties(messages),
        pinned=wire.find_pinned(messages),
        reasoning=_find_removable_reasoning(messages, turns, wire),
    )


def _read_turns(messages: Sequence[dict[str, Any]], wire: Wire) -> tuple[list[IncomingTurn], list[bytes]]:
    """Return messages as turns, and as JSON."""
    last_user = max((index for index, message in enumerate(messages) if message.get("role") == "user"), default=-1)
    turns: list[IncomingTurn] = []
    raw: list[bytes] = []
    for index, message in enumerate(messages):
        if (*message,) == _ROLE_AND_TEXT and type(text := message["content"]) is str:  # as most messages are
            read = _read_cached_text_turn if len(text) <= _MAX_CACHED_BYTES else _read_text_turn
            turn = read(message["role"], text, wire)
            if turn.frame is None:
                turns.append(turn)
                raw.append(b"")
                continue
        encoded = encode_json(message, wire.provider, f"{wire.message_field}[{index}]")
        turns.append(_cached_turn(encoded, wire, index > last_user))
        raw.append(encoded)
    if wire.pairs_by_name:
        paired = pair_by_name([turn.messages for turn in turns])
        turns = [msgspec.structs.replace(turn, messages=each) for each, turn in zip(paired, turns, strict=True)]
    return turns, raw


def _read_text_input(value: str, wire: Wire) -> tuple[list[IncomingTurn], list[bytes]]:
    """Return the turn of a request whose only message is a string."""
    raw = encode_json(value, wire.provider, wire.message_field)
    text: str = msgspec.json.decode(raw)
    message = Message(role="user", parts=(Text(text=text),))
    return [IncomingTurn(messages=(message,), frame=replace_with_holes(text, [text]))], [raw]


def _find_removable_reasoning(
    messages: list[dict[str, Any]], turns: Sequence[IncomingTurn], wire: Wire
) -> tuple[tuple[int, ...], ...]:
    """Return the parts of each turn with reasoning that the provider does not need."""
    if wire.reasoning is None or not wire.reasoning.is_removable or not any(turn.reasoning for turn in turns):
        return ()
    removable = set(wire.find_removable(messages[: _find_last_answer([turn.messages for turn in turns])]))
    return tuple(turn.reasoning if i in removable else () for i, turn in enumerate(turns))


def _find_last_answer(turns: Sequence[Sequence[Message]]) -> int:
    """Return the index of the user's message that the last answer, with all of its tool calls, is for; 0 without one.

    >>> one, other = (Message(role=role, parts=(Text(text="Hi"),)) for role in ("user", "assistant"))
    >>> _find_last_answer([[one], [other], [one], [other], [one]])
    2
    """
    last = max((i for i, turn in enumerate(turns) if any(each.role == "assistant" for each in turn)), default=0)
    return max((i for i, turn in enumerate(turns[:last]) if all(each.role == "user" for each in turn)), default=0)


def has_tools(request: IncomingRequest) -> bool:
    """Whether the request defines or calls tools, as an agent does, or has a ledger of such calls."""
    messages = [message for turn in request.turns for message in turn.messages]
    return (
        bool(request.tools)
        or any(isinstance(part, ToolCall) for message in messages for part in message.parts)
        or any(map(has_lines, messages))
    )


def _require_messages(messages: object, wire: Wire) -> list[dict[str, Any]]:
    field, provider = wire.message_field, wire.provider
    if not isinstance(messages, list):
        kinds = "a string or a list of items" if wire.takes_text else "a list of messages"
        raise InvalidRequest(provider, [f"{field}: must be {kinds}, not {preview(messages)}"])
    if not messages:
        raise InvalidRequest(provider, [f"{field}: must not be empty"])
    for index, message in enumerate(messages):
        if not isinstance(message, dict):
            raise InvalidRequest(provider, [f"{field}[{index}]: must be an object, not {preview(message)}"])
        if wire.needs_role and not isinstance(message.get("role"), str):
            reason = f"must be a string, not {preview(message.get('role'))}"
            raise InvalidRequest(provider, [f"{field}[{index}].role: {reason}"])
    return messages


def read_message(message: dict[str, Any], wire: Wire, *, current: bool = True) -> tuple[Message, ...]:
    """Read one message as one or two neutral messages. `current` means that no user message follows it."""
    return () if wire.read_turn is None else wire.read_turn(message, current=current)


def _cached_turn(raw: bytes, wire: Wire, current: bool) -> IncomingTurn:  # noqa: FBT001 - part of the cache key
    """Read a message, cached: clients resend the whole conversation with every turn."""
    return (_read_cached_turn if len(raw) <= _MAX_CACHED_BYTES else _read_turn)(raw, wire, current)


def _read_turn(raw: bytes, wire: Wire, current: bool) -> IncomingTurn:  # noqa: FBT001
    return _make_turn(msgspec.json.decode(raw), wire, current=current)


def _read_text_turn(role: str, text: str, wire: Wire) -> IncomingTurn:
    return _make_turn({"role": role, "content": text}, wire, current=True)


def _make_turn(message: dict[str, Any], wire: Wire, *, current: bool) -> IncomingTurn:
    messages = read_message(message, wire, current=current)
    reasoning = wire.find_reasoning(message) if messages[0].role == "assistant" else ()
    return IncomingTurn(messages=messages, frame=_make_message_frame(message, messages), reasoning=reasoning)


def _turn_bytes(raw: bytes) -> int:
    return _TURN_BYTES + _TURN_COPIES * len(raw)


_read_cached_turn: Final = memoize(_read_turn, name="turns", size=lambda args, _: _turn_bytes(args[0]))
_read_cached_text_turn: Final = memoize(
    _read_text_turn, name="turns", size=lambda args, _: _TURN_BYTES + content_bytes(args[1])
)


def _make_message_frame(message: dict[str, Any], messages: tuple[Message, ...]) -> Any:
    match message, messages[0].parts:
        case {"role": role, "content": str(text)}, (Text(text=read),) if (*message,) == _ROLE_AND_TEXT:
            if role == messages[0].role and text == read:
                return None
    return replace_with_holes(message, [part_text(part) for each in messages for part in each.parts])


def _read_system_prompt(request: Request, wire: Wire) -> tuple[Message, ...]:
    field = wire.system_field(request)
    if not field or not request.get(field):
        return ()
    return _cached_system(encode_json(request[field], wire.provider, field), wire)


def read_tools(request: Request, wire: Wire) -> tuple[Tool, ...]:
    """Return the tools of a request, whatever their form."""
    offered = {key: request[key] for key in wire.tool_fields if request.get(key)}
    return _cached_tools(encode_json(offered, wire.provider, "tools"), wire) if offered else ()


def _decode_system(raw: bytes, wire: Wire) -> tuple[Message, ...]:
    return wire.read_system(msgspec.json.decode(raw))


def _decode_tools(raw: bytes, wire: Wire) -> tuple[Tool, ...]:
    return tuple(wire.read_tools(msgspec.json.decode(raw)))


_cached_system: Final = memoize(_decode_system, name="turns", size=lambda args, _: _turn_bytes(args[0]))
_cached_tools: Final = memoize(_decode_tools, name="turns", size=lambda args, _: _turn_bytes(args[0]))


# -- writing -----------------------------------------------------------------------------------------------------------


def make_frame(request: Request, parsed: IncomingRequest, wire: Wire, *, user_first: bool) -> Frame:
    """Return the request without the content that was read from it."""
    system = [part_text(part) for message in parsed.system for part in message.parts]
    rest = {key: None if key == wire.message_field else value for key, value in request.items()}
    fields = msgspec.json.decode(encode_json(rest, wire.provider, "request"))
    if system:
        field = wire.system_field(fields)
        fields[field] = replace_with_holes(fields[field], system)
    messages = tuple([turn.frame for turn in parsed.turns])
    return Frame(wire=wire.name, fields=fields, messages=messages, user_first=user_first)


def renderer_of(inputs: Inputs, raw: Sequence[bytes] = ()) -> Renderer:
    """Return the renderer of a context: the model's wire, or one for the client's own request.

    `raw` are the messages of the client's request, if they are available. If only the client's other fields are kept,
    they are sent with our messages, provided that the wire format is the same.
    """
    frame = inputs.frame
    if frame is not None and frame.messages:
        return IncomingRenderer(find_incoming_wire(frame.wire), frame, inputs.tools, inputs.lowerable_output, raw)
    wire = find_written_wire(inputs.model.wire)
    if frame is None or frame.wire != wire.name:
        return wire
    return ClientFieldsRenderer(wire, frame, inputs.tools, inputs.lowerable_output)


def _with_tools(fields: Request, before: Sequence[Tool], after: Sequence[Tool], wire: Wire) -> Request:
    """Return the fields of a request with its tools replaced by these. New ones are ours, at the end."""
    if before == after:
        return fields
    old, new = ({tool.name: tool for tool in tools} for tools in (before, after))
    changes = {name: new.get(name) for name, tool in old.items() if new.get(name) != tool}
    changed = replace_functions(fields, wire.map_functions, changes)
    added = [wire.write_tool(tool) for tool in after if tool.name not in old]
    return changed | {_TOOLS: [*changed.get(_TOOLS, ()), *added]} if added else changed


def _with_output(fields: Request, before: int | None, after: int | None, wire: Wire) -> Request:
    """Return the fields of a request whose output limit may be lowered with a limit that is not higher than another."""
    return wire.lower_max_output(fields, after) if before and after and after < before else fields


class _ClientRenderer(msgspec.Struct, frozen=True):
    """What a client's request has: its `tools`, and its output limit `max_output` if that may be lowered."""

    wire: Wire
    frame: Frame
    tools: tuple[Tool, ...] = ()
    max_output: int | None = None

    @property
    def detail_provider(self) -> str:
        """Who bills pictures by their detail, as in the wire format."""
        return self.wire.detail_provider

    @property
    def fixed_tools(self) -> frozenset[str]:
        """The names of tools that must stay as they are: the provider's own, and the ones that the request forces."""
        fields, names = self.frame.fields, frozenset(tool.name for tool in self.tools)
        return (names - find_functions(fields, self.wire.map_functions)) | self.wire.find_forced(fields)

    @property
    def can_add_tools(self) -> bool:
        """Whether a tool may be added to the client's own, whose calls the client answers."""
        frame = self.frame
        return frame.is_request and bool(frame.fields.get(_TOOLS)) and not self.wire.has_fixed_tools(frame.fields)


class IncomingRenderer(_ClientRenderer, frozen=True):
    """Writes a client's request with the messages of a prompt, and reads it back.

    `raw` are the messages of the request as JSON, if they are available. Those that were not shortened are sent as they
    came.
    """

    raw: Sequence[bytes] = ()
    names_in_text: bool = False  # names and texts stay as the client wrote them
    is_templated: bool = False

    def media_placeholder(self, media: Media, role: Role) -> Text | None:
        """Return None: the provider decides whether it accepts the media."""
        del media, role
        return None

    def render(self, prompt: Prompt, *, window: int) -> Request:
        """Write the request with the messages, the tools and the output limit of the prompt, and no other changes."""
        del window
        parts = _parts_by_position(prompt.messages)
        system = [part_text(part) for _, part in parts.pop(-1, ())]
        messages = list(self._messages(parts))
        fields = _with_tools(self.frame.fields, self.tools, prompt.tools, self.wire)
        fields = _with_output(fields, self.max_output, prompt.max_output, self.wire)
        field, own = self.wire.message_field, self.wire.system_field(fields)
        return {
            key: _as_sent(messages) if key == field else fill_holes(value, system) if own and key == own else value
            for key, value in fields.items()
        }

    def parse(self, request: Request) -> Prompt:
        """Read it back for counting."""
        return self.wire.with_body(read_incoming(request, self.wire.name).prompt, request)

    def _message(self, position: int, parts: Sequence[tuple[Role, Part]]) -> dict[str, Any]:
        frame = self.frame.messages[position]
        if frame is None:
            role, part = parts[0]
            return self.wire.write_text(role, part_text(part))
        texts = [part_text(part) for _, part in parts]
        if lines := {i for i, (_, part) in enumerate(parts) if isinstance(part, MediaLine)}:
            frame = with_text_blocks(frame, lines, self.wire.text_type)
        if low := {i for i, (_, part) in enumerate(parts) if isinstance(part, Media) and part.detail == "low"}:
            frame = with_low_detail(frame, low)
        message = self.wire.repair(fill_holes(frame, texts))
        if any(isinstance(part, LeftOut) for _, part in parts):
            message = self.wire.without_reasoning(message)
        if self.raw:
            original: dict[str, Any] = msgspec.json.decode(self.raw[position])
            return original if original == message else message
        return message

    def _messages(self, parts: dict[float, list[tuple[Role, Part]]]) -> Iterator[Any]:
        """Yield the messages. Where turns are left out, the user speaks before the assistant does if that must be."""
        before, must_alternate = "assistant", self.frame.user_first and not self.wire.user_first
        for position in sorted(parts):
            own = parts[position]
            if own and isinstance(own[0][1], LeftOut) and all(isinstance(part, LeftOut) for _, part in own):
                continue
            is_ours = not position.is_integer()
            message = (
                self.wire.write_text("user", part_text(own[0][1])) if is_ours else self._message(int(position), own)
            )
            if not self.frame.user_first:
                yield message
                continue
            role = self.wire.get_role(message) if isinstance(message, dict) else "user"
            follows_gap = position > 0 and position - 1 not in parts
            if follows_gap and before == "assistant" and role not in _USER_ROLES:
                yield self.wire.write_text("user", OPENING)
            elif must_alternate and follows_gap and before == role == "user":
                yield self.wire.write_text("assistant", OPENING)
            before = before if role in _SYSTEM_ROLES else role
            yield message


def _as_sent(messages: list[Any]) -> Any:
    """Return the messages, or the only one if it was a string."""
    return messages[0] if messages and isinstance(messages[0], str) else messages


def _parts_by_position(messages: Sequence[Message]) -> dict[float, list[tuple[Role, Part]]]:
    """Return the parts by the position of their message. A ledger comes half a position after the message before it."""
    parts: dict[float, list[tuple[Role, Part]]] = {}
    rows = [(source, message) for message in messages for source in message.sources]
    for row, (source, message) in enumerate(rows):
        if source == LEDGER_ID:
            position = message_index(rows[row - 1][0]) if row else -1
            parts[position + 0.5] = [(message.role, part) for part in message.parts]
    own = [(message_order(source), message) for source, message in rows if source != LEDGER_ID]
    for (index, _), message in sorted(own, key=itemgetter(0)):
        role = message.role
        parts.setdefault(float(index), []).extend([(role, part) for part in message.parts])
    return parts


class ClientFieldsRenderer(_ClientRenderer, frozen=True):
    """Writes the messages of a prompt in a wire format, and all other fields as the client sent them.

    A client's whole request has a model. Fields without one are added to ours, and override them.

    The client's tools are counted in any form; the provider decides whether they are valid.
    """

    @property
    def names_in_text(self) -> bool:
        """Whether names are written into the text, as in the wire format."""
        return self.wire.names_in_text

    @property
    def is_templated(self) -> bool:
        """Whether servers parse special tokens in texts, as in the wire format."""
        return self.wire.is_templated

    def media_placeholder(self, media: Media, role: Role) -> Text | None:
        """Return the text that replaces media, as in the wire format."""
        return self.wire.media_placeholder(media, role)

    def render(self, prompt: Prompt, *, window: int) -> Request:
        left = self.wire.max_breakpoints - _breakpoints(self.frame.fields)
        written = self.wire.render(_limit_breakpoints(prompt, left), window=window)
        fields = _with_tools(self.frame.fields, self.tools, prompt.tools, self.wire)
        fields = _with_output(fields, self.max_output, prompt.max_output, self.wire)
        own = self.wire.own_fields(fields)
        theirs = {key: value for key, value in fields.items() if key not in own}
        if not self.frame.is_request:
            limited = has_limit(theirs)
            ours = {key: value for key, value in written.items() if not (limited and key in LIMIT_FIELDS)}
            return ours | theirs
        return theirs | {key: value for key, value in written.items() if key in own}

    def parse(self, request: Request) -> Prompt:
        """Read the request back: messages by the rules of the wire format, tools in any form."""
        own = self.wire.own_fields(request)
        ours = {key: value for key, value in request.items() if key in own}
        prompt = self.wire.parse(self.wire.render(_ANY_PROMPT, window=1) | ours)
        model = request.get("model")
        return msgspec.structs.replace(
            prompt,
            model=model if isinstance(model, str) else "",
            tools=read_tools(request, self.wire),
            max_output=self.wire.read_max_output(request),
            body=request if self.wire.keeps_body else None,
        )


def _breakpoints(fields: dict[str, Any]) -> int:
    """Count the client's cache breakpoints, on tools or on the whole request."""
    tools = fields.get("tools")
    marked = [fields, *(tools if isinstance(tools, list) else ())]
    return sum(isinstance(each, dict) and each.get("cache_control") is not None for each in marked)


def _limit_breakpoints(prompt: Prompt, left: int) -> Prompt:
    """Return a prompt with at most `left` breakpoints: the first, which is the most stable, and the latest ones."""
    marked = [i for i, message in enumerate(prompt.messages) if message.cache]
    if len(marked) <= left:
        return prompt
    selected = {*marked[: min(1, max(0, left))], *marked[len(marked) - max(0, left - 1) :]}
    messages = tuple(_with_cache_mark(message, i in selected) for i, message in enumerate(prompt.messages))
    return msgspec.structs.replace(prompt, messages=messages)


def _with_cache_mark(message: Message, cache: bool) -> Message:  # noqa: FBT001 - the new value
    return message if message.cache == cache else msgspec.structs.replace(message, cache=cache)
