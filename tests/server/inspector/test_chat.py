"""The chat service: post, assemble, inspect, respond and clean up in a room, over HTTP."""

import asyncio
import json
import re
import subprocess
import sys
import threading
from pathlib import Path

import httpx2
import pytest

from brimful import count
from brimful.server.inspector.chat import ChunkView, ReplyEvents
from brimful.stores import connect
from server.inspector.conftest import ROOT, store_of
from server.upstream import chat_answer, chat_events, message_answer

ADA, GPT = "You are Ada.", "You are GPT."
FLOOD = "The deployment of the service in region 7 has failed with an error that nobody has seen before."


def add_people(client):
    for body in (
        {"id": "gpt", "name": "GPT", "prompt": GPT, "model": "gpt-4o"},
        {"id": "p3", "name": "Ada Lovelace", "prompt": ADA, "model": "gpt-4o-mini"},
        {"id": "mute", "prompt": "You have no model."},
    ):
        assert client.post(f"{ROOT}/personas", json=body).status_code == 201
    for body in ({"id": "general", "persona": "p3", "user": "bo"}, {"id": "other"}):
        assert client.post(f"{ROOT}/rooms", json=body).status_code == 201


def test_the_example_runs():
    example = Path(__file__).parents[3] / "examples/service.py"
    shown = subprocess.run([sys.executable, example], capture_output=True, text=True, check=True, timeout=120).stdout
    assert "guest: Soup sounds good to me." in shown
    assert "streamed: message, context, chunk" in shown
    assert "['@cook @guest what shall we have for dinner?', 'Leek soup: it is ready in half an hour.']" in shown
    assert "recall leeks: There are leeks in the cellar." in shown


@pytest.fixture
def service(start):
    client = start(remember={"embedder": "none"})
    add_people(client)
    return client


@pytest.fixture
def unchanged(shared):
    """Return a client of a server that tests share which only send what is refused."""
    client = shared(remember={"embedder": "none"})
    if not client.get(f"{ROOT}/rooms").json()["rooms"]:
        add_people(client)
    return client


