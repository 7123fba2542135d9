"""Whether a model answers better: questions about long conversations, asked with the contexts of several systems.

BENCH_DATA=folder python benchmarks/answers.py prompts OUT       write the prompts of all systems and variants
python benchmarks/answers.py ask OUT --model FILE.gguf          answer them with llama.cpp; continues where it stopped
python benchmarks/answers.py ask OUT --url http://host/v1       answer them with any server for chat completions
python benchmarks/answers.py score OUT                          print the tables

The questions are LoCoMo's and REALTALK's, about half of the conversations of each. Everything was chosen by the answers
about one half, `CHOICE`, and is reported for the other.
"""

import argparse
import asyncio
import json
import re
import string
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from Stemmer import Stemmer

import evidence
import evidence_engine
from brimful.core.context import Context
from brimful.core.labels import RELATED_CLOSE, RELATED_OPEN
from brimful.embedding import StaticEmbedder
from brimful.engine import Engine
from evidence_data import ADVERSARIAL, Talk, talks

READER = "qwen2.5-coder-1.5b-instruct"
COMPLETION = 256  # tokens kept free for the answer, of a short phrase
BUDGET = 2_000  # tokens for the turns that other systems choose
QUESTIONS = {"LoCoMo": 300, "REALTALK": 200}
CHOICE = ("conv-26", "conv-30", "Chat_1", "Chat_2")
"""The conversations by which everything was chosen; the tables are about the others."""
KINDS = {
    "LoCoMo": {1: "several turns", 2: "time", 3: "open", 4: "one turn"},
    "REALTALK": {1: "several turns", 2: "time", 3: "open"},
}
INSTRUCTION = """You answer questions about the conversation of {who}. Answer with a short phrase, in the words of the
conversation where possible. If you are asked when something happened, work out the date from the dates in the
conversation, and write the day, the month as a word and the year. Answer with the phrase alone, without an
explanation.""".replace("\n", " ")

RESOLVED = {"layout.resolve_times": True}
DAYS = {"layout.history_days": True}
BOTH = RESOLVED | DAYS
VARIANTS: dict[str, tuple[dict[str, Any], Sequence[int]]] = {
    "plain": ({}, (2_048, 4_096, 8_192)),
    "times": (RESOLVED, (2_048, 8_192)),
    "days": (DAYS, (2_048, 8_192)),
    "times, days": (BOTH, (2_048, 4_096, 8_192)),
    "times, days, best first": (BOTH | {"layout.order": "best-first"}, (2_048, 8_192)),
    "times, days, by time": (BOTH | {"layout.order": "time"}, (2_048, 8_192)),
    **{
        f"times, days, {share:.0%} of the best": (BOTH | {"min_share_of_best": share}, (2_048, 4_096, 8_192))
        for share in (0.02, 0.05, 0.1, 0.2)
    },
    "times, days, thrifty": (BOTH | {"price": "thrifty"}, (4_096, 8_192)),
    "times, days, full": (BOTH | {"price": "full"}, (2_048, 8_192)),
}
"""Overrides of the default policy, and the windows in which each is tried."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A question with the context of a system, and what is in it."""

    collection: str
    talk: str
    question: int
    kind: str
    system: str
    window: int
    messages: list[tuple[str, str]]
    gold: str
    recall: float
    items: int


