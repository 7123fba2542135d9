"""For tests: a counter, an embedder, a provider and servers without a model, and the rules of providers."""

import hashlib
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

import msgspec

from brimful.core.content import Media, Part, Role, Text, ToolCall, ToolResult
from brimful.core.prompt import Prompt, Request
from brimful.core.tokens import Count
from brimful.errors import ContextOverflow, ProviderError
from brimful.records import Usage
from brimful.records.reply import Reply, ReplyChunk

if TYPE_CHECKING:
    import asyncio

    from brimful.protocols import Purpose, Vectors

__all__ = [
    "FakeAzure",
    "FakeResponses",
    "HashEmbedder",
    "ScriptedProvider",
    "ScriptedServer",
    "WordCounter",
    "find_violations",
]

MEDIA_TOKENS = 100  # for any media item
LOW_DETAIL_TOKENS = 25  # for one in low detail


class WordCounter:
    """A counter with simple rules: a word is a token, a message costs 2 more, a request 1 more.

    >>> WordCounter().text("three little words").tokens
    3
    """

    tokenizer = "words"

    def text(self, text: str) -> Count:
        """Count the words."""
        return Count(tokens=len(text.split()), basis="exact", tokenizer=self.tokenizer)

    def texts(self, texts: Sequence[str]) -> list[Count]:
        """Count the words of each text."""
        return [self.text(text) for text in texts]

    def media(self, part: Media) -> Count:
        """Count every media item the same, unless it is in low detail."""
        tokens = LOW_DETAIL_TOKENS if part.detail == "low" else MEDIA_TOKENS
        return Count(tokens=tokens, basis="exact", tokenizer=self.tokenizer)

    def tool_calls(self, calls: Sequence[ToolCall]) -> Count:
        """Count the words of the names and the arguments."""
        return self.text(" ".join(f"{call.name} {call.arguments}" for call in calls))

    def message_overhead(self, role: Role, name: str = "") -> int:
        """Return two tokens, and one for each word of the name."""
        del role
        return 2 + len(name.split())

    def request_overhead(self) -> int:
        """Return one token."""
        return 1

    def prompt(self, prompt: Prompt) -> Count:
        """Count everything in the prompt."""
        tokens = self.request_overhead()
        for message in prompt.messages:
            tokens += self.message_overhead(message.role, message.name)
            tokens += sum(self._part(part) for part in message.parts)
        for tool in prompt.tools:
            tokens += self.text(f"{tool.name} {tool.description} {tool.parameters}").tokens
        return Count(tokens=tokens, basis="exact", tokenizer=self.tokenizer)

    def _part(self, part: Part) -> int:
        match part:
            case Text():
                return self.text(part.text).tokens
            case Media():
                return self.media(part).tokens
            case ToolCall():
                return self.tool_calls([part]).tokens
            case ToolResult():
                return self.text(part.content).tokens


class HashEmbedder:
    """An embedder without a model: each word has a random vector, so texts that share words are similar.

    Set `fail_with` to make every call raise an error, or `hang` to make calls wait until they are cancelled. `calls`
    holds the texts and the purpose of each call.

    >>> import asyncio
    >>> tea, coffee = asyncio.run(HashEmbedder().embed(["green tea", "black coffee"], "passage"))
    >>> float(tea @ tea) > float(tea @ coffee)
    True
    """

    def __init__(self, dims: int = 32) -> None:
        """Create an embedder with vectors of this length."""
        self.id = f"hash-{dims}@1"
        self.dims = dims
        self.fail_with: Exception | None = None
        self.hang = False
        self.calls: list[tuple[tuple[str, ...], Purpose]] = []
        self.closed = False
        self._known: dict[str, Vectors] = {}

    async def embed(self, texts: Sequence[str], purpose: "Purpose") -> "Vectors":
        """Return one row per text; zeros for a text without words."""
        import asyncio  # noqa: PLC0415 - slow to import, and a WordCounter needs neither

        import numpy as np  # noqa: PLC0415

        self.calls.append((tuple(texts), purpose))
        if self.fail_with is not None:
            raise self.fail_with
        if self.hang:
            await asyncio.Event().wait()
        rows = np.zeros((len(texts), self.dims), np.float32)
        for at, text in enumerate(texts):
            for word in text.lower().split():
                rows[at] += self._vector(word)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        rows /= np.where(lengths > 0, lengths, 1)
        return rows

    async def close(self) -> None:
        """Set `closed`."""
        self.closed = True

    def _vector(self, word: str) -> "Vectors":
        import numpy as np  # noqa: PLC0415 - slow to import

        if word not in self._known:
            self._known[word] = np.random.default_rng(_seed(word)).standard_normal(self.dims, np.float32)
        return self._known[word]


