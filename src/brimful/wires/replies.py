"""Drafts that replies are read into, whole or streamed, and what their readers share."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from brimful.core.content import Text, ToolCall
from brimful.core.validation import MAX_INTEGER, decode_json
from brimful.errors import ProviderError, ProviderUnavailable
from brimful.records import Usage
from brimful.records.reply import FinishReason, Reply, ReplyChunk
from brimful.wires.errors import ErrorSource, make_provider_error
from brimful.wires.event_stream import EventDecoder, StreamEvent

JsonObject = dict[str, Any]
_DONE: Final = b"[DONE]"
_STOP_EVENT: Final = "message_stop"  # Anthropic's word for it


class _CallDraft(msgspec.Struct, kw_only=True):
    """A tool call that may be incomplete."""

    id: str = ""
    name: str = ""
    arguments: list[str] = []


class Draft(ABC):
    """A reply in progress. Each dialect implements `add` for what its server sends, whole or in pieces.

    `has_started` is True once a part of the answer has arrived, `finish` is why it ended. `seed` distinguishes answers
    without an id. `is_over` is True once the server has sent everything, if its format says so.
    """

    def __init__(self) -> None:
        self.has_started = False
        self.is_over = False
        self.finish: FinishReason | None = None
        self.usage: Usage | None = None
        self.model = ""
        self.id = ""
        self.seed = ""
        self._parts: list[list[str] | _CallDraft] = []
        self._calls: dict[int, _CallDraft] = {}

    @abstractmethod
    def add(self, data: JsonObject) -> ReplyChunk:
        """Add a piece of the server's stream, and return the new part of the reply. Unknown fields are ignored."""

    def reply(self, default_finish: FinishReason = "other") -> Reply:
        """Return the reply so far; `default_finish` is used if the server gave no reason."""
        parts = tuple(part for index, draft in enumerate(self._parts) if (part := self._part(index, draft)) is not None)
        finish = self.finish or default_finish
        if finish == "stop" and any(isinstance(part, ToolCall) for part in parts):
            finish = "tool-calls"  # not every server distinguishes the two
        return Reply(parts=parts, finish=finish, usage=self.usage, model=self.model, id=self.id)

    def add_text(self, text: str) -> str:
        """Add text, and return it."""
        if text:
            if not self._parts or isinstance(self._parts[-1], _CallDraft):
                self._parts.append([])
            last = self._parts[-1]
            if isinstance(last, list):
                last.append(text)
        return text

    def add_call(self, key: int | None, *, id: str = "", name: str = "", arguments: str = "") -> None:
        """Add to the tool call with this key, or start a complete one (None).

        In streams, the name comes first, then the arguments in pieces.
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

    def _part(self, index: int, draft: list[str] | _CallDraft) -> Text | ToolCall | None:
        if isinstance(draft, list):
            return Text(text="".join(draft))
        if not draft.name:
            return None
        arguments = "".join(draft.arguments) or "{}"
        return ToolCall(id=draft.id or self._call_id(index, draft.name), name=draft.name, arguments=arguments)

    def _call_id(self, index: int, name: str) -> str:
        """Make an id if the server gave none; it is the same each time that this answer is read."""
        digest = hashlib.blake2b(f"{self.id}{self.seed}:{index}:{name}".encode(), digest_size=8)
        return f"call_{digest.hexdigest()}"


def make_usage(*, prompt: int, cached: int = 0, completion: int, reasoning: int = 0) -> Usage:
    """Return a consistent usage, whatever a server reports: no part is larger than the whole.

    >>> make_usage(prompt=9, cached=12, completion=2)
    Usage(prompt=9, cached=9, completion=2, reasoning=0)
    """
    prompt, completion = min(prompt, MAX_INTEGER), min(completion, MAX_INTEGER)
    return Usage(prompt=prompt, cached=min(cached, prompt), completion=completion, reasoning=min(reasoning, completion))


def join_pieces(pieces: Iterable[ReplyChunk]) -> ReplyChunk:
    """Join several chunks."""
    chunks = list(pieces)
    return ReplyChunk(text="".join(piece.text for piece in chunks), thought="".join(piece.thought for piece in chunks))


def as_object(value: object) -> JsonObject:
    """Return an object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def wants_text(form: object) -> bool:
    """Whether a description of an answer's form asks for text. Texts of several rounds are not one JSON document."""
    return as_object(form).get("type") in (None, "text")


