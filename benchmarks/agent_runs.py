"""Recorded runs of agents in OpenAI's form, and what a request must hold so that the next call can be made.

A file holds runs as tau-bench writes them (a list of `{"traj": [...]}`), as `{"messages": [...]}`, or as plain lists of
messages; JSONL has one of these, or one message, on each line.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import Any

from conversations import Message, Messages
from strict import A_MESSAGE, A_REQUEST, CountText, text_of

FIELDS = ("role", "content", "tool_calls", "tool_call_id")  # recordings have more, which no provider accepts
MIN_VALUE = 3  # characters; shorter ones are found anywhere

_WORD = re.compile(r"\w{3,}")
_HANDLE = re.compile(r"[\w-]+")


@dataclass(frozen=True, slots=True)
class Session:
    """Messages of one run, or of several as one session. The last run, which begins at `start`, is the one measured."""

    messages: Messages
    start: int

    @property
    def task(self) -> str:
        """The first words of the user in the last run."""
        return next((text_of(each) for each in self.messages[self.start :] if each["role"] == "user"), "")


@dataclass(frozen=True, slots=True)
class Step:
    """A moment at which the run called a tool: the messages until then, and the values that the call took from them.

    With each value comes all that a model knows of one that it lacks: the names of the call and of the argument.
    """

    messages: Messages
    start: int
    values: Mapping[str, str]


# -- reading ---------------------------------------------------------------------------------------------------------


def find_runs(data: Path) -> dict[str, list[Messages]]:
    """Return the runs of a file, or of each file in a folder and its subfolders that has some, by name of the file."""
    files = [data] if data.is_file() else sorted(path for path in data.rglob("*") if path.suffix in (".json", ".jsonl"))
    found = {file.name: read_runs(file.read_text(encoding="utf-8")) for file in files}
    return {name: runs for name, runs in found.items() if any(map(_has_calls, runs))}


def read_runs(text: str) -> list[Messages]:
    """Return the runs of a file, each from its system prompt on. What is no run is left out."""
    try:
        content = json.loads(text)
    except ValueError:
        content = list(_json_lines(text))
    rows = content if isinstance(content, list) else [content]
    if rows and all(isinstance(row, dict) and "role" in row for row in rows):
        rows = [rows]
    runs = [row.get("traj") or row.get("messages") if isinstance(row, dict) else row for row in rows]
    return [[_plain(message) for message in run] for run in runs if run is not None and _is_run(run)]


def _json_lines(text: str) -> Iterator[Any]:
    for line in filter(str.strip, text.splitlines()):
        try:
            yield json.loads(line)
        except ValueError:
            return


def _is_run(run: Any) -> bool:
    return isinstance(run, list) and bool(run) and all(isinstance(each, dict) and "role" in each for each in run)


def _has_calls(run: Messages) -> bool:
    return any(message.get("tool_calls") for message in run)


def _plain(message: Message) -> Message:
    fields = (*FIELDS, "name") if message["role"] == "tool" else FIELDS
    return {field: message[field] for field in fields if field in message}


def join_runs(runs: Sequence[Messages], join: int) -> Iterator[Session]:
    """Yield sessions of `join` runs each, under the system prompt of the first. Ids of calls differ between runs."""
    for first in range(0, len(runs), join):
        group = runs[first : first + join]
        messages, start = system_of(group[0]), 0
        for number, run in enumerate(group):
            start = len(messages)
            messages = [*messages, *(_with_number(each, number) for each in run[len(system_of(run)) :])]
        yield Session(messages, start)


def system_of(messages: Messages) -> Messages:
    """Return the system messages that a conversation begins with."""
    return list(takewhile(lambda message: message["role"] == "system", messages))


def _with_number(message: Message, number: int) -> Message:
    changed = {**message}
    if message.get("tool_calls"):
        changed["tool_calls"] = [{**call, "id": f"{call['id']}-{number}"} for call in message["tool_calls"]]
    if "tool_call_id" in message:
        changed["tool_call_id"] = f"{message['tool_call_id']}-{number}"
    return changed


# -- steps -----------------------------------------------------------------------------------------------------------


def find_steps(session: Session) -> Iterator[Step]:
    """Yield the moments of the last run at which the model calls a tool."""
    system = system_of(session.messages)
    known = visible_text(system)
    for at in range(session.start + 1, len(session.messages)):
        calls = session.messages[at].get("tool_calls") or ()
        if calls:
            past = visible_text(session.messages[len(system) : at])
            values = {
                value: question
                for call in calls
                for value, question in _arguments(call)
                if value in past and value not in known
            }
            yield Step(session.messages[:at], session.start, values)


def _arguments(call: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the values of a call's arguments, each with the names of the call and of the argument."""
    try:
        arguments = json.loads(call["function"]["arguments"])
    except ValueError:
        return
    yield from _leaves(arguments, call["function"]["name"])


