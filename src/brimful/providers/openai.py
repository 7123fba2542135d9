"""OpenAI's chat completions, which llama.cpp, vLLM, OpenRouter, LM Studio and most other servers speak as well."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from brimful.core.model import Wire
from brimful.core.prompt import Request
from brimful.errors import ProviderError
from brimful.providers.dialect import Reader, read_count, read_whole
from brimful.providers.draft import Draft, Object, as_object, as_objects, as_text, as_whole, joined, usage_of
from brimful.providers.frames import ServerEvents
from brimful.records import Usage
from brimful.render.canonical import json_text, request_bytes
from brimful.replies import Finish, Piece, Reply

if TYPE_CHECKING:
    from brimful.providers.connection import Connection

_FINISH: Final[dict[str, Finish]] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool-calls",
    "function_call": "tool-calls",
    "content_filter": "filtered",
    "model_context_window_exceeded": "overflow",  # Z.ai
}

_LIMIT: Final = "max_completion_tokens"
_NO_SUCH_QUESTION: Final = (404, 405, 501)


class OpenAI(msgspec.Struct, frozen=True, kw_only=True):
    """How a server that speaks OpenAI's dialect is asked; with the wire `text`, its completions without messages.

    OpenAI itself wants the completion's limit as `max_completion_tokens`. Others know that name, pass it over, or
    refuse it, but all know `max_tokens`: `renames_limit` says to use that. `asks_usage` is False for servers that
    refuse the question for the usage of a stream.
    """

    wire: Wire = "openai"
    renames_limit: bool = False
    asks_usage: bool = True

    def headers(self, key: str) -> Mapping[str, str]:
        """Return the headers of every request."""
        return {"authorization": f"Bearer {key}"} if key else {}

    def path(self, request: Request, *, stream: bool) -> str:
        """Return where a request goes."""
        del request, stream
        return "/completions" if self.wire == "text" else "/chat/completions"

    def body(self, request: Request, *, stream: bool) -> bytes:
        """Write a request; a stream is asked for its usage."""
        asked = {key: value for key, value in request.items() if key not in ("stream", "stream_options")}
        if stream:
            asked["stream"] = True
            if self.asks_usage:
                asked["stream_options"] = as_object(request.get("stream_options")) | {"include_usage": True}
        if self.renames_limit:
            asked = {"max_tokens" if key == _LIMIT else key: value for key, value in asked.items()}
        return request_bytes(asked)

    def read(self, body: bytes, route: str = "") -> Reply:
        """Read a whole answer."""
        return read_whole(_Draft(), body, route)

    def reader(self, route: str = "") -> Reader:
        """Return a reader for a stream."""
        return Reader(_Draft(), ServerEvents(), route)

    async def count(self, connection: "Connection", request: Request) -> int | None:
        """Ask as llama.cpp's server is asked; OpenAI's own has no such question for chat completions."""
        try:
            answer = await connection.post(f"{self.path(request, stream=False)}/input_tokens", request_bytes(request))
        except ProviderError as error:
            if error.status not in _NO_SUCH_QUESTION:
                raise
            return None
        return read_count(answer.body, "input_tokens")


class _Draft(Draft):
    """Of several choices, the first is the answer."""

    def take(self, said: Object) -> Piece:
        self.id = self.id or as_text(said.get("id"))
        self.model = self.model or as_text(said.get("model"))
        self.usage = _usage(said) or self.usage
        first = (choice for choice in as_objects(said.get("choices")) if not choice.get("index"))
        pieces = [self._choice(choice) for choice in first]
        return joined(pieces)

    def _choice(self, choice: Object) -> Piece:
        self.begun = True
        told = as_object(choice.get("delta")) or as_object(choice.get("message")) or {"content": choice.get("text")}
        thought = as_text(told.get("reasoning_content")) or as_text(told.get("reasoning"))
        text, more = _content(told.get("content"))
        self.say(text)
        refused = self.say(as_text(told.get("refusal")))
        for position, call in enumerate(as_objects(told.get("tool_calls"))):
            self._call(call, position)
        reason = as_text(choice.get("finish_reason"))
        if refused:
            self.finish = "filtered"
        elif reason and self.finish != "filtered":
            self.finish = _FINISH.get(reason, "other")
        return Piece(text=text + refused, thought=thought + more)

    def _call(self, call: Object, position: int) -> None:
        function = as_object(call.get("function"))
        given = function.get("arguments")
        arguments = json_text(given) if isinstance(given, dict) else as_text(given)
        key = as_whole(call["index"]) if "index" in call else position
        self.call(key, id=as_text(call.get("id")), name=as_text(function.get("name")), arguments=arguments)


def _content(content: object) -> tuple[str, str]:
    """Return text and thought of a content, which is a text, or blocks of either (Mistral)."""
    if isinstance(content, str):
        return content, ""
    text = thought = ""
    for block in as_objects(content):
        text += as_text(block.get("text"))
        thought += "".join(as_text(inner.get("text")) for inner in as_objects(block.get("thinking")))
    return text, thought


def _usage(said: Object) -> Usage | None:
    """Return what was told of tokens: `usage`, and what llama.cpp tells as `timings`."""
    told, timings = as_object(said.get("usage")), as_object(said.get("timings"))
    if not told and not timings:
        return None
    cached = _first(
        as_object(told.get("prompt_tokens_details")).get("cached_tokens"),
        told.get("prompt_cache_hit_tokens"),  # DeepSeek
        told.get("cached_tokens"),  # Moonshot
        timings.get("cache_n"),
    )
    prompt = _first(told.get("prompt_tokens"), as_whole(timings.get("prompt_n")) + as_whole(timings.get("cache_n")))
    completion = _first(told.get("completion_tokens"), timings.get("predicted_n"))
    reasoning = as_whole(as_object(told.get("completion_tokens_details")).get("reasoning_tokens"))
    if as_whole(told.get("total_tokens")) == prompt + completion + reasoning:
        completion += reasoning  # xAI counts thoughts beside the answer, all others within it
    return usage_of(prompt=prompt, cached=cached, completion=completion, reasoning=reasoning)


def _first(*values: object) -> int:
    return next((tokens for value in values if (tokens := as_whole(value))), 0)
