"""Postings → how much of a question each place covers, by itself and by what was said around it."""

import math
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from brimful.records.search import Postings

Positions = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]

SATURATION: Final = 1.2  # BM25's k1: how soon a repeated term says nothing new
LENGTH_SHARE: Final = 0.5  # BM25's b: how much less a term counts in a long text
FIRST_POSITION: Final = (
    1  # place of a conversation; what is in it but no turn of it, a summary for one, has the place 0
)
REACH: Final = 6  # turns before and after that a term still counts for
NEXT_TURN: Final = 0.5  # of a term's strength reaches the turns beside it; farther ones get their share of that
MAX_TERMS: Final = 32  # the rarest ones say what a long text asks for
MAX_CENTRES: Final = 200  # places that cover most by themselves: only what lies around them is looked at

NO_POSITIONS: Final[Positions] = np.empty(0, np.int64)


class Scored(msgspec.Struct, frozen=True, kw_only=True):
    """A value for each place, places ascending. A place is a message's `seq` in its room, elsewhere a `doc`."""

    places: Positions
    values: Values


def score_coverage(postings: Postings, *, conversation: bool, beside: Positions = NO_POSITIONS) -> Scored:
    """Return the share of the question that each place covers, from 0 to 1: BM25 over the most that it could reach.

    In a conversation the turns around a place count as if they were weaker fields of one document (BM25F): an answer
    stands beside its question, and seldom repeats it. Terms that the scope does not hold at all are part of the
    question: a scope that knows half of it covers half at most. What is at the places `beside` is told in any case.
    """
    shares, rows = _query_terms(postings, conversation=conversation)
    reach = REACH if conversation else 0
    centres = _best(rows.place, shares[rows.term] * _saturate(rows.strength))
    places = _distinct(np.concatenate([_within_reach(centres, reach), beside]))
    places = places[np.searchsorted(places, FIRST_POSITION) :]
    around = _within_reach(places, reach)
    strengths = _with_neighbours(rows, around, len(shares), reach)
    covered = _saturate(strengths[:, np.searchsorted(around, places)])
    covered *= shares[:, None]
    return Scored(places=places, values=covered.sum(axis=0))  # not `@`, whose threads go on turning for a while


class _Rows(msgspec.Struct, frozen=True, kw_only=True):
    place: Positions
    term: Positions
    strength: Values


def _query_terms(postings: Postings, *, conversation: bool) -> tuple[Values, _Rows]:
    """Return each rare term's share of the question, and the rows of these terms."""
    rarities = np.array([_idf(found, postings.documents) for found in postings.found])
    rarest = np.argsort(-rarities, kind="stable")[:MAX_TERMS]
    numbers = np.full(len(rarities), -1)
    numbers[rarest] = np.arange(len(rarest))
    term = numbers[np.asarray(postings.term, np.int64)]
    place = np.asarray(postings.seq if conversation else postings.doc, np.int64)
    mine = (term >= 0) & (place >= FIRST_POSITION)
    longer = np.asarray(postings.length, np.float64) * max(postings.documents, 1) / max(postings.words, 1)
    strength = np.asarray(postings.frequency, np.float64) / (1 - LENGTH_SHARE + LENGTH_SHARE * longer)
    shares: Values = rarities[rarest] / max(rarities[rarest].sum(), 1e-9)
    return shares, _Rows(place=place[mine], term=term[mine], strength=strength[mine])


def _idf(found: int, documents: int) -> float:
    held = min(found, documents)
    return math.log(1 + (documents - held + 0.5) / (held + 0.5))


def _saturate(strength: Values) -> Values:
    return strength / (strength + SATURATION)


def _best(place: Positions, gain: Values) -> Positions:
    """Return the places whose rows gain most, ascending; of equals the later."""
    places = _distinct(place)
    gains = np.bincount(np.searchsorted(places, place), gain, len(places))
    return np.sort(places[np.lexsort((-places, -gains))[:MAX_CENTRES]])


def _distinct(places: Positions) -> Positions:
    """Return the places ascending, each once."""
    ordered = np.sort(places)  # np.unique hashes whole numbers, which takes ten times as long
    new = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return ordered[new]


def _within_reach(places: Positions, reach: int) -> Positions:
    """Return all places within reach of these, which are distinct and ascending: each adds what the last one left."""
    if not reach or not len(places):
        return places
    ends = places + reach
    starts = np.maximum(places - reach, np.append(places[0] - reach, ends[:-1] + 1))
    lengths = ends - starts + 1
    return np.repeat(ends - np.cumsum(lengths) + 1, lengths) + np.arange(lengths.sum())


def _with_neighbours(rows: _Rows, places: Positions, terms: int, reach: int) -> Values:
    """Return the strength of each term (down) at each place (across), with what comes from the turns around.

    Rows elsewhere are left out, and nothing goes over a gap between places: where it is read, there is none.
    """
    turns = np.arange(-reach, reach + 1)
    if not len(places) or not len(rows.place):
        return np.zeros((terms, len(places)))
    share = np.where(turns, NEXT_TURN / np.maximum(np.abs(turns), 1), 1.0)
    at = np.clip(np.searchsorted(places, rows.place)[:, None] + turns, 0, len(places) - 1)
    reached = np.flatnonzero(places[at] == rows.place[:, None] + turns)
    cells = (rows.term[:, None] * len(places) + at).ravel()[reached]
    strengths = (rows.strength[:, None] * share).ravel()[reached]
    table = np.bincount(cells, strengths, terms * len(places)).astype(np.float64, copy=False)
    return table.reshape(terms, len(places))
