"""Combine lexical and vector evidence into one relevance per position.

The parts are added as log-odds, so that relevance behaves like a probability: maximizing the sum of `length_adjusted`
under a budget maximizes the expected number of answers found.
"""

import math
from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from brimful.records.search import Postings, VectorHit
from brimful.retrieval.first_person import first_person_share
from brimful.retrieval.lexical import (
    FIRST_POSITION,
    Positions,
    Scored,
    Values,
    count_records,
    score_coverage,
    to_positions,
)
from brimful.retrieval.queries import Question
from brimful.retrieval.time_expressions import mentions_time

MAX_NEIGHBOURS: Final = 200  # nearest vectors per query, unless a large budget has room for more messages

LEXICAL: Final = 12.0  # log-odds for a fully covered query; half coverage gives 0.7 of that
VECTOR: Final = 8.0  # log-odds per 1.0 of cosine similarity above the baseline
UNRELATED: Final = 0.2  # cosine baseline for small scopes, where even the farthest neighbour may be related
SPEAKER: Final = 2.5  # log-odds if the query is about the speaker
TIME: Final = 1.5  # log-odds for a text that mentions a time, if the query asks for one
FIRST_PERSON: Final = 0.5  # log-odds for a text about its speaker: most facts about people come from themselves
PRIOR_LOG_ODDS: Final = 8.0  # log-odds against the only position of a scope; grows by 1 per e-fold of positions

SHORT_TEXT_TOKENS: Final = 50  # a text of this length is worth half of its relevance


