"""What the janitor finds and saves: floods in real messages, what a flood costs, and a year of a busy room in a window.

python benchmarks/janitor.py                    the year and the flood, generated
BENCH_DATA=folder python benchmarks/janitor.py  … and families in the SMS Spam Collection (sms_spam/SMSSpamCollection)
"""

import asyncio
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import mean

import numpy as np

import evidence_data
import evidence_engine
from brimful.core.context import Context
from brimful.engine import Engine
from brimful.janitor.families import (
    MAX_FUZZY_CHARS,
    MIN_FUZZY_CHARS,
    MIN_SIMILARITY,
    find_families,
    make_shingles,
    normalize,
)
from brimful.records import Message, Summary
from evidence_data import Asked, Talk
from tables import Section, duration, table
from texts import Texts

NOW = 1_794_744_000.0
DAY = 86_400.0
WINDOW = 32_768
FLOOD = 10_000
A_DAY = 100
QUICK_A_DAY = 6
BATCH = 2_000
WINDOWS = (2_048, 4_096, 8_192)
TALKS = 3  # of each collection
QUESTIONS = 7  # every seventh of them
PEOPLE = ("Ada", "Bo", "Cy", "Di", "Ed", "Flo", "Gus", "Hal")
FACT = "The passphrase of the old vault is heliotrope-cormorant, please keep it safe."
QUESTION = "What was the passphrase of the old vault?"

ABOUT = f"""Contexts before and after the janitor runs, in a window of {WINDOW:,} tokens under the default policy: for a
flood of {FLOOD:,} messages made from a template in a room with a short conversation, and for a year of a busy room.
Summaries are extractive; no model is called. The question at the end of the year is about a message of day 120.
"Represented" are messages that are in the context themselves or through a summary. Times are processor times.

Families are measured on the SMS Spam Collection, if available, against exact similarity: every text is compared with
every other by the Jaccard index of their shingles. A detected pair is correct if the two are at least
{MIN_SIMILARITY} similar, or equal if they are short or very long. Recall is the share of such pairs that were detected.

Summaries take space from retrieved content. The last table shows the cost, if the conversations are available: the
share of annotated answer turns that is in the context itself, in windows of this many tokens under the default policy,
in conversations that the janitor processed 40 days after their end. Quotes in summaries do not count."""


@dataclass(frozen=True, slots=True)
class Found:
    """How well families were found."""

    texts: int
    families: int
    pairs: int
    precision: float
    recall: float
    seconds: float


def report(data: Path | None, *, quick: bool) -> Section:
    tables = [asyncio.run(_contexts(data, QUICK_A_DAY if quick else A_DAY))]
    collection = data / "sms_spam" / "SMSSpamCollection" if data else None
    if collection is not None and collection.exists():
        tables.append(_families(collection))
    if data is not None and not quick and (found := evidence_data.talks(data)):
        tables.append(_evidence(found))
    return Section("The janitor", ABOUT, tuple(tables))


# -- families --------------------------------------------------------------------------------------------------------


def _families(collection: Path) -> str:
    lines = [line.partition("\t") for line in collection.read_text(encoding="utf-8").splitlines()]
    rows = []
    for name, kinds in (("spam", ("spam",)), ("all", ("spam", "ham"))):
        found = measure([text for kind, _, text in lines if kind in kinds])
        shares = (found.precision, found.recall)
        counts = (found.texts, found.families, found.pairs)
        rows.append(
            [name, *(f"{count:,}" for count in counts), *(f"{share:.4f}" for share in shares), duration(found.seconds)]
        )
    head = ["SMS", "texts", "families of two or more", "pairs", "precision", "recall", "time"]
    return table(head, rows)


def measure(texts: Sequence[str]) -> Found:
    """Compare what is found with every pair there is."""
    began = time.process_time()
    found = [family.members for family in find_families(texts) if len(family.members) > 1]
    seconds = time.process_time() - began
    alike = _alike(texts)
    pairs = {pair for members in found for pair in combinations(members, 2)}
    return Found(
        texts=len(texts),
        families=len(found),
        pairs=len(pairs),
        precision=len(pairs & alike) / len(pairs),
        recall=len(pairs & alike) / len(alike),
        seconds=seconds,
    )


def _alike(texts: Sequence[str]) -> set[tuple[int, int]]:
    """Return every pair that is as much alike as a family wants, by comparing all of them."""
    plain = [normalize(text) for text in texts]
    sets = [
        make_shingles(text) if MIN_FUZZY_CHARS <= len(text) <= MAX_FUZZY_CHARS else frozenset({f"={text}"})
        for text in plain
    ]
    postings: dict[str, list[int]] = {}
    for at, pieces in enumerate(sets):
        for piece in pieces:
            postings.setdefault(piece, []).append(at)
    arrays = {piece: np.array(places) for piece, places in postings.items()}
    sizes = np.array([len(pieces) for pieces in sets])
    found: set[tuple[int, int]] = set()
    for at, pieces in enumerate(sets):
        shared = np.bincount(np.concatenate([arrays[piece] for piece in pieces]), minlength=len(sets))
        likeness = shared / (sizes + len(pieces) - shared)
        found.update((at, int(other)) for other in np.flatnonzero(likeness >= MIN_SIMILARITY) if other > at)
    return found


# -- evidence --------------------------------------------------------------------------------------------------------


