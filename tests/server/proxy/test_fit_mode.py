"""The proxy in `fit` mode, with a fake upstream."""

import asyncio
import json
import sqlite3
from contextlib import closing
from itertools import pairwise
from zlib import crc32

import httpx2
import pytest

from brimful.server.app import create_app
from brimful.server.config import parse_config
from brimful.stores import connect
from server.upstream import OVERFLOW, chat_answer, chat_events, message_answer, serving

CHAT = "/v1/chat/completions"


def says(role, text):
    return {"role": role, "content": text}


def long_chat(turns=60, words=50):
    messages = [says("system", "Be brief.")]
    for turn in range(turns):
        messages += [says("user", f"{turn}: " + "word " * words), says("assistant", "word " * words)]
    return [*messages, says("user", "And now?")]


def body(messages, **more):
    return {"model": "gpt-4o", "max_tokens": 100, "messages": messages, **more}


def test_a_request_that_fits_is_forwarded_byte_for_byte(start, upstream):
    client = start()
    raw = json.dumps(body([says("user", "Hi")], n=2, logprobs=True, odd={"x": [1.50, None]}), indent=1)
    answer = client.post(CHAT, content=raw)
    assert answer.status_code == 200
    assert answer.json() == chat_answer()
    assert upstream.bodies == [json.loads(raw)]
    assert answer.headers["x-brimful-context"].startswith("ctx-")


def test_a_long_request_is_trimmed_and_recorded(start, upstream):
    client = start(upstream={"window": 2000})
    messages = long_chat()
    answer = client.post(CHAT, json=body(messages))
    sent = upstream.bodies[0]["messages"]
    assert sent[0] == messages[0]
    assert sent[1:] == messages[-len(sent) + 1 :]
    assert 5 < len(sent) < len(messages)
    record = client.get(f"/brimful/v1/contexts/{answer.headers['x-brimful-context']}").json()
    assert record["left_out"] == len(messages) - len(sent)
    assert record["tokens"] <= record["hard_limit"] == 1900
    out = [each for each in record["decisions"] if each["outcome"] == "dropped"]
    assert out[0]["why"].startswith("dropped: ")
    request = client.get(f"/brimful/v1/contexts/{record['id']}/request").json()
    assert request["messages"] == sent
    recalled = client.get(f"/brimful/v1/contexts/{record['id']}/recall", params={"handle": out[0]["id"]}).json()
    assert recalled["text"] in [message["content"] for message in messages]
    unknown = client.get(f"/brimful/v1/contexts/{record['id']}/recall", params={"handle": "msg-999999"})
    assert unknown.json()["error"]["code"] == "handle_not_found"


@pytest.mark.parametrize("mode", ["fit", "remember"])
def test_a_header_limits_the_prompt(start, upstream, mode):
    client = start()
    headers = {"x-brimful-mode": mode, "x-brimful-conversation": "c"}
    answer = client.post(CHAT, json=body(long_chat()), headers={**headers, "X-Brimful-Max-Prompt-Tokens": "1000"})
    record = client.get(f"/brimful/v1/contexts/{answer.headers['x-brimful-context']}").json()
    assert record["tokens"] <= record["hard_limit"] == 1000
    assert len(upstream.bodies[0]["messages"]) < 25
    for wrong in ("0", "-5", "many", "1e3", "9" * 99):
        refused = client.post(CHAT, json=body(long_chat()), headers={**headers, "X-Brimful-Max-Prompt-Tokens": wrong})
        assert refused.status_code == 400
        assert refused.json()["error"]["message"].startswith("x-brimful-max-prompt-tokens: must be a positive number")


def test_headers_pin_and_tie_messages(start, upstream):
    client, messages = start(), long_chat()
    limit = {"X-Brimful-Max-Prompt-Tokens": "1000"}
    client.post(CHAT, json=body(messages), headers={**limit, "X-Brimful-Pin": "[1]", "X-Brimful-Ties": "[[1, 2]]"})
    client.post(CHAT, json=body(messages), headers=limit)
    pinned, other = (each["messages"] for each in upstream.bodies)
    assert [message for message in messages[1:3] if message in pinned] == messages[1:3]
    assert messages[1] not in other
    for header, wrong, reason in (
        ("X-Brimful-Pin", "1", "must be a list, not 1"),
        ("X-Brimful-Pin", "[-1]", "must be indices of the request's messages"),
        ("X-Brimful-Pin", "first", "must be a JSON list"),
        ("X-Brimful-Ties", "[[0]]", "must have at least two messages"),
        ("X-Brimful-Ties", "[[1, 999]]", "must be indices of the request's messages"),
    ):
        refused = client.post(CHAT, json=body([says("user", "Hi")]), headers={header: wrong})
        assert refused.status_code == 400
        assert f"{header.lower()}: {reason}" in refused.json()["error"]["message"]


