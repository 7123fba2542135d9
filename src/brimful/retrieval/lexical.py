"""Postings → how much of a question each place covers, by itself and by what was said around it."""

import math
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from brimful.protocols import Postings

Places = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]

SATURATION: Final = 1.2  # BM25's k1: how soon a repeated term says nothing new
LENGTH_SHARE: Final = 0.5  # BM25's b: how much less a term counts in a long text
MOST_TERMS: Final = 32  # the rarest ones say what a long text asks for
REACH: Final = 6  # turns before and after that a term still counts for
NEXT_TURN: Final = 0.5  # of a term's strength reaches the turns beside it; farther ones get their share of that


class Scored(msgspec.Struct, frozen=True, kw_only=True):
    """A value for each place, places ascending. A place is a message's `seq` in its room, elsewhere a `doc`."""

    places: Places
    values: Values


def cover(postings: Postings, *, conversation: bool) -> Scored:
    """Return the share of the question that each place covers, from 0 to 1: BM25 over the most that it could reach.

    In a conversation the turns around a place count as if they were weaker fields of one document (BM25F): an answer
    stands beside its question, and seldom repeats it. Terms that the scope does not hold at all are part of the
    question: a scope that knows half of it covers half at most.
    """
    rarity = [_rarity(found, postings.documents) for found in postings.found]
    rarest = sorted(range(len(rarity)), key=lambda term: (-rarity[term], term))[:MOST_TERMS]
    whole = sum(rarity[term] for term in rarest)
    own = np.asarray(postings.seq if conversation else postings.doc, np.int64)
    if not len(own):
        return Scored(places=np.empty(0, np.int64), values=np.empty(0))
    kernel = _KERNEL if conversation else _ALONE
    places = _reached(np.unique(own), len(kernel) // 2)
    at, terms, strengths = np.searchsorted(places, own), np.asarray(postings.term), _strengths(postings)
    values = np.zeros(len(places))
    for term in rarest:
        mine = np.flatnonzero(terms == term)
        if len(mine):
            # A posting has all of its reach on both sides among the places, so the kernel never crosses a gap.
            strength = np.convolve(np.bincount(at[mine], strengths[mine], len(places)), kernel, "same")
            values += rarity[term] / whole * (strength / (strength + SATURATION))
    exists = places > 0 if conversation else slice(None)
    return Scored(places=places[exists], values=values[exists])


_ALONE: Final = np.ones(1)
_KERNEL: Final = np.array([NEXT_TURN / abs(turn) if turn else 1.0 for turn in range(-REACH, REACH + 1)])


def _reached(own: Places, reach: int) -> Places:
    """Return all places within reach of these, which are ascending; with a reach, what is reached lies in runs."""
    if not reach:
        return own
    first = own[0] - reach
    inside = np.zeros(own[-1] + reach + 1 - first, np.bool_)
    for offset in range(-reach, reach + 1):
        inside[own - first + offset] = True
    reached: Places = np.flatnonzero(inside) + first
    return reached


def _strengths(postings: Postings) -> Values:
    average = postings.words / max(postings.documents, 1) or 1.0
    longer = np.asarray(postings.length, np.float64) / average
    strengths: Values = np.asarray(postings.frequency, np.float64) / (1 - LENGTH_SHARE + LENGTH_SHARE * longer)
    return strengths


def _rarity(found: int, documents: int) -> float:
    held = min(found, documents)
    return math.log(1 + (documents - held + 0.5) / (held + 0.5))
