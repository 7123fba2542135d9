"""Rank the positions of a scope for a query by their words and their vectors.

A text may answer a question because it has the same words, or because it means the same in other words. Adding up the
evidence for both would let any shared word outweigh the best paraphrase, so there are two explanations:

- words and meaning together (log-odds, of which a fully covered query gives `LEXICAL`),
- meaning alone: by how many standard deviations its vector is nearer than others.

Each gives every position a share of the probability, and a position gets the weighted mean of its two shares. So the
best paraphrase is among the first even if many texts share a word with the question. `calibration` turns shares into
the probability that a position helps to answer.
"""

import math
from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from brimful.cache import content_bytes, memoize
from brimful.records.search import Postings, VectorHit
from brimful.retrieval.lexical import Positions, Scored, Values, count_records, score_coverage, to_positions
from brimful.retrieval.people import first_person_share
from brimful.retrieval.queries import Question
from brimful.retrieval.search import FIRST_POSITION, Parts
from brimful.retrieval.time_expressions import mentions_time

MAX_NEIGHBOURS: Final = 200  # nearest vectors per query, unless a large budget has room for more messages

LEXICAL: Final = 14.0  # log-odds for a fully covered query
VECTOR: Final = 10.0  # log-odds per 1.0 of cosine similarity above the baseline
WORDS: Final = 0.65  # weight of the explanation by words and meaning; the rest is that of meaning alone
STANDOUT: Final = 1.25  # log-odds for a vector that is one standard deviation nearer, in the explanation by meaning
UNRELATED: Final = 0.2  # cosine baseline for small scopes, where even the farthest neighbour may be related
SPEAKER: Final = 2.5  # log-odds if the query is about the speaker
TIME: Final = 1.5  # log-odds for a text that mentions a time, if the query asks for one
FIRST_PERSON: Final = 0.5  # log-odds for a text about its speaker: most facts about people come from themselves
MAX_SPEAKER: Final = SPEAKER + TIME + FIRST_PERSON  # log-odds that a text and its speaker can add
_COMPARED: Final = 10  # of the very best positions that stay in a ranking in any case
_MIN_SPREAD: Final = 1e-3  # of cosines; if all are equal, none stands out


