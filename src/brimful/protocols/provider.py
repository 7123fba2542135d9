"""Protocol of a provider."""

from collections.abc import AsyncGenerator
from typing import Protocol

from brimful.core.prompt import Request
from brimful.records.reply import Reply, ReplyChunk


class Provider(Protocol):
    """A server that runs models. It accepts requests in the format of its wire, and raises `ProviderError`.

    `route` names the server, for example `openai:api.openai.com`. Counts and windows are calibrated per route, since a
    model may have another window, template or tokenizer elsewhere.
    """

    @property
    def route(self) -> str:
        """The name of the server, without secrets."""
        ...

    @property
    def wire(self) -> str:
        """The format of its requests."""
        ...

    async def send(self, request: Request) -> Reply:
        """Return the complete reply."""
        ...

    def stream(self, request: Request) -> AsyncGenerator[ReplyChunk, None]:
        """Yield the reply in chunks; the last one holds all of it. Closing the generator frees the connection."""
        ...

    async def count(self, request: Request) -> int | None:
        """Return the server's token count of a prompt; None if it cannot count."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...
