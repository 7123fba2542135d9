"""Parts → one relevance: how likely a place holds what a question asks for, and why.

The parts are added as log-odds, so that a relevance behaves as a probability does: maximizing the sum of
`length_adjusted` under a budget maximizes what can be expected to be found.
"""

import math
from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from brimful.records.search import Postings, VectorHit
from brimful.retrieval.first_person import first_person_share
from brimful.retrieval.lexical import FIRST_POSITION, Positions, Scored, Values, score_coverage
from brimful.retrieval.queries import Question
from brimful.retrieval.time_expressions import mentions_time

MAX_NEIGHBOURS: Final = 200  # documents to ask the vector side for: fewer cost recall, more bring none

LEXICAL: Final = 12.0  # log-odds for all of a question covered; half of it weighs 0.7 of that
VECTOR: Final = 8.0  # log-odds for each 1.0 of cosine above what says nothing
UNRELATED: Final = 0.2  # a cosine that says nothing, in a scope so small that even the farthest may be near
SPEAKER: Final = 2.5  # log-odds for what somebody said whom the question is about
TIME: Final = 1.5  # log-odds for a text that names a time, if the question asks for one
FIRST_PERSON: Final = (
    0.5  # log-odds for what somebody says of himself: what is known of people, they mostly told themselves
)
PRIOR_LOG_ODDS: Final = 8.0  # log-odds against the one place of a scope that has no other; each e-fold of them adds 1

SHORT_TEXT_TOKENS: Final = 50  # tokens: what is much shorter seldom holds an answer, what is longer may


class Match(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A place with its relevance and the parts of it, each from 0 to 1.

    A place is a message's `seq` in its room, elsewhere a `doc`. `lexical` is the share of the question that it covers,
    `vector` its cosine, 0 if the vector side did not find it.
    """

    place: int
    relevance: float
    lexical: float = 0.0
    vector: float = 0.0


class Ranking(msgspec.Struct, frozen=True, kw_only=True):
    """Places with their relevance and its parts, in columns, the best first."""

    places: Positions
    relevance: Values
    lexical: Values
    vector: Values

    def at(self, chosen: Positions) -> "Ranking":
        """Return some of them."""
        return Ranking(
            places=self.places[chosen],
            relevance=self.relevance[chosen],
            lexical=self.lexical[chosen],
            vector=self.vector[chosen],
        )

    def found(self) -> list[Match]:
        """Return them one by one."""
        columns = (self.places.tolist(), self.relevance.tolist(), self.lexical.tolist(), self.vector.tolist())
        return [
            Match(place=place, relevance=relevance, lexical=lexical, vector=vector)
            for place, relevance, lexical, vector in zip(*columns, strict=True)
        ]


NO_MATCHES: Final = Ranking(
    places=np.empty(0, np.int64), relevance=np.empty(0), lexical=np.empty(0), vector=np.empty(0)
)


def rank(postings: Postings, near: Sequence[VectorHit], *, conversation: bool, limit: int) -> Ranking:
    """Return the most relevant places of one scope for one question, the best first, the later of equals first."""
    if not len(postings.doc) and not near:
        return NO_MATCHES
    vector = _similarities(near, conversation=conversation)
    lexical = score_coverage(postings, conversation=conversation, beside=vector.places)
    places, words = lexical.places, lexical.values
    # What was not found is no nearer than the farthest that was. Counting from there suits any embedder's range.
    farthest = float(vector.values.min()) if len(vector.values) else UNRELATED
    meanings = _values_at(vector, places, farthest) - min(farthest, UNRELATED)
    against = PRIOR_LOG_ODDS + math.log(max(postings.documents, len(near), 1))
    relevance = 1 / (1 + np.exp(against - LEXICAL * np.sqrt(words) - VECTOR * meanings))
    ranking = Ranking(places=places, relevance=relevance, lexical=words, vector=_values_at(vector, places, 0.0))
    return ranking.at(_best(relevance, places, limit))


def merge(
    rankings: Sequence[Ranking], weights: Sequence[float], *, before: int | None, limit: int
) -> list[tuple[int, Match]]:
    """Return the best places that several questions found, each with the number of the question that says most of it.

    What a question says weighs as much as the question does. Only places `before` one are kept, if that is given.
    """
    joined = _join(rankings)
    numbers = np.repeat(np.arange(len(rankings)), [len(each.places) for each in rankings])
    heft = joined.relevance * np.asarray(weights)[numbers]
    order = np.lexsort((numbers, -heft, joined.places))
    told = order[np.diff(joined.places[order], prepend=-1) > 0]  # of each place what says most of it
    if before is not None:
        told = told[joined.places[told] < before]
    best = told[_best(heft[told], joined.places[told], limit)]
    return list(zip(numbers[best].tolist(), joined.at(best).found(), strict=True))


def boost(relevance: float, log_odds: float = SPEAKER) -> float:
    """Return the relevance of a place of which something more is known that speaks for it.

    >>> boost(0.0), round(boost(0.1), 2), round(boost(0.5), 2), boost(1.0)
    (0.0, 0.58, 0.92, 1.0)
    """
    gain = math.exp(log_odds)
    return gain * relevance / (1 - relevance + gain * relevance)


def adjust_relevance(relevance: float, question: Question, *, speaker: str, text: str) -> float:
    """Return the relevance of a place, now that it is known what was said there, and by whom.

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
    """Return what a text of so many tokens is worth: its relevance, less for what is too short to say much.

    >>> length_adjusted(0.8, 50), length_adjusted(0.8, 150), length_adjusted(0.8, 0)
    (0.4, 0.6, 0.0)
    """
    return relevance * tokens / (tokens + SHORT_TEXT_TOKENS)


def _join(rankings: Sequence[Ranking]) -> Ranking:
    return Ranking(
        places=np.concatenate([each.places for each in rankings]),
        relevance=np.concatenate([each.relevance for each in rankings]),
        lexical=np.concatenate([each.lexical for each in rankings]),
        vector=np.concatenate([each.vector for each in rankings]),
    )


def _best(values: Values, places: Positions, limit: int) -> Positions:
    """Return where the largest values are, the largest first, of equals the later place."""
    chosen = np.arange(len(values))
    if len(values) > limit > 0:
        chosen = np.flatnonzero(values >= np.partition(values, len(values) - limit)[len(values) - limit])
    return chosen[np.lexsort((-places[chosen], -values[chosen]))][:limit]


def _similarities(near: Sequence[VectorHit], *, conversation: bool) -> Scored:
    """Return the cosines by place, the highest of each; what points away is not near."""
    found = np.array([hit.seq if conversation else hit.doc for hit in near], np.int64)
    cosines = np.clip(np.array([hit.similarity for hit in near], np.float64), 0.0, 1.0)
    order = np.lexsort((cosines, found))
    places = found[order]
    last = np.diff(places, append=places[-1:] + 1) > 0
    mine = last & (places >= FIRST_POSITION)
    return Scored(places=places[mine], values=cosines[order][mine])


def _values_at(scored: Scored, places: Positions, otherwise: float) -> Values:
    """Return the values at these places, which hold all of the scored ones."""
    values = np.full(len(places), otherwise)
    values[np.searchsorted(places, scored.places)] = scored.values
    return values
