"""The examples that people copy: each runs, with a scripted model in place of a real one."""

import asyncio
import json
import os
import re
import subprocess
import sys
from itertools import repeat
from pathlib import Path

import agent
import fastapi_chat
import httpx2
import openai
import openai_agent
import pytest
import service
import support_bot
from starlette.testclient import TestClient

import brimful
import inspector
from brimful.errors import ProviderUnavailable
from brimful.records.reply import Reply
from brimful.testing import ScriptedProvider

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_every_example_is_in_the_list():
    listed = re.findall(r"^\| \[([\w.]+)\]\(\1\)", (EXAMPLES / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".ipynb"))


# -- fastapi_chat.py -------------------------------------------------------------------------------------------------


@pytest.fixture
def chat(sqlite_url):
    busy = ProviderUnavailable("scripted", "busy")
    provider = ScriptedProvider(["Hello, Ada!", "A cortado.", busy])
    with TestClient(fastapi_chat.make_app(sqlite_url, "gpt-4o-mini", provider)) as client:

        def send(user, text, id):
            return client.post(f"/chat/{user}", json={"text": text, "id": id}).text

        yield client, send, provider


def test_the_service_streams_and_remembers(chat):
    client, send, provider = chat
    assert send("ada", "I drink cortado.", "m1") == "Hello, Ada!"
    assert send("ada", "What do I drink?", "m2") == "A cortado."
    seen = [message["content"] for message in provider.requests[1]["messages"]]
    assert seen[-3:] == ["I drink cortado.", "Hello, Ada!", "What do I drink?"]
    assert [each["text"] for each in client.get("/chat/ada").json()] == [*seen[-3:], "A cortado."]
    assert client.get("/chat/bob").json() == []


def test_the_service_says_so_if_there_is_no_answer(chat):
    _, send, _ = chat
    send("ada", "Hello.", "m1")
    send("ada", "Are you there?", "m2")
    assert send("bob", "And now?", "m3") == "I cannot answer right now. Please try again later."


def test_the_service_refuses_an_id_twice(chat):
    client, send, provider = chat
    send("ada", "Hello.", "m1")
    other = client.post("/chat/ada", json={"text": "Goodbye.", "id": "m1"})
    assert (other.status_code, other.json()["detail"]) == (409, "'m1' is the id of another message")
    stolen = client.post("/chat/bob", json={"text": "Hello.", "id": "m1"})
    assert (stolen.status_code, "is the id of a message in room" in stolen.json()["detail"]) == (422, True)
    assert len(provider.requests) == 1


@pytest.mark.parametrize(
    ("user", "text", "id"), [("ada", "", "m1"), ("ada", " \n", "m1"), ("ada", "Hi", " "), ("%20", "Hi", "m1")]
)
def test_the_service_rejects_blank_values(chat, user, text, id):
    client, _, provider = chat
    assert client.post(f"/chat/{user}", json={"text": text, "id": id}).status_code == 422
    assert client.get("/chat/ada").json() == []
    assert not provider.requests


def test_the_service_shows_no_tool_calls(sqlite_url):
    call = brimful.ToolCall(id="c1", name="get_order", arguments="{}")
    provider = ScriptedProvider([Reply(parts=(call,)), Reply(parts=(brimful.Text(text="One moment."), call))])
    with TestClient(fastapi_chat.make_app(sqlite_url, "gpt-4o-mini", provider)) as client:
        for number in range(2):
            client.post("/chat/ada", json={"text": "Where is it?", "id": f"m{number}"})
        texts = [each["text"] for each in client.get("/chat/ada").json()]
    assert texts == ["Where is it?", "Where is it?", "One moment."]


# -- openai_agent.py -------------------------------------------------------------------------------------------------


def test_the_agent_finishes_far_past_its_window():
    with (
        service.scripted_model(agent.ServedModel) as url,
        openai.OpenAI(base_url=url, api_key="none") as client,
    ):
        task = [{"role": "system", "content": agent.SYSTEM}, {"role": "user", "content": agent.TASK}]
        request = {"model": agent.MODEL, "max_tokens": agent.COMPLETION, "tools": agent.TOOLS, "messages": task}
        messages = openai_agent.run(client, request, agent.call_tool, window=agent.WINDOW)
    assert messages[-1].content == "I refunded 5 orders to your gift card: 172.50 in total."
    assert brimful.fit({**request, "messages": messages}, window=1_000_000).tokens > 5 * agent.WINDOW
    calls = [call.function for message in messages[2:] for call in getattr(message, "tool_calls", None) or ()]
    assert "recall" in {call.name for call in calls}


