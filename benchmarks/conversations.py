"""Conversations in OpenAI's form, the same for all: with tools, plain, long and mixed, and real transcripts."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from texts import Texts

Message = dict[str, Any]
Messages = list[Message]

SYSTEM = "You are the assistant of an online shop. Be brief, be exact, and ask before you change an order."
QUESTION = "Thanks! One more thing: what did we say about the delivery of the second order?"
TURN = re.compile(r"^(user|assistant|tool): ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Conversation:
    """A named list of messages: a system prompt, a history, and a question that ends it."""

    name: str
    messages: Messages


def all_conversations(data: Path | None) -> list[Conversation]:
    """Return every conversation there is."""
    return [with_tools(data), long_and_mixed(data), *transcripts(data), plain(600, data), plain(5_000, data)]


def with_tools(data: Path | None = None, turns: int = 40) -> Conversation:
    """Each turn: a question, two calls at once, their results, an answer. 40 turns are 202 messages."""
    texts = Texts(40, data)
    history = [message for turn in range(turns) for message in _tool_turn(texts, turn)]
    return Conversation(f"{turns} turns with tools", _framed(history))


def plain(turns: int, data: Path | None = None) -> Conversation:
    """Questions and answers, nothing else."""
    texts = Texts(turns, data)
    history = [message for _ in range(turns) for message in _plain_turn(texts)]
    return Conversation(f"{turns:,} plain turns", _framed(history))


def long_and_mixed(data: Path | None = None, turns: int = 120) -> Conversation:
    """Short and very long messages, with code and other scripts."""
    texts = Texts(120, data)
    history: Messages = []
    for _ in range(turns):
        history += [
            {"role": "user", "content": texts.any(texts.number(40, 1_500))},
            {"role": "assistant", "content": texts.mixed(10 ** texts.number(2, 3) * texts.number(1, 6))},
        ]
    return Conversation(f"{turns} long mixed turns", _framed(history))


def transcripts(data: Path | None) -> Iterator[Conversation]:
    """Yield the tool-calling transcripts of a data folder, each file as the one long day of one assistant."""
    for path in sorted(data.rglob("Mock*.jsonl")) if data else ():
        rows = [json.loads(line)["messages_display"] for line in path.read_text(encoding="utf-8").splitlines()]
        history = [message for at, row in enumerate(rows) for message in _transcript(row, at)]
        yield Conversation(f"{len(rows)} transcripts ({path.name.split('Domain')[0]})", _framed(history))


def ending(messages: Messages, turns: int) -> Messages:
    """Return the conversation as it was some turns before, with the same question at its end."""
    starts = [at for at, message in enumerate(messages[:-1]) if message["role"] == "user"]
    return [*messages[: starts[-turns]], messages[-1]] if turns else messages


def fresh(messages: Messages, mark: int) -> Messages:
    """Return the messages with texts that no cache has seen."""
    return [{**message, "content": f"{message['content']} ({mark})"} for message in messages]


def _framed(history: Messages) -> Messages:
    return [{"role": "system", "content": SYSTEM}, *history, {"role": "user", "content": QUESTION}]


def _plain_turn(texts: Texts) -> Messages:
    return [
        {"role": "user", "content": texts.prose(texts.number(40, 300))},
        {"role": "assistant", "content": texts.prose(texts.number(100, 600))},
    ]


def _tool_turn(texts: Texts, turn: int) -> Messages:
    ids = [f"call_{turn:03d}_{at}" for at in range(2)]
    return [
        {"role": "user", "content": texts.prose(100)},
        _calls(ids, [json.dumps({"order_id": f"#W{texts.number(10**6, 10**7)}", "verbose": True}) for _ in ids]),
        *({"role": "tool", "tool_call_id": id, "content": texts.record()} for id in ids),
        {"role": "assistant", "content": texts.prose(160)},
    ]


def _calls(ids: list[str], arguments: list[str]) -> Message:
    calls = [
        {"id": id, "type": "function", "function": {"name": "get_order_details", "arguments": text}}
        for id, text in zip(ids, arguments, strict=True)
    ]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def _transcript(display: str, number: int) -> Iterator[Message]:
    """Read "user: …", "assistant: …", "tool: …". A call is shown as "None", its arguments are not known."""
    _, *pieces = TURN.split(display)
    turns = [(role, text.strip()) for role, text in zip(pieces[::2], pieces[1::2], strict=True)]
    for at, (role, text) in enumerate(turns):
        if role == "tool":
            id = f"call_{number:03d}_{at}"
            yield _calls([id], ["{}"])
            yield {"role": "tool", "tool_call_id": id, "content": text}
        elif text != "None":
            yield {"role": role, "content": text}
