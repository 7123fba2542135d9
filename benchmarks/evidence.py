"""How many of the turns that hold the answer to a question are in the context, within a budget of tokens.

BENCH_DATA=folder python benchmarks/evidence.py           all conversations of the folder
BENCH_DATA=folder python benchmarks/evidence.py --quick   some questions to one of each
"""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

import evidence_engine
from brimful import counter
from brimful.core.labels import RELATED_CLOSE, RELATED_OPEN
from brimful.embedding import StaticEmbedder, embedder_for
from brimful.embedding.registry import list_embedders
from brimful.protocols import Embedder
from brimful.records.search import Postings, VectorHit
from brimful.retrieval.analyzer import analyze
from brimful.retrieval.calibration import Outlook, calibrate, coefficients_of, stretch
from brimful.retrieval.documents import split_passages
from brimful.retrieval.names import find_addressees
from brimful.retrieval.queries import Question, parse_question
from brimful.retrieval.rank import add_speaker, rank
from brimful.retrieval.synonyms import expand_postings
from chart import Line, line_chart
from evidence_data import Talk, parse_options, spread, talks
from evidence_engine import Measured
from tables import Section, duration, percent, table

BUDGETS = (500, 1_000, 2_000, 4_000, 8_000)
MODEL = "gpt-4"  # its tokenizer, cl100k, prices the turns
MESSAGE = 4  # tokens around the message that the turns are in
NEIGHBOURS = 400  # nearest vectors, as many as the engine asks for with the largest budget
FUSION = 60  # reciprocal rank fusion's constant, as published
QUICK_QUESTIONS = 8
ENGINE_QUESTIONS = 120  # of each collection, evenly spread over its conversations
NOISE_QUESTIONS = 60  # of each collection, likewise
FIGURE = "evidence.svg"

ABOUT = f"""This measures whether search finds the turns that answer a question. Annotators of long conversations
marked the turns that contain the answer to each question. Recall is the share of these turns that is in the context,
for a given budget of tokens. All rows use the engine's format and pay for it: a line of speaker and text for each
turn, a heading for each day, and the tags and the message around them. A long turn ranks as its best passage.

- "Recency" takes the newest turns.
- "BM25" takes the highest-ranked turns that fit. "By rank" combines its order with that of an embedder by reciprocal
  rank fusion.
- "Brimful" is the ranking of `brimful.retrieval`, highest value per token first: with full text only, and with each
  embedder that is installed.
- "The engine" stores the conversation in SQLite, searches its index and fills the window under the default policy
  without any history, for up to {ENGINE_QUESTIONS} questions of each collection. It may shorten a long turn to the
  passages that match, which counts as found. The last column is the part of the recall at 2,000 tokens that comes from
  such excerpts.

LoCoMo's adversarial questions are left out. The form and the few weights of the ranking were chosen by their results
on these conversations, so expect lower recall on others: an earlier version of the ranking, measured once on
conversations that nothing was chosen by, had 89.0 % on LoCoMo and 73.9 % on REALTALK at 2,000 tokens. On such
conversations, the aim is 92, 80 and 74 % with `static`, and 94, 84 and 76 % with `small`. Even here, the engine misses
it on LoCoMo and BEAM."""

NOISE = f"""The price of recall is noise: the share of the prompt that up to {NOISE_QUESTIONS} questions about another
conversation of the same collection bring into it, and in brackets how many of them bring anything. Default policy,
history included. The aim, at most 10 %, is met on LoCoMo alone. Some people are in several conversations of REALTALK,
which can therefore answer some of these questions."""

COST = """What the recall costs: a build of the engine, from the question to the finished request, with nothing in
the cache of searches. Medians over all questions; "processor" adds up all threads. Recall is the mean of the
collections. The store is the SQLite file with its index and vectors, per turn, beside the text itself."""

T = TypeVar("T")
Vectors = npt.NDArray[np.float32]
Chosen = Callable[[int, int], Sequence[int]]
"""A way: the number of a question and a budget → the numbers of the turns that it takes."""