def _seed(word: str) -> int:
    return int.from_bytes(hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


Outcome = str | Reply | Exception
ScriptLine = Outcome | Callable[[Request], Outcome]
"""What a scripted model does for a request: answer with a text or a reply, raise an error, or call a function."""


class ScriptedProvider:
    """A provider without a model: it answers from a script, one line per request, and records the requests.

    A line is a text, a reply, an error, or a function that makes one of these from the request. `script` is any
    iterable, so `itertools.repeat("Yes.")` never ends. If `tokens` is given, which counts a request, answers report
    their usage, and a request of more than `window` tokens is an overflow, which uses no line of the script.

    After `hold()`, requests wait until `release()`; `waiting` is their number. Streams send word by word; `aborted`
    counts the streams that were closed before their end.

    >>> import asyncio
    >>> provider = ScriptedProvider(["Thursday."])
    >>> asyncio.run(provider.send({"model": "m", "messages": []})).text, len(provider.requests)
    ('Thursday.', 1)
    """

    def __init__(
        self,
        script: Iterable[ScriptLine] = (),
        *,
        wire: str = "openai",
        route: str = "scripted",
        tokens: Callable[[Request], int] | None = None,
        window: int | None = None,
    ) -> None:
        """Create a provider for a script."""
        self.wire: str = wire
        self.route = route
        self.tokens = tokens
        self.window = window
        self.requests: list[Request] = []
        self.waiting = 0
        self.aborted = 0
        self.closed = False
        self._script = iter(script)
        self._hold: asyncio.Event | None = None

    async def send(self, request: Request) -> Reply:
        """Return the next answer of the script, or raise it."""
        self.requests.append(request)
        await self._wait_until_released()
        return self._next(request)

    async def stream(self, request: Request) -> AsyncGenerator[ReplyChunk, None]:
        """Yield the next answer of the script word by word, then the whole reply."""
        self.requests.append(request)
        await self._wait_until_released()
        reply, whole = self._next(request), False
        try:
            for word in _words(reply.text):
                yield ReplyChunk(text=word)
                await self._wait_until_released()
            whole = True
            yield ReplyChunk(reply=reply)
        finally:
            self.aborted += not whole

    async def count(self, request: Request) -> int | None:
        """Return the tokens of the request if `tokens` was given."""
        return self.tokens(request) if self.tokens else None

    async def close(self) -> None:
        """Set `closed`."""
        self.closed = True

    def hold(self) -> None:
        """Make requests wait until `release()`."""
        import asyncio  # noqa: PLC0415 - slow to import

        self._hold = self._hold or asyncio.Event()

    def release(self) -> None:
        """Let waiting requests continue."""
        if self._hold is not None:
            self._hold.set()
            self._hold = None

    async def _wait_until_released(self) -> None:
        if self._hold is None:
            return
        self.waiting += 1
        try:
            await self._hold.wait()
        finally:
            self.waiting -= 1

    def _next(self, request: Request) -> Reply:
        return _next_reply(self._script, request, route=self.route, tokens=self.tokens, window=self.window)


def _next_reply(
    script: Iterator[ScriptLine],
    request: Request,
    *,
    route: str,
    tokens: Callable[[Request], int] | None,
    window: int | None,
) -> Reply:
    prompt = tokens(request) if tokens else None
    if prompt is not None and window is not None and prompt > window:
        reason = f"the prompt has {prompt:,} tokens, the window {window:,}"
        raise ContextOverflow(route, reason, status=400, window=window, prompt=prompt)
    line = next(script, None)
    outcome = line(request) if callable(line) else line
    if outcome is None:
        raise ProviderError(route, "the script has no more lines; it needs one per request")
    if isinstance(outcome, Exception):
        raise outcome
    model = str(request.get("model", ""))
    reply = outcome if isinstance(outcome, Reply) else Reply(parts=(Text(text=outcome),), model=model)
    if prompt is None or reply.usage:
        return reply
    return msgspec.structs.replace(reply, usage=Usage(prompt=prompt, completion=len(reply.text.split())))


Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class FakeAzure:
    """An ASGI app that answers chat completions at the paths of Azure OpenAI, and is as strict about keys and versions.

    A deployment is found at `/openai/deployments/NAME/chat/completions?api-version=…`, which takes the key in `api-key`
    only, and as the `model` at `/openai/v1/chat/completions`. `requests` are the bodies that were accepted.
    """

    def __init__(self, *deployments: str, key: str, text: str = "Hello.") -> None:
        self.requests: list[Request] = []
        self._deployments = deployments
        self._key = key
        self._text = text

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return
        body = await _read_body(receive)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        status, answer = self._answer(scope["path"], scope["query_string"].decode(), headers, body)
        sent = [(b"content-type", b"application/json"), (b"apim-request-id", b"r1")]
        await send({"type": "http.response.start", "status": status, "headers": sent})
        await send({"type": "http.response.body", "body": msgspec.json.encode(answer)})

    def _answer(self, path: str, query: str, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, Any]]:
        found = re.fullmatch(r"/openai/(v1|deployments/(?P<deployment>[^/]+))/chat/completions", path)
        if found is None or (found["deployment"] and not parse_qs(query).get("api-version")):
            return 404, _azure_error("404", "Resource not found")
        is_bearer = headers.get("authorization") == f"Bearer {self._key}" and not found["deployment"]
        if headers.get("api-key") != self._key and not is_bearer:
            return 401, _azure_error("401", "Access denied due to invalid subscription key or wrong API endpoint.")
        request = msgspec.json.decode(body, type=dict[str, Any])
        if (found["deployment"] or request.get("model")) not in self._deployments:
            return 404, _azure_error("DeploymentNotFound", "The API deployment for this resource does not exist.")
        self.requests.append(request)
        message = {"role": "assistant", "content": self._text}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return 200, {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}


