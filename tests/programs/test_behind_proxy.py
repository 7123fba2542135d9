"""The command-line agents behind the proxy: long runs in a window that is smaller than their history.

Each program is set up as `docs/programs/base-url.md` says. The model is scripted: it reads the pages of a log book, and
needs a code from an early page again and again. What it may use is what stands in the requests that it gets.
"""

import json
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import mean
from typing import NamedTuple

import pytest

from brimful.core.content import Text, ToolCall
from brimful.core.labels import HISTORY_OPEN
from brimful.counting import count_text
from brimful.server.app import create_app
from brimful.server.config import parse_config, read_config
from brimful.server.connections import connection_settings
from brimful.wires import find_wire
from programs.scripted import ScriptedAgent, check_requests, run_program, shared_prefix, thinking
from server.upstream import serving

PAGE = Path(__file__).parents[2] / "docs" / "programs" / "base-url.md"
TURNS = 30
DOUBLE = 5  # every fifth turn has two calls
PAGES = TURNS + TURNS // DOUBLE
LINES = 120  # of a page
LOCKED = PAGES // 2  # pages from here on need the code
CODE = "K7RW2M9X"
TELEPHONE = "6613-4471-08"
TASK = (
    f"Print the pages of the log book, page-1.txt to page-{PAGES}.txt, one after the other in the shell. From page "
    f"{LOCKED} on, use `sh open.sh CODE {LOCKED}`, where CODE is the access code of the lamp room, which one of the "
    "pages names. At the end, tell me the code and the telephone of the harbour master. The reference is QX-4417."
)
PROMPT_FIELDS = ("tools", "system", "systemInstruction", "instructions", "messages", "input", "contents")
OPAQUE = ("encrypted_content", "signature", "thoughtSignature")  # which cost what the model thought, not their length
FLOOR = 0.6  # of the mean share of a request with which the next one begins


class Program(NamedTuple):
    """How a program is run: its section of the page, its command, its tool for commands, and the format it speaks."""

    title: str
    command: tuple[str, ...]
    tool: str
    argument: str
    wire: str
    more: dict = {}
    other: str = "The log book"
    completion: int = 210_000  # reported tokens: more than the window that programs believe in unless they are told


DESCRIBED = {"description": "Print a page"}
PROGRAMS = {
    "claude": Program(
        "Claude Code",
        ("claude", "-p", TASK, "--model", "claude-sonnet-4-5", "--allowedTools", "Bash"),
        "Bash",
        "command",
        "anthropic",
        DESCRIBED,
    ),
    "codex": Program(
        "Codex",
        ("codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", TASK),
        "exec_command",
        "cmd",
        "responses",
        completion=190_000,  # it compacts at 244,800, whatever it is told
    ),
    "opencode": Program("opencode", ("opencode", "run", TASK), "bash", "command", "openai", DESCRIBED),
    "pi": Program("pi", ("pi", "--provider", "brimful", "--model", "gpt-4o", "-p", TASK), "bash", "command", "openai"),
    "qwen": Program(
        "Qwen Code", ("qwen", "--yolo", "-p", TASK), "run_shell_command", "command", "openai", {"is_background": False}
    ),
    "gemini": Program(
        "Gemini CLI",
        ("gemini", "--yolo", "-m", "gemini-2.5-pro", "-p", TASK),
        "run_shell_command",
        "command",
        "gemini",
        other='{"unproductive_state_analysis": "It goes on.", "unproductive_state_confidence": 0}',
    ),
}


def page(number):
    """Return a page of the log book, the same in every run."""
    chance = random.Random(number)
    lines = [
        f"{at // 4:02}:{at % 4 * 15:02} wind {chance.choice(['N', 'SW', 'calm'])} {chance.randint(0, 9)}, ship "
        f"{chance.choice('ABCDEF')}{chance.randint(1000, 9999)} passed, oil {chance.random() * 90:.1f} l"
        for at in range(LINES)
    ]
    lines[20] = f"The access code of the lamp room is {CODE}." if number == 3 else lines[20]
    lines[30] = f"Harbour master: telephone {TELEPHONE}." if number == 5 else lines[30]
    return "\n".join([f"Log book, page {number}", *lines, ""])


