"""Embedders served over HTTP. A dialect defines the endpoint, the request body and how to read the response."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from brimful.core.validation import clean_text
from brimful.embedding.rows import is_embeddable, scatter_rows, unit_rows
from brimful.errors import EmbeddingError, MissingExtra

if TYPE_CHECKING:
    import httpx2

    from brimful.protocols import Purpose, Vectors
MAX_BYTES: Final = 8_191  # of one text; OpenAI's models read that many tokens
TIMEOUT: Final = 30.0  # seconds for one request
_BATCH_TEXTS: Final = 128
_BATCH_BYTES: Final = 250_000  # OpenAI takes 300,000 tokens in one request
_PROBE: Final = "."  # embedded to learn the vector size if all texts are empty
_MAX_SHOWN_CHARS: Final = 200  # of a server's error message
_MAX_RESPONSE_BYTES: Final = 67_108_864  # far more than any batch of vectors takes
_SUCCESS: Final = range(200, 300)  # HTTP statuses
_REFUSED: Final = (400, 413, 422)  # HTTP statuses that reject a text, not the server failing
_ADVICE: Final = {  # by HTTP status
    401: " (check the key: BRIMFUL_EMBEDDING_KEY)",
    403: " (check the key: BRIMFUL_EMBEDDING_KEY)",
    404: " (check the URL and the model name)",
}


class Prompts(msgspec.Struct, frozen=True):
    """The prefixes that a model expects before queries and passages."""

    query: str = ""
    passage: str = ""

    def before(self, text: str, purpose: "Purpose") -> str:
        """Return the text with its prompt.

        >>> Prompts("query: ", "passage: ").before("tea", "query")
        'query: tea'
        """
        return (self.query if purpose == "query" else self.passage) + text


_SEARCH_PROMPT: Final = Prompts(query="Represent this sentence for searching relevant passages: ")
_PROMPTS: Final = {
    "nomic-embed-text": Prompts("search_query: ", "search_document: "),
    "mxbai-embed-large": _SEARCH_PROMPT,
    "snowflake-arctic-embed": _SEARCH_PROMPT,
    "embeddinggemma": Prompts("task: search result | query: ", "title: none | text: "),
    "multilingual-e5": Prompts("query: ", "passage: "),
    "qwen3-embedding": Prompts(
        query="Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
    ),
}


def prompts_for(model: str) -> Prompts:
    """Return the prompts of a model, whatever its server and size.

    >>> prompts_for("nomic-ai/nomic-embed-text:v1.5").query
    'search_query: '
    """
    name = model.rpartition("/")[2].lower()
    return next((prompts for known, prompts in _PROMPTS.items() if name.startswith(known)), Prompts())


class Dialect(Protocol):
    """The API of a type of server."""

    @property
    def name(self) -> str:
        """The type of server, as in `openai:NAME`."""
        ...

    @property
    def model(self) -> str:
        """The model's name, as the server knows it."""
        ...

    @property
    def dimensions(self) -> int | None:
        """The requested vector size, or None for the model's default."""
        ...

    @property
    def url(self) -> str: ...

    @property
    def key(self) -> str:
        """The API key, or an empty string."""
        ...

    def body(self, texts: Sequence[str]) -> Mapping[str, Any]:
        """Return the request body."""
        ...

    def read(self, reply: bytes) -> list[list[float]]:
        """Return the vectors of a response in the order of the texts. Raises `msgspec.DecodeError` if malformed."""
        ...


