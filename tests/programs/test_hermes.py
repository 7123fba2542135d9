"""Hermes Agent itself, from PyPI, with the plugin that it finds by its entry point."""

import json
import os
import re
import sys
import sysconfig
import venv
from itertools import repeat
from pathlib import Path

import pytest

import brimful
from brimful.core.content import ToolCall
from brimful.core.labels import HISTORY_CLOSE, HISTORY_OPEN
from brimful.records.reply import Reply
from brimful.testing import ScriptedServer
from programs import scripted
from server.upstream import serving

STEPS = int(os.environ.get("HERMES_STEPS", "60"))  # 200 take minutes
LIMIT = 32_000  # tokens; instructions and tools alone have 13,000, and 16,000 for Claude
MODELS = {"openai": "gpt-4o", "anthropic": "claude-sonnet-4-5"}
MODES = {"openai": "chat_completions", "anthropic": "anthropic_messages"}
PATHS = {"openai": "/v1", "anthropic": ""}
BATCH = 20  # recalls in one step
LINE = re.compile(r"^(r\d+) terminal\(command=cat page_(\d+)\.txt\)", re.MULTILINE)


class RecallingAgent(scripted.ScriptedAgent):
    """A model that reads a page in each step, then recalls every page in the ledger, and answers.

    `lines` are the handles in the ledger, each with its page, and `results` are what was recalled.
    """

    def __init__(self, steps):
        super().__init__("terminal", steps, lambda number: {"command": f"cat page_{number:03}.txt"})
        self.lines, self.waiting, self.results = [], [], {}

    def __call__(self, request):
        reply = super().__call__(request)
        if len(self.requests) == self.steps + 1:
            self.lines = LINE.findall(find_ledger(request))
            self.waiting = [handle for handle, _ in self.lines]
        self.results |= find_results(request)
        handles, self.waiting = self.waiting[:BATCH], self.waiting[BATCH:]
        if not handles:
            return reply
        return Reply(parts=tuple(map(recall, handles)), finish="tool-calls", usage=reply.usage, model=reply.model)


def recall(handle):
    arguments = json.dumps({"handle": handle, "max_tokens": 200})
    return ToolCall(id=f"recall_{handle}", name="recall", arguments=arguments)


def find_texts(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from find_texts(list(value.values()))
    elif isinstance(value, list):
        for each in value:
            yield from find_texts(each)


def find_ledger(request):
    found = [text for text in find_texts(request["messages"]) if text.startswith(HISTORY_OPEN)]
    assert len(found) == 1
    assert found[0].endswith(HISTORY_CLOSE)
    return found[0]


def find_results(request):
    """Return the results of recalls by handle."""
    results = {}
    for message in request["messages"]:
        content = message["content"] if isinstance(message["content"], list) else [message]
        for each in content:
            id = each.get("tool_call_id") or each.get("tool_use_id") or ""
            if id.startswith("recall_"):
                results[id.removeprefix("recall_")] = " ".join(find_texts(each["content"]))
    return results


def in_cache_order(request):
    """Return a request as one list, in the order in which providers cache it, without the marks that move."""
    return {"messages": without_cache_marks([*request["tools"], request.get("system"), *request["messages"]])}


def without_cache_marks(value):
    if isinstance(value, dict):
        return {key: without_cache_marks(each) for key, each in value.items() if key != "cache_control"}
    return [without_cache_marks(each) for each in value] if isinstance(value, list) else value


def count(request, wire):
    return brimful.fit(request, wire=wire, window=10**9).tokens


def write_pages(folder, number):
    for page in range(number):
        lines = [f"{page:03}-{line:02} the keeper wrote {page * 7919 + line * 104729} words" for line in range(60)]
        folder.joinpath(f"page_{page:03}.txt").write_text("\n".join([f"Page {page}, seal K{page:03}", *lines]))


def write_config(folder, address, wire, options):
    home = folder / "hermes"
    home.mkdir()
    config = {
        "context": {"engine": "brimful"},
        "plugins": {"enabled": ["brimful"], "entries": {"brimful": options}},
        "agent": {"max_turns": 500},
        "model": {
            "provider": "custom",
            "default": MODELS[wire],
            "base_url": address + PATHS[wire],
            "api_key": "x",
            "api_mode": MODES[wire],
            "context_length": 65_536,
        },
    }
    home.joinpath("config.yaml").write_text(json.dumps(config))


def run(folder, agent, wire, *, command=("hermes",), **options):
    write_pages(folder, agent.steps)
    with serving(agent.server) as (address, _):
        write_config(folder, address, wire, options)
        command = [*command, "chat", "-Q", "--yolo", "-q", scripted.TASK]
        return scripted.run_program(command, folder, {"HERMES_HOME": str(folder / "hermes")}, seconds=1_500)


def read_log(folder, name="agent.log"):
    return folder.joinpath("hermes", "logs", name).read_text()


def check_recalls(agent):
    """Check that each page of the last ledger has a handle of its own, which gives that page back."""
    assert len(agent.results) == len(agent.lines) == len(dict(agent.lines)) > 0
    for handle, page in agent.lines:
        assert f"seal K{page}" in agent.results[handle]


@pytest.mark.parametrize("wire", MODES)
def test_a_long_run_stays_within_the_limit_and_everything_can_be_recalled(tmp_path, wire):
    agent = RecallingAgent(STEPS)
    assert agent.answer in run(tmp_path, agent, wire, max_prompt_tokens=LIMIT)
    assert len(agent.requests) > STEPS
    scripted.check_requests(agent.requests, wire, tokens=lambda request: count(request, wire), limit=LIMIT)
    check_recalls(agent)
    shares = scripted.shared_prefix(list(map(in_cache_order, agent.requests[: STEPS + 1])))
    assert sum(shares) / len(shares) > 0.7
    assert "context compression started" not in read_log(tmp_path)


@pytest.mark.parametrize("wire", MODES)
def test_a_refused_request_is_sent_again_smaller_and_the_run_goes_on(tmp_path, wire):
    agent = RecallingAgent(steps=20)
    agent.server = ScriptedServer(repeat(agent), tokens=lambda request: count(request, wire), window=22_000)
    assert agent.answer in run(tmp_path, agent, wire)
    scripted.check_requests(agent.requests, wire, tokens=lambda request: count(request, wire), limit=22_000)
    check_recalls(agent)
    assert read_log(tmp_path).count("context compression started") == 1


def test_hermes_works_without_the_package_that_its_configuration_names(tmp_path):
    agent = scripted.ScriptedAgent("terminal", 3, lambda number: {"command": f"cat page_{number:03}.txt"})
    python = make_environment(tmp_path / "env")
    assert agent.answer in run(tmp_path, agent, "openai", command=(python, "-m", "hermes_cli.main"))
    assert len(agent.requests) == agent.steps + 1
    assert "Context engine 'brimful' not found" in read_log(tmp_path, "errors.log")


def make_environment(folder):
    """Make an environment with everything that is installed here except Brimful."""
    venv.create(folder, symlinks=True)
    installed = Path(sysconfig.get_path("purelib"))
    [target] = folder.glob("lib/python*/site-packages")
    for each in installed.iterdir():
        if "brimful" not in each.name and not target.joinpath(each.name).exists():
            target.joinpath(each.name).symlink_to(each)
    return str(folder / "bin" / Path(sys.executable).name)
