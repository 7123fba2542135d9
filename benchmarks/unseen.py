"""Recall and noise on other kinds of stores: documents, preferences, and messages in Chinese.

BENCH_DATA=folder python benchmarks/unseen.py           all of them
BENCH_DATA=folder python benchmarks/unseen.py --quick   two stores of each, with the static table
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean

import numpy as np
import numpy.typing as npt

import evidence
import evidence_engine
from brimful.core.decision import RETRIEVED_KINDS
from brimful.embedding import embedder_for
from brimful.engine import Engine
from brimful.protocols import Embedder, Purpose
from brimful.records import Memory
from evidence_data import Talk, parse_options
from tables import Section, table
from unseen_data import Collection, Kind, collections

BUDGETS = (2_000, 8_000)
TITLE = "Unseen collections"
ABOUT = f"""Relevance and the thresholds of the default policy were chosen by one half of the customers, topics and
people of these collections. The numbers are from the other half. Recall is the share of what a question needs that is
in {BUDGETS[0]:,} or {BUDGETS[1]:,} tokens, and "tokens" what this takes on average. Noise is the mean number of tokens
that questions bring which the store cannot answer.

- tau2-bench: customers of a bank, and the documents that an agent needs to help each of them, up to 30 of 698. The
  message is the whole of what the customer wants. Noise: PrefEval's questions.
- PrefEval, memories: a user with 300 preferences, and questions that hardly share a word with the one that matters.
  Noise: small talk, sums and the like.
- PrefEval, chat: 10 preferences among 632 messages about other things. Noise: the same questions without the
  preferences.
- MemDaily: about 220 messages of each person, in Chinese. Some messages say the same in other words, but only one
  of them counts. Noise: questions about another person's plans. The small encoder reads English only.

"Brimful" is the engine with its default policy and no history. It may shorten a long text to the passages that match,
which counts as found. The default leaves out what is unlikely to help; "price `full`" shows what the ranking finds if
it fills the budget, as the other ways do with the best whole texts that fit.

The data does not come along. Clone sierra-research/tau2-bench as `tau2_bench`, amazon-science/PrefEval as `prefeval`
and nuster1128/MemSim as `memdaily` into a folder:

    BENCH_DATA=folder python benchmarks/run_all.py --only unseen"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The share of the evidence in the context of a question, None if the store cannot answer it, and the tokens."""

    recall: float | None
    tokens: int


Outcomes = dict[int, list[Outcome]]
"""Of all questions, by budget."""


class Cached:
    """An embedder that remembers: most texts are in several stores, and searched in several ways."""

    def __init__(self, embedder: Embedder) -> None:
        """Remember the vectors of this embedder."""
        self.id = embedder.id
        self.languages = getattr(embedder, "languages", None)
        self._embedder, self._known = embedder, dict[tuple[str, Purpose], npt.NDArray[np.float32]]()

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> npt.NDArray[np.float32]:
        """Embed the texts that are new."""
        new = [text for text in dict.fromkeys(texts) if (text, purpose) not in self._known]
        if new:
            vectors = await self._embedder.embed(new, purpose)
            self._known |= {(text, purpose): vector for text, vector in zip(new, np.asarray(vectors), strict=True)}
        return np.stack([self._known[text, purpose] for text in texts])

    async def close(self) -> None:
        """Keep it open for the next store."""


def report(data: Path | None, *, quick: bool) -> Section:
    """Measure every way on every collection of the folder."""
    found = collections(data, "held") if data else []
    if not found:
        return Section(TITLE, ABOUT, ("There was no data folder with such collections.",))
    names = ("static",) if quick else ("static", "small")
    embedders = {name: Cached(embedder) for name in names if (embedder := embedder_for(name))}
    return Section(TITLE, ABOUT, tuple(_table(each, embedders, quick=quick) for each in found))


def _table(collection: Collection, embedders: dict[str, Cached], *, quick: bool) -> str:
    stores = [*collection.stores[:1], *collection.stores[1:][-1:]] if quick else collection.stores
    rows = []
    for way, measure in _ways(collection, embedders).items():
        print(f"  unseen: {collection.name}, {way}", flush=True)
        rows.append([way, *_cells([measure(talk) for talk in stores])])
    asked = sum(bool(question.evidence) for talk in stores for question in talk.questions)
    head = [f"{collection.name}: {asked} questions"]
    head += [f"{name}{budget:,}" for budget in BUDGETS for name in ("recall in ", "tokens of ", "noise in ")]
    return table(head, rows)


