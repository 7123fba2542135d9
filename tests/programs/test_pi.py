"""The extension in pi, with a scripted model."""

import json
import shutil
from importlib.resources import files

import pytest

from programs.js import LIMIT, STEPS, WARNING, Reader, check_recalls, check_run, killing, serve_brimful
from programs.scripted import TASK, run_program
from server.upstream import serving


def run_pi(folder, agent, address, *, budget=str(LIMIT), window=64_000):
    """Run the task in pi with the extension; return what it printed, and its errors."""
    config = folder / ".pi" / "agent"
    (config / "extensions").mkdir(parents=True)
    shutil.copy(str(files("brimful.plugins") / "brimful.js"), config / "extensions")
    (folder / "work").mkdir()
    with serving(agent.server) as (model_address, _):
        model = {
            "id": "gpt-4o",
            "name": "gpt-4o",
            "reasoning": False,
            "input": ["text"],
            "contextWindow": window,
            "maxTokens": 4_000,
            "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
        }
        provider = {
            "baseUrl": f"{model_address}/v1",
            "api": "openai-completions",
            "apiKey": "x",
            "models": [model],
        }
        (config / "models.json").write_text(json.dumps({"providers": {"px": provider}}))
        command = ["sh", "-c", 'exec "$@" 2> errors', "sh", "pi", "--provider", "px", "--model", "gpt-4o", "-p", TASK]
        environ = {"HOME": str(folder), "BRIMFUL_URL": address, "BRIMFUL_BUDGET": budget}
        output = run_program(command, folder / "work", environ)
    return output, (folder / "work" / "errors").read_text()


@pytest.fixture
def server(tmp_path):
    with serve_brimful(tmp_path) as (address, process):
        yield address, process


def test_thirty_steps_fit_and_their_handles_lead_to_the_results(tmp_path, server):
    address, _ = server
    agent = Reader(recalls=3)
    output, errors = run_pi(tmp_path, agent, address)
    assert agent.answer in output
    assert len(agent.requests) == STEPS + 2
    check_run(agent.requests, least_shared=0.6)
    check_recalls(agent)
    assert WARNING not in errors


def test_the_run_goes_on_if_the_server_is_killed(tmp_path, server):
    address, process = server
    agent = Reader(before=killing(process, 15))
    output, errors = run_pi(tmp_path, agent, address)
    assert agent.answer in output
    assert len(agent.requests) == STEPS + 1
    check_run(agent.requests[:16], least_shared=0.6)
    assert [len(each["messages"]) for each in agent.requests[16:]] == [2 + 2 * n for n in range(16, STEPS + 1)]
    assert errors.count(WARNING) == 1


def test_pi_does_not_summarize_in_a_small_window(tmp_path, server):
    address, _ = server
    agent = Reader()
    run_pi(tmp_path, agent, address, budget="", window=LIMIT + 16_384)
    check_run(agent.requests, least_shared=0.6)
    assert len(agent.requests) == STEPS + 1
    assert agent.others == []