def _evidence(found: dict[str, list[Talk]]) -> str:
    rows = []
    for name, talks in found.items():
        recalls = [asyncio.run(_recalls(talk)) for talk in talks[:TALKS]]
        rows += [
            [name, phase, *(f"{mean(each[phase, window] for each in recalls):.3f}" for window in WINDOWS)]
            for phase in ("before", "after")
        ]
    return table(["conversations", "", *(f"{window:,}" for window in WINDOWS)], rows, words=2)


async def _recalls(talk: Talk) -> dict[tuple[str, int], float]:
    later = max(turn.at or 0.0 for turn in talk.turns) + 40 * DAY
    questions = [question for question in talk.questions if question.evidence][::QUESTIONS]
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        async with Engine(f"sqlite:///{folder}/talk.db", model="gpt-4", clock=lambda: later) as engine:
            await engine.post_many(list(evidence_engine.messages(talk)))
            for phase in ("before", "after"):
                if phase == "after":
                    await engine.run_janitor()
                await engine.wait_indexed()
                for window in WINDOWS:
                    shares = [await _share(engine, talk, question, window) for question in questions]
                    found[phase, window] = mean(shares)
    return found


async def _share(engine: Engine, talk: Talk, question: Asked, window: int) -> float:
    context = await engine.assemble(
        room=evidence_engine.ROOM,
        message=question.text,
        sender=talk.asker,
        window=window,
        completion=window // 8,
        save=False,
    )
    inside = {id.removesuffix("/recalled") for id in context.kept}
    return len(inside & question.evidence) / len(question.evidence)


# -- contexts --------------------------------------------------------------------------------------------------------


async def _contexts(data: Path | None, a_day: int) -> str:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, messages in (("flood", _flood(data)), ("year", _year(data, a_day))):
            async with Engine(f"sqlite:///{folder}/{name}.db", model="gpt-4o", clock=lambda: NOW) as engine:
                for at in range(0, len(messages), BATCH):
                    await engine.post_many(messages[at : at + BATCH])
                await engine.wait_indexed()
                rows += [[f"{name}, {len(messages):,} messages", *row] for row in await _measured(engine)]
    head = ["room", "", "tokens", "recent", "summaries", "retrieved", "represented", "fact included", "processed in"]
    return table(head, rows, words=2)


async def _measured(engine: Engine) -> list[list[str]]:
    before = await engine.assemble(room="r", message=QUESTION, window=WINDOW, now=NOW)
    rows = [["before", *await _shown(engine, before, "–")]]
    for name in ("after", "again"):
        began = time.process_time()
        await engine.run_janitor("r")
        took = duration(time.process_time() - began)
        await engine.wait_indexed()
        context = await engine.assemble(room="r", message=QUESTION, window=WINDOW, now=NOW)
        rows.append([name, *await _shown(engine, context, took)])
    return rows


async def _shown(engine: Engine, context: Context, took: str) -> list[str]:
    parts = {part.name: part for part in context.components}
    summaries = {summary.id: summary for summary in await engine.store.summaries("r")}
    included, whole = await _represented(engine, context, summaries)
    return [
        f"{context.tokens:,}",
        *(f"{parts[name].tokens:,}" if name in parts else "0" for name in ("recent", "summaries", "older")),
        f"{included:,} of {whole:,}",
        "yes" if "heliotrope-cormorant" in str(context.request) else "no",
        took,
    ]


async def _represented(engine: Engine, context: Context, summaries: dict[str, Summary]) -> tuple[int, int]:
    places = {package.id: package.position for package in context.inputs.packages}
    represented: set[int] = set()
    for decision in context.decisions:
        if decision.included and decision.id in summaries:
            spans = summaries[decision.id].spans
            represented.update(place for first, last in spans for place in range(first, last + 1))
        elif decision.included and decision.kind.startswith("message-"):
            represented.add(places[decision.id])
    newest = await engine.store.history("r", limit=1)
    whole = newest[0].message.seq
    return len(represented & set(range(1, whole + 1))), whole


def _flood(data: Path | None) -> list[Message]:
    texts = Texts(7, data)
    messages = [_make_message(f"m{n}", texts.prose(120), NOW - 30_000 + 60 * n, PEOPLE[n % 8]) for n in range(40)]
    messages.append(_make_message("fact", FACT, NOW - 20_000, "Ada"))
    for n in range(FLOOD):
        text = f"Winner no. {n}! Claim your {n * 7 % 900 + 100} EUR gift card at http://win.example/{n * 31 % 9973}"
        messages.append(_make_message(f"spam{n}", text, NOW - 7_200 + n / 5, f"bot{n % 3}"))
    return [*messages, _make_message("end", "What was that?", NOW - 60, "Bo")]


def _year(data: Path | None, a_day: int) -> list[Message]:
    texts = Texts(11, data)
    messages = []
    for day in range(365):
        begin = NOW - (365 - day) * DAY
        for n in range(a_day):
            text = texts.prose(texts.number(40, 200))
            messages.append(_make_message(f"d{day}-{n}", text, begin + n * DAY / a_day / 2, PEOPLE[texts.number(0, 7)]))
        if day == 120:
            messages.append(_make_message("fact", FACT, begin + DAY / 2, "Ada"))
    return messages


def _make_message(id: str, text: str, at: float, sender: str) -> Message:
    return Message(id=id, room="r", content=text, sender=sender, at=at)


if __name__ == "__main__":
    folder = os.environ.get("BENCH_DATA")
    print(report(Path(folder) if folder else None, quick=False).markdown())
