"""OpenAI's Responses API through the proxy, with the official client and a strict fake of OpenAI."""

import asyncio
import json

import openai
import pytest

from brimful.testing import FakeResponses
from server.upstream import serving

RESPONSES = "/v1/responses"
TOOL = {"type": "function", "name": "look_up", "parameters": {"type": "object", "properties": {}}, "strict": False}
CALL = {"type": "function_call", "call_id": "call_1", "name": "look_up", "arguments": '{"q":"tea"}'}
HI = {"model": "gpt-4o", "input": "Hi"}


def count_words(request):
    return len(json.dumps(request).split())


@pytest.fixture
def serve():
    """Return a function that starts a fake OpenAI, and gives it and its address."""
    running = []

    def begin(script=(), **options):
        fake = FakeResponses(script, **options)
        running.append(serving(fake, lifespan="off"))
        address, _ = running[-1].__enter__()
        return fake, address

    yield begin
    for each in running:
        each.__exit__(None, None, None)


def through(start, address, **more):
    upstream = {"url": f"{address}/v1", "limits": {"max_attempts": 1}} | more
    return start(upstream=upstream)


def gpt(url, kind=openai.OpenAI):
    return kind(base_url=f"{url}/v1".replace("//v1", "/v1"), api_key="none", max_retries=0)


def long_input(turns=60, words=50):
    items = [{"role": "developer", "content": "Be brief."}]
    for turn in range(turns):
        answer = {"type": "output_text", "text": "word " * words, "annotations": []}
        items += [
            {"role": "user", "content": f"{turn}: " + "word " * words},
            {"type": "message", "role": "assistant", "id": f"msg_{turn}", "status": "completed", "content": [answer]},
        ]
    return [*items, {"role": "user", "content": "And now?"}]


def plain(result):
    if isinstance(result, list):
        return [plain(each) for each in result]
    return result.model_dump() if hasattr(result, "model_dump") else result


async def collect(stream):
    return [event async for event in await stream]


