"""Tools, resources and prompts, through the SDK's own client in this process, in both eras of the protocol."""

import asyncio
import json

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

import brimful
from brimful.errors import InvalidValue
from brimful.mcp.server import define
from brimful.mcp.tools import TOOLS, select_tools

MODES = ("auto", "legacy")
WRITING = {"remember", "forget", "pin"}


@pytest.fixture(params=MODES)
def mode(request):
    return request.param


@pytest.fixture
def ask(new_server, mode, context_id):  # noqa: ARG001 - fills the store
    """Return a way to do something with a client of a server over the store."""

    def do(work, **options):
        async def connected():
            async with Client(new_server(**options), mode=mode) as client:
                return await work(client)

        return asyncio.run(connected())

    return do


@pytest.fixture
def call(ask):
    """Return a way to call one tool and get its text; it works unless `fails` is set."""

    def once(name, arguments=None, *, fails=False, **options):
        async def run(client):
            return await client.call_tool(name, arguments or {})

        result = ask(run, **options)
        [content] = result.content
        assert result.is_error == fails, content.text
        return content.text

    return once


def test_definitions_cost_less_than_1500_tokens():
    defined = [define(tool).model_dump(by_alias=True, exclude_none=True) for tool in TOOLS.values()]
    assert brimful.count(json.dumps(defined), model="gpt-4o").tokens < 1_500
    assert {tool["name"] for tool in defined if not tool["annotations"].get("readOnlyHint")} == WRITING


def test_tools_that_write_are_offered_only_if_they_may(ask):
    async def names(client):
        return {tool.name for tool in (await client.list_tools()).tools}

    assert ask(names) == set(TOOLS) - WRITING
    assert ask(names, can_write=True) == set(TOOLS) - {"pin"}
    assert ask(names, tools=["recall", "pin"]) == {"recall"}
    assert ask(names, tools=["recall", "pin"], can_write=True) == {"recall", "pin"}


@pytest.mark.parametrize(("name", "arguments"), [("remember", {"text": "x"}), ("forget", {"id": "x"}), ("pin", {})])
def test_a_server_that_only_reads_refuses_to_write(call, name, arguments):
    assert "--write" in call(name, arguments, fails=True, tools=list(TOOLS))


def test_pinning_is_offered_only_by_name(ask, call):
    async def pinned(client):
        return [tool.name for tool in (await client.list_tools()).tools if "pinned" in tool.input_schema["properties"]]

    assert ask(pinned, can_write=True) == ["memories"]  # where it is a filter
    assert ask(pinned, can_write=True, tools=["pin", "remember"]) == ["pin"]
    assert "is no argument" in call("remember", {"text": "x", "pinned": True}, fails=True, can_write=True)
    for name, arguments in (("remember", {"text": "It never closes."}), ("forget", {})):
        refused = call(name, arguments | {"id": "mem-office"}, fails=True, can_write=True)
        assert "'mem-office' is pinned" in refused
    changed = call("remember", {"text": "x", "id": "mem-office"}, can_write=True, tools=["remember", "pin"])
    assert changed == "Remembered as mem-office."


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("recall", {"query": "stamps", "user": "bob"}, "user: must be 'ada' or empty"),
        ("memories", {"user": "bob"}, "user: must be 'ada' or empty"),
        ("remember", {"text": "Bob pays.", "user": "bob"}, "user: must be 'ada' or empty"),
        ("recall", {"query": "trunk", "room": "attic"}, "no room 'attic'"),
        ("history", {"room": "attic"}, "no room 'attic'"),
        ("memories", {"before": "mem-stamps"}, "no memory 'mem-stamps'"),
        ("fetch", {"id": "mem-stamps"}, "no memory or message 'mem-stamps'"),
        ("fetch", {"id": "m9"}, "no memory or message 'm9'"),
        ("fetch", {"id": "mem-attic"}, "no memory or message 'mem-attic'"),
        ("explain", {"context": "CONTEXT OF BOB"}, "no context or answered message"),
        ("explain", {"context": "answer-bob"}, "no context or answered message"),
        ("forget", {"id": "mem-stamps"}, "no memory 'mem-stamps'"),
        ("forget", {"id": "mem-office"}, "no memory 'mem-office'"),
        ("pin", {"id": "mem-stamps"}, "no memory 'mem-stamps'"),
        ("remember", {"text": "Bob is broke.", "id": "mem-stamps"}, "id: is taken"),
        ("remember", {"text": "It never closes.", "id": "mem-office"}, "id: is taken"),
    ],
)
def test_a_server_bound_to_a_user_is_a_fence(call, others_context, name, arguments, expected):
    arguments = {key: value.replace("CONTEXT OF BOB", others_context) for key, value in arguments.items()}
    text = call(name, arguments, fails=True, user="ada", can_write=True, tools=list(TOOLS))
    assert expected in text


