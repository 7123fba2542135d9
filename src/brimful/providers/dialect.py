"""What the dialects have in common: how a server is asked, and how its answers are read, at once or as they come."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol

from brimful.core.lenient import decode_json
from brimful.core.model import Wire
from brimful.core.prompt import Request
from brimful.errors import ProviderError, ProviderUnavailable
from brimful.providers.draft import Draft, as_object, as_whole
from brimful.providers.frames import Event, Frames
from brimful.providers.refusal import Asked, refusal
from brimful.replies import Piece, Reply

if TYPE_CHECKING:
    from brimful.providers.connection import Connection

_DONE: Final = b"[DONE]"
_STOPPED: Final = "message_stop"  # Anthropic's word for it


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

    def __init__(self, draft: Draft, frames: Frames, route: str) -> None:
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

    def feed(self, chunk: bytes) -> list[Piece]:
        """Take in some bytes, and return what can be said now."""
        return self._read(self._frames.feed(chunk))

    def last(self) -> list[Piece]:
        """Return what can still be said when no more bytes come: not every server ends its last event as it should."""
        return self._read([event for event in self._frames.end() if _is_whole(event.data)])

    def end(self) -> Reply:
        """Return the whole answer; raise `ProviderUnavailable` if the stream ended before it did."""
        self.last()
        if self._draft.finish is None and not (self._done and self._draft.begun):
            raise ProviderUnavailable(self._route, "the answer broke off: the stream ended before it was whole")
        return self._draft.reply()

    def _read(self, events: list[Event]) -> list[Piece]:
        """Read events. What was said before an error is told first: the error comes with the next call."""
        if self._error is not None:
            raise self._error
        pieces: list[Piece] = []
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

    def _take(self, event: Event) -> Piece | None:
        if event.data.strip() == _DONE or event.name == _STOPPED:
            self._done = True
            return None
        piece = take(self._draft, event.data, self._route, failed=event.name == "error")
        return piece if piece.text or piece.thought else None


def _is_whole(data: bytes) -> bool:
    try:
        return data.strip() == _DONE or isinstance(decode_json(data), dict)
    except ValueError:
        return False


def read_whole(draft: Draft, body: bytes, route: str) -> Reply:
    """Read an answer that came at once."""
    take(draft, body, route)
    if not draft.begun:
        raise ProviderError(route, "the answer has nothing in it that could be read", body=body)
    return draft.reply()


def read_count(body: bytes, field: str) -> int | None:
    """Return the number in the field of an answer that tells a count; None if there is none.

    >>> read_count(b'{"input_tokens": 812}', "input_tokens"), read_count(b"<html>", "input_tokens")
    (812, None)
    """
    try:
        told = decode_json(body)
    except ValueError:
        return None
    return as_whole(as_object(told).get(field)) or None


def take(draft: Draft, data: bytes, route: str, *, failed: bool = False) -> Piece:
    """Put a JSON object into a draft; raise if it is an error, or nothing that can be read."""
    if failed:
        raise refusal(Asked(route=route), None, data)
    try:
        said = decode_json(data)
    except ValueError as error:
        raise ProviderError(route, f"the answer cannot be read: it {error}", body=data) from None
    if not isinstance(said, dict):
        raise ProviderError(route, "the answer cannot be read: it is no object", body=data)
    if said.get("error"):
        raise refusal(Asked(route=route), None, data)
    return draft.take(said)