CALLS = {
    "text": lambda client: client.responses.create(**HI),
    "items": lambda client: client.responses.create(model="gpt-4o", input=long_input(2), instructions="Be kind."),
    "stream": lambda client: list(client.responses.create(**HI, stream=True)),
    "tools": lambda client: client.responses.create(**HI, tools=[TOOL], reasoning={"effort": "low"}, store=False),
    "orphan": lambda client: client.responses.create(model="gpt-4o", input=[CALL]),
    "unknown": lambda client: client.responses.retrieve("resp_9"),
    "count": lambda client: client.responses.input_tokens.count(**HI),
    "previous": lambda client: client.responses.create(**HI, previous_response_id="resp_9"),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_client_cannot_tell_the_difference(start, serve, name):
    observed = []
    for proxied in (False, True):
        fake, address = serve([[CALL]] if name == "tools" else ["Green tea, please."], tokens=count_words, window=5_000)
        with gpt(str(through(start, address).base_url) if proxied else address) as client:
            try:
                result = CALLS[name](client)
            except openai.APIError as failed:
                result = (type(failed).__name__, getattr(failed, "status_code", None), failed.message, failed.body)
        observed.append((plain(result), fake.requests))
    (direct, sent), (result, received) = observed
    assert result == direct
    assert received == sent


@pytest.mark.parametrize("stream", [False, True])
def test_an_overflow_that_cannot_get_smaller_is_the_providers_error(start, serve, stream):
    _, address = serve(tokens=lambda _: 9_999, window=5_000)
    with gpt(str(through(start, address).base_url)) as client, pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(**HI, stream=stream)
    assert refused.value.code == "context_length_exceeded"
    assert "Your input exceeds the context window of this model." in refused.value.message


def test_async_streams(start, serve):
    _, address = serve(["Green tea, please."])

    async def ask():
        async with gpt(str(through(start, address).base_url), openai.AsyncOpenAI) as client:
            return await collect(client.responses.create(**HI, stream=True))

    events = asyncio.run(ask())
    assert (
        "".join(event.delta for event in events if event.type == "response.output_text.delta") == "Green tea, please."
    )
    assert events[-1].type == "response.completed"


def test_an_agent_runs_far_past_its_window(start, serve):
    fake, address = serve([[CALL | {"call_id": f"call_{step}"}] for step in range(40)], tokens=count_words)
    client = through(start, address, window=2_000)
    items = [{"role": "user", "content": "Find the tea."}]
    with gpt(str(client.base_url)) as agent:
        for step in range(40):
            response = agent.responses.create(model="gpt-4o", input=items, tools=[TOOL], max_output_tokens=100)
            items += response.output
            items.append(
                {"type": "function_call_output", "call_id": f"call_{step}", "output": f"{step} " + "leaf " * 60}
            )
    assert len(fake.requests) == 40  # none was rejected
    last = fake.requests[-1]["input"]
    assert len(last) < 0.5 * len(items)
    assert last[0] == items[0]
    assert last[-1] == next(item for item in items if isinstance(item, dict) and item.get("call_id") == "call_38")


def test_a_long_request_is_trimmed_recorded_and_its_usage_stored(start, serve):
    fake, address = serve()
    client = through(start, address, window=2_000)
    items = long_input()
    answer = client.post(RESPONSES, json={"model": "gpt-4o", "input": items, "max_output_tokens": 100})
    sent = fake.requests[0]["input"]
    assert sent[0] == items[0]
    assert sent[1:] == items[-len(sent) + 1 :]
    assert 5 < len(sent) < len(items)
    record = client.get(f"/brimful/v1/contexts/{answer.headers['x-brimful-context']}").json()
    assert record["left_out"] == len(items) - len(sent)
    assert record["tokens"] <= record["hard_limit"] == 1_900
    assert client.get(f"/brimful/v1/contexts/{record['id']}/request").json()["input"] == sent
    assert answer.headers["x-brimful-dropped"].startswith(f"messages={len(items) - len(sent)} ")


def wait_for_answer(client, context):
    """Return the answer to a context, which is recorded after it was forwarded."""
    while not (answers := client.get(f"/brimful/v1/contexts/{context}").json().get("answers")):
        pass
    return answers[0]


@pytest.mark.parametrize("stream", [False, True])
def test_usage_is_recorded(start, serve, stream):
    _, address = serve(["Green tea."])
    client = through(start, address, window=128_000)
    long = "kind " * 20_000  # repeated by three events of the stream
    answer = client.post(RESPONSES, json=HI | {"stream": stream, "instructions": long})
    found = wait_for_answer(client, answer.headers["x-brimful-context"])
    assert found["usage"] == {"prompt": 12, "cached": 4, "completion": 3, "reasoning": 1}
    assert found["finish"] == "stop"
    assert "the answer broke off" not in answer.text


@pytest.mark.parametrize("stream", [False, True])
def test_an_overflow_is_learned_and_the_request_sent_again(start, serve, stream):
    fake, address = serve(tokens=count_words, window=1_900)
    client = through(start, address)
    items = long_input(20)
    answer = client.post(
        RESPONSES, json={"model": "gpt-4o", "input": items, "max_output_tokens": 100, "stream": stream}
    )
    assert answer.status_code == 200
    assert "response.failed" not in answer.text
    assert len(fake.requests) == 2
    assert len(fake.requests[1]["input"]) < len(items)
    record = client.get(f"/brimful/v1/contexts/{answer.headers['x-brimful-context']}").json()
    assert record["warnings"][0]["kind"] == "overflowed"


def test_items_stored_by_the_provider_are_passed_on(start, serve):
    fake, address = serve(["Green.", "Tea."])
    client = through(start, address)
    with gpt(str(client.base_url)) as agent:
        first = agent.responses.create(**HI)
        second = agent.responses.with_raw_response.create(**HI, previous_response_id=first.id)
        assert second.headers["x-brimful-notice"] == "sent as it is, because of previous_response_id"
        assert "x-brimful-context" not in second.headers
        assert second.parse().output_text == "Tea."
        assert fake.requests[1]["previous_response_id"] == first.id
        assert agent.responses.retrieve(first.id).output_text == "Green."
        agent.responses.delete(first.id)
        with pytest.raises(openai.NotFoundError):
            agent.responses.retrieve(first.id)


TALK = {"x-brimful-mode": "remember", "x-brimful-conversation": "tea"}


@pytest.mark.parametrize("stream", [False, True])
def test_conversations_are_remembered(start, serve, stream):
    fake, address = serve(["Green tea.", "You are welcome."])
    client = through(start, address, window=2_000)
    request = {"model": "gpt-4o", "input": long_input(), "max_output_tokens": 100}
    assert client.post(RESPONSES, json=request | {"stream": stream}, headers=TALK).status_code == 200
    client.post(RESPONSES, json=HI | {"input": "Thanks!"}, headers=TALK)
    first, second = fake.requests
    assert first["instructions"] == "Be brief."
    assert 5 < len(first["input"]) < 121
    assert [item["content"] for item in second["input"][-2:]] == ["Green tea.", "Thanks!"]
    assert len(client.get("/brimful/v1/rooms/tea/messages?limit=200").json()["messages"]) == 124


def test_reasoning_between_tool_calls_is_sent_as_it_came_and_not_stored(start, serve):
    fake, address = serve(["Green."])
    client = through(start, address)
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "secret thought"}
    custom = {"type": "custom_tool_call", "id": "ct_1", "call_id": "call_2", "name": "patch", "input": "+ tea"}
    items = [
        {"role": "user", "content": "Find the tea."},
        thought,
        {"type": "message", "id": "m_1", "role": "assistant", "content": [{"type": "output_text", "text": "Hm."}]},
        CALL | {"id": "fc_1"},
        custom,
        {"type": "function_call_output", "call_id": "call_1", "output": "on the shelf"},
        {"type": "custom_tool_call_output", "call_id": "call_2", "output": "done"},
    ]
    request = {"model": "gpt-4o", "input": items, "tools": [TOOL], "store": False}
    assert client.post(RESPONSES, json=request, headers=TALK).status_code == 200
    assert fake.requests[0]["input"] == items
    stored = client.get("/brimful/v1/rooms/tea/messages").json()["messages"]
    assert [message["role"] for message in sorted(stored, key=lambda each: each["seq"])] == [
        *("user", "assistant", "tool", "tool", "assistant")
    ]
    assert "secret thought" not in json.dumps(stored)


