"""What the last request of a trimmed run still has of what the agent's final answer needs.

python benchmarks/agent_answers.py                    generated runs of four kinds, with tasks that chose nothing
python benchmarks/agent_answers.py --tasks dev        with the tasks that the rules were chosen by
python benchmarks/agent_answers.py --briefs         what a helper gets for a task of its own
python benchmarks/agent_answers.py --runs runs.json   recorded runs: the values in the last message of the assistant
"""

import argparse
import json
import os
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import mean

import strict
from agent_runs import find_runs, make_counter, system_of, visible_text
from agent_trimming import WAYS, Named, Plain, Way
from conversations import Message, Messages
from isolated import Failure, Isolated
from peers import load
from tables import Section, percent, table

BUDGETS = (1_000, 2_000, 4_000)
BRIEF_BUDGETS = (500, 1_000, 2_000)
STEPS = 40
SEEDS = range(4)
CHARTED = ("brimful", "langchain trim_messages", "clearing old results", "litellm", "everything")
NEAR = 200  # characters between a value and what it belongs to
LIMIT_SECONDS = 200.0
MIN_VALUE = 4  # characters of a value in a recorded answer

PARENT = "Look at everything that there is, and keep an overview. A helper will take over parts of it."

_ROW = re.compile(r"\n(?! )")  # between the rows of a brief, whose other lines are indented
_VALUE = re.compile(r"[\w#$@./-]*\d[\w#$@./-]*")

ABOUT = """This section shows whether the last request of a trimmed run still contains what its final answer needs. The
section on agents measures what the next call needs, which is something else: identifiers, mostly.

Four kinds of runs are generated, with {steps} calls each: pages of a list that the task filters, records whose numbers
the task adds up, files that it compares, and logs that it searches. A run is trimmed after every call, as an agent's
loop does. "Kept" is the share of facts that the answer needs, each a value and what it belongs to ("order W7002 is
broken"), that stand together in the last request. The rules were chosen with other tasks than those below: other
things, other fields, other words (`--tasks dev`). The first task on files that was kept back showed a fault (lines of
two words did not count: 0 to 3.6 %). It is among the others since, and the files below are of a new task.

Of recorded runs, "kept" is the share of values with digits in the assistant's last message that it took from results
of tools. Most runs end with short texts, so that there are few.

In each budget, the conversation has that many tokens in addition to its system prompt."""
ABOUT_BRIEFS = """A helper gets one of the same tasks, from a parent that looked at everything without knowing
what for. The table shows how much of what the answer needs is in the helper's first request: in a brief of
`brimful.brief`, or in the parent's messages with as many tokens, as the others trim them (langchain keeps the
newest messages that fit). The shares of a brief were chosen with the tasks of `--tasks dev`, and with pages of
prose."""


@dataclass(frozen=True, slots=True)
class Task:
    """A kind of run: what the user asks, and a function that makes the steps and the facts that the answer needs."""

    question: str
    make: Callable[[random.Random], Iterator["Step"]]


@dataclass(frozen=True, slots=True)
class Step:
    """A call with its arguments and its result, and the facts in it that the answer needs: (what, value)."""

    name: str
    arguments: dict[str, str | int]
    result: str
    facts: tuple[tuple[str, str], ...] = ()


# -- tasks -----------------------------------------------------------------------------------------------------------


def make_pages(
    call: str, id: str, field: str, usual: str, wanted: str, noise: Sequence[str]
) -> Callable[[random.Random], Iterator[Step]]:
    """Return a maker of pages of a list: of some rows, one field has the value that is asked for."""

    def make(rng: random.Random) -> Iterator[Step]:
        number = 1_000
        for page in range(STEPS):
            rows, facts = [], []
            for _ in range(8):
                number += rng.randrange(1, 30)
                value = wanted if rng.random() < 0.03 else usual
                facts += [(f"{id}{number}", value)] if value == wanted else []
                extra = {name: f"{name[:2].upper()}-{rng.randrange(10_000, 99_999)}" for name in noise}
                rows.append({"id": f"{id}{number}", **extra, field: value, "comment": _words(rng, 12)})
            yield Step(call, {"page": page + 1}, json.dumps({"page": page + 1, "rows": rows}), tuple(facts))

    return make