def _leaves(value: Any, name: str) -> Iterator[tuple[str, str]]:
    match value:
        case dict():
            for key, each in value.items():
                yield from _leaves(each, f"{name} {key}")
        case list():
            for each in value:
                yield from _leaves(each, name)
        case None | bool():
            return
        case _ if len(str(value)) >= MIN_VALUE:
            yield str(value), name.replace("_", " ")


def visible_text(messages: Messages) -> str:
    """Return what a model can read values from: the contents, and the arguments of calls."""
    parts = []
    for message in messages:
        parts += [text_of(message)] if message.get("content") else []
        parts += [call["function"]["arguments"] for call in message.get("tool_calls") or ()]
    return "\n".join(parts)


# -- judging ---------------------------------------------------------------------------------------------------------


def make_counter(count: CountText) -> Callable[[Messages], int]:
    """Return a count of messages: their roles, contents, and calls as JSON. Each text is counted once."""
    count = lru_cache(maxsize=None)(count)

    def count_all(messages: Messages) -> int:
        return A_REQUEST + sum(
            A_MESSAGE + count(message["role"]) + count(text_of(message)) + count(_calls_json(message))
            for message in messages
        )

    return count_all


def _calls_json(message: Message) -> str:
    functions = [call["function"] for call in message.get("tool_calls") or ()]
    calls = [{"name": function["name"], "arguments": function["arguments"]} for function in functions]
    return json.dumps(calls) if calls else ""


def find_fault(messages: Messages) -> str:
    """Return why OpenAI's API would refuse the messages, or nothing: results follow their calls at once, and all do."""
    waiting: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                return "orphan"
            waiting.remove(message["tool_call_id"])
        elif waiting:
            return "unanswered"
        else:
            waiting = {call["id"] for call in message.get("tool_calls") or ()}
    return "unanswered" if waiting else ""


@dataclass(frozen=True, slots=True)
class Calls:
    """Earlier calls of a run: how many, those without their result in any form, and those without any trace."""

    total: int = 0
    without_result: int = 0
    without_trace: int = 0


def find_lost_calls(sent: Messages, step: Step, handles: Collection[str] = ()) -> Calls:
    """Return which earlier calls of the run a model could not see the result of, or could not know of at all.

    A result has a form if something of it is left, or a handle to recall it by. So has one whose call and one of its
    arguments are named by a line of text, if the line also has an arrow with what came of it, or a handle.
    """
    past = step.messages[step.start :]
    results = {each["tool_call_id"]: text_of(each) for each in past if each["role"] == "tool"}
    shown = {each["tool_call_id"]: text_of(each) for each in sent if each["role"] == "tool"}
    made = {call["id"] for each in sent for call in each.get("tool_calls") or ()}
    lines = [line for each in sent if each["role"] != "tool" for line in text_of(each).splitlines()]
    calls = [call for each in past for call in each.get("tool_calls") or () if call["id"] in results]
    lost = gone = 0
    for call in calls:
        if call["id"] in shown and _is_form(shown[call["id"]], results[call["id"]], handles):
            continue
        named = [line for line in lines if _names_call(line, call)]
        if any("→" in line or _has_handle(line, handles) for line in named):
            continue
        lost += 1
        gone += call["id"] not in made and not named
    return Calls(len(calls), lost, gone)


def _is_form(text: str, result: str, handles: Collection[str]) -> bool:
    shares_words = not set(_WORD.findall(text)).isdisjoint(_WORD.findall(result))
    return text == result or shares_words or _has_handle(text, handles)


def _has_handle(text: str, handles: Collection[str]) -> bool:
    return any(word in handles for word in _HANDLE.findall(text))


def _names_call(line: str, call: dict[str, Any]) -> bool:
    values = [value for value, _ in _arguments(call)]
    rest = line.partition(call["function"]["name"])[2]
    return rest != "" and (not values or any(value[:12] in rest for value in values))