class Match(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A position with its relevance and the parts of it, each from 0 to 1.

    A position is a message's `seq` in its room, or the first `doc` of a record elsewhere. `doc` is the best passage at
    this position, or 0 if only the turns around it match. `lexical` is the share of the query that it covers, `vector`
    its cosine similarity (0 if it was not among the nearest).
    """

    position: int
    relevance: float
    doc: int = 0
    lexical: float = 0.0
    vector: float = 0.0


class Ranking(msgspec.Struct, frozen=True, kw_only=True):
    """Positions with their best passage, its relevance and the parts of that, as columns, best first."""

    positions: Positions
    docs: Positions
    relevance: Values
    lexical: Values
    vector: Values

    def at(self, chosen: Positions) -> "Ranking":
        """Return the rows at these indexes."""
        return Ranking(
            positions=self.positions[chosen],
            docs=self.docs[chosen],
            relevance=self.relevance[chosen],
            lexical=self.lexical[chosen],
            vector=self.vector[chosen],
        )

    def matches(self) -> list[Match]:
        """Return the rows as values."""
        columns = (self.positions, self.relevance, self.docs, self.lexical, self.vector)
        return [
            Match(position=position, relevance=relevance, doc=doc, lexical=lexical, vector=vector)
            for position, relevance, doc, lexical, vector in zip(*(each.tolist() for each in columns), strict=True)
        ]


NO_MATCHES: Final = Ranking(
    positions=np.empty(0, np.int64),
    docs=np.empty(0, np.int64),
    relevance=np.empty(0),
    lexical=np.empty(0),
    vector=np.empty(0),
)


def rank(postings: Postings, near: Sequence[VectorHit], *, conversation: bool, limit: int) -> Ranking:
    """Return the most relevant positions of a scope for one query, best first. Later positions win ties.

    A record is as relevant as its best passage.
    """
    if not len(postings.doc) and not near:
        return NO_MATCHES
    postings = count_records(postings, conversation=conversation)
    vector = _similarities(near, conversation=conversation)
    lexical = score_coverage(postings, conversation=conversation, beside=vector)
    words = lexical.values
    # Everything else is at most as similar as the farthest neighbour. That baseline suits any embedder's range.
    farthest = float(vector.values.min()) if len(vector.values) else UNRELATED
    meanings = _values_at(vector, lexical.docs, farthest) - min(farthest, UNRELATED)
    against = PRIOR_LOG_ODDS + math.log(max(postings.documents, len(set(vector.positions.tolist())), 1))
    relevance = 1 / (1 + np.exp(against - LEXICAL * np.sqrt(words) - VECTOR * meanings))
    ranking = _best_passages(
        Ranking(
            positions=lexical.positions,
            docs=lexical.docs,
            relevance=relevance,
            lexical=words,
            vector=_values_at(vector, lexical.docs, 0.0),
        )
    )
    return ranking.at(_best(ranking.relevance, ranking.positions, limit))


def merge(
    rankings: Sequence[Ranking], weights: Sequence[float], *, before: int | None, limit: int
) -> list[tuple[int, Match]]:
    """Merge the rankings of several queries: the best positions, each with the number of its highest-ranking query.

    Relevance is multiplied by the query's weight. If `before` is given, only earlier positions are returned.
    """
    joined = _join(rankings)
    numbers = np.repeat(np.arange(len(rankings)), [len(each.positions) for each in rankings])
    weighted = joined.relevance * np.asarray(weights)[numbers]
    order = np.lexsort((numbers, -weighted, joined.positions))
    highest = order[np.diff(joined.positions[order], prepend=-1) > 0]  # one row per position
    if before is not None:
        highest = highest[joined.positions[highest] < before]
    best = highest[_best(weighted[highest], joined.positions[highest], limit)]
    return list(zip(numbers[best].tolist(), joined.at(best).matches(), strict=True))


def boost(relevance: float, log_odds: float = SPEAKER) -> float:
    """Return the relevance after adding evidence in its favour, given as log-odds.

    >>> boost(0.0), round(boost(0.1), 2), round(boost(0.5), 2), boost(1.0)
    (0.0, 0.58, 0.92, 1.0)
    """
    gain = math.exp(log_odds)
    return gain * relevance / (1 - relevance + gain * relevance)


def adjust_relevance(relevance: float, question: Question, *, speaker: str, text: str) -> float:
    """Return the relevance of a position, taking its text and speaker into account.

    >>> question = Question(terms=("ann", "plant"), meaning="plant")
    >>> round(adjust_relevance(0.1, question, speaker="Ann", text="Roses."), 2)
    0.58
    >>> round(adjust_relevance(0.1, question, speaker="Bo", text="Roses."), 2)
    0.1
    >>> round(adjust_relevance(0.1, question, speaker="Bo", text="I grow roses."), 2)
    0.15
    """
    about = SPEAKER if question.is_about(speaker) else 0.0
    time = TIME if question.asks_when and mentions_time(text) else 0.0
    own = FIRST_PERSON * first_person_share(text) if speaker else 0.0
    return boost(relevance, about + time + own)


def length_adjusted(relevance: float, tokens: int) -> float:
    """Return the relevance, reduced for texts too short to say much.

    >>> length_adjusted(0.8, 50), length_adjusted(0.8, 150), length_adjusted(0.8, 0)
    (0.4, 0.6, 0.0)
    """
    return relevance * tokens / (tokens + SHORT_TEXT_TOKENS)


def _join(rankings: Sequence[Ranking]) -> Ranking:
    return Ranking(
        positions=np.concatenate([each.positions for each in rankings]),
        docs=np.concatenate([each.docs for each in rankings]),
        relevance=np.concatenate([each.relevance for each in rankings]),
        lexical=np.concatenate([each.lexical for each in rankings]),
        vector=np.concatenate([each.vector for each in rankings]),
    )


def _best(values: Values, positions: Positions, limit: int) -> Positions:
    """Return the indexes of the largest values, largest first. Later positions win ties."""
    chosen = np.arange(len(values))
    if len(values) > limit > 0:
        chosen = np.flatnonzero(values >= np.partition(values, len(values) - limit)[len(values) - limit])
    return chosen[np.lexsort((-positions[chosen], -values[chosen]))][:limit]


def _best_passages(ranking: Ranking) -> Ranking:
    """Return one row per position: its most relevant passage, the first of equal ones."""
    if (np.diff(ranking.positions) > 0).all():
        return ranking
    order = np.lexsort((ranking.docs, -ranking.relevance, ranking.positions))
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
    """Return the values of these documents, or the default of those that were not scored."""
    if not len(scored.docs):
        return np.full(len(docs), default)
    order = np.argsort(scored.docs)
    at = np.minimum(np.searchsorted(scored.docs[order], docs), len(order) - 1)
    values: Values = np.where(scored.docs[order][at] == docs, scored.values[order][at], default)
    return values