def sample(name: str, conversations: Sequence[Talk]) -> Iterator[Talk]:
    """Yield conversations with a part of their questions, evenly spread."""
    whole = sum(len(talk.questions) for talk in conversations)
    for talk in conversations:
        share = round(QUESTIONS[name] * len(talk.questions) / whole)
        count = min(share, len(talk.questions))
        yield replace(talk, questions=[talk.questions[n * len(talk.questions) // count] for n in range(count)])


def make_prompts(name: str, talk: Talk) -> Iterator[Prompt]:
    """Yield the prompts of all systems for the questions about a conversation."""
    who = " and ".join(dict.fromkeys(turn.speaker for turn in talk.turns))
    instruction = INSTRUCTION.format(who=who)
    numbers = {turn.id: number for number, turn in enumerate(talk.turns)}
    shown = asyncio.run(_engine_prompts(talk, instruction))
    ways = _other_ways(talk)
    for number, asked in enumerate(talk.questions):
        base = Prompt(
            collection=name,
            talk=talk.name,
            question=number,
            kind=KINDS[name].get(asked.category, "other"),
            system="nothing",
            window=0,
            messages=[("system", instruction), ("user", asked.text)],
            gold=asked.answer.split(";")[0] if KINDS[name].get(asked.category) == "open" else asked.answer,
            recall=0.0,
            items=0,
        )
        yield base
        evidence_turns = sorted(numbers[id] for id in asked.evidence)
        for system, chosen in {"the evidence": evidence_turns, **{each: ways[each](number) for each in ways}}.items():
            inside = {talk.turns[at].id for at in chosen}
            yield replace(
                base,
                system=system,
                window=BUDGET,
                messages=[base.messages[0], ("user", _block(talk, chosen)), base.messages[1]],
                recall=len(inside & asked.evidence) / len(asked.evidence),
                items=len(chosen),
            )
        for variant, window, context in shown[number]:
            inside = {each.id.removesuffix("/recalled") for each in context.decisions if each.included}
            messages = [(each["role"], each["content"]) for each in context.request["messages"]]
            built = replace(
                base,
                system=variant,
                window=window,
                messages=messages,
                recall=len(inside & asked.evidence) / len(asked.evidence),
                items=len(inside & numbers.keys()),
            )
            yield built
            if variant == "times, days" and messages[-2][1].startswith(RELATED_OPEN):
                joined = [*messages[:-2], ("user", f"{messages[-2][1]}\n\n{messages[-1][1]}")]
                yield replace(built, system="times, days, one message", messages=joined)


def _other_ways(talk: Talk) -> dict[str, Any]:
    case = evidence.make_case(talk)
    embedder = StaticEmbedder()
    ways = {
        "newest turns": evidence.by_recency(case),
        "BM25": evidence.by_bm25(case),
        "vectors": evidence.by_vectors(case, embedder),
        "BM25 and vectors, by rank": evidence.by_rank_fusion(case, embedder),
    }
    return {name: lambda number, way=way: sorted(way(number, BUDGET)) for name, way in ways.items()}


def _block(talk: Talk, chosen: Iterable[int]) -> str:
    lines, day = [], ""
    for at in chosen:
        turn = talk.turns[at]
        if turn.heading() != day:
            lines.append(day := turn.heading())
        lines.append(turn.line())
    return RELATED_OPEN + "".join(lines) + RELATED_CLOSE


async def _engine_prompts(talk: Talk, instruction: str) -> list[list[tuple[str, int, Context]]]:
    """Return the contexts of all variants for each question: a room with its history, as the engine builds it."""
    now = max((turn.at or 0.0) for turn in talk.turns)
    with tempfile.TemporaryDirectory() as folder:
        async with Engine(f"sqlite:///{folder}/t.db", model=READER, retrieval=evidence_engine.UNCACHED) as engine:
            await engine.post_many(list(evidence_engine.messages(talk)))
            await engine.index()
            return [
                [
                    (
                        name,
                        window,
                        await engine.assemble(
                            room=evidence_engine.ROOM,
                            message=asked.text,
                            sender=talk.asker,
                            system=instruction,
                            now=now,
                            window=window,
                            completion=COMPLETION,
                            overrides=overrides,
                            save=False,
                        ),
                    )
                    for name, (overrides, windows) in VARIANTS.items()
                    for window in windows
                ]
                for asked in talk.questions
            ]


# -- scores ----------------------------------------------------------------------------------------------------------

_MONTHS = "january february march april may june july august september october november december".split()
_ISO_DATE = re.compile(r"\b(\d{4})-(\d\d)-(\d\d)\b")
_AMERICAN_DATE = re.compile(rf"\b({'|'.join(_MONTHS)})\s+(\d{{1,2}})(?:st|nd|rd|th)?,?\s+(\d{{4}})\b", re.IGNORECASE)
_ORDINAL = re.compile(r"\b(\d{1,2})(?:st|nd|rd|th)\b", re.IGNORECASE)
_PUNCTUATION = str.maketrans(dict.fromkeys(string.punctuation + "’‘“”", "") | {"-": " ", "/": " "})
_stem = Stemmer("porter").stemWords


def token_f1(answer: str, gold: str) -> float:
    """Return the F1 of an answer's words as LoCoMo measures it: stemmed, without articles, with dates in one form.

    >>> token_f1("on May 7th, 2023", "7 May 2023")
    0.8571428571428571
    """
    given, wanted = _words(answer), _words(gold)
    common = sum((Counter(given) & Counter(wanted)).values())
    return 2 * common / (len(given) + len(wanted)) if common else 0.0


def _words(text: str) -> list[str]:
    text = _ISO_DATE.sub(lambda date: f"{int(date[3])} {_month(int(date[2]))} {date[1]}", text)
    text = _AMERICAN_DATE.sub(r"\2 \1 \3", text)
    text = _ORDINAL.sub(r"\1", text).lower().translate(_PUNCTUATION)
    return _stem([word for word in text.split() if word not in ("a", "an", "the", "and")])


def _month(number: int) -> str:
    return _MONTHS[number - 1] if 1 <= number <= len(_MONTHS) else str(number)


def score(kind: str, answer: str, gold: str) -> float:
    """Return the F1 of an answer; where several things are asked for, the mean over what was best for each."""
    line = answer.split("\n")[0].strip()
    if kind != "several turns":
        return token_f1(line, gold)
    given = line.split(",")
    return float(np.mean([max(token_f1(part, wanted) for part in given) for wanted in gold.split(",")]))


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return a 95 % interval of a mean, by bootstrap over the questions."""
    array = np.asarray(values)
    rows = np.random.default_rng(0).integers(0, len(array), (2_000, len(array)))
    low, high = np.percentile(array[rows].mean(1), [2.5, 97.5])
    return float(low), float(high)
