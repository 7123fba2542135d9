"""Parts → one relevance: how likely a place holds what a question asks for, and why.

The parts are added as log-odds, so that a relevance behaves as a probability does: maximizing the sum of `worth` under
a budget maximizes what can be expected to be found.
"""

import math
from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from brimful.answers import Near, Postings
from brimful.retrieval.lexical import FIRST, Places, Scored, Values, cover
from brimful.retrieval.own import own_share
from brimful.retrieval.question import Question
from brimful.retrieval.times import says_when

NEAREST: Final = 200  # documents to ask the vector side for: fewer cost recall, more bring none

LEXICAL: Final = 12.0  # log-odds for all of a question covered; half of it weighs 0.7 of that
VECTOR: Final = 8.0  # log-odds for each 1.0 of cosine above what says nothing
UNRELATED: Final = 0.2  # a cosine that says nothing, in a scope so small that even the farthest may be near
SPEAKER: Final = 2.5  # log-odds for what somebody said whom the question is about
TIME: Final = 1.5  # log-odds for a text that names a time, if the question asks for one
OWN: Final = 0.5  # log-odds for what somebody says of himself: what is known of people, they mostly told themselves
AGAINST: Final = 8.0  # log-odds against the one place of a scope that has no other; each e-fold of them adds 1

LITTLE: Final = 50  # tokens: what is much shorter seldom holds an answer, what is longer may


class Found(msgspec.Struct, frozen=True, kw_only=True, gc=False):
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

    places: Places
    relevance: Values
    lexical: Values
    vector: Values

    def at(self, chosen: Places) -> "Ranking":
        """Return some of them."""
        return Ranking(
            places=self.places[chosen],
            relevance=self.relevance[chosen],
            lexical=self.lexical[chosen],
            vector=self.vector[chosen],
        )

    def found(self) -> list[Found]:
        """Return them one by one."""
        columns = (self.places.tolist(), self.relevance.tolist(), self.lexical.tolist(), self.vector.tolist())
        return [
            Found(place=place, relevance=relevance, lexical=lexical, vector=vector)
            for place, relevance, lexical, vector in zip(*columns, strict=True)
        ]


NOTHING: Final = Ranking(places=np.empty(0, np.int64), relevance=np.empty(0), lexical=np.empty(0), vector=np.empty(0))


def rank(postings: Postings, near: Sequence[Near], *, conversation: bool, limit: int) -> Ranking:
    """Return the most relevant places of one scope for one question, the best first, the later of equals first."""
    if not len(postings.doc) and not near:
        return NOTHING
    vector = _similarities(near, conversation=conversation)
    lexical = cover(postings, conversation=conversation, beside=vector.places)
    places, words = lexical.places, lexical.values
    # What was not found is no nearer than the farthest that was. Counting from there suits any embedder's range.
    farthest = float(vector.values.min()) if len(vector.values) else UNRELATED
    meanings = _at(vector, places, farthest) - min(farthest, UNRELATED)
    against = AGAINST + math.log(max(postings.documents, len(near), 1))
    relevance = 1 / (1 + np.exp(against - LEXICAL * np.sqrt(words) - VECTOR * meanings))
    ranking = Ranking(places=places, relevance=relevance, lexical=words, vector=_at(vector, places, 0.0))
    return ranking.at(_best(relevance, places, limit))


def merge(
    rankings: Sequence[Ranking], weights: Sequence[float], *, before: int | None, limit: int
) -> list[tuple[int, Found]]:
    """Return the best places that several questions found, each with the number of the question that says most of it.

    What a question says weighs as much as the question does. Only places `before` one are kept, if that is given.
    """
    joined = _joined(rankings)
    numbers = np.repeat(np.arange(len(rankings)), [len(each.places) for each in rankings])
    heft = joined.relevance * np.asarray(weights)[numbers]
    order = np.lexsort((numbers, -heft, joined.places))
    told = order[np.diff(joined.places[order], prepend=-1) > 0]  # of each place what says most of it
    if before is not None:
        told = told[joined.places[told] < before]
    best = told[_best(heft[told], joined.places[told], limit)]
    return list(zip(numbers[best].tolist(), joined.at(best).found(), strict=True))


def favour(relevance: float, log_odds: float = SPEAKER) -> float:
    """Return the relevance of a place of which something more is known that speaks for it.

    >>> favour(0.0), round(favour(0.1), 2), round(favour(0.5), 2), favour(1.0)
    (0.0, 0.58, 0.92, 1.0)
    """
    gain = math.exp(log_odds)
    return gain * relevance / (1 - relevance + gain * relevance)


def weigh(relevance: float, question: Question, *, speaker: str, text: str) -> float:
    """Return the relevance of a place, now that it is known what was said there, and by whom.

    >>> question = Question(terms=("ann", "plant"), meaning="plant")
    >>> round(weigh(0.1, question, speaker="Ann", text="Roses."), 2)
    0.58
    >>> round(weigh(0.1, question, speaker="Bo", text="Roses."), 2)
    0.1
    >>> round(weigh(0.1, question, speaker="Bo", text="I grow roses."), 2)
    0.15
    """
    about = SPEAKER if question.is_about(speaker) else 0.0
    time = TIME if question.asks_when and says_when(text) else 0.0
    own = OWN * own_share(text) if speaker else 0.0
    return favour(relevance, about + time + own)


def worth(relevance: float, tokens: int) -> float:
    """Return what a text of so many tokens is worth: its relevance, less for what is too short to say much.

    >>> worth(0.8, 50), worth(0.8, 150), worth(0.8, 0)
    (0.4, 0.6, 0.0)
    """
    return relevance * tokens / (tokens + LITTLE)


def _joined(rankings: Sequence[Ranking]) -> Ranking:
    return Ranking(
        places=np.concatenate([each.places for each in rankings]),
        relevance=np.concatenate([each.relevance for each in rankings]),
        lexical=np.concatenate([each.lexical for each in rankings]),
        vector=np.concatenate([each.vector for each in rankings]),
    )


def _best(values: Values, places: Places, limit: int) -> Places:
    """Return where the largest values are, the largest first, of equals the later place."""
    chosen = np.arange(len(values))
    if len(values) > limit > 0:
        chosen = np.flatnonzero(values >= np.partition(values, len(values) - limit)[len(values) - limit])
    return chosen[np.lexsort((-places[chosen], -values[chosen]))][:limit]


def _similarities(near: Sequence[Near], *, conversation: bool) -> Scored:
    """Return the cosines by place, the highest of each; what points away is not near."""
    found = np.array([hit.seq if conversation else hit.doc for hit in near], np.int64)
    cosines = np.clip(np.array([hit.similarity for hit in near], np.float64), 0.0, 1.0)
    order = np.lexsort((cosines, found))
    places = found[order]
    last = np.diff(places, append=places[-1:] + 1) > 0
    mine = last & (places >= FIRST)
    return Scored(places=places[mine], values=cosines[order][mine])


def _at(scored: Scored, places: Places, otherwise: float) -> Values:
    """Return the values at these places, which hold all of the scored ones."""
    values = np.full(len(places), otherwise)
    values[np.searchsorted(places, scored.places)] = scored.values
    return values
