"""Tool definitions with little room: whether the tool that a task needs is still there, and how often tools change.

python benchmarks/tools.py --data BFCL          the cases for development, with even numbers
python benchmarks/tools.py --data BFCL --odd    the cases that are kept back

The data comes from the Berkeley Function Calling Leaderboard (Apache-2.0), in the package `bfcl-eval`.
"""

import argparse
import json
import math
import os
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import brimful
from brimful.core.context import Context
from tables import Section, table

JsonObject = dict[str, Any]

SHARES = (0.1, 0.25, 0.5)  # of the tokens of all definitions
TOOLS = 60  # in each request of one turn
CASES = 200  # of one turn
CONVERSATIONS = 50  # of several turns
SEED = 20261117
MODEL = "gpt-4o"
COMPLETION = 200
SINGLE = "BFCL_v4_live_multiple.json"
SEVERAL = "BFCL_v4_multi_turn_base.json"
APIS = (
    *("gorilla_file_system", "math_api", "message_api", "posting_api"),
    *("ticket_api", "trading_bot", "travel_booking", "vehicle_control"),
)
TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": "string"}  # BFCL's are Python's
ABOUT = f"""This measures whether the tool that a task needs is still in a request whose definitions get only a part of
their tokens. The cases come from the Berkeley Function Calling Leaderboard. In the first table, a request has
{TOOLS} definitions and one message. "Whole" is the percentage of cases whose tool has all of its parameters as they
were, "callable" that of cases in which it is there whole or as a digest. "Words" takes whole definitions in the order
of BM25 over names and descriptions, and "in order" the first ones that fit.

In the second table, a request has the definitions of {len(APIS)} APIs, and a conversation goes on for several turns.
"Whole" and "callable" are percentages of the calls in the reference solution, at the moment of the call; "unchanged" is
the percentage of requests whose tools are the same as in the request before, to the byte.

Constants were chosen on the cases with even numbers. Those with odd numbers were run only at the end."""


def report(data: Path | None, *, quick: bool = False) -> Section:
    """Return the section of the page."""
    folder = data and next((each for each in (data, data / "bfcl") if (each / SINGLE).exists()), None)
    if folder is None:
        return Section("Tool definitions", ABOUT, ("There was no data folder with such cases.",))
    cases, conversations = (10, 2) if quick else (CASES, CONVERSATIONS)
    parities = (("even", 0), ("odd", 1))
    single = [row for name, odd in parities for row in _measure_cases(folder, name, odd, cases)]
    several = [row for name, odd in parities for row in _measure_conversations(folder, name, odd, conversations)]
    head = ["cases", "share of tokens", "whole", "callable", "words", "in order"]
    head_several = ["conversations", "share of tokens", "whole", "callable", "unchanged"]
    return Section("Tool definitions", ABOUT, (table(head, single), table(head_several, several)))


# -- data --------------------------------------------------------------------------------------------------------------


def _read(path: Path) -> list[JsonObject]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def _clean_name(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64]


def _as_schema(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: TYPES.get(item, item) if key == "type" and isinstance(item, str) else _as_schema(item)
            for key, item in value.items()
        }
    return [_as_schema(item) for item in value] if isinstance(value, list) else value


def _as_tool(function: JsonObject) -> JsonObject:
    described = {"name": _clean_name(function["name"]), "description": function["description"]}
    return {"type": "function", "function": described | {"parameters": _as_schema(function["parameters"])}}


def _name(tool: JsonObject) -> str:
    return str(tool["function"]["name"])


def _with_answers(folder: Path, file: str, odd: int) -> list[tuple[JsonObject, Any]]:
    answers = {row["id"]: row["ground_truth"] for row in _read(folder / "possible_answer" / file)}
    rows = [row for row in _read(folder / file) if row["id"] in answers]
    return [(row, answers[row["id"]]) for row in rows[odd::2]]


def _cases(folder: Path, odd: int, count: int) -> Iterator[tuple[str, list[JsonObject], set[str]]]:
    """Yield questions, the definitions of their own and of others, and the names of the tools that they need."""
    rows = _with_answers(folder, SINGLE, odd)
    pool = {_name(tool): tool for row, _ in rows for tool in map(_as_tool, row["function"])}
    rng = random.Random(SEED)
    for row, answer in rng.sample(rows, min(count, len(rows))):
        own = {_name(tool): tool for tool in map(_as_tool, row["function"])}
        others = rng.sample(sorted(pool.keys() - own.keys()), max(0, TOOLS - len(own)))
        tools = [*own.values(), *(pool[name] for name in others)]
        rng.shuffle(tools)
        question = next(each["content"] for each in reversed(row["question"][0]) if each["role"] == "user")
        yield question, tools, {_clean_name(name) for call in answer for name in call}


# -- one turn ----------------------------------------------------------------------------------------------------------


def _fit(messages: Sequence[JsonObject], tools: Sequence[JsonObject], limit: int | None = None) -> Context:
    request = {"model": MODEL, "max_tokens": COMPLETION, "messages": [*messages], "tools": [*tools]}
    window = 1_000_000 if limit is None else limit + 2 * COMPLETION
    return brimful.fit(request, window=window, max_prompt_tokens=limit, now=0)


