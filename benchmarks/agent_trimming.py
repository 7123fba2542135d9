"""What a trimmed request of an agent still holds: the values that its next call needs, the task, and earlier results.

python benchmarks/agent_trimming.py runs.json                          recorded runs in OpenAI's form: agent_runs.py
python benchmarks/agent_trimming.py runs.json --join 8 --budgets 2000  eight runs as one; the last one is measured
python benchmarks/agent_trimming.py runs.json --ways brimful,clearing  some of the ways
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from statistics import mean, median
from typing import Any, Protocol

import strict
from agent_runs import (
    Session,
    Step,
    find_fault,
    find_lost_calls,
    find_runs,
    find_steps,
    join_runs,
    make_counter,
    system_of,
    visible_text,
)
from agent_wires import WIRES
from brimful.models import request_cost, resolve
from chart import Line, line_chart
from conversations import Messages
from isolated import START_SECONDS, Failure, Isolated
from peers import MODEL, load
from tables import Section, percent, table

BUDGETS, JOINED_BUDGETS = (1_000, 2_000), (2_000, 4_000)
WIRE_BUDGETS = (2_000,)
JOIN = 8
COMPLETION = 16  # reserved beside the budget, which is for the prompt alone
LIMIT_SECONDS = 150.0  # a way, with one budget
PARALLEL = 4  # processes
KEEP = 3  # newest results that clearing keeps, as providers do by default
TOOL = {"name": "call_tool", "description": "Call a tool of the run."}  # recordings do not have the definitions
TOOLS: dict[str, dict[str, Any]] = {
    "openai": {"tools": [{"type": "function", "function": TOOL}]},
    "responses": {"tools": [{"type": "function", **TOOL}]},
    "anthropic": {"tools": [{**TOOL, "input_schema": {"type": "object"}}]},
    "gemini": {"tools": [{"functionDeclarations": [TOOL]}]},
}
CACHE_STEP = 128  # tokens; OpenAI caches prefixes in such steps
QUICK_RUNS = 8
FIGURE = "agents.svg"
CHARTED = ("brimful", "langchain trim_messages", "clearing old results", "litellm")

ABOUT = """This section compares ways to trim the requests of an agent. Recorded runs with tools are replayed call by
call, each with a budget of tokens for the conversation, in addition to its system prompt. The run itself shows what
was needed next, so no model is involved. Only requests that exceed the budget are included.

- "Values": of the argument values that the next call took from earlier in the run, the share that the request
  contains.
- "Calls": the share of calls for which the request contains all values.
- "Task": the share of requests that contain the user's first message of the run, word for word.
- "Repeat": earlier calls of the run whose result the request shows in no form (whole, shortened, or as a line that
  says how it ended). A model would have to repeat them. In brackets: those that the request does not even mention.
- "One call away": the share of values that are in the request, or that one call of `recall` returns, by a handle in
  the request. In brackets: also by a search for the name of the call and the argument.
- "Prefix": the mean share of a request that repeats the beginning of the previous one, byte for byte.
- "Invalid": requests with results without their call, or calls without their results. OpenAI's API rejects them.
- "Over": requests larger than the budget, by a count that shares no code with any of the libraries (tiktoken's o200k
  over roles, contents, and calls as JSON).
- "Refused": requests for which the library raised an error.
- "A request": the mean processor time.
- "Input" and "cost": the tokens of all requests, including those that fit, at the prices of {model}. The beginning
  that a request shares with the previous one counts as cached, in steps of {step} tokens, from {minimum} tokens on.

Brimful's requests define a tool, as those of agents do, in addition to the budget. "Clearing old results" replaces
all but the newest three results, the oldest first, and then drops the oldest turns. langchain's `trim_messages` uses
the same independent count. Its `ContextEditingMiddleware` clears results at the budget, but has no limit: if the rest
is too large, the request exceeds the budget.

The goals are 90 % of the values and 80 % of the calls at 1,000 tokens, 97 % and 93 % at 2,000, and the task in all
requests. A way that does not start within {start} s, or takes longer than {limit} s, has that time in place of its
figures. On a busy machine, it may only have been slow.

