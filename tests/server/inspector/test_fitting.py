"""Requests that clients fit here and send themselves."""

import asyncio

import pytest

import brimful
from brimful.stores import connect
from server.inspector.conftest import ROOT, store_of

MODEL = "gpt-4o"


def turns(count, *, words=60):
    return [
        {"role": "user" if at % 2 == 0 else "assistant", "content": f"Turn {at}. " + "tea " * words}
        for at in range(count)
    ]


def steps(count, *, words=120):
    yield {"role": "user", "content": "Find the cheapest tea."}
    for at in range(count):
        call = {"id": f"c{at}", "type": "function", "function": {"name": "look", "arguments": f'{{"page": {at}}}'}}
        yield {"role": "assistant", "content": None, "tool_calls": [call]}
        yield {"role": "tool", "tool_call_id": f"c{at}", "content": f"page {at}: " + "leaf " * words}


@pytest.fixture
def server(start):
    return start(remember={"embedder": "none"})


def post(client, messages, *, model=MODEL, status=200, **body):
    answer = client.post(f"{ROOT}/fit", json={"request": {"model": model, "messages": messages}} | body)
    assert answer.status_code == status, answer.text
    return answer.json()


def test_a_request_comes_back_as_fit_makes_it(server):
    messages = turns(81)
    answer = post(server, messages, window=2_000, completion=300)
    alone = brimful.fit({"model": MODEL, "messages": messages}, window=2_000, completion=300)
    assert answer["request"] == alone.request
    assert answer["positions"] == list(alone.positions)
    assert len(answer["positions"]) < len(messages)
    assert (answer["tokens"], answer["limit"]) == (alone.tokens, 1_700)
    assert (answer["window"], answer["completion"]) == (2_000, 300)
    assert (answer["shortened"], answer["ledger"]) == ([], "")
    assert answer["recorded"]


def test_a_request_that_fits_is_not_changed(server):
    messages = turns(3)
    answer = post(server, messages)
    assert answer["request"] == {"model": MODEL, "messages": messages}
    assert answer["positions"] == [0, 1, 2]


def test_steps_of_an_agent_become_a_ledger(server):
    messages = list(steps(60))
    answer = post(server, messages, window=4_000, completion=500)
    assert answer["policy"] == "agent"
    sent = answer["request"]["messages"]
    assert sent[1] == {"role": "user", "content": answer["ledger"]}
    assert len(sent) == len(answer["positions"]) + 1
    plain = post(server, messages, window=4_000, completion=500, policy="fit")
    assert plain["ledger"] == ""
    assert plain["request"]["messages"] == [messages[at] for at in plain["positions"]]


def test_pins_ties_limits_and_overrides_apply(server):
    messages = turns(81)
    answer = post(server, messages, window=3_000, completion=300, pin=[5], ties=[[70, 71]])
    assert 5 in answer["positions"]
    limited = post(server, messages, max_prompt_tokens=900)
    assert limited["tokens"] <= 900
    recalling = post(server, messages, window=2_000, completion=300, overrides={"recall": "tool"})
    assert [tool["function"]["name"] for tool in recalling["request"]["tools"]] == ["recall"]


def test_other_wires_are_fitted(server):
    items = [{"role": "user", "content": [{"type": "input_text", "text": "tea " * 60}]} for _ in range(60)]
    body = {"request": {"model": MODEL, "input": items}, "wire": "responses", "window": 2_000, "completion": 300}
    answer = server.post(f"{ROOT}/fit", json=body).json()
    assert answer["request"]["input"] == [items[at] for at in answer["positions"]]


def test_a_conversation_keeps_its_prefix(server):
    messages = turns(81)
    first = post(server, messages, window=2_000, completion=300, conversation="a")
    messages += turns(2, words=3)
    second = post(server, messages, window=2_000, completion=300, conversation="a")
    assert second["positions"][0] == first["positions"][0]
    assert second["request"]["messages"][: len(first["positions"])] == first["request"]["messages"]


