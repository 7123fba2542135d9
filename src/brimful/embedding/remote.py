"""Embedders served over HTTP. A dialect defines the endpoint, the request body and how to read the response."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from brimful.core.content import clean_text
from brimful.embedding.rows import is_embeddable, scatter_rows, unit_rows
from brimful.errors import EmbeddingError, MissingExtra

if TYPE_CHECKING:
    import httpx2

    from brimful.protocols import Purpose, Vectors


class Prompts(msgspec.Struct, frozen=True):
    """What stands before a text, by its purpose."""

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
    """Return the prompts of a model, whoever serves it and in whichever size.

    >>> prompts_for("nomic-ai/nomic-embed-text:v1.5").query
    'search_query: '
    """
    name = model.rpartition("/")[2].lower()
    return next((prompts for known, prompts in _PROMPTS.items() if name.startswith(known)), Prompts())


MAX_BYTES: Final = 8_191  # of one text: what OpenAI's models read, in tokens
TIMEOUT: Final = 30.0  # seconds for one request

_BATCH_TEXTS: Final = 128
_BATCH_BYTES: Final = 250_000  # OpenAI takes 300,000 tokens in one request
_PROBE: Final = "."  # asked where all texts are empty, and nobody has said yet how long a vector is
_MAX_SHOWN_CHARS: Final = 200  # characters of what a server says
_REFUSED: Final = (400, 413, 422)  # by HTTP status: another text may be taken
_ADVICE: Final = {  # by HTTP status
    401: " (check the key: BRIMFUL_EMBEDDING_KEY)",
    403: " (check the key: BRIMFUL_EMBEDDING_KEY)",
    404: " (check the address and the model's name)",
}


class Dialect(Protocol):
    """How a sort of server is asked."""

    @property
    def name(self) -> str:
        """The sort of server, as in `openai:NAME`."""
        ...

    @property
    def model(self) -> str:
        """The model's name, as the server knows it."""
        ...

    @property
    def dimensions(self) -> int | None:
        """How long a vector shall be; None leaves it to the model."""
        ...

    @property
    def url(self) -> str:
        """Where to ask."""
        ...

    @property
    def key(self) -> str:
        """The key, or an empty text."""
        ...

    def body(self, texts: Sequence[str]) -> Mapping[str, Any]:
        """Write a request."""
        ...

    def read(self, reply: bytes) -> list[list[float]]:
        """Return the vectors of a reply, in the order of the texts; raise `msgspec.DecodeError` if it is malformed."""
        ...


class RemoteEmbedder:
    """Asks a server for vectors. Belongs to the event loop in which it is first used."""

    def __init__(self, dialect: Dialect, *, timeout: float = TIMEOUT, most_bytes: int = MAX_BYTES) -> None:
        """Take a dialect; nothing is asked yet."""
        self._dialect = dialect
        self._timeout = timeout
        self._most_bytes = most_bytes
        self._dims = dialect.dimensions
        self._prompts = prompts_for(dialect.model)
        self._client: httpx2.AsyncClient | None = None
        self.id: Final = _id(dialect, most_bytes)

    @property
    def url(self) -> str:
        """Where requests are sent."""
        return self._dialect.url

    async def embed(self, texts: Sequence[str], purpose: "Purpose") -> "Vectors":
        """Return one row a text of length 1, or of zeros where a text is empty."""
        asked = [self._prepare(text, purpose) for text in texts if is_embeddable(text)]
        if not asked and self._dims is None:
            await self._ask([_PROBE])
        vectors = [await self._ask(batch) for batch in _batches(asked)]
        return scatter_rows(texts, vectors, self._dims or 0)

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            client, self._client = self._client, None
            await client.aclose()

    def _prepare(self, text: str, purpose: "Purpose") -> str:
        return truncate_utf8(self._prompts.before(clean_text(text), purpose), self._most_bytes)

    async def _ask(self, texts: Sequence[str]) -> "Vectors":
        reply = await self._post(self._dialect.body(texts))
        try:
            rows = self._dialect.read(reply)
        except msgspec.DecodeError as error:
            raise EmbeddingError(self.id, f"the answer cannot be read: {error}") from error
        vectors = unit_rows(self.id, rows, len(texts), self._dims)
        self._dims = vectors.shape[1]
        return vectors

    async def _post(self, body: Mapping[str, Any]) -> bytes:
        httpx2 = _httpx2()
        try:
            async with asyncio.timeout(self._timeout):
                reply = await self._opened().post(self._dialect.url, content=msgspec.json.encode(body))
        except TimeoutError as error:
            raise self._unreachable(f"no answer within {self._timeout:g} seconds") from error
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise self._unreachable(str(error) or type(error).__name__) from error
        if not reply.is_success:
            refused = reply.status_code in _REFUSED
            raise EmbeddingError(self.id, self._refusal(reply.status_code, reply.text), refused=refused)
        return reply.content

    def _opened(self) -> "httpx2.AsyncClient":
        if self._client is None:
            headers = {"content-type": "application/json"}
            if self._dialect.key:
                headers["authorization"] = f"Bearer {self._dialect.key}"
            self._client = _httpx2().AsyncClient(headers=headers, timeout=self._timeout)
        return self._client

    def _unreachable(self, why: str) -> EmbeddingError:
        return EmbeddingError(self.id, f"{display_url(self._dialect.url)} cannot be reached: {self._safe(why)}")

    def _refusal(self, status: int, said: str) -> str:
        shown = " ".join(self._safe(said).split())[:_MAX_SHOWN_CHARS]
        return f"{display_url(self._dialect.url)} answered {status}{_ADVICE.get(status, '')}: {shown or 'nothing more'}"

    def _safe(self, text: str) -> str:
        return text.replace(self._dialect.key, "…") if self._dialect.key else text


def truncate_utf8(text: str, most_bytes: int) -> str:
    """Cut a text to a number of bytes of UTF-8, between two characters.

    >>> truncate_utf8("naïve", 3), truncate_utf8("naïve", 4)
    ('na', 'naï')
    """
    if len(text) * 4 <= most_bytes:  # no character takes more than four
        return text
    return text.encode()[:most_bytes].decode(errors="ignore")


def display_url(url: str) -> str:
    """Return where a server is, without any name and password in its address.

    >>> display_url("http://me:secret@localhost:11434/api/embed")
    'localhost:11434'
    """
    return url.partition("://")[2].partition("/")[0].rpartition("@")[2]


def _id(dialect: Dialect, most_bytes: int) -> str:
    dimensions = f"-{dialect.dimensions}" if dialect.dimensions else ""
    limit = f"-{most_bytes}b" if most_bytes != MAX_BYTES else ""
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