@pytest.fixture
def post(service):
    """Return a function that posts a body, and wants a status."""

    def posted(path, status=200, **body):
        answer = service.post(ROOT + path, json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    return posted


@pytest.fixture
def texts(service):
    """Return a function that lists what stands in a room."""

    def read(room="general"):
        messages = service.get(f"{ROOT}/rooms/{room}/messages").json()["messages"]
        return [(each["sender"], each["content"]) for each in reversed(messages)]

    return read


# -- post ------------------------------------------------------------------------------------------------------------


def test_a_message_is_posted_once(post, texts):
    first = post("/rooms/general/messages", 201, content="My cat is called Miso.", sender="Bo", id="m1", at=5.0)
    assert (first["id"], first["seq"], first["role"], first["at"]) == ("m1", 1, "user", 5.0)
    assert first["tokens"] == count("My cat is called Miso.", model="gpt-4o").tokens
    assert post("/rooms/general/messages", 201, content="My cat is called Miso.", sender="Bo", id="m1") == first
    assert texts() == [("Bo", "My cat is called Miso.")]


def test_an_id_stands_for_one_message(post, texts):
    post("/rooms/general/messages", 201, content="One.", id="m1")
    for path in ("/rooms/general/messages", "/rooms/general/respond", "/rooms/other/messages"):
        content = "One." if "other" in path else "Two."
        error = post(path, 409, content=content, id="m1")["error"]
        assert (error["code"], error["param"]) == ("already_exists", "id")
    assert texts() == [("", "One.")]
    assert texts("other") == []


def test_messages_have_parts_roles_and_metadata(post, service):
    image = {"type": "image_url", "image_url": {"url": "https://example.com/cat.png"}}
    made = post("/rooms/general/messages", 201, content=[{"type": "text", "text": "My cat"}, image], metadata={"a": 1})
    assert [part["type"] for part in made["content"]] == ["text", "media"]
    assert made["metadata"] == {"a": 1}
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    made = post("/rooms/general/messages", 201, content={"role": "assistant", "content": None, "tool_calls": [call]})
    assert made["role"] == "assistant"
    result = {"role": "tool", "tool_call_id": "c1", "content": "A cat."}
    assert post("/rooms/general/messages", 201, content=result)["role"] == "tool"
    assert post("/rooms/general/messages", 201, content="Psst.", hidden=True, role="assistant")["hidden"] is True
    found = service.get(f"{ROOT}/rooms/general/inspect", params={"content": "What is it?"}).json()["context"]
    assert not any("Psst" in decision["excerpt"] for decision in found["decisions"])


# -- assemble and inspect --------------------------------------------------------------------------------------------


def test_a_context_is_built_without_sending_or_storing_it(post, service, upstream, texts):
    post("/rooms/general/messages", 201, content="My cat is called Miso.", sender="Bo")
    made = post("/rooms/general/assemble", content="What is my cat called?")
    assert made["wire"] == "openai"
    assert [message["content"] for message in made["request"]["messages"]] == [
        ADA,
        "My cat is called Miso.",
        "What is my cat called?",
    ]
    assert made["request"]["model"] == made["context"]["model"] == "gpt-4o-mini"
    assert made["request"]["messages"][-1]["name"] == "bo", "the room's user"
    assert (made["context"]["number"], made["context"]["persona_name"]) == (None, "Ada Lovelace")
    assert "gpt-4o-mini" in made["context"]["report"]
    assert (upstream.requests, len(texts())) == ([], 1)
    assert service.get(f"{ROOT}/contexts").json()["contexts"] == []


def test_a_context_can_be_saved(post, service):
    post("/rooms/general/messages", 201, content="Hello.")
    made = post("/rooms/general/assemble", save=True, persona="GPT")["context"]
    assert made["number"] is not None
    shown = service.get(f"{ROOT}/contexts/{made['id']}").json()
    assert shown == made
    assert shown["persona"] == "gpt"


def test_options_of_a_build(post):
    tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
    made = post(
        "/rooms/general/assemble",
        content="Hello.",
        persona="ada_lovelace",
        user="cy",
        sender="Cy",
        model="gpt-4",
        policy="window",
        window=4_000,
        completion=500,
        max_prompt_tokens=900,
        overrides={"margin.tokens": 64},
        system="Be brief.",
        tools=tools,
        focus="tea",
    )
    context, request = made["context"], made["request"]
    assert (context["policy"], context["window"], context["completion"]) == ("window", 4_000, 500)
    assert context["hard_limit"] == 900
    assert [message["content"] for message in request["messages"]] == ["Be brief.", "Hello."]
    assert (request["messages"][1]["name"], request["tools"][0]["function"]["name"]) == ("Cy", "look")


def test_each_call_chooses_where_to_look(post, service):
    memory = {"content": "Bo's cat is called Miso.", "user": "bo", "pinned": True}
    assert service.post(f"{ROOT}/memories", json=memory).status_code == 201
    for retrieval, kept in ((None, True), ({"memories": False}, False)):
        made = post("/rooms/general/assemble", content="What is my cat called?", retrieval=retrieval)
        assert ("Miso" in json.dumps(made["request"])) == kept


def test_a_preview_shows_what_would_be_sent(post, service):
    post("/rooms/general/messages", 201, content="@gpt, what is my cat called?")
    shown = service.get(f"{ROOT}/rooms/general/inspect").json()
    assert (shown["breaker"], shown["retrieved"], shown["seconds"] > 0) == ("closed", 0, True)
    assert (shown["context"]["persona"], shown["context"]["model"]) == ("gpt", "gpt-4o")
    query = {"content": "Hello, @ada-lovelace!", "model": "gpt-4", "window": 2_000, "max_prompt_tokens": 700}
    other = service.get(f"{ROOT}/rooms/general/inspect", params=query).json()["context"]
    assert (other["persona"], other["model"], other["window"]) == ("p3", "gpt-4", 2_000)
    assert other["prompt"][-1]["excerpt"] == "Hello, @ada-lovelace!"
    assert service.get(f"{ROOT}/contexts").json()["contexts"] == []


def test_a_preview_needs_no_model_and_no_upstream(start):
    client = start(upstreams=[], remember={"embedder": "none"})
    add_people(client)
    client.post(f"{ROOT}/rooms/other/messages", json={"content": "Hello."})
    assert client.get(f"{ROOT}/rooms/other/inspect").json()["context"]["model"] == "gpt-4o"
    assert client.post(f"{ROOT}/rooms/other/assemble", json={"model": "claude-opus-4-1"}).json()["wire"] == "anthropic"
    error = client.post(f"{ROOT}/rooms/other/respond", json={"model": "gpt-4o", "content": "Hi."})
    assert (error.status_code, error.json()["error"]["code"]) == (404, "model_not_found")
    assert len(client.get(f"{ROOT}/rooms/other/messages").json()["messages"]) == 1, "the message was not stored"


# -- respond ---------------------------------------------------------------------------------------------------------


def test_a_message_is_answered_and_both_are_stored(post, service, upstream, texts):
    answered = post("/rooms/general/respond", content="When is the demo?", id="q1")
    assert (answered["message"]["id"], answered["message"]["sender"]) == ("q1", "bo")
    (answer,) = answered["answers"]
    assert (answer["text"], answer["persona"], answer["sender"]) == ("Thursday.", "p3", "Ada Lovelace")
    assert (answer["finish"], answer["usage"]["prompt"], answer["calls"]) == ("stop", 12, [])
    assert texts() == [("bo", "When is the demo?"), ("Ada Lovelace", "Thursday.")]
    recorded = service.get(f"{ROOT}/contexts/{answer['context']}/request").json()
    assert recorded["messages"] == upstream.bodies[0]["messages"]
    assert upstream.bodies[0]["messages"][0] == {"role": "system", "content": ADA}


def test_mentioned_personas_answer_in_order(post, upstream, texts):
    upstream.answers = [chat_answer("Tea."), chat_answer("Coffee.")]
    answered = post("/rooms/general/respond", content="@gpt @ada-lovelace: tea or coffee?")
    assert [(each["persona"], each["text"]) for each in answered["answers"]] == [("gpt", "Tea."), ("p3", "Coffee.")]
    assert [body["model"] for body in upstream.bodies] == ["gpt-4o", "gpt-4o-mini"]
    assert [sender for sender, _ in texts()] == ["bo", "GPT", "Ada Lovelace"]


def test_a_named_persona_wins_over_mentions(post):
    answered = post("/rooms/general/respond", content="@gpt, hello!", persona="Ada Lovelace")
    assert [each["persona"] for each in answered["answers"]] == ["p3"]


def test_the_last_message_is_answered_without_content(post):
    post("/rooms/general/messages", 201, content="@gpt, hello!")
    answered = post("/rooms/general/respond")
    assert answered["message"] is None
    assert [each["persona"] for each in answered["answers"]] == ["gpt"]


def test_tools_are_called_and_answered(post, upstream):
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at":"sky"}'}}
    upstream.answers = [chat_answer(None, tool_calls=[call]), chat_answer("It rains.")]
    tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
    (answer,) = post("/rooms/general/respond", content="@gpt, rain?", tools=tools)["answers"]
    assert [(each["name"], each["arguments"]) for each in answer["calls"]] == [("look", '{"at":"sky"}')]
    post("/rooms/general/messages", 201, content={"role": "tool", "tool_call_id": "c1", "content": "rain"})
    (answer,) = post("/rooms/general/respond", tools=tools)["answers"]
    assert (answer["text"], answer["persona"]) == ("It rains.", "gpt")


def test_a_repeated_request_does_not_repeat_the_message(post, upstream, texts):
    upstream.answers = [(503, {"error": {"message": "busy"}}), (503, {"error": {"message": "busy"}}), chat_answer()]
    post("/rooms/general/respond", 503, content="When?", id="q1")
    post("/rooms/general/respond", content="When?", id="q1")
    assert texts() == [("bo", "When?"), ("Ada Lovelace", "Thursday.")]


def test_answers_come_in_the_wire_format_of_the_upstream(start, upstream):
    client = start(upstream={"wires": ["anthropic"]}, remember={"embedder": "none"})
    add_people(client)
    upstream.answers = [message_answer("Friday.")]
    answered = client.post(f"{ROOT}/rooms/general/respond", json={"content": "When?"}).json()
    assert answered["answers"][0]["text"] == "Friday."
    assert upstream.bodies[0]["system"][0]["text"] == ADA


def test_the_provider_of_a_persona_is_not_trusted(post, service, upstream):
    wrong = {"id": "spy", "prompt": "x", "model": "gpt-4o", "provider": "http://127.0.0.1:9/v1"}
    assert service.post(f"{ROOT}/personas", json=wrong).status_code == 201
    post("/rooms/general/respond", content="@spy, hello!")
    assert len(upstream.bodies) == 1


def test_a_client_can_bring_its_own_key_for_the_upstream(start, upstream):
    client = start(upstream={"authorization": "client"}, remember={"embedder": "none"})
    add_people(client)
    headers = {"authorization": "Bearer sk-mine", "x-custom": "private"}
    client.post(f"{ROOT}/rooms/general/respond", json={"content": "When?"}, headers=headers)
    sent = upstream.requests[0][1]
    assert sent["authorization"] == "Bearer sk-mine"
    assert "x-custom" not in sent


def test_the_servers_own_key_is_not_shown(start, upstream):
    client = start(environ={"KEY": "sk-secret"}, upstream={"key": "KEY"}, remember={"embedder": "none"})
    add_people(client)
    upstream.answers = [(401, {"error": {"message": "wrong key sk-secret"}})]
    refused = client.post(f"{ROOT}/rooms/general/respond", json={"content": "When?"})
    assert refused.status_code == 502
    assert "sk-secret" not in refused.text


# -- edit, and answer again ------------------------------------------------------------------------------------------


def test_a_message_is_edited_and_what_the_model_saw_is_not(post, service, upstream):
    answered = post("/rooms/general/respond", content="Wen is the demo?", id="q1")
    edited = service.put(f"{ROOT}/messages/q1", json={"content": "When is the demo?"})
    assert (edited.status_code, edited.json()["content"], edited.json()["edited"] is None) == (
        200,
        "When is the demo?",
        False,
    )
    seen = service.get(f"{ROOT}/contexts/{answered['answers'][0]['context']}/request").json()
    assert seen["messages"][-1]["content"] == "Wen is the demo?"
    upstream.answers = [chat_answer("On Friday.")]
    (answer,) = post("/rooms/general/respond", message="q1")["answers"]
    assert answer["text"] == "On Friday."
    assert upstream.bodies[-1]["messages"][-1]["content"] == "When is the demo?"
    visible = [each for each in service.get(f"{ROOT}/rooms/general/messages").json()["messages"] if not each["hidden"]]
    assert [each["content"] for each in visible] == ["On Friday.", "When is the demo?"]
    assert (visible[0]["answer"]["context"], visible[1]["answer"]) == (answer["context"], None)
    assert visible[0]["answer"]["usage"]["prompt"] == 12
    assert service.put(f"{ROOT}/messages/none", json={"content": "x"}).status_code == 404
    assert service.put(f"{ROOT}/messages/q1", json={"content": " "}).json()["error"]["param"] == "content"


@pytest.mark.parametrize("streams", [False, True])
def test_an_answer_from_an_earlier_message_on_replaces_what_came_later(post, service, upstream, streams):
    upstream.answers = [chat_answer("One."), chat_answer("Two."), (503, {"error": {"message": "busy"}})]
    post("/rooms/general/respond", content="First?", id="q1")
    post("/rooms/general/respond", content="Second?", id="q2")

    def visible():
        listed = service.get(f"{ROOT}/rooms/general/messages").json()["messages"]
        return [each["content"] for each in reversed(listed) if not each["superseded"]]

    post("/rooms/general/respond", 503, message="q1", rewind=True, stream=streams)
    assert visible() == ["First?", "One.", "Second?", "Two."], "nothing is lost if the upstream fails"
    upstream.answers = [list(chat_events("Better.")) if streams else chat_answer("Better.")]
    with service.stream(
        "POST", f"{ROOT}/rooms/general/respond", json={"message": "q1", "rewind": True, "stream": streams}
    ) as response:
        response.read()
    assert visible() == ["First?", "Better."]
    assert [each["content"] for each in upstream.bodies[-1]["messages"][1:]] == ["First?"]


def test_the_models_of_upstreams_are_listed(service, upstream):
    upstream.pages["/v1/models"] = {"object": "list", "data": [{"id": "small"}, {"id": "large"}]}
    assert service.get(f"{ROOT}/served-models").json() == {"models": ["large", "small"]}


def test_models_that_upstreams_are_configured_for_are_listed(start, upstream):
    upstream.pages["/v1/models"] = {"object": "list", "data": [{"id": "qwen-1"}, {"id": "other"}]}
    client = start(upstream={"models": ["qwen-*", "mine"], "rename": {"mine": "qwen-1"}}, remember={"embedder": "none"})
    assert client.get(f"{ROOT}/served-models").json() == {"models": ["mine", "qwen-1"]}


# -- streams ---------------------------------------------------------------------------------------------------------


def read_events(response):
    pairs = (event.split("\n", 1) for event in response.read().decode().strip().split("\n\n"))
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in pairs]