def test_the_context_is_shown_with_its_usage(server):
    answer = post(server, turns(81), window=2_000, completion=300, conversation="thread-7")
    usage = {"prompt": answer["tokens"] + 7, "cached": 100, "completion": 12, "reasoning": 3}
    where = f"{ROOT}/contexts/{answer['id']}"
    said = server.post(f"{where}/usage", json=usage | {"finish": "stop", "seconds": 1.5, "model": "gpt-4o-2024-11-20"})
    assert said.status_code == 200, said.text
    assert said.json()["usage"] == usage
    assert (said.json()["room"], said.json()["finish"]) == ("thread-7", "stop")
    shown = server.get(where).json()
    assert [each["usage"] for each in shown["answers"]] == [usage]
    assert shown["answers"][0]["model"] == "gpt-4o-2024-11-20"
    assert server.get(f"{ROOT}/contexts", params={"room": "thread-7"}).json()["contexts"][0]["id"] == answer["id"]


def test_reported_usage_calibrates_the_next_count(server):
    model = "claude-sonnet-4-5"
    before = post(server, turns(81, words=20), model=model)
    for at in range(12):
        again = post(server, [*turns(80, words=20), {"role": "user", "content": f"Question {at}"}], model=model)
        usage = {"prompt": round(again["tokens"] * 1.2)}
        server.post(f"{ROOT}/contexts/{again['id']}/usage", json=usage).raise_for_status()
    after = post(server, turns(81, words=20), model=model)
    assert after["tokens"] > before["tokens"] * 1.05


def test_usage_of_an_unknown_context_is_refused(server):
    answer = server.post(f"{ROOT}/contexts/ctx-none/usage", json={"prompt": 1})
    assert answer.status_code == 404
    assert "ctx-none" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "request: required"),
        ({"request": []}, "request: Expected `object`"),
        ({"request": {"model": MODEL}}, "messages: must be a list of messages"),
        ({"request": {"messages": [{"role": "user", "content": "x"}]}, "wire": "telegraph"}, "wire: Invalid enum"),
        ({"request": {"model": MODEL, "messages": turns(1)}, "policy": "nope"}, "nope"),
        ({"request": {"model": MODEL, "messages": turns(1)}, "pin": [9]}, "pin"),
        ({"request": {"model": MODEL, "messages": turns(1)}, "ties": [["a"]]}, "ties"),
        ({"request": {"model": MODEL, "messages": turns(1)}, "windw": 9}, "windw: unknown field; valid fields are"),
        ({"request": {"model": MODEL, "messages": turns(1)}, "overrides": {"nope": 1}}, "nope"),
    ],
)
def test_bad_input_is_refused(server, body, said):
    answer = server.post(f"{ROOT}/fit", json=body)
    assert answer.status_code == 400, answer.text
    assert said in answer.json()["error"]["message"]


def test_a_request_that_cannot_fit_is_an_overflow(server):
    answer = post(server, turns(1, words=5_000), window=1_000, completion=100, pin=[0], status=400)
    assert answer["error"]["code"] == "context_length_exceeded"


def test_the_configuration_chooses_policy_and_records(start):
    client = start(remember={"embedder": "none"}, fit={"policy": "fit"}, records="trimmed")
    answer = post(client, list(steps(60)), window=4_000, completion=500)
    assert (answer["policy"], answer["recorded"]) == ("fit", True)
    whole = post(client, turns(1))
    assert not whole["recorded"]
    assert client.get(f"{ROOT}/contexts/{whole['id']}").status_code == 404
    assert client.get(f"{ROOT}/contexts/{answer['id']}").status_code == 200


def test_required_records_are_written_before_the_answer(start, tmp_path):
    client = start(remember={"embedder": "none"}, records="required")
    answer = post(client, turns(3))

    async def stored():
        async with connect(store_of(tmp_path)) as database:
            return await database.tenant("default").snapshot(answer["id"])

    assert asyncio.run(stored()).room == "fit"


def test_tenants_do_not_share_contexts(start, tmp_path):
    async def keys():
        async with connect(store_of(tmp_path)) as database:
            return [(await database.api_keys(name).create(name="x", scopes=["chat"], at=1.0))[1] for name in "ab"]

    first, second = asyncio.run(keys())
    client = start(remember={"embedder": "none"}, require_keys=True)
    client.headers["x-api-key"] = first
    answer = post(client, turns(3), conversation="same")
    client.headers["x-api-key"] = second
    refused = client.post(f"{ROOT}/contexts/{answer['id']}/usage", json={"prompt": 1})
    assert refused.status_code == 404
