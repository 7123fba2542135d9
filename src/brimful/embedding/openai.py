"""OpenAI's `/v1/embeddings`, also served by vLLM, llama.cpp, LiteLLM, LM Studio and many others."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from brimful.embedding.remote import MAX_BYTES, TIMEOUT, RemoteEmbedder
from brimful.private_files import find_secret

BASE_URL: Final = "https://api.openai.com/v1"
KEYS: Final = ("BRIMFUL_EMBEDDING_KEY", "OPENAI_API_KEY")
"""Environment variables for the API key, in order of precedence. OPENAI_API_KEY is only sent to OpenAI's own server."""


class _Item(msgspec.Struct):
    index: int
    embedding: list[float]


class _Reply(msgspec.Struct):
    data: list[_Item]


class OpenAI(msgspec.Struct, frozen=True, kw_only=True):
    """The embedding API of OpenAI and compatible servers."""

    model: str
    dimensions: int | None = None
    base_url: str = BASE_URL
    key: str = ""
    name: str = "openai"

    def __repr__(self) -> str:
        """Show all but the key."""
        return f"OpenAI(model={self.model!r}, dimensions={self.dimensions})"

    @property
    def url(self) -> str:
        return f"{self.base_url.rstrip('/')}/embeddings"

    def body(self, texts: Sequence[str]) -> Mapping[str, Any]:
        """Return the request body."""
        body = {"model": self.model, "input": list(texts), "encoding_format": "float"}
        return body | ({"dimensions": self.dimensions} if self.dimensions else {})

    def read(self, reply: bytes) -> list[list[float]]:
        """Return the vectors, in the order of the texts."""
        items = msgspec.json.decode(reply, type=_Reply).data
        return [item.embedding for item in sorted(items, key=lambda item: item.index)]


class OpenAIEmbedder(RemoteEmbedder):
    """Embeds with OpenAI or a compatible server.

    >>> OpenAIEmbedder("text-embedding-3-small", dimensions=512, key="…").id
    'openai:text-embedding-3-small-512@1'
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str = BASE_URL,
        key: str | None = None,
        dimensions: int | None = None,
        timeout: float = TIMEOUT,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        """Set up an embedder for a model. Without `key`, the key comes from the environment."""
        api_key = key_for(base_url) if key is None else key
        dialect = OpenAI(model=model, dimensions=dimensions, base_url=base_url, key=api_key)
        super().__init__(dialect, timeout=timeout, max_bytes=max_bytes)


def key_for(base_url: str) -> str:
    """Return the key from the environment, or an empty string, since local servers may need none."""
    own, official = KEYS
    return find_secret(os.environ, own) or (find_secret(os.environ, official) if base_url == BASE_URL else "")
