"""Replay recorded conversations, and measure what each way to fill a window would have lost and cost.

The conversation itself says what was needed: names, numbers and ids of a recorded answer that came up a few times
before are facts that the model had to see. No model is called, unless there is a provider: then the model answers
again, and the facts that it says are counted.
"""

import json
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from itertools import accumulate, pairwise, takewhile
from typing import Any, Final, Literal

import msgspec
import numpy as np

from brimful.assembly.fit import fit
from brimful.core.context import Context
from brimful.core.model import CacheRule, ModelInfo
from brimful.core.prompt import Prompt, TokenCounter
from brimful.counting import counter_for
from brimful.engine.engine import Engine
from brimful.errors import BudgetExceeded, InvalidValue, MissingExtra, ProviderError
from brimful.formats.openai import write_openai_messages
from brimful.models import request_cost
from brimful.protocols import Provider
from brimful.records import Message
from brimful.wires import find_wire
from brimful.wires.openai_chat import read_request

Way = Literal["newest", "fit", "memory"]
WAYS: Final[tuple[Way, ...]] = ("newest", "fit", "memory")
"""The newest messages that fit, as most programs do; `brimful.fit`; and the engine, which searches older messages."""

_RARE: Final = 0.01  # of the messages before: a word in more of them is no fact
_RARE_MESSAGES: Final = 3  # … but a word in this many is rare in a short conversation, too
_MAX_EXAMPLES: Final = 5
_SAMPLES: Final = 2_000  # of a bootstrap
_EXTRA_FIELDS: Final = ("id", "timestamp", "metadata")  # of exported messages; no provider accepts them
_NO_RULE: Final = CacheRule(minimum_tokens=0)
_WORD: Final = re.compile(r"\w[\w.@/-]+\w")
_SENTENCE_START: Final = re.compile(r"(?:^|[.!?:*\n]\s*)[\W_]*$")

Wire = dict[str, Any]


class Figures(msgspec.Struct, kw_only=True):
    """What one way showed and cost in the replayed requests.

    - `shown` of `facts` were in the request; `tasks` requests had the first message of the user, word for word.
    - `broken` requests had tool results without their call; `refused` ones did not fit at all.
    - `cached` tokens of `input` repeat the beginning of the request before, and are billed as cached.
    - `answered` of `facts` were in the answers of the model, if it was asked; `answered_share` is a 95 % interval of
      their share. `failed` requests had no answer, and `output` are the tokens of all answers.
    """

    facts: int = 0
    shown: int = 0
    answered: int | None = None
    answered_share: tuple[float, float] | None = None
    failed: int = 0
    output: int = 0
    tasks: int = 0
    broken: int = 0
    refused: int = 0
    input: int = 0
    cached: int = 0
    cost: Decimal | None = None


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """A fact that the newest messages no longer showed and Brimful did, `distance` messages after its last mention."""

    room: str
    answer: int
    word: str
    distance: int
    way: Way


class Report(msgspec.Struct, kw_only=True):
    """What was measured in one window: of all `answers`, `over` had more history than fits, and `requests` of them,
    the newest ones, were replayed.
    """  # noqa: D205 - one sentence

    model: str
    window: int
    completion: int
    conversations: int
    messages: int
    answers: int
    over: int = 0
    requests: int = 0
    ways: dict[Way, Figures] = msgspec.field(default_factory=lambda: {way: Figures() for way in WAYS})
    examples: list[Example] = msgspec.field(default_factory=list)


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded conversation: its messages, and the same in OpenAI's form."""

    room: str
    records: list[Message]
    rows: list[list[Wire]]

    @classmethod
    def of(cls, room: str, records: Sequence[Message]) -> "Recording":
        """Return the recording of a room's messages, in order."""
        visible = [record for record in records if not (record.hidden or record.superseded)]
        rows = [[_plain(row) for row in write_openai_messages(each)] for each in visible]
        return cls(room=room, records=visible, rows=rows)

    @property
    def answers(self) -> list[int]:
        """The positions of answers: messages of the assistant after one of somebody else."""
        roles = [record.role for record in self.records]
        return [i for i, (before, role) in enumerate(pairwise(roles), start=1) if role == "assistant" != before]

    def before(self, position: int) -> list[Wire]:
        """Return the conversation before a position, in OpenAI's form."""
        return [row for rows in self.rows[:position] for row in rows]


async def measure(
    recordings: Sequence[Recording],
    engine: Engine,
    *,
    model: ModelInfo,
    windows: Sequence[int],
    completion: int,
    requests: int,
    provider: Provider | None = None,
    on_progress: Callable[[float], None] = lambda _: None,
) -> list[Report]:
    """Replay the newest answers of each conversation that did not fit, in each window; return a report of each window.

    `engine` has an empty store, which the messages are written to as the conversation goes on. `requests` is how many
    answers of a conversation are replayed at most. The model of the `provider` answers again where the recorded answer
    has facts.
    """
    reader = Reader(provider, model.id, completion) if provider else None
    reports = [
        Report(
            model=model.id,
            window=window,
            completion=completion,
            conversations=len(recordings),
            messages=sum(len(each.records) for each in recordings),
            answers=sum(len(each.answers) for each in recordings),
        )
        for window in windows
    ]
    for done, recording in enumerate(recordings):
        replay = _Replay(recording, engine, Sizes(model), reader)

        def report_part(share: float, done: int = done) -> None:
            on_progress((done + share) / len(recordings))

        await replay.run(reports, requests, report_part)
    for report in reports:
        for way, figures in report.ways.items():
            figures.cost = _get_cost(model, figures)
            if reader and figures.answered is not None:
                figures.answered_share = reader.interval(report.window, way)
    if reader and reader.error and not reader.answers:
        raise reader.error
    return reports


