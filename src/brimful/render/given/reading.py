"""A request of any wire that can be given → what it says."""

from functools import lru_cache
from typing import Any, Final, Literal

import msgspec

from brimful.core.check import is_whole, shown
from brimful.core.content import clean_text
from brimful.core.frame import SYSTEM, punched, text_of
from brimful.core.prompt import Message, Prompt, Request, Text, Tool, clean_data
from brimful.errors import InvalidRequest, InvalidValue
from brimful.render.given import anthropic, openai

GivenWire = Literal["openai", "anthropic"]
_READERS: Final = {"openai": openai, "anthropic": anthropic}
GIVEN_WIRES: Final = tuple(_READERS)

_SHORT: Final = 1_024  # bytes of a message; most are shorter
_LONG: Final = 16_384  # bytes; what is longer is read anew each time


class Turn(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A message of the request as one or two of ours, and its frame; None for a role and a plain text.

    Two are needed where a provider lets tools and the user speak in one turn.
    """

    said: tuple[Message, ...]
    frame: Any


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """What a request says: its system prompt where that is no message, its turns, and its tools.

    `raw` are its messages as JSON.
    """

    model: str
    system: tuple[Message, ...]
    turns: tuple[Turn, ...]
    raw: tuple[bytes, ...]
    tools: tuple[Tool, ...]
    completion: int | None

    @property
    def prompt(self) -> Prompt:
        """All of it, for counting."""
        said = tuple([message for turn in self.turns for message in turn.said])
        return Prompt(model=self.model, messages=(*self.system, *said), tools=self.tools, max_output=self.completion)


def read_given(request: object, wire: GivenWire) -> Given:
    """Read a request. Only what is no request at all is refused.

    >>> said = {"role": "user", "content": "Hi", "mood": "good"}
    >>> read_given({"model": "m", "messages": [said]}, "openai").turns[0].said[0].parts
    (Text(text='Hi'),)
    >>> read_given({"messages": "Hi"}, "openai")
    Traceback (most recent call last):
    ...
    brimful.errors.InvalidRequest: openai would refuse this request: messages: must be a list of messages, not 'Hi'
    """
    if wire not in _READERS:
        raise InvalidValue("wire", f"must be one of {', '.join(GIVEN_WIRES)}, not {shown(wire)}")
    if not isinstance(request, dict):
        raise InvalidRequest(wire, [f"must be an object, not {shown(request)}"])
    model = request.get("model")
    messages = _messages(request.get("messages"), wire)
    raw = tuple([plain_json(message, wire, f"messages[{at}]") for at, message in enumerate(messages)])
    last_user = max((at for at, message in enumerate(messages) if message["role"] == "user"), default=-1)
    return Given(
        model=clean_text(model) if isinstance(model, str) else "",
        system=_system(request, wire),
        turns=tuple([_turn(each, wire, at > last_user) for at, each in enumerate(raw)]),
        raw=raw,
        tools=tools_of(request, wire),
        completion=completion_of(request),
    )


def _messages(messages: object, wire: GivenWire) -> list[dict[str, Any]]:
    if not isinstance(messages, list):
        raise InvalidRequest(wire, [f"messages: must be a list of messages, not {shown(messages)}"])
    if not messages:
        raise InvalidRequest(wire, ["messages: must not be empty"])
    for at, message in enumerate(messages):
        if not isinstance(message, dict):
            raise InvalidRequest(wire, [f"messages[{at}]: must be an object, not {shown(message)}"])
        if not isinstance(message.get("role"), str):
            raise InvalidRequest(wire, [f"messages[{at}].role: must be a text, not {shown(message.get('role'))}"])
    return messages


def _turn(raw: bytes, wire: GivenWire, current: bool) -> Turn:  # noqa: FBT001 - a key of the memo
    """Read a message. A conversation comes again with every turn, so that nearly all of it was read before."""
    if len(raw) <= _SHORT:
        return _read_short(raw, wire, current)
    return _read_long(raw, wire, current) if len(raw) <= _LONG else _read(raw, wire, current)


def _read(raw: bytes, wire: GivenWire, current: bool) -> Turn:  # noqa: FBT001
    message = msgspec.json.decode(raw)
    said = _READERS[wire].read_turn(message, current=current)
    return Turn(said=said, frame=_framed(message, said))


_read_short: Final = lru_cache(16_384)(_read)
_read_long: Final = lru_cache(2_048)(_read)


def _framed(message: dict[str, Any], said: tuple[Message, ...]) -> Any:
    match message, said[0].parts:
        case {"role": role, "content": str(text)}, (Text(text=read),) if list(message) == ["role", "content"]:
            if role == said[0].role and text == read:
                return None
    return punched(message, [text_of(part) for each in said for part in each.parts])


def _system(request: Request, wire: GivenWire) -> tuple[Message, ...]:
    if wire != "anthropic" or not request.get(SYSTEM):
        return ()
    return _read_system(plain_json(request[SYSTEM], wire, SYSTEM))


def tools_of(request: Request, wire: GivenWire) -> tuple[Tool, ...]:
    """Return the tools on offer, whatever their form."""
    offered = {key: request[key] for key in ("tools", "functions") if request.get(key)}
    return _read_tools(plain_json(offered, wire, "tools"), wire) if offered else ()


@lru_cache(256)
def _read_system(raw: bytes) -> tuple[Message, ...]:
    return anthropic.read_system(msgspec.json.decode(raw))


@lru_cache(256)
def _read_tools(raw: bytes, wire: GivenWire) -> tuple[Tool, ...]:
    return tuple(_READERS[wire].read_tools(msgspec.json.decode(raw)))


def plain_json(value: object, wire: GivenWire, place: str) -> bytes:
    """Return JSON; lone surrogates are replaced, for no provider takes them."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(clean_data(value))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidRequest(wire, [f"{place}: must be plain JSON data ({error})"]) from None


def completion_of(request: Request) -> int | None:
    """Return how much may be answered, if it is said and can be meant."""
    for field in ("max_completion_tokens", "max_tokens"):
        if is_whole(request.get(field)):
            return int(request[field])
    return None
