"""Claude Code with our plugin: tokens, a prefix that stays, originals that come back, sessions that are imported."""

import asyncio
import json
from importlib.resources import files
from itertools import count, pairwise

import pytest

import brimful
from brimful.testing import find_violations
from programs.large_results import STEPS, recall, shortened_results, tokens_of, write_pages
from programs.scripted import TASK, ScriptedAgent, run_program
from server.upstream import serving

PLUGIN = str(files("brimful") / "plugins" / "claude-code")
RECALL = "mcp__plugin_brimful_brimful__recall"


def run(folder, agent, *arguments, prompt=TASK, **environ):
    """Run Claude Code in a home of its own, with a scripted model."""
    with serving(with_own_ids(agent.server)) as (address, _):
        settings = {
            "ANTHROPIC_BASE_URL": address,
            "ANTHROPIC_API_KEY": "x",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTO_COMPACT": "1",
            "IS_SANDBOX": "1",  # it may run as root
        }
        command = ["claude", *arguments, "--dangerously-skip-permissions", "-p", prompt]
        return run_program(command, folder, settings | environ)


def with_own_ids(app):
    """Return an app whose answers have an id each: Claude Code joins answers with the same one."""
    numbers = count(1)

    async def serve(scope, receive, send):
        number = next(numbers)

        async def send_with_id(event):
            if event["type"] == "http.response.body":
                event["body"] = event["body"].replace(b'"msg_1"', b'"msg_%d"' % number)
            await send(event)

        await app(scope, receive, send_with_id)

    return serve


def read_pages(steps=STEPS):
    return ScriptedAgent("Bash", steps, lambda step: {"command": f"cat page{step}.txt", "description": "Read a page"})


def plain(request):
    """Return the messages of a request without the marks for the prompt cache, which move."""
    return without_marks(request["messages"])


def without_marks(value):
    match value:
        case {"content": [{"type": "text", "text": str(text)}]}:
            return without_marks(value | {"content": text})  # a text is written as a block if it has a mark
        case dict():
            return {key: without_marks(each) for key, each in value.items() if key != "cache_control"}
        case list():
            return [without_marks(each) for each in value]
        case _:
            return value


