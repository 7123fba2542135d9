"""Lexical scoring: how much of a query each position covers (BM25F over a message and the turns around it)."""

import math
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from brimful.records.search import Postings

Positions = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]

SATURATION: Final = 1.2  # BM25's k1: how quickly repeats of a term stop counting
LENGTH_SHARE: Final = 0.5  # BM25's b: how much long texts are penalized
FIRST_POSITION: Final = 1  # of a conversation; documents that are not turns of it, such as summaries, are at position 0
REACH: Final = 6  # turns; a term also counts for this many turns before and after
NEXT_TURN: Final = 0.5  # weight of a term in an adjacent turn; divided by the distance for turns farther away
MAX_TERMS: Final = 32  # the rarest terms of a long query
MAX_CENTRES: Final = 200  # best positions by their own terms; only positions around them are scored

NO_POSITIONS: Final[Positions] = np.empty(0, np.int64)


class Scored(msgspec.Struct, frozen=True, kw_only=True):
    """A value for each position, ascending. A position is a message's `seq` in its room, or a `doc` elsewhere."""

    positions: Positions
    values: Values


def score_coverage(postings: Postings, *, conversation: bool, beside: Positions = NO_POSITIONS) -> Scored:
    """Return the share of the query that each position covers, from 0 to 1: BM25 divided by its maximum.

    In a conversation, the surrounding turns count as weaker fields of the same document (BM25F), because an answer
    follows its question and rarely repeats it. Terms that do not occur in the scope at all still count: a scope that
    contains half of the query covers at most half. The positions in `beside` are always scored.
    """
    shares, rows = _query_terms(postings, conversation=conversation)
    reach = REACH if conversation else 0
    centres = _best(rows.position, shares[rows.term] * _saturate(rows.strength))
    positions = _distinct(np.concatenate([_within_reach(centres, reach), beside]))
    positions = positions[np.searchsorted(positions, FIRST_POSITION) :]
    around = _within_reach(positions, reach)
    strengths = _with_neighbours(rows, around, len(shares), reach)
    covered = _saturate(strengths[:, np.searchsorted(around, positions)])
    covered *= shares[:, None]
    return Scored(positions=positions, values=covered.sum(axis=0))  # not `@`: BLAS threads would keep spinning


class _Rows(msgspec.Struct, frozen=True, kw_only=True):
    position: Positions
    term: Positions
    strength: Values


def _query_terms(postings: Postings, *, conversation: bool) -> tuple[Values, _Rows]:
    """Return each rare term's share of the query, and the rows of these terms."""
    idf = np.array([_idf(frequency, postings.documents) for frequency in postings.document_frequency])
    rarest = np.argsort(-idf, kind="stable")[:MAX_TERMS]
    numbers = np.full(len(idf), -1)
    numbers[rarest] = np.arange(len(rarest))
    term = numbers[np.asarray(postings.term, np.int64)]
    position = np.asarray(postings.seq if conversation else postings.doc, np.int64)
    selected = (term >= 0) & (position >= FIRST_POSITION)
    relative_length = np.asarray(postings.length, np.float64) * max(postings.documents, 1) / max(postings.words, 1)
    strength = np.asarray(postings.frequency, np.float64) / (1 - LENGTH_SHARE + LENGTH_SHARE * relative_length)
    shares: Values = idf[rarest] / max(idf[rarest].sum(), 1e-9)
    return shares, _Rows(position=position[selected], term=term[selected], strength=strength[selected])


def _idf(found: int, documents: int) -> float:
    frequency = min(found, documents)
    return math.log(1 + (documents - frequency + 0.5) / (frequency + 0.5))


def _saturate(strength: Values) -> Values:
    return strength / (strength + SATURATION)


def _best(position: Positions, gain: Values) -> Positions:
    """Return the positions with the highest total gain, ascending. Later positions win ties."""
    positions = _distinct(position)
    gains = np.bincount(np.searchsorted(positions, position), gain, len(positions))
    return np.sort(positions[np.lexsort((-positions, -gains))[:MAX_CENTRES]])


def _distinct(positions: Positions) -> Positions:
    """Return the distinct positions, ascending."""
    ordered = np.sort(positions)  # np.unique hashes integers, which takes ten times as long
    new = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return ordered[new]


def _within_reach(positions: Positions, reach: int) -> Positions:
    """Return all positions within reach of these, which must be distinct and ascending."""
    if not reach or not len(positions):
        return positions
    ends = positions + reach
    starts = np.maximum(positions - reach, np.append(positions[0] - reach, ends[:-1] + 1))  # skip what is covered
    lengths = ends - starts + 1
    return np.repeat(ends - np.cumsum(lengths) + 1, lengths) + np.arange(lengths.sum())


def _with_neighbours(rows: _Rows, positions: Positions, terms: int, reach: int) -> Values:
    """Return the strength of each term (rows) at each position (columns), including the turns around it."""
    turns = np.arange(-reach, reach + 1)
    if not len(positions) or not len(rows.position):
        return np.zeros((terms, len(positions)))
    share = np.where(turns, NEXT_TURN / np.maximum(np.abs(turns), 1), 1.0)
    at = np.clip(np.searchsorted(positions, rows.position)[:, None] + turns, 0, len(positions) - 1)
    reached = np.flatnonzero(positions[at] == rows.position[:, None] + turns)
    cells = (rows.term[:, None] * len(positions) + at).ravel()[reached]
    strengths = (rows.strength[:, None] * share).ravel()[reached]
    table = np.bincount(cells, strengths, terms * len(positions)).astype(np.float64, copy=False)
    return table.reshape(terms, len(positions))
