"""Gemini's generateContent API."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import msgspec

from brimful.core.model import Wire
from brimful.core.prompt import Request
from brimful.providers.dialect import (
    Draft,
    JsonObject,
    Reader,
    as_count,
    as_object,
    as_objects,
    as_string,
    join_pieces,
    make_usage,
    parse_count,
    parse_reply,
)
from brimful.providers.event_stream import ServerEventDecoder
from brimful.records import Usage
from brimful.records.reply import FinishReason, Reply, ReplyChunk
from brimful.render.tools import json_text, request_bytes

if TYPE_CHECKING:
    from brimful.providers.connection import Connection


_FILTERED_REASONS: Final = (
    "SAFETY RECITATION BLOCKLIST PROHIBITED_CONTENT SPII IMAGE_SAFETY IMAGE_PROHIBITED_CONTENT IMAGE_RECITATION"
)
_FINISH_REASONS: Final[dict[str, FinishReason]] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    **dict.fromkeys(_FILTERED_REASONS.split(), "filtered"),
}


class Gemini(msgspec.Struct, frozen=True, kw_only=True):
    """How Gemini is asked. The model stands in the path."""

    wire: Wire = "gemini"

    def headers(self, key: str) -> Mapping[str, str]:
        """Return the headers of every request."""
        return {"x-goog-api-key": key} if key else {}

    def path(self, request: Request, *, stream: bool) -> str:
        """Return where a request goes."""
        return _get_path(request, "streamGenerateContent?alt=sse" if stream else "generateContent")

    def body(self, request: Request, *, stream: bool) -> bytes:
        """Write a request; whether it streams stands in the path."""
        del stream
        return request_bytes({key: value for key, value in request.items() if key != "model"})

    def read(self, body: bytes, route: str = "") -> Reply:
        """Read a whole answer."""
        return parse_reply(_Draft(), body, route)

    def reader(self, route: str = "") -> Reader:
        """Return a reader for a stream."""
        return Reader(_Draft(), ServerEventDecoder(), route)

    async def count(self, connection: "Connection", request: Request) -> int | None:
        """Ask for the tokens of a prompt."""
        asked = {"generateContentRequest": request | {"model": _get_model_path(request)}}
        answer = await connection.post(_get_path(request, "countTokens"), request_bytes(asked))
        return parse_count(answer.body, "totalTokens")


class _Draft(Draft):
    """A whole answer and each event of a stream have one form."""

    def take(self, said: JsonObject) -> ReplyChunk:
        self.id = self.id or as_string(said.get("responseId"))
        self.model = self.model or as_string(said.get("modelVersion"))
        if said.get("usageMetadata"):
            self.usage = _parse_usage(as_object(said["usageMetadata"]))
        if as_object(said.get("promptFeedback")).get("blockReason"):
            self.begun, self.finish = True, "filtered"
        pieces = [self._candidate(found) for found in as_objects(said.get("candidates")) if not found.get("index")]
        return join_pieces(pieces)

    def _candidate(self, candidate: JsonObject) -> ReplyChunk:
        self.begun = True
        text = thought = ""
        for part in as_objects(as_object(candidate.get("content")).get("parts")):
            if "functionCall" in part:
                self._call(as_object(part["functionCall"]))
            elif part.get("thought"):
                thought += as_string(part.get("text"))
            else:
                text += self.say(as_string(part.get("text")))
        reason = as_string(candidate.get("finishReason"))
        if reason:
            self.finish = _FINISH_REASONS.get(reason, "other")
        return ReplyChunk(text=text, thought=thought)

    def _call(self, call: JsonObject) -> None:
        """Take a call, which comes whole, mostly without an id."""
        arguments = json_text(as_object(call.get("args")))
        self.call(None, id=as_string(call.get("id")), name=as_string(call.get("name")), arguments=arguments)


def _parse_usage(told: JsonObject) -> Usage:
    """Return what was told of tokens: thoughts are counted beside the answer, and cached ones within the prompt."""
    thoughts = as_count(told.get("thoughtsTokenCount"))
    return make_usage(
        prompt=as_count(told.get("promptTokenCount")),
        cached=as_count(told.get("cachedContentTokenCount")),
        completion=as_count(told.get("candidatesTokenCount")) + thoughts,
        reasoning=thoughts,
    )


def _get_model_path(request: Request) -> str:
    name = as_string(request.get("model"))
    return name if "/" in name else f"models/{name}"


def _get_path(request: Request, method: str) -> str:
    return f"/{quote(_get_model_path(request))}:{method}"