def _measure_cases(folder: Path, name: str, odd: int, count: int) -> Iterator[list[str]]:
    for share in SHARES:
        found: Counter[str] = Counter()
        cases = list(_cases(folder, odd, count))
        for question, tools, needed in cases:
            messages = [{"role": "user", "content": question}]
            bare = brimful.fit({"model": MODEL, "messages": messages}, window=1_000_000, now=0).tokens
            room = int((_fit(messages, tools).tokens - bare) * share)
            sent = {_name(tool): tool for tool in _fit(messages, tools, bare + room).request["tools"]}
            before = {_name(tool): tool for tool in tools}
            found["callable"] += needed <= sent.keys()
            found["whole"] += all(name in sent and _has_all(sent[name], before[name]) for name in needed)
            found["words"] += needed <= _take(_rank(question, tools), room)
            found["in order"] += needed <= _take(tools, room)
        columns = ("whole", "callable", "words", "in order")
        yield [f"{len(cases)} {name}", f"{share:.0%}", *(f"{found[key] / len(cases):.1%}" for key in columns)]


def _has_all(sent: JsonObject, before: JsonObject) -> bool:
    return bool(sent["function"].get("parameters") == before["function"]["parameters"])


def _take(tools: Sequence[JsonObject], room: int) -> set[str]:
    """Return the names of the first tools that fit, by the tokens of their definitions."""
    taken = set[str]()
    for tool in tools:
        cost = _count(json.dumps(tool))
        if cost <= room:
            taken.add(_name(tool))
            room -= cost
    return taken


@cache
def _count(tool: str) -> int:
    """Return what one more tool costs."""
    first, message = {"type": "function", "function": {"name": "x"}}, [{"role": "user", "content": "x"}]
    return _fit(message, [first, json.loads(tool)]).tokens - _fit(message, [first]).tokens


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text).lower())


def _rank(question: str, tools: Sequence[JsonObject]) -> list[JsonObject]:
    """Return tools in the order of BM25 (k1 1.2, b 0.75) over their names and descriptions."""
    texts = [Counter(_words(f"{_name(tool)} {tool['function']['description']}")) for tool in tools]
    mean = sum(text.total() for text in texts) / len(texts)
    frequency = Counter(word for text in texts for word in text)
    asked = [word for word in dict.fromkeys(_words(question)) if word in frequency]

    def score(text: Counter[str]) -> float:
        norm = 1.2 * (0.25 + 0.75 * text.total() / mean)
        rare = {word: math.log(1 + (len(texts) - frequency[word] + 0.5) / (frequency[word] + 0.5)) for word in asked}
        return sum(rare[word] * text[word] * 2.2 / (text[word] + norm) for word in asked)

    order = sorted(range(len(tools)), key=lambda at: -score(texts[at]))
    return [tools[at] for at in order]


# -- several turns -----------------------------------------------------------------------------------------------------


def _measure_conversations(folder: Path, name: str, odd: int, count: int) -> Iterator[list[str]]:
    docs = [row for api in APIS for row in _read(folder / "multi_turn_func_doc" / f"{api}.json")]
    tools = [*{_name(tool): tool for tool in map(_as_tool, docs)}.values()]
    rows = _with_answers(folder, SEVERAL, odd)[:count]
    before = {_name(tool): tool for tool in tools}
    for share in SHARES:
        found: Counter[str] = Counter()
        for row, answer in rows:
            _run_conversation(row["question"], answer, before, share, found)
        calls, requests = max(1, found["calls"]), max(1, found["requests"])
        columns = (found["whole"] / calls, found["callable"] / calls, found["unchanged"] / requests)
        yield [f"{len(rows)} {name}", f"{share:.0%}", *(f"{value:.1%}" for value in columns)]


def _run_conversation(
    questions: Sequence[Sequence[JsonObject]],
    answer: Sequence[Sequence[str]],
    tools: dict[str, JsonObject],
    share: float,
    found: Counter[str],
) -> None:
    """Send a request before each call of the reference solution, and look for the tool that it calls."""
    limit = int(_fit([{"role": "user", "content": "x"}], [*tools.values()]).tokens * share) + COMPLETION
    messages: list[JsonObject] = []
    last: object = None
    for asked, calls in zip(questions, answer, strict=False):
        messages += [{"role": "user", "content": each["content"]} for each in asked]
        for call in calls:
            name = call.partition("(")[0]
            sent = _fit(messages, [*tools.values()], limit).request["tools"]
            by_name = {_name(tool): tool for tool in sent}
            found["calls"] += 1
            found["callable"] += name in by_name
            found["whole"] += name in by_name and _has_all(by_name[name], tools[name])
            found["requests"] += last is not None
            found["unchanged"] += last == sent
            last = sent
            function = {"name": name, "arguments": json.dumps({"call": call})}
            id = f"call_{len(messages)}"
            calls_field = [{"id": id, "type": "function", "function": function}]
            messages += [
                {"role": "assistant", "content": None, "tool_calls": calls_field},
                {"role": "tool", "tool_call_id": id, "content": "done"},
            ]
        messages.append({"role": "assistant", "content": "Done."})


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("BENCH_DATA"), help="folder of BFCL's data")
    parser.add_argument("--odd", action="store_true", help="the cases that are kept back")
    parser.add_argument("--cases", type=int, default=CASES)
    parser.add_argument("--conversations", type=int, default=CONVERSATIONS)
    options = parser.parse_args()
    name = "odd" if options.odd else "even"
    for row in _measure_conversations(options.data, name, options.odd, options.conversations):
        print(*row, sep="\t", flush=True)
    for row in _measure_cases(options.data, name, options.odd, options.cases):
        print(*row, sep="\t", flush=True)


if __name__ == "__main__":
    main()