The policy was chosen by its results on the development runs, so expect somewhat lower values on others."""


class Way(Protocol):
    """A way to make the requests of one session fit."""

    def trim(self, messages: Messages, limit: int) -> Messages:
        """Return messages that have at most `limit` tokens."""

    def recall(self, question: str, sent: Messages) -> tuple[str, str]:
        """Return what comes back by the handles that the request names, and by a search."""

    @property
    def handles(self) -> Collection[str]:
        """Everything that could be recalled."""


@dataclass(slots=True)
class Figures:
    """What was measured of one way within one budget."""

    values: list[float] = field(default_factory=list)
    near: list[float] = field(default_factory=list)
    found: list[float] = field(default_factory=list)
    full: list[float] = field(default_factory=list)
    prefix: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    calls: int = 0
    repeat: int = 0
    untraced: int = 0
    task: int = 0
    invalid: int = 0
    over: int = 0
    refused: int = 0
    input: int = 0
    cached: int = 0

    @property
    def cost(self) -> Decimal:
        """US dollars for the input of all requests."""
        found = request_cost(resolve(MODEL), self.input, 0, self.cached)
        return found.prompt if found else Decimal(0)


# -- ways ------------------------------------------------------------------------------------------------------------


class Plain:
    """Nothing can be recalled."""

    def recall(self, question: str, sent: Messages) -> tuple[str, str]:  # noqa: ARG002 - see Way
        """Return nothing."""
        return "", ""

    @property
    def handles(self) -> Collection[str]:
        """Nothing."""
        return ()


class Untrimmed(Plain):
    """The whole conversation, whatever its size: what the others are compared with."""

    def trim(self, messages: Messages, limit: int) -> Messages:  # noqa: ARG002 - see Way
        """Return all messages."""
        return messages


class Brimful:
    """`brimful.fit` as it is, or with options. Each request is given the previous context."""

    def __init__(self, wire: str = "openai", **options: Any) -> None:
        self._wire, self._options = wire, options
        self._context: Any = None
        self._tools = TOOLS[wire]
        self._extra = self._count(self._tools) - self._count({})

    def _count(self, fields: dict[str, Any]) -> int:
        context = self._fit([{"role": "user", "content": "Hi"}], 100_000, fields)
        return int(context.tokens)

    def _fit(self, messages: Messages, window: int, fields: dict[str, Any], **options: Any) -> Any:
        request = {"messages": messages} if self._wire == "openai" else WIRES[self._wire].write(messages)
        return import_module("brimful").fit(
            request | fields,
            wire=self._wire,
            model=MODEL,
            window=window,
            completion=COMPLETION,
            now=0,
            **options,
        )

    def trim(self, messages: Messages, limit: int) -> Messages:
        """Make the request fit."""
        window = limit + COMPLETION + self._extra
        self._context = self._fit(messages, window, self._tools, previous=self._context, **self._options)
        request = self._context.request
        trimmed: Messages = request["messages"] if self._wire == "openai" else WIRES[self._wire].read(request)
        return trimmed

    def recall(self, question: str, sent: Messages) -> tuple[str, str]:
        """Recall everything that the request names a handle of, and search for the question."""
        text = visible_text(sent)
        named = [handle for handle in self.handles if handle in text]
        near = "\n".join(self._context.recall(handle, query=question).text for handle in named)
        return near, self._context.recall(query=question).text

    @property
    def handles(self) -> Collection[str]:
        """The handles of all messages."""
        return self._context.items.keys() if self._context else ()


class LangChain(Plain):
    """`trim_messages` as the documentation shows it, with the count that it is judged by."""

    def __init__(self, **options: Any) -> None:
        self._utils = import_module("langchain_core.messages.utils")
        self._count, self._options = make_counter(strict.reference_count), options

    def trim(self, messages: Messages, limit: int) -> Messages:
        """Return the newest messages that fit, and the system prompt."""
        kept = self._utils.trim_messages(
            self._utils.convert_to_messages(messages),
            max_tokens=limit,
            strategy="last",
            token_counter=lambda some: self._count(self._utils.convert_to_openai_messages(some)),
            include_system=True,
            **self._options,
        )
        trimmed: Messages = self._utils.convert_to_openai_messages(kept)
        return trimmed


class Editing(Plain):
    """LangChain's middleware that clears old tool results, as an agent calls it before the model."""

    def __init__(self) -> None:
        self._utils = import_module("langchain_core.messages.utils")
        self._middleware: Any = import_module("langchain.agents.middleware")
        self._count = make_counter(strict.reference_count)

    def trim(self, messages: Messages, limit: int) -> Messages:
        """Clear all results but the newest ones if the conversation is larger than the limit."""
        convert = self._utils.convert_to_openai_messages
        edit = self._middleware.ClearToolUsesEdit(trigger=limit)
        middleware = self._middleware.ContextEditingMiddleware(
            edits=[edit], token_counter=lambda some: self._count(convert(some))
        )
        sent: list[Any] = []
        model: Any = import_module("langchain_core.language_models.fake_chat_models").FakeListChatModel(
            responses=["ok"]
        )
        request = self._middleware.ModelRequest(model=model, messages=self._utils.convert_to_messages(messages))
        middleware.wrap_model_call(request, lambda edited: sent.extend(edited.messages))
        trimmed: Messages = convert(sent)
        return trimmed


