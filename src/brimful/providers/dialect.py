"""What all dialects share: the protocol, and drafts that replies are read into, whole or streamed."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from brimful.core.content import Text, ToolCall
from brimful.core.decode import decode_json
from brimful.core.model import Wire
from brimful.core.prompt import Request
from brimful.core.validation import MAX_INTEGER
from brimful.errors import ProviderError, ProviderUnavailable
from brimful.providers.errors import ErrorSource, make_provider_error
from brimful.providers.event_stream import EventDecoder, StreamEvent
from brimful.records import Usage
from brimful.records.reply import FinishReason, Reply, ReplyChunk

if TYPE_CHECKING:
    from brimful.providers.connection import Connection


JsonObject = dict[str, Any]


class _CallDraft(msgspec.Struct, kw_only=True):
    """A call of which more may come."""

    id: str = ""
    name: str = ""
    arguments: list[str] = []


class Draft(ABC):
    """What has been said so far. A dialect says how to `take` what its server sends, at once or piece by piece.

    `begun` says that something of an answer was there, `finish` why it ended, if it has. `seed` tells answers apart
    where they have no id.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self.begun = False
        self.finish: FinishReason | None = None
        self.usage: Usage | None = None
        self.model = ""
        self.id = ""
        self.seed = ""
        self._parts: list[list[str] | _CallDraft] = []
        self._calls: dict[int, _CallDraft] = {}

    @abstractmethod
    def take(self, said: JsonObject) -> ReplyChunk:
        """Take in what a server sent, and return what is new in it. Fields of no use are passed over."""

    def reply(self, unended: FinishReason = "other") -> Reply:
        """Return the answer as far as it has come; `unended` is its finish where none was told."""
        parts = tuple(part for index, told in enumerate(self._parts) if (part := self._part(index, told)) is not None)
        finish = self.finish or unended
        if finish == "stop" and any(isinstance(part, ToolCall) for part in parts):
            finish = "tool-calls"  # not every server tells the two apart
        return Reply(parts=parts, finish=finish, usage=self.usage, model=self.model, id=self.id)

    def say(self, text: str) -> str:
        """Add to what is said, and return it."""
        if text:
            if not self._parts or isinstance(self._parts[-1], _CallDraft):
                self._parts.append([])
            told = self._parts[-1]
            if isinstance(told, list):
                told.append(text)
        return text

    def call(self, key: int | None, *, id: str = "", name: str = "", arguments: str = "") -> None:
        """Add to the call of this key, or begin one that is whole (None).

        Where calls are streamed in bits, the name comes first, then the arguments.
        """
        call = None if key is None else self._calls.get(key)
        if call is None or (id and call.id and id != call.id):  # some servers give all calls one index
            call = _CallDraft()
            self._parts.append(call)
            if key is not None:
                self._calls[key] = call
        call.id = call.id or id
        call.name = call.name or name
        if arguments:
            call.arguments.append(arguments)

    def _part(self, index: int, told: list[str] | _CallDraft) -> Text | ToolCall | None:
        if isinstance(told, list):
            return Text(text="".join(told))
        if not told.name:
            return None
        arguments = "".join(told.arguments) or "{}"
        return ToolCall(id=told.id or self._call_id(index, told.name), name=told.name, arguments=arguments)

    def _call_id(self, index: int, name: str) -> str:
        """Make up an id where a server gives none, the same each time that this answer is read."""
        digest = hashlib.blake2b(f"{self.id}{self.seed}:{index}:{name}".encode(), digest_size=8)
        return f"call_{digest.hexdigest()}"


def make_usage(*, prompt: int, cached: int = 0, completion: int, reasoning: int = 0) -> Usage:
    """Return a usage that holds together, whatever a server tells: no part is larger than its whole.

    >>> make_usage(prompt=9, cached=12, completion=2)
    Usage(prompt=9, cached=9, completion=2, reasoning=0)
    """
    prompt, completion = min(prompt, MAX_INTEGER), min(completion, MAX_INTEGER)
    return Usage(prompt=prompt, cached=min(cached, prompt), completion=completion, reasoning=min(reasoning, completion))


def join_pieces(pieces: Iterable[ReplyChunk]) -> ReplyChunk:
    """Return several pieces as one."""
    told = list(pieces)
    return ReplyChunk(text="".join(piece.text for piece in told), thought="".join(piece.thought for piece in told))


def as_object(value: object) -> JsonObject:
    """Return an object, or an empty one in place of anything else."""
    return value if isinstance(value, dict) else {}