def stream(client, **body):
    return client.stream("POST", f"{ROOT}/rooms/general/respond", json={"stream": True, **body})


def test_answers_are_streamed(service, upstream, texts):
    upstream.answers = [list(chat_events("Te", "a.")), list(chat_events("Coffee."))]
    with stream(service, content="@gpt @ada-lovelace: tea or coffee?", id="q1") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        events = read_events(response)
    answers = ["context", "chunk", "chunk", "answer"], ["context", "chunk", "answer"]
    assert [name for name, _ in events] == ["message", *answers[0], *answers[1]]
    assert events[0][1]["id"] == "q1"
    assert events[2][1] == {"persona": "gpt", "sender": "GPT", "text": "Te"}
    contexts = [data["context"] for name, data in events if name == "answer"]
    assert [data for name, data in events if name == "context"] == [
        {"persona": "gpt", "sender": "GPT", "context": contexts[0]},
        {"persona": "p3", "sender": "Ada Lovelace", "context": contexts[1]},
    ]
    assert [data["text"] for name, data in events if name == "answer"] == ["Tea.", "Coffee."]
    assert [text for _, text in texts()] == ["@gpt @ada-lovelace: tea or coffee?", "Tea.", "Coffee."]


def test_an_error_before_the_first_chunk_has_a_status(service, upstream):
    upstream.answers = [(429, {"error": {"message": "slow down"}})]
    with stream(service, content="When?") as response:
        assert response.status_code == 429
        assert response.headers["content-type"] == "application/json"


