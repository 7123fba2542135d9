"""Turn the log-odds of a question's matches into probabilities.

The log-odds of the ranking put matches in order, but they are far too low: they know nothing about the other matches. A
match that stands out among the others is far more likely to be the answer than one of many that are all alike. So a
logistic regression looks at both. `tools/fit_relevance.py` fits its coefficients for each kind of embedder.
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
from brimful.retrieval.rank import against

RANK: Final = 10  # the match with which the others are compared: at most a few others are answers too
TOP: Final = 5  # matches among which a step down counts
SHORT_TEXT_BYTES: Final = 200  # a message of this length, with its heading, counts half as long as a long one
HEADING_BYTES: Final = 60  # of day and speaker
_DATA: Final = Path(__file__).with_name("data") / "relevance.json"

Kind = Literal["room", "memory", "lore"]


class Coefficients(msgspec.Struct, frozen=True, kw_only=True):
    """The weight of each input.

    - `own`: what speaks for a match, the sum of its parts.
    - `best`: how far it is below the best match (so it is 0 or less).
    - `gap`: the largest step down from it, or from a match below it, to the next, among the best five. Answers stand
      out, even if several say the same.
    - `lead`: how far the best match is above the tenth.
    - `documents`: the logarithm of their number.
    - `length`: the logarithm of a message's length, if it is short. Memories and lore entries are meant to be short.
    - `message`: 1 for messages. Memories and lore entries have no turns around them and no speaker.
    - `constant`: always 1.
    """

    own: float
    best: float
    gap: float
    lead: float
    documents: float
    length: float
    message: float
    constant: float


INPUTS: Final = Coefficients.__struct_fields__


def calibrate(
    log_odds: Values, lengths: npt.NDArray[np.int64], *, documents: int, kind: Kind, coefficients: Coefficients
) -> Values:
    """Return the probability that each match of a question helps to answer it. `lengths` are bytes of text."""
    if not len(log_odds):
        return log_odds
    weights = np.array(msgspec.structs.astuple(coefficients))
    rows = describe(log_odds, lengths, documents=documents, kind=kind)
    probabilities: Values = 1 / (1 + np.exp(-(rows * weights).sum(axis=1)))  # not `@`: BLAS threads would keep spinning
    return probabilities


def describe(log_odds: Values, lengths: npt.NDArray[np.int64], *, documents: int, kind: Kind) -> Values:
    """Return the inputs of the regression, one row per match."""
    own = log_odds + against(max(documents, 1))  # 0 for a text that has nothing in common with the query
    order = np.argsort(-own, kind="stable")
    ordered = own[order]
    best, tenth = float(ordered[0]), float(ordered[RANK - 1]) if len(ordered) >= RANK else 0.0
    message = float(kind == "room")
    rows = np.empty((len(own), len(INPUTS)))
    rows[:, 0] = own
    rows[:, 1] = own - best
    rows[order, 2] = _largest_steps(ordered)
    rows[:, 3] = best - tenth
    rows[:, 4] = math.log(max(documents, 1))
    rows[:, 5] = message * np.log((lengths + HEADING_BYTES) / (lengths + HEADING_BYTES + SHORT_TEXT_BYTES))
    rows[:, 6] = message
    rows[:, 7] = 1.0
    return rows


def _largest_steps(ordered: Values) -> Values:
    """Return, for each match, the largest step down at or after it among the best. A single match has only one."""
    if len(ordered) == 1:
        return ordered
    steps = np.zeros(len(ordered))
    count = min(TOP, len(ordered)) - 1
    steps[:count] = np.maximum.accumulate((ordered[:count] - ordered[1 : count + 1])[::-1])[::-1]
    return steps


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
