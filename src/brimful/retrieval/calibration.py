"""Turn the shares of a question's matches into probabilities.

The share of a match is the probability that it is the answer if one of them is. Whether one is depends on the question:
how many of its words a single text has, and how near the nearest vector is. A logistic regression looks at all of this.
`tools/fit_relevance.py` fits its coefficients for each kind of embedder, with questions that a store can and cannot
answer.

A match has the same relevance however many others were searched for, and whatever other queries found.
"""

import json
import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final, Literal

import msgspec
import numpy as np

from brimful.records.search import VectorHit
from brimful.retrieval.lexical import Values
from brimful.retrieval.queries import Question
from brimful.retrieval.rank import MAX_NEIGHBOURS, Ranking

OTHER: Final = "other"  # embedders without coefficients of their own
_DATA: Final = Path(__file__).with_name("data") / "relevance.json"
_MIN_ROOM: Final = 1e-3  # between the least similar and an identical vector; if all are identical, none stands out

Kind = Literal["room", "memory", "lore"]


class Coefficients(msgspec.Struct, frozen=True, kw_only=True):
    """The weight of each input.

    - `share`: the logarithm of the match's share.
    - `nearest`: the similarity of the nearest vector, after `stretch`.
    - `coverage`: the largest share of the question's words that a single text has.
    - `no_words`: 1 if the question has no word to search for, such as "Thanks a lot!".
    - `documents`: the logarithm of their number.
    - `message`: 1 for messages. Memories and lore entries have no turns around them and no speaker.
    - `constant`: always 1.
    """

    share: float
    nearest: float
    coverage: float
    no_words: float
    documents: float
    message: float
    constant: float


INPUTS: Final = Coefficients.__struct_fields__


class Outlook(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about a question in a scope: whether any match may be an answer."""

    kind: Kind
    documents: int
    nearest: float = 0.0
    coverage: float = 0.0
    terms: int = 2

    @classmethod
    def of(cls, ranking: Ranking, question: Question, kind: Kind) -> "Outlook":
        """Return what a ranking and its question tell."""
        return cls(
            kind=kind,
            documents=ranking.documents,
            nearest=ranking.nearest,
            coverage=ranking.coverage,
            terms=len(question.terms),
        )


def calibrate(log_shares: Values, outlook: Outlook, coefficients: Coefficients) -> Values:
    """Return the probability that each match of a question helps to answer it."""
    weights = np.array(msgspec.structs.astuple(coefficients))
    rows = describe(log_shares, outlook)
    probabilities: Values = 1 / (1 + np.exp(-(rows * weights).sum(axis=1)))  # not `@`: BLAS threads would keep spinning
    return probabilities


def describe(log_shares: Values, outlook: Outlook) -> Values:
    """Return the inputs of the regression, one row per match."""
    columns: dict[str, Values | float] = {
        "share": log_shares,
        "nearest": outlook.nearest,
        "coverage": outlook.coverage,
        "no_words": outlook.terms == 0,
        "documents": math.log(max(outlook.documents, 1)),
        "message": outlook.kind == "room",
        "constant": 1.0,
    }
    rows = np.empty((len(log_shares), len(INPUTS)))
    for index, name in enumerate(INPUTS):
        rows[:, index] = columns[name]
    return rows


@cache
def load_coefficients() -> dict[str, Coefficients]:
    """Return the fitted coefficients by kind of embedder: the beginning of its id, "other", or "none"."""
    return msgspec.convert(json.loads(_DATA.read_text("utf-8")), dict[str, Coefficients])


def coefficients_of(embedder: str | None) -> Coefficients:
    """Return the coefficients for an embedder's id, or for full-text search alone."""
    known = load_coefficients()
    return known["none" if embedder is None else _kind_of(embedder)]


def stretch(near: Sequence[VectorHit], embedder: str | None) -> Sequence[VectorHit]:
    """Return the hits of an embedder without coefficients of its own, with similarities from 0 to 1.

    Many models have similarities of 0.7 even between unrelated texts. What can be compared between models is how far a
    text is from the least similar of the nearest, on the way to an identical one.

    >>> [hit.similarity for hit in stretch([VectorHit(doc=n, seq=n, similarity=n / 8) for n in (7, 6, 4)], "bge")]
    [0.75, 0.5, 0.0]
    """
    if not near or embedder is None or _kind_of(embedder) != OTHER:
        return near
    farthest = max(0.0, sorted((hit.similarity for hit in near), reverse=True)[:MAX_NEIGHBOURS][-1])
    room = max(1 - farthest, _MIN_ROOM)
    return [msgspec.structs.replace(hit, similarity=(hit.similarity - farthest) / room) for hit in near]


def _kind_of(embedder: str) -> str:
    return next((name for name in load_coefficients() if embedder.startswith(name)), OTHER)
