"""Parts → one relevance: how likely a place holds what a question asks for, and why."""

import math
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import numpy as np

from brimful.protocols import Near, Postings
from brimful.retrieval.lexical import Scored, cover

SECONDS_A_DAY: Final = 86_400.0


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """The logistic curve from the two similarities to a relevance: what each weighs, and where even odds lie."""

    lexical: float = 12.0
    vector: float = 4.0
    even: float = 8.0


class Found(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A place with its relevance and the parts of it, each from 0 to 1.

    A place is a message's `seq` in its room, elsewhere a `doc`. `lexical` is the share of the question that it covers,
    `vector` the cosine; 0 where the other side alone found it.
    """

    place: int
    relevance: float
    lexical: float = 0.0
    vector: float = 0.0
    recency: float = 1.0


def rank(
    postings: Postings,
    near: Sequence[Near],
    *,
    conversation: bool,
    limit: int,
    calibration: Calibration = Calibration(),  # noqa: B008 - frozen
) -> list[Found]:
    """Return the most relevant places of one scope for one question, the best first, the later of equals first."""
    lexical = cover(postings, conversation=conversation)
    vector = _similarities(near, conversation=conversation)
    places = np.union1d(lexical.places, vector.places)
    words, meanings = _at(lexical, places), _at(vector, places)
    odds = calibration.lexical * words + calibration.vector * meanings - calibration.even
    relevance = 1 / (1 + np.exp(-odds))
    best = np.lexsort((-places, -relevance))[:limit]
    return [
        Found(
            place=int(places[at]),
            relevance=float(relevance[at]),
            lexical=float(words[at]),
            vector=float(meanings[at]),
        )
        for at in best
    ]


def unite(rankings: Iterable[Sequence[Found]]) -> list[Found]:
    """Return what several questions found in one scope, each place once, as its best question found it."""
    best: dict[int, Found] = {}
    for found in (found for ranking in rankings for found in ranking):
        known = best.get(found.place)
        if known is None or _order(found) < _order(known):
            best[found.place] = found
    return sorted(best.values(), key=_order)


def with_recency(found: Found, *, age: float, half_life: float) -> Found:
    """Return the same place with its relevance times its recency: halved every `half_life` seconds of its `age`."""
    recency = math.exp2(-max(age, 0.0) / half_life)
    return msgspec.structs.replace(found, relevance=found.relevance * recency, recency=recency)


def _order(found: Found) -> tuple[float, int, float, float, float]:
    return (-found.relevance, -found.place, -found.lexical, -found.vector, -found.recency)


def _similarities(near: Sequence[Near], *, conversation: bool) -> Scored:
    """Return the cosines by place, the highest of each; what points away is not near."""
    highest: dict[int, float] = {}
    for hit in near:
        place = hit.seq if conversation else hit.doc
        highest[place] = max(highest.get(place, 0.0), hit.similarity)
    places = sorted(highest)
    return Scored(
        places=np.array(places, np.int64), values=np.clip(np.array([highest[place] for place in places]), 0.0, 1.0)
    )


def _at(scored: Scored, places: np.ndarray) -> np.ndarray:
    """Return the values at these places, 0 where there is none."""
    values = np.zeros(len(places))
    values[np.searchsorted(places, scored.places)] = scored.values
    return values