def test_tools_of_the_agent_read_files(tmp_path):
    (tmp_path / "tea.txt").write_text("Sencha.")
    assert openai_agent.call_tool("list_folder", {"path": str(tmp_path)}) == str(tmp_path / "tea.txt")
    assert openai_agent.call_tool("read_file", {"path": str(tmp_path / "tea.txt")}) == "Sencha."
    assert openai_agent.call_tool("read_file", {"path": str(tmp_path / "milk.txt")}).startswith("Error: ")


# -- room.py ---------------------------------------------------------------------------------------------------------


def test_personas_answer_when_mentioned():
    printed = subprocess.run([sys.executable, EXAMPLES / "room.py"], capture_output=True, text=True, check=True).stdout
    speakers = [line.partition(":")[0] for line in printed.splitlines()]
    assert speakers == ["Ada", "Bob", "Ada", "Cook", "Bob", "Host", "Critic"]


# -- support_bot.py --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("database", ["postgres_url", "sqlite_url"])
def test_shops_share_a_database_and_nothing_else(request, database):
    async def talk(url):
        provider = ScriptedProvider(repeat("Yes."))
        async with support_bot.open_shops(url, provider) as shops:
            await support_bot.ask(shops["harbour"], "ada", "I live in Porto.", model="gpt-4o-mini")
            return [await support_bot.ask(shop, "ada", "Do you ship to Porto?") for shop in shops.values()]

    harbour, summit = asyncio.run(talk(request.getfixturevalue(database)))
    assert "Harbour Coffee ships to all of Portugal" in harbour
    assert "I live in Porto." in harbour
    assert "Summit Tea does not ship" in summit
    assert "Harbour" not in summit
    assert "I live in Porto." not in summit


# -- memory.py, inspector.py -----------------------------------------------------------------------------------------


def test_old_messages_come_back():
    example = [sys.executable, EXAMPLES / "memory.py"]
    printed = subprocess.run(example, capture_output=True, text=True, check=True).stdout
    assert "m1900       kept: fits in pool 'related'" in printed  # the doctor's advice
    assert "vector search failed" in printed


def test_the_inspector_has_something_to_explain(sqlite_url):
    context = asyncio.run(inspector.live(sqlite_url))
    assert {each.outcome for each in context.decisions if each.kind.startswith("memory-")} >= {"kept", "dropped"}
    assert inspector.FORGOTTEN not in context.kept


SERVE_EMPTY = """
import inspector

async def live(url):
    print(url, flush=True)

inspector.live = live
inspector.main()
"""


def test_the_inspector_stops_its_server_when_it_is_terminated():
    environment = os.environ | {"PYTHONUNBUFFERED": "1", "PYTHONPATH": os.pathsep.join([str(EXAMPLES), *sys.path])}
    command = [sys.executable, "-c", SERVE_EMPTY, "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            lines = iter(process.stdout.readline, "")
            store = next(lines).strip().removeprefix("sqlite:///")
            address = next(found[0] for each in lines if (found := re.search(r"http://[\d.:]+", each)))
            assert httpx2.get(f"{address}/brimful/v1/contexts").status_code == 200
            process.terminate()
            assert process.wait(timeout=30) == 0
        finally:
            process.kill()
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(address)
    assert not Path(store).parent.exists()


# -- windows.ipynb ---------------------------------------------------------------------------------------------------


def test_the_notebook_runs_and_has_no_outputs():
    notebook = json.loads((EXAMPLES / "windows.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] or cell["execution_count"] for cell in cells)
    namespace = {}
    for number, cell in enumerate(cells):
        exec(compile("".join(cell["source"]), f"cell {number}", "exec"), namespace)  # noqa: S102 - our own
    context, smaller = namespace["context"], namespace["smaller"]
    assert smaller.tokens < context.tokens <= context.budget.hard_limit
    assert brimful.window_for(smaller, namespace["lost"][0].id) > smaller.budget.window
    assert all("tokens" in each._repr_html_() for each in (context, smaller))
