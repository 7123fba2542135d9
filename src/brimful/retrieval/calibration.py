"""Turn the shares of a question's matches into probabilities.

The share of a match is the probability that it is the answer if one of them is. Whether one is depends on the question:
how many of its words a single text has, and how near the nearest vector is. A logistic regression looks at all of this.
`tools/fit_relevance.py` fits its coefficients for each kind of embedder, with questions that a store can and cannot
answer.

A match has the same relevance however many others were searched for, and whatever other queries found.
"""

import json
import math
from functools import cache
from pathlib import Path
from typing import Final, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from brimful.retrieval.lexical import Values
from brimful.retrieval.queries import Question
from brimful.retrieval.rank import Ranking

SHORT_TEXT_BYTES: Final = 200  # a message of this length, with its heading, counts half as long as a long one
HEADING_BYTES: Final = 60  # of day and speaker
_DATA: Final = Path(__file__).with_name("data") / "relevance.json"

Kind = Literal["room", "memory", "lore"]


class Coefficients(msgspec.Struct, frozen=True, kw_only=True):
    """The weight of each input.

    - `share`: the logarithm of the match's share.
    - `nearest`: the similarity of the nearest vector.
    - `coverage`: the largest share of the question's words that a single text has.
    - `no_words`, `one_word`: 1 if the question has no word to search for, such as "Thanks a lot!", or only one.
    - `documents`: the logarithm of their number.
    - `length`: the logarithm of a message's length, if it is short. Memories and lore entries are meant to be short.
    - `message`: 1 for messages. Memories and lore entries have no turns around them and no speaker.
    - `constant`: always 1.
    """

    share: float
    nearest: float
    coverage: float
    no_words: float
    one_word: float
    documents: float
    length: float
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


def calibrate(
    log_shares: Values, lengths: npt.NDArray[np.int64], outlook: Outlook, coefficients: Coefficients
) -> Values:
    """Return the probability that each match of a question helps to answer it. `lengths` are bytes of text."""
    weights = np.array(msgspec.structs.astuple(coefficients))
    rows = describe(log_shares, lengths, outlook)
    probabilities: Values = 1 / (1 + np.exp(-(rows * weights).sum(axis=1)))  # not `@`: BLAS threads would keep spinning
    return probabilities


def describe(log_shares: Values, lengths: npt.NDArray[np.int64], outlook: Outlook) -> Values:
    """Return the inputs of the regression, one row per match."""
    message = float(outlook.kind == "room")
    lengths = lengths + HEADING_BYTES
    columns: dict[str, Values | float] = {
        "share": log_shares,
        "nearest": outlook.nearest,
        "coverage": outlook.coverage,
        "no_words": outlook.terms == 0,
        "one_word": outlook.terms == 1,
        "documents": math.log(max(outlook.documents, 1)),
        "length": message * np.log(lengths / (lengths + SHORT_TEXT_BYTES)),
        "message": message,
        "constant": 1.0,
    }
    rows = np.empty((len(lengths), len(INPUTS)))
    for at, name in enumerate(INPUTS):
        rows[:, at] = columns[name]
    return rows


@cache
def load_coefficients() -> dict[str, Coefficients]:
    """Return the fitted coefficients by kind of embedder: the beginning of its id, "other", or "none"."""
    return msgspec.convert(json.loads(_DATA.read_text("utf-8")), dict[str, Coefficients])


def coefficients_of(embedder: str | None) -> Coefficients:
    """Return the coefficients for an embedder's id, or for full-text search alone."""
    known = load_coefficients()
    if embedder is None:
        return known["none"]
    return next((known[name] for name in known if embedder.startswith(name)), known["other"])
