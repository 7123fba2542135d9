"""Sample data for the inspector: what the model saw, what it did not see, and why one answer forgot something.

Fills a SQLite file with a year of small talk, 240 memories, five responses and an agent's run, then serves it, with a
session of a coding agent. The model is scripted, the contexts are real. Run it with `make inspect`. Arguments are
passed on to `brimful serve`, such as `--listen 127.0.0.1:9000`.
"""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import repeat, takewhile
from pathlib import Path
from threading import Thread
from typing import Any, NoReturn

import uvicorn
from memory import DAY, MODEL, NOW, QUESTIONS, year
from rich.console import Console

import brimful
from brimful.core.content import Text
from brimful.counting import counter_for
from brimful.models import resolve
from brimful.records import Memory, Persona, Response, Room, Snapshot, Usage
from brimful.records.reply import Reply
from brimful.testing import ScriptedProvider, ScriptedServer
from brimful.wires.incoming import read_incoming

EXCHANGES = (
    ("Where do I like to sit in the library?", "In the window seat."),
    (QUESTIONS[2], "After the street where you met."),
    ("How do I get to the market?", "By tram."),
    ("Which cake should I bake for Sunday?", "A hazelnut torte, with plenty of cream. Grace will love it."),
    (QUESTIONS[0], "Rosinante, the red Gazelle."),
)
CAKE = 3
"""The exchange that went wrong. It is not the newest, so that a good one is seen first."""
WARNING, REMINDED = "must not eat hazelnuts", "A lemon cake. It has no nuts, and Grace likes it."
"""What the model has to be told about the cake, and what it answers then."""
UNKNOWN = f"I am a script and know the answers to {len(EXCHANGES)} questions, such as “{EXCHANGES[CAKE][0]}”"
AGENT = "claude-opus-4-5"
RULES = "You are a coding agent. Read before you change, and run the tests after each change. " * 30
FILES = ("ship.py", "orders.py", "tests/test_ship.py", "queue.py")
TASK = "Find out why some orders are shipped twice, and mend it."
STEPS = 40
LASTS = 300  # seconds that its cache keeps a prompt
LUNCH, CONNECTED, COMPACTED = 12, 19, 27
"""Requests of the sample session: after a pause, after a server was connected, and after a compaction."""
FORGOTTEN = "mem-nuts"
"""The memory that the answer about the cake should have known."""
THINGS = ("the tram to the market", "her red bicycle", "the window seat in the library", "long walks by the canal")
THOUGHTS = (
    "Ada prefers {} to anything else after work.",
    "Ada says that {} reminds her of Lisbon.",
    "Grace gave Ada a book about {}, which she has not read yet.",
    "Ada would like to photograph {} before the winter.",
    "Ada forgot her umbrella because of {}, and laughed about it.",
)
NOTEBOOKS = ["Alpha", "Beta", "Gamma", "Delta", "Epsilon", "Zeta", "Eta", "Theta", "Iota", "Kappa", "Lambda", "Mu"]
"""Where a thought was written down: the same one in two of them is no contradiction."""
KINDS = ("semantic", "episodic", "procedural")
PINNED = 7
LETTER = "A letter from Grace:\n\n" + "\n".join(
    f"{number}. We looked at house number {number} in the Rua da Rosa: {number % 4 + 1} rooms, a {view} view, too dear."
    for number, view in enumerate(("river", "garden", "courtyard", "street") * 20, 1)
)
"""Too long for the window, so the model sees a digest of it."""


def memories() -> list[Memory]:
    """Return more memories than are worth their tokens, two of which matter for the question about the cake."""
    known = [
        Memory(id=FORGOTTEN, content=f"Ada {WARNING}, says her doctor.", user="ada", at=NOW - 100 * DAY),
        Memory(
            id="mem-grace",
            content="Ada's sister Grace comes for Sunday lunch and likes lemon cake.",
            user="ada",
            at=NOW - 10 * DAY,
        ),
    ]
    return known + [
        Memory(
            id=f"mem-{number}",
            content=THOUGHTS[number % len(THOUGHTS)].format(THINGS[number % len(THINGS)])
            + f" ({NOTEBOOKS[number // 20]}, day {number})",
            type=KINDS[number % 3],  # type: ignore[arg-type]
            user="ada",
            importance=0.3 + 0.6 * (number % 10) / 10,
            at=NOW - (365 - number) * DAY,
            pinned=number == PINNED,
        )
        for number in range(240 - len(known))
    ]


HOMES = ("Grace lives in Porto.", "Grace lives in Rome.", "Grace lives in Lisbon.")
"""Learned one after the other, so that each replaces the one before."""


def worthless() -> list[Memory]:
    """Return memories of another user that an audit finds."""
    texts = {
        "tea": "Grace drinks green tea in the morning.",
        "tea-again": "Grace drinks green tea in the morning!",
        "shift": "Grace works at the hospital on Mondays.",
        "shift-new": "Grace works at the hospital on Fridays.",
        "log": "2026-05-02 08:11:09 ERROR sync: could not reach the calendar",
        "template": "The user's name is {{user_name}}.",
    }
    return [
        Memory(id=f"grace-{name}", content=text, user="grace", at=NOW - (40 - day) * DAY, source="mcp")
        for day, (name, text) in enumerate(texts.items())
    ]


