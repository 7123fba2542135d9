"""OpenAI's `/v1/embeddings`, which vLLM, llama.cpp, LiteLLM, LM Studio and many others speak as well."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from brimful.embedding.remote import MAX_BYTES, TIMEOUT, RemoteEmbedder

BASE_URL: Final = "https://api.openai.com/v1"
KEYS: Final = ("BRIMFUL_EMBEDDING_KEY", "OPENAI_API_KEY")
"""Environment variables that may hold the key, the first one first. OpenAI's own is for OpenAI's own server alone."""


class _Item(msgspec.Struct):
    index: int
    embedding: list[float]


class _Reply(msgspec.Struct):
    data: list[_Item]


class OpenAI(msgspec.Struct, frozen=True, kw_only=True):
    """How a server that speaks OpenAI's dialect is asked."""

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
        """Where to ask."""
        return f"{self.base_url.rstrip('/')}/embeddings"

    def body(self, texts: Sequence[str]) -> Mapping[str, Any]:
        """Write a request."""
        asked = {"model": self.model, "input": list(texts), "encoding_format": "float"}
        return asked | ({"dimensions": self.dimensions} if self.dimensions else {})

    def read(self, reply: bytes) -> list[list[float]]:
        """Return the vectors, in the order of the texts."""
        items = msgspec.json.decode(reply, type=_Reply).data
        return [item.embedding for item in sorted(items, key=lambda item: item.index)]


class OpenAIEmbedder(RemoteEmbedder):
    """Asks a server that speaks OpenAI's dialect.

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
        most_bytes: int = MAX_BYTES,
    ) -> None:
        """Take a model's name; without a key, the one in the environment."""
        found = key_for(base_url) if key is None else key
        dialect = OpenAI(model=model, dimensions=dimensions, base_url=base_url, key=found)
        super().__init__(dialect, timeout=timeout, most_bytes=most_bytes)


def key_for(base_url: str) -> str:
    """Return the key from the environment, or an empty text: a server at home may need none."""
    own, official = KEYS
    return os.environ.get(own) or (os.environ.get(official, "") if base_url == BASE_URL else "")