def test_a_stream_is_forwarded_unchanged(start):
    client = start()
    with client.stream("POST", CHAT, json=body([says("user", "Hi")], stream=True)) as answer:
        text = answer.read().decode()
    assert text == "".join(chat_events("Thurs", "day."))
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["x-brimful-context"].startswith("ctx-")


def test_an_overflow_is_learned_and_the_request_sent_again(start, upstream):
    client = start()
    upstream.answers = [(400, OVERFLOW), chat_answer()]
    messages = [*long_chat(6), says("user", "Well?")]
    answer = client.post(CHAT, json=body(messages))
    assert answer.status_code == 200
    assert len(upstream.bodies) == 2
    assert len(upstream.bodies[1]["messages"]) < len(messages)
    record = client.get(f"/brimful/v1/contexts/{answer.headers['x-brimful-context']}").json()
    assert record["warnings"][0]["kind"] == "overflowed"
    assert record["window"] <= 256
    upstream.answers = []
    client.post(CHAT, json=body(messages))
    assert len(upstream.bodies) == 3
    assert len(upstream.bodies[2]["messages"]) == len(upstream.bodies[1]["messages"])


@pytest.mark.parametrize("headers", [{}, {"x-brimful-max-prompt-tokens": "1000"}])
@pytest.mark.parametrize("factor", [0.5, 3])
def test_an_upstream_that_can_count_does_so_near_the_limit(start, upstream, factor, headers):
    client, limit = start(upstream={"window": 2000}), 1000 if headers else 1900
    counted = []

    def count(sent):
        counted.append(int(factor * sum(4 + len(message["content"].split()) for message in sent["messages"])))
        return counted[-1]

    upstream.count = count
    answer = client.post(CHAT, json=body(long_chat(), model="acme-1"), headers=headers)
    [sent] = upstream.bodies
    [first] = counted
    assert (first > limit) == (factor == 3)
    assert count(sent) <= limit
    record = client.get(f"/brimful/v1/contexts/{answer.headers['x-brimful-context']}").json()
    assert [each["kind"] for each in record["warnings"]].count("overflowed") == (factor == 3)


def test_an_overflow_in_a_stream_after_a_comment_is_learned(start, upstream):
    client = start()
    upstream.pause = 0.01
    upstream.answers = [[": PROCESSING\n\n", f"data: {json.dumps(OVERFLOW)}\n\n"], list(chat_events("Thursday."))]
    answer = client.post(CHAT, json=body([*long_chat(6), says("user", "Well?")], stream=True))
    assert answer.text == "".join(chat_events("Thursday."))
    assert len(upstream.bodies[1]["messages"]) < len(upstream.bodies[0]["messages"])


def test_history_starts_at_the_same_message_for_many_turns(start, upstream):
    client = start(upstream={"window": 2500})
    messages, starts = long_chat(30), []
    for turn in range(24):
        messages += [says("assistant", "word " * 40), says("user", f"Go on, {turn}. " + "word " * 40)]
        client.post(CHAT, json=body(messages))
        starts.append(upstream.bodies[-1]["messages"][1]["content"])
    assert sum(before != after for before, after in pairwise(starts)) <= 5


@pytest.mark.parametrize("store", ["sqlite_url", "postgres_url"])
def test_a_conversation_goes_on_at_another_server_as_at_the_same_one(request, start, upstream, store):
    settings = {"name": "local", "url": f"{upstream.address}/v1", "window": 2500}
    config = parse_config({"upstreams": [settings], "store": request.getfixturevalue(store), "workers": 2}, "a.toml")
    messages, turns = long_chat(30), []
    for turn in range(24):
        messages = [*messages, says("assistant", "word " * 40), says("user", f"Go on, {turn}. " + "word " * 40)]
        turns.append(messages)
    client = start(upstream={"window": 2500})
    alone = [client.post(CHAT, json=body(messages)).status_code for messages in turns]
    several = []
    for first in range(0, len(turns), 3):  # a server that stops has written what the next one needs
        with serving(create_app(config)) as (address, _), httpx2.Client(base_url=address, timeout=120) as other:
            several += [other.post(CHAT, json=body(messages)).status_code for messages in turns[first : first + 3]]
    assert alone == several == [200] * len(turns)
    assert upstream.bodies[: len(turns)] == upstream.bodies[len(turns) :]