def learned(request: dict[str, Any]) -> str:
    """Answer as a model that learns where Grace lives: what it knows of her so far is replaced."""
    said = "\n".join(str(message["content"]) for message in request["messages"][1:])
    home = next(home for home in HOMES if home.replace("Grace lives", "I live") in said)
    known = re.search(r"\((k\d+)\) .*Grace lives in", said)
    fact = {"text": home, "messages": [1], "replaces": known and known[1]}
    return json.dumps({"facts": [fact], "outdated": []})


def tokens_of(request: dict[str, Any]) -> int:
    """Count the tokens of a request, as a server would report them."""
    return counter_for(resolve(MODEL)).prompt(read_incoming(request, "openai").prompt).tokens


class Model:
    """A model that knows what its prompt says, and reports its tokens as a server with a prompt cache would."""

    def __init__(self) -> None:
        self._cache: list[Any] = []

    def __call__(self, request: dict[str, Any]) -> Reply:
        """Answer a request."""
        messages, answer = request["messages"], self.answer(request)
        cached = zip(messages, self._cache, strict=False)
        prefix = [new for new, _ in takewhile(lambda pair: pair[0] == pair[1], cached)]
        self._cache = messages
        usage = Usage(
            prompt=tokens_of(request),
            cached=tokens_of(request | {"messages": prefix}) if prefix else 0,
            completion=counter_for(resolve(MODEL)).text(answer).tokens,
        )
        return Reply(parts=(Text(text=answer),), model=MODEL, usage=usage)

    def answer(self, request: dict[str, Any]) -> str:
        """Return the answer to the last message of a request."""
        *_, last = request["messages"]
        known = [number for number, (question, _) in enumerate(EXCHANGES) if question in last["content"]]
        if not known:
            return UNKNOWN
        is_warned = known == [CAKE] and WARNING in json.dumps(request["messages"])
        return REMINDED if is_warned else EXCHANGES[known[0]][1]


