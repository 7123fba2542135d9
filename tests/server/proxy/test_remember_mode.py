"""The proxy in `remember` mode: conversations are stored, whatever part of them a client sends."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from brimful.engine import Engine
from brimful.stores import connect
from server.upstream import OVERFLOW, chat_answer, chat_events, message_answer, message_events

CHAT = "/v1/chat/completions"
TALK = {"x-brimful-conversation": "tea", "x-brimful-user": "ada"}


def says(role, text):
    return {"role": role, "content": text}


def body(messages, **more):
    return {"model": "gpt-4o", "max_tokens": 100, "temperature": 0.5, "messages": messages, **more}


@pytest.fixture
def client(start):
    return start(mode="remember")


@pytest.fixture
def room(tmp_path):
    """Return a function that reads what a room holds."""

    async def read(name):
        async with connect(f"sqlite:///{tmp_path}/brimful.db") as database:
            entries = await database.tenant("default").history(name, limit=100)
            return [(entry.message.role, entry.message.content) for entry in reversed(entries)]

    return lambda name="tea": asyncio.run(read(name))


def test_questions_and_answers_are_stored(client, upstream, room):
    answer = client.post(CHAT, json=body([says("system", "Be brief."), says("user", "When?")]), headers=TALK)
    assert answer.json() == chat_answer()
    assert answer.headers["x-brimful-context"].startswith("ctx-")
    assert room() == [("user", "When?"), ("assistant", "Thursday.")]
    sent = upstream.bodies[0]
    assert sent["temperature"] == 0.5
    assert sent["max_tokens"] == 100
    assert "max_completion_tokens" not in sent
    assert [message["role"] for message in sent["messages"]] == ["system", "user"]
    assert sent["messages"][0]["content"] == "Be brief."


def test_a_conversation_goes_on_without_records(start, upstream, room):
    client = start(mode="remember", record_share=0.0)
    first = client.post(CHAT, json=body([says("user", "When?")]), headers=TALK)
    client.post(CHAT, json=body([says("user", "Sure?")]), headers=TALK)
    assert [message["content"] for message in upstream.bodies[1]["messages"]] == ["When?", "Thursday.", "Sure?"]
    assert room() == [("user", "When?"), ("assistant", "Thursday."), ("user", "Sure?"), ("assistant", "Thursday.")]
    answer = client.get(f"/brimful/v1/contexts/{first.headers['x-brimful-context']}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "context_not_recorded")
    built = client.post("/brimful/v1/rooms/tea/assemble", json={"content": "Still?", "save": True, "model": "gpt-4o"})
    reported = client.post(f"/brimful/v1/contexts/{built.json()['context']['id']}/usage", json={"prompt": 9})
    assert (reported.status_code, reported.json()["usage"]["prompt"]) == (200, 9)


def test_the_persona_that_is_mentioned_answers(client, upstream):
    client.post("/brimful/v1/personas", json={"id": "nova", "prompt": "You are Nova."})
    client.post(CHAT, json=body([says("user", "@Nova, when?")]), headers=TALK)
    assert upstream.bodies[0]["messages"] == [says("system", "You are Nova."), says("user", "@Nova, when?")]
    stored = client.get("/brimful/v1/rooms/tea/messages").json()["messages"]
    assert [message["persona"] for message in stored] == ["nova", None]


TOOLS = [
    {"type": "function", "function": {"name": "look.up", "description": "Looks.", "parameters": {"type": "object"}}},
    {"type": "custom", "custom": {"name": "shell", "format": {"type": "text"}}},
]


def test_the_record_shows_what_was_sent(client, upstream):
    request = body([says("user", "When?")], tools=TOOLS, tool_choice="auto", odd={"x": [1.5, None]})
    answer = client.post(CHAT, json=request, headers=TALK)
    assert answer.status_code == 200
    shown = client.get(f"/brimful/v1/contexts/{answer.headers['x-brimful-context']}/request").json()
    assert shown == upstream.bodies[0] == request


def test_the_clients_breakpoints_count_towards_the_limit(client, upstream):
    upstream.answers = [message_answer()]
    mark = {"cache_control": {"type": "ephemeral"}}
    tools = [{"name": name, "input_schema": {"type": "object"}, **mark} for name in ("one", "two", "three")]
    request = {
        "model": "claude-sonnet-4-5",
        "max_tokens": 100,
        "system": "Be brief. " * 500,
        "tools": tools,
        "messages": [says("user" if at % 2 == 0 else "assistant", f"{at} " + "word " * 300) for at in range(9)],
    }
    for _ in range(2):
        assert client.post("/v1/messages", json=request, headers=TALK).status_code == 200
        request["messages"] += [says("assistant", "Thursday."), says("user", "And then?")]
    for sent in upstream.bodies:
        assert sent["tools"] == tools
        assert json.dumps(sent).count("cache_control") == 4


def test_new_messages_are_answered_from_the_whole_history(client, upstream, room):
    for text in ("My cat is called Miso.", "Thanks.", "Thanks.", "What is my cat called?"):
        client.post(CHAT, json=body([says("user", text)]), headers=TALK)
    assert [role for role, _ in room()] == ["user", "assistant"] * 4
    sent = [message["content"] for message in upstream.bodies[-1]["messages"]]
    assert any("Miso" in text for text in sent)
    assert sent[-1] == "What is my cat called?"


def test_resending_the_history_adds_only_new_messages(client, upstream, room):
    messages = [says("system", "Be brief.")]
    for turn in range(4):
        messages.append(says("user", f"Question {turn}"))
        answer = client.post(CHAT, json=body(messages), headers=TALK).json()
        messages.append(answer["choices"][0]["message"])
    assert [role for role, _ in room()] == ["user", "assistant"] * 4
    assert len(upstream.bodies[-1]["messages"]) == 8


def test_a_reworded_answer_and_a_shortened_history_add_nothing_twice(client, room):
    client.post(CHAT, json=body([says("user", "One?")]), headers=TALK)
    client.post(
        CHAT, json=body([says("user", "One?"), says("assistant", "Thursday."), says("user", "Two?")]), headers=TALK
    )
    rows = [
        says("assistant", "thursday, I said"),
        says("user", "Two?"),
        says("assistant", "Thurs day"),
        says("user", "Three?"),
    ]
    client.post(CHAT, json=body(rows), headers=TALK)
    assert [text for role, text in room() if role == "user"] == ["One?", "Two?", "Three?"]
    assert len(room()) == 6


def test_a_retry_adds_nothing(client, upstream, room):
    upstream.answers = [(500, {"error": {"message": "out of memory"}}), chat_answer()]
    assert client.post(CHAT, json=body([says("user", "When?")]), headers=TALK).status_code == 500
    assert client.post(CHAT, json=body([says("user", "When?")]), headers=TALK).status_code == 200
    assert room() == [("user", "When?"), ("assistant", "Thursday.")]


def test_a_question_can_be_answered_again_without_storing_it_twice(client, upstream, room):
    history = [says("user", "Tea?"), says("assistant", "Thursday."), says("user", "When?")]
    for text in ("Tea?", "When?"):
        client.post(CHAT, json=body([says("user", text)]), headers=TALK)
    upstream.answers = [chat_answer("Friday.")]
    client.post(CHAT, json=body(history), headers=TALK)
    assert [text for _, text in room()] == ["Tea?", "Thursday.", "When?", "Thursday.", "Friday."]
    assert upstream.bodies[-1]["messages"][-1]["content"] == "When?"


def test_a_stream_is_stored(client, room):
    with client.stream("POST", CHAT, json=body([says("user", "When?")], stream=True), headers=TALK) as answer:
        assert answer.read().decode() == "".join(chat_events("Thurs", "day."))
    client.get(f"/brimful/v1/contexts/{answer.headers['x-brimful-context']}")
    assert room() == [("user", "When?"), ("assistant", "Thursday.")]


@pytest.mark.parametrize(
    ("path", "events", "end"), [(CHAT, chat_events, "[DONE]"), ("/v1/messages", message_events, "message_stop")]
)
def test_a_stream_is_stored_before_its_end_is_forwarded(client, upstream, room, path, events, end):
    upstream.answers = [[*events("Thurs", "day."), ": the upstream holds the line\n\n"]]
    upstream.pause = 0.5
    request = body([says("user", "When?")], stream=True)
    with client.stream("POST", path, json=request, headers=TALK) as answer:
        next(line for line in answer.iter_lines() if end in line)
        assert room() == [("user", "When?"), ("assistant", "Thursday.")]
    client.get(f"/brimful/v1/contexts/{answer.headers['x-brimful-context']}")
    assert room() == [("user", "When?"), ("assistant", "Thursday.")]


def test_a_partial_stream_is_stored_if_the_client_leaves(client, upstream, room):
    upstream.answers = [list(chat_events(*["word "] * 200))]
    upstream.pause = 0.02
    with client.stream("POST", CHAT, json=body([says("user", "When?")], stream=True), headers=TALK) as answer:
        for chunk in answer.iter_bytes():
            assert chunk
            break
    assert upstream.left.wait(120)
    record = client.get(f"/brimful/v1/contexts/{answer.headers['x-brimful-context']}").json()
    assert record["answers"][0]["finish"] == "broken-off"
    (question, (role, text)) = room()
    assert question == ("user", "When?")
    assert role == "assistant"
    assert 0 < text.count("word") < 200
    upstream.reset()
    client.post(CHAT, json=body([says("user", "When?")]), headers=TALK)
    assert [role for role, _ in room()] == ["user", "assistant", "assistant"]


def test_tool_calls_are_stored_with_their_results(client, upstream, room):
    call = {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": '{"q": "tea"}'}}
    upstream.answers = [chat_answer(None, tool_calls=[call])]
    tools = [{"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}, "extra": 1}]
    first = client.post(CHAT, json=body([says("user", "Look it up.")], tools=tools), headers=TALK).json()
    upstream.answers = [chat_answer("Green.")]
    result = {"role": "tool", "tool_call_id": "c1", "content": "green"}
    messages = [says("user", "Look it up."), first["choices"][0]["message"], result]
    client.post(CHAT, json=body(messages, tools=tools), headers=TALK)
    sent = upstream.bodies[-1]
    assert sent["tools"] == tools
    assert [message["role"] for message in sent["messages"]] == ["user", "assistant", "tool"]
    assert [role for role, _ in room()] == ["user", "assistant", "tool", "assistant"]


def test_an_overflow_is_learned(client, upstream, room):
    for turn in range(12):
        client.post(CHAT, json=body([says("user", f"Question {turn} " + "word " * 30)]), headers=TALK)
    upstream.answers = [(400, OVERFLOW), chat_answer()]
    answer = client.post(CHAT, json=body([says("user", "And now?")], max_tokens=20), headers=TALK)
    assert answer.status_code == 200
    record = client.get(f"/brimful/v1/contexts/{answer.headers['x-brimful-context']}").json()
    assert record["window"] <= 256
    assert record["warnings"][0]["kind"] == "overflowed"
    assert len(upstream.bodies[-1]["messages"]) < len(upstream.bodies[-2]["messages"])
    assert len(room()) == 26


def test_an_overflowing_question_is_not_stored_again(client, upstream, room, tmp_path):
    async def speak():
        async with Engine(f"sqlite:///{tmp_path}/brimful.db", embedder="none") as engine:
            await engine.post(room="tea", text="Another question?")
            await engine.post(room="tea", text="To another.", role="assistant")

    def refusing(_):
        with ThreadPoolExecutor(1) as pool:
            pool.submit(lambda: asyncio.run(speak())).result()
        return (400, {"error": {"message": "This model's maximum context length is 4000 tokens."}})

    upstream.answers = [refusing, chat_answer("To the first.")]
    answer = client.post(CHAT, json=body([says("user", "The first question?")]), headers=TALK)
    assert answer.status_code == 200, answer.text
    assert answer.json()["choices"][0]["message"]["content"] == "To the first."
    assert upstream.bodies[-1]["messages"] == [says("user", "The first question?")]
    assert [text for role, text in room() if role == "user"] == ["The first question?", "Another question?"]


def test_anthropics_format(client, upstream, room):
    request = {
        "model": "claude-sonnet-4-5",
        "max_tokens": 100,
        "system": [{"type": "text", "text": "Be brief."}],
        "messages": [says("user", [{"type": "text", "text": "When?"}])],
        "metadata": {"user_id": "ada"},
    }
    answer = client.post("/v1/messages", json=request, headers={"x-brimful-conversation": "tea"})
    assert answer.json() == message_answer()
    assert room() == [("user", "When?"), ("assistant", "Thursday.")]
    assert upstream.bodies[0]["system"][0]["text"] == "Be brief."
    assert upstream.bodies[0]["metadata"] == {"user_id": "ada"}


@pytest.mark.parametrize(
    "where",
    [
        {"json": body([says("user", "Hi")], metadata={"conversation": "tea"})},
        {"json": body([says("user", "Hi")]), "headers": {"x-brimful-conversation": "tea"}},
    ],
)
def test_a_conversation_is_named_by_header_or_metadata(client, room, where):
    assert client.post(CHAT, **where).status_code == 200
    assert room("tea")[0] == ("user", "Hi")


@pytest.mark.parametrize("name", ["Café ☕", "日本語"])
def test_a_non_ascii_name_is_the_same_in_a_header(client, room, name):
    client.post(CHAT, json=body([says("user", "Hi")], metadata={"conversation": name}))
    client.post(CHAT, json=body([says("user", "Ho")]), headers={"x-brimful-conversation": name.encode()})
    assert [text for role, text in room(name) if role == "user"] == ["Hi", "Ho"]


def test_an_unrequested_stream_is_stored(client, upstream, room):
    upstream.answers = [list(chat_events("Thurs", "day."))]
    answer = client.post(CHAT, json=body([says("user", "When?")], stream=1), headers=TALK)
    assert answer.text == "".join(chat_events("Thurs", "day."))
    client.get(f"/brimful/v1/contexts/{answer.headers['x-brimful-context']}")  # waits for what is being kept
    assert room() == [("user", "When?"), ("assistant", "Thursday.")]


def test_without_a_conversation_the_users_own_is_used(client, room):
    assert client.post(CHAT, json=body([says("user", "Hi")], user="ada")).status_code == 200
    assert room("user/ada")[0] == ("user", "Hi")


def test_a_request_without_conversation_and_user_is_rejected(client, upstream):
    refused = client.post(CHAT, json=body([says("user", "Hi")]))
    assert refused.status_code == 400
    assert "X-Brimful-Conversation" in refused.json()["error"]["message"]
    assert upstream.bodies == []


def test_a_request_with_only_a_system_prompt_is_rejected(client):
    refused = client.post(CHAT, json=body([says("system", "Be brief.")]), headers=TALK)
    assert refused.status_code == 400


def test_a_header_sets_the_mode(client, room):
    messages = [says("user", "Hi")]
    assert client.post(CHAT, json=body(messages), headers={"x-brimful-mode": "fit"} | TALK).status_code == 200
    assert room() == []
    assert client.post(CHAT, json=body(messages), headers={"x-brimful-mode": "no"}).status_code == 400


def test_concurrent_requests_get_their_own_answers(client, upstream, room):
    upstream.answers = [lambda sent: chat_answer("To " + sent["messages"][-1]["content"])]
    questions = [f"Question {number}?" for number in range(3)]

    def ask(text):
        return client.post(CHAT, json=body([says("user", text)]), headers=TALK).json()["choices"][0]["message"]

    with ThreadPoolExecutor(3) as pool:
        answers = [answer["content"] for answer in pool.map(ask, questions)]
    assert answers == [f"To {text}" for text in questions]
    assert sorted(text for role, text in room() if role == "user") == questions


@pytest.mark.parametrize("path", [CHAT, "/v1/messages"])
def test_an_impossible_max_tokens_leaves_room_for_the_prompt(client, upstream, path):
    answer = client.post(path, json=body([says("user", "When?")], max_tokens=32_000), headers=TALK)
    assert answer.status_code == 200
    assert upstream.bodies[0]["max_tokens"] < 32_000
    record = client.get(f"/brimful/v1/contexts/{answer.headers['x-brimful-context']}").json()
    assert "smaller-reserve" in [warning["kind"] for warning in record["warnings"]]


def test_a_wrong_recall_header_is_refused_before_anything_is_stored(client, upstream):
    answer = client.post(CHAT, json=body([says("user", "When?")]), headers=TALK | {"x-brimful-recall": "yes"})
    assert (answer.status_code, upstream.bodies) == (400, [])
    assert "must be tool or off" in answer.json()["error"]["message"]


def test_a_model_with_an_unknown_window_gets_all_that_the_client_sent(start, upstream):
    client = start(mode="remember", upstream={"window": None})
    messages = [says("assistant" if n % 2 else "user", f"{n}: " + "word " * 300) for n in range(61)]
    answer = client.post(CHAT, json=body(messages, model="acme-1"), headers=TALK)
    assert upstream.bodies[0]["messages"] == messages
    record = client.get(f"/brimful/v1/contexts/{answer.headers['x-brimful-context']}").json()
    assert "unknown-window" in [warning["kind"] for warning in record["warnings"]]


@pytest.mark.parametrize(
    ("header", "known"),
    [(None, True), ('{"memories": false}', False), ('{"types": ["episodic"]}', False), ('{"min_relevance": 0}', True)],
)
def test_a_header_chooses_what_is_looked_up(client, upstream, tmp_path, header, known):
    async def remember():
        async with Engine(f"sqlite:///{tmp_path}/brimful.db", embedder=None) as engine:
            await engine.remember("The kettle is in the blue cupboard.", user="ada", type="semantic")

    asyncio.run(remember())
    headers = TALK if header is None else {**TALK, "x-brimful-retrieval": header}
    client.post(CHAT, json=body([says("user", "Where is the kettle?")]), headers=headers)
    assert ("blue cupboard" in json.dumps(upstream.bodies[-1])) is known


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ("memories", "must be a JSON object"),
        ("[]", "must be a dict of retrieval settings"),
        ('{"memries": false}', "unknown field `memries`"),
        ('{"types": ["tacit"]}', "must be among episodic, semantic, procedural"),
        ('{"other_rooms": 5000}', "other_rooms: must be at most 1,000"),
    ],
)
def test_a_wrong_retrieval_header_is_refused_and_nothing_is_stored(client, upstream, room, header, reason):
    headers = {**TALK, "x-brimful-retrieval": header}
    refused = client.post(CHAT, json=body([says("user", "Where?")]), headers=headers)
    assert refused.status_code == 400
    assert refused.json()["error"]["message"].startswith("x-brimful-retrieval: ")
    assert reason in refused.json()["error"]["message"]
    assert room() == []
    assert upstream.bodies == []
