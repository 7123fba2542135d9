"""The plugin in opencode, with a scripted model."""

import json
import shutil
from importlib.resources import files

import pytest

from programs.js import LIMIT, STEPS, WARNING, Reader, check_recalls, check_run, killing, serve_brimful
from programs.scripted import TASK, run_program
from server.upstream import serving

NONE = {}  # an environment without anything in it


def run_opencode(folder, agent, *, options=None, environ=NONE, window=64_000):
    """Run the task in opencode with the plugin, and return what it printed.

    A file in `plugin` is found by itself. With options, the file is named in the configuration, and must be elsewhere.
    """
    config = folder / ".config" / "opencode"
    (config / "plugin").mkdir(parents=True)
    shutil.copy(str(files("brimful.plugins") / "brimful.js"), config / ("plugin" if options is None else "."))
    with serving(agent.server) as (address, _):
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": f"{address}/v1", "apiKey": "x"},
            "models": {"gpt-4o": {"tool_call": True, "limit": {"context": window, "output": 4_000}}},
        }
        settings = {
            "permission": {"bash": "allow"},
            "autoupdate": False,
            "share": "disabled",
            "provider": {"px": provider},
        }
        if options is not None:
            settings["plugin"] = [["./brimful.js", options]]
        (config / "opencode.json").write_text(json.dumps(settings))
        (folder / "work").mkdir()
        command = ["opencode", "run", "-m", "px/gpt-4o", TASK]
        own = {"HOME": str(folder), "OPENCODE_DISABLE_MODELS_FETCH": "1"}
        return run_program(command, folder / "work", {**own, **environ})


def find_warnings(folder):
    logs = (folder / ".local" / "share" / "opencode" / "log").glob("*.log")
    return [line for log in logs for line in log.read_text().splitlines() if WARNING in line]


@pytest.fixture
def server(tmp_path):
    with serve_brimful(tmp_path) as (address, process):
        yield address, process


def test_thirty_steps_fit_and_their_handles_lead_to_the_results(tmp_path, server):
    address, _ = server
    agent = Reader(recalls=3)
    assert agent.answer in run_opencode(tmp_path, agent, options={"url": address, "budget": LIMIT})
    assert len(agent.requests) == STEPS + 2
    check_run(agent.requests, least_shared=0.6)
    check_recalls(agent)
    assert find_warnings(tmp_path) == []


def test_the_run_goes_on_if_the_server_is_killed(tmp_path, server):
    address, process = server
    agent = Reader(before=killing(process, 15))
    environ = {"BRIMFUL_URL": address, "BRIMFUL_BUDGET": str(LIMIT)}
    assert agent.answer in run_opencode(tmp_path, agent, environ=environ)
    assert len(agent.requests) == STEPS + 1
    check_run(agent.requests[:16], least_shared=0.6)
    assert [len(each["messages"]) for each in agent.requests[16:]] == [2 + 2 * n for n in range(16, STEPS + 1)]
    assert len(find_warnings(tmp_path)) == 1


def test_opencode_does_not_summarize_in_a_small_window(tmp_path, server):
    address, _ = server
    agent = Reader()
    run_opencode(tmp_path, agent, environ={"BRIMFUL_URL": address}, window=LIMIT + 4_000)
    check_run(agent.requests, least_shared=0.6)
    assert len(agent.requests) == STEPS + 1
    assert len(agent.others) == 1  # for the title
