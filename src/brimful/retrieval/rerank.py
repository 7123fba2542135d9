"""Reorder the best hits with a reranker, within a time limit and behind a circuit breaker."""

import asyncio
import logging
import math
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from statistics import fmean, pstdev
from typing import Final, SupportsFloat

import msgspec

from brimful.core.notice import Notice
from brimful.protocols import Reranker
from brimful.records import Message
from brimful.retrieval.breaker import Breaker
from brimful.retrieval.documents import searchable_text
from brimful.retrieval.search import Hit, relevance_order

MAX_RERANKED: Final = 200  # hits; even a perfect reranker of 50 would miss most relevant hits that are ranked too low
LOG_ODDS: Final = 0.75  # for a score one standard deviation above the mean; see benchmarks/reranking.py
MAX_TEXT_CHARS: Final = 2_000  # rerankers read about 512 tokens
_MAX_SCORE: Final = 1e100  # larger ones overflow in the standard deviation
_log: Final = logging.getLogger("brimful.rerank")
_log.addHandler(logging.NullHandler())


class Reranking:
    """Asks a reranker. If it fails or is too slow, the order stays as it is, and a notice says so."""

    def __init__(self, reranker: Reranker, *, clock: Callable[[], float], breaker: Breaker, time_limit: float) -> None:
        """Use this reranker, with a breaker of its own."""
        self._reranker = reranker
        self._clock = clock
        self._breaker = breaker
        self._time_limit = time_limit

    async def reorder(self, question: str, hits: Sequence[Hit]) -> tuple[list[Hit], tuple[Notice, ...]]:
        """Return the hits with the reranker's judgement as further evidence, best first.

        A score that is one standard deviation above the mean adds `LOG_ODDS`, so that any scale will do.
        """
        ranked = sorted(hits, key=relevance_order)
        best, others = ranked[:MAX_RERANKED], ranked[MAX_RERANKED:]
        if len(best) < 2:  # noqa: PLR2004 - there is no order
            return ranked, ()
        scores, problem = await self._ask(question, [hit_text(hit) for hit in best])
        if problem:
            text = f"the reranker {problem}: hits keep the order of the search"
            return ranked, (Notice(kind="reranker-failed", text=text, facts={"cause": problem, "error": problem}),)
        if not any(scores):
            return ranked, ()
        judged = [
            msgspec.structs.replace(hit, relevance=_add_log_odds(hit.relevance, LOG_ODDS * score))
            for hit, score in zip(best, scores, strict=True)
        ]
        return sorted((*judged, *others), key=relevance_order), ()

    async def _ask(self, question: str, texts: list[str]) -> tuple[Sequence[float], str]:
        """Return the standard scores; or none, and what went wrong."""
        if not self._breaker.allow(self._clock()):
            return (), "failed before and is not asked again for some minutes"
        try:
            async with asyncio.timeout(self._time_limit):
                scores = _standardize(await self._reranker.rerank(question, texts), len(texts))
        except asyncio.CancelledError:
            self._breaker.cancelled()
            raise
        except TimeoutError:
            self._breaker.failed(self._clock(), timed_out=True)
            return (), f"took longer than {self._time_limit:g} s"
        except Exception as error:  # noqa: BLE001 - the breaker's boundary: a reranker is anybody's code
            _log.warning("hits are not reranked: %s: %s", type(error).__name__, error)
            self._breaker.failed(self._clock())
            return (), f"failed ({type(error).__name__})"
        self._breaker.succeeded(self._clock())
        return scores, ""


def hit_text(hit: Hit) -> str:
    """Return what the reranker reads: the passage that matched, or the whole text, after its speaker."""
    start, stop = (hit.passage.start, hit.passage.stop) if hit.passage else (0, MAX_TEXT_CHARS)
    text = searchable_text(hit.record)[start:stop][:MAX_TEXT_CHARS]
    return f"{hit.record.sender}: {text}" if isinstance(hit.record, Message) and hit.record.sender else text


def _add_log_odds(relevance: float, log_odds: float) -> float:
    """Return a probability after adding evidence.

    >>> _add_log_odds(0.5, 0.0), round(_add_log_odds(0.5, 1.0), 2), _add_log_odds(0.0, 1.0), _add_log_odds(1.0, -1.0)
    (0.5, 0.73, 0.0, 1.0)
    """
    gain = math.exp(log_odds)
    return gain * relevance / (1 - relevance + gain * relevance)


def _standardize(scores: Iterable[object], count: int) -> list[float]:
    """Return how many standard deviations each score is above the mean.

    >>> _standardize([1, 3], 2), _standardize([5, 5], 2)
    ([-1.0, 1.0], [0.0, 0.0])
    """
    numbers = [float(score) for score in islice(scores, count + 1) if isinstance(score, SupportsFloat)]
    if len(numbers) != count or not all(abs(number) <= _MAX_SCORE for number in numbers):
        raise ValueError(f"rerank() must return {count} finite numbers, one for each text, none above {_MAX_SCORE:g}")
    mean, spread = fmean(numbers), pstdev(numbers)
    return [(number - mean) / spread if spread else 0.0 for number in numbers]