class ScriptedServer:
    """An ASGI app that answers from a script, whole or as a stream: as OpenAI's, Anthropic's, Gemini's or Ollama's API.

    The script, `tokens` and `window` are those of `ScriptedProvider`. `requests` are the bodies that came. An overflow
    has the status and the error of OpenAI or Gemini, any other error its own status or 500, and any other path the
    status 404.

    >>> server = ScriptedServer(["Hello.", lambda request: request["messages"][-1]["content"].upper()])
    >>> server.answer({"messages": [{"role": "user", "content": "Hi"}]}).text
    'Hello.'
    """

    def __init__(
        self,
        script: Iterable[ScriptLine],
        *,
        tokens: Callable[[Request], int] | None = None,
        window: int | None = None,
    ) -> None:
        self.requests: list[Request] = []
        self._script = iter(script)
        self._tokens = tokens
        self._window = window

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return
        body = await _read_body(receive)
        status, kind = 200, b"application/json"
        api = next((api for path, api in _SCRIPTED_APIS.items() if re.fullmatch(path, scope["path"])), None)
        if api is None:
            status, chunks = 404, [b"{}"]
        else:
            request = msgspec.json.decode(body, type=dict[str, Any])
            try:
                whole, events = api.write(self.answer(request))
            except ProviderError as error:
                status, chunks = error.status or 500, [msgspec.json.encode({"error": api.describe_error(error)})]
            else:
                streams = api.streams if api.streams is not None else request.get("stream", api.kind == _JSON_LINES)
                kind = api.kind if streams else kind
                chunks = events if streams else [msgspec.json.encode(whole)]
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind)]})
        for chunk in chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    def answer(self, request: Request) -> Reply:
        """Return the next answer of the script, or raise it."""
        self.requests.append(request)
        return _next_reply(self._script, request, route="scripted", tokens=self._tokens, window=self._window)