def test_an_error_in_a_stream_is_its_last_event(service, upstream, texts):
    upstream.answers = [list(chat_events("Tea.")), (400, {"error": {"message": "no"}})]
    with stream(service, content="@gpt @ada-lovelace: tea or coffee?") as response:
        events = read_events(response)
    assert [name for name, _ in events] == ["message", "context", "chunk", "answer", "error"]
    assert events[-1][1]["error"]["message"]
    assert [text for _, text in texts()][1:] == ["Tea."]


def test_a_client_that_leaves_ends_the_stream(service, upstream, next_log_line, texts):
    upstream.answers, upstream.pause = [list(chat_events("Te", *["a"] * 1_000))], 0.01
    with stream(service, content="When?") as response:
        next(response.iter_bytes())
    assert upstream.left.wait(60)
    while (line := next_log_line())["path"] != f"{ROOT}/rooms/general/respond":
        pass
    assert line["cut_by"] == "client"
    assert line["bytes"] > 0
    assert [text[:2] for _, text in texts()] == ["Wh", "Te"], "what has arrived is stored"


def test_a_server_that_stops_says_so_in_the_stream():
    async def story():
        stopping, sent, closed = asyncio.Event(), [], asyncio.Event()

        async def events():
            try:
                yield "chunk", ChunkView(persona=None, sender="", text="Te")
                await asyncio.Event().wait()
            finally:
                closed.set()

        async def send(message):
            sent.append(message.get("body", b""))
            if message.get("body"):
                stopping.set()

        response = await ReplyEvents(events(), stopping).start()
        log_fields = {}
        await response({"brimful": log_fields}, asyncio.Event().wait, send)
        return sent, closed.is_set(), log_fields

    sent, closed, log_fields = asyncio.run(story())
    assert log_fields["cut_by"] == "server"
    assert sent[1].startswith(b"event: chunk\n")
    assert sent[2].startswith(b"event: error\n")
    assert b"shutting_down" in sent[2]
    assert closed, "the answer of the upstream is closed, too"