def marked(message):
    """A message as Anthropic's clients send it while it is the last one."""
    return message | {"content": [{"type": "text", "text": message["content"], "cache_control": {"type": "ephemeral"}}]}


def history_starts(start, upstream, mark):
    """Return the first message of history in 24 turns of a conversation that has to be trimmed."""
    client = start(upstream={"window": 2500})
    messages, starts = long_chat(30)[1:], []
    for turn in range(24):
        messages += [says("assistant", "word " * 40), says("user", f"Go on, {turn}. " + "word " * 40)]
        sent = [*messages[:-3], mark(messages[-3]), messages[-2], mark(messages[-1])]
        client.post("/v1/messages", json={"model": "claude-sonnet-4-5", "max_tokens": 100, "messages": sent})
        starts.append(upstream.bodies[-1]["messages"][1]["content"])
        assert upstream.bodies[-1]["messages"][-1] == sent[-1]
    return starts


def test_a_share_of_the_records_is_stored(start):
    client = start(record_share=0.5)
    sent = [client.post(CHAT, json=body([says("user", f"Hi {at}")])).headers["x-brimful-context"] for at in range(40)]
    client.get(f"/brimful/v1/contexts/{sent[-1]}")  # waits until all are written
    recorded = {each["id"]: each["recorded"] for each in client.get("/brimful/v1/contexts").json()["contexts"]}
    assert recorded == {id: crc32(id.encode()) < 2**31 for id in sent}
    assert set(recorded.values()) == {True, False}
    for id, found in recorded.items():
        answer = client.get(f"/brimful/v1/contexts/{id}")
        assert (answer.json()["error"]["code"] == "context_not_recorded") if not found else answer.status_code == 200
    [total] = client.get("/brimful/v1/statistics").json()["statistics"]
    assert (total["contexts"], total["answers"]["total"]) == (40, 40)


def test_required_records_are_all_stored(start):
    client = start(record_share=0.0, records="required")
    sent = [client.post(CHAT, json=body([says("user", f"Hi {at}")])).headers["x-brimful-context"] for at in range(3)]
    assert {client.get(f"/brimful/v1/contexts/{id}").status_code for id in sent} == {200}


def test_a_moving_cache_mark_does_not_move_the_start_of_history(start, upstream):
    plain = history_starts(start, upstream, dict)
    assert sum(before != after for before, after in pairwise(plain)) <= 6
    assert history_starts(start, upstream, marked) == plain


def test_two_conversations_with_the_same_start_are_distinguished(start, upstream):
    client = start(upstream={"window": 2500})
    one = long_chat(40)
    for turn in range(3):
        client.post(CHAT, json=body([*one, says("assistant", "one"), says("user", f"{turn}")]))
    other = [*one[:11], says("user", "Something else.")]
    client.post(CHAT, json=body(other))
    assert upstream.bodies[-1]["messages"] == other


@pytest.mark.parametrize(("records", "short", "long"), [("all", 200, 200), ("trimmed", 404, 200), ("none", 404, 404)])
def test_records_are_stored_as_configured(start, records, short, long):
    client = start(upstream={"window": 2000}, records=records)
    for messages, status in (([says("user", "Hi")], short), (long_chat(), long)):
        answer = client.post(CHAT, json=body(messages))
        assert client.get(f"/brimful/v1/contexts/{answer.headers['x-brimful-context']}").status_code == status


def test_a_learned_window_outlives_the_process(start, upstream):
    upstream.answers = [(400, OVERFLOW), chat_answer()]
    start().post(CHAT, json=body(long_chat(6)))
    start.stop()
    upstream.answers = []
    start().post(CHAT, json=body(long_chat(6)))
    assert len(upstream.bodies) == 3
    assert len(upstream.bodies[2]["messages"]) <= len(upstream.bodies[1]["messages"])


