"""How many of the turns that hold the answer to a question are in the context, within a budget of tokens.

BENCH_DATA=folder python benchmarks/evidence.py           all conversations of the folder
BENCH_DATA=folder python benchmarks/evidence.py --quick   one of each collection
"""

import argparse
import asyncio
import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import mean, median

import numpy as np
import numpy.typing as npt

import evidence_engine
from brimful import counter
from brimful.core.knapsack import choose
from brimful.embedding import MiniLMEmbedder, StaticEmbedder
from brimful.embedding.minilm_install import is_installed
from brimful.protocols import Embedder
from brimful.records.search import Postings, VectorHit
from brimful.retrieval.analyzer import analyze
from brimful.retrieval.queries import Question, parse_question
from brimful.retrieval.rank import MAX_NEIGHBOURS, adjust_relevance, length_adjusted, rank
from brimful.retrieval.synonyms import expand_postings
from evidence_data import Talk, Turn, talks
from tables import Section, duration, table

BUDGETS = (500, 1_000, 2_000, 4_000, 8_000)
MODEL = "gpt-4"  # its tokenizer, cl100k, prices the turns
OVERHEAD = 4  # tokens that a turn costs beside its text
FUSION = 60  # reciprocal rank fusion's constant, as published

ABOUT = """Annotators of long conversations marked the turns that contain the answer to each question. Recall is
the share of these turns that is in the context, for a given budget of tokens. "Recency" takes the newest
turns. "BM25" and "RRF" (BM25 and the vectors of the static table, combined by reciprocal rank fusion) take
the highest-ranked turns. Ours is the ranking of `brimful.retrieval` with the best set by value: with full
text only, with the static table, and with MiniLM. "The whole engine" stores the conversation in SQLite,
searches its index and fills the window under the default policy, where a turn costs its line of speaker and
text plus its share of the date heading; the other methods charge each turn for its date and 4 more tokens.
LoCoMo's adversarial questions are left out. The form and the few weights of the ranking were chosen with
the development conversations in sight: expect somewhat less on others."""

Vectors = npt.NDArray[np.float32]
Chosen = Callable[[int, int], Sequence[int]]
"""A way: the number of a question and a budget → the numbers of the turns that it takes."""


@dataclass(frozen=True, slots=True)
class Case:
    """A conversation, read: what turns cost, their terms, and where each term occurs."""

    talk: Talk
    costs: list[int]
    terms: list[list[str]]
    places: dict[str, list[tuple[int, int]]]

    def postings(self, terms: Sequence[str]) -> Postings:
        """Answer as a store does. Turns are numbered from 1."""
        rows = [(place, term, often) for term, word in enumerate(terms) for place, often in self.places.get(word, ())]
        places = [place for place, _, _ in rows]
        return Postings(
            terms=tuple(terms),
            document_frequency=tuple(len(self.places.get(word, ())) for word in terms),
            documents=len(self.terms),
            words=sum(map(len, self.terms)),
            doc=places,
            seq=places,
            length=[len(self.terms[place - 1]) for place in places],
            term=[term for _, term, _ in rows],
            frequency=[often for _, _, often in rows],
        )

    def widened(self, question: Question) -> Postings:
        """Return where the terms of a question occur, or what says nearly the same."""
        others = self.postings([other for other, _ in question.related])
        return expand_postings(self.postings(question.terms), others, [term for _, term in question.related])


def report(data: Path | None, *, quick: bool) -> Section:
    """Measure every way on every collection of the folder."""
    collections = talks(data) if data else {}
    if not collections:
        return Section("Evidence", ABOUT, ("There was no data folder with such conversations.",))
    tables = []
    for name, conversations in collections.items():
        cases = [_case(talk) for talk in conversations[: 1 if quick else None]]
        asked = sum(len(case.talk.questions) for case in cases)
        head = f"{name}: {len(cases)} conversations, {asked} questions"
        tables.append(table([head, *map(str, BUDGETS)], _rows(name, cases)))
    timing = f"Ranking took {duration(_seconds(cases[0]))} a question, without the store and the embedder."
    return Section("Evidence", ABOUT, (*tables, timing))


def _rows(name: str, cases: Sequence[Case]) -> list[list[str]]:
    rows = []
    for way, make in _ways().items():
        print(f"  evidence: {name}, {way}", flush=True)
        rows.append([way, *(f"{100 * share:.1f}" for share in _recall(cases, make))])
    return rows


def _seconds(case: Case) -> float:
    """Return the processor's time that ranking takes, the median of a conversation's questions."""
    times = []
    for near, question in zip(_nearest(case, StaticEmbedder()), case.talk.questions, strict=True):
        postings = case.widened(parse_question(question.text))
        began = time.process_time()
        rank(postings, near, conversation=True, limit=MAX_NEIGHBOURS)
        times.append(time.process_time() - began)
    return median(times)


def _ways() -> dict[str, Callable[[Case], Chosen]]:
    static = StaticEmbedder()
    ways: dict[str, Callable[[Case], Chosen]] = {
        "recency": _by_recency,
        "BM25": _by_bm25,
        "RRF": partial(_by_rank_fusion, embedder=static),
        "brimful, full text alone": partial(_by_relevance, embedder=None),
        "brimful, static table": partial(_by_relevance, embedder=static),
    }
    ways["brimful, the whole engine, static table"] = partial(_by_engine, embedder="static")
    if is_installed():
        ways["brimful, MiniLM"] = partial(_by_relevance, embedder=MiniLMEmbedder())
    return ways