# -- recall ----------------------------------------------------------------------------------------------------------


def test_a_room_is_searched_for_what_it_holds(post, service):
    post("/rooms/general/messages", 201, content="My cat is called Miso.", id="m1")
    post("/rooms/general/messages", 201, content="The boat is blue.", id="m2")
    found = service.get(f"{ROOT}/rooms/general/recall", params={"query": "cat"}).json()
    assert [passage["id"] for passage in found["passages"]] == ["m1"]
    whole = service.get(f"{ROOT}/rooms/general/recall", params={"handle": "m2", "persona": "GPT", "user": "bo"}).json()
    assert (whole["text"], whole["whole"], whole["outcome"]) == ("The boat is blue.", True, None)


def test_recalls_that_fail_say_why(post, service):
    post("/rooms/general/messages", 201, content="My cat is called Miso.", id="m1")
    assert service.delete(f"{ROOT}/messages/m1", params={"erase": "true"}).status_code == 200
    for path, status, code, param in (
        ("/rooms/general/recall?handle=nothing", 404, "handle_not_found", "handle"),
        ("/rooms/general/recall?handle=m1", 404, "erased", "handle"),
        ("/rooms/general/recall", 400, None, "handle"),
        ("/rooms/general/recall?handle=m1&max_tokens=0", 400, None, "max_tokens"),
        ("/rooms/general/recall?handle=m1&persona=zed", 404, "persona_not_found", "persona"),
        ("/rooms/nowhere/recall?handle=m1", 404, "room_not_found", "id"),
    ):
        answer = service.get(ROOT + path)
        error = answer.json()["error"]
        assert (answer.status_code, error["code"], error["param"]) == (status, code, param), (path, error)