def read_section(title):
    """Return the files and the variables that the page names for a program."""
    text = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)[1]
    files = re.findall(r"^<!-- file (\S+) -->\n```\w+\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return dict(files), dict(re.findall(r"^export (\w+)=(\S+)", text, re.MULTILINE))


def texts_in(value):
    if isinstance(value, dict):
        return [text for key, each in value.items() if key not in OPAQUE for text in texts_in(each)]
    return [text for each in value for text in texts_in(each)] if isinstance(value, list) else [value]


def tokens(request):
    """Count the texts of a prompt, each on its own."""
    texts = texts_in([request[field] for field in PROMPT_FIELDS if field in request])
    return sum(count_text("o200k_base", text) for text in texts if isinstance(text, str))


class Reader(ScriptedAgent):
    """A model that reads the log book. It knows of earlier pages only what its requests say, or what it can recall."""

    def __init__(self, program, window):
        super().__init__(program.tool, TURNS, {}.get, wire=program.wire, tokens=tokens, window=window)
        self.program, self.other, self.completion = program, program.other, program.completion
        self.pages, self.recalls = 0, 0

    def next_parts(self, request):
        code = re.search(r"access code of the lamp room is (\w{8})|(?<==sh open\.sh )(\w{8})", json.dumps(request))
        count = 2 if (len(self.requests) - self.recalls) % DOUBLE == 0 else 1
        numbers = range(self.pages + 1, min(self.pages + count, PAGES) + 1)
        if code is None and self.pages >= LOCKED - 2 and not self.recalls:
            return (self.recall("access code of the lamp room"),)
        if code is None and self.pages >= LOCKED - 2:
            return (Text(text="The code is lost."),)
        if numbers:
            self.pages = numbers[-1]
            return tuple(self.read_page(number, code) for number in numbers)
        if '"recall"' in json.dumps(request.get("tools")) and not self.recalls:
            return (self.recall("telephone of the harbour master"),)
        found = TELEPHONE if TELEPHONE in json.dumps(request) else "unknown"
        return (Text(text=f"The code is {code[1] or code[2]}, the telephone {found}."),)

    def read_page(self, number, code):
        command = f"cat page-{number}.txt" if number < LOCKED else f"sh open.sh {code[1] or code[2]} {number}"
        arguments = {self.program.argument: command, **self.program.more}
        return ToolCall(id=f"call_{number:06}", name=self.tool, arguments=json.dumps(arguments))

    def recall(self, query):
        self.recalls += 1
        return ToolCall(id=f"recall_{self.recalls:04}", name="recall", arguments=json.dumps({"query": query}))


class Watched:
    """An app, and the largest request that it gets."""

    def __init__(self, app):
        self.app, self.largest = app, b""

    async def __call__(self, scope, receive, send):
        body = bytearray()

        async def watch():
            message = await receive()
            body.extend(message.get("body", b""))
            self.largest = max(self.largest, bytes(body), key=len)
            return message

        await self.app(scope, watch if scope["type"] == "http" else receive, send)


def write_files(folder, files, address):
    for number in range(1, PAGES + 1):
        (folder / f"page-{number}.txt").write_text(page(number), encoding="utf-8")
    script = f'[ "$1" = {CODE} ] && cat "page-$2.txt" || echo "wrong code"\n'
    (folder / "open.sh").write_text(script, encoding="utf-8")
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(with_address(text, address), encoding="utf-8")


def with_address(text, address):
    assert text.count("http://127.0.0.1:8080") <= 1
    return text.replace("http://127.0.0.1:8080", address)


def configure(upstream, folder):
    """Return the configuration of the page, with this upstream."""
    (folder / "brimful.toml").write_text(read_section("Set up the server")[0]["brimful.toml"], encoding="utf-8")
    data = read_config(folder / "brimful.toml")
    data["upstreams"][0]["url"] = f"{upstream}/v1"
    return parse_config(data | {"store": f"sqlite:///{folder}/brimful.db"}, "brimful.toml")


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_run_longer_than_the_window_ends_with_the_answer(name, tmp_path, capsys):
    program = PROGRAMS[name]
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed: python tools/integrations.py behind-proxy")
    files, variables = read_section(program.title)
    agent = Reader(program, configure("http://127.0.0.1:1", tmp_path).upstreams[0].window)
    with serving(thinking(agent.server), lifespan="off") as (upstream, _):
        config = configure(upstream, tmp_path)
        proxy = Watched(create_app(config, environ={}))
        with serving(proxy, **connection_settings(config)) as (address, _):
            write_files(tmp_path, files, address)
            environ = {key: with_address(value, address) for key, value in variables.items()}
            printed = run_program([*program.command], tmp_path, environ)
    assert f"The code is {CODE}, the telephone {TELEPHONE}." in printed
    check_run(agent, program.wire)
    history = tokens(json.loads(proxy.largest))
    shares = shared_prefix(agent.requests, fields=PROMPT_FIELDS)
    largest = max(map(tokens, agent.requests))
    with capsys.disabled():
        numbers = f"{len(agent.requests)} | {history:,} | {largest:,} | {mean(shares):.0%} | {min(shares):.0%}"
        sys.stdout.write(f"\n| {program.title} {read_version(name)} | {numbers} |\n")
    assert history > 1.5 * agent.window
    assert mean(shares) > FLOOR


def read_version(command):
    done = subprocess.run([command, "--version"], capture_output=True, text=True, timeout=60, check=False)
    return re.search(r"\d+\.\d+\.\d+", done.stdout + done.stderr)[0]


def check_run(agent, wire):
    limit = agent.window - max(find_wire(wire).read_max_output(each) or 0 for each in agent.requests)
    check_requests(agent.requests, wire, tokens=tokens, limit=limit)
    assert agent.refused == []
    assert agent.pages == PAGES
    assert agent.recalls >= 1
    said = [json.dumps(request) for request in agent.requests]
    assert not any("wrong code" in each for each in said)
    assert HISTORY_OPEN.splitlines()[0] in said[-1]
    assert TELEPHONE in said[-1]
