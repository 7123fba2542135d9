"""A fake upstream that records requests and gives prepared answers."""

import asyncio
import json
import threading
from contextlib import contextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

OVERFLOW = {
    "error": {
        "code": 400,
        "message": "request (631 tokens) exceeds the available context size (256 tokens), try increasing it",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": 631,
        "n_ctx": 256,
    }
}


def chat_answer(text="Thursday.", *, prompt=12, **more):
    message = {"role": "assistant", "content": text, **more}
    usage = {"prompt_tokens": prompt, "completion_tokens": 3, "total_tokens": prompt + 3}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "up",
        "choices": [choice],
        "usage": usage,
    }


def chat_events(*texts, finish="stop"):
    """The events of a streamed chat completion."""
    for text in texts:
        yield _chunk({"role": "assistant", "content": text}, None)
    yield _chunk({}, finish)
    yield "data: [DONE]\n\n"


def _chunk(delta, finish):
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    data = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "up", "choices": [choice]}
    return f"data: {json.dumps(data)}\n\n"


def message_answer(text="Thursday.", *, prompt=12):
    usage = {"input_tokens": prompt, "output_tokens": 3}
    content = [{"type": "text", "text": text}]
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "up",
        "content": content,
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": usage,
    }


def message_events(*texts):
    """The events of a streamed message."""
    start = message_answer("") | {"content": [], "stop_reason": None}
    yield _event({"type": "message_start", "message": start})
    yield _event({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})
    for text in texts:
        yield _event({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}})
    yield _event({"type": "content_block_stop", "index": 0})
    yield _event({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}})
    yield _event({"type": "message_stop"})


def _event(said):
    return f"event: {said['type']}\ndata: {json.dumps(said)}\n\n"


def not_found(path):
    """Return the error for an unknown path, in the format of its API."""
    if path.startswith("/v1beta"):
        return {"error": {"code": 404, "message": "no such path", "status": "NOT_FOUND"}}
    if path.startswith("/api"):
        return {"error": "no such path"}
    return {"type": "error", "error": {"type": "not_found_error", "message": "no such path"}}


class Upstream:
    """A fake server. `answers` are given one after the other, the last of them again and again.

    An answer is a dict (JSON), a pair of status and body, a list of texts (a stream), a response, or a function from
    the request's body to any of these. `pause` is the time between two pieces of a stream; `silent`, it never
    answers; `deaf`, it answers without reading what it was sent. `targets` are the methods and URLs of all requests,
    but for lists of models and other `pages`. `count` counts the tokens of a body, as vLLM does.
    """

    def __init__(self):
        self.address = ""
        self.reset()

    def reset(self):
        self.requests = []
        self.targets = []
        self.pages = {"/v1/models": {"object": "list", "data": [{"id": "gpt-4o", "object": "model"}]}}
        self.count = None
        self.answers = []
        self.pause = 0.0
        self.silent = False
        self.deaf = False
        self.left = threading.Event()

    @property
    def bodies(self):
        return [body for _, _, body in self.requests]

    def app(self):
        methods = ["GET", "POST", "PUT", "PATCH", "DELETE"]
        return Starlette(routes=[Route("/{path:path}", self._serve, methods=methods)])

    async def _serve(self, request):
        raw = await request.body()
        is_json = "json" in request.headers.get("content-type", "json")
        body = {} if self.deaf else json.loads(raw) if raw and is_json else raw or None
        if request.method == "GET" and request.url.path.endswith(("/models", "/props", "/api/ps")):
            page = self.pages.get(request.url.path)
            return JSONResponse(page or not_found(request.url.path), status_code=200 if page else 404)
        if request.url.path.endswith(("/chat/completions/input_tokens", "/tokenize")):
            counts = self.count is not None and request.url.path == "/tokenize"
            return JSONResponse({"count": self.count(body)} if counts else {}, 200 if counts else 404)
        self.requests.append((request.url.path, dict(request.headers), body))
        query = request.scope["query_string"].decode()
        target = request.scope["raw_path"].decode() + (f"?{query}" if query else "")
        self.targets.append(f"{request.method} {target}")
        while self.silent and (await request.receive())["type"] != "http.disconnect":
            pass
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0] if self.answers else None
        if callable(answer) and not isinstance(answer, Response):
            answer = answer(body)
        return self._response(answer, request.url.path, body)

    def _response(self, answer, path, body):
        messages = path == "/v1/messages"
        known = path.endswith(("/chat/completions", "/messages", "/embeddings"))
        if answer is None and not known:
            answer = (404, not_found(path))
        if answer is None and isinstance(body, dict) and body.get("stream"):
            answer = list((message_events if messages else chat_events)("Thurs", "day."))
        elif answer is None:
            answer = message_answer() if messages else chat_answer()
        match answer:
            case Response():
                return answer
            case list():
                return StreamingResponse(self._pieces(answer), media_type="text/event-stream")
            case (int(status), said):
                return JSONResponse(said, status_code=status)
            case _:
                return JSONResponse(answer)

    async def _pieces(self, pieces):
        try:
            for piece in pieces:
                yield piece
                await asyncio.sleep(self.pause)
        except BaseException:
            self.left.set()
            raise


def in_step(pieces):
    """Return a stream that sends a piece when the one before it has arrived, and what to release when one arrives."""
    arrived = threading.Semaphore(0)

    async def send():
        for piece in pieces:
            yield piece
            await asyncio.to_thread(arrived.acquire, timeout=60)

    return StreamingResponse(send(), media_type="text/event-stream"), arrived


class Server(uvicorn.Server):
    """A server that starts and stops at once. Uvicorn's own waits a tenth of a second again and again."""

    def __init__(self, config):
        super().__init__(config)
        self.ready = threading.Event()

    async def main_loop(self):
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        await self.on_tick(0)
        self.stop = lambda: loop.call_soon_threadsafe(stopped.set)
        self.ready.set()
        await stopped.wait()

    async def shutdown(self, sockets=None):  # noqa: ARG002 - uvicorn's
        await asyncio.sleep(0.01)  # a connection that is accepted right now would stay open: python/cpython#109564
        for listener in self.servers:
            listener.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        while self.server_state.connections or self.server_state.tasks:  # noqa: ASYNC110 - plain sets
            await asyncio.sleep(0.002)
        await self.lifespan.shutdown()


@contextmanager
def serving(app, **settings):
    """Serve an app on a free port, in a thread of its own; yield the address and the server."""
    server = Server(uvicorn.Config(app, port=0, log_config=None, access_log=False, **settings))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.ready.wait(0.1):
        assert thread.is_alive(), "the server did not start"
    try:
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}", server
    finally:
        server.stop()
        thread.join(30)
