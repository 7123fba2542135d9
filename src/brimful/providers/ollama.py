"""Ollama's own API. It cuts long prompts silently unless it is told not to, which `brimful.render` does."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from brimful.core.model import Wire
from brimful.core.prompt import Request
from brimful.providers.dialect import Reader, read_whole
from brimful.providers.draft import Draft, Object, as_object, as_objects, as_text, as_whole, usage_of
from brimful.providers.frames import JsonLines
from brimful.records import Usage
from brimful.render.canonical import json_text, request_bytes
from brimful.replies import Finish, Piece, Reply

if TYPE_CHECKING:
    from brimful.providers.connection import Connection

_FINISH: Final[dict[str, Finish]] = {"stop": "stop", "length": "length"}


class Ollama(msgspec.Struct, frozen=True, kw_only=True):
    """How Ollama is asked."""

    wire: Wire = "ollama"

    def headers(self, key: str) -> Mapping[str, str]:
        """Return the headers of every request; a key is for its cloud alone."""
        return {"authorization": f"Bearer {key}"} if key else {}

    def path(self, request: Request, *, stream: bool) -> str:
        """Return where a request goes."""
        del request, stream
        return "/api/chat"

    def body(self, request: Request, *, stream: bool) -> bytes:
        """Write a request; without a word on it, Ollama would stream."""
        return request_bytes(request | {"stream": stream})

    def read(self, body: bytes, route: str = "") -> Reply:
        """Read a whole answer."""
        return read_whole(_Draft(), body, route)

    def reader(self, route: str = "") -> Reader:
        """Return a reader for a stream."""
        return Reader(_Draft(), JsonLines(), route)

    async def count(self, connection: "Connection", request: Request) -> int | None:
        """Tell nothing: Ollama cannot count without answering."""
        del connection, request
        return None


class _Draft(Draft):
    """A whole answer and each line of a stream have one form."""

    def take(self, said: Object) -> Piece:
        self.model = self.model or as_text(said.get("model"))
        self.seed = self.seed or as_text(said.get("created_at"))
        message = as_object(said.get("message"))
        self.begun = self.begun or bool(message)
        for call in as_objects(message.get("tool_calls")):
            self._call(call)
        if said.get("done"):
            self.finish = _FINISH.get(as_text(said.get("done_reason")) or "stop", "other")
            self.usage = _usage(said)
        return Piece(text=self.say(as_text(message.get("content"))), thought=as_text(message.get("thinking")))

    def _call(self, call: Object) -> None:
        """Take a call, which comes whole; older servers give it no id."""
        function = as_object(call.get("function"))
        arguments = json_text(as_object(function.get("arguments")))
        self.call(None, id=as_text(call.get("id")), name=as_text(function.get("name")), arguments=arguments)


def _usage(said: Object) -> Usage | None:
    if "prompt_eval_count" not in said and "eval_count" not in said:
        return None
    return usage_of(prompt=as_whole(said.get("prompt_eval_count")), completion=as_whole(said.get("eval_count")))
