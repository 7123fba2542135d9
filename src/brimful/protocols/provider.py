"""Protocol of a provider."""

from collections.abc import AsyncGenerator
from typing import Protocol

from brimful.core.model import Wire
from brimful.core.prompt import Request
from brimful.records.reply import Reply, ReplyChunk


class Provider(Protocol):
    """A server that runs models. It takes finished requests of its wire, and raises `ProviderError` and its kinds.

    `route` names the server, for example `openai:api.openai.com`: counts and windows are learned for a model on a
    route, since the same model may have another window, template or tokenizer elsewhere.
    """

    @property
    def route(self) -> str:
        """Which server it is, without any secret."""
        ...

    @property
    def wire(self) -> Wire:
        """The form of request that it takes."""
        ...

    async def send(self, request: Request) -> Reply:
        """Return the whole answer."""
        ...

    def stream(self, request: Request) -> AsyncGenerator[ReplyChunk, None]:
        """Yield the answer piece by piece; the last holds all of it. Closing the generator frees the connection."""
        ...

    async def count(self, request: Request) -> int | None:
        """Return the tokens of the request's prompt as the server counts them; None if it cannot count."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...
