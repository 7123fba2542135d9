"""Search queries and results, and other values that a store returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from brimful.core.context import Component
from brimful.core.notice import Notice
from brimful.core.selection import HistoryStart
from brimful.records import Message, Response

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Column = Sequence[int] | npt.NDArray[np.int64]
    Weights = Sequence[float] | npt.NDArray[np.int64] | npt.NDArray[np.float64]
    Vectors = npt.NDArray[np.float32]

DocumentKind = Literal["message", "memory", "lore", "summary"]


class IndexEntry(msgspec.Struct, frozen=True, kw_only=True):
    """How a record is found: the terms of its text, repeats kept, and the passage that is embedded."""

    terms: tuple[str, ...] = ()
    passage: str = ""


class CountedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message and the stored count of its text: None if that tokenizer never counted it, or it is no plain text."""

    message: Message
    tokens: int | None


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of the index: which record it leads to. `seq` is a message's place in its room, or 0."""

    doc: int
    scope: str
    kind: DocumentKind
    item: str
    seq: int
    at: float


class TermQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What is looked for in full text: where the terms occur in these scopes, in at most so many rows.

    Where each of them occurs more often than that, the newest rows of the rarest are given, unless `rare_only` is.
    """

    scopes: tuple[str, ...]
    terms: tuple[str, ...]
    limit: int = 4000
    rare_only: bool = False


class Postings(msgspec.Struct, frozen=True, kw_only=True):
    """Where terms occur, as five columns of one length: a row says that `doc` holds `terms[term]` `frequency` times.

    `documents` and `words` are the totals of the scopes; `found` tells in how many documents each term occurs, which
    may be more than there are rows of it: of common terms no rows are given.
    """

    terms: tuple[str, ...]
    found: tuple[int, ...]
    documents: int
    words: int
    doc: Column
    seq: Column
    length: Column
    term: Column
    frequency: Weights


class VectorQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What is looked for by meaning: the documents of these scopes that are nearest to a vector."""

    scopes: tuple[str, ...]
    vector: Vectors


class VectorHit(msgspec.Struct, frozen=True, kw_only=True):
    """A document near a query: its cosine."""

    doc: int
    seq: int
    similarity: float


class Build(msgspec.Struct, frozen=True, kw_only=True):
    """A build in one line, for lists, and what the next one needs to keep its prefix.

    `number` is its place in the tenant's log, `message` what it answers. `left_out` are candidates that the model does
    not see. `naive` are the tokens of the request and of all that was left out of it: what sending everything would
    have taken. `rules` tell its policy and budget apart from others of the same names; empty where they were not noted.
    """

    number: int = 0
    id: str
    room: str
    persona: str | None
    message: str | None = None
    at: float
    model: str
    policy: str
    tokens: int
    window: int
    completion: int
    available: int
    components: tuple[Component, ...]
    candidates: int
    left_out: int
    naive: int
    warnings: tuple[Notice, ...] = ()
    degraded: tuple[Notice, ...] = ()
    history: HistoryStart | None = None
    rules: str = ""


class LogPage(msgspec.Struct, frozen=True, kw_only=True):
    """What came after a place in the log, in the order of arrival, and the place to go on from."""

    cursor: str
    events: tuple[Build | Response, ...] = ()


class PruneReport(msgspec.Struct, frozen=True, kw_only=True):
    """What left the log, or would leave it: all that was built or answered `before` a time.

    `contents` are texts that nothing else refers to. `bytes` are those of all bodies, without rows and indexes around
    them.
    """

    before: float
    builds: int = 0
    answers: int = 0
    contents: int = 0
    bytes: int = 0


class IndexProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far the embedding of a tenant's documents has come."""

    done: int
    waiting: int


class Accuracy(msgspec.Struct, frozen=True, kw_only=True):
    """How well the prompts of a model were counted on a route, over all requests of a time.

    Errors are shares of what was reported, below zero where the count was too low; `covered` is the share of requests
    that had at most what was counted and its margin. `overflows` and `cuts` are not among the `requests`.
    """

    model: str
    route: str
    requests: int
    mean_error: float
    mean_absolute_error: float
    worst_error: float
    covered: float
    counted: int
    reported: int
    expected_cached: int
    cached: int
    overflows: int
    cuts: int
    first: float
    last: float
