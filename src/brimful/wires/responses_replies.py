"""OpenAI's Responses API, also spoken by vLLM, OpenRouter, xAI and other servers."""

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
    make_key_header,
    make_usage,
    parse_reply,
)
from brimful.wires.event_stream import ServerEventDecoder
from brimful.wires.tools import request_bytes

PREAMBLE_EVENTS: Final = ("response.created", "response.queued", "response.in_progress")
"""Events before anything was generated. An overlong prompt is reported after them."""
WHOLE_EVENTS: Final = ("response.completed", "response.incomplete", "response.failed", "error")
"""Events that end a stream. All but the error repeat the whole response."""
_TEXT_EVENTS: Final = ("response.output_text.delta", "response.refusal.delta")
_THOUGHT_EVENTS: Final = ("response.reasoning_text.delta", "response.reasoning_summary_text.delta")
_CALL_EVENTS: Final = ("response.function_call_arguments.delta", "response.custom_tool_call_input.delta")
_CALL_FIELDS: Final = {"function_call": "arguments", "custom_tool_call": "input"}
_INCOMPLETE_REASONS: Final[dict[str, FinishReason]] = {"max_output_tokens": "length", "content_filter": "filtered"}
_COUNTED_FIELDS: Final = ("model", "input", "instructions", "tools", "tool_choice", "reasoning", "text", "truncation")
"""Fields of a request that OpenAI counts."""


class Responses(msgspec.Struct, frozen=True, kw_only=True):
    """The dialect of the Responses API. Its models are those of the wire `openai`."""

    wire: str = "openai"
    key_header: KeyHeader = "authorization"

    def headers(self, key: str) -> Mapping[str, str]:
        """Return the headers of every request."""
        return make_key_header(self.key_header, key)

    def path(self, request: Request, *, stream: bool) -> str:
        """Return the path of a request."""
        del request, stream
        return "/responses"

    def body(self, request: Request, *, stream: bool) -> bytes:
        """Encode a request. One for chat completions, without tools, is written in this API's form."""
        own = _from_chat(request) if "messages" in request else request
        return request_bytes(own | {"stream": True} if stream else own)

    def read(self, body: bytes, route: str = "") -> Reply:
        """Parse a complete answer."""
        return parse_reply(_Draft(), body, route)

    def reader(self, route: str = "") -> Reader:
        """Return a reader for a stream."""
        return Reader(_Draft(), ServerEventDecoder(), route)

    def count_requests(self, request: Request) -> Sequence[CountRequest]:
        """Return OpenAI's request."""
        fields = {key: value for key, value in request.items() if key in _COUNTED_FIELDS}
        return (CountRequest("/responses/input_tokens", fields, "input_tokens"),)


class _Draft(Draft):
    """A whole response, or the events of one."""

    def add(self, data: JsonObject) -> ReplyChunk:
        kind, delta = as_string(data.get("type")), as_string(data.get("delta"))
        if kind in _TEXT_EVENTS:
            return self._add_text(delta, refused=kind != _TEXT_EVENTS[0])
        if kind in _CALL_EVENTS:
            self.add_call(as_count(data.get("output_index")), arguments=delta)
        elif kind == "response.output_item.added":
            self._add_call(as_object(data.get("item")), as_count(data.get("output_index")))
        elif isinstance(data.get("response"), dict):
            self._add_response(data["response"])
        elif "output" in data:
            self._add_response(data)
        return ReplyChunk(thought=delta if kind in _THOUGHT_EVENTS else "")

    def _add_response(self, response: JsonObject) -> None:
        """Add a response; one that is complete repeats what was streamed."""
        self.id = self.id or as_string(response.get("id"))
        self.model = self.model or as_string(response.get("model"))
        self.usage = _parse_usage(as_object(response.get("usage"))) or self.usage
        status = response.get("status", "completed")  # not every server sends it
        if status not in ("completed", "incomplete"):
            return
        if not self.has_started:
            for item in as_objects(response.get("output")):
                self._add_item(item)
        self.has_started = True
        reason = as_string(as_object(response.get("incomplete_details")).get("reason"))
        ending: FinishReason = "stop" if status == "completed" else _INCOMPLETE_REASONS.get(reason, "other")
        self.finish = self.finish or ending

    def _add_item(self, item: JsonObject) -> None:
        for block in as_objects(item.get("content")) if item.get("type") == "message" else ():
            self._add_text(as_string(block.get("text")))
            self._add_text(as_string(block.get("refusal")), refused=True)
        self._add_call(item, None)

    def _add_text(self, text: str, *, refused: bool = False) -> ReplyChunk:
        if text:
            self.has_started = True
            self.finish = "filtered" if refused else self.finish
        return ReplyChunk(text=self.add_text(text))

    def _add_call(self, item: JsonObject, key: int | None) -> None:
        field = _CALL_FIELDS.get(as_string(item.get("type")))
        if field is not None:
            self.has_started = True
            name, arguments = as_string(item.get("name")), as_string(item.get(field))
            self.add_call(key, id=as_string(item.get("call_id")), name=name, arguments=arguments)


def _parse_usage(usage: JsonObject) -> Usage | None:
    if not usage:
        return None
    return make_usage(
        prompt=as_count(usage.get("input_tokens")),
        cached=as_count(as_object(usage.get("input_tokens_details")).get("cached_tokens")),
        completion=as_count(usage.get("output_tokens")),
        reasoning=as_count(as_object(usage.get("output_tokens_details")).get("reasoning_tokens")),
    )


def _from_chat(request: Request) -> Request:
    """Return a request for chat completions in the form of this API.

    >>> _from_chat({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]})
    {'model': 'm', 'max_output_tokens': 9, 'input': [{'role': 'user', 'content': 'Hi'}]}
    """
    names = {"messages": "input", "max_tokens": "max_output_tokens", "max_completion_tokens": "max_output_tokens"}
    return {names.get(key, key): value for key, value in request.items()}