# -- the janitor -----------------------------------------------------------------------------------------------------


def test_a_room_is_cleaned_up_and_restored(post, service, texts):
    for at in range(12):
        post("/rooms/general/messages", 201, content=FLOOD, sender="bot", at=1_000_000.0 + at)
    planned = post("/rooms/general/janitor", dry_run=True)
    assert (planned["run"], planned["dry_run"], len(planned["rooms"][0]["floods"])) == (None, True, 1)
    assert len(texts()) == 12
    done = post("/rooms/general/janitor")
    archived = done["rooms"][0]["messages"]
    assert (archived, len(texts())) == (11, 1), "the last one stays"
    listed = service.get(f"{ROOT}/janitor").json()
    assert [run["number"] for run in listed["runs"]] == [done["run"]]
    assert listed["archived"]["messages"] == archived
    assert post("/janitor/undo")["number"] == done["run"]
    assert len(texts()) == 12
    assert post("/janitor/undo", 404)["error"]["code"] == "run_not_found"


def test_a_model_learns_memories_that_can_be_unlearned(post, service, upstream):
    upstream.answers = [chat_answer('{"facts": [{"text": "Ada lives in Rome.", "messages": [1]}]}')]
    said = [{"role": "user", "content": "I live in Paris."}, "I've moved to Rome."]
    done = post("/learn", messages=said, user="ada", model="gpt-4o", metadata={"n": 1})
    assert ([each["memory"]["content"] for each in done["changes"]], done["notes"]) == (["Ada lives in Rome."], [])
    assert post("/learn", messages=said, user="ada", model="gpt-4o")["messages"] == 0
    listed = service.get(f"{ROOT}/memories", params={"user_prefix": "ad", "metadata": '{"n": 1}', "type": "semantic"})
    assert [each["id"] for each in listed.json()["memories"]] == [done["changes"][0]["memory"]["id"]]
    assert [run["kind"] for run in service.get(f"{ROOT}/janitor").json()["runs"]] == ["learning"]
    assert post("/learn/undo", run=done["run"])["state"] == "undone"
    assert service.get(f"{ROOT}/memories", params={"prefix": "mem-"}).json()["memories"] == []
    assert post("/learn/undo", 404)["error"]["code"] == "run_not_found"
    assert post("/learn", 400, messages=["Hi"], model="gpt-4o")["error"]["param"] == "user"
    assert post("/learn", 400, user="ada", model="gpt-4o")["error"]["param"] == "messages"
    assert service.get(f"{ROOT}/memories", params={"metadata": "[1]"}).json()["error"]["param"] == "metadata"


