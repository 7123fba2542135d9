"""Gemini's generateContent."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import msgspec

from brimful.core.model import Wire
from brimful.core.prompt import Request
from brimful.providers.dialect import Reader, read_count, read_whole
from brimful.providers.draft import Draft, Object, as_object, as_objects, as_text, as_whole, joined, usage_of
from brimful.providers.frames import ServerEvents
from brimful.records import Usage
from brimful.render.canonical import json_text, request_bytes
from brimful.replies import Finish, Piece, Reply

if TYPE_CHECKING:
    from brimful.providers.connection import Connection

_FILTERED: Final = (
    "SAFETY RECITATION BLOCKLIST PROHIBITED_CONTENT SPII IMAGE_SAFETY IMAGE_PROHIBITED_CONTENT IMAGE_RECITATION"
)
_FINISH: Final[dict[str, Finish]] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    **dict.fromkeys(_FILTERED.split(), "filtered"),
}


class Gemini(msgspec.Struct, frozen=True, kw_only=True):
    """How Gemini is asked. The model stands in the path."""

    wire: Wire = "gemini"

    def headers(self, key: str) -> Mapping[str, str]:
        """Return the headers of every request."""
        return {"x-goog-api-key": key} if key else {}

    def path(self, request: Request, *, stream: bool) -> str:
        """Return where a request goes."""
        return _path(request, "streamGenerateContent?alt=sse" if stream else "generateContent")

    def body(self, request: Request, *, stream: bool) -> bytes:
        """Write a request; whether it streams stands in the path."""
        del stream
        return request_bytes({key: value for key, value in request.items() if key != "model"})

    def read(self, body: bytes, route: str = "") -> Reply:
        """Read a whole answer."""
        return read_whole(_Draft(), body, route)

    def reader(self, route: str = "") -> Reader:
        """Return a reader for a stream."""
        return Reader(_Draft(), ServerEvents(), route)

    async def count(self, connection: "Connection", request: Request) -> int | None:
        """Ask for the tokens of a prompt."""
        asked = {"generateContentRequest": request | {"model": _model(request)}}
        answer = await connection.post(_path(request, "countTokens"), request_bytes(asked))
        return read_count(answer.body, "totalTokens")


class _Draft(Draft):
    """A whole answer and each event of a stream have one form."""

    def take(self, said: Object) -> Piece:
        self.id = self.id or as_text(said.get("responseId"))
        self.model = self.model or as_text(said.get("modelVersion"))
        if said.get("usageMetadata"):
            self.usage = _usage(as_object(said["usageMetadata"]))
        if as_object(said.get("promptFeedback")).get("blockReason"):
            self.begun, self.finish = True, "filtered"
        pieces = [self._candidate(found) for found in as_objects(said.get("candidates")) if not found.get("index")]
        return joined(pieces)

    def _candidate(self, candidate: Object) -> Piece:
        self.begun = True
        text = thought = ""
        for part in as_objects(as_object(candidate.get("content")).get("parts")):
            if "functionCall" in part:
                self._call(as_object(part["functionCall"]))
            elif part.get("thought"):
                thought += as_text(part.get("text"))
            else:
                text += self.say(as_text(part.get("text")))
        reason = as_text(candidate.get("finishReason"))
        if reason:
            self.finish = _FINISH.get(reason, "other")
        return Piece(text=text, thought=thought)

    def _call(self, call: Object) -> None:
        """Take a call, which comes whole, mostly without an id."""
        arguments = json_text(as_object(call.get("args")))
        self.call(None, id=as_text(call.get("id")), name=as_text(call.get("name")), arguments=arguments)


def _usage(told: Object) -> Usage:
    """Return what was told of tokens: thoughts are counted beside the answer, and cached ones within the prompt."""
    thoughts = as_whole(told.get("thoughtsTokenCount"))
    return usage_of(
        prompt=as_whole(told.get("promptTokenCount")),
        cached=as_whole(told.get("cachedContentTokenCount")),
        completion=as_whole(told.get("candidatesTokenCount")) + thoughts,
        reasoning=thoughts,
    )


def _model(request: Request) -> str:
    name = as_text(request.get("model"))
    return name if "/" in name else f"models/{name}"


def _path(request: Request, method: str) -> str:
    return f"/{quote(_model(request))}:{method}"