def _describe_error(error: ProviderError) -> dict[str, str]:
    if isinstance(error, ContextOverflow):
        message = (
            f"This model's maximum context length is {error.window} tokens. However, your messages resulted in "
            f"{error.prompt} tokens. Please reduce the length of the messages."
        )
        return {"message": message, "type": "invalid_request_error", "code": "context_length_exceeded"}
    return {"message": str(error), "type": "server_error"}


def _chat_answer(reply: Reply) -> tuple[dict[str, Any], list[bytes]]:
    """Return a reply as a chat completion, and as the events of one."""
    usage = reply.usage or Usage(prompt=10, completion=2)
    head = {"id": reply.id or "chatcmpl-1", "created": 1, "model": reply.model or "scripted"}
    counts = {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.prompt + usage.completion,
    }
    calls: list[dict[str, Any]] = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in reply.calls
    ]
    finish: dict[str, Any] = {"finish_reason": "tool_calls" if calls else "stop"}
    message = {"role": "assistant", "content": reply.text or None} | ({"tool_calls": calls} if calls else {})
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": word} for word in _words(reply.text)]
    for at, call in enumerate(calls):
        function = call["function"]
        deltas.append({"tool_calls": [{**call, "index": at, "function": function | {"arguments": ""}}]})
        for piece in (function["arguments"][:5], function["arguments"][5:]):
            deltas.append({"tool_calls": [{"index": at, "function": {"arguments": piece}}]})
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, **finish})
    chunks = [head | {"object": "chat.completion.chunk", "choices": [choice]} for choice in choices]
    chunks.append(head | {"object": "chat.completion.chunk", "choices": [], "usage": counts})
    events = [*(b"data: %b\n\n" % msgspec.json.encode(chunk) for chunk in chunks), b"data: [DONE]\n\n"]
    whole = {"object": "chat.completion", "choices": [{"index": 0, "message": message, **finish}], "usage": counts}
    return head | whole, events