def as_objects(value: object) -> list[JsonObject]:
    """Return the objects of a list; an empty list for anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def as_string(value: object) -> str:
    """Return a string; an empty one for anything else."""
    return value if isinstance(value, str) else ""


def as_count(value: object) -> int:
    """Return a non-negative integer; 0 for anything else."""
    return value if type(value) is int and 0 <= value <= MAX_INTEGER else 0


class Reader:
    """Reads one stream: `feed` it bytes as they arrive, and call `end` at the end.

    Raises a `ProviderError` for an error in the stream. Unknown events and fields are ignored.
    """

    def __init__(self, draft: Draft, frames: EventDecoder, route: str) -> None:
        self._draft = draft
        self._frames = frames
        self._route = route
        self._done = False
        self._error: ProviderError | None = None

    @property
    def partial_reply(self) -> Reply:
        """The reply so far, complete or not."""
        return self._draft.reply("other" if self._done else "broken-off")

    @property
    def is_done(self) -> bool:
        """Whether the server marked the end."""
        return self._done or self._draft.is_over

    def feed(self, chunk: bytes) -> list[ReplyChunk]:
        """Add bytes, and return the new chunks."""
        return self._read(self._frames.feed(chunk))

    def flush(self) -> list[ReplyChunk]:
        """Return the chunks of an unterminated last event, which some servers send."""
        return self._read([event for event in self._frames.end() if _is_complete(event.data)])

    def end(self) -> Reply:
        """Return the complete reply; raise `ProviderUnavailable` if the stream ended too early."""
        self.flush()
        if self._draft.finish is None and not (self._done and self._draft.has_started):
            raise ProviderUnavailable(self._route, "the answer broke off: the stream ended before it was complete")
        return self._draft.reply()

    def _read(self, events: list[StreamEvent]) -> list[ReplyChunk]:
        """Read events. Chunks before an error are returned first; the error is raised by the next call."""
        if self._error is not None:
            raise self._error
        pieces: list[ReplyChunk] = []
        for event in events:
            try:
                piece = self._read_event(event)
            except ProviderError as error:
                if not pieces:
                    raise
                self._error = error
                break
            if piece is not None:
                pieces.append(piece)
        return pieces

    def _read_event(self, event: StreamEvent) -> ReplyChunk | None:
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
    """Parse a complete answer into a draft."""
    feed_draft(draft, body, route)
    if not draft.has_started:
        raise ProviderError(route, "the answer is empty or unreadable", body=body)
    return draft.reply()


def parse_count(body: bytes, field: str) -> int | None:
    """Return the number in a field of an answer; None if there is none.

    >>> parse_count(b'{"input_tokens": 812}', "input_tokens"), parse_count(b"<html>", "input_tokens")
    (812, None)
    """
    try:
        data = decode_json(body)
    except ValueError:
        return None
    return as_count(as_object(data).get(field)) or None


def feed_draft(draft: Draft, data: bytes, route: str, *, failed: bool = False) -> ReplyChunk:
    """Add a JSON object to a draft; raise if it is an error or unreadable."""
    if failed:
        raise make_provider_error(ErrorSource(route=route), None, data)
    try:
        value = decode_json(data)
    except ValueError as error:
        raise ProviderError(route, f"the answer cannot be read: it {error}", body=data) from None
    if not isinstance(value, dict):
        raise ProviderError(route, "the answer cannot be read: it is not a JSON object", body=data)
    if value.get("type") == "response.failed":  # OpenAI's Responses API
        data = msgspec.json.encode({"error": as_object(value.get("response")).get("error")})
        raise make_provider_error(ErrorSource(route=route), None, data)
    if value.get("error") or value.get("type") == "error":
        raise make_provider_error(ErrorSource(route=route), None, data)
    return draft.add(value)


def split_words(text: str) -> Iterator[str]:
    """Yield the words of a text, each with the space after it.

    >>> list(split_words("Tea at four."))
    ['Tea ', 'at ', 'four.']
    """
    head, space, rest = text.partition(" ")
    while space:
        yield head + space
        head, space, rest = rest.partition(" ")
    if head:
        yield head
