"""Anthropic's Messages API."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from brimful.core.prompt import Request
from brimful.records import Usage
from brimful.records.reply import FinishReason, Reply, ReplyChunk
from brimful.wires.dialect import (
    CountRequest,
    Draft,
    JsonObject,
    KeyHeader,
    Reader,
    as_count,
    as_object,
    as_objects,
    as_string,
    join_pieces,
    make_key_header,
    make_usage,
    parse_reply,
)
from brimful.wires.event_stream import ServerEventDecoder
from brimful.wires.tools import json_text, request_bytes

API_VERSION: Final = "2023-06-01"  # a required header

_FINISH_REASONS: Final[dict[str, FinishReason]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool-calls",
    "refusal": "filtered",
    "model_context_window_exceeded": "overflow",
}
_COUNT_FIELDS: Final = frozenset({"model", "messages", "system", "tools", "tool_choice", "thinking", "output_config"})
"""Fields that the endpoint for counting accepts."""


class Anthropic(msgspec.Struct, frozen=True, kw_only=True):
    """The dialect of Anthropic."""

    wire: str = "anthropic"
    key_header: KeyHeader = "x-api-key"

    def headers(self, key: str) -> Mapping[str, str]:
        """Return the headers of every request."""
        return {"anthropic-version": API_VERSION} | make_key_header(self.key_header, key)

    def path(self, request: Request, *, stream: bool) -> str:
        """Return the path of a request."""
        del request, stream
        return "/v1/messages"

    def body(self, request: Request, *, stream: bool) -> bytes:
        """Encode a request."""
        fields = {key: value for key, value in request.items() if key != "stream"}
        return request_bytes(fields | ({"stream": True} if stream else {}))

    def read(self, body: bytes, route: str = "") -> Reply:
        """Parse a complete answer."""
        return parse_reply(_Draft(), body, route)

    def reader(self, route: str = "") -> Reader:
        """Return a reader for a stream."""
        return Reader(_Draft(), ServerEventDecoder(), route)

    def count_requests(self, request: Request) -> Sequence[CountRequest]:
        """Return the request that counts the tokens of a prompt."""
        fields = {key: value for key, value in request.items() if key in _COUNT_FIELDS}
        return (CountRequest("/v1/messages/count_tokens", fields, "input_tokens"),)


class _Draft(Draft):
    """A complete message has the same form as the start of a stream; later events add to its blocks."""

    def __init__(self) -> None:
        super().__init__()
        self._usage_fields: JsonObject = {}

    def add(self, data: JsonObject) -> ReplyChunk:
        match data.get("type"):
            case "message":
                return self._message(data)
            case "message_start":
                return self._message(as_object(data.get("message")))
            case "content_block_start":
                return self._block(as_count(data.get("index")), as_object(data.get("content_block")))
            case "content_block_delta":
                return self._delta(as_count(data.get("index")), as_object(data.get("delta")))
            case "message_delta":
                self._set_finish(as_object(data.get("delta")))
                self._set_usage(as_object(data.get("usage")))
        return ReplyChunk()

    def _message(self, message: JsonObject) -> ReplyChunk:
        self.has_started = True
        self.id = as_string(message.get("id"))
        self.model = as_string(message.get("model"))
        pieces = [self._block(index, block) for index, block in enumerate(as_objects(message.get("content")))]
        self._set_finish(message)
        self._set_usage(as_object(message.get("usage")))
        return join_pieces(pieces)

    def _block(self, index: int, block: JsonObject) -> ReplyChunk:
        match block.get("type"):
            case "text":
                return ReplyChunk(text=self.add_text(as_string(block.get("text"))))
            case "thinking":
                return ReplyChunk(thought=as_string(block.get("thinking")))
            case "tool_use":
                value = as_object(block.get("input"))  # empty at the start of a stream: its parts follow
                arguments = json_text(value) if value else ""
                self.add_call(
                    index, id=as_string(block.get("id")), name=as_string(block.get("name")), arguments=arguments
                )
        return ReplyChunk()

    def _delta(self, index: int, delta: JsonObject) -> ReplyChunk:
        match delta.get("type"):
            case "text_delta":
                return ReplyChunk(text=self.add_text(as_string(delta.get("text"))))
            case "thinking_delta":
                return ReplyChunk(thought=as_string(delta.get("thinking")))
            case "input_json_delta":
                self.add_call(index, arguments=as_string(delta.get("partial_json")))
        return ReplyChunk()

    def _set_finish(self, data: JsonObject) -> None:
        reason = as_string(data.get("stop_reason"))
        if reason:
            self.finish = _FINISH_REASONS.get(reason, "other")

    def _set_usage(self, usage: JsonObject) -> None:
        """Keep the latest of each number."""
        self._usage_fields |= {key: value for key, value in usage.items() if value is not None}
        self.usage = parse_usage(self._usage_fields) if self._usage_fields else self.usage


def parse_usage(usage: JsonObject) -> Usage:
    """Return the usage. `input_tokens` excludes tokens read from or written to the cache."""
    read, written = (as_count(usage.get(f"cache_{way}_input_tokens")) for way in ("read", "creation"))
    return make_usage(
        prompt=as_count(usage.get("input_tokens")) + read + written,
        cached=read,
        completion=as_count(usage.get("output_tokens")),
        reasoning=as_count(as_object(usage.get("output_tokens_details")).get("thinking_tokens")),
    )