def test_a_server_bound_to_a_user_lists_only_what_is_theirs(ask, call, context_id, others_context):
    options = {"user": "ada", "can_write": True}
    assert "mem-tea" in call("memories", {}, **options)
    assert "mem-office" in call("memories", {}, **options)  # everybody's
    assert "mem-stamps" not in call("memories", {}, **options)
    assert "trunk" not in call("recall", {"query": "Where is the trunk?"}, **options)
    assert "kettle" in call("fetch", {"id": "m1"}, **options)
    assert context_id in call("explain", {}, **options)
    assert context_id in call("explain", {"context": context_id}, **options)
    assert others_context not in call("explain", {}, **options)

    async def resources(client):
        for uri in (f"brimful://contexts/{others_context}", "brimful://memories/mem-stamps", "brimful://messages/m9"):
            with pytest.raises(MCPError, match=r"^no "):
                await client.read_resource(uri)
        with pytest.raises(MCPError, match="user: must be 'ada'"):
            await client.get_prompt("about-me", {"user": "bob"})
        written = await client.call_tool("remember", {"text": "Ada swims.", "id": "mem-swims"})
        assert not written.is_error
        assert not (await client.call_tool("forget", {"id": "mem-swims"})).is_error
        return [str(resource.uri) for resource in (await client.list_resources()).resources]

    assert ask(resources, **options) == ["brimful://memories/pinned", f"brimful://contexts/{context_id}"]


def test_a_tool_that_is_not_offered_is_unknown(ask):
    async def run(client):
        with pytest.raises(MCPError, match="Unknown tool: count"):
            await client.call_tool("count", {"text": "hello"})

    ask(run, tools=["recall"])


def test_an_unknown_tool_name_is_refused():
    with pytest.raises(InvalidValue, match="there is no tool 'said'; tools are recall"):
        select_tools(["said"])


def test_recall_finds_memories_and_messages_of_all_rooms(call):
    assert "The ladder cost 80 euros." in call("recall", {"query": "What did the ladder cost?"})
    assert "The trunk is locked." in call("recall", {"query": "Where is the trunk?"})
    assert "The office closes at six." in call("recall", {"query": "When does the office close?"})


def test_recall_finds_memories_of_a_user_only_for_that_user(call):
    question = {"query": "What does Ada prefer: green tea?"}
    assert "mem-tea" not in call("recall", question)
    assert "mem-tea" in call("recall", question | {"user": "ada"})
    assert "mem-tea" in call("recall", question, user="ada")
    assert "mem-tea" not in call("recall", question | {"user": "bob"})


def test_recall_can_be_limited_to_a_room(call):
    assert "ladder" not in call("recall", {"query": "What did the ladder cost?", "room": "attic"})
    assert call("recall", {"query": "ladder", "room": "cellar"}, fails=True) == "no room 'cellar'"


def test_recall_by_a_handle_returns_the_record(call):
    assert call("recall", {"handle": "m2"}) == "The ladder cost 80 euros."
    assert call("recall", {"handle": '[… recall "m2"]', "query": "tea"}) == "The ladder cost 80 euros."
    assert call("recall", {"handle": "mem-tea"}, user="ada") == "Ada prefers green tea."
    for handle, user in (("hidden", None), ("mem-tea", "bob"), ("m2", "bob"), ("r0123456789", None)):
        assert call("recall", {"handle": handle}, user=user, fails=True) == f"no memory or message {handle!r}"


def test_memories_are_listed_page_by_page(call):
    page = call("memories")
    assert [word in page for word in ("mem-stamps", "mem-office", "mem-tea")] == [True] * 3
    assert page.index("mem-stamps") < page.index("mem-office") < page.index("mem-tea")
    assert "mem-office" not in call("memories", {"before": "mem-office"})
    assert "mem-tea" in call("memories", {"before": "mem-office"})
    assert "mem-stamps" not in call("memories", {"user": "ada"})
    assert "mem-tea" not in call("memories", {"pinned": True})
    assert call("memories", {"before": "mem-gone"}, fails=True) == "no memory 'mem-gone'"