def test_a_model_writes_the_summaries(post, upstream):
    upstream.answers = [chat_answer("They talked about cats.")]
    for at in range(40):
        post("/rooms/general/messages", 201, content=f"Cat number {at} likes fish {at * 7}.", at=1_000_000.0 + 60 * at)
    post("/rooms/general/messages", 201, content="A week later.", at=1_000_000.0 + 700_000)
    post("/rooms/general/janitor", model="gpt-4o", dry_run=True)
    assert upstream.bodies == []
    assert post("/rooms/general/janitor", model="gpt-4o")["rooms"][0]["summaries"] >= 1
    assert upstream.bodies[0]["model"] == "gpt-4o"


# -- wrong input -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "body", "status", "param"),
    [
        ("/rooms/nowhere/messages", {"content": "Hi."}, 404, "id"),
        ("/rooms/nowhere/respond", {"content": "Hi."}, 404, "id"),
        ("/rooms/nowhere/assemble", {"content": "Hi."}, 404, "id"),
        ("/rooms/nowhere/janitor", {}, 404, "id"),
        ("/rooms/general/messages", {}, 400, "content"),
        ("/rooms/general/messages", {"content": ""}, 400, "content"),
        ("/rooms/general/messages", {"content": 5}, 400, "content"),
        ("/rooms/general/messages", {"content": [{"type": "nonsense"}]}, 400, "content"),
        ("/rooms/general/messages", {"content": {"no": "role"}}, 400, "content"),
        ("/rooms/general/messages", {"content": "Hi.", "role": "king"}, 400, "role"),
        ("/rooms/general/messages", {"content": "Hi.", "at": 1e300}, 400, "at"),
        ("/rooms/general/messages", {"content": "Hi.", "id": ""}, 400, "id"),
        ("/rooms/general/messages", {"content": "Hi.", "contents": "x"}, 400, "contents"),
        ("/rooms/general/messages", {"content": "Hi.", "id": "a\0b"}, 400, "id"),
        ("/rooms/general/respond", {"content": "Hi.", "message": "m1"}, 400, "message"),
        ("/rooms/general/respond", {"message": "nothing"}, 404, "message"),
        ("/rooms/general/respond", {"content": "Hi.", "rewind": True}, 400, "rewind"),
        ("/rooms/general/respond", {"content": "Hi.", "persona": "nobody"}, 404, "persona"),
        ("/rooms/general/respond", {"content": "Hi.", "persona": "mute"}, 400, "model"),
        ("/rooms/other/respond", {"content": "Hi."}, 400, "model"),
        ("/rooms/other/respond", {"model": "gpt-4o"}, 400, "room"),
        ("/rooms/general/respond", {"content": "Hi.", "stream": "yes"}, 400, "stream"),
        ("/rooms/general/respond", {"content": "Hi.", "window": 0}, 400, "window"),
        ("/rooms/general/respond", {"content": "Hi.", "policy": "/etc/passwd"}, 400, "policy"),
        ("/rooms/general/respond", {"content": "Hi.", "tools": [{"x": 1}]}, 400, None),
        ("/rooms/general/respond", {"content": "Hi.", "overrides": {"margin.nonsense": 1}}, 400, "overrides"),
        ("/rooms/general/assemble", {"content": "word " * 99, "window": 9}, 400, "messages"),
        ("/rooms/general/assemble", {"content": "Hi.", "retrieval": {"min_relevance": 3}}, 400, "retrieval"),
        ("/rooms/general/assemble", {"content": "Hi.", "retrieval": {"typs": []}}, 400, "retrieval.typs"),
        ("/rooms/general/janitor", {"older_than": "soon"}, 400, "older_than"),
        ("/rooms/general/janitor", {"dry_run": 1}, 400, "dry_run"),
    ],
)
def test_wrong_bodies_are_rejected_by_name(unchanged, upstream, path, body, status, param):
    answer = unchanged.post(ROOT + path, json=body)
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert error["message"]
    if param is not None:
        assert error["param"] == param, error
    stored = unchanged.get(f"{ROOT}/rooms/general/messages").json()["messages"]
    assert (upstream.requests, stored) == ([], []), "nothing was sent or stored"


def test_wrong_queries_are_rejected_by_name(service):
    for query, param in (("windw=1", "windw"), ("window=x", "window"), ("policy=x", "policy")):
        answer = service.get(f"{ROOT}/rooms/general/inspect?content=Hi&{query}")
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


