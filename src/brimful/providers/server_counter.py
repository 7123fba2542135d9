"""Let a server count the tokens of a prompt."""

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from typing import Final

from brimful.core.prompt import Request
from brimful.errors import ProviderError, ProviderTimeout
from brimful.providers.connection import Connection
from brimful.wires.dialect import Dialect
from brimful.wires.replies import parse_count
from brimful.wires.tools import request_bytes
from brimful.wires.wire import CountRequest

COUNT_TIMEOUT: Final = 5.0  # seconds; somebody waits for the answer to the request that is counted
RETRY_SECONDS: Final = 300.0  # until a server that took longer is asked again
_UNSUPPORTED_STATUSES: Final = (404, 405, 422, 501)  # 422: the path is there, but it wants other fields


class ServerCounter:
    """Lets a server count prompts. A way to count that it does not support is not tried again."""

    def __init__(
        self,
        connection: Connection,
        dialect: Dialect,
        *,
        timeout: float = COUNT_TIMEOUT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = connection
        self._dialect = dialect
        self._timeout = timeout
        self._clock = clock
        self._unsupported = 0  # of the dialect's ways to count, from the first on
        self._paused_until = -math.inf

    async def count(self, request: Request, headers: Mapping[str, str] | None = None) -> int | None:
        """Return the server's token count of a prompt; None if it cannot count, or was too slow just now."""
        if self._clock() < self._paused_until:
            return None
        try:
            async with asyncio.timeout(self._timeout):
                return await self._try_each(request, headers)
        except TimeoutError:
            self._paused_until = self._clock() + RETRY_SECONDS
            raise ProviderTimeout(self._connection.route, f"no count within {self._timeout:g} seconds") from None

    async def _try_each(self, request: Request, headers: Mapping[str, str] | None) -> int | None:
        for index, way in enumerate(self._dialect.count_requests(request)):
            if index >= self._unsupported:
                tokens = await self._send(way, headers)
                if tokens is not None:
                    return tokens
                self._unsupported = max(self._unsupported, index + 1)
        return None

    async def _send(self, way: CountRequest, headers: Mapping[str, str] | None) -> int | None:
        body = request_bytes(way.body)
        try:
            answer = await self._connection.post(way.path, body, headers=headers, versioned=way.versioned)
        except ProviderError as error:
            if error.status not in _UNSUPPORTED_STATUSES:
                raise
            return None
        return parse_count(answer.body, way.field)