def as_objects(value: object) -> list[JsonObject]:
    """Return the objects of a list, and none of anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def as_string(value: object) -> str:
    """Return a text, or an empty one in place of anything else."""
    return value if isinstance(value, str) else ""


def as_count(value: object) -> int:
    """Return a whole number from 0 on, of tokens or a place, or 0 in place of anything else."""
    return value if type(value) is int and 0 <= value <= MAX_INTEGER else 0


_DONE: Final = b"[DONE]"
_STOP_EVENT: Final = "message_stop"  # Anthropic's word for it


class Dialect(Protocol):
    """One sort of API. Nothing of it does any I/O but `count`."""

    @property
    def wire(self) -> Wire:
        """The form of its requests."""
        ...

    def headers(self, key: str) -> Mapping[str, str]:
        """Return the headers that every request needs, with the key in them if there is one."""
        ...

    def path(self, request: Request, *, stream: bool) -> str:
        """Return where a request goes, below the server's address."""
        ...

    def body(self, request: Request, *, stream: bool) -> bytes:
        """Write a request for an answer at once or piece by piece; all fields of it go through."""
        ...

    def read(self, body: bytes, route: str = "") -> Reply:
        """Read an answer that came at once; raise `ProviderError` and its kinds if it is none."""
        ...

    def reader(self, route: str = "") -> "Reader":
        """Return a reader for one answer that comes piece by piece."""
        ...

    async def count(self, connection: "Connection", request: Request) -> int | None:
        """Ask the server for the tokens of a request's prompt; None if it cannot tell."""
        ...


class Reader:
    """Reads one stream: `feed` it the bytes as they come, cut anywhere; `end` it when no more do.

    It raises `ProviderError` and its kinds for an error that stands in the stream. Events and fields that it does not
    know are passed over.
    """

    def __init__(self, draft: Draft, frames: EventDecoder, route: str) -> None:
        """Take what the dialect's answers are made of."""
        self._draft = draft
        self._frames = frames
        self._route = route
        self._done = False
        self._error: ProviderError | None = None

    @property
    def so_far(self) -> Reply:
        """What has come of the answer, whether or not it is all."""
        return self._draft.reply("other" if self._done else "broken-off")

    @property
    def over(self) -> bool:
        """Whether the server said that this is all."""
        return self._done

    def feed(self, chunk: bytes) -> list[ReplyChunk]:
        """Take in some bytes, and return what can be said now."""
        return self._read(self._frames.feed(chunk))

    def last(self) -> list[ReplyChunk]:
        """Return what can still be said when no more bytes come: not every server ends its last event as it should."""
        return self._read([event for event in self._frames.end() if _is_complete(event.data)])

    def end(self) -> Reply:
        """Return the whole answer; raise `ProviderUnavailable` if the stream ended before it did."""
        self.last()
        if self._draft.finish is None and not (self._done and self._draft.begun):
            raise ProviderUnavailable(self._route, "the answer broke off: the stream ended before it was whole")
        return self._draft.reply()

    def _read(self, events: list[StreamEvent]) -> list[ReplyChunk]:
        """Read events. What was said before an error is told first: the error comes with the next call."""
        if self._error is not None:
            raise self._error
        pieces: list[ReplyChunk] = []
        for event in events:
            try:
                piece = self._take(event)
            except ProviderError as error:
                if not pieces:
                    raise
                self._error = error
                break
            if piece is not None:
                pieces.append(piece)
        return pieces

    def _take(self, event: StreamEvent) -> ReplyChunk | None:
        if event.data.strip() == _DONE or event.name == _STOP_EVENT:
            self._done = True
            return None
        piece = feed_draft(self._draft, event.data, self._route, failed=event.name == "error")
        return piece if piece.text or piece.thought else None


def _is_complete(data: bytes) -> bool:
    try:
        return data.strip() == _DONE or isinstance(decode_json(data), dict)
    except ValueError:
        return False


def parse_reply(draft: Draft, body: bytes, route: str) -> Reply:
    """Read an answer that came at once."""
    feed_draft(draft, body, route)
    if not draft.begun:
        raise ProviderError(route, "the answer has nothing in it that could be read", body=body)
    return draft.reply()


def parse_count(body: bytes, field: str) -> int | None:
    """Return the number in the field of an answer that tells a count; None if there is none.

    >>> parse_count(b'{"input_tokens": 812}', "input_tokens"), parse_count(b"<html>", "input_tokens")
    (812, None)
    """
    try:
        told = decode_json(body)
    except ValueError:
        return None
    return as_count(as_object(told).get(field)) or None


def feed_draft(draft: Draft, data: bytes, route: str, *, failed: bool = False) -> ReplyChunk:
    """Put a JSON object into a draft; raise if it is an error, or nothing that can be read."""
    if failed:
        raise make_provider_error(ErrorSource(route=route), None, data)
    try:
        said = decode_json(data)
    except ValueError as error:
        raise ProviderError(route, f"the answer cannot be read: it {error}", body=data) from None
    if not isinstance(said, dict):
        raise ProviderError(route, "the answer cannot be read: it is no object", body=data)
    if said.get("error"):
        raise make_provider_error(ErrorSource(route=route), None, data)
    return draft.take(said)
