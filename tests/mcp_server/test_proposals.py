"""What a model asks to remember is used only after the user has said yes: a page may have told the model to."""

import asyncio

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult

from brimful.engine import Engine

FACT = "The user's bank is Evilbank."


def texts(url, **filters):
    async def read():
        async with Engine(url, embedder="none") as engine:
            return [memory.content for memory in (await engine.list_memories(**filters)).memories]

    return asyncio.run(read())


def ask(server, work, *, mode="auto", answer=None):
    """Do something with a client whose user answers questions in this way, if at all."""

    async def decide(_context, params):
        assert params.message == f"Remember this?\n\n{FACT}"
        return ElicitResult(action=answer, content={} if answer == "accept" else None)

    async def story():
        async with Client(server, mode=mode, elicitation_callback=decide if answer else None) as client:
            return await work(client)

    return asyncio.run(story())


async def remember(client, **arguments):
    result = await client.call_tool("remember", {"text": FACT, **arguments})
    assert not result.is_error
    return result.content[0].text


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_model_sees_nothing_of_what_it_proposed(new_server, url, context_id, mode):
    assert context_id

    async def story(client):
        answer = await remember(client, user="ada")
        assert answer.startswith("Proposed as mem-")
        id = answer.removeprefix("Proposed as ").partition(".")[0]
        for name, arguments in (
            ("recall", {"query": "Which bank is Evilbank?", "user": "ada"}),
            ("memories", {"user": "ada"}),
            ("memories", {"pinned": True}),
            ("search", {"query": "Which bank is Evilbank?"}),
            ("fetch", {"id": id}),
            ("recall", {"handle": id}),
            ("pin", {"id": id}),
            ("forget", {"id": id}),
        ):
            result = await client.call_tool(name, arguments)
            assert "Evilbank." not in result.content[0].text
        with pytest.raises(MCPError):
            await client.read_resource(f"brimful://memories/{id}")
        assert (await remember(client, user="ada")).startswith("Nothing was written")

    tools = ["recall", "remember", "forget", "pin", "memories", "search", "fetch"]
    ask(new_server(untrusted="propose", can_write=True, tools=tools), story, mode=mode)
    assert texts(url, state="proposed") == [FACT]


def test_the_user_of_the_client_decides(new_server, url, context_id):
    assert context_id

    def say(answer, **arguments):
        server = new_server(untrusted="propose", can_write=True)
        return ask(server, lambda client: remember(client, **arguments), mode="legacy", answer=answer)

    assert say("cancel", user="bob").startswith("Proposed as ")
    assert say("decline", user="ada") == "The user does not want this to be remembered."
    assert texts(url, state="rejected") == [FACT]
    assert FACT not in texts(url)
    assert say("accept", user="ada").startswith("Nothing was written")
    assert say("accept").startswith("Remembered as mem-")
    assert FACT in texts(url)


def test_a_memory_is_replaced_only_when_that_is_confirmed(new_server, url, context_id):
    assert context_id
    server = new_server(untrusted="propose", can_write=True)
    ask(server, lambda client: remember(client, id="mem-tea"))
    assert FACT not in texts(url)
    assert "Ada prefers green tea." in texts(url, user="ada")

    async def confirm():
        async with Engine(url, embedder="none") as engine:
            [proposed] = (await engine.list_memories(state="proposed")).memories
            assert (proposed.user, proposed.source, proposed.supersedes) == ("ada", "mcp", "mem-tea")
            await engine.confirm_memories(proposed.id)

    asyncio.run(confirm())
    assert texts(url, user="ada") == [FACT]


def test_a_server_may_ignore_what_models_want_to_write(new_server, url, context_id):
    assert context_id
    answer = ask(new_server(untrusted="ignore", can_write=True), remember)
    assert answer.startswith("Nothing was written")
    assert FACT not in texts(url, state=None)