def test_a_page_of_memories_names_the_id_to_continue_from(call):
    page = call("memories", {"budget": 50})
    assert page.endswith('More memories: before="mem-stamps"')
    assert call("memories", {"budget": 50, "before": "mem-stamps"}).startswith("[mem-office")


def test_history_shows_the_newest_messages_in_order(call):
    page = call("history", {"room": "kitchen"})
    assert page.index("kettle") < page.index("ladder") < page.index("Tea is at four.")
    assert "secret" not in page
    small = call("history", {"room": "kitchen", "budget": 60})
    assert small.startswith("Earlier messages: before=")
    assert "kettle" not in small
    earlier = call("history", {"room": "kitchen", "before": 2})
    assert "kettle" in earlier
    assert "ladder" not in earlier
    assert call("history", {"room": "cellar"}, fails=True) == "no room 'cellar'"


def test_history_without_a_room_lists_rooms(call):
    rooms = call("history")
    assert rooms.index("[kitchen · Kitchen · ") < rooms.index("[attic · 1 message]")
    assert "attic" not in call("history", user="ada")


def test_search_and_fetch_have_the_shape_that_connectors_expect(call):
    results = json.loads(call("search", {"query": "When does the office close?"}))["results"]
    assert all(set(result) == {"id", "title", "url"} for result in results)
    assert results[0] == {
        "id": "mem-office",
        "title": "The office closes at six.",
        "url": "brimful://memories/mem-office",
    }
    fetched = json.loads(call("fetch", {"id": "m2"}))
    assert fetched.pop("metadata") == {"room": "kitchen", "sender": "Ada", "role": "user", "time": "2026-11-06 21:18"}
    assert fetched == {
        "id": "m2",
        "title": "The ladder cost 80 euros.",
        "text": "The ladder cost 80 euros.",
        "url": "brimful://messages/m2",
    }
    assert call("fetch", {"id": "hidden"}, fails=True) == "no memory or message 'hidden'"


def test_explain_says_what_is_in_a_context_and_why(call, context_id):
    assert context_id in call("explain")
    for name in (context_id, "answer"):
        assert f"[context {context_id}]" in call("explain", {"context": name})
    assert "mem-office" in call("explain", {"context": context_id, "item": "mem-office"})
    absent = call("explain", {"context": context_id, "item": "mem-stamps"})
    assert "was not a candidate: it belongs to the user 'bob'" in absent
    assert "no candidate" in call("explain", {"context": context_id, "item": "nothing"}, fails=True)
    assert call("explain", {"context": "m404"}, fails=True) == "no context or answered message 'm404'"
    assert call("explain", {"item": "m1"}, fails=True).startswith("context: is required")


def test_count(call):
    assert call("count", {"text": "hello world"}) == "2 tokens for gpt-4o (exact); its window has 128,000."
    assert "tokens for my-own-model (" in call("count", {"text": "hello world", "model": "my-own-model"})


def test_memories_can_be_written_pinned_and_forgotten(ask):
    async def story(client):
        async def say(name, **arguments):
            result = await client.call_tool(name, arguments)
            assert not result.is_error, result.content
            return result.content[0].text

        written = await say("remember", text="The roof leaks.", user="ada")
        id = written.removeprefix("Remembered as ").removesuffix(".")
        assert "roof" in await say("recall", query="Does the roof leak?", user="ada")
        assert await say("pin", id=id) == f"Pinned {id}."
        assert id in await say("memories", pinned=True, user="ada")
        assert await say("pin", id=id, pinned=False) == f"Unpinned {id}."
        await say("remember", text="The roof is new.", id=id)
        assert "leaks" not in await say("fetch", id=id)
        assert "user ada" in await say("memories")  # still hers
        assert await say("forget", id=id, erase=True) == f"Forgot {id}."
        gone = await client.call_tool("forget", {"id": id})
        assert gone.is_error
        assert gone.content[0].text == f"no memory {id!r}"

    ask(story, can_write=True, tools=list(TOOLS))