@dataclass(frozen=True, slots=True)
class Case:
    """A conversation, read: what turns cost, and where each term occurs. Turns and passages are numbered from 1."""

    talk: Talk
    lines: list[int]  # tokens of each turn
    headings: list[tuple[str, int]]  # the day of each turn, and the tokens of its heading
    envelope: int  # tokens around all turns
    turns: list[int]  # of each passage
    passages: list[str]
    terms: list[list[str]]  # of each passage
    places: dict[str, list[tuple[int, int]]]

    def postings(self, terms: Sequence[str]) -> Postings:
        """Answer as a store does."""
        rows = [(place, term, often) for term, word in enumerate(terms) for place, often in self.places.get(word, ())]
        places = [place for place, _, _ in rows]
        return Postings(
            terms=tuple(terms),
            document_frequency=tuple(len(self.places.get(word, ())) for word in terms),
            documents=len(self.terms),
            words=sum(map(len, self.terms)),
            doc=places,
            seq=[self.turns[place - 1] for place in places],
            length=[len(self.terms[place - 1]) for place in places],
            term=[term for _, term, _ in rows],
            frequency=[often for _, _, often in rows],
        )

    def question(self, number: int) -> Question:
        """Return a question as the engine reads it."""
        text, speakers = self.talk.questions[number].text, sorted({turn.speaker for turn in self.talk.turns})
        question = parse_question(text, asker=self.talk.asker, speakers=speakers)
        named = [self.turns[place - 1] for name, _ in question.names for place, _ in self.places.get(name, ())]
        messages = dict(enumerate(evidence_engine.messages(self.talk), start=1)) if named else {}
        beside = {at: messages[at] for turn in named for at in (turn - 1, turn, turn + 1) if at in messages}
        return msgspec.structs.replace(
            question, addressees=find_addressees(beside, {word for _, word in question.names})
        )

    def best_of_turn(self, values: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the highest value of each turn's passages."""
        best = np.full(len(self.lines), -np.inf)
        np.maximum.at(best, np.array(self.turns) - 1, np.asarray(values, np.float64))
        return best

    def whatever_fits(self, order: Sequence[int], budget: int) -> Iterator[int]:
        """Yield the turns that fit, in this order: each with its line, and the first of a day with the heading."""
        left, days = budget - self.envelope, set[str]()
        for at in order:
            day, heading = self.headings[at]
            price = self.lines[at] + (heading if day not in days else 0)
            if price <= left:
                left -= price
                days.add(day)
                yield at

    def widened(self, question: Question) -> Postings:
        """Return where the terms of a question occur, or what says nearly the same."""
        others = self.postings([other for other, _ in question.related])
        return expand_postings(self.postings(question.terms), others, [term for _, term in question.related])


def report(data: Path | None, *, quick: bool) -> Section:
    """Measure every way on every collection of the folder."""
    collections = talks(data) if data else {}
    if not collections:
        return Section("Evidence", ABOUT, ("There was no data folder with such conversations.",))
    tables, measured, case = [], defaultdict[str, dict[str, list[Measured]]](dict), None
    for name, conversations in collections.items():
        first = replace(conversations[0], questions=conversations[0].questions[:QUICK_QUESTIONS])
        cases = [make_case(talk) for talk in ([first] if quick else conversations)]
        case = case or cases[0]
        asked = sum(len(each.talk.questions) for each in cases)
        rows = [[way, *_percents(_recall(cases, make)), ""] for way, make in _announced(name, _ways())]
        for way, embedder in _announced(name, _engines()):
            found = measured[way][name] = list(_measure([each.talk for each in cases], embedder))
            rows.append([f"the engine, {way}", *_percents(_mean_recall(found)), *_percents([_excerpts(found)])])
        head = f"{name}: {len(cases)} conversations, {asked} questions"
        tables.append(table([head, *map(str, BUDGETS), "excerpts"], rows))
    timing = f"Ranking took {duration(_seconds(case))} a question, without the store and the embedder." if case else ""
    figure = f"![Recall and processor time of a build](images/{FIGURE})"
    return Section(
        "Evidence",
        ABOUT,
        (*tables, NOISE, _noise_table(measured), timing, COST, _cost_table(measured), figure),
        figures={FIGURE: _cost_chart(measured)},
    )


def _announced(name: str, ways: dict[str, T]) -> Iterator[tuple[str, T]]:
    for way, each in ways.items():
        print(f"  evidence: {name}, {way}", flush=True)
        yield way, each


def _seconds(case: Case) -> float:
    """Return the processor's time that ranking takes, the median of a conversation's questions."""
    times = []
    for number, near in enumerate(nearest(case, StaticEmbedder())):
        postings = case.widened(case.question(number))
        began = time.process_time()
        rank(postings, near, conversation=True)
        times.append(time.process_time() - began)
    return median(times)


def _local() -> list[str]:
    """Return the embedders that run on this machine."""
    return [each.name for each in list_embedders() if each.megabytes is not None and not each.missing]


def _ways() -> dict[str, Callable[[Case], Chosen]]:
    embedders = {name: embedder for name in _local() if (embedder := embedder_for(name))}
    return {
        "recency": by_recency,
        "BM25": by_bm25,
        **{f"BM25 and {name}, by rank": partial(by_rank_fusion, embedder=each) for name, each in embedders.items()},
        "brimful, full text alone": partial(_by_relevance, embedder=None),
        **{f"brimful, {name}": partial(_by_relevance, embedder=each) for name, each in embedders.items()},
    }


def _shorter(talk: Talk, most: int) -> Talk:
    return replace(talk, questions=spread(talk.questions, most))


def _measure(conversations: Sequence[Talk], embedder: str) -> Iterator[Measured]:
    """Yield what the engine does with each conversation, and with questions to the next one."""
    for at, talk in enumerate(conversations):
        following = conversations[(at + 1) % len(conversations)]
        others = spread(following.questions, NOISE_QUESTIONS // len(conversations)) if following is not talk else []
        shorter = _shorter(talk, ENGINE_QUESTIONS // len(conversations))
        yield evidence_engine.measure(shorter, others, MODEL, embedder, BUDGETS)


def _engines() -> dict[str, str]:
    return {"full text alone": "none"} | {name: name for name in _local()}


def _recall(cases: Sequence[Case], make: Callable[[Case], Chosen]) -> list[float]:
    shares: dict[int, list[float]] = defaultdict(list)
    for case in cases:
        chosen = make(case)
        for number, question in enumerate(case.talk.questions):
            for budget in BUDGETS:
                inside = {case.talk.turns[at].id for at in chosen(number, budget)}
                shares[budget].append(len(inside & question.evidence) / len(question.evidence))
    return [mean(shares[budget]) for budget in BUDGETS]


def _mean_recall(found: Sequence[Measured]) -> list[float]:
    return [mean(build.recall for each in found for build in each.builds[budget]) for budget in BUDGETS]


def _excerpts(found: Sequence[Measured]) -> float:
    """Return how much of the recall at 2,000 tokens is turns that were shortened."""
    return mean(build.shortened for each in found for build in each.builds[2_000])


def _percents(shares: Sequence[float]) -> list[str]:
    return [f"{100 * share:.1f}" for share in shares]


def _noise_table(measured: dict[str, dict[str, list[Measured]]]) -> str:
    rows = []
    for way, collections in measured.items():
        for name, found in collections.items():
            shares = [[share for each in found for share in each.noise[window]] for window in evidence_engine.WINDOWS]
            rows.append([way, name, *(_noise_cell(each) for each in shares)])
    return table(["the engine", "asked of another", *(f"{each:,}" for each in evidence_engine.WINDOWS)], rows, words=2)


def _noise_cell(shares: Sequence[float]) -> str:
    return f"{percent(mean(shares))} ({percent(mean(map(bool, shares)))})" if shares else "–"


def _cost_table(measured: dict[str, dict[str, list[Measured]]]) -> str:
    rows = []
    for way, collections in measured.items():
        everything = [each for found in collections.values() for each in found]
        for budget, recall in zip(BUDGETS, _recall_of_all(collections), strict=True):
            builds = [build for each in everything for build in each.builds[budget]]
            times = median(each.seconds for each in builds), median(each.processor for each in builds)
            rows.append([way, f"{budget:,}", *_percents([recall]), *map(duration, times), ""])
        turns = sum(each.turns for each in everything)
        text, stored = (sum(getattr(each, name) for each in everything) / turns for name in ("text", "stored"))
        rows[-1][-1] = f"{stored / 1e3:.1f} kB (text: {text / 1e3:.1f} kB)"
    return table(["the engine", "tokens", "recall", "time", "processor", "store, per turn"], rows)


def _cost_chart(measured: dict[str, dict[str, list[Measured]]]) -> str:
    lines = []
    for way, collections in measured.items():
        everything = [each for found in collections.values() for each in found]
        spent = [1e3 * median(build.processor for each in everything for build in each.builds[at]) for at in BUDGETS]
        percents = [100 * recall for recall in _recall_of_all(collections)]
        lines.append(Line(way, list(zip(spent, percents, strict=True)), [f"{budget:,}" for budget in BUDGETS]))
    return line_chart(lines, across="processor time of a build, ms", up="recall, %")


def _recall_of_all(collections: dict[str, list[Measured]]) -> list[float]:
    """Return the recall at each budget, the mean of the collections."""
    return [mean(shares) for shares in zip(*map(_mean_recall, collections.values()), strict=True)]


def make_case(talk: Talk) -> Case:
    """Read a conversation."""
    parts = [
        (number, turn.text[start:stop])
        for number, turn in enumerate(talk.turns, start=1)
        for start, stop in split_passages(turn.text)
    ]
    turns, passages = [number for number, _ in parts], [text for _, text in parts]
    said = [talk.turns[number - 1] for number in turns]
    terms = [analyze(text, turn.speaker, turn.at) for turn, text in zip(said, passages, strict=True)]
    places: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for place, words in enumerate(terms, start=1):
        for word, often in Counter(words).items():
            places[word].append((place, often))
    days = [turn.heading() for turn in talk.turns]
    [envelope] = _tokens([RELATED_OPEN + RELATED_CLOSE])
    return Case(
        talk=talk,
        lines=_tokens([turn.line() for turn in talk.turns]),
        headings=list(zip(days, _tokens(days), strict=True)),
        envelope=envelope + MESSAGE,
        turns=turns,
        passages=passages,
        terms=terms,
        places=dict(places),
    )


def _tokens(texts: Sequence[str]) -> list[int]:
    return [count.tokens for count in counter(MODEL).texts(texts)]


# -- the ways --------------------------------------------------------------------------------------------------------


def by_recency(case: Case) -> Chosen:
    """Take the newest turns."""
    newest = list(range(len(case.lines)))[::-1]
    return lambda _, budget: list(case.whatever_fits(newest, budget))


def by_bm25(case: Case) -> Chosen:
    """Take the turns with the highest BM25 that fit."""
    ranked = [by_score(scores) for scores in _bm25(case)]
    return lambda number, budget: list(case.whatever_fits(ranked[number], budget))


def by_vectors(case: Case, embedder: Embedder) -> Chosen:
    """Take the turns nearest to the question that fit."""
    passages = asyncio.run(embed(embedder, case.passages))
    questions = asyncio.run(embed(embedder, [question.text for question in case.talk.questions]))
    ranked = [by_score(case.best_of_turn(passages @ question)) for question in questions]
    return lambda number, budget: list(case.whatever_fits(ranked[number], budget))


def by_rank_fusion(case: Case, embedder: Embedder) -> Chosen:
    """Take the turns that BM25 and vectors together rank highest, by reciprocal rank fusion."""
    passages = asyncio.run(embed(embedder, case.passages))
    questions = asyncio.run(embed(embedder, [question.text for question in case.talk.questions]))
    ranked = []
    for scores, question in zip(_bm25(case), questions, strict=True):
        fused = np.zeros(len(scores))
        for order in (by_score(scores), by_score(case.best_of_turn(passages @ question))):
            fused[order] += 1 / (FUSION + np.arange(len(order)))
        ranked.append(by_score(fused))
    return lambda number, budget: list(case.whatever_fits(ranked[number], budget))


def _by_relevance(case: Case, embedder: Embedder | None) -> Chosen:
    """Rank as the engine does, and take what is worth most per token."""
    values = [worths(case, near, number, embedder) for number, near in enumerate(nearest(case, embedder))]
    ranked = [by_score(each / case.lines) for each in values]
    return lambda number, budget: list(case.whatever_fits(ranked[number], budget))


def worths(case: Case, near: Sequence[VectorHit], number: int, embedder: Embedder | None) -> npt.NDArray[np.float64]:
    """Return the relevance of every turn for a question."""
    question, turns = case.question(number), case.talk.turns
    id = embedder.id if embedder else None
    ranked = rank(case.widened(question), stretch(near, id), conversation=True)
    places, matches = [], []
    for found in (found for found in ranked.matches() if found.position <= len(turns)):
        turn = turns[found.position - 1]
        text = case.passages[found.doc - 1] if found.doc else turn.text
        places.append(found.position - 1)
        matches.append(add_speaker(found, question, speaker=turn.speaker, text=text))
    values = np.zeros(len(turns))
    values[places] = calibrate(
        np.array([match.log_share for match in matches]),
        Outlook.of(ranked, question, "room"),
        coefficients_of(id),
    )
    return values


# -- what the ways are made of ---------------------------------------------------------------------------------------


def nearest(case: Case, embedder: Embedder | None) -> Iterator[list[VectorHit]]:
    """Yield the passages that are nearest to each question."""
    if embedder is None:
        yield from ([] for _ in case.talk.questions)
        return
    meanings = [case.question(number).meaning for number in range(len(case.talk.questions))]
    passages = asyncio.run(embed(embedder, case.passages))
    for question in asyncio.run(embed(embedder, meanings)):
        similar = passages @ question
        yield [
            VectorHit(doc=at + 1, seq=case.turns[at], similarity=float(similar[at]))
            for at in by_score(similar)[:NEIGHBOURS]
        ]


def _bm25(case: Case) -> Iterator[npt.NDArray[np.float64]]:
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
        yield case.best_of_turn(scores)


def by_score(scores: npt.ArrayLike) -> list[int]:
    """Return the numbers of the turns, the best first, the newest of equals first."""
    values = np.asarray(scores, np.float64)
    return [int(at) for at in np.lexsort((-np.arange(len(values)), -values))]


async def embed(embedder: Embedder, texts: Sequence[str]) -> Vectors:
    """Return the vectors of texts."""
    return await embedder.embed(texts, "passage")


if __name__ == "__main__":
    options = parse_options(__doc__)
    print(report(options.data, quick=options.quick).markdown())
