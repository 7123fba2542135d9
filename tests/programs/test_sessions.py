"""What session files tell: of Claude Code, its requests as they were sent; of all, what was said, what requests cost
and why the cache missed."""

import json
from datetime import datetime, timedelta

import msgspec
import pytest

from brimful.core.content import Text
from brimful.records import Usage
from brimful.sessions import claude_code
from brimful.sessions.cache import find_misses
from brimful.sessions.files import find_sessions
from brimful.sessions.records import SessionRecords
from brimful.sessions.window import Window
from programs.scripted import TASK, ScriptedAgent, run_program
from server.upstream import serving

OTHER_MODEL = "claude-sonnet-4-5"
LAST = "Finish it."
SNAPSHOT = "<state_snapshot>The pages are read.</state_snapshot>"
SHELL = {"description": "Read a page", "is_background": False}
FIELDS = ("tools", "system", "systemInstruction", "messages", "contents")


class CachingAgent(ScriptedAgent):
    """A model whose provider caches: it bills as cached what a request has in common with the one before it."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.before = {}

    def __call__(self, request):
        reply = super().__call__(request)
        tools, *others = (json.dumps(plain(request[name]))[:-1] for name in FIELDS if name in request)
        text = "".join([tools, *others])
        before = self.before.get(reply.model, "")
        same = next(
            (i for i, (a, b) in enumerate(zip(before, text, strict=False)) if a != b), min(len(before), len(text))
        )
        if self.tool in tools:
            self.before[reply.model] = text
        cached = same // 4 if same >= 4_096 else 0
        return msgspec.structs.replace(reply, usage=Usage(prompt=len(text) // 4, cached=cached, completion=20))

    def next_parts(self, request):
        """Write a summary if the program compacts."""
        last = json.dumps(request[FIELDS[-1] if FIELDS[-1] in request else "messages"][-1])
        if "detailed summary" in last:
            return (Text(text="<summary>The pages are read.</summary>"),)
        if "<state_snapshot>" in last:
            return (Text(text=SNAPSHOT),)
        return super().next_parts(request)


def plain(value):
    """Return JSON without the marks of what to cache, and without the block that names the program's build."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items() if key != "cache_control"}
    if isinstance(value, list):
        return [
            plain(each)
            for each in value
            if not (isinstance(each, dict) and "billing" in str(each.get("text", ""))[:40])
        ]
    return value


def read_pages(steps):
    return CachingAgent("Bash", steps, lambda step: {"command": f"seq {step}00 {step}80", "description": "Read a page"})


@pytest.fixture
def run(tmp_path):
    """Run Claude Code in a home of its own, again and again in the same session."""
    (tmp_path / "work").mkdir()
    agent = read_pages(3)

    def start(prompt, *arguments, steps=2):
        agent.steps = len(agent.requests) + steps
        with serving(agent.server) as (address, _):
            settings = {
                "ANTHROPIC_BASE_URL": address,
                "ANTHROPIC_API_KEY": "x",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "DISABLE_AUTO_COMPACT": "1",
                "IS_SANDBOX": "1",  # it may run as root
                "HOME": str(tmp_path),
            }
            command = ["claude", *arguments, "--dangerously-skip-permissions", "-p", prompt]
            run_program(command, tmp_path / "work", settings)

    return agent, start, tmp_path


def test_requests_in_the_file_are_those_that_the_server_received(run):
    agent, start, home = run
    start(TASK, steps=4)
    [session] = find_sessions(home, {})
    assert session.title.startswith("Read every page")
    rebuilt = [request for _, request in claude_code.rebuild_requests(session.path)]
    assert len(rebuilt) == len(agent.requests) == 5
    for own, sent in zip(rebuilt, agent.requests, strict=True):
        for field in ("model", "max_tokens", "tools", "messages"):
            assert own[field] == sent[field], field
        assert own["system"] == sent["system"][-len(own["system"]) :]


def test_five_provoked_misses_are_named_right(run):
    agent, start, home = run
    opus = ("--continue", "--model", "claude-opus-4-5", "--tools", "Bash,Read")
    other = ("--continue", "--model", OTHER_MODEL, "--tools", "Bash,Read")
    start(TASK, "--model", "claude-opus-4-5")
    start("Go on.", *opus)
    start("Go on.", *opus)  # nothing changed
    start("Go on.", *other)
    agent.before.clear()
    start("Go on.", *other)
    start("/compact", *other)
    start("Go on.", *other)
    start(LAST, *other)
    [session] = find_sessions(home, {})
    idle_before_the_last(session.path, seconds=400)
    causes = [miss.cause for miss in find_misses(claude_code.read(session.path))]
    assert causes == ["tools_changed", "model_changed", "likely_server_side", "compaction", "ttl_expired_5m"]


def idle_before_the_last(path, *, seconds):
    """Let the last request come so much later, and read nothing from the cache: nobody waits that long here."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    place = next(n for n, line in enumerate(lines) if line["type"] == "user" and line["message"]["content"] == LAST)
    answers = [line["message"]["usage"] for line in lines[place:] if line["type"] == "assistant"]
    answers[0]["input_tokens"] += answers[0].pop("cache_read_input_tokens")
    for line in lines[place:]:
        if "timestamp" in line:
            line["timestamp"] = str(datetime.fromisoformat(line["timestamp"]) + timedelta(seconds=seconds))
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


# -- Qwen Code ---------------------------------------------------------------------------------------------------------


def test_a_session_of_qwen_code_that_goes_on_with_another_model_and_is_compacted(tmp_path):
    agent = CachingAgent("run_shell_command", 3, lambda step: {"command": f"seq {step}00 {step}80", **SHELL})
    (tmp_path / "work").mkdir()
    (tmp_path / ".qwen").mkdir()
    (tmp_path / ".qwen" / "settings.json").write_text('{"security": {"auth": {"selectedType": "openai"}}}')
    one, other = "gpt-4o", "gpt-4o-mini"
    with serving(agent.server) as (address, _):
        environ = {"OPENAI_BASE_URL": f"{address}/v1", "OPENAI_API_KEY": "x", "HOME": str(tmp_path)}
        for prompt, model in ((TASK, one), ("Go on.", one), ("Go on.", other), ("/compress", other), (LAST, other)):
            go_on = ["--continue"] if agent.requests else []
            agent.steps = len(agent.requests) + 2
            command = ["qwen", "--yolo", *go_on, "-p", prompt]
            run_program(command, tmp_path / "work", environ | {"OPENAI_MODEL": model})
    [session] = find_sessions(tmp_path, {}, "qwen-code")
    window = Window()
    turns = list(window.read(session.events()))
    assert window.unknown == {}
    assert [number for number, turn in enumerate(turns) if turn.compacted] == [9]
    messages = [message.text for batch, _ in SessionRecords(session, texts_only=True).read() for message in batch]
    assert [text for text in messages if text != agent.answer] == [TASK, "Go on.", "Go on.", LAST]
    assert "model_changed" in [miss.cause for miss in find_misses(session.events())]
