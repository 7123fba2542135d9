"""Whether relevance is the probability that it claims to be.

BENCH_DATA=folder python benchmarks/relevance.py
BENCH_DATA=folder python benchmarks/relevance.py --quick   one conversation of each collection
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

import unseen_data
from brimful.embedding import SmallEmbedder, StaticEmbedder
from brimful.engine import Engine
from brimful.protocols import Embedder, Purpose
from brimful.records import Memory
from brimful.retrieval.calibration import INPUTS
from evidence_data import parse_options, talks
from relevance_data import Sample, Values, samples
from relevance_texts import FACTS, UNRELATED, notes
from tables import Section, table

BINS = 10
LIKELY = 0.05  # most matches are certainly no answers, which flatters any average over all of them
STORES = (5, 500, 50_000)
NEWTON_STEPS = 30
RIDGE = 1e-3  # keeps the regression stable, and changes nothing else

ABOUT = """The relevance of a search result is the probability that it helps to answer. The questions of the
development conversations were asked of stores that can and cannot answer them: rooms and memories, from 5
texts to all conversations of a collection joined. The questions of [other kinds of
stores](#unseen-collections) were asked, too. "Predicted" is the mean relevance of the results in each bin,
"observed" the share of them that annotators marked as evidence. The coefficients for one half of the people
and questions were fitted on the other half. The calibration error is the mean difference between the two, over the best
100 results of each question; most of these are certainly irrelevant, so the second one is over those with
a relevance of at least 5 %. The last table has facts among notes about other things, each with a question
in other words."""


class Unknown:
    """An embedder under an id that has no coefficients."""

    def __init__(self, embedder: Embedder) -> None:
        """Hide which embedder it is."""
        self._embedder = embedder
        self.id = f"unknown-{embedder.id}"
        self.languages = getattr(embedder, "languages", None)

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> npt.NDArray[np.float32]:
        """Embed the texts."""
        return np.asarray(await self._embedder.embed(texts, purpose))

    async def close(self) -> None:
        """Close the embedder."""
        await self._embedder.close()


def embedders() -> dict[str, tuple[Embedder | None, ...]]:
    """Return the embedders to fit coefficients for, by kind: the beginning of their id, "other" or "none"."""
    static, small = StaticEmbedder(), SmallEmbedder()
    return {
        "static": (static,),
        "small": (small,),
        "none": (None,),
        "other": (Unknown(static), Unknown(small)),
    }


def report(data: Path | None, *, quick: bool) -> Section:
    """Measure the calibration on the conversations of the folder, and on facts."""
    parts = []
    collections = talks(data) if data else {}
    others = unseen_data.collections(data, "held") if data else []
    if collections:
        chosen = {name: talks[: 1 if quick else None] for name, talks in collections.items()}
        for name, embedder in (
            ("the static table", StaticEmbedder()),
            ("the small encoder", SmallEmbedder()),
            ("full text alone", None),
        ):
            print(f"  relevance: {name}", flush=True)
            parts += [f"With {name}:", _reliability(list(samples(chosen, others, embedder)))]
    parts.append(_fact_table(STORES[:2] if quick else STORES))
    return Section("Relevance", ABOUT, tuple(parts))


def fit(found: Sequence[Sample]) -> Values:
    """Return the coefficients of a logistic regression by Newton's method. All situations have the same weight."""
    inputs, observed, weights = _join(found)
    coefficients = np.zeros(len(INPUTS))
    for _ in range(NEWTON_STEPS):
        predicted = _sigmoid(inputs @ coefficients)
        slope = inputs.T @ (weights * (predicted - observed)) + RIDGE * coefficients
        curvature = (inputs * (weights * predicted * (1 - predicted))[:, None]).T @ inputs + RIDGE * np.eye(len(INPUTS))
        coefficients -= np.linalg.solve(curvature, slope)
    return coefficients


def held_out(found: Sequence[Sample]) -> Iterator[tuple[str, Values, Values]]:
    """Yield, for each collection, what the other half of all people and questions says about it, and what is true."""
    by_other = [fit([sample for sample in found if sample.half != half]) for half in (0, 1)]
    for name in dict.fromkeys(sample.collection for sample in found):
        mine = [sample for sample in found if sample.collection == name]
        predicted = [_sigmoid(sample.inputs @ by_other[sample.half]) for sample in mine]
        yield name, np.concatenate(predicted), np.concatenate([sample.observed for sample in mine]).astype(np.float64)


def measure(found: Sequence[Sample]) -> Iterator[str]:
    """Yield the calibration error of each collection by the coefficients of the other half."""
    for name, predicted, observed in held_out(found):
        bins = " ".join(f"{a:.2f}/{b:.2f}" for a, b, _ in _bins(predicted, observed))
        errors = f"error {_error(predicted, observed):.4f}, of the likely {_likely_error(predicted, observed):.3f}"
        yield f"{name}: {errors}; predicted/observed {bins}"


def _reliability(found: Sequence[Sample]) -> str:
    columns = list(held_out(found))
    predicted, observed = (np.concatenate([column[at] for column in columns]) for at in (1, 2))
    columns.append(("pooled", predicted, observed))
    rows = [
        [f"{10 * at} to {10 * at + 10} %", *(_cell(predicted, observed, at) for _, predicted, observed in columns)]
        for at in range(BINS)
    ]
    rows.append(["calibration error", *(f"{_error(predicted, observed):.3f}" for _, predicted, observed in columns)])
    rows.append(
        ["of 5 % and more", *(f"{_likely_error(predicted, observed):.3f}" for _, predicted, observed in columns)]
    )
    return table(["relevance: predicted / observed", *(name for name, _, _ in columns)], rows)


def _cell(predicted: Values, observed: Values, at: int) -> str:
    inside = _bin_of(predicted) == at
    return f"{predicted[inside].mean():.3f} / {observed[inside].mean():.3f}" if inside.any() else ""


def _bin_of(predicted: Values) -> npt.NDArray[np.int64]:
    return np.minimum((predicted * BINS).astype(np.int64), BINS - 1)


def _bins(predicted: Values, observed: Values) -> Iterator[tuple[float, float, int]]:
    for at in range(BINS):
        inside = _bin_of(predicted) == at
        if inside.any():
            yield float(predicted[inside].mean()), float(observed[inside].mean()), int(inside.sum())


def _error(predicted: Values, observed: Values) -> float:
    return sum(abs(a - b) * count for a, b, count in _bins(predicted, observed)) / max(len(predicted), 1)


def _likely_error(predicted: Values, observed: Values) -> float:
    return _error(predicted[predicted >= LIKELY], observed[predicted >= LIKELY])


def _join(found: Sequence[Sample]) -> tuple[Values, Values, Values]:
    inputs = np.concatenate([sample.inputs for sample in found])
    observed = np.concatenate([sample.observed for sample in found]).astype(np.float64)
    counts = Counter((sample.collection, sample.store) for sample in found)
    weights = [np.full(len(s.observed), len(found) / len(counts) / counts[s.collection, s.store]) for s in found]
    return inputs, observed, np.concatenate(weights)


def _sigmoid(values: Values) -> Values:
    return np.asarray(1 / (1 + np.exp(-values)))


def _fact_table(stores: Sequence[int]) -> str:
    rows: dict[str, list[str]] = {}
    for count in stores:
        print(f"  relevance: a fact among {count:,} notes", flush=True)
        for question, found in asyncio.run(_ask_about_facts(count)).items():
            rows.setdefault(question, []).append(found)
    heads = [f"among {count:,}: the fact / the best note" for count in stores]
    return table(["question", *heads], [[question, *cells] for question, cells in rows.items()])


async def _ask_about_facts(count: int) -> dict[str, str]:
    async with Engine("sqlite://", model="gpt-4o", indexing=False) as engine:
        facts = [Memory(id=f"fact {at}", content=fact) for at, fact in enumerate(FACTS)]
        others = [Memory(id=f"note {at}", content=note) for at, note in enumerate(notes(count))]
        await engine.remember_many([*facts, *others])
        await engine.index()
        found = {}
        for at, question in enumerate([*FACTS.values(), *UNRELATED]):
            hits = {hit.record.id: hit.relevance for hit in await engine.search(question)}
            fact = hits.pop(f"fact {at}", None)
            best = max((value for id, value in hits.items() if id.startswith("note")), default=0.0)
            found[question] = f"{'–' if fact is None else f'{fact:.1%}'} / {best:.1%}"
        return found


if __name__ == "__main__":
    options = parse_options(__doc__)
    print(report(options.data, quick=options.quick).markdown())
