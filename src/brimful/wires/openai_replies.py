"""OpenAI's Chat Completions API, also spoken by llama.cpp, vLLM, OpenRouter, LM Studio and most other servers."""

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

_FINISH_REASONS: Final[dict[str, FinishReason]] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool-calls",
    "function_call": "tool-calls",
    "content_filter": "filtered",
    "model_context_window_exceeded": "overflow",  # Z.ai
}

_LIMIT_FIELD: Final = "max_completion_tokens"
_VLLM_COUNT_FIELDS: Final = (
    "model",
    "messages",
    "prompt",
    "tools",
    "chat_template",
    "chat_template_kwargs",
    "add_generation_prompt",
    "continue_final_message",
    "mm_processor_kwargs",
)
"""Fields of a request that vLLM counts (`TokenizeChatRequest` and `TokenizeCompletionRequest`)."""


class OpenAI(msgspec.Struct, frozen=True, kw_only=True):
    """The dialect of OpenAI and compatible servers. The wire `text` is for completions without messages.

    OpenAI itself wants the limit of a completion as `max_completion_tokens`. Other servers may accept, ignore or reject
    that name, but all know `max_tokens`: `uses_max_tokens` is True for them. `requests_usage` is False for servers that
    reject a request for the usage of a stream. Azure wants its keys in `api-key`.
    """

    wire: str = "openai"
    uses_max_tokens: bool = False
    requests_usage: bool = True
    key_header: KeyHeader = "authorization"

    def headers(self, key: str) -> Mapping[str, str]:
        """Return the headers of every request."""
        return make_key_header(self.key_header, key)

    def path(self, request: Request, *, stream: bool) -> str:
        """Return the path of a request."""
        del request, stream
        return "/completions" if self.wire == "text" else "/chat/completions"

    def body(self, request: Request, *, stream: bool) -> bytes:
        """Encode a request; a stream should report its usage."""
        fields = {key: value for key, value in request.items() if key not in ("stream", "stream_options")}
        if stream:
            fields["stream"] = True
            if self.requests_usage:
                fields["stream_options"] = as_object(request.get("stream_options")) | {"include_usage": True}
        if self.uses_max_tokens:
            fields = {"max_tokens" if key == _LIMIT_FIELD else key: value for key, value in fields.items()}
        return request_bytes(fields)

    def read(self, body: bytes, route: str = "") -> Reply:
        """Parse a complete answer."""
        return parse_reply(_Draft(), body, route)

    def reader(self, route: str = "") -> Reader:
        """Return a reader for a stream."""
        return Reader(_Draft(), ServerEventDecoder(), route)

    def count_requests(self, request: Request) -> Sequence[CountRequest]:
        """Return the requests of llama.cpp and vLLM; OpenAI has none for chat completions."""
        fields = {key: value for key, value in request.items() if key in _VLLM_COUNT_FIELDS}
        return (
            CountRequest(f"{self.path(request, stream=False)}/input_tokens", request, "input_tokens"),
            CountRequest("/tokenize", fields, "count", versioned=False),
        )


class _Draft(Draft):
    """The first choice is the answer."""

    def add(self, data: JsonObject) -> ReplyChunk:
        self.id = self.id or as_string(data.get("id"))
        self.model = self.model or as_string(data.get("model"))
        self.usage = parse_usage(data) or self.usage
        first = (choice for choice in as_objects(data.get("choices")) if not choice.get("index"))
        pieces = [self._choice(choice) for choice in first]
        return join_pieces(pieces)

    def _choice(self, choice: JsonObject) -> ReplyChunk:
        self.has_started = True
        message = as_object(choice.get("delta")) or as_object(choice.get("message")) or {"content": choice.get("text")}
        thought = as_string(message.get("reasoning_content")) or as_string(message.get("reasoning"))
        text, more = _split_content(message.get("content"))
        self.add_text(text)
        refusal = self.add_text(as_string(message.get("refusal")))
        for position, call in enumerate(as_objects(message.get("tool_calls"))):
            self._call(call, position)
        reason = as_string(choice.get("finish_reason"))
        if refusal:
            self.finish = "filtered"
        elif reason and self.finish != "filtered":
            self.finish = _FINISH_REASONS.get(reason, "other")
        return ReplyChunk(text=text + refusal, thought=thought + more)

    def _call(self, call: JsonObject, position: int) -> None:
        function = as_object(call.get("function"))
        value = function.get("arguments")
        arguments = json_text(value) if isinstance(value, dict) else as_string(value)
        key = as_count(call["index"]) if "index" in call else position
        self.add_call(key, id=as_string(call.get("id")), name=as_string(function.get("name")), arguments=arguments)


def _split_content(content: object) -> tuple[str, str]:
    """Return text and thought of a content, which is a string, or a list of blocks (Mistral)."""
    if isinstance(content, str):
        return content, ""
    text = thought = ""
    for block in as_objects(content):
        text += as_string(block.get("text"))
        thought += "".join(as_string(inner.get("text")) for inner in as_objects(block.get("thinking")))
    return text, thought


def parse_usage(data: JsonObject) -> Usage | None:
    """Return the usage from `usage` and from the `timings` of llama.cpp."""
    usage, timings = as_object(data.get("usage")), as_object(data.get("timings"))
    if not usage and not timings:
        return None
    cached = _first_count(
        as_object(usage.get("prompt_tokens_details")).get("cached_tokens"),
        usage.get("prompt_cache_hit_tokens"),  # DeepSeek
        usage.get("cached_tokens"),  # Moonshot
        timings.get("cache_n"),
    )
    prompt = _first_count(
        usage.get("prompt_tokens"), as_count(timings.get("prompt_n")) + as_count(timings.get("cache_n"))
    )
    completion = _first_count(usage.get("completion_tokens"), timings.get("predicted_n"))
    reasoning = as_count(as_object(usage.get("completion_tokens_details")).get("reasoning_tokens"))
    if as_count(usage.get("total_tokens")) == prompt + completion + reasoning:
        completion += reasoning  # xAI does not include thoughts in the completion, all others do
    return make_usage(prompt=prompt, cached=cached, completion=completion, reasoning=reasoning)


def _first_count(*values: object) -> int:
    return next((tokens for value in values if (tokens := as_count(value))), 0)
