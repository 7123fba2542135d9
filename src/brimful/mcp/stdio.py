"""Serve MCP on standard input and output, one JSON message per line.

The first request is answered before the SDK is loaded (see `handshake`). After that, standard output belongs to the
protocol: whatever else is printed goes to standard error.
"""

import os
import queue
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from brimful.errors import BrimfulError
from brimful.mcp.handshake import answer_handshake

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.server.lowlevel import Server
    from mcp.shared.message import SessionMessage

_MAX_WAITING: Final = 64  # lines that are read ahead
_LAST_ANSWERS_SECONDS: Final = 30.0  # for running calls, after the client closed its end
_INVALID_LINE: Final = (
    b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error: a line must be a JSON-RPC message"}}'
)


class Pipe:
    """Standard input and output. A thread reads lines, because a read cannot be cancelled."""

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self._source = source
        self._sink = sink
        self._lines: queue.Queue[bytes] = queue.Queue(_MAX_WAITING)
        self._writing = threading.Lock()
        self._answered: int | str | None = None
        self.is_stopped = False

    def start(self) -> None:
        """Read lines from now on, and answer the first one if it is a handshake."""
        threading.Thread(target=self._read, name="brimful-mcp-stdin", daemon=True).start()

    def _read(self) -> None:
        first = True
        for line in self._source:
            if not line.strip():
                continue
            if first and (answer := answer_handshake(line)) is not None:
                self._answered = answer.id
                try:
                    self._write(answer.line)
                except OSError:  # the client is gone
                    break
            first = False
            self._lines.put(line)
        self._lines.put(b"")

    def stop(self) -> None:
        """Read no more lines, and wake a thread that waits for one."""
        self.is_stopped = True
        with suppress(queue.Full):  # then none waits
            self._lines.put_nowait(b"")

    def next_line(self) -> bytes:
        """Return the next line; empty at the end."""
        line = self._lines.get()
        return b"" if self.is_stopped else line

    def write(self, id: object, line: bytes) -> None:
        """Write a line, unless it is the SDK's own answer to the handshake that was answered already."""
        if id is not None and id == self._answered:
            self._answered = None
            return
        self._write(line)

    def _write(self, line: bytes) -> None:
        with self._writing:
            self._sink.write(line + b"\n")
            self._sink.flush()


def serve_stdio(make_server: "Callable[[], Server[Any]]") -> None:
    """Serve the client on standard input until it closes it. `make_server` loads the SDK."""
    if sys.stdin is None:
        raise BrimfulError("standard input is closed: an MCP client starts this command and talks to it")
    pipe = Pipe(os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)  # whatever a library prints must not reach the client
    pipe.start()
    server = make_server()

    import anyio  # noqa: PLC0415 - an extra, and slow to import

    # An interrupt ends the input. It does not cancel the SDK's tasks, which may go on after that.
    before = signal.signal(signal.SIGINT, lambda *_: pipe.stop())
    try:
        anyio.run(_Connection(server, pipe).run)
        if pipe.is_stopped:
            raise KeyboardInterrupt
    finally:
        signal.signal(signal.SIGINT, before)
        pipe.stop()  # a thread may still wait for a line


class _Connection:
    """Passes messages between a pipe and a server of the SDK."""

    def __init__(self, server: "Server[Any]", pipe: Pipe) -> None:
        self._server = server
        self._pipe = pipe
        self._pending: set[int | str | None] = set()  # ids of requests without an answer
        self._idle: Any = None

    async def run(self) -> None:
        """Serve until the client closes its end, and all its requests are answered."""
        import anyio  # noqa: PLC0415 - an extra, and slow to import

        incoming, received = anyio.create_memory_object_stream["SessionMessage | Exception"]()
        sent, outgoing = anyio.create_memory_object_stream["SessionMessage"]()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._receive, incoming)
            tasks.start_soon(self._send, outgoing, tasks.cancel_scope.cancel)
            await self._server.run(received, sent, self._server.create_initialization_options())
            tasks.cancel_scope.cancel()

    async def _receive(self, incoming: "MemoryObjectSendStream[SessionMessage | Exception]") -> None:
        import anyio  # noqa: PLC0415 - as above
        from anyio.to_thread import run_sync  # noqa: PLC0415
        from mcp.shared.message import SessionMessage  # noqa: PLC0415
        from mcp_types import jsonrpc_message_adapter  # noqa: PLC0415

        async with incoming:
            while line := await run_sync(self._pipe.next_line, abandon_on_cancel=True):
                try:
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:
                    await run_sync(self._pipe.write, None, _INVALID_LINE)
                    continue
                self._note_request(message)
                await incoming.send(SessionMessage(message))
            self._idle = anyio.Event()
            if self._pending and not self._pipe.is_stopped:
                with anyio.move_on_after(_LAST_ANSWERS_SECONDS):
                    await self._idle.wait()

    def _note_request(self, message: Any) -> None:
        """Add a request to those without an answer, or remove one that the client cancels."""
        method = getattr(message, "method", None)
        if method == "notifications/cancelled":
            self._pending.discard((message.params or {}).get("requestId"))
        elif method is not None and (id := getattr(message, "id", None)) is not None:
            self._pending.add(id)

    async def _send(self, outgoing: "MemoryObjectReceiveStream[SessionMessage]", end: Callable[[], None]) -> None:
        from anyio.to_thread import run_sync  # noqa: PLC0415 - as above

        async for item in outgoing:
            id = getattr(item.message, "id", None)
            line = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode()
            try:
                await run_sync(self._pipe.write, id, line, abandon_on_cancel=True)
            except OSError:  # nobody reads the answers
                end()
                return
            self._pending.discard(id)
            if self._idle is not None and not self._pending:
                self._idle.set()