def make_records(
    call: str, argument: str, id: str, field: str, noise: Sequence[str]
) -> Callable[[random.Random], Iterator[Step]]:
    """Return a maker of records, one for each call. The task adds up the numbers in one field."""

    def make(rng: random.Random) -> Iterator[Step]:
        for at in range(STEPS):
            name, amount = f"{id}{rng.randrange(100, 999)}{at:02}", f"{rng.randrange(1_000, 90_000) / 100:.2f}"
            extra = {key: f"{key[:2].upper()}-{rng.randrange(10_000, 99_999)}" for key in noise}
            record = {argument: name, **extra, field: float(amount), "text": _words(rng, 60)}
            yield Step(call, {argument: name}, json.dumps(record), ((name, str(float(amount))),))

    return make


def make_files(call: str, path: str, line: str, old: str, new: str) -> Callable[[random.Random], Iterator[Step]]:
    """Return a maker of files: some of them have a line with the value that is asked for."""

    def make(rng: random.Random) -> Iterator[Step]:
        for at in range(STEPS):
            name, value = path.format(f"{rng.choice(_WORDS)}_{at}"), old if rng.random() < 0.15 else new
            lines = [f"{rng.choice(_WORDS)}_{rng.choice(_WORDS)} = {rng.randrange(1, 10_000)}" for _ in range(50)]
            lines.insert(rng.randrange(len(lines)), line.format(value))
            facts = ((name, line.format(value)),) if value == old else ()
            yield Step(call, {"path": name}, "\n".join(lines), facts)

    return make


def make_logs(call: str, argument: str, id: str, event: str) -> Callable[[random.Random], Iterator[Step]]:
    """Return a maker of logs: in some of them, one line says what the task looks for."""

    def make(rng: random.Random) -> Iterator[Step]:
        for at in range(STEPS):
            name, part = f"{id}-{at:02}", f"{rng.choice(_WORDS)}{rng.randrange(10, 99)}"
            lines = [
                f"2025-03-{1 + line % 28:02}T{rng.randrange(24):02}:{rng.randrange(60):02}:00Z INFO request"
                f" {rng.randrange(16**8):08x} {rng.choice(('served', 'cached', 'queued'))} in {rng.randrange(900)} ms"
                for line in range(40)
            ]
            facts: tuple[tuple[str, str], ...] = ()
            if rng.random() < 0.15:
                lines.insert(rng.randrange(len(lines)), f"2025-03-14T09:26:53Z {event.format(part)}")
                facts = ((name, event.format(part)),)
            yield Step(call, {argument: name}, "\n".join(lines), facts)

    return make


_WORDS = (
    *("amber", "basin", "cedar", "delta", "ember", "fjord", "grove", "haven", "inlet", "juniper", "kelp", "lagoon"),
    *(
        "maple",
        "nectar",
        "orchid",
        "pebble",
        "quartz",
        "river",
        "summit",
        "thicket",
        "upland",
        "valley",
        "willow",
        "yarrow",
    ),
)


def _words(rng: random.Random, count: int) -> str:
    return " ".join(rng.choices(_WORDS, k=count)).capitalize() + "."


TASKS = {
    "dev": {
        "lists": Task(
            "Go through all pages of the orders. Which orders are broken? Name their ids.",
            make_pages("list_orders", "W", "state", "fine", "broken", ("card", "batch")),
        ),
        "sums": Task(
            "What did all of these invoices cost in total? Look at each one and add up the amounts.",
            make_records("get_invoice", "invoice", "INV", "amount", ("customer", "project")),
        ),
        "files": Task(
            "Which configuration files still have a timeout of 30? Read them all.",
            make_files("read_file", "conf/{}.ini", "timeout = {}", "30", "60"),
        ),
        "manifests": Task(
            "Find the manifests that run without replicas, that is, with replicas: 0.",
            make_files("open_manifest", "k8s/{}.yaml", "replicas: {}", "0", "3"),
        ),
        "logs": Task(
            "One of our servers lost a disk. Read the logs of all servers and tell me which disks failed, and where.",
            make_logs("read_log", "server", "srv", "FATAL disk {} failed, giving up"),
        ),
    },
    "held": {
        "lists": Task(
            "Please check every page of the applicants and tell me who was rejected.",
            make_pages("fetch_applicants", "AP", "decision", "pending", "rejected", ("school", "recruiter")),
        ),
        "sums": Task(
            "How many liters did the whole fleet use this month? Look up the liters of each vehicle.",
            make_records("vehicle_report", "vehicle", "VH", "liters", ("driver", "depot")),
        ),
        "files": Task(
            "Which of our images are still built on python:3.9? Open every Dockerfile.",
            make_files("cat", "images/{}/Dockerfile", "FROM python:{}", "3.9", "3.12"),
        ),
        "logs": Task(
            "Some builds crashed with a segmentation fault. In which builds, and in which module?",
            make_logs("build_output", "build", "bld", "segmentation fault in module {} (core dumped)"),
        ),
    },
}


