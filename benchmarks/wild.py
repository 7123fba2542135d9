"""Conversations as wild as they come, the same for the same seed: names, tools, scripts, spellings, broken parts."""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from wild_texts import WildTexts

Message = dict[str, Any]

NAMES: Final = ("", "", "", "Ada", "Zoë Müller", "李雷", "o'Neil", "A\nB", "x" * 70)
TOOL_NAMES: Final = ("get_weather", "search", "lookup-order", "f", "send_email_to_customer_2", "brave_web_search")
OPTIONS: Final[tuple[dict[str, Any], ...]] = (
    *({},) * 6,
    {"chat_template_kwargs": {"enable_thinking": False}},
    {"chat_template_kwargs": {"enable_thinking": True, "preserve_thinking": True}},
    {"chat_template_kwargs": {"preserve_reasoning": True, "custom": [1]}},
    {"reasoning_effort": "none"},
    {"reasoning_effort": "low"},
    {"response_format": {"type": "json_object"}},
)
"""Further fields of a request."""
KEYS: Final = (
    "city",
    "order id",
    "",
    "ключ",
    "a.b",
    'q"uote',
    "line\nbreak",
    "<tag>",
    "🙂",
    "type",
    "properties",
    "$ref",
    "items",
)


@dataclass(frozen=True, slots=True)
class Wild:
    """A conversation in OpenAI's form, and the tools on offer."""

    messages: list[Message]
    tools: list[dict[str, Any]]


def wild(seed: int, special: Sequence[str] = (), *, turns: int = 12, length: int = 400) -> Wild:
    """Return the conversation of that seed: `special` tokens may be spelled in its texts, of `length` at the most."""
    return _Writer(seed, special, length).conversation(turns)


def wild_request(seed: int, special: Sequence[str] = (), *, turns: int = 6, length: int = 200) -> dict[str, Any]:
    """Return the request of that seed, as clients write them: parts, reasoning, and variables of the template."""
    return _Writer(seed, special, length).request(turns)


