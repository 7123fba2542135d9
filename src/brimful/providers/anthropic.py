"""Anthropic's messages."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from brimful.core.model import Wire
from brimful.core.prompt import Request
from brimful.providers.dialect import Reader, read_count, read_whole
from brimful.providers.draft import Draft, Object, as_object, as_objects, as_text, as_whole, joined, usage_of
from brimful.providers.frames import ServerEvents
from brimful.render.canonical import json_text, request_bytes
from brimful.replies import Finish, Piece, Reply

if TYPE_CHECKING:
    from brimful.providers.connection import Connection

VERSION: Final = "2023-06-01"  # of the API; a header that is required

_FINISH: Final[dict[str, Finish]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool-calls",
    "refusal": "filtered",
    "model_context_window_exceeded": "overflow",
}
_COUNTED: Final = frozenset({"model", "messages", "system", "tools", "tool_choice", "thinking", "output_config"})
"""Fields that the question for a count takes."""


class Anthropic(msgspec.Struct, frozen=True, kw_only=True):
    """How Anthropic is asked."""

    wire: Wire = "anthropic"

    def headers(self, key: str) -> Mapping[str, str]:
        """Return the headers of every request."""
        return {"anthropic-version": VERSION} | ({"x-api-key": key} if key else {})

    def path(self, request: Request, *, stream: bool) -> str:
        """Return where a request goes."""
        del request, stream
        return "/v1/messages"

    def body(self, request: Request, *, stream: bool) -> bytes:
        """Write a request."""
        asked = {key: value for key, value in request.items() if key != "stream"}
        return request_bytes(asked | ({"stream": True} if stream else {}))

    def read(self, body: bytes, route: str = "") -> Reply:
        """Read a whole answer."""
        return read_whole(_Draft(), body, route)

    def reader(self, route: str = "") -> Reader:
        """Return a reader for a stream."""
        return Reader(_Draft(), ServerEvents(), route)

    async def count(self, connection: "Connection", request: Request) -> int | None:
        """Ask for the tokens of a prompt."""
        asked = {key: value for key, value in request.items() if key in _COUNTED}
        answer = await connection.post("/v1/messages/count_tokens", request_bytes(asked))
        return read_count(answer.body, "input_tokens")


class _Draft(Draft):
    """A whole message and the start of a stream have one form; the rest of a stream adds to its blocks."""

    def __init__(self) -> None:
        super().__init__()
        self._told: Object = {}

    def take(self, said: Object) -> Piece:
        match said.get("type"):
            case "message":
                return self._message(said)
            case "message_start":
                return self._message(as_object(said.get("message")))
            case "content_block_start":
                return self._block(as_whole(said.get("index")), as_object(said.get("content_block")))
            case "content_block_delta":
                return self._delta(as_whole(said.get("index")), as_object(said.get("delta")))
            case "message_delta":
                self._ended(as_object(said.get("delta")))
                self._count(as_object(said.get("usage")))
        return Piece()

    def _message(self, message: Object) -> Piece:
        self.begun = True
        self.id = as_text(message.get("id"))
        self.model = as_text(message.get("model"))
        pieces = [self._block(index, block) for index, block in enumerate(as_objects(message.get("content")))]
        self._ended(message)
        self._count(as_object(message.get("usage")))
        return joined(pieces)

    def _block(self, index: int, block: Object) -> Piece:
        match block.get("type"):
            case "text":
                return Piece(text=self.say(as_text(block.get("text"))))
            case "thinking":
                return Piece(thought=as_text(block.get("thinking")))
            case "tool_use":
                given = as_object(block.get("input"))  # empty at the start of a stream: it follows in bits
                arguments = json_text(given) if given else ""
                self.call(index, id=as_text(block.get("id")), name=as_text(block.get("name")), arguments=arguments)
        return Piece()

    def _delta(self, index: int, delta: Object) -> Piece:
        match delta.get("type"):
            case "text_delta":
                return Piece(text=self.say(as_text(delta.get("text"))))
            case "thinking_delta":
                return Piece(thought=as_text(delta.get("thinking")))
            case "input_json_delta":
                self.call(index, arguments=as_text(delta.get("partial_json")))
        return Piece()

    def _ended(self, told: Object) -> None:
        reason = as_text(told.get("stop_reason"))
        if reason:
            self.finish = _FINISH.get(reason, "other")

    def _count(self, usage: Object) -> None:
        """Keep the latest of each number. `input_tokens` are those that were neither read from a cache nor written."""
        self._told |= {key: value for key, value in usage.items() if value is not None}
        if not self._told:
            return
        read, written = (as_whole(self._told.get(f"cache_{way}_input_tokens")) for way in ("read", "creation"))
        details = as_object(self._told.get("output_tokens_details"))
        self.usage = usage_of(
            prompt=as_whole(self._told.get("input_tokens")) + read + written,
            cached=read,
            completion=as_whole(self._told.get("output_tokens")),
            reasoning=as_whole(details.get("thinking_tokens")),
        )
