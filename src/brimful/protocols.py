"""Interfaces that applications can implement: embedders, providers, rerankers and summarizers."""

from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from brimful.core.prompt import Request
from brimful.records.reply import Reply, ReplyChunk

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Vectors = npt.NDArray[np.float32]

Purpose = Literal["query", "passage"]


class Embedder(Protocol):
    """Converts texts to vectors whose cosine similarity reflects similarity in meaning.

    `id` names the vectors, for example `static-minilm-256@7`. Two embedders with the same id return the same vectors.
    """

    @property
    def id(self) -> str:
        """The name under which vectors are stored."""

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> "Vectors":
        """Return one unit-length row per text, or a row of zeros for a text with no known words."""

    async def close(self) -> None:
        """Close any connections."""


class Provider(Protocol):
    """A server that runs models. It accepts requests in the format of its wire, and raises `ProviderError`.

    `route` names the server, for example `openai:api.openai.com`. Counts and windows are calibrated per route, since a
    model may have another window, template or tokenizer elsewhere.
    """

    @property
    def route(self) -> str:
        """The name of the server, without secrets."""

    @property
    def wire(self) -> str:
        """The format of its requests."""

    async def send(self, request: Request) -> Reply:
        """Return the complete reply."""

    def stream(self, request: Request) -> AsyncGenerator[ReplyChunk, None]:
        """Yield the reply in chunks; the last one holds all of it. Closing the generator frees the connection."""

    async def count(self, request: Request) -> int | None:
        """Return the server's token count of a prompt; None if it cannot count."""

    async def close(self) -> None:
        """Close all connections."""


class Reranker(Protocol):
    """Judges how well texts answer a question, reading both together, as cross-encoders do."""

    async def rerank(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        """Return a score for each text, in the same order. Higher is better; any scale will do."""


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """A message, or a summary of a shorter time."""

    text: str
    speaker: str = ""
    at: float = 0.0


class Digest(msgspec.Struct, frozen=True, kw_only=True):
    """What to summarize: passages by topic, in about `tokens` tokens.

    `title` says when they were posted and how many they are; it precedes the summary. `previous` is the summary so far,
    if `topics` contain only what came since. `room` is where they were posted, and `focus` what matters most in them.
    """

    title: str
    topics: tuple[tuple[Passage, ...], ...]
    tokens: int
    previous: str = ""
    room: str = ""
    focus: str = ""


class Summarizer(Protocol):
    """Summarizes messages. An `incremental` one extends its previous summary without reading its messages again."""

    @property
    def incremental(self) -> bool:
        """Whether it can extend a previous summary."""

    async def summarize(self, digest: Digest) -> str:
        """Return a summary of the passages, without the title."""