def test_a_learned_window_is_in_the_records_and_the_status(start, upstream):
    client = start()
    upstream.answers = [(400, OVERFLOW), chat_answer()]
    client.post(CHAT, json=body(long_chat(6), model="acme-1"))
    answer = client.post(CHAT, json=body(long_chat(6), model="acme-1"))
    record = client.get(f"/brimful/v1/contexts/{answer.headers['x-brimful-context']}").json()
    [notice] = [each for each in record["warnings"] if each["kind"] == "learned-window"]
    assert "named a smaller window: acme-1 gets 256 tokens" in notice["text"]
    [learned] = client.get("/brimful/v1/status").json()["learned_windows"]["default"]
    assert (learned["model"], learned["window"]) == ("acme-1", 256)


def test_a_clients_error_text_does_not_narrow_the_window_of_others(start, upstream):
    """A sentence of a request comes back in an error of the upstream."""
    client = start()
    said = "This model's maximum context length is 300 tokens. However, your messages resulted in 900 tokens."
    refusal = {"error": {"message": f"invalid message: {said}", "type": "invalid_request_error"}}
    upstream.answers = [(400, refusal)]
    client.post(CHAT, json=body([*long_chat(6), says("user", said)], model="acme-1"))
    upstream.answers = []
    messages = long_chat(6)
    assert client.post(CHAT, json=body(messages, model="acme-1")).status_code == 200
    assert upstream.bodies[-1]["messages"] == messages
    assert client.get("/brimful/v1/status").json()["learned_windows"] == {}


def test_a_failing_store_loses_records_but_no_answers(start, upstream, tmp_path):
    client = start()
    with closing(sqlite3.connect(tmp_path / "brimful.db")) as database, database:
        for table in ("usage_reports", "context_items", "snapshots", "responses"):
            database.execute(f"DROP TABLE {table}")
    assert client.post(CHAT, json=body([says("user", "Hi")])).json() == chat_answer()
    upstream.answers = [(400, OVERFLOW), chat_answer()]
    assert client.post(CHAT, json=body(long_chat(6))).status_code == 200
    assert len(upstream.bodies) == 3


def test_a_persistent_overflow_is_returned(start, upstream):
    upstream.answers = [(400, OVERFLOW)]
    answer = start().post(CHAT, json=body([says("user", "word " * 100)]))
    assert answer.status_code == 400
    assert answer.json() == OVERFLOW
    assert len(upstream.bodies) <= 2


@pytest.mark.parametrize("turns", [0, 30])
def test_the_upstreams_own_error_is_returned_if_the_second_request_fails_too(start, upstream, turns):
    refusals = [too_long(215_000, 200_000), too_long(214_000, 200_000)]
    upstream.answers = [(413, refusal) for refusal in refusals]
    request = body(long_chat(turns, words=500), model="claude-sonnet-4-5")
    answer = start(upstream={"window": 200_000}).post("/v1/messages", json=request)
    assert answer.status_code == 413
    assert answer.json() == refusals[min(1, turns)]
    assert len(upstream.bodies) == 1 + min(1, turns)


def too_long(prompt, window):
    message = f"prompt is too long: {prompt} tokens > {window} maximum"
    return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}


def test_a_refused_request_changes_nothing_for_other_requests(start, upstream):
    client = start(upstream={"window": 200_000})
    request = body(long_chat(4), model="claude-sonnet-4-5")
    upstream.answers = [(400, too_long(215_000, 200_000))]
    assert client.post("/v1/messages", json=request).status_code == 400
    upstream.answers = []
    answer = client.post("/v1/messages", json=request)
    assert answer.status_code == 200
    assert upstream.bodies[-1] == request
    record = client.get(f"/brimful/v1/contexts/{answer.headers['x-brimful-context']}").json()
    assert record["window"] == 200_000


def test_images_are_forwarded_and_counted(start, upstream):
    picture = {"type": "image_url", "image_url": {"url": "https://example.org/cat.png", "detail": "high"}}
    request = body([{"role": "user", "content": [{"type": "text", "text": "What is it?"}, picture]}])
    client = start()
    answer = client.post(CHAT, json=request)
    assert upstream.bodies == [request]
    record = client.get(f"/brimful/v1/contexts/{answer.headers['x-brimful-context']}").json()
    assert record["tokens"] > 500


def test_images_are_counted_before_sending(start, upstream):
    pictures = [{"type": "image_url", "image_url": {"url": f"https://example.org/{n}.png"}} for n in range(40)]
    history = [says("user", pictures), says("assistant", "Well."), says("user", "And now?")]
    start(upstream={"window": 16_000}).post(CHAT, json=body(history))
    assert pictures not in [message["content"] for message in upstream.bodies[0]["messages"]]