# -- measuring -------------------------------------------------------------------------------------------------------


def measure_task(make: Callable[[], Way], task: Task, budget: int) -> float:
    """Return the share of facts that the last request of runs has."""
    return mean(_measure_run(make(), task, seed, budget) for seed in SEEDS)


def _measure_run(way: Way, task: Task, seed: int, budget: int) -> float:
    count = make_counter(strict.reference_count)
    messages: Messages = [
        {"role": "system", "content": "You are an agent with tools."},
        {"role": "user", "content": task.question},
    ]
    limit = count(system_of(messages)) + budget
    facts: list[tuple[str, str]] = []
    sent = messages
    for number, step in enumerate(task.make(random.Random(seed))):
        messages += _make_messages(step, number)
        facts += step.facts
        sent = way.trim(messages, limit)
    return _share_said(list(_find_texts(sent)), facts)


def _make_messages(step: Step, number: int) -> Messages:
    function = {"name": step.name, "arguments": json.dumps(step.arguments)}
    call = {"id": f"c{number}", "type": "function", "function": function}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": step.result},
    ]


def _share_said(texts: Sequence[tuple[str, str]], facts: Sequence[tuple[str, str]]) -> float:
    return mean(any(says(text, *fact) for text in texts) for fact in facts) if facts else 1.0


def measure_helper(make: Callable[[], Way], task: Task, budget: int) -> float:
    """Return the share of facts that a helper gets from runs whose parent did not know the task."""
    return mean(_measure_helper(make(), task, seed, budget) for seed in SEEDS)


def _measure_helper(way: Way, task: Task, seed: int, budget: int) -> float:
    count, steps = make_counter(strict.reference_count), list(task.make(random.Random(seed)))
    asked: Message = {"role": "user", "content": task.question}
    run: Messages = [{"role": "user", "content": PARENT}]
    for number, step in enumerate(steps):
        run += _make_messages(step, number)
    run.append({"role": "assistant", "content": "I have looked at everything."})
    sent = way.trim([*run, asked], budget + count([asked]))
    facts = [fact for step in steps for fact in step.facts]
    return _share_said([*_find_texts(sent), *_find_rows(sent)], facts)


class Briefing(Plain):
    """A brief for the task in the last message, in as many tokens as the others have for the messages before it."""

    def __init__(self) -> None:
        self._brief = import_module("brimful").brief
        self._count = make_counter(strict.reference_count)

    def trim(self, messages: Messages, limit: int) -> Messages:
        """Return the brief and the task."""
        *parent, asked = messages
        brief = self._brief(parent, strict.text_of(asked), limit - self._count([asked]), model="gpt-4o", now=0)
        return [{"role": "user", "content": brief.text}, asked]


BRIEF_WAYS = {"brimful.brief": Named(("brimful",), Briefing)} | {
    name: WAYS[name] for name in ("langchain trim_messages", "clearing old results")
}


def _find_rows(messages: Messages) -> Iterator[tuple[str, str]]:
    """Yield what a brief says: its rows, each after the call that it begins with."""
    for row in _ROW.split(strict.text_of(messages[0])):
        head, arrow, _ = row.partition(" → ")
        if arrow:
            yield head, row


def _find_texts(messages: Messages) -> Iterator[tuple[str, str]]:
    """Yield what a request says: lines of texts, and results with the arguments of their calls before them."""
    calls = (call for each in messages for call in each.get("tool_calls") or ())
    arguments = {call["id"]: call["function"]["arguments"] for call in calls}
    for message in messages:
        text = strict.text_of(message)
        if message["role"] == "tool":
            yield arguments.get(message["tool_call_id"], ""), text
        else:
            yield from (("", line) for line in text.splitlines())


def says(text: tuple[str, str], what: str, value: str) -> bool:
    """Whether a text says a value of something: it has both near to each other, or is the result of a call for it."""
    arguments, content = text
    if what in arguments:
        return value in content
    places = [found.start() for found in re.finditer(rf"(?<!\w){re.escape(what)}(?!\w)", content)]
    return any(value in content[max(0, place - NEAR) : place + len(what) + NEAR] for place in places)