class _Writer:
    """Writes one conversation after the other from one seed."""

    def __init__(self, seed: int, special: Sequence[str], length: int) -> None:
        self._random = random.Random(seed)
        self._texts = WildTexts(self._random, special, length)
        self._calls = 0

    def conversation(self, turns: int) -> Wild:
        """Return a conversation of that many turns at most."""
        tools = self._tools()
        messages: list[Message] = []
        if self._random.random() < 0.7:
            messages.append({"role": "system", "content": self._texts.text()})
        if self._random.random() < 0.1:
            messages.append({"role": "assistant", "content": self._texts.text()})
        for _ in range(self._random.randint(1, turns)):
            messages += self._turn(tools)
        if tools and self._random.random() < 0.3:
            return Wild([*messages, self._text_message("user"), *self._called(tools)], tools)
        return Wild([*messages, {"role": "user", "content": self._texts.text().strip() or "And now?"}], tools)

    def request(self, turns: int) -> dict[str, Any]:
        """Return a request with a conversation of that many turns at most."""
        values = self.conversation(turns)
        request: dict[str, Any] = {
            "model": "m",
            "messages": [self._as_clients_do(message) for message in values.messages],
        }
        if values.tools:
            request["tools"] = values.tools
        return request | self._random.choice(OPTIONS)

    def _as_clients_do(self, message: Message) -> Message:
        changed = {**message}
        if isinstance(message["content"], str) and self._random.random() < 0.3:
            changed["content"] = self._parts(message["content"])
        if message["role"] == "assistant" and self._random.random() < 0.3:
            changed["reasoning_content"] = self._texts.text()
        if message["role"] == "system" and self._random.random() < 0.1:
            changed["role"] = "developer"
        return changed

    def _parts(self, text: str) -> list[dict[str, str]]:
        cuts = sorted(self._random.randint(0, len(text)) for _ in range(self._random.randint(0, 2)))
        pieces = [text[start:end] for start, end in pairwise([0, *cuts, len(text)])]
        return [{"type": "text", "text": piece} for piece in pieces]

    def _turn(self, tools: list[dict[str, Any]]) -> list[Message]:
        chance = self._random.random()
        asked = self._text_message("user")
        if tools and chance < 0.4:
            return [asked, *self._called(tools), *([self._text_message("assistant")] if chance < 0.3 else [])]
        if chance < 0.45:
            return [asked, self._text_message("user")]
        if chance < 0.5:
            return [asked, self._text_message("assistant"), self._text_message("assistant")]
        return [asked, self._text_message("assistant")]

    def _text_message(self, role: str) -> Message:
        name = self._random.choice(NAMES) if role == "user" else ""
        return {"role": role, "content": self._texts.text(), **({"name": name} if name else {})}

    # -- tools ---------------------------------------------------------------------------------------------------------

    def _tools(self) -> list[dict[str, Any]]:
        if self._random.random() < 0.4:
            return []
        names = self._random.sample(TOOL_NAMES, self._random.randint(1, 4))
        return [{"type": "function", "function": self._function(name)} for name in names]

    def _function(self, name: str) -> dict[str, Any]:
        function: dict[str, Any] = {"name": name}
        if self._random.random() < 0.9:
            function["description"] = self._texts.text()
        if self._random.random() < 0.9:
            function["parameters"] = self._schema(2)
        return function

    def _schema(self, depth: int) -> dict[str, Any]:
        keys = self._random.sample(KEYS, self._random.randint(0, 4))
        schema: dict[str, Any] = {"type": "object", "properties": {key: self._property(depth) for key in keys}}
        if keys and self._random.random() < 0.6:
            schema["required"] = keys[:2]
        if self._random.random() < 0.2:
            schema["additionalProperties"] = False
        return schema

    def _property(self, depth: int) -> dict[str, Any]:
        described = {"description": self._texts.prose(40)} if self._random.random() < 0.6 else {}
        match self._random.randint(0, 5 if depth else 3):
            case 0:
                return {"type": "string", **described, **({"enum": ["a", "é", ""]} if described else {})}
            case 1:
                return {"type": "integer", **described, "minimum": 0, "maximum": 10**12}
            case 2:
                return {"type": "number", **described, "default": 0.1, "multipleOf": 1e-7}
            case 3:
                return {"type": "boolean", **described}
            case 4:
                return {"type": "array", **described, "items": self._property(depth - 1)}
            case _:
                return {**self._schema(depth - 1), **described}

    def _called(self, tools: list[dict[str, Any]]) -> list[Message]:
        calls, results = [], []
        for _ in range(self._random.choice((1, 1, 1, 2, 3))):
            self._calls += 1
            id = f"call_{self._calls:04d}"
            function = {"name": self._random.choice(tools)["function"]["name"], "arguments": self._arguments()}
            calls.append({"id": id, "type": "function", "function": function})
            results.append({"role": "tool", "tool_call_id": id, "content": self._result()})
        content = self._texts.text() if self._random.random() < 0.3 else None
        return [{"role": "assistant", "content": content, "tool_calls": calls}, *results]

    def _arguments(self) -> str:
        if self._random.random() < 0.05:
            return self._random.choice(("", "{oops", "[1, 2]", "null", '"text"', '{"a": NaN}', "{} {}", "{'a': 1}"))
        keys = self._random.sample(KEYS, self._random.randint(0, 4))
        spaced = self._random.random() < 0.5
        return json.dumps(
            {key: self._value(2) for key in keys},
            ensure_ascii=self._random.random() < 0.5,
            separators=None if spaced else (",", ":"),
        )

    def _value(self, depth: int) -> object:
        plain = (
            self._texts.prose(30),
            self._texts.prose(10),
            0,
            -1,
            10**15,
            0.5,
            1.0,
            1e-7,
            1e21,
            12.50,
            True,
            False,
            None,
            "",
            'é\n"',
        )
        chance = self._random.random()
        if depth and chance < 0.15:
            return [self._value(depth - 1) for _ in range(self._random.randint(0, 3))]
        if depth and chance < 0.3:
            return {key: self._value(depth - 1) for key in self._random.sample(KEYS, 2)}
        return self._random.choice(plain)

    def _result(self) -> str:
        return self._arguments() if self._random.random() < 0.5 else self._texts.text()