def _ways(collection: Collection, embedders: dict[str, Cached]) -> dict[str, Callable[[Talk], Outcomes]]:
    spoken = {
        name: each
        for name, each in embedders.items()
        if each.languages is None or collection.language in each.languages
    }
    choices: dict[str, Callable[[evidence.Case], evidence.Chosen]] = {
        "BM25": evidence.by_bm25,
        **{f"vectors, {name}": partial(evidence.by_vectors, embedder=each) for name, each in spoken.items()},
        **{
            f"BM25 and {name}, by rank": partial(evidence.by_rank_fusion, embedder=each)
            for name, each in spoken.items()
        },
    }
    return {
        **{way: partial(_choose, make=make) for way, make in choices.items()},
        "**Brimful, full text alone**": partial(_build, kind=collection.kind, embedder="none"),
        **{
            f"**Brimful, {name}**": partial(_build, kind=collection.kind, embedder=each)
            for name, each in spoken.items()
        },
        "**Brimful, static, price `full`**": partial(
            _build, kind=collection.kind, embedder=embedders["static"], overrides={"price": "full"}
        ),
    }


def _cells(outcomes: Sequence[Outcomes]) -> Iterator[str]:
    for budget in BUDGETS:
        of_all = [each for store in outcomes for each in store[budget]]
        answerable = [each for each in of_all if each.recall is not None]
        yield f"{100 * fmean(each.recall or 0.0 for each in answerable):.1f}"
        yield _mean_tokens(answerable)
        yield _mean_tokens([each for each in of_all if each.recall is None])


def _mean_tokens(outcomes: Sequence[Outcome]) -> str:
    return f"{fmean(each.tokens for each in outcomes):,.0f}" if outcomes else "–"


def _choose(talk: Talk, make: Callable[[evidence.Case], evidence.Chosen]) -> Outcomes:
    case = evidence.make_case(talk)
    chosen = make(case)
    return {
        budget: [
            _outcome(talk, number, {talk.turns[at].id: case.lines[at] for at in chosen(number, budget)})
            for number in range(len(talk.questions))
        ]
        for budget in BUDGETS
    }


def _outcome(talk: Talk, number: int, costs: dict[str, int]) -> Outcome:
    needed = talk.questions[number].evidence
    return Outcome(len(costs.keys() & needed) / len(needed) if needed else None, sum(costs.values()))


def _build(talk: Talk, kind: Kind, embedder: Embedder | str, overrides: Mapping[str, object] | None = None) -> Outcomes:
    return asyncio.run(_builds(talk, kind, embedder, overrides or {}))


async def _builds(talk: Talk, kind: Kind, embedder: Embedder | str, overrides: Mapping[str, object]) -> Outcomes:
    async with Engine("sqlite://", model=evidence.MODEL, embedder=embedder) as engine:
        if kind == "room":
            await engine.post_many(list(evidence_engine.messages(talk)))
        else:
            await engine.remember_many([Memory(id=turn.id, content=turn.text) for turn in talk.turns])
        await engine.wait_indexed()
        return {
            budget: [
                _outcome(
                    talk,
                    number,
                    await _costs(engine, talk, question.text, {**evidence_engine.only_related(budget), **overrides}),
                )
                for number, question in enumerate(talk.questions)
            ]
            for budget in BUDGETS
        }


async def _costs(engine: Engine, talk: Talk, message: str, overrides: Mapping[str, object]) -> dict[str, int]:
    """Return what a context includes of the store, with its tokens."""
    context = await engine.assemble(
        room=evidence_engine.ROOM,
        message=message,
        sender=talk.asker,
        window=evidence_engine.WINDOW,
        now=max((turn.at or 0.0) for turn in talk.turns),
        overrides=overrides,
        save=False,
    )
    included = [each for each in context.decisions if each.included and each.kind.startswith(RETRIEVED_KINDS)]
    return {each.id.removesuffix("/recalled"): each.cost for each in included}


if __name__ == "__main__":
    options = parse_options(__doc__)
    print(report(options.data, quick=options.quick).markdown())