def test_bodies_must_be_declared_as_json_and_have_a_limit(start):
    client = start(limits={"max_body_bytes": 1_000}, remember={"embedder": "none"})
    client.post(f"{ROOT}/rooms", json={"id": "general"})
    path = f"{ROOT}/rooms/general/messages"
    assert client.post(path, content=b'{"content": "Hi."}').status_code == 415
    assert client.post(path, json={"content": "x" * 2_000}).status_code == 413


# -- access ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def keyed(start, tmp_path):
    """Return a server that requires keys, and a function that makes a key."""

    async def make(tenant, scopes):
        async with connect(store_of(tmp_path)) as database:
            _, key = await database.api_keys(tenant).create(name="test", scopes=scopes, at=0.0)
            return {"x-api-key": key}

    client = start(require_keys=True, remember={"embedder": "none"}, limits={"requests_per_minute": 60})
    return client, lambda tenant, *scopes: asyncio.run(make(tenant, scopes))


def test_sending_or_storing_contexts_needs_the_scope_chat(keyed):
    client, make_key = keyed
    reader, both = make_key("acme", "read", "write"), make_key("acme", "read", "write", "chat")
    client.post(f"{ROOT}/rooms", json={"id": "general"}, headers=reader)
    for path, body in (
        ("/rooms/general/assemble", {"content": "Hi.", "model": "gpt-4o", "save": True}),
        ("/rooms/general/janitor", {"model": "gpt-4o"}),
    ):
        assert client.post(ROOT + path, json=body, headers=reader).status_code == 403
        assert client.post(ROOT + path, json=body, headers=both).status_code == 200


def test_another_tenants_room_does_not_exist(keyed):
    client, make_key = keyed
    own, other = (make_key(tenant, "read", "write", "chat") for tenant in ("acme", "globex"))
    client.post(f"{ROOT}/rooms", json={"id": "general"}, headers=own)
    client.post(f"{ROOT}/personas", json={"id": "gpt", "model": "gpt-4o"}, headers=own)
    for method, path in (
        ("POST", "messages"),
        ("POST", "respond"),
        ("POST", "assemble"),
        ("GET", "inspect"),
        ("GET", "recall?query=Hi"),
    ):
        body = {"content": "Hi."} if method == "POST" else None
        answer = client.request(method, f"{ROOT}/rooms/general/{path}", json=body, headers=other)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "room_not_found")
    client.post(f"{ROOT}/rooms", json={"id": "general"}, headers=other)
    answer = client.post(f"{ROOT}/rooms/general/respond", json={"content": "@gpt, hi!"}, headers=other)
    assert answer.json()["error"]["param"] == "model", "another tenant's persona is not mentioned"


def test_limits_apply_to_the_service(keyed):
    client, make_key = keyed
    key = make_key("acme", "write")
    statuses = {client.post(f"{ROOT}/janitor/undo", headers=key).status_code for _ in range(70)}
    assert statuses == {404, 429}


def test_pages_of_other_sites_are_rejected(service, upstream):
    for headers in ({"sec-fetch-site": "cross-site"}, {"origin": "https://evil.example"}, {"host": "evil.example"}):
        answer = service.post(f"{ROOT}/rooms/general/respond", json={"content": "Hi."}, headers=headers)
        assert answer.status_code == 403
    assert upstream.requests == []


def test_two_streams_at_once(service, upstream):
    upstream.answers, upstream.pause = [lambda _: list(chat_events(*"abcdefgh"))], 0.01
    answers = []

    def ask():
        with (
            httpx2.Client(base_url=service.base_url, timeout=120) as client,
            stream(client, content="When?") as response,
        ):
            answers.append(read_events(response)[-1])

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [(name, answer["text"]) for name, answer in answers] == [("answer", "abcdefgh")] * 4


def test_the_commands_in_the_docs_run(start):
    """Each curl command of the page gets an answer, one after the other."""
    client = start(remember={"embedder": "none"})
    page = (Path(__file__).parents[3] / "docs" / "service.md").read_text(encoding="utf-8")
    commands = [block for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) if block.startswith("curl")]
    assert len(commands) >= 6
    for command in commands:
        script = command.replace("http://127.0.0.1:8080", str(client.base_url).rstrip("/")).replace(
            "curl -s", "curl -fs"
        )
        done = subprocess.run(["bash", "-ec", script], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, (command, done.stdout)
        assert '"error"' not in done.stdout