class Match(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A position with its share of the probability, and what speaks for it.

    A position is a message's `seq` in its room, or the first `doc` of a record elsewhere. `doc` is the best passage at
    this position, or 0 if only the turns around it match. `log_share` is the logarithm of the probability that this
    position is the answer if one is.
    """

    position: int
    log_share: float
    doc: int = 0
    parts: Parts = Parts()


class Ranking(msgspec.Struct, frozen=True, kw_only=True):
    """Positions with their best passage, its share and the parts of its evidence, as columns, best first.

    `documents` is the number of documents in the scope, `coverage` the largest share of the query's words that a single
    text has, and `nearest` the similarity of the nearest vector.
    """

    positions: Positions
    docs: Positions
    log_shares: Values
    words: Values
    meaning: Values
    neighbours: Values
    documents: int = 0
    coverage: float = 0.0
    nearest: float = 0.0

    def at(self, chosen: Positions) -> "Ranking":
        """Return the rows at these indexes."""
        return msgspec.structs.replace(self, **{name: getattr(self, name)[chosen] for name in _COLUMNS})

    def before(self, position: int | None, limit: int) -> "Ranking":
        """Return the best rows before a position. Of the others, those among the very best stay, as a comparison."""
        if position is None:
            return self.at(np.arange(min(limit, len(self.positions))))
        earlier = self.positions < position
        allowed = earlier & (np.cumsum(earlier) <= limit)
        return self.at(np.flatnonzero(allowed | (np.arange(len(earlier)) < _COMPARED)))

    def matches(self) -> list[Match]:
        """Return the rows as values."""
        return [
            Match(
                position=position,
                log_share=log_share,
                doc=doc,
                parts=Parts(words=words, meaning=meaning, neighbours=neighbours),
            )
            for position, doc, log_share, words, meaning, neighbours in zip(
                *(getattr(self, name).tolist() for name in _COLUMNS), strict=True
            )
        ]


_COLUMNS: Final = ("positions", "docs", "log_shares", "words", "meaning", "neighbours")
NO_MATCHES: Final = Ranking(
    positions=np.empty(0, np.int64),
    docs=np.empty(0, np.int64),
    log_shares=np.empty(0),
    words=np.empty(0),
    meaning=np.empty(0),
    neighbours=np.empty(0),
)


def rank(postings: Postings, near: Sequence[VectorHit], *, conversation: bool) -> Ranking:
    """Return the positions of a scope that match one query, best first. Later positions win ties.

    A record is as relevant as its best passage.
    """
    if not len(postings.doc) and not near:
        return NO_MATCHES
    postings = count_records(postings, conversation=conversation)
    vector = _similarities(near, conversation=conversation)
    lexical = score_coverage(postings, conversation=conversation, beside=vector)
    covered, words = LEXICAL * lexical.values, LEXICAL * lexical.own
    usual = _Usual.of(vector.values)
    cosines = _values_at(vector, lexical.docs, usual.farthest)
    meaning = VECTOR * np.maximum(cosines - min(usual.farthest, UNRELATED), 0.0)
    log_shares = _log_shares(covered + meaning, lexical.positions)
    if near:
        alone = _log_shares(STANDOUT * cosines / usual.spread, lexical.positions)
        log_shares = np.logaddexp(math.log(WORDS) + log_shares, math.log(1 - WORDS) + alone)
    ranking = _best_passages(
        Ranking(
            positions=lexical.positions,
            docs=lexical.docs,
            log_shares=log_shares,
            words=words,
            meaning=meaning,
            neighbours=covered - words,
            documents=max(postings.documents, len(set(vector.positions.tolist())), 1),
            coverage=lexical.presence,
            nearest=float(vector.values.max(initial=0.0)),
        )
    )
    return ranking.at(np.lexsort((-ranking.positions, -ranking.log_shares)))


class _Usual(msgspec.Struct, frozen=True, kw_only=True):
    """What is usual among the nearest vectors, always of the same number of them, however many were searched for.

    Everything else is at most as similar as the `farthest` of them. That baseline suits any embedder's range.
    """

    farthest: float = UNRELATED
    spread: float = 1.0

    @classmethod
    def of(cls, cosines: Values) -> "_Usual":
        if not len(cosines):
            return cls()
        nearest = np.sort(cosines)[::-1][:MAX_NEIGHBOURS]
        return cls(farthest=float(nearest[-1]), spread=max(float(nearest.std()), _MIN_SPREAD))


def _log_shares(log_odds: Values, positions: Positions) -> Values:
    """Return the logarithm of each passage's share of the probability. A position counts as its best passage does.

    Only the best positions count, however many there are. `positions` are ascending.
    """
    if not len(log_odds):
        return log_odds
    best = np.sort(np.maximum.reduceat(log_odds, np.flatnonzero(np.diff(positions, prepend=-1))))[-MAX_NEIGHBOURS:]
    shares: Values = log_odds - np.logaddexp.reduce(best)
    return shares


def add_speaker(match: Match, question: Question, *, speaker: str, text: str) -> Match:
    """Return the match of a position, taking its text and speaker into account.

    >>> question = Question(terms=("ann", "plant"), meaning="plant")
    >>> for speaker, text in [("Ann", "Roses."), ("Bo", "Roses."), ("Bo", "I grow roses.")]:
    ...     add_speaker(Match(position=1, log_share=-2.0), question, speaker=speaker, text=text).log_share
    0.5
    -2.0
    -1.5
    """
    about = SPEAKER if question.is_about(speaker) else 0.0
    time = TIME if question.asks_when and _mentions_time(text) else 0.0
    own = FIRST_PERSON * _first_person_share(text) if speaker else 0.0
    if not (about or time or own):
        return match
    parts = match.parts
    return Match(
        position=match.position,
        log_share=match.log_share + about + time + own,
        doc=match.doc,
        parts=Parts(
            words=parts.words, meaning=parts.meaning, neighbours=parts.neighbours, speaker=about + own, time=time
        ),
    )


# Cached, because the same messages are found again and again.
_first_person_share: Final = memoize(first_person_share, name="texts", size=lambda args, _: content_bytes(args[0]))
_mentions_time: Final = memoize(mentions_time, name="texts", size=lambda args, _: content_bytes(args[0]))


def _best_passages(ranking: Ranking) -> Ranking:
    """Return one row per position: its most relevant passage, the first of equal ones."""
    if (np.diff(ranking.positions) > 0).all():
        return ranking
    order = np.lexsort((ranking.docs, -ranking.log_shares, ranking.positions))
    return ranking.at(order[np.diff(ranking.positions[order], prepend=-1) > 0])


def _similarities(near: Sequence[VectorHit], *, conversation: bool) -> Scored:
    """Return the cosine similarity of each passage, clipped to 0..1."""
    docs, seqs = np.array([hit.doc for hit in near], np.int64), np.array([hit.seq for hit in near], np.int64)
    positions = to_positions(docs, seqs, conversation=conversation)
    cosines = np.clip(np.array([hit.similarity for hit in near], np.float64), 0.0, 1.0)
    order = np.lexsort((cosines, docs, positions))
    order = order[(np.diff(docs[order], append=-1) != 0) & (positions[order] >= FIRST_POSITION)]  # the highest of a doc
    return Scored(positions=positions[order], docs=docs[order], values=cosines[order])


def _values_at(scored: Scored, docs: Positions, default: float) -> Values:
    """Return the values of documents, or the default for documents that were not scored."""
    if not len(scored.docs):
        return np.full(len(docs), default)
    order = np.argsort(scored.docs)
    index = np.minimum(np.searchsorted(scored.docs[order], docs), len(order) - 1)
    values: Values = np.where(scored.docs[order][index] == docs, scored.values[order][index], default)
    return values
