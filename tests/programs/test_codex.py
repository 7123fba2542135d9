"""Codex with our hooks: tokens, a prefix that stays, originals that come back, sessions that are imported."""

import asyncio
import json
import shutil
from importlib.resources import files
from itertools import pairwise

import pytest

import brimful
from brimful.testing import FakeResponses
from programs.large_results import STEPS, recall, shortened_results, tokens_of, write_pages
from programs.scripted import TASK, run_program
from server.upstream import serving

PLUGIN = files("brimful") / "plugins" / "codex"
ANSWER = "Page 7 mentions it."
CONFIG = """
model = "gpt-5.5"
model_provider = "scripted"
approval_policy = "never"
sandbox_mode = "danger-full-access"

[model_providers.scripted]
name = "scripted"
base_url = "{address}/v1"
env_key = "KEY"
wire_api = "responses"
"""


def run(folder, *calls, prompt=TASK, hooks=True, more=()):
    """Run Codex in a home of its own with a model that makes these calls and answers; return the requests."""
    model = FakeResponses([*([call] for call in calls), ANSWER], tokens=lambda request: tokens_of([request]))
    model.window = 10**9
    with serving(model) as (address, _):
        home = folder / ".codex"
        home.mkdir(exist_ok=True)
        # The model of these tests is faster than the start of any server: wait for ours.
        plugin = (PLUGIN / "config.toml").read_text() + "required = true\n" if hooks else ""
        (home / "config.toml").write_text(CONFIG.format(address=address) + plugin)
        if hooks:
            shutil.copy(str(PLUGIN / "hooks.json"), home / "hooks.json")
        options = ["--skip-git-repo-check", "--dangerously-bypass-hook-trust"]
        printed = run_program(["codex", "exec", *more, *options, prompt], folder, {"KEY": "x"})
    assert ANSWER in printed
    return model.requests


def read_page(number, then=""):
    arguments = json.dumps({"cmd": f"cat page{number}.txt{then}"})
    return {"type": "function_call", "call_id": f"call_{number:06}", "name": "exec_command", "arguments": arguments}


def results(request):
    """Return the outputs of all calls, by their ids."""
    return {item["call_id"]: item["output"] for item in request["input"] if item["type"] == "function_call_output"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Return two folders with the same pages: the home of a run with the hooks, and of one without."""
    pair = tmp_path_factory.mktemp("with"), tmp_path_factory.mktemp("without")
    for folder in pair:
        write_pages(folder)
    return pair


@pytest.fixture(scope="module")
def runs(folders):
    """Return the requests of the same run with and without the hooks."""
    calls = [read_page(number) for number in range(STEPS)]
    return run(folders[0], *calls), run(folders[1], *calls, hooks=False)


def test_a_run_with_large_results_needs_at_most_half_the_tokens(runs, record_property):
    with_hooks, without = map(tokens_of, runs)
    record_property("tokens", {"with": with_hooks, "without": without, "requests": len(runs[0])})
    print(f"\n{with_hooks:,} of {without:,} tokens in {len(runs[0])} requests")  # noqa: T201
    assert len(runs[0]) == len(runs[1]) == STEPS + 1
    assert with_hooks <= without / 2


def test_every_request_begins_with_the_one_before_it(runs):
    for requests in runs:
        for before, after in pairwise(requests):
            assert after["input"][: len(before["input"])] == before["input"]
            assert after["tools"] == before["tools"]
            assert FakeResponses().find_broken_item(after["input"]) is None


def test_every_original_comes_back_through_the_mcp_server(runs, folders):
    noted = shortened_results(folders[0])
    assert len({each["handle"] for each in noted}) == len(noted) == STEPS
    recalled = recall(folders[0], [each["handle"] for each in noted], budget=20_000)
    without = [output.partition("Output:\n")[2] for output in results(runs[1][-1]).values()]
    assert recalled == without  # what Codex itself shows, which is not always all


@pytest.mark.usefixtures("runs")
def test_the_session_is_imported_once(folders):
    async def list_messages():
        async with brimful.Engine(f"sqlite:///{folders[0]}/.local/share/brimful/plugins.db") as engine:
            rooms = await engine.store.rooms_of(None, limit=10)
            [room] = [room.id for room in rooms if not room.id.endswith("/results")]
            return [each.message.text for each in await engine.store.history(room)]

    assert asyncio.run(list_messages()) == [ANSWER, TASK]


def test_a_shortened_result_says_the_exit_code_of_its_command(tmp_path):
    write_pages(tmp_path)
    requests = run(tmp_path, read_page(0, "; exit 3"))
    [output] = results(requests[-1]).values()
    assert output.startswith("Process exited with code 3\n")
    assert "[… recall " in output


def test_the_agent_recalls_with_the_tool_of_the_plugin(tmp_path):
    write_pages(tmp_path)
    run(tmp_path, read_page(0))
    [noted] = shortened_results(tmp_path)
    arguments = json.dumps({"handle": noted["handle"], "budget": 20_000})
    call = {"type": "function_call", "call_id": "call_r", "namespace": "mcp__brimful", "name": "recall"}
    requests = run(tmp_path, call | {"arguments": arguments}, more=["resume", "--last"], prompt="Go on.")
    assert (tmp_path / "page0.txt").read_text().splitlines()[-1] in json.dumps(results(requests[-1])["call_r"])


def test_a_resumed_session_begins_with_the_same_input(tmp_path):
    write_pages(tmp_path)
    before = run(tmp_path, read_page(0))[-1]["input"]
    after = run(tmp_path, read_page(1), more=["resume", "--last"], prompt="Go on.")[0]["input"]
    assert after[: len(before)] == before
