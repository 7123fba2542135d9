"""Lexical scoring: how much of a query each passage covers (BM25F over a passage and the turns around its message)."""

import math
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from brimful.records.search import Postings
from brimful.retrieval.search import FIRST_POSITION

Positions = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]

SATURATION: Final = 1.2  # BM25's k1: how quickly repeats of a term stop counting
LENGTH_SHARE: Final = 0.5  # BM25's b: how much long texts are penalized
REACH: Final = 6  # turns; a term also counts for this many turns before and after
NEXT_TURN: Final = 0.5  # weight of a term in an adjacent turn; divided by the distance for turns farther away
# Texts without any term that are added to each scope: a word in all texts of a small one need not be a common word.
ELSEWHERE: Final = 30
MAX_TERMS: Final = 32  # the rarest terms of a long query that the scope has
MAX_CENTRES: Final = 200  # best positions by their own terms; only positions around them are scored

UNKNOWN_DOC: Final = 0  # of a position without any term of the query


class Scored(msgspec.Struct, frozen=True, kw_only=True):
    """A value for each passage, ascending by position and document.

    A position is a message's `seq` in its room; elsewhere, it is the first `doc` of a record. A long record has several
    passages at one position. `own` is what the value would be without the turns around it. `presence` is the largest
    share of the query whose terms a single passage has, however long it is.
    """

    positions: Positions
    docs: Positions
    values: Values
    own: Values = msgspec.field(default_factory=lambda: np.empty(0))
    presence: float = 0.0


NOTHING_SCORED: Final = Scored(positions=np.empty(0, np.int64), docs=np.empty(0, np.int64), values=np.empty(0))


def score_coverage(postings: Postings, *, conversation: bool, beside: Scored = NOTHING_SCORED) -> Scored:
    """Return the share of the query that each passage covers, from 0 to 1: BM25 divided by its maximum.

    In a conversation, the surrounding turns count as weaker fields of the same document (BM25F), because an answer
    follows its question and rarely repeats it. Terms that do not occur in the scope at all still count: a scope that
    contains half of the query covers at most half. The passages in `beside` are always scored.
    """
    shares, rows = _query_terms(postings, conversation=conversation)
    reach = REACH if conversation else 0
    centres = _best(rows.position, shares[rows.term] * _saturate(rows.strength))
    positions = _distinct(np.concatenate([_within_reach(centres, reach), beside.positions]))
    positions = positions[np.searchsorted(positions, FIRST_POSITION) :]
    around = _within_reach(positions, reach)
    at_positions = np.searchsorted(around, positions)
    passages = _Passages.of(np.append(rows.position, beside.positions), np.append(rows.doc, beside.docs))
    several = passages.several
    turns = passages.merge_rows(rows, len(shares)) if several else rows
    strengths = _with_neighbours(turns, around, len(shares), reach)
    values = _coverage(strengths[:, at_positions], shares)
    own = _coverage(_with_neighbours(turns, positions, len(shares), 0), shares) if reach else values
    docs, presence = passages.docs_at(positions), _largest_presence(rows, shares)
    whole = Scored(positions=positions, docs=docs, values=values, own=own, presence=presence)
    if not several:
        return whole
    others = _with_neighbours(turns, around, len(shares), reach, own=0.0)[:, at_positions]
    return _with_passages(whole, passages.within(positions), rows, others, shares)


class _Rows(msgspec.Struct, frozen=True, kw_only=True):
    position: Positions
    doc: Positions
    term: Positions
    frequency: Values
    strength: Values