@pytest.mark.parametrize(
    ("item", "place"),
    [
        ({"role": "user", "content": [{"type": "input_file", "file_id": "f1"}]}, ".content[0]"),
        ({"role": "user", "content": ""}, ".content"),
        ({"role": "weird", "content": "Hi"}, ".role"),
        ({"role": "user", "content": 5}, ".content"),
        ({"type": "item_reference", "id": "msg_1"}, ""),
        ({"type": "computer_call", "call_id": "c1", "action": {}}, ""),
        ({"type": "function_call_output", "call_id": "c9", "output": "tea"}, ""),
        ({"type": "function_call_output", "output": "tea"}, ".call_id"),
    ],
)
def test_items_that_cannot_be_stored_are_refused_with_their_position(start, serve, item, place):
    fake, address = serve()
    items = [{"role": "user", "content": "Hi"}, item]
    answer = through(start, address).post(RESPONSES, json={"model": "gpt-4o", "input": items}, headers=TALK)
    assert (answer.status_code, fake.requests) == (400, [])
    assert answer.json()["error"]["message"].startswith(f"input[1]{place}: ")


def test_an_upstream_may_speak_only_this_wire(start, serve):
    _, address = serve(["Tea."])
    client = through(start, address, wires=["responses"])
    assert client.post(RESPONSES, json=HI).status_code == 200
    assert client.post("/v1/chat/completions", json={"model": "m", "messages": []}).status_code == 404


def test_an_error_names_the_field_of_the_items(start, serve):
    fake, address = serve()
    client = start(upstream={"url": f"{address}/v1", "window": 300})
    call = {"type": "function_call", "call_id": "c1", "name": "write", "arguments": json.dumps({"text": "word " * 500})}
    items = [{"role": "user", "content": "Write."}, call]
    items.append({"type": "function_call_output", "call_id": "c1", "output": "ok"})
    answer = client.post(RESPONSES, json={"model": "gpt-4o", "input": items, "max_output_tokens": 50})
    assert (answer.status_code, fake.requests) == (400, [])
    error = answer.json()["error"]
    assert (error["param"], error["code"]) == ("input", "context_length_exceeded")
    assert "msg-000001 is a tool call, whose arguments and reasoning must stay as they are" in error["message"]


@pytest.mark.parametrize("wrong", [None, [], 7, ["Hi"]])
def test_invalid_input_is_refused_by_name(start, serve, wrong):
    fake, address = serve()
    answer = through(start, address).post(RESPONSES, json={"model": "gpt-4o", "input": wrong})
    assert (answer.status_code, fake.requests) == (400, [])
    assert answer.json()["error"]["message"].startswith("input")


@pytest.mark.parametrize("stream", [False, True])
def test_the_proxy_answers_recalls(start, serve, stream):
    recall = {"type": "function_call", "call_id": "r1", "name": "recall", "arguments": '{"handle": "msg-000001"}'}
    fake, address = serve([[recall], "It was 0."])
    client = start(upstream={"url": f"{address}/v1", "window": 2_000}, fit={"recall": "tool"})
    with gpt(str(client.base_url)) as agent:
        items = long_input()
        request = {"model": "gpt-4o", "input": items, "max_output_tokens": 100, "store": False}
        answer = agent.responses.create(**request, stream=stream)
        answer = list(answer)[-1].response if stream else answer
    assert answer.output_text == "It was 0."
    assert [item.type for item in answer.output] == ["reasoning", "message"]
    first, second = fake.requests
    assert [tool["name"] for tool in first["tools"]] == ["recall"]
    assert second["input"][-1]["call_id"] == "r1"
    assert items[1]["content"][:20] in second["input"][-1]["output"]
    assert [item.get("type") for item in second["input"][-3:]] == ["reasoning", "function_call", "function_call_output"]


def test_a_summary_stands_for_what_was_left_out(start, serve):
    fake, address = serve()
    client = start(upstream={"url": f"{address}/v1", "window": 2_000}, fit={"compaction": "rules"})
    answers = [client.post(RESPONSES, json={"model": "gpt-4o", "input": long_input(60 + turn)}) for turn in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert all(sent["input"][-1] == {"role": "user", "content": "And now?"} for sent in fake.requests)
