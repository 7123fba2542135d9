"""How much weight the scores of a reranker deserve: recall with stand-ins of known quality.

BENCH_DATA=folder python benchmarks/reranking.py            the conversations that are left for confirmation
BENCH_DATA=folder python benchmarks/reranking.py --choice   those by which the weight was chosen
"""

import argparse
import asyncio
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

import numpy as np
import numpy.typing as npt

import evidence
from answers import CHOICE
from brimful.embedding import SmallEmbedder, StaticEmbedder
from brimful.retrieval.rerank import LOG_ODDS, MAX_RERANKED
from evidence_data import Talk, talks
from tables import Section, table

WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
DISTANCES = {"no better than chance": 0.0, "weak": 1.0, "good": 2.0, "very good": 4.0}
BUDGET = 2_000
QUICK_QUESTIONS = 8
ABOUT = f"""A [reranker](embeddings.md#rerankers) scores the best {MAX_RERANKED} hits of a search, and each standard
deviation of its score adds a weight to the log-odds of a hit's relevance. Which weight is best depends on how good the
reranker is, which Brimful cannot know. This is the recall within {BUDGET:,} tokens for each weight with rerankers of
known quality: the small encoder, which errs where the static table errs, and made-up scores, normally distributed,
whose mean is 0, 1, 2 or 4 standard deviations higher for turns that hold the answer. The weight of {LOG_ODDS:g} was
chosen by other conversations of LoCoMo and REALTALK. A reranker that is hardly better than the embedder can lose
recall, as `small` does on BEAM.

    BENCH_DATA=folder python benchmarks/run_all.py --only reranking"""

Values = npt.NDArray[np.float64]


def report(data: Path | None, *, quick: bool, choice: bool = False) -> Section:
    """Measure every stand-in with every weight."""
    rows = []
    for name, conversations in (talks(data) if data else {}).items():
        chosen = [talk for talk in conversations if talk.name.startswith(CHOICE) == choice]
        recalls: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
        for talk in chosen[: 1 if quick else None]:
            print(f"  reranking: {talk.name}", flush=True)
            for stand_in, weight, recall in measure(talk, QUICK_QUESTIONS if quick else len(talk.questions)):
                recalls[stand_in][weight].append(recall)
        rows += [
            [name, stand_in, *(f"{100 * fmean(found[weight]):.1f}" for weight in WEIGHTS)]
            for stand_in, found in recalls.items()
        ]
    if not rows:
        return Section("Rerankers", ABOUT, ("There was no data folder with conversations.",))
    head = ["conversations", "reranker", *(f"weight {weight:g}" if weight else "none" for weight in WEIGHTS)]
    return Section("Rerankers", ABOUT, (table(head, rows, words=2),))


def measure(talk: Talk, questions: int) -> Iterator[tuple[str, float, float]]:
    """Yield each stand-in and weight with the recall of each question."""
    case, static, random = evidence.make_case(talk), StaticEmbedder(), np.random.default_rng(0)
    lines = np.array(case.lines)
    similarities = _similarities(case)
    for number, near in enumerate(evidence.nearest(case, static)):
        if number == questions:
            return
        needed = talk.questions[number].evidence
        relevance = evidence.worths(case, near, number, static)
        best = np.array(evidence.by_score(relevance)[:MAX_RERANKED])
        answers = np.array([talk.turns[at].id in needed for at in best], np.float64)
        noise = random.normal(size=len(best))
        scores = {"`small`": similarities[number][best]}
        scores |= {name: distance * answers + noise for name, distance in DISTANCES.items()}
        for stand_in, judged in scores.items():
            for weight in WEIGHTS:
                value = relevance.copy()
                value[best] = _add_log_odds(relevance[best], weight * (judged - judged.mean()) / (judged.std() or 1.0))
                inside = case.whatever_fits(evidence.by_score(value / lines), BUDGET)
                yield stand_in, weight, len({talk.turns[at].id for at in inside} & needed) / len(needed)


def _similarities(case: evidence.Case) -> list[Values]:
    small = SmallEmbedder()
    passages = asyncio.run(evidence.embed(small, case.passages))
    questions = asyncio.run(evidence.embed(small, [question.text for question in case.talk.questions]))
    return [case.best_of_turn(passages @ question) for question in questions]


def _add_log_odds(relevance: Values, log_odds: Values) -> Values:
    gain = np.exp(log_odds)
    sum_of_odds: Values = 1 - relevance + gain * relevance
    return gain * relevance / sum_of_odds


def main() -> None:
    """Print the section."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--choice", action="store_true", help="the conversations by which the weight was chosen")
    data = os.environ.get("BENCH_DATA")
    print(report(Path(data) if data else None, quick=False, choice=parser.parse_args().choice).markdown())


if __name__ == "__main__":
    main()