class RemoteEmbedder:
    """Embeds texts through a server. Bound to the event loop in which it is first used."""

    def __init__(self, dialect: Dialect, *, timeout: float = TIMEOUT, max_bytes: int = MAX_BYTES) -> None:
        """Set up the embedder. No request is sent yet."""
        self._dialect = dialect
        self._timeout = timeout
        self._max_bytes = max_bytes
        self._dims = dialect.dimensions
        self._prompts = prompts_for(dialect.model)
        self._client: httpx2.AsyncClient | None = None
        self.id: Final = _id(dialect, max_bytes)

    @property
    def url(self) -> str:
        return self._dialect.url

    @property
    def model(self) -> str:
        """The model's name, as the server knows it."""
        return self._dialect.model

    @property
    def bills_tokens(self) -> bool:
        """Whether the server bills tokens, as one that needs an API key does."""
        return bool(self._dialect.key)

    async def embed(self, texts: Sequence[str], purpose: "Purpose") -> "Vectors":
        """Return one unit-length row per text, or a row of zeros for an empty text."""
        prepared = [self._prepare(text, purpose) for text in texts if is_embeddable(text)]
        if not prepared and self._dims is None:
            await self._request([_PROBE])
        vectors = [await self._request(batch) for batch in _batches(prepared)]
        return scatter_rows(texts, vectors, self._dims or 0)

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            client, self._client = self._client, None
            await client.aclose()

    def _prepare(self, text: str, purpose: "Purpose") -> str:
        return truncate_utf8(self._prompts.before(clean_text(text), purpose), self._max_bytes)

    async def _request(self, texts: Sequence[str]) -> "Vectors":
        reply = await self._post(self._dialect.body(texts))
        try:
            rows = self._dialect.read(reply)
        except msgspec.DecodeError as error:
            raise EmbeddingError(self.id, f"the response cannot be read: {error}") from error
        vectors = unit_rows(self.id, rows, len(texts), self._dims)
        self._dims = vectors.shape[1]
        return vectors

    async def _post(self, body: Mapping[str, Any]) -> bytes:
        httpx2 = _httpx2()
        try:
            async with asyncio.timeout(self._timeout):
                status, content = await self._receive(msgspec.json.encode(body))
        except TimeoutError as error:
            raise self._unreachable(f"no response within {self._timeout:g} seconds") from error
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise self._unreachable(str(error) or type(error).__name__) from error
        if status not in _SUCCESS:
            message = self._refusal(status, content.decode(errors="replace"))
            raise EmbeddingError(self.id, message, refused=status in _REFUSED, status=status)
        return content

    async def _receive(self, body: bytes) -> tuple[int, bytes]:
        """Return the status and the content of a response."""
        content = bytearray()
        async with self._get_client().stream("POST", self._dialect.url, content=body) as reply:
            async for chunk in reply.aiter_bytes():
                content += chunk
                if len(content) > _MAX_RESPONSE_BYTES:
                    raise EmbeddingError(self.id, f"the response is larger than {_MAX_RESPONSE_BYTES:,} bytes")
            return reply.status_code, bytes(content)

    def _get_client(self) -> "httpx2.AsyncClient":
        if self._client is None:
            headers = {"content-type": "application/json"}
            if self._dialect.key:
                headers["authorization"] = f"Bearer {self._dialect.key}"
            self._client = _httpx2().AsyncClient(headers=headers, timeout=self._timeout)
        return self._client

    def _unreachable(self, reason: str) -> EmbeddingError:
        return EmbeddingError(self.id, f"{display_url(self._dialect.url)} cannot be reached: {self._safe(reason)}")

    def _refusal(self, status: int, message: str) -> str:
        shown = " ".join(self._safe(message).split())[:_MAX_SHOWN_CHARS]
        return f"{display_url(self._dialect.url)} returned {status}{_ADVICE.get(status, '')}: {shown or 'no message'}"

    def _safe(self, text: str) -> str:
        return text.replace(self._dialect.key, "…") if self._dialect.key else text


def truncate_utf8(text: str, max_bytes: int) -> str:
    """Truncate a string to a number of UTF-8 bytes without splitting a character.

    >>> truncate_utf8("naïve", 3), truncate_utf8("naïve", 4)
    ('na', 'naï')
    """
    if len(text) * 4 <= max_bytes:  # no character takes more than four
        return text
    return text.encode()[:max_bytes].decode(errors="ignore")


def display_url(url: str) -> str:
    """Return the host and port of a URL, without credentials.

    >>> display_url("http://me:secret@localhost:11434/api/embed")
    'localhost:11434'
    """
    return url.partition("://")[2].partition("/")[0].rpartition("@")[2]


def _id(dialect: Dialect, max_bytes: int) -> str:
    dimensions = f"-{dialect.dimensions}" if dialect.dimensions else ""
    limit = f"-{max_bytes}b" if max_bytes != MAX_BYTES else ""
    return f"{dialect.name}:{dialect.model}{dimensions}{limit}@1"


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for text in texts:
        length = len(text.encode())
        if batch and (len(batch) == _BATCH_TEXTS or size + length > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += length
    if batch:
        yield batch


def _httpx2() -> Any:
    try:
        import httpx2  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtra("remote", "an embedder behind HTTP") from error
    return httpx2
