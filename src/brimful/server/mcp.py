"""`/mcp`: the MCP server for the clients of this server, with their keys, scopes and tenants.

Requests are independent of one another, so that any worker can serve them. The SDK is loaded with the first one.
"""

import asyncio
from collections.abc import MutableMapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from brimful.errors import MissingExtra
from brimful.mcp.tools import select_tools
from brimful.server.access import Client, find_user
from brimful.server.endpoint import JSON, run_until_disconnect, wait_for_disconnect
from brimful.server.errors import ApiError, to_api_error
from brimful.server.proxy.conversation import USER_HEADER
from brimful.server.tenants import Tenants
from brimful.wires.registry import default_wire


class McpEndpoint:
    """Answers MCP requests. `tools` are the names of the tools to offer; by default all."""

    def __init__(self, tenants: Tenants, *, tools: Sequence[str] | None, max_body_bytes: int) -> None:
        self._tenants = tenants
        self._tools = select_tools(tools)
        self._max_body_bytes = max_body_bytes
        self._manager: Any = None
        self._starting = asyncio.Lock()
        self._stopping = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    async def serve(self, request: Request, client: Client, raw: bytes) -> Response:
        if not request.headers.get("content-type", "").lower().startswith(JSON):
            raise ApiError("invalid", f"the body must be declared as `Content-Type: {JSON}`", status=415)
        request.state.client = client
        request.state.user = find_user(client, request.headers.get(USER_HEADER, ""))
        return _McpResponse(await self._start(), raw, self._stopping)

    async def close(self) -> None:
        """End all requests."""
        self._stopping.set()
        if self._running is not None:
            await self._running

    async def _start(self) -> Any:
        async with self._starting:
            if self._manager is None:
                manager, ready = await asyncio.to_thread(self._make_manager), asyncio.Event()
                self._running = asyncio.create_task(self._run(manager, ready), name="brimful-mcp")
                await ready.wait()
                self._manager = manager
            return self._manager

    def _make_manager(self) -> Any:
        try:
            transport = import_module("mcp.server.streamable_http_manager")
        except ModuleNotFoundError as error:
            missing = MissingExtra("mcp", "`/mcp`")
            raise ApiError("not_found", str(missing), code="missing_extra") from error
        module = import_module("brimful.mcp.server")
        server = module.create_server(partial(self._find_session, module), tools=self._tools)
        return transport.StreamableHTTPSessionManager(
            server, json_response=True, stateless=True, max_request_body_size=self._max_body_bytes
        )

    async def _run(self, manager: Any, ready: asyncio.Event) -> None:
        async with manager.run():
            ready.set()
            await self._stopping.wait()

    def _find_session(self, module: Any, request: Request) -> Any:
        client: Client = request.state.client
        return module.Session(
            engine=partial(self._tenants.engine, client.tenant),
            can_write="write" in client.scopes,
            write_hint="this API key lacks the scope 'write'",
            user=request.state.user,
            describe_error=lambda error: to_api_error(error, default_wire()).message,
        )


class _McpResponse(Response):
    """The SDK's answer to a request whose body was read already. If the client leaves, the request is cancelled."""

    def __init__(self, manager: Any, raw: bytes, stopping: asyncio.Event) -> None:
        super().__init__()
        self._manager = manager
        self._raw = raw
        self._stopping = stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body: list[MutableMapping[str, Any]] = [{"type": "http.request", "body": self._raw, "more_body": False}]

        async def receive_again() -> MutableMapping[str, Any]:
            return body.pop() if body else await receive()

        answering = self._manager.handle_request(scope, receive_again, send)
        await run_until_disconnect(wait_for_disconnect(receive), self._stopping, answering)
