"""Facts asked for in words that they do not share, in six languages, and messages that nothing stored can help with.

BENCH_DATA=folder python benchmarks/paraphrases.py          the questions that were kept back
BENCH_DATA=folder python benchmarks/paraphrases.py --dev    the others, to choose between ways

`paraphrases.tsv` and `unanswerable.tsv` were written before any result was seen.
"""

import argparse
import asyncio
import csv
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from statistics import fmean

import numpy as np

import multilingual
from brimful.core.decision import RETRIEVED_KINDS
from brimful.embedding.registry import embedder_for
from brimful.engine import Engine
from brimful.records import Memory, Message
from brimful.retrieval.documents import make_document
from brimful.retrieval.queries import parse_question
from evidence_data import Turn, talks
from rooms import messages
from tables import Section, percent, table

LANGUAGES = multilingual.LANGUAGES
FOLDER = Path(__file__).parent
EMBEDDERS = {"none": "full text alone", "static": "the static table", "small": "the small encoder"}
FIRST = 10  # hits in which a fact must be
TURNS = 2_000  # of the room in which facts are hidden
WINDOWS = (2_048, 4_096, 8_192)
WINDOW = 4_096  # in which the facts should be


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact as a memory or as a chat message, and a question in other words that it answers."""

    split: str
    form: str
    text: str
    question: str


@dataclass(frozen=True, slots=True)
class Found:
    """How many of the questions found their fact, by the engine and by vectors alone."""

    asked: int
    first: int
    by_vectors: int | None


@dataclass(frozen=True, slots=True)
class Noise:
    """Messages that nothing can help with: the share that brought something into the context, and its mean tokens."""

    share: float
    tokens: float


def facts(language: str) -> list[Fact]:
    """Return the facts in one language."""
    return [
        Fact(row["split"], row["form"], row["fact"], row["question"])
        for row in _rows("paraphrases.tsv")
        if row["language"] == language
    ]


def unanswerable(language: str, split: str) -> list[str]:
    """Return messages in one language that nothing in a store can help with."""
    rows = _rows("unanswerable.tsv")
    return [row["message"] for row in rows if row["language"] == language and row["split"] == split]


def notes(language: str) -> list[str]:
    """Return everyday notes in one language, to hide facts among."""
    return list(multilingual.read(language).texts.values())


def report(data: Path | None, *, quick: bool, split: str = "held") -> Section:
    """Measure the questions of one split with every embedder, and the noise beside them."""
    embedders = ("static",) if quick else tuple(EMBEDDERS)
    found = [[EMBEDDERS[name], *_memory_cells(name, split)] for name in embedders]
    rooms = [[EMBEDDERS[name], *asyncio.run(_room_cells(name, split, data))] for name in embedders]
    stored = len(facts("en")) + len(notes("en"))
    return Section(
        title="Other words",
        about=f"{sum(len(facts(code)) for code in LANGUAGES)} facts of many kinds in six languages, each with a "
        "question that shares no content word with it. Facts and questions were written before any result was seen. "
        f"These are the questions that were kept back; the others were used to choose between ways. The first table "
        f"has the facts of a language as memories, with notes about other things ({stored} in English): how many are "
        f"among the first {FIRST} hits. In brackets is what vectors alone would find. The second table has the English "
        f"facts among {TURNS:,} messages of a room: how many are among the first {FIRST} hits, and in a context with "
        f"a window of {WINDOW:,} tokens. Beside it is the noise: how many of the messages that nothing in the room can "
        "help with bring something else into the context, and how many tokens that takes on average. "
        "The aims are far: of 18 facts, 17 with the small encoder and 15 with the static table among the first "
        f"{FIRST}, at most one fewer in the window, and noise in at most 5 % of cases. "
        "`python benchmarks/paraphrases.py`",
        tables=(
            table(["memories", *LANGUAGES.values()], found),
            table(
                ["room", f"first {FIRST}", f"in {WINDOW:,} tokens", *(f"noise in {size:,}" for size in WINDOWS)], rooms
            ),
        ),
    )


def _memory_cells(name: str, split: str) -> Iterator[str]:
    for code in LANGUAGES:
        found = asyncio.run(_find_memories(name, code, split))
        yield "–" if found is None else _cell(found)


def _cell(found: Found) -> str:
    vectors = "" if found.by_vectors is None else f" ({found.by_vectors})"
    return f"{found.first} of {found.asked}{vectors}"


async def _find_memories(name: str, language: str, split: str) -> Found | None:
    embedder = None if name == "none" else embedder_for(name)
    if embedder is not None and language not in getattr(embedder, "languages", LANGUAGES):
        return None
    known = facts(language)
    memories = [
        Memory(id=f"k{at}", content=text) for at, text in enumerate([*(f.text for f in known), *notes(language)])
    ]
    asked = {f"k{at}": fact.question for at, fact in enumerate(known) if fact.split == split}
    async with Engine("sqlite://", embedder=embedder) as engine:
        await engine.remember_many(memories)
        await engine.wait_indexed()
        first = [id in await _first(engine, question, None) for id, question in asked.items()]
    by_vectors = None
    if embedder is not None:
        read = [make_document(memory).passage for memory in memories]
        passages = np.asarray(await embedder.embed(read, "passage"))
        meanings = [parse_question(question).meaning for question in asked.values()]
        queries = np.asarray(await embedder.embed(meanings, "query"))
        nearest = np.argsort(-(queries @ passages.T), axis=1)[:, :FIRST]
        by_vectors = sum(id in {memories[at].id for at in row} for id, row in zip(asked, nearest.tolist(), strict=True))
    return Found(len(asked), sum(first), by_vectors)


async def _room_cells(name: str, split: str, data: Path | None) -> list[str]:
    chosen = [fact for fact in facts("en") if fact.split == split]
    room = _hide([fact.text for fact in chosen], data)
    async with Engine("sqlite://", model="gpt-4o", embedder=name) as engine:
        await engine.post_many(room)
        await engine.wait_indexed()
        first, inside = 0, 0
        for at, fact in enumerate(chosen):
            first += f"fact{at}" in await _first(engine, fact.question, "room")
            inside += f"fact{at}" in (await _included(engine, fact.question, WINDOW))[0]
        noise = [await _noise(engine, window, split) for window in WINDOWS]
    cells = [f"{first} of {len(chosen)}", f"{inside} of {len(chosen)}"]
    return [*cells, *(f"{percent(each.share)}, {each.tokens:.0f} tokens" for each in noise)]


async def _first(engine: Engine, question: str, room: str | None) -> list[str]:
    return [hit.record.id for hit in await engine.search(question, room=room, limit=FIRST)][:FIRST]


async def _included(engine: Engine, question: str, window: int) -> tuple[set[str], list[int]]:
    """Return what is in the context of a question, and the tokens of what was found."""
    context = await engine.assemble(room="room", message=question, window=window, save=False)
    included = [each for each in context.decisions if each.included]
    return (
        {each.id.removesuffix("/recalled") for each in included},
        [each.cost for each in included if each.kind.startswith(RETRIEVED_KINDS)],
    )


async def _noise(engine: Engine, window: int, split: str) -> Noise:
    costs = [(await _included(engine, each, window))[1] for each in unanswerable("en", split)]
    return Noise(fmean(bool(each) for each in costs), fmean(sum(each) for each in costs))


def _hide(texts: Sequence[str], data: Path | None) -> list[Message]:
    """Return a room with the texts at random places."""
    random = Random(5)
    turns = [*islice(_conversations(data), TURNS)]
    for at, text in enumerate(texts):
        turns.insert(random.randrange(len(turns)), Turn(f"fact{at}", "Sam", text, None))
    return [
        Message(id=turn.id, room="room", sender=turn.speaker, content=turn.text, at=1.7e9 + at)
        for at, turn in enumerate(turns)
    ]


def _conversations(data: Path | None) -> Iterator[Turn]:
    if data is None:
        for message in messages(TURNS):
            yield Turn(message.id, message.sender, str(message.content), None)
        return
    for name, each in talks(data).items():
        for number, talk in enumerate(each):
            yield from (Turn(f"{name} {number} {turn.id}", turn.speaker, turn.text, None) for turn in talk.turns)


def _rows(name: str) -> Iterator[dict[str, str]]:
    with (FOLDER / name).open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)


def main() -> None:
    """Print the section."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dev", action="store_true", help="the questions that were not kept back")
    data = os.environ.get("BENCH_DATA")
    split = "dev" if parser.parse_args().dev else "held"
    print(report(Path(data) if data else None, quick=False, split=split).markdown())


if __name__ == "__main__":
    main()
