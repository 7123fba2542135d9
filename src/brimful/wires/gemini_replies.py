"""Gemini's generateContent API."""

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import quote

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
    join_pieces,
    make_usage,
    parse_reply,
)
from brimful.wires.event_stream import ServerEventDecoder
from brimful.wires.tools import json_text, request_bytes

_FILTERED_REASONS: Final = (
    "SAFETY RECITATION BLOCKLIST PROHIBITED_CONTENT SPII IMAGE_SAFETY IMAGE_PROHIBITED_CONTENT IMAGE_RECITATION"
)
_FINISH_REASONS: Final[dict[str, FinishReason]] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    **dict.fromkeys(_FILTERED_REASONS.split(), "filtered"),
}


class Gemini(msgspec.Struct, frozen=True, kw_only=True):
    """The dialect of Gemini. The model is part of the path."""

    wire: str = "gemini"

    def headers(self, key: str) -> Mapping[str, str]:
        """Return the headers of every request."""
        return {"x-goog-api-key": key} if key else {}

    def path(self, request: Request, *, stream: bool) -> str:
        """Return the path of a request."""
        return _get_path(request, "streamGenerateContent?alt=sse" if stream else "generateContent")

    def body(self, request: Request, *, stream: bool) -> bytes:
        """Encode a request; the path says whether to stream."""
        del stream
        return request_bytes({key: value for key, value in request.items() if key != "model"})

    def read(self, body: bytes, route: str = "") -> Reply:
        """Parse a complete answer, or the array of its pieces, as Gemini streams it unless events were requested."""
        reader = Reader(_Draft(), ServerEventDecoder(), route)
        try:
            pieces = msgspec.json.decode(body, type=list[msgspec.Raw])
        except msgspec.DecodeError:
            return parse_reply(_Draft(), body, route)
        for piece in pieces:
            reader.feed(b"data: " + bytes(piece).replace(b"\n", b"\ndata: ") + b"\n\n")
        return reader.end()

    def reader(self, route: str = "") -> Reader:
        """Return a reader for a stream."""
        return Reader(_Draft(), ServerEventDecoder(), route)

    def count_requests(self, request: Request) -> Sequence[CountRequest]:
        """Return the request that counts the tokens of a prompt."""
        body = {"generateContentRequest": request | {"model": _get_model_path(request)}}
        return (CountRequest(_get_path(request, "countTokens"), body, "totalTokens"),)


class _Draft(Draft):
    """A complete answer and each event of a stream have the same form."""

    def add(self, data: JsonObject) -> ReplyChunk:
        self.id = self.id or as_string(data.get("responseId"))
        self.model = self.model or as_string(data.get("modelVersion"))
        if data.get("usageMetadata"):
            self.usage = _parse_usage(as_object(data["usageMetadata"]))
        if as_object(data.get("promptFeedback")).get("blockReason"):
            self.has_started, self.finish = True, "filtered"
        pieces = [
            self._candidate(candidate) for candidate in as_objects(data.get("candidates")) if not candidate.get("index")
        ]
        return join_pieces(pieces)

    def _candidate(self, candidate: JsonObject) -> ReplyChunk:
        self.has_started = True
        text = thought = ""
        for part in as_objects(as_object(candidate.get("content")).get("parts")):
            if "functionCall" in part:
                self._call(as_object(part["functionCall"]))
            elif part.get("thought"):
                thought += as_string(part.get("text"))
            else:
                text += self.add_text(as_string(part.get("text")))
        reason = as_string(candidate.get("finishReason"))
        if reason:
            self.finish = _FINISH_REASONS.get(reason, "other")
        return ReplyChunk(text=text, thought=thought)

    def _call(self, call: JsonObject) -> None:
        """Add a call, which arrives complete, usually without an id."""
        arguments = json_text(as_object(call.get("args")))
        self.add_call(None, id=as_string(call.get("id")), name=as_string(call.get("name")), arguments=arguments)


def _parse_usage(data: JsonObject) -> Usage:
    """Return the usage: thoughts are not part of the candidates count, cached tokens are part of the prompt."""
    thoughts = as_count(data.get("thoughtsTokenCount"))
    return make_usage(
        prompt=as_count(data.get("promptTokenCount")),
        cached=as_count(data.get("cachedContentTokenCount")),
        completion=as_count(data.get("candidatesTokenCount")) + thoughts,
        reasoning=thoughts,
    )


def _get_model_path(request: Request) -> str:
    name = as_string(request.get("model"))
    return name if "/" in name else f"models/{name}"


def _get_path(request: Request, method: str) -> str:
    return f"/{quote(_get_model_path(request))}:{method}"
