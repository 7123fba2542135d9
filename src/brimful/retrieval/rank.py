"""Combine lexical and vector evidence into log-odds for each position. `calibration` turns them into probabilities."""

import math
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from brimful.cache import content_bytes, memoize
from brimful.records.search import Postings, VectorHit
from brimful.retrieval.first_person import first_person_share
from brimful.retrieval.lexical import (
    Positions,
    Scored,
    Values,
    count_records,
    score_coverage,
    to_positions,
)
from brimful.retrieval.queries import Question
from brimful.retrieval.search import FIRST_POSITION, Parts
from brimful.retrieval.time_expressions import mentions_time

MAX_NEIGHBOURS: Final = 200  # nearest vectors per query, unless a large budget has room for more messages

LEXICAL: Final = 12.0  # log-odds for a fully covered query; half coverage gives 0.7 of that
VECTOR: Final = 8.0  # log-odds per 1.0 of cosine similarity above the baseline
UNRELATED: Final = 0.2  # cosine baseline for small scopes, where even the farthest neighbour may be related
SPEAKER: Final = 2.5  # log-odds if the query is about the speaker
TIME: Final = 1.5  # log-odds for a text that mentions a time, if the query asks for one
FIRST_PERSON: Final = 0.5  # log-odds for a text about its speaker: most facts about people come from themselves
PRIOR_LOG_ODDS: Final = 8.0  # log-odds against the only position of a scope; grows by 1 per e-fold of positions


class Match(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A position with its log-odds and their parts.

    A position is a message's `seq` in its room, or the first `doc` of a record elsewhere. `doc` is the best passage at
    this position, or 0 if only the turns around it match. The log-odds are the sum of the parts less what speaks
    against any position of the scope.
    """

    position: int
    log_odds: float
    doc: int = 0
    parts: Parts = Parts()


class Ranking(msgspec.Struct, frozen=True, kw_only=True):
    """Positions with their best passage, its log-odds and the parts of those, as columns, best first.

    `documents` is the number of documents in the scope.
    """

    positions: Positions
    docs: Positions
    log_odds: Values
    words: Values
    meaning: Values
    neighbours: Values
    documents: int = 0

    @property
    def columns(self) -> tuple[Positions, Positions, Values, Values, Values, Values]:
        """All columns, in the order of the fields."""
        return self.positions, self.docs, self.log_odds, self.words, self.meaning, self.neighbours

    def at(self, chosen: Positions) -> "Ranking":
        """Return the rows at these indexes."""
        return _make_ranking([column[chosen] for column in self.columns], self.documents)

    def matches(self) -> list[Match]:
        """Return the rows as values."""
        return [
            Match(
                position=position,
                log_odds=log_odds,
                doc=doc,
                parts=Parts(words=words, meaning=meaning, neighbours=neighbours),
            )
            for position, doc, log_odds, words, meaning, neighbours in zip(
                *(column.tolist() for column in self.columns), strict=True
            )
        ]


def _make_ranking(columns: Sequence[npt.NDArray[Any]], documents: int) -> Ranking:
    positions, docs, log_odds, words, meaning, neighbours = columns
    return Ranking(
        positions=positions,
        docs=docs,
        log_odds=log_odds,
        words=words,
        meaning=meaning,
        neighbours=neighbours,
        documents=documents,
    )


NO_MATCHES: Final = _make_ranking([np.empty(0, np.int64)] * 2 + [np.empty(0)] * 4, 0)


def rank(postings: Postings, near: Sequence[VectorHit], *, conversation: bool, limit: int) -> Ranking:
    """Return the most relevant positions of a scope for one query, best first. Later positions win ties.

    A record is as relevant as its best passage.
    """
    if not len(postings.doc) and not near:
        return NO_MATCHES
    postings = count_records(postings, conversation=conversation)
    vector = _similarities(near, conversation=conversation)
    lexical = score_coverage(postings, conversation=conversation, beside=vector)
    covered, words = LEXICAL * np.sqrt(lexical.values), LEXICAL * np.sqrt(lexical.own)
    # Everything else is at most as similar as the farthest neighbour. That baseline suits any embedder's range.
    farthest = float(vector.values.min()) if len(vector.values) else UNRELATED
    meaning = VECTOR * (_values_at(vector, lexical.docs, farthest) - min(farthest, UNRELATED))
    documents = max(postings.documents, len(set(vector.positions.tolist())), 1)
    ranking = _best_passages(
        Ranking(
            positions=lexical.positions,
            docs=lexical.docs,
            log_odds=covered + meaning - against(documents),
            words=words,
            meaning=meaning,
            neighbours=covered - words,
            documents=documents,
        )
    )
    return ranking.at(_best(ranking.log_odds, ranking.positions, limit))


def against(documents: int) -> float:
    """Return the log-odds against any position of a scope with so many documents."""
    return PRIOR_LOG_ODDS + math.log(documents)


def merge(
    rankings: Sequence[Ranking], weights: Sequence[float], *, before: int | None, limit: int
) -> list[tuple[int, Match]]:
    """Merge the rankings of several queries: the best positions, each with the number of its highest-ranking query.

    A query's weight is a factor on the odds. If `before` is given, only earlier positions are returned.
    """
    joined = _make_ranking([np.concatenate(columns) for columns in zip(*(r.columns for r in rankings), strict=True)], 0)
    numbers = np.repeat(np.arange(len(rankings)), [len(each.positions) for each in rankings])
    weighted = joined.log_odds + np.log(weights)[numbers]
    order = np.lexsort((-weighted, joined.positions))  # it is stable, so the first of equal queries wins
    highest = order[np.diff(joined.positions[order], prepend=-1) > 0]  # one row per position
    if before is not None:
        highest = highest[joined.positions[highest] < before]
    best = highest[_best(weighted[highest], joined.positions[highest], limit)]
    return list(zip(numbers[best].tolist(), joined.at(best).matches(), strict=True))


def add_speaker(match: Match, question: Question, *, speaker: str, text: str) -> Match:
    """Return the match of a position, taking its text and speaker into account.

    >>> question = Question(terms=("ann", "plant"), meaning="plant")
    >>> for speaker, text in [("Ann", "Roses."), ("Bo", "Roses."), ("Bo", "I grow roses.")]:
    ...     add_speaker(Match(position=1, log_odds=-2.0), question, speaker=speaker, text=text).log_odds
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
        log_odds=match.log_odds + about + time + own,
        doc=match.doc,
        parts=Parts(
            words=parts.words,
            meaning=parts.meaning,
            neighbours=parts.neighbours,
            speaker=about + own,
            time=time,
        ),
    )


# Cached, because the same messages are found again and again.
_first_person_share: Final = memoize(first_person_share, name="texts", size=lambda args, _: content_bytes(args[0]))
_mentions_time: Final = memoize(mentions_time, name="texts", size=lambda args, _: content_bytes(args[0]))


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
    order = np.lexsort((ranking.docs, -ranking.log_odds, ranking.positions))
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