class LiteLLM(Plain):
    """litellm's `trim_messages`, which counts for itself."""

    def trim(self, messages: Messages, limit: int) -> Messages:
        """Return the newest messages, one of them cut."""
        return list(import_module("litellm.utils").trim_messages(messages, model=MODEL, max_tokens=limit))


class Clearing(Plain):
    """What context editing of providers does, and then dropping the oldest turns, so that the limit holds."""

    def __init__(self) -> None:
        self._count = make_counter(strict.reference_count)

    def trim(self, messages: Messages, limit: int) -> Messages:
        """Clear the oldest results, one at a time, then drop messages from the start."""
        system = system_of(messages)
        kept = messages[len(system) :]
        for at in [at for at, each in enumerate(kept) if each["role"] == "tool"][:-KEEP]:
            if self._count([*system, *kept]) <= limit:
                break
            kept = [*kept[:at], {**kept[at], "content": "[cleared]"}, *kept[at + 1 :]]
        while len(kept) > 1 and (kept[0]["role"] == "tool" or self._count([*system, *kept]) > limit):
            del kept[0]
        return [*system, *kept]


@dataclass(frozen=True, slots=True)
class Named:
    """A way by name: what it imports, and how it begins a session."""

    packages: tuple[str, ...]
    make: Callable[[], Way]


WAYS = {
    "brimful": Named(("brimful",), Brimful),
    "brimful, fixed `low_water`": Named(
        ("brimful",), partial(Brimful, policy="agent", overrides={"pools.recent.ledger.clear_at_least": 0})
    ),
    "brimful, policy `fit`": Named(("brimful",), partial(Brimful, policy="fit")),
    "langchain trim_messages": Named(("langchain_core.messages.utils",), LangChain),
    "langchain, start_on": Named(("langchain_core.messages.utils",), partial(LangChain, start_on="human")),
    "langchain ContextEditing": Named(("langchain_core.messages.utils", "langchain.agents.middleware"), Editing),
    "litellm": Named(("litellm.utils",), LiteLLM),
    "clearing old results": Named((), Clearing),
    "everything": Named((), Untrimmed),
}
WIRE_WAYS = {f"brimful, {wire}": Named(("brimful",), partial(Brimful, wire)) for wire in WIRES}


# -- measuring -------------------------------------------------------------------------------------------------------