class Reader:
    """Lets a model answer the replayed requests, and counts the facts that it says."""

    def __init__(self, provider: Provider, model: str, completion: int) -> None:
        """Use a provider for OpenAI's chat completions."""
        if not find_wire(provider.wire).has_openai_messages:
            raise InvalidValue("answers", f"must be a server for OpenAI's chat completions, not {provider.route}")
        self.answers = 0
        self.error: ProviderError | None = None
        self._provider = provider
        self._fields = {"model": model, "max_completion_tokens": completion}
        self._counts: dict[tuple[int, Way], list[tuple[int, int]]] = defaultdict(list)

    async def ask(self, window: int, way: Way, figures: Figures, messages: Sequence[Wire], facts: set[str]) -> None:
        """Add what the model says to the figures. A request that fails counts as an answer without a fact."""
        answered = 0
        try:
            reply = await self._provider.send({**self._fields, "messages": list(messages)})
        except ProviderError as error:
            figures.failed += 1
            self.error = error
        else:
            self.answers += 1
            answered = len(facts & set(_WORD.findall(reply.text.casefold())))
            figures.output += reply.usage.completion if reply.usage else 0
        figures.answered = (figures.answered or 0) + answered
        self._counts[window, way].append((answered, len(facts)))

    def interval(self, window: int, way: Way) -> tuple[float, float]:
        """Return a 95 % interval of the share of facts that were answered, by bootstrap over the requests."""
        counts = np.array(self._counts[window, way])
        sums = counts[np.random.default_rng(0).integers(0, len(counts), (_SAMPLES, len(counts)))].sum(1)
        low, high = np.percentile(sums[:, 0] / sums[:, 1], [2.5, 97.5])
        return float(low), float(high)


class Sizes:
    """Counts messages one by one, each once."""

    def __init__(self, model: ModelInfo) -> None:
        self.model = model
        self.counter: TokenCounter = counter_for(model)
        self._known: dict[bytes, int] = {}

    def count(self, message: Wire) -> int:
        """Return the tokens of a message in a request."""
        key = msgspec.json.encode(message)
        if key not in self._known:
            parsed = read_request({"model": self.model.id, "messages": [message]})
            counted = self.counter.prompt(Prompt(model=self.model.id, messages=parsed.messages))
            self._known[key] = counted.tokens - self.counter.request_overhead()
        return self._known[key]

    def total(self, messages: Sequence[Wire]) -> int:
        """Return the tokens of a request."""
        return sum(map(self.count, messages)) + self.counter.request_overhead()

    def keep_newest(self, messages: Sequence[Wire], limit: int) -> list[Wire]:
        """Return the system prompt and the newest messages that fit, whatever belongs together."""
        system = list(takewhile(lambda message: message["role"] == "system", messages))
        room = limit - self.total(system)
        rest = messages[len(system) :]
        start = len(rest)
        while start and (room := room - self.count(rest[start - 1])) >= 0:
            start -= 1
        return [*system, *rest[start:]]