def results(request):
    """Return the texts of all results of tools, by the id of the call."""
    blocks = [block for message in request["messages"] for block in message["content"] if isinstance(block, dict)]
    return {block["tool_use_id"]: block["content"] for block in blocks if block["type"] == "tool_result"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Return two folders with the same pages: the home of a run with the plugin, and of one without."""
    pair = tmp_path_factory.mktemp("with"), tmp_path_factory.mktemp("without")
    for folder in pair:
        write_pages(folder)
    return pair


@pytest.fixture(scope="module")
def agents(folders):
    """Return the models of the same run with and without the plugin."""
    pair = read_pages(), read_pages()
    assert "Page 7" in run(folders[0], pair[0], "--plugin-dir", PLUGIN)
    assert "Page 7" in run(folders[1], pair[1])
    return pair


def test_a_run_with_large_results_needs_at_most_half_the_tokens(agents, record_property):
    with_plugin, without = (tokens_of(agent.requests) for agent in agents)
    record_property("tokens", {"with": with_plugin, "without": without, "requests": len(agents[0].requests)})
    print(f"\n{with_plugin:,} of {without:,} tokens in {len(agents[0].requests)} requests")  # noqa: T201
    assert len(agents[0].requests) == len(agents[1].requests) == STEPS + 1
    assert with_plugin <= without / 2


def test_every_request_begins_with_the_one_before_it(agents):
    for agent in agents:
        for before, after in pairwise(agent.requests):
            assert plain(after)[: len(plain(before))] == plain(before)
            assert find_violations(after, "anthropic") == []


def test_the_model_sees_what_it_asked_for(agents):
    shown = results(agents[0].requests[-1])
    assert "lighthouse of Porto" in shown["call_000007"]
    assert all("[… recall " in text for text in shown.values())


@pytest.mark.usefixtures("agents")
def test_every_original_comes_back_through_the_mcp_server(folders):
    noted = shortened_results(folders[0])
    assert len({each["handle"] for each in noted}) == len(noted) == STEPS
    pages = {(folders[0] / f"page{number}.txt").read_text().rstrip("\n") for number in range(STEPS)}
    recalled = recall(folders[0], [each["handle"] for each in noted], budget=20_000)
    assert {text.rstrip("\n") for text in recalled} == pages


@pytest.mark.usefixtures("agents")
def test_a_recalled_original_keeps_its_budget(folders):
    handle = next(each["handle"] for each in shortened_results(folders[0]) if "page7" in each["about"])
    [part] = recall(folders[0], [handle], query="the lighthouse of Porto", budget=300)
    assert "214 steps" in part
    assert brimful.count(part, model="gpt-4o").tokens <= 300


@pytest.mark.usefixtures("agents")
def test_the_session_is_imported_once(folders):
    async def list_messages():
        async with brimful.Engine(f"sqlite:///{folders[0]}/.local/share/brimful/plugins.db") as engine:
            rooms = await engine.store.rooms_of(None, limit=10)
            [room] = [room.id for room in rooms if not room.id.endswith("/results")]
            return [each.message.text for each in await engine.store.history(room)]

    assert asyncio.run(list_messages()) == ["Page 7 mentions it.", TASK]


def test_the_agent_recalls_with_the_tool_of_the_plugin(tmp_path):
    write_pages(tmp_path)
    run(tmp_path, read_pages(1), "--plugin-dir", PLUGIN)
    [noted] = shortened_results(tmp_path)
    agent = ScriptedAgent(RECALL, 1, lambda _: {"handle": noted["handle"], "budget": 20_000})
    # Requests without the tool, as those before the server is connected, do not count.
    run(tmp_path, agent, "--plugin-dir", PLUGIN, ENABLE_TOOL_SEARCH="false", MCP_CONNECTION_NONBLOCKING="false")
    [recalled] = results(agent.requests[-1]).values()
    assert recalled[0]["text"] == (tmp_path / "page0.txt").read_text().rstrip("\n")


def test_a_resumed_session_begins_with_the_same_messages(tmp_path):
    write_pages(tmp_path)
    first, second = read_pages(2), read_pages(2)
    run(tmp_path, first, "--plugin-dir", PLUGIN)
    run(tmp_path, second, "--plugin-dir", PLUGIN, "--continue", prompt="Go on.")
    before = plain(first.requests[-1])
    assert plain(second.requests[0])[: len(before)] == before


def test_after_a_compaction_the_task_and_the_handles_come_back(tmp_path):
    write_pages(tmp_path)
    run(tmp_path, read_pages(2), "--plugin-dir", PLUGIN)
    compactor = read_pages(0)
    run(tmp_path, compactor, "--plugin-dir", PLUGIN, "--continue", prompt="/compact")
    handles = {each["handle"] for each in shortened_results(tmp_path)}
    assert len(handles) == 2
    assert "Keep the handle of each result" in json.dumps([*compactor.requests, *compactor.others])
    after = read_pages(0)
    run(tmp_path, after, "--plugin-dir", PLUGIN, "--continue", prompt="Go on.")
    text = json.dumps(after.requests[0])
    assert results(after.requests[0]) == {}  # they were summarized
    assert "The user's task, in their words" in text
    assert "QX-4417" in text
    assert all(handle in text for handle in handles)


def test_the_plugin_is_valid_and_can_be_installed(tmp_path):
    run_program(["claude", "plugin", "validate", PLUGIN], tmp_path, {})
    run_program(["claude", "plugin", "marketplace", "add", PLUGIN], tmp_path, {})
    run_program(["claude", "plugin", "install", "brimful@brimful"], tmp_path, {})
    agent = read_pages(1)
    write_pages(tmp_path)
    run(tmp_path, agent)
    assert "[… recall " in results(agent.requests[-1])["call_000000"]