@pytest.mark.parametrize(
    ("name", "arguments", "problem"),
    [
        ("recall", {}, "query: must not be empty"),
        ("recall", {"query": None}, "query: must not be empty"),
        ("recall", {"query": " "}, "query: must not be empty"),
        ("recall", {"query": "tea", "budget": 0}, "budget: expected 'int' >= 50"),
        ("recall", {"query": "tea", "budget": -5}, "budget: expected 'int' >= 50"),
        ("recall", {"query": "tea", "budget": "many"}, "budget: expected 'int', got 'str'"),
        ("recall", {"query": ["tea"]}, "query: expected 'str', got 'array'"),
        (
            "recall",
            {"query": "tea", "limit": 3},
            "limit: is no argument of this tool; it takes query, handle, user, room, budget",
        ),
        ("remember", {"text": ""}, "content: is empty: a memory needs a text"),
        ("remember", {"text": "x", "type": "vague"}, "type: invalid enum value 'vague'"),
        ("pin", {"id": "nothing"}, "no memory 'nothing'"),
        ("fetch", {"id": "nothing"}, "no memory or message 'nothing'"),
        ("history", {"room": "kitchen", "before": -1}, "before: expected 'int' >= 0"),
    ],
)
def test_wrong_arguments_are_answered_in_words(call, name, arguments, problem):
    assert call(name, arguments, fails=True, can_write=True, tools=list(TOOLS)) == problem


@pytest.mark.parametrize("text", ["word " * 200_000, "\ud800 lone", "\0 null", "🫖" * 1_000, "{" * 1_000])
def test_texts_of_any_kind_are_taken(call, text):
    assert call("count", {"text": text}).endswith("its window has 128,000.")
    assert call("recall", {"query": f"kettle {text}"})
    assert call("remember", {"text": text}, can_write=True).startswith("Remembered as mem")


def test_a_store_that_cannot_be_opened_is_an_error_of_the_tool_and_is_tried_again(ask, tmp_path):
    (tmp_path / "notes.txt").write_text("not a store")

    async def run(client):
        for _ in range(2):
            result = await client.call_tool("memories", {})
            assert result.is_error
            assert "notes.txt" in result.content[0].text

    ask(run, db=f"sqlite:///{tmp_path}/notes.txt")


def test_contexts_and_pinned_memories_are_resources(ask, context_id):
    async def run(client):
        listed = (await client.list_resources()).resources
        templates = (await client.list_resource_templates()).resource_templates
        uris = ["brimful://memories/pinned", f"brimful://contexts/{context_id}"]
        assert [resource.uri for resource in listed] == uris
        assert {"brimful://contexts/{id}", "brimful://contexts/{id}/{item}"} <= {
            each.uri_template for each in templates
        }
        further = (f"brimful://contexts/{context_id}/mem-office", "brimful://messages/m1", "brimful://memories/mem-tea")
        return [(await client.read_resource(uri)).contents[0].text for uri in (*uris, *further)]

    pinned, context, item, message, memory = ask(run)
    assert "The office closes at six." in pinned
    assert "mem-tea" not in pinned
    assert context.startswith(f"[context {context_id}]")
    assert "mem-office" in item
    assert "The kettle is green." in message
    assert "Ada prefers green tea." in memory


@pytest.mark.parametrize(
    "uri",
    ["brimful://contexts/ctx-1", "brimful://memories/none", "brimful://rooms/x", "https://x.example/", "brimful:"],
)
def test_an_unknown_resource_is_an_error_that_names_it(ask, uri):
    async def run(client):
        with pytest.raises(MCPError, match=r"^no ") as caught:
            await client.read_resource(uri)
        assert caught.value.error.code == -32602

    ask(run)


def test_prompts_bring_what_is_known(ask):
    async def run(client):
        prompts = (await client.list_prompts()).prompts
        assert all(each.description and all(part.description for part in each.arguments) for each in prompts)
        recalled = await client.get_prompt("recall", {"topic": "the ladder"})
        known = await client.get_prompt("about-me", {"user": "ada"})
        assert "The ladder cost 80 euros." in recalled.messages[0].content.text
        assert "Ada prefers green tea." in known.messages[0].content.text
        with pytest.raises(MCPError, match="Unknown prompt: other"):
            await client.get_prompt("other")
        with pytest.raises(MCPError, match="query: must not be empty"):
            await client.get_prompt("recall", {})

    ask(run)
