"""A connection and a dialect: a provider."""

from collections.abc import AsyncGenerator
from typing import Final

from brimful.core.model import Wire
from brimful.core.prompt import Request
from brimful.providers.connection import Answering, Connection
from brimful.providers.dialect import Dialect
from brimful.providers.known import Known
from brimful.replies import Piece, Reply


class HttpProvider:
    """Asks a server for answers. Belongs to the event loop in which it is first used.

    A server that is `known` is asked for models as it knows them: `openrouter/qwen/qwen3-8b` is `qwen/qwen3-8b` there.
    """

    def __init__(self, connection: Connection, dialect: Dialect, *, known: Known | None = None) -> None:
        """Take a connection and the dialect that is spoken at its other end."""
        self.connection: Final = connection
        self.dialect: Final = dialect
        self._known = known
        self._counts = True

    def __repr__(self) -> str:
        """Show the route alone."""
        return f"HttpProvider({self.route!r})"

    @property
    def route(self) -> str:
        """Which server it is, without any secret."""
        return self.connection.route

    @property
    def wire(self) -> Wire:
        """The form of request that it takes."""
        return self.dialect.wire

    async def send(self, request: Request) -> Reply:
        """Return the whole answer."""
        named = self._named(request)
        body = self.dialect.body(named, stream=False)
        answer = await self.connection.post(self.dialect.path(named, stream=False), body)
        return self.dialect.read(answer.body, self.route)

    async def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        """Yield the answer piece by piece; the last holds all of it. Closing the generator frees the connection."""
        named = self._named(request)
        body = self.dialect.body(named, stream=True)
        async with self.connection.stream(self.dialect.path(named, stream=True), body) as answer:
            if _came_whole(answer):
                reply = self.dialect.read(await answer.read(), self.route)
                yield Piece(text=reply.text)
            else:
                reader = self.dialect.reader(self.route)
                async for chunk in answer.chunks:
                    for piece in reader.feed(chunk):
                        yield piece
                for piece in reader.last():
                    yield piece
                reply = reader.end()
        yield Piece(reply=reply)

    async def count(self, request: Request) -> int | None:
        """Return the tokens of the request's prompt as the server counts them; None if it cannot count."""
        if not self._counts:
            return None
        tokens = await self.dialect.count(self.connection, self._named(request))
        self._counts = tokens is not None  # one that does not know the question is not asked again
        return tokens

    async def close(self) -> None:
        """Let go of connections."""
        await self.connection.close()

    def _named(self, request: Request) -> Request:
        name = request.get("model")
        if self._known is None or not isinstance(name, str):
            return request
        return request | {"model": self._known.name_there(name)}


def _came_whole(answer: Answering) -> bool:
    """Whether a server took no notice of the wish for a stream."""
    return answer.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"