class _Passages(msgspec.Struct, frozen=True, kw_only=True):
    """The known passages, ascending by position and document, and whether a position has several."""

    positions: Positions
    docs: Positions

    @classmethod
    def of(cls, positions: Positions, docs: Positions) -> "_Passages":
        base = docs.max(initial=0) + 1
        positions, docs = np.divmod(_distinct(positions * base + docs), base)  # faster than sorting by two keys
        return cls(positions=positions, docs=docs)

    @property
    def several(self) -> bool:
        return bool((np.diff(self.positions) == 0).any())

    def docs_at(self, positions: Positions) -> Positions:
        """Return the first document at each position."""
        index = np.searchsorted(self.positions, positions)
        found = np.append(self.positions, -1)[index] == positions
        return np.where(found, np.append(self.docs, UNKNOWN_DOC)[index], UNKNOWN_DOC)

    def within(self, positions: Positions) -> "_Passages":
        """Return the passages of positions that have several."""
        repeated = np.diff(self.positions) == 0
        chosen = np.append(repeated, np.False_) | np.insert(repeated, 0, np.False_)
        chosen &= np.isin(self.positions, positions)
        return _Passages(positions=self.positions[chosen], docs=self.docs[chosen])

    def table(self, rows: _Rows, terms: int) -> Values:
        """Return the strength of each term (rows) in each passage (columns)."""
        order = np.argsort(self.docs)
        index = np.minimum(np.searchsorted(self.docs[order], rows.doc), len(order) - 1)
        mine = self.docs[order][index] == rows.doc
        cells = rows.term[mine] * len(order) + order[index[mine]]
        table = np.bincount(cells, rows.strength[mine], terms * len(order)).astype(np.float64, copy=False)
        return table.reshape(terms, len(order))

    def merge_rows(self, rows: _Rows, terms: int) -> _Rows:
        """Return rows in which a long message has one strength per term: that of its best passage."""
        long = self.within(self.positions)
        starts = np.flatnonzero(np.diff(long.positions, prepend=-1))
        best = np.maximum.reduceat(long.table(rows, terms), starts, axis=1)
        term, index = np.nonzero(best)
        others = ~np.isin(rows.doc, long.docs)
        return _Rows(
            position=np.append(rows.position[others], long.positions[starts][index]),
            doc=np.append(rows.doc[others], long.docs[starts][index]),
            term=np.append(rows.term[others], term),
            frequency=np.append(rows.frequency[others], np.ones(len(term))),
            strength=np.append(rows.strength[others], best[term, index]),
        )


def _with_passages(whole: Scored, passages: _Passages, rows: _Rows, others: Values, shares: Values) -> Scored:
    """Replace long messages by their passages, each scored with the turns around the message."""
    if not len(passages.docs):
        return whole
    index = np.searchsorted(whole.positions, passages.positions)
    table = passages.table(rows, len(shares))
    values, own = _coverage(table + others[:, index], shares), _coverage(table, shares)
    single = ~np.isin(whole.positions, passages.positions)
    positions = np.append(whole.positions[single], passages.positions)
    docs = np.append(whole.docs[single], passages.docs)
    order = np.lexsort((docs, positions))
    return Scored(
        positions=positions[order],
        docs=docs[order],
        values=np.append(whole.values[single], values)[order],
        own=np.append(whole.own[single], own)[order],
        presence=whole.presence,
    )


def _largest_presence(rows: _Rows, shares: Values) -> float:
    """Return the largest share of the query whose terms are in a single passage."""
    docs = _distinct(rows.doc)
    found = shares[rows.term] * np.minimum(rows.frequency, 1.0)  # a synonym is less than an occurrence
    return min(1.0, float(np.bincount(np.searchsorted(docs, rows.doc), found, len(docs)).max(initial=0.0)))


def _coverage(strengths: Values, shares: Values) -> Values:
    """Return the covered share of the query in each column."""
    covered = _saturate(strengths)
    covered *= shares[:, None]
    total: Values = covered.sum(axis=0)  # not `@`: BLAS threads would keep spinning
    return total


def to_positions(docs: Positions, seqs: Positions, *, conversation: bool) -> Positions:
    """Return the positions of documents. Outside of conversations, only long records have a `seq`."""
    return seqs if conversation else np.where(seqs > 0, seqs, docs)