def _recall(cases: Sequence[Case], make: Callable[[Case], Chosen]) -> list[float]:
    shares: dict[int, list[float]] = defaultdict(list)
    for case in cases:
        chosen = make(case)
        for number, question in enumerate(case.talk.questions):
            for budget in BUDGETS:
                inside = {case.talk.turns[at].id for at in chosen(number, budget)}
                shares[budget].append(len(inside & question.evidence) / len(question.evidence))
    return [mean(shares[budget]) for budget in BUDGETS]


def _case(talk: Talk) -> Case:
    terms = [analyze(turn.text, turn.speaker, turn.at) for turn in talk.turns]
    places: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for place, words in enumerate(terms, start=1):
        for word, often in Counter(words).items():
            places[word].append((place, often))
    counts = counter(MODEL).texts([turn.shown() for turn in talk.turns])
    return Case(talk, [count.tokens + OVERHEAD for count in counts], terms, dict(places))


# -- the ways --------------------------------------------------------------------------------------------------------


def _by_recency(case: Case) -> Chosen:
    newest = list(range(len(case.costs)))[::-1]
    return lambda _, budget: list(_whatever_fits(newest, case.costs, budget))


def _by_bm25(case: Case) -> Chosen:
    ranked = [_order(scores) for scores in _bm25(case)]
    return lambda number, budget: list(_whatever_fits(ranked[number], case.costs, budget))


def _by_rank_fusion(case: Case, embedder: Embedder) -> Chosen:
    passages = asyncio.run(_embedded(embedder, [turn.shown() for turn in case.talk.turns]))
    questions = asyncio.run(_embedded(embedder, [question.text for question in case.talk.questions]))
    ranked = []
    for scores, question in zip(_bm25(case), questions, strict=True):
        fused = np.zeros(len(scores))
        for order in (_order(scores), _order(passages @ question)):
            fused[order] += 1 / (FUSION + np.arange(len(order)))
        ranked.append(_order(fused))
    return lambda number, budget: list(_whatever_fits(ranked[number], case.costs, budget))


def _by_relevance(case: Case, embedder: Embedder | None) -> Chosen:
    """Rank as the engine does, and take the set that is worth most."""
    values = [_worths(case, near, number) for number, near in enumerate(_nearest(case, embedder))]

    def chosen(number: int, budget: int) -> list[int]:
        order = _order(values[number])
        picked = choose([values[number][at] for at in order], [case.costs[at] for at in order], budget)
        return [order[at] for at in picked]

    return chosen


def _by_engine(case: Case, embedder: str) -> Chosen:
    """Let the engine do it all: store, index, search, and the fill of the core."""
    places = {turn.id: at for at, turn in enumerate(case.talk.turns)}
    recalled = evidence_engine.recalled(case.talk, MODEL, embedder, BUDGETS)
    return lambda number, budget: [places[id] for id in recalled[number][budget] if id in places]


def _worths(case: Case, near: Sequence[VectorHit], number: int) -> list[float]:
    question = parse_question(
        case.talk.questions[number].text, asker=case.talk.asker, speakers=_speakers(case.talk.turns)
    )
    ranked = rank(case.widened(question), near, conversation=True, limit=len(case.costs))
    values = [0.0] * len(case.costs)
    for found in (found for found in ranked.matches() if found.position <= len(values)):
        at = found.position - 1
        turn = case.talk.turns[at]
        values[at] = length_adjusted(
            adjust_relevance(found.relevance, question, speaker=turn.speaker, text=turn.text), case.costs[at]
        )
    return values


# -- what the ways are made of ---------------------------------------------------------------------------------------


def _nearest(case: Case, embedder: Embedder | None) -> Iterator[list[VectorHit]]:
    if embedder is None:
        yield from ([] for _ in case.talk.questions)
        return
    speakers = _speakers(case.talk.turns)
    meanings = [parse_question(question.text, speakers=speakers).meaning for question in case.talk.questions]
    passages = asyncio.run(_embedded(embedder, [turn.text for turn in case.talk.turns]))
    for question in asyncio.run(_embedded(embedder, meanings)):
        similar = passages @ question
        yield [
            VectorHit(doc=at + 1, seq=at + 1, similarity=float(similar[at])) for at in _order(similar)[:MAX_NEIGHBOURS]
        ]


def _bm25(case: Case) -> Iterator[list[float]]:
    """Yield plain BM25 of every turn, question by question: no neighbours, k1 = 1.5, b = 0.75."""
    average = mean(map(len, case.terms))
    for question in case.talk.questions:
        scores = [0.0] * len(case.terms)
        for word in dict.fromkeys(analyze(question.text)):
            places = case.places.get(word, ())
            rarity = np.log(1 + (len(scores) - len(places) + 0.5) / (len(places) + 0.5))
            for place, often in places:
                length = 1.5 * (0.25 + 0.75 * len(case.terms[place - 1]) / average)
                scores[place - 1] += float(rarity) * often * 2.5 / (often + length)
        yield scores


def _order(scores: npt.ArrayLike) -> list[int]:
    """Return the numbers of the turns, the best first, the newest of equals first."""
    values = np.asarray(scores, np.float64)
    return [int(at) for at in np.lexsort((-np.arange(len(values)), -values))]


def _whatever_fits(order: Sequence[int], costs: Sequence[int], budget: int) -> Iterator[int]:
    for at in order:
        if costs[at] <= budget:
            budget -= costs[at]
            yield at


def _speakers(turns: Sequence[Turn]) -> list[str]:
    return sorted({turn.speaker for turn in turns})


async def _embedded(embedder: Embedder, texts: Sequence[str]) -> Vectors:
    return await embedder.embed(texts, "passage")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one conversation of each collection")
    parser.add_argument("--data", type=Path, default=os.environ.get("BENCH_DATA") or None, help="folder of JSON files")
    options = parser.parse_args()
    print(report(options.data, quick=options.quick).markdown())