def test_texts_are_shortened_if_configured(start, upstream):
    client = start(upstream={"window": 1000}, fit={"min_tokens": 50})
    client.post(CHAT, json=body([says("user", "A sentence. " * 2000)]))
    assert "[…" in upstream.bodies[0]["messages"][0]["content"]


def test_usage_is_stored_with_the_count(start, upstream, tmp_path):
    upstream.answers = [chat_answer(prompt=11)]
    client = start()
    answer = client.post(CHAT, json=body([says("user", "Hi")]))
    record = client.get(f"/brimful/v1/contexts/{answer.headers['x-brimful-context']}").json()
    assert record["answers"][0]["usage"]["prompt"] == 11

    async def observed():
        async with connect(f"sqlite:///{tmp_path}/brimful.db") as database:
            return await database.tenant("default").usage_reports()

    (seen,) = asyncio.run(observed())
    assert (seen.reported, seen.context) == (11, answer.headers["x-brimful-context"])


# -- windows that nobody told -----------------------------------------------------------------------------------------


def unknown(messages):
    return body(messages, model="acme-1")


def record_of(client, answer):
    return client.get(f"/brimful/v1/contexts/{answer.headers['x-brimful-context']}").json()


@pytest.mark.parametrize(
    "content", ["word " * 300, [{"type": "image_url", "image_url": {"url": "https://x.org/a.png"}}]]
)
def test_a_model_with_an_unknown_window_gets_the_request_as_it_is(start, upstream, content):
    client = start(upstream={"window": None})
    request = unknown([says("user", content), says("assistant", "Well.")] * 50 + [says("user", "And now?")])
    record = record_of(client, client.post(CHAT, json=request))
    assert upstream.bodies == [request]
    assert "unknown-window" in [warning["kind"] for warning in record["warnings"]]
    assert "unknown-model" not in [warning["kind"] for warning in record["warnings"]]
    assert record["left_out"] == 0


def test_a_limit_of_the_client_holds_for_unknown_windows_too(start, upstream):
    client = start(upstream={"window": None})
    answer = client.post(CHAT, json=unknown(long_chat(60)), headers={"x-brimful-max-prompt-tokens": "2000"})
    assert len(upstream.bodies[0]["messages"]) < 60
    assert record_of(client, answer)["tokens"] <= 2_000


def test_an_invalid_request_for_an_unknown_model_is_refused(start, upstream):
    assert start(upstream={"window": None}).post(CHAT, json=unknown(["Hi"])).status_code == 400
    assert upstream.bodies == []


def test_the_window_of_an_unknown_model_is_learned_from_the_first_refusal(start, upstream):
    client = start(upstream={"window": None})
    request = unknown(long_chat(200))
    message = "This model's maximum context length is 16384 tokens. However, your messages resulted in 21000 tokens."
    upstream.answers = [(400, {"error": {"message": message}}), chat_answer()]
    assert client.post(CHAT, json=request).status_code == 200
    answer = client.post(CHAT, json=request)
    assert [len(each["messages"]) < len(request["messages"]) for each in upstream.bodies] == [False, True, True]
    assert record_of(client, answer)["window"] == 16_384


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/v1/models", {"data": [{"id": "acme-1", "max_model_len": 32_768}]}),
        ("/v1/models", {"data": [{"id": "acme-1", "context_length": 32_768}]}),
        ("/props", {"default_generation_settings": {"n_ctx": 32_768}}),
        ("/api/v0/models", {"data": [{"id": "acme-1", "loaded_context_length": 32_768}]}),
        ("/api/ps", {"models": [{"model": "acme-1:latest", "context_length": 32_768}, {"model": 7}, 7]}),
    ],
)
def test_a_server_that_tells_its_window_gets_what_fits_into_it(start, upstream, path, answer):
    row = {"id": "acme-1", "owned_by": {"/props": "llamacpp"}.get(path, "organization")}
    if path == "/api/ps":
        row = {"id": "acme-1:latest", "owned_by": "library"}
    upstream.pages = {"/v1/models": {"data": [row]}} | {path: answer}
    client = start(upstream={"window": None})
    fits, too_long = unknown(long_chat(190)), unknown(long_chat(400))
    record = record_of(client, client.post(CHAT, json=fits))
    assert upstream.bodies[0] == fits
    assert record["window"] == 32_768
    assert not any(warning["kind"].startswith("unknown") for warning in record["warnings"])
    client.post(CHAT, json=too_long)
    assert len(upstream.bodies[1]["messages"]) < len(too_long["messages"])


