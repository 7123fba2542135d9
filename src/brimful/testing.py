"""For tests: a counter, an embedder, a provider and servers without a model, and the rules of providers."""

import hashlib
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import msgspec

from brimful.core.content import Media, Part, Role, Text, ToolCall, ToolResult
from brimful.core.prompt import Prompt, Request
from brimful.core.tokens import Count
from brimful.errors import ContextOverflow, ProviderError
from brimful.records import Usage
from brimful.records.reply import Reply, ReplyChunk
from brimful.wires import Wire, find_wire
from brimful.wires.openai_responses import find_broken_item, write_events
from brimful.wires.registry import served_wires
from brimful.wires.replies import split_words
from brimful.wires.wire import ErrorFacts

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
        for index, text in enumerate(texts):
            for word in text.lower().split():
                rows[index] += self._vector(word)
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
            for word in split_words(reply.text):
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
    """An ASGI app that answers from a script, whole or as a stream, in any wire format that can write replies.

    The script, `tokens` and `window` are those of `ScriptedProvider`. `requests` are the bodies that came. An overflow
    is worded as OpenAI's, any other error has its own status or 500, and any other path the status 404.

    >>> server = ScriptedServer(["Hello.", lambda request: request["messages"][-1]["content"].upper()])
    >>> server.answer({"messages": [{"role": "user", "content": "Hi"}]}).text
    'Hello.'
    """

    def __init__(
        self, script: Iterable[ScriptLine], *, tokens: Callable[[Request], int] | None = None, window: int | None = None
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
        wire = _find_scripted_wire(scope["path"])
        if wire is None or wire.write_reply is None:
            status, chunks = 404, [b"{}"]
        else:
            request = msgspec.json.decode(body, type=dict[str, Any])
            try:
                whole, events = wire.write_reply(self.answer(request))
            except ProviderError as error:
                status = error.status or 500
                chunks = [msgspec.json.encode(wire.write_error(_describe_error(error, status)))]
            else:
                _, streams = wire.read_call(scope["path"], {}, request)
                if streams:
                    kind = b"application/x-ndjson" if wire.is_json_lines else b"text/event-stream"
                chunks = events if streams else [msgspec.json.encode(whole)]
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind)]})
        for chunk in chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    def answer(self, request: Request) -> Reply:
        """Return the next answer of the script, or raise it."""
        self.requests.append(request)
        return _next_reply(self._script, request, route="scripted", tokens=self._tokens, window=self._window)


def _describe_error(error: ProviderError, status: int) -> ErrorFacts:
    if isinstance(error, ContextOverflow):
        message = (
            f"This model's maximum context length is {error.window} tokens. However, your messages resulted in "
            f"{error.prompt} tokens. Please reduce the length of the messages."
        )
        return ErrorFacts(kind="overflow", message=message, status=status, code="context_length_exceeded")
    return ErrorFacts(kind="upstream", message=str(error), status=status)


def _find_scripted_wire(path: str) -> Wire | None:
    """Return the wire of a path. The version is optional, since clients have it in their base URL."""
    for wire, paths in served_wires():
        for served in paths.completions:
            pattern = served.replace("{model}", ".+")
            if re.fullmatch(pattern, path) or re.fullmatch(pattern.removeprefix(paths.root), path):
                return wire
    return None


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
            return 200, write_events(whole | {"status": "failed", "error": error})
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
        return 200, write_events(answer)

    def _output(self, line: str | Sequence[dict[str, Any]], number: int) -> list[dict[str, Any]]:
        reasoning = {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": "gAAA" * 300}
        text = {"type": "output_text", "text": line, "annotations": []}
        items = (
            [{"type": "message", "role": "assistant", "content": [text]}]
            if isinstance(line, str)
            else [dict(item) for item in line]
        )
        items = [{"id": f"{item['type']}_{number}_{i}", "status": "completed"} | item for i, item in enumerate(items)]
        self._reasoning |= {str(item["id"]): str(reasoning["id"]) for item in items}
        return [reasoning, *items]

    def find_broken_item(self, items: Sequence[Mapping[str, Any]]) -> str | None:
        """Return OpenAI's message for an item without another one that it requires; None if there is no such item.

        >>> FakeResponses().find_broken_item([{"type": "function_call", "call_id": "c1"}])
        'No tool output found for function call c1.'
        """
        return find_broken_item(items, self._reasoning)


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


def find_violations(request: Request, wire: str) -> list[str]:
    """Return what a provider would refuse in the conversation of a request that a client wrote.

    Checked are the order of turns, and that tool calls, their results and what the model thought stay together.

    >>> call = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "look_up", "input": {}}]}
    >>> find_violations({"messages": [{"role": "user", "content": "Hi"}, call]}, "anthropic")
    ['turn 1: tool calls without their results: t1']
    """
    find_broken = find_wire(wire).find_broken
    return [] if find_broken is None else list(find_broken(request))