@contextmanager
def model_server() -> Iterator[str]:
    """Serve the model, and yield its URL."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(ScriptedServer(repeat(Model())), log_level="warning", lifespan="off"))
    thread = Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    finally:
        server.should_exit = True
        thread.join()


async def agent_run(engine: brimful.Engine) -> None:
    """Record the run of an agent: it reads files and runs tests, more than its window holds."""
    begin, cached, conversations = time.time() - 3_600, 0, brimful.Conversations()
    messages: list[dict[str, Any]] = [{"role": "user", "content": TASK}]
    for number in range(STEPS):
        request = {"model": "gpt-4o", "max_tokens": 500, "messages": messages}
        context = conversations.fit("shop", request, window=16_000)
        at, is_last = begin + 12 * number, number == STEPS - 1
        snapshot = Snapshot(id=f"ctx-shop-{number}", room="shop", at=at, context=context, build_seconds=0.03)
        usage = Usage(prompt=context.tokens, cached=min(cached, context.tokens * 9 // 10), completion=60)
        response = Response(
            id=f"res-shop-{number}",
            context=snapshot.id,
            room="shop",
            model="gpt-4o",
            at=at + 6,
            seconds=4 + number % 5,
            usage=usage,
            expected_cached=usage.cached,
            finish="stop" if is_last else "tool-calls",
        )
        await engine.store.save_context(snapshot, response)
        cached = context.tokens
        file = FILES[number % len(FILES)]
        name, given = ("bash", {"command": f"pytest {file}"}) if number % 3 else ("read", {"path": file})
        call = {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": listing(file, number)},
        ]


def listing(file: str, number: int) -> str:
    """Return what a tool shows of a file."""
    return "\n".join(f"{file}:{row}: order B-{4000 + row * 7 + number} packed by shelf {row % 9}" for row in range(70))


async def live(url: str) -> brimful.Context:
    """Write the sample data, and return the context of the answer that forgot something."""
    async with brimful.Engine(url, model=MODEL, provider=ScriptedProvider(repeat(Model()))) as engine:
        prompt = "You are Nova, an old friend. You remember."
        await engine.put(Persona(id="nova", name="Nova", prompt=prompt, model=MODEL))
        await agent_run(engine)
        await engine.put(Room(id="kitchen", name="The kitchen", user="ada", persona="nova"))
        await engine.post_many(year())
        await engine.remember_many(memories())
        await engine.wait_indexed()
        await engine.remember_many(worthless())
        await engine.put(Room(id="letters", name="Letters", user="grace"))
        for number, home in enumerate(HOMES):
            text = home.replace("Grace lives", "I live")
            at = NOW - (300 - 100 * number) * DAY
            letter = await engine.post(room="letters", text=text, at=at)
            await engine.learn([letter], user="grace", provider=ScriptedProvider([learned]))
        contexts = []
        for number, (question, _) in enumerate(EXCHANGES):
            if number == CAKE:
                await engine.post(room="kitchen", sender="Ada", text=LETTER)
            answer = await engine.respond("kitchen", question, persona="nova", sender="Ada", user="ada")
            contexts.append(answer.context)
        return contexts[CAKE]


def agent_session(home: Path) -> None:
    """Write a session of a coding agent: it reads files, pauses for lunch, connects a server, and is compacted."""
    lines: list[dict[str, Any]] = []
    counter = counter_for(resolve(AGENT))
    at, window, cached, last = NOW - DAY, {}, 0, 0.0

    def add(kind: str, **fields: Any) -> None:
        stamp = datetime.fromtimestamp(at, UTC).isoformat()
        lines.append({"type": kind, "sessionId": "sample", "cwd": "/home/ada/shop", "timestamp": stamp, **fields})

    def say(role: str, content: Any, name: str) -> None:
        window[name] = counter.text(json.dumps(content)).tokens
        add(role, uuid=name, message={"role": role, "content": content})

    def shape(tools: list[str]) -> None:
        described = [{"name": name, "description": f"{name}: {RULES[:900]}", "input_schema": {}} for name in tools]
        prompt = {"system": [{"type": "text", "text": RULES}], "tools": described}
        window["shape"] = counter.text(json.dumps(prompt)).tokens
        add("api-request-shape", shapeHash=str(len(tools)), shape=prompt)

    tools = ["Bash", "Read", "Edit", "Grep"]
    shape(tools)
    say("user", TASK, "task")
    for number in range(36):
        at += 2_900 if number == LUNCH else 40 + number % 5
        if number == CONNECTED:
            shape([*tools, "tracker_search", "tracker_update"])
        if number == COMPACTED:
            window = {"shape": window["shape"]}
            add("system", subtype="compact_boundary", compactMetadata={"trigger": "auto"}, uuid="boundary")
            say("user", "So far: the shop ships in ship.py, and tests pass.", "summary")
        keep = 0 if number in (CONNECTED, COMPACTED) or at - last > LASTS else cached
        total = sum(window.values())
        usage = {"input_tokens": 4, "cache_read_input_tokens": keep, "output_tokens": 180}
        usage["cache_creation_input_tokens"] = max(0, total - keep - 4)
        request = {"id": f"r{number}", "shapeHash": str(len(tools) + 2 * (number >= CONNECTED)), "keep": number}
        add("api-request", **request, tail=["x"], **({"base": f"r{number - 1}"} if number else {}))
        file = FILES[number % len(FILES)]
        tool, given = ("Bash", {"command": f"pytest -k case_{number}"}) if number % 3 else ("Read", {"file_path": file})
        blocks = [
            {"type": "thinking", "thinking": f"Order B-{4000 + number} was shipped twice. " * 4},
            {"type": "tool_use", "id": f"call{number}", "name": tool, "input": given},
        ]
        answer = {"id": f"msg{number}", "role": "assistant", "model": AGENT, "usage": usage, "content": blocks}
        add("assistant", uuid=f"a{number}", requestRef=f"r{number}", message=answer)
        window[f"a{number}"] = counter.text(json.dumps(blocks)).tokens
        result = {"type": "tool_result", "tool_use_id": f"call{number}", "content": listing(file, number)}
        say("user", [result], f"t{number}")
        cached, last = total, at
    path = home / ".claude" / "projects" / "-home-ada-shop" / "sample.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(each) + "\n" for each in lines), encoding="utf-8")


def environment(home: Path) -> dict[str, str]:
    """Return the environment of a server that finds only the sample session."""
    own = {"CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_DATA_HOME", "HERMES_HOME"}
    return {name: value for name, value in os.environ.items() if name not in own} | dict.fromkeys(
        ("HOME", "USERPROFILE"), str(home)
    )


def stop(*_: object) -> NoReturn:
    """Exit on SIGTERM as on Ctrl+C: the server is stopped, and the file is removed."""
    sys.exit(0)


def main() -> None:
    """Fill a file, and serve it until Ctrl+C."""
    signal.signal(signal.SIGTERM, stop)
    console = Console(highlight=False, soft_wrap=True)
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'companion.db'}"
        with console.status("Writing a year of small talk, 240 memories and five responses …"):
            asyncio.run(live(url))
        console.print(
            "[bold]Open the URL below in a browser.[/] One answer suggests a hazelnut torte. Find out why it forgot "
            f"the memory [bold]{FORGOTTEN}[/]. Press Ctrl+C to stop.\n"
        )
        agent_session(Path(folder))
        with model_server() as model:
            command = [sys.executable, "-m", "brimful", "serve", "--db", url, "--sessions", "--upstream", model]
            subprocess.run([*command, *sys.argv[1:]], check=False, env=environment(Path(folder)))  # noqa: S603 - ourselves


if __name__ == "__main__":
    main()
