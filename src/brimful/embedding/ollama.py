"""Ollama's `/api/embed`."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from brimful.embedding.remote import MAX_BYTES, TIMEOUT, RemoteEmbedder

BASE_URL: Final = "http://localhost:11434"


class _Reply(msgspec.Struct):
    embeddings: list[list[float]]


class Ollama(msgspec.Struct, frozen=True, kw_only=True):
    """Ollama's embedding API."""

    model: str
    dimensions: int | None = None
    base_url: str = BASE_URL
    key: str = ""
    name: str = "ollama"

    @property
    def url(self) -> str:
        return f"{self.base_url.rstrip('/')}/api/embed"

    def body(self, texts: Sequence[str]) -> Mapping[str, Any]:
        """Return the request body. Ollama itself truncates texts that are too long for the model."""
        body = {"model": self.model, "input": list(texts), "truncate": True}
        return body | ({"dimensions": self.dimensions} if self.dimensions else {})

    def read(self, reply: bytes) -> list[list[float]]:
        """Return the vectors, in the order of the texts."""
        return msgspec.json.decode(reply, type=_Reply).embeddings


class OllamaEmbedder(RemoteEmbedder):
    """Embeds with a model served by Ollama.

    >>> OllamaEmbedder("nomic-embed-text").id
    'ollama:nomic-embed-text@1'
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str = BASE_URL,
        dimensions: int | None = None,
        timeout: float = TIMEOUT,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        dialect = Ollama(model=model, dimensions=dimensions, base_url=base_url)
        super().__init__(dialect, timeout=timeout, max_bytes=max_bytes)
