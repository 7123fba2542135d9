"""Ollama's chat API. It silently truncates long prompts unless told not to, which `brimful.wires` does."""

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
    Reader,
    as_count,
    as_object,
    as_objects,
    as_string,
    make_usage,
    parse_reply,
)
from brimful.wires.event_stream import JsonLinesDecoder
from brimful.wires.tools import json_text, request_bytes

_FINISH_REASONS: Final[dict[str, FinishReason]] = {"stop": "stop", "length": "length"}


class Ollama(msgspec.Struct, frozen=True, kw_only=True):
    """The dialect of Ollama."""

    wire: str = "ollama"

    def headers(self, key: str) -> Mapping[str, str]:
        """Return the headers of every request; only Ollama's cloud needs a key."""
        return {"authorization": f"Bearer {key}"} if key else {}

    def path(self, request: Request, *, stream: bool) -> str:
        """Return the path of a request."""
        del request, stream
        return "/api/chat"

    def body(self, request: Request, *, stream: bool) -> bytes:
        """Encode a request. Ollama streams by default, so `stream` is always set."""
        return request_bytes(request | {"stream": stream})

    def read(self, body: bytes, route: str = "") -> Reply:
        """Parse a complete answer."""
        return parse_reply(_Draft(), body, route)

    def reader(self, route: str = "") -> Reader:
        """Return a reader for a stream."""
        return Reader(_Draft(), JsonLinesDecoder(), route)

    def count_requests(self, request: Request) -> Sequence[CountRequest]:
        """Return none: Ollama cannot count without answering."""
        del request
        return ()


class _Draft(Draft):
    """A complete answer and each line of a stream have the same form."""

    def add(self, data: JsonObject) -> ReplyChunk:
        self.model = self.model or as_string(data.get("model"))
        self.seed = self.seed or as_string(data.get("created_at"))
        message = as_object(data.get("message"))
        self.has_started = self.has_started or bool(message)
        for call in as_objects(message.get("tool_calls")):
            self._call(call)
        if data.get("done"):
            self.finish = _FINISH_REASONS.get(as_string(data.get("done_reason")) or "stop", "other")
            self.usage = _parse_usage(data)
        return ReplyChunk(
            text=self.add_text(as_string(message.get("content"))), thought=as_string(message.get("thinking"))
        )

    def _call(self, call: JsonObject) -> None:
        """Add a call, which arrives complete; older servers give it no id."""
        function = as_object(call.get("function"))
        arguments = json_text(as_object(function.get("arguments")))
        self.add_call(None, id=as_string(call.get("id")), name=as_string(function.get("name")), arguments=arguments)


def _parse_usage(data: JsonObject) -> Usage | None:
    if "prompt_eval_count" not in data and "eval_count" not in data:
        return None
    return make_usage(prompt=as_count(data.get("prompt_eval_count")), completion=as_count(data.get("eval_count")))
