"""How fast and how exactly tokens are counted: ours, tiktoken, litellm. On texts that no cache has seen."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import count, islice
from pathlib import Path
from statistics import median
from typing import Any

import strict
from isolated import Failure, Isolated
from peers import MODEL, load
from tables import Section, duration, table, times
from texts import Texts

MESSAGES = 4_000
A_MESSAGE = 260  # characters: about 60 tokens
LONG = 1_000_000  # characters
ROUNDS = 5
LIMIT_SECONDS = 20.0

ABOUT = f"""Messages have about 60 tokens each, {MESSAGES:,} per round. The long text is {LONG:,} characters of
prose, code, JSON and other scripts. Medians of {ROUNDS} rounds, each on different texts. "Batch" passes all
messages in one call. "Differences" are messages whose count differs from tiktoken's. Brimful caches counts;
none of these texts were counted before."""

HOSTILE = f"""Hostile texts of {LONG:,} characters each. A library that takes longer than {LIMIT_SECONDS:.0f} s is
stopped. "Panics" is an error that `except Exception` does not catch. In parentheses: the difference from
tiktoken's count, if any."""

CountAll = Callable[[Sequence[str]], list[int]]


@dataclass(frozen=True, slots=True)
class Way:
    """A way to count texts."""

    name: str
    packages: tuple[str, ...]
    count: CountAll

    def load(self) -> None:
        """Import what it needs, and count something, so that vocabularies are loaded."""
        load(self.packages)
        self.count(["warm", "up"])


@dataclass(frozen=True, slots=True)
class Speed:
    """What came out for one way."""

    messages: float
    megabytes: float
    differences: int


@dataclass(frozen=True, slots=True)
class Measured:
    """All of one way: speed on ordinary texts, seconds and count of each hostile one."""

    speed: Speed | Failure
    hostile: dict[str, "tuple[float, int] | Failure"]


def report(data: Path | None, *, quick: bool) -> Section:
    """Measure speed and exactness on ordinary texts, then time on hostile ones."""
    rounds = 1 if quick else ROUNDS
    hostile = dict(islice(_hostile_texts(), 1 if quick else None))
    found = {way.name: _measured(way, data, rounds, hostile) for way in ways()}
    return Section("Counting", ABOUT, (_speeds_table(found), HOSTILE, _hostile_table(found)))


def _measured(way: Way, data: Path | None, rounds: int, hostile: dict[str, str]) -> Measured:
    print(f"  counting: {way.name}", flush=True)
    with Isolated(way.load) as process:
        speed = process.call(measure, way, data, rounds, seconds=ROUNDS * LIMIT_SECONDS)
        answers = {name: process.call(measure_one, way, text, seconds=LIMIT_SECONDS) for name, text in hostile.items()}
    return Measured(speed, answers)


def ways() -> list[Way]:
    """Return ours first, then the peers."""
    return [
        Way("brimful", ("brimful",), _brimful),
        Way("brimful, batch", ("brimful",), _brimful_batch),
        Way("tiktoken", ("tiktoken",), _tiktoken),
        Way("tiktoken, batch", ("tiktoken",), _tiktoken_batch),
        Way("litellm", ("litellm.utils",), _litellm),
    ]


def _brimful(texts: Sequence[str]) -> list[int]:
    counter = import_module("brimful").counter(MODEL)
    return [counter.text(text).tokens for text in texts]


def _brimful_batch(texts: Sequence[str]) -> list[int]:
    return [found.tokens for found in import_module("brimful").counter(MODEL).texts(texts)]


def _tiktoken(texts: Sequence[str]) -> list[int]:
    encode = strict.reference().encode_ordinary
    return [len(encode(text)) for text in texts]


def _tiktoken_batch(texts: Sequence[str]) -> list[int]:
    return [len(tokens) for tokens in strict.reference().encode_ordinary_batch(list(texts))]


def _litellm(texts: Sequence[str]) -> list[int]:
    counter: Any = import_module("litellm.utils").token_counter
    return [counter(model=MODEL, text=text) for text in texts]


# -- ordinary texts --------------------------------------------------------------------------------------------------


def measure(way: Way, data: Path | None, rounds: int) -> Speed:
    """Count fresh messages and fresh long texts, and compare the counts with the reference."""
    messages, megabytes, differences = [], [], 0
    for texts in _sources(data, rounds):
        batch = [texts.prose(A_MESSAGE) for _ in range(MESSAGES)]
        seconds, counts = _timed(way, batch)
        messages.append(len(batch) / seconds)
        differences += sum(a != b for a, b in zip(counts, map(strict.reference_count, batch), strict=True))
        long = texts.mixed(LONG)
        seconds, counts = _timed(way, [long])
        megabytes.append(len(long.encode()) / 1e6 / seconds)
        differences += counts != [strict.reference_count(long)]
    return Speed(median(messages), median(megabytes), differences)


def _sources(data: Path | None, rounds: int) -> Iterator[Texts]:
    for _, seed in zip(range(rounds), count(1_000), strict=False):
        yield Texts(seed, data)


def _timed(way: Way, texts: Sequence[str]) -> tuple[float, list[int]]:
    began = time.perf_counter()
    counts = way.count(texts)
    return time.perf_counter() - began, counts


def _speeds_table(found: dict[str, Measured]) -> str:
    base = found["tiktoken"].speed
    head = ["way", "messages, tiktoken = 1", "long text, tiktoken = 1", "messages/s", "MB/s", "differences"]
    return table(head, [_speed_row(name, measured.speed, base) for name, measured in found.items()])


def _speed_row(name: str, speed: Speed | Failure, base: Speed | Failure) -> list[str]:
    if isinstance(speed, Failure):
        return [name, speed.reason, *("–" for _ in range(4))]
    ratios = ["–", "–"]
    if isinstance(base, Speed):
        ratios = [times(speed.messages / base.messages), times(speed.megabytes / base.megabytes)]
    return [name, *ratios, f"{speed.messages:,.0f}", f"{speed.megabytes:.1f}", f"{speed.differences:,}"]


# -- hostile texts ---------------------------------------------------------------------------------------------------


def _hostile_texts() -> Iterator[tuple[str, str]]:
    yield "spaces", " " * LONG
    yield "newlines", "\n" * LONG
    yield "the letter a", "a" * LONG
    yield "random bytes", Texts(1).bytes(LONG)
    yield "random Unicode", Texts(2).unicode(LONG)


def measure_one(way: Way, text: str) -> tuple[float, int]:
    """Return how long one text takes, and its count."""
    seconds, counts = _timed(way, [text])
    return seconds, counts[0]


def _hostile_table(found: dict[str, Measured]) -> str:
    single = {name: measured.hostile for name, measured in found.items() if "batch" not in name}
    truth = single["tiktoken"]
    rows = [[text, *(_hostile_cell(answers[text], truth[text]) for answers in single.values())] for text in truth]
    return table(["text", *single], rows)


def _hostile_cell(answer: tuple[float, int] | Failure, truth: tuple[float, int] | Failure) -> str:
    if isinstance(answer, Failure):
        return answer.reason
    seconds, tokens = answer
    return duration(seconds) + ("" if isinstance(truth, Failure) else f" ({tokens - truth[1]:+,})")