def measure(make: Callable[[], Way], sessions: Sequence[Session], budget: int, count_text: strict.CountText) -> Figures:
    """Replay all sessions."""
    figures, count = Figures(), make_counter(count_text)
    for session in sessions:
        way, before = make(), ""
        system = count(system_of(session.messages))
        for step in find_steps(session):
            fits = count(step.messages) <= system + budget
            began = time.process_time()
            try:
                sent = way.trim(step.messages, system + budget)
            except Exception:  # noqa: BLE001 - whatever a library raises, there is no request
                figures.refused += not fits
                continue
            seconds = time.process_time() - began
            wire, tokens = json.dumps(sent, ensure_ascii=False), count(sent)
            shared = _shared(before, wire) / len(wire)
            figures.input += tokens
            figures.cached += _cached(int(shared * tokens))
            if not fits:
                figures.seconds.append(seconds)
                figures.prefix += [shared] if before else []
                figures.full.append((tokens - system) / budget)
                figures.over += tokens > system + budget
                figures.task += any(each["role"] == "user" and session.task in strict.text_of(each) for each in sent)
                _judge(figures, way, step, sent)
            before = wire
    return figures


def _judge(figures: Figures, way: Way, step: Step, sent: Messages) -> None:
    if step.values:
        _judge_values(figures, way, step, sent)
    figures.invalid += bool(find_fault(sent))
    lost = find_lost_calls(sent, step, way.handles)
    figures.calls += lost.total
    figures.repeat += lost.without_result
    figures.untraced += lost.without_trace


def _judge_values(figures: Figures, way: Way, step: Step, sent: Messages) -> None:
    text = visible_text(sent)
    there = near = found = 0
    for value, question in step.values.items():
        if value in text:
            there += 1
            continue
        recalled, searched = way.recall(question, sent)
        near += value in recalled
        found += value in recalled or value in searched
    total = len(step.values)
    figures.values.append(there / total)
    figures.near.append((there + near) / total)
    figures.found.append((there + found) / total)


def _shared(before: str, after: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))


def _cached(tokens: int) -> int:
    """Return how much of a prefix OpenAI caches."""
    return tokens // CACHE_STEP * CACHE_STEP if tokens >= _minimum() else 0


def _minimum() -> int:
    rule = resolve(MODEL).cache
    return rule.minimum_tokens if rule else 0


# -- the page --------------------------------------------------------------------------------------------------------

_HEAD = (
    *("values", "calls", "task", "repeat (not mentioned)", "one call away (search)"),
    *("prefix", "full, median", "over", "invalid", "refused", "a request", "input", "cached", "cost"),
)


def report(data: Path | None, *, quick: bool) -> Section:
    """Measure every way on the runs of a folder, one by one and joined."""
    about = ABOUT.format(
        model=MODEL,
        step=CACHE_STEP,
        minimum=f"{_minimum():,}",
        start=f"{START_SECONDS:.0f}",
        limit=f"{LIMIT_SECONDS:.0f}",
    )
    runs = find_runs(data) if data else {}
    if not runs:
        return Section("Agents", about, ("There was no data folder with runs of agents.",))
    tables, charted = [], dict[str, list[tuple[float, float]]]()
    for name, found in runs.items():
        some = found[:QUICK_RUNS] if quick else found
        for join, budgets in ((1, BUDGETS), (JOIN, JOINED_BUDGETS)):
            rows = _rows(list(join_runs(some, join)), budgets[:1] if quick else budgets, WAYS)
            tables += [_title(name, len(some), join), _table(rows)]
            if join == 1 and not charted:
                charted = _points(rows)
        rows = _rows(list(join_runs(some, 1)), WIRE_BUDGETS, WIRE_WAYS)
        tables += ["The same runs, written as requests of the other APIs.", _table(rows)]
    chart = line_chart(
        [Line(way, charted[way], [""] * len(charted[way])) for way in CHARTED if charted.get(way)],
        across="tokens for the conversation",
        up="values, %",
    )
    figure = f"![The share of values in the request by budget](images/{FIGURE})"
    return Section("Agents", about, (*tables, figure), figures={FIGURE: chart})


Row = tuple[str, int, int, Figures | Failure]
"""A way, a budget, the number of requests, and what was measured."""