@pytest.mark.parametrize(("row", "window"), [({}, 1_000_000), ({"max_model_len": 1_500_000}, 1_500_000)])
def test_a_window_reported_by_the_server_replaces_a_published_one(start, upstream, row, window):
    upstream.pages = {"/v1/models": {"data": [{"id": "glm-5.3", **row}]}}
    client = start(upstream={"window": None})
    record = record_of(client, client.post(CHAT, json=unknown(long_chat(4)) | {"model": "glm-5.3"}))
    assert record["window"] == window
    assert not any(warning["kind"].startswith("unknown") for warning in record["warnings"])


@pytest.mark.parametrize(
    ("betas", "window"),
    [("", 200_000), ("a, context-1m-2025-08-07", 1_000_000), ("context-1m-2025-08-07,b", 1_000_000)],
)
def test_the_beta_header_widens_the_window(start, betas, window):
    client = start(upstream={"window": None})
    request = body([says("user", "Hi")], model="claude-sonnet-4-5")
    answer = client.post("/v1/messages", json=request, headers={"anthropic-beta": betas})
    assert record_of(client, answer)["window"] == window


def with_document(messages):
    source = {"type": "url", "url": "https://example.org/report.pdf"}
    question = [{"type": "document", "source": source}, {"type": "text", "text": "What does it say?"}]
    return body([*messages[1:-1], says("user", question)], model="claude-sonnet-4-5")


def test_a_document_that_is_larger_than_assumed_costs_history_its_place(start, upstream):
    client = start(upstream={"window": 200_000})
    request = with_document(long_chat(40, words=1_500))  # about 140,000 tokens beside the document
    upstream.answers = [(404, {}), (400, too_long(205_000, 200_000)), message_answer()]  # it cannot count
    assert client.post("/v1/messages", json=request).status_code == 200
    _, first, second = upstream.bodies
    assert second["messages"][-1] == request["messages"][-1]
    assert 0.5 < len(second["messages"]) / len(first["messages"]) < 1


def test_a_document_that_does_not_fit_teaches_nothing(start, upstream):
    client = start(upstream={"window": 200_000})
    upstream.answers = [(400, too_long(1_215_000, 200_000))]
    answer = client.post("/v1/messages", json=with_document(long_chat(4)))
    assert answer.json() == too_long(1_215_000, 200_000)
    upstream.answers = []
    request = body(long_chat(4)[1:], model="claude-sonnet-4-5")
    answer = client.post("/v1/messages", json=request)
    assert record_of(client, answer)["window"] == 200_000
    assert upstream.bodies[-1] == request


# -- the policy ------------------------------------------------------------------------------------------------------


def calls(count=30):
    messages = [{"role": "user", "content": "Which orders of ada_4711 are late?"}]
    for number in range(count):
        function = {"name": "get_order", "arguments": f'{{"order": "W-{number}"}}'}
        called = [{"id": f"c{number}", "type": "function", "function": function}]
        messages.append({"role": "assistant", "content": None, "tool_calls": called})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": f"order W-{number} is fine. " * 60})
    return messages


@pytest.mark.parametrize(
    ("config", "headers", "policy"),
    [
        ({}, {}, "agent"),
        ({}, {"x-brimful-policy": "fit"}, "fit"),
        ({"fit": {"policy": "fit"}}, {}, "fit"),
        ({"fit": {"policy": "fit"}}, {"x-brimful-policy": "agent"}, "agent"),
    ],
)
def test_a_run_of_an_agent_is_trimmed_by_its_policy_unless_another_one_is_chosen(start, config, headers, policy):
    client = start(upstream={"window": 2_000}, **config)
    answer = client.post(CHAT, json=body(calls()), headers=headers)
    record = client.get(f"/brimful/v1/contexts/{answer.headers['x-brimful-context']}").json()
    assert record["policy"] == policy
    lines = [each for each in record["decisions"] if each["reason"] == "ledger"]
    assert bool(lines) == any("get_order(order=W-0)" in each["excerpt"] for each in record["prompt"])
    assert bool(lines) == (policy == "agent")


def test_a_policy_that_is_not_built_in_is_refused(start):
    answer = start().post(CHAT, json=body(calls(1)), headers={"x-brimful-policy": "/etc/x"})
    assert answer.status_code == 400
    assert "x-brimful-policy: must be one of agent, auction" in answer.json()["error"]["message"]