def measure_recorded(make: Callable[[], Way], runs: Sequence[Messages], budget: int) -> list[float]:
    """Return, for each run whose end is larger than the budget, the share of the answer's values in its request."""
    count, shares = make_counter(strict.reference_count), list[float]()
    for run in runs:
        needed, end = find_needed(run)
        limit = count(system_of(run)) + budget
        if not needed or count(run[:end]) <= limit:
            continue
        way, sent = make(), run[:1]
        for at in range(2, end + 1):
            if at == end or run[at]["role"] == "assistant":
                sent = way.trim(run[:at], limit)
        text = visible_text(sent)
        shares.append(mean(value in text for value in needed))
    return shares


def find_needed(run: Messages) -> tuple[set[str], int]:
    """Return the values that the last text of the assistant took from results of tools, and where that text is."""
    end = max((at for at, each in enumerate(run) if each["role"] == "assistant" and _has_values(each)), default=0)
    results = visible_text([each for each in run[:end] if each["role"] == "tool"])
    users = visible_text([each for each in run[:end] if each["role"] in ("system", "user")])
    values = {value.strip(".,$#") for value in _VALUE.findall(strict.text_of(run[end]))} if end else set()
    return {value for value in values if len(value) >= MIN_VALUE and value in results and value not in users}, end


def _has_values(message: Message) -> bool:
    return not message.get("tool_calls") and _VALUE.search(strict.text_of(message)) is not None


# -- the page --------------------------------------------------------------------------------------------------------


def report(data: Path | None, *, quick: bool) -> Section:
    """Measure every way on generated runs, and on the recorded ones of a folder."""
    budgets = BUDGETS[:1] if quick else BUDGETS
    tables = [_generated("held", budgets)]
    runs = find_runs(data) if data else {}
    tables += [_recorded(name, found, budgets) for name, found in runs.items()]
    tables += [ABOUT_BRIEFS, _briefs("held", BRIEF_BUDGETS[:1] if quick else BRIEF_BUDGETS)]
    return Section("What the answer needs", ABOUT.format(steps=STEPS), tuple(tables))


def _generated(tasks: str, budgets: Sequence[int]) -> str:
    return _table(tasks, budgets, {name: WAYS[name] for name in CHARTED}, measure_task)


def _briefs(tasks: str, budgets: Sequence[int]) -> str:
    return _table(tasks, budgets, BRIEF_WAYS, measure_helper)


Measure = Callable[[Callable[[], Way], Task, int], float]
"""Returns what a way keeps of a task's runs within a budget."""


def _table(tasks: str, budgets: Sequence[int], ways: Mapping[str, Named], measure: Measure) -> str:
    kinds = TASKS[tasks]
    rows = []
    for budget in budgets:
        for name, way in ways.items():
            print(f"  what the answer needs: {name}, {budget:,}", flush=True)
            rows.append([f"{budget:,}", name, *(_share(way, tasks, kind, budget, measure) for kind in kinds)])
    return table(["budget", "way", *kinds], rows, words=2)


def _share(way: Named, tasks: str, kind: str, budget: int, measure: Measure) -> str:
    with Isolated(partial(load, way.packages)) as process:
        found = process.call(_measure_named, measure, way.make, tasks, kind, budget, seconds=LIMIT_SECONDS)
    return found.reason if isinstance(found, Failure) else percent(found)


def _measure_named(measure: Measure, make: Callable[[], Way], tasks: str, kind: str, budget: int) -> float:
    return measure(make, TASKS[tasks][kind], budget)


def _recorded(name: str, runs: Sequence[Messages], budgets: Sequence[int]) -> str:
    rows = []
    for budget in budgets:
        for way in CHARTED:
            shares = measure_recorded(WAYS[way].make, runs, budget)
            rows.append([f"{budget:,}", way, str(len(shares)), percent(mean(shares)) if shares else "–"])
    return f"**`{name}`**\n\n" + table(["budget", "way", "runs", "kept"], rows, words=2)


def main() -> None:
    """Print the table of the runs that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", choices=sorted(TASKS), default="held", help="of the generated runs")
    parser.add_argument("--runs", type=Path, default=os.environ.get("BENCH_DATA") or None, help="file or folder")
    parser.add_argument("--briefs", action="store_true", help="measure what a helper gets")
    parser.add_argument("--budgets", default="", help="tokens, separated by commas")
    options = parser.parse_args()
    budgets = [int(budget) for budget in options.budgets.split(",") if budget]
    if options.briefs:
        print(_briefs(options.tasks, budgets or BRIEF_BUDGETS))
    elif options.runs is None:
        print(_generated(options.tasks, budgets or BUDGETS))
    for name, runs in find_runs(options.runs).items() if options.runs and not options.briefs else ():
        print(_recorded(name, runs, budgets or BUDGETS))


if __name__ == "__main__":
    main()