def _message_answer(reply: Reply) -> tuple[dict[str, Any], list[bytes]]:
    """Return a reply as one of Anthropic's messages, and as the events of one."""
    usage = reply.usage or Usage(prompt=10, completion=2)
    stop = {"stop_reason": "tool_use" if reply.calls else "end_turn", "stop_sequence": None}
    blocks: list[dict[str, Any]] = [
        {"type": "text", "text": part.text}
        if isinstance(part, Text)
        else {"type": "tool_use", "id": part.id, "name": part.name, "input": msgspec.json.decode(part.arguments)}
        for part in reply.parts
    ]
    whole: dict[str, Any] = {
        "id": reply.id or "msg_1",
        "type": "message",
        "role": "assistant",
        "model": reply.model or "scripted",
    }
    counts = {"input_tokens": usage.prompt, "output_tokens": usage.completion}
    start = whole | {"content": [], "stop_reason": None, "stop_sequence": None, "usage": counts | {"output_tokens": 1}}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": start}, {"type": "ping"}]
    for at, block in enumerate(blocks):
        is_text = block["type"] == "text"
        empty = {**block, "text": ""} if is_text else {**block, "input": {}}
        events.append({"type": "content_block_start", "index": at, "content_block": empty})
        pieces = _words(block["text"]) if is_text else (msgspec.json.encode(block["input"]).decode(),)
        kind, field = ("text_delta", "text") if is_text else ("input_json_delta", "partial_json")
        deltas = ({"type": kind, field: piece} for piece in pieces)
        events += [{"type": "content_block_delta", "index": at, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": at})
    events.append({"type": "message_delta", "delta": stop, "usage": {"output_tokens": usage.completion}})
    events.append({"type": "message_stop"})
    written = [b"event: %b\ndata: %b\n\n" % (each["type"].encode(), msgspec.json.encode(each)) for each in events]
    return whole | stop | {"content": blocks, "usage": counts}, written


def _content_answer(reply: Reply) -> tuple[dict[str, Any], list[bytes]]:
    """Return a reply as Gemini's content, and as the events of one."""
    usage = reply.usage or Usage(prompt=10, completion=2)
    counts = {
        "promptTokenCount": usage.prompt,
        "candidatesTokenCount": usage.completion,
        "totalTokenCount": usage.prompt + usage.completion,
    }
    head = {"modelVersion": reply.model or "scripted", "responseId": reply.id or "resp-1"}

    def piece(parts: list[dict[str, Any]], **finish: str) -> dict[str, Any]:
        content = {"role": "model", "parts": parts}
        return {"candidates": [{"index": 0, "content": content, **finish}], "usageMetadata": counts, **head}

    calls: list[dict[str, Any]] = [
        {"functionCall": {"name": call.name, "args": msgspec.json.decode(call.arguments)}} for call in reply.calls
    ]
    texts = [{"text": reply.text}] if reply.text else []
    events = [piece([{"text": word}]) for word in _words(reply.text)] + [piece([call]) for call in calls]
    events.append(piece([{"text": ""}], finishReason="STOP"))
    written = [b"data: %b\r\n\r\n" % msgspec.json.encode(each) for each in events]
    return piece([*texts, *calls], finishReason="STOP"), written


def _describe_content_error(error: ProviderError) -> dict[str, Any]:
    message = str(error)
    if isinstance(error, ContextOverflow):
        message = (
            f"The input token count ({error.prompt}) exceeds the maximum number of tokens allowed ({error.window})."
        )
    return {"code": error.status or 500, "message": message, "status": "INVALID_ARGUMENT"}


def _ollama_answer(reply: Reply) -> tuple[dict[str, Any], list[bytes]]:
    """Return a reply as Ollama's message, and as the lines of one."""
    usage = reply.usage or Usage(prompt=10, completion=2)
    head = {"model": reply.model or "scripted", "created_at": "2026-11-17T00:00:00Z"}
    calls = [
        {"function": {"name": call.name, "arguments": msgspec.json.decode(call.arguments)}} for call in reply.calls
    ]
    end = {"done": True, "done_reason": "stop", "prompt_eval_count": usage.prompt, "eval_count": usage.completion}

    def piece(text: str, **more: Any) -> dict[str, Any]:
        return {**head, "message": {"role": "assistant", "content": text, **more}, "done": False}

    lines = [piece(word) for word in _words(reply.text)] + [piece("", tool_calls=[call]) for call in calls]
    lines.append(piece("") | end)
    whole = (piece(reply.text, tool_calls=calls) if calls else piece(reply.text)) | end
    return whole, [msgspec.json.encode(line) + b"\n" for line in lines]


class _ScriptedApi(msgspec.Struct, frozen=True, kw_only=True):
    """How replies and errors are written. If `streams` is None, the request says whether its answer is streamed."""

    write: Callable[[Reply], tuple[dict[str, Any], list[bytes]]]
    describe_error: Callable[[ProviderError], Any] = _describe_error
    kind: bytes = b"text/event-stream"
    streams: bool | None = None


_JSON_LINES: Final = b"application/x-ndjson"
_SCRIPTED_APIS: Final = {
    "(/v1)?/chat/completions": _ScriptedApi(write=_chat_answer),
    "(/v1)?/messages": _ScriptedApi(write=_message_answer),
    "/v1beta/models/.+:generateContent": _ScriptedApi(
        write=_content_answer, describe_error=_describe_content_error, streams=False
    ),
    "/v1beta/models/.+:streamGenerateContent": _ScriptedApi(
        write=_content_answer, describe_error=_describe_content_error, streams=True
    ),
    "/api/chat": _ScriptedApi(write=_ollama_answer, describe_error=str, kind=_JSON_LINES),
}


class FakeResponses:
    """An ASGI app that answers `POST /v1/responses`, whole or as a stream, and is as strict about items as OpenAI.

    `script` has the output items of each answer, or a text for one message. Each answer starts with a reasoning item,
    and what follows it is rejected without it. `tokens` counts a request; one of more than `window` tokens is rejected,
    in a stream by its third event. `requests` are the bodies that came, and `GET /v1/responses/ID` returns an answer.
    """

    def __init__(
        self,
        script: Iterable[str | Sequence[dict[str, Any]]] = (),
        *,
        tokens: Callable[[Request], int] = lambda _: 12,
        window: int = 128_000,
    ) -> None:
        self.requests: list[Request] = []
        self.tokens = tokens
        self.window = window
        self._script = iter(script)
        self._answers: dict[str, dict[str, Any]] = {}
        self._reasoning: dict[str, str] = {}  # by the item that needs it

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return
        body = await _read_body(receive)
        status, answer = self._answer(scope["method"], scope["path"], body)
        kind = b"application/json" if isinstance(answer, dict) else b"text/event-stream"
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind)]})
        for event in () if isinstance(answer, dict) else answer:
            data = b"event: %b\ndata: %b\n\n" % (event["type"].encode(), msgspec.json.encode(event))
            await send({"type": "http.response.body", "body": data, "more_body": True})
        rest = msgspec.json.encode(answer) if isinstance(answer, dict) else b""
        await send({"type": "http.response.body", "body": rest})

    def _answer(self, method: str, path: str, body: bytes) -> tuple[int, dict[str, Any] | list[dict[str, Any]]]:
        id = path.removeprefix("/v1/responses/")
        match method:
            case "POST" if id == "input_tokens":
                tokens = self.tokens(msgspec.json.decode(body))
                return 200, {"object": "response.input_tokens", "input_tokens": tokens}
            case "POST" if path == "/v1/responses":
                request = msgspec.json.decode(body, type=dict[str, Any])
                self.requests.append(request)
                error = self._find_error(request)
                return (400, _responses_error(error)) if error else self._respond(request)
            case "GET" if id in self._answers:
                return 200, self._answers[id]
            case "DELETE" if id in self._answers:
                del self._answers[id]
                return 200, {"id": id, "object": "response", "deleted": True}
        return 404, _responses_error(f"Item with id '{id}' not found.")

    def _find_error(self, request: Request) -> str | None:
        earlier = request.get("previous_response_id")
        if earlier is not None and earlier not in self._answers:
            return f"Previous response with id '{earlier}' not found."
        return None if isinstance(request["input"], str) else self.find_broken_item(request["input"])

    def _respond(self, request: Request) -> tuple[int, dict[str, Any] | list[dict[str, Any]]]:
        prompt, streams = self.tokens(request), request.get("stream") is True
        number = len(self.requests)
        whole = {
            "id": f"resp_{number}",
            "object": "response",
            "created_at": 1,
            "status": "in_progress",
            "model": request["model"],
            "instructions": request.get("instructions"),
            "tools": request.get("tools", []),
            "tool_choice": "auto",
            "parallel_tool_calls": True,
            "store": request.get("store", True),
            "output": [],
            "error": None,
            "usage": None,
            "metadata": {},
        }
        if prompt > self.window:
            message = "Your input exceeds the context window of this model. Please adjust your input and try again."
            error = {"code": "context_length_exceeded", "message": message}
            if not streams:
                return 400, {"error": error | {"type": "invalid_request_error", "param": "input"}}
            return 200, _number_events(_frame_events(whole, [], whole | {"status": "failed", "error": error}))
        output = self._output(next(self._script, "Hello."), number)
        usage = {
            "input_tokens": prompt,
            "input_tokens_details": {"cached_tokens": 4},
            "output_tokens": 3,
            "output_tokens_details": {"reasoning_tokens": 1},
            "total_tokens": prompt + 3,
        }
        answer = self._answers[whole["id"]] = whole | {"status": "completed", "output": output, "usage": usage}
        if not streams:
            return 200, answer
        events = [event for at, item in enumerate(output) for event in _item_events(at, item)]
        return 200, _number_events(_frame_events(whole, events, answer))

    def _output(self, line: str | Sequence[dict[str, Any]], number: int) -> list[dict[str, Any]]:
        reasoning = {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": "gAAA" * 300}
        text = {"type": "output_text", "text": line, "annotations": []}
        items = (
            [{"type": "message", "role": "assistant", "content": [text]}]
            if isinstance(line, str)
            else [dict(item) for item in line]
        )
        items = [{"id": f"{item['type']}_{number}_{at}", "status": "completed"} | item for at, item in enumerate(items)]
        self._reasoning |= {str(item["id"]): str(reasoning["id"]) for item in items}
        return [reasoning, *items]

    def find_broken_item(self, items: Sequence[Mapping[str, Any]]) -> str | None:
        """Return OpenAI's message for an item without another one that it requires; None if there is no such item.

        >>> FakeResponses().find_broken_item([{"type": "function_call", "call_id": "c1"}])
        'No tool output found for function call c1.'
        """
        ids = {item.get("id") for item in items}
        calls = [item.get("call_id") for item in items if str(item.get("type")).endswith("_call")]
        outputs = [item.get("call_id") for item in items if str(item.get("type")).endswith("_call_output")]
        for call in calls:
            if call is not None and call not in outputs:
                return f"No tool output found for function call {call}."
        for output in outputs:
            if output not in calls:
                return f"No tool call found for function call output with call_id {output}."
        for at, item in enumerate(items):
            following = items[at + 1] if at + 1 < len(items) else {"role": "user"}
            is_alone = following.get("role", "assistant") != "assistant" or str(following.get("type")).endswith(
                "output"
            )
            if item.get("type") == "reasoning" and is_alone:
                return f"Item '{item.get('id')}' of type 'reasoning' was provided without its required following item."
            needed = self._reasoning.get(str(item.get("id")))
            if needed is not None and needed not in ids:
                named = f"Item '{item['id']}' of type '{item.get('type')}'"
                return f"{named} was provided without its required 'reasoning' item: '{needed}'."
        return None


def _frame_events(
    whole: dict[str, Any], events: Sequence[dict[str, Any]], answer: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    yield {"type": "response.created", "response": whole}
    yield {"type": "response.in_progress", "response": whole}
    yield from events
    yield {"type": f"response.{answer['status']}", "response": answer}


def _item_events(at: int, item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    place = {"output_index": at, "item_id": item["id"]}
    is_message, is_call = item["type"] == "message", item["type"] == "function_call"
    empty: dict[str, Any] = {"content": []} if is_message else {"arguments": ""} if is_call else {}
    yield {"type": "response.output_item.added", "output_index": at, "item": item | empty}
    for index, block in enumerate(item["content"] if is_message else ()):
        inside = place | {"content_index": index}
        yield {"type": "response.content_part.added", "part": block | {"text": ""}, **inside}
        for word in _words(block["text"]):
            yield {"type": "response.output_text.delta", "delta": word, "logprobs": [], **inside}
        yield {"type": "response.output_text.done", "text": block["text"], "logprobs": [], **inside}
        yield {"type": "response.content_part.done", "part": block, **inside}
    if is_call:
        yield {"type": "response.function_call_arguments.delta", "delta": item["arguments"], **place}
        yield {"type": "response.function_call_arguments.done", "arguments": item["arguments"], **place}
    yield {"type": "response.output_item.done", "output_index": at, "item": item}


def _number_events(events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event | {"sequence_number": number} for number, event in enumerate(events)]


def _responses_error(message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": "input", "code": None}}


async def _read_body(receive: Receive) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    return body


def _azure_error(code: str, message: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message}}


def _words(text: str) -> Iterator[str]:
    """Yield the words of a text, each with the space after it.

    >>> list(_words("Tea at four."))
    ['Tea ', 'at ', 'four.']
    """
    head, space, rest = text.partition(" ")
    while space:
        yield head + space
        head, space, rest = rest.partition(" ")
    if head:
        yield head


def find_violations(request: Request, wire: str) -> list[str]:
    """Return what a provider would refuse in the conversation of a request that a client wrote.

    Checked are the order of turns, and that tool calls, their results and what the model thought stay together.

    >>> call = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "look_up", "input": {}}]}
    >>> find_violations({"messages": [{"role": "user", "content": "Hi"}, call]}, "anthropic")
    ['turn 1: tool calls without their results: t1']
    """
    rules = {
        "openai": _openai_violations,
        "anthropic": _anthropic_violations,
        "gemini": _gemini_violations,
        "responses": _responses_violations,
    }
    return list(rules[wire](request))


def _responses_violations(request: Request) -> Iterator[str]:
    broken = None if isinstance(request["input"], str) else FakeResponses().find_broken_item(request["input"])
    if broken:
        yield broken


def _openai_violations(request: Request) -> Iterator[str]:
    waiting: set[str] = set()
    for at, message in enumerate(request["messages"]):
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                yield f"message {at}: a result without its call"
            waiting.discard(message["tool_call_id"])
            continue
        if waiting:
            yield f"message {at}: tool calls without their results: {', '.join(sorted(waiting))}"
        waiting = {call["id"] for call in message.get("tool_calls") or ()}
    if waiting:
        yield f"the end: tool calls without their results: {', '.join(sorted(waiting))}"


def _anthropic_violations(request: Request) -> Iterator[str]:
    turns: list[tuple[str, list[dict[str, Any]]]] = []
    for message in request["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if turns and turns[-1][0] == message["role"]:  # the API joins them
            turns[-1][1].extend(blocks)
        else:
            turns.append((message["role"], [*blocks]))
    if not turns or turns[0][0] != "user":
        yield "turn 0: must be the user's"
    for at, (role, blocks) in enumerate(turns):
        if not all(block["text"].strip() for block in blocks if block["type"] == "text"):
            yield f"turn {at}: an empty text"
        before = turns[at - 1][1] if at else []
        after = turns[at + 1][1] if at + 1 < len(turns) else []
        yield from _anthropic_pairing(at, role, blocks, before, after)
    thinks = (request.get("thinking") or {}).get("type") == "enabled"
    calls = turns[-2][1] if len(turns) > 1 and any(map(_is_client_result, turns[-1][1])) else []
    if thinks and calls and calls[0]["type"] not in ("thinking", "redacted_thinking"):
        yield f"turn {len(turns) - 2}: must begin with what the model thought before the call"


def _anthropic_pairing(
    at: int, role: str, blocks: list[dict[str, Any]], before: list[dict[str, Any]], after: list[dict[str, Any]]
) -> Iterator[str]:
    calls = {block["id"] for block in blocks if block["type"] == "tool_use"}
    missing = calls.difference(block.get("tool_use_id", "") for block in after)
    if missing:
        yield f"turn {at}: tool calls without their results: {', '.join(sorted(missing))}"
    own = {block["id"] for block in blocks if block["type"] in ("server_tool_use", "mcp_tool_use")}
    results = {block["tool_use_id"] for block in blocks if "tool_use_id" in block and not _is_client_result(block)}
    if own != results and (after or results - own):
        yield f"turn {at}: calls of the server's tools without their results, or results without calls"
    answers = [block["tool_use_id"] for block in blocks if _is_client_result(block)]
    called = {block["id"] for block in before if block["type"] == "tool_use"}
    if len(answers) != len(set(answers)) or not called.issuperset(answers) or (answers and role != "user"):
        yield f"turn {at}: results without their calls"
    if not all(map(_is_client_result, blocks[: len(answers)])):
        yield f"turn {at}: results must come first"


def _is_client_result(block: dict[str, Any]) -> bool:
    return bool(block["type"] == "tool_result")


def _gemini_violations(request: Request) -> Iterator[str]:
    contents = request["contents"]
    calls: list[str] = []
    before = "model"
    for at, content in enumerate(contents):
        role = "model" if content.get("role") == "model" else "user"
        parts = [_camel_keys(part) for part in content["parts"]]
        answers = [part["functionResponse"]["name"] for part in parts if "functionResponse" in part]
        if sorted(answers) != sorted(calls):
            yield f"content {at}: the results {answers} do not answer the calls {calls}"
        calls = [part["functionCall"]["name"] for part in parts if "functionCall" in part]
        if role == before == "model" and (calls or not at):
            yield f"content {at}: must come after a turn of the user"
        if not parts or any("text" in part and not part["text"] for part in parts):
            yield f"content {at}: an empty part"
        before = role
    if before == "model":
        yield "the end: must be a turn of the user"
    yield from _missing_signatures(contents)


def _missing_signatures(contents: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the calls since the user's last words that lack the signature of a thought, if there are any at all."""
    if "thoughtSignature" not in str(contents) and "thought_signature" not in str(contents):
        return
    for at in reversed(range(len(contents))):
        parts = [_camel_keys(part) for part in contents[at]["parts"]]
        if contents[at].get("role") != "model" and any("text" in part for part in parts):
            return
        call = next((part for part in parts if "functionCall" in part), None)
        if call is not None and "thoughtSignature" not in call:
            yield f"content {at}: a call without the signature of its thought"


def _camel_keys(part: dict[str, Any]) -> dict[str, Any]:
    return {re.sub("_([a-z])", lambda found: found[1].upper(), key): value for key, value in part.items()}
