"""Postings → how much of a question each place covers, itself and by what was said around it."""

import math
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from brimful.protocols import Postings

Places = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]

SATURATION: Final = 1.2  # BM25's k1: how soon a repeated term says nothing new
LENGTH_SHARE: Final = 0.5  # BM25's b: how much a long text's terms count for less

ALONE: Final[tuple[tuple[int, float], ...]] = ((0, 1.0),)
IN_CONVERSATION: Final[tuple[tuple[int, float], ...]] = ((0, 1.0), (1, 0.3), (-1, 0.3), (2, 0.2), (-2, 0.2))
"""How much of a term reaches the turns around it: an answer stands after its question, and seldom repeats it."""


class Scored(msgspec.Struct, frozen=True, kw_only=True):
    """A value for each place, places ascending. A place is a message's `seq` in its room, elsewhere a `doc`."""

    places: Places
    values: Values


def cover(postings: Postings, *, conversation: bool) -> Scored:
    """Return the share of the question that each place covers, from 0 to 1: BM25, each term bounded, the sum as well.

    In a conversation a term counts for the turns around it, too, as if they were fields of one document (BM25F). Terms
    that the scope does not hold at all are part of the question: a scope that knows half of it covers half at most.
    """
    spread = IN_CONVERSATION if conversation else ALONE
    columns = _columns(postings, conversation=conversation)
    rarity = np.array([_rarity(found, postings.documents) for found in postings.found])
    if not len(columns.place) or not rarity.sum():
        return Scored(places=np.empty(0, np.int64), values=np.empty(0))
    reached = np.concatenate([columns.place + offset for offset, _ in spread])
    places, at = np.unique(reached, return_inverse=True)
    weights = np.concatenate([columns.strength * share for _, share in spread])
    cells = np.tile(columns.term, len(spread)) * len(places) + at
    strength = np.bincount(cells, weights, len(rarity) * len(places)).reshape(len(rarity), len(places))
    values = rarity @ (strength / (strength + SATURATION)) / rarity.sum()
    return Scored(places=places, values=values)


class _Columns(msgspec.Struct, frozen=True, kw_only=True):
    place: Places
    term: Places
    strength: Values


def _columns(postings: Postings, *, conversation: bool) -> _Columns:
    lengths = np.asarray(postings.length, np.float64)
    average = postings.words / max(postings.documents, 1) or 1.0
    return _Columns(
        place=np.asarray(postings.seq if conversation else postings.doc, np.int64),
        term=np.asarray(postings.term, np.int64),
        strength=np.asarray(postings.frequency, np.float64) / (1 - LENGTH_SHARE + LENGTH_SHARE * lengths / average),
    )


def _rarity(found: int, documents: int) -> float:
    held = min(found, documents)
    return math.log(1 + (documents - held + 0.5) / (held + 0.5))
