"""What a server gets to see: requests of several conversations in turns, in many languages, some with tools."""

import difflib
import inspect
import json
import random
import smtplib
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from languages import PATTERNS, sentences
from texts import Texts

PROFILES: dict[str, tuple[str, ...]] = {
    "English": ("prose",),
    "code": ("prose", "code"),
    "agent": ("prose", "record"),
    "Chinese": ("Chinese", "Chinese", "Chinese", "prose"),
    "Japanese": ("Japanese", "Japanese", "prose"),
    "Korean": ("Korean",),
    "Europe": ("German", "Russian", "prose"),
    "South": ("Arabic", "Hindi"),
    "chat": ("emoji", "prose"),
    "all": ("prose", "code", "record", *PATTERNS),
}
MIXES = (
    *(("English",), ("English", "agent"), ("code", "agent"), ("Chinese", "English"), ("Japanese", "Korean", "English")),
    *(("Europe", "English"), ("South", "English", "Chinese"), ("chat",), ("all",), tuple(PROFILES)),
)
HISTORY = (1_500, 4_000, 12_000, 40_000)  # characters that a request holds at most, by conversation
OBJECTS = ("order_id", "user_id", "city", "date", "query", "limit", "path", "verbose")
TOOLS = ("get_order", "search_flights", "update_user", "list_files", "run_query", "send_mail")

Message = dict[str, Any]


def workload(number: int, data: Path | None, requests: int) -> Iterator[dict[str, Any]]:
    """Yield requests in OpenAI's form; the number chooses languages, conversations and texts."""
    source = random.Random(number)
    mix = MIXES[number % len(MIXES)]
    rooms = [Room(source, Texts(100 * number + at, data), mix) for at in range(source.choice((1, 3, 6)))]
    for _ in range(requests):
        yield source.choice(rooms).ask()


def characters(request: dict[str, Any]) -> int:
    """Return how many characters a request has, as who counts four of them as a token would."""
    texts = [message.get("content") or "" for message in request["messages"]]
    calls = [call["function"] for message in request["messages"] for call in message.get("tool_calls", ())]
    written = [json.dumps(part, ensure_ascii=False) for part in (*calls, *request.get("tools", ()))]
    return sum(map(len, [*texts, *written]))


class Room:
    """A conversation that grows; a request holds as much of its end as it may."""

    def __init__(self, source: random.Random, texts: Texts, mix: tuple[str, ...]) -> None:
        """Choose what is spoken, how long the memory is, and which tools there are."""
        self._random, self._texts = source, texts
        profile = source.choice(mix)
        self._kinds = PROFILES[profile]
        self._tools = self._some_tools() if profile == "agent" or source.random() < 0.2 else []
        self._most = source.choice(HISTORY)
        self._system = {"role": "system", "content": texts.prose(source.randint(80, 1_200))}
        self._turns: list[list[Message]] = []

    def ask(self) -> dict[str, Any]:
        """Return the request of the next turn."""
        question = {"role": "user", "content": self._text()}
        request: dict[str, Any] = {"model": "hidden", "messages": [self._system, *self._history(), question]}
        if self._tools:
            request["tools"] = self._tools
        called = self._called() if self._tools and self._random.random() < 0.6 else []
        self._turns.append([question, *called, {"role": "assistant", "content": self._text()}])
        return request

    def _history(self) -> list[Message]:
        kept: list[list[Message]] = []
        length = 0
        for turn in reversed(self._turns):
            length += len(json.dumps(turn, ensure_ascii=False))
            if length > self._most:
                break
            kept.append(turn)
        return [message for turn in reversed(kept) for message in turn]

    def _text(self) -> str:
        kind, length = self._random.choice(self._kinds), int(self._random.lognormvariate(5.5, 1.0)) + 20
        match kind:
            case "prose":
                return self._texts.prose(length)
            case "code":
                return _code(self._random, length)
            case "record":
                return self._texts.record()
            case language:
                return sentences(language, 1 + length // 60, self._random)

    def _called(self) -> list[Message]:
        tool = self._random.choice(self._tools)["function"]
        id = f"call{self._random.randint(10_000, 99_999)}"
        arguments = {name: self._random.randint(1, 10**6) for name in tool["parameters"]["properties"]}
        rows = ", ".join(self._texts.record() for _ in range(self._random.randint(1, 6)))
        function = {"name": tool["name"], "arguments": json.dumps(arguments)}
        call = {"id": id, "type": "function", "function": function}
        return [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": id, "content": f"[{rows}]"},
        ]

    def _some_tools(self) -> list[dict[str, Any]]:
        return [self._tool(name) for name in self._random.sample(TOOLS, self._random.randint(1, 5))]

    def _tool(self, name: str) -> dict[str, Any]:
        words = name.replace("_", " ")
        fields = {
            field: {"type": "string", "description": f"The {field.replace('_', ' ')} that is meant."}
            for field in self._random.sample(OBJECTS, self._random.randint(1, 4))
        }
        schema = {"type": "object", "properties": fields, "required": list(fields)[:1]}
        about = f"Use this to {words}, and return what was found as JSON."
        return {"type": "function", "function": {"name": name, "description": about, "parameters": schema}}


def _code(source: random.Random, length: int) -> str:
    lines = _sources()
    start = source.randrange(len(lines) - 200)
    text = "\n".join(lines[start : start + 200])[: 3 * length]
    return f"```python\n{text}\n```"


@cache
def _sources() -> list[str]:
    return [line for module in (difflib, smtplib, zipfile) for line in inspect.getsource(module).splitlines()]