def count_records(postings: Postings, *, conversation: bool) -> Postings:
    """Return postings whose totals and document frequencies count a long record once, however many passages it has.

    A term in every passage of one record would otherwise look as if it were in many records. Long records without any
    term of the query count as their passages.
    """
    doc, term = np.asarray(postings.doc, np.int64), np.asarray(postings.term, np.int64)
    position = to_positions(doc, np.asarray(postings.seq, np.int64), conversation=conversation)
    base = position.max(initial=0) + 1
    repeats = len(_distinct(doc)) - len(_distinct(position))
    if repeats <= 0:
        return postings
    rows = np.bincount(term, minlength=len(postings.terms))
    records = np.bincount(_distinct(term * base + position) // base, minlength=len(postings.terms))
    documents = max(1, postings.documents - repeats)
    known = np.asarray(postings.document_frequency, np.int64)  # without synonyms, which may have rows
    frequencies = np.maximum(known - rows + records, np.minimum(known, records))
    return msgspec.structs.replace(
        postings,
        documents=documents,
        words=max(1, postings.words * documents // max(1, postings.documents)),  # a passage is as long as before
        document_frequency=tuple(frequencies.tolist()),
    )


def _query_terms(postings: Postings, *, conversation: bool) -> tuple[Values, _Rows]:
    """Return each rare term's share of the query, and the rows of these terms."""
    idf = np.array([_idf(frequency, postings.documents) for frequency in postings.document_frequency])
    term = np.asarray(postings.term, np.int64)
    # A long query has many terms that the scope does not have. They are the rarest, and would leave room for no other.
    is_missing = (np.asarray(postings.document_frequency) == 0) & (np.bincount(term, minlength=len(idf)) == 0)
    rarest = np.lexsort((-idf, is_missing))[:MAX_TERMS]
    numbers = np.full(len(idf), -1)
    numbers[rarest] = np.arange(len(rarest))
    term = numbers[term]
    doc = np.asarray(postings.doc, np.int64)
    position = to_positions(doc, np.asarray(postings.seq, np.int64), conversation=conversation)
    selected = (term >= 0) & (position >= FIRST_POSITION)
    relative_length = np.asarray(postings.length, np.float64) * max(postings.documents, 1) / max(postings.words, 1)
    frequency = np.asarray(postings.frequency, np.float64)
    strength = frequency / (1 - LENGTH_SHARE + LENGTH_SHARE * relative_length)
    shares: Values = idf[rarest] / max(idf[rarest].sum(), 1e-9)
    rows = _Rows(
        position=position[selected],
        doc=doc[selected],
        term=term[selected],
        frequency=frequency[selected],
        strength=strength[selected],
    )
    return shares, rows


def _idf(found: int, documents: int) -> float:
    frequency = min(found, documents)
    return math.log(1 + (documents + ELSEWHERE - frequency + 0.5) / (frequency + 0.5))


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
    starts = np.maximum(positions - reach, np.append(positions[0] - reach, ends[:-1] + 1))  # skip covered positions
    lengths = ends - starts + 1
    return np.repeat(ends - np.cumsum(lengths) + 1, lengths) + np.arange(lengths.sum())


def _with_neighbours(rows: _Rows, positions: Positions, terms: int, reach: int, own: float = 1.0) -> Values:
    """Return the strength of each term (rows) at each position (columns), including the turns around it.

    `own` is the weight of the position itself.
    """
    turns = np.arange(-reach, reach + 1)
    if not len(positions) or not len(rows.position):
        return np.zeros((terms, len(positions)))
    share = np.where(turns, NEXT_TURN / np.maximum(np.abs(turns), 1), own)
    index = np.clip(np.searchsorted(positions, rows.position)[:, None] + turns, 0, len(positions) - 1)
    reached = np.flatnonzero(positions[index] == rows.position[:, None] + turns)
    cells = (rows.term[:, None] * len(positions) + index).ravel()[reached]
    strengths = (rows.strength[:, None] * share).ravel()[reached]
    table = np.bincount(cells, strengths, terms * len(positions)).astype(np.float64, copy=False)
    return table.reshape(terms, len(positions))
