"""A scripted server, byte by byte, in the event loop of the test."""

import asyncio
import json
from contextlib import asynccontextmanager
from functools import wraps
from http import HTTPStatus
from typing import NamedTuple

from brimful.providers import Connection, Limits

LONGEST_TEST = 30  # seconds: a test that hangs fails


def in_loop(test):
    """Run a test that is a coroutine."""

    @wraps(test)
    def run(*args, **kwargs):
        return asyncio.run(asyncio.wait_for(test(*args, **kwargs), LONGEST_TEST))

    return run


class ReceivedRequest(NamedTuple):
    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)


class Server:
    """Answers each request by the next of `answers`: bytes, a coroutine function, or None to hang up. Keeps them."""

    def __init__(self, answers):
        self.answers = iter(answers)
        self.asked = []
        self.connections = 0
        self.entered = asyncio.Event()
        self.left = asyncio.Event()
        self.url = ""

    async def serve(self, reader, writer):
        self.connections += 1
        try:
            while (request := await read_request(reader)) is not None:
                self.asked.append(request)
                self.entered.set()
                answer = next(self.answers)
                if answer is None:
                    break
                if callable(answer):
                    await answer(reader, writer)
                else:
                    writer.write(answer)
                    await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the other end has left
        finally:
            self.left.set()
            writer.close()


async def read_request(reader):
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    except asyncio.IncompleteReadError:
        return None
    line, *lines = head.strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in lines)}
    return ReceivedRequest(line, headers, await reader.readexactly(int(headers.get("content-length", 0))))


@asynccontextmanager
async def serving(*answers):
    server = Server(answers)
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0) as listening:
        server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        yield server


@asynccontextmanager
async def connected(*answers, limits=None, **options):
    """Serve the answers, and connect to the server."""
    async with serving(*answers) as server:
        connection = Connection(server.url, limits=limits or Limits(), **options)
        try:
            yield server, connection
        finally:
            await connection.close()


def answer(body=b"{}", status=200, **headers):
    """Write an answer that leaves the connection open."""
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    result = {"content-type": "application/json", "content-length": len(body)} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in result.items())
    reason = HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else "Overloaded"
    return f"HTTP/1.1 {status} {reason}\r\n{lines}\r\n".encode() + body


def chunked(*chunks, content_type="text/event-stream", ended=True):
    """Write an answer in chunks; one that has not `ended` breaks off."""
    body = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + (b"0\r\n\r\n" if ended else b"")
    return f"HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ntransfer-encoding: chunked\r\n\r\n".encode() + body


def then_hang_up(sent):
    """Send some bytes, and close the connection."""

    async def serve(_, writer):
        writer.write(sent)
        await writer.drain()
        writer.close()

    return serve


def then_wait(sent):
    """Send some bytes, then nothing, until the other end leaves."""

    async def serve(reader, writer):
        writer.write(sent)
        await writer.drain()
        await reader.read()

    return serve
