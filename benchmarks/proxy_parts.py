"""The two servers that the proxy is measured beside: an upstream that thinks for a moment, and a bare pass-through.

python benchmarks/proxy_parts.py upstream            prints where it listens, and serves until it is ended
python benchmarks/proxy_parts.py instant             the same without thinking, and with usage
python benchmarks/proxy_parts.py pass-through URL
"""

import asyncio
import json
import socket
import sys
from collections.abc import AsyncGenerator
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from brimful.providers import Connection

THINKING: Final = 0.03  # seconds before the first word
PIECES: Final = 40  # of a streamed answer
PAUSE: Final = 0.05  # seconds between two of them
_PATH: Final = "/v1/chat/completions"


def upstream(*, instant: bool = False) -> Starlette:
    """Return a server that answers every chat completion after a moment, without looking at it."""

    async def answer(request: Request) -> Response:
        body = await request.body()
        streams = b'"stream": true' in body[-100:] or b'"stream":true' in body[-100:]
        if not instant:
            await asyncio.sleep(THINKING)
        if streams:
            return StreamingResponse(_events(0.0 if instant else PAUSE), media_type="text/event-stream")
        choice = {"index": 0, "message": {"role": "assistant", "content": "Thursday."}, "finish_reason": "stop"}
        usage = {"usage": {"prompt_tokens": len(body) // 5, "completion_tokens": 3}} if instant else {}
        return JSONResponse({"id": "c", "object": "chat.completion", "model": "m", "choices": [choice]} | usage)

    return Starlette(routes=[Route(_PATH, answer, methods=["POST"])])


async def _events(pause: float) -> AsyncGenerator[str, None]:
    for at in range(PIECES):
        yield _event({"content": f"{at} "}, None)
        await asyncio.sleep(pause)
    yield _event({}, "stop")
    yield "data: [DONE]\n\n"


def _event(delta: dict[str, str], finish: str | None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return f"data: {json.dumps({'id': 'c', 'object': 'chat.completion.chunk', 'model': 'm', 'choices': [choice]})}\n\n"


def pass_through(url: str) -> Starlette:
    """Return a server that hands requests on and does nothing else, by the same libraries as ours."""
    connection = Connection(url)

    async def answer(request: Request) -> Response:
        body = await request.body()
        if b'"stream": true' in body[-100:]:
            return StreamingResponse(_handed_on(body), media_type="text/event-stream")
        whole = await connection.post("/chat/completions", body)
        return Response(whole.body, media_type="application/json")

    async def _handed_on(body: bytes) -> AsyncGenerator[bytes, None]:
        async with connection.stream("/chat/completions", body) as answering:
            async for chunk in answering.chunks:
                yield chunk

    return Starlette(routes=[Route(_PATH, answer, methods=["POST"])])


class _Telling(uvicorn.Server):
    """Says where it listens."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        print(f"http://127.0.0.1:{self.servers[0].sockets[0].getsockname()[1]}", flush=True)


if __name__ == "__main__":
    served = pass_through(sys.argv[2]) if sys.argv[1] == "pass-through" else upstream(instant=sys.argv[1] == "instant")
    _Telling(uvicorn.Config(served, port=0, log_config=None, access_log=False, timeout_keep_alive=75)).run()