class _Replay:
    """One conversation, answer by answer."""

    def __init__(self, recording: Recording, engine: Engine, sizes: Sizes, reader: Reader | None) -> None:
        self._recording = recording
        self._reader = reader
        self._engine = engine
        self._sizes = sizes
        self._mentions: dict[str, list[int]] = defaultdict(list)
        for index, rows in enumerate(recording.rows):
            for word in _words(rows):
                self._mentions[word].append(index)
        self._task = next((_text(rows) for rows in recording.rows if rows[0]["role"] == "user"), "")
        self._last: dict[tuple[int, Way], Sequence[Wire]] = {}
        self._contexts: dict[int, Context] = {}

    async def run(self, reports: Sequence[Report], requests: int, on_progress: Callable[[float], None]) -> None:
        """Add what is measured to the reports."""
        answers = self._recording.answers
        sizes = list(accumulate((sum(map(self._sizes.count, rows)) for rows in self._recording.rows), initial=0))
        replayed = {}
        for report in reports:
            limit = report.window - report.completion - self._sizes.counter.request_overhead()
            over = [i for i in answers if sizes[i] > limit]
            report.over += len(over)
            report.requests += len(over[-requests:])
            replayed[report.window] = set(over[-requests:])
        moments = sorted(set().union(*replayed.values()))
        written = 0
        for done, index in enumerate(moments, start=1):
            await self._engine.post_many(self._recording.records[written:index])
            await self._engine.wait_indexed()
            written = index
            for report in reports:
                if index in replayed[report.window]:
                    await self._replay(report, index)
            on_progress(done / len(moments))

    async def _replay(self, report: Report, index: int) -> None:
        facts = self._find_facts(index)
        shown: dict[Way, set[str]] = {}
        for way in WAYS:
            figures = report.ways[way]
            try:
                messages = await self._get_messages(way, report, index)
            except BudgetExceeded:
                figures.refused += 1
                messages = []
            shown[way] = facts & _words(messages)
            if self._reader and facts and messages:
                await self._reader.ask(report.window, way, figures, messages, facts)
            figures.facts += len(facts)
            figures.shown += len(shown[way])
            figures.tasks += self._task in _text(messages)
            figures.broken += _is_broken(messages)
            tokens = self._sizes.total(messages)
            figures.refused += way == "newest" and tokens > report.window - report.completion
            figures.input += tokens
            figures.cached += self._count_cached(self._last.get((report.window, way), ()), messages)
            self._last[report.window, way] = messages
        for way in WAYS[1:]:
            self._add_example(report, index, way, shown[way] - shown["newest"])

    def _find_facts(self, index: int) -> set[str]:
        """Return names, numbers and ids of an answer that came up before, but not in the message that it answers."""
        rare = max(_RARE_MESSAGES, index * _RARE)
        words = set(_find_names(_text(self._recording.rows[index]))) - _words(self._recording.rows[index - 1])
        return {word for word in words if 0 < bisect_left(self._mentions[word], index) <= rare}

    async def _get_messages(self, way: Way, report: Report, index: int) -> Sequence[Wire]:
        before = self._recording.before(index)
        limit = report.window - report.completion
        if way == "newest":
            return self._sizes.keep_newest(before, limit)
        if way == "fit":
            context = fit(
                {"model": self._sizes.model.id, "messages": before},
                model=self._sizes.model,
                window=report.window,
                completion=report.completion,
                previous=self._contexts.get(report.window),
                now=self._recording.records[index].at,
            )
            self._contexts[report.window] = context
        else:
            context = await self._engine.assemble(
                room=self._recording.room,
                model=self._sizes.model,
                window=report.window,
                completion=report.completion,
                wire="openai",
                now=self._recording.records[index].at,
            )
        messages: list[Wire] = context.request["messages"]
        return messages

    def _count_cached(self, before: Sequence[Wire], messages: Sequence[Wire]) -> int:
        same = takewhile(lambda pair: pair[0] == pair[1], zip(before, messages, strict=False))
        tokens = sum(self._sizes.count(message) for message, _ in same)
        rule = self._sizes.model.cache or _NO_RULE
        return tokens if tokens >= rule.minimum_tokens else 0

    def _add_example(self, report: Report, index: int, way: Way, words: set[str]) -> None:
        if not words or len(report.examples) >= _MAX_EXAMPLES or any(each.answer == index for each in report.examples):
            return
        word = min(words, key=lambda word: (word.isalpha(), len(self._mentions[word]), word))
        mentions = self._mentions[word]
        distance = index - mentions[bisect_left(mentions, index) - 1]
        report.examples.append(Example(room=self._recording.room, answer=index, word=word, distance=distance, way=way))


def _plain(row: Wire) -> Wire:
    return {key: value for key, value in row.items() if key not in _EXTRA_FIELDS}


def _texts(messages: Sequence[Wire]) -> Iterator[str]:
    for message in messages:
        content = message.get("content") or ""
        yield content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)
        for call in message.get("tool_calls") or ():
            yield _read_arguments(call["function"]["arguments"])


def _read_arguments(arguments: str) -> str:
    """Return the values of a call, without the names of its parameters."""
    try:
        values = json.loads(arguments)
    except ValueError:
        return arguments
    return " ".join(map(str, values.values())) if isinstance(values, dict) else str(values)


def _text(messages: Sequence[Wire]) -> str:
    return "\n".join(_texts(messages))


def _words(messages: Sequence[Wire]) -> set[str]:
    return set(_WORD.findall(_text(messages).casefold()))


def _find_names(text: str) -> Iterator[str]:
    """Yield words with a digit or a sign, and those with a capital letter that no sentence begins with.

    >>> list(_find_names("Yes. Order W-17 of Ada goes out today, says ada@example.org."))
    ['w-17', 'ada', 'ada@example.org']
    """
    for match in _WORD.finditer(text):
        word = match[0]
        is_name = (
            word != word.lower() and _SENTENCE_START.search(text, max(0, match.start() - 8), match.start()) is None
        )
        if is_name or not word.replace("-", "").isalpha():
            yield word.casefold()


def _is_broken(messages: Sequence[Wire]) -> bool:
    calls = {call["id"] for message in messages for call in message.get("tool_calls") or ()}
    return any(message["role"] == "tool" and message["tool_call_id"] not in calls for message in messages)


def _get_cost(model: ModelInfo, figures: Figures) -> Decimal | None:
    try:
        found = request_cost(model, figures.input, figures.output, figures.cached)
    except MissingExtra:
        return None
    return None if found is None else found.total