def _rows(sessions: Sequence[Session], budgets: Sequence[int], ways: dict[str, Named]) -> list[Row]:
    """Measure several ways at a time: only processor time is reported."""
    cells = [(name, budget) for budget in budgets for name in ways]
    with ThreadPoolExecutor(PARALLEL) as pool:
        return list(pool.map(lambda cell: _row(sessions, cell[0], cell[1], ways[cell[0]]), cells))


def _row(sessions: Sequence[Session], name: str, budget: int, way: Named) -> Row:
    print(f"  agents: {name}, {budget:,}", flush=True)
    with Isolated(partial(load, way.packages)) as process:
        found = process.call(measure, way.make, sessions, budget, strict.reference_count, seconds=LIMIT_SECONDS)
    return name, budget, 0 if isinstance(found, Failure) else len(found.seconds) + found.refused, found


def _points(rows: Sequence[Row]) -> dict[str, list[tuple[float, float]]]:
    points: dict[str, list[tuple[float, float]]] = {}
    for way, budget, _, figures in rows:
        if isinstance(figures, Figures) and figures.values:
            points.setdefault(way, []).append((budget, 100 * mean(figures.values)))
    return points


def _title(name: str, runs: int, join: int) -> str:
    joined = f", {join} runs joined into one session, of which the last is measured" if join > 1 else ""
    dev = " (development runs)" if "dev" in name else ""
    return f"**`{name}`**{dev}: {runs} runs{joined}."


def _table(rows: Sequence[Row]) -> str:
    return table(["budget", "way", "requests", *_HEAD], [_cells(*row) for row in rows], words=2)


def _cells(way: str, budget: int, requests: int, found: Figures | Failure) -> list[str]:
    first = [f"{budget:,}", way]
    if isinstance(found, Failure):
        return [*first, found.reason, *("–" for _ in _HEAD)]
    if not found.seconds:
        return [*first, str(requests), *("–" for _ in _HEAD)]
    recalls = way.startswith("brimful")
    return [
        *(*first, str(requests)),
        *(percent(mean(found.values)), percent(mean(share == 1 for share in found.values))),
        percent(found.task / len(found.seconds)),
        f"{percent(found.repeat / max(1, found.calls))} ({percent(found.untraced / max(1, found.calls))})",
        f"{percent(mean(found.near))} ({percent(mean(found.found))})" if recalls else "–",
        *(percent(mean(found.prefix or [0])), percent(median(found.full))),
        "–" if way in WIRE_WAYS else str(found.over),  # the count is one of OpenAI's form
        *(str(found.invalid), str(found.refused)),
        f"{1_000 * mean(found.seconds):.1f} ms",
        *(f"{found.input:,}", percent(found.cached / max(1, found.input)), f"${found.cost:.2f}"),
    ]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="?", default=os.environ.get("BENCH_DATA") or None, help="file, folder")
    parser.add_argument("--budgets", default=",".join(map(str, BUDGETS)), help="tokens, separated by commas")
    parser.add_argument("--join", type=int, default=1, help="runs that make one session")
    parser.add_argument("--first", type=int, help="only so many runs of a file")
    parser.add_argument("--ways", default="", help="beginnings of names of ways, separated by commas; default: all")
    options = parser.parse_args()
    if options.runs is None:
        parser.error("name a file with runs, or set BENCH_DATA to a folder that has some")
    return options


def main() -> None:
    """Print the table of the runs that were asked for."""
    options = _options()
    beginnings = tuple(options.ways.strip(",").split(","))
    ways = {name: way for name, way in (WAYS | WIRE_WAYS).items() if name.startswith(beginnings)}
    for name, runs in find_runs(options.runs).items():
        sessions = list(join_runs(runs[: options.first], options.join))
        rows = _rows(sessions, [int(budget) for budget in options.budgets.split(",")], ways)
        print(_title(name, len(runs[: options.first]), options.join), _table(rows), sep="\n\n")


if __name__ == "__main__":
    main()
