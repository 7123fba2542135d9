"""The search index: entries, queries and results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from brimful.records.messages import Message

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Column = Sequence[int] | npt.NDArray[np.int64]
    Weights = Sequence[float] | npt.NDArray[np.int64] | npt.NDArray[np.float64]
    Vectors = npt.NDArray[np.float32]

DocumentKind = Literal["message", "memory", "lore", "summary"]


class IndexEntry(msgspec.Struct, frozen=True, kw_only=True):
    """How a record is indexed: the terms of its text, including repeats, and the passage to embed.

    A long text has several passages. The entry is its first one, and `further` are the others. `start` and `stop` are
    their positions in the text; both are 0 for a text that is one passage. Of a very long text, these are the first
    passages, and `rest` is where those begin that are indexed next.
    """

    terms: tuple[str, ...] = ()
    passage: str = ""
    start: int = 0
    stop: int = 0
    further: tuple[IndexEntry, ...] = ()
    rest: int = 0


class CountedMessage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A message with its stored token count: None if the tokenizer never counted it, or it is not plain text."""

    message: Message
    tokens: int | None


class Document(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A document of the search index, and the record it belongs to.

    `part` is the number of the passage, from `start` to `stop` in the text.
    `seq` is the position of a message, or the first document of a memory or lore entry with several passages, or 0.
    """

    doc: int
    scope: str
    kind: DocumentKind
    item: str
    seq: int
    at: float
    part: int = 0
    start: int = 0
    stop: int = 0


class TermQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A full-text query: find these terms in these scopes, and return at most `limit` rows.

    If every term occurs more often than that, the newest rows of the rarest term are returned, or none with
    `rare_only`.
    """

    scopes: tuple[str, ...]
    terms: tuple[str, ...]
    limit: int = 4000
    rare_only: bool = False


class Postings(msgspec.Struct, frozen=True, kw_only=True):
    """Occurrences of terms, as five columns of equal length: `doc` contains `terms[term]` `frequency` times.

    `documents` and `words` are totals of the scopes. `document_frequency` is the number of documents with each term.
    It may be larger than the number of its rows: common terms have none.
    """

    terms: tuple[str, ...]
    document_frequency: tuple[int, ...]
    documents: int
    words: int
    doc: Column
    seq: Column
    length: Column
    term: Column
    frequency: Weights


class VectorQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A vector query: find the documents of these scopes that are nearest to a vector."""

    scopes: tuple[str, ...]
    vector: Vectors


class VectorHit(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A document near a query vector, with its cosine similarity."""

    doc: int
    seq: int
    similarity: float


class IndexProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of embedding a tenant's documents."""

    done: int
    waiting: int
