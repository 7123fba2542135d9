"""Usage of streams is requested on behalf of the client and hidden; that of forwarded requests is recorded."""

import asyncio
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.server.config import parse_config
from brimful.server.proxy.stream import UsageFilter
from brimful.server.proxy.upstreams import Upstreams
from brimful.stores import connect
from brimful.wires import find_wire
from server.upstream import chat_answer, chat_events

CHAT = "/v1/chat/completions"
HEADERS = {"x-brimful-conversation": "c1"}
USAGE = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
MODES = pytest.mark.parametrize("mode", ["fit", "remember"])


def answering(sent):
    """Answer as OpenAI does: the usage comes last, in an event of its own, if it was asked for."""
    *said, end = chat_events("Thurs", "day.")
    asked = (sent.get("stream_options") or {}).get("include_usage")
    text = f"data: {json.dumps({'id': 'chatcmpl-1', 'choices': [], 'usage': USAGE})}\n\n"
    return [*said, *([text] if asked else []), end]


def ask(client, **more):
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "When?"}], "stream": True, **more}
    return client.post(CHAT, headers=HEADERS, content=json.dumps(body, indent=1))


def record_of(client, answer, rest=""):
    return client.get(f"/brimful/v1/contexts/{answer.headers['x-brimful-context']}{rest}").json()


@MODES
def test_the_usage_is_recorded_and_hidden_from_the_client(start, upstream, mode):
    upstream.answers = [answering]
    client = start(mode=mode, upstream={"request_usage": True})
    answer = ask(client, seed=7)
    assert answer.text == "".join(chat_events("Thurs", "day."))
    assert record_of(client, answer)["answers"][0]["usage"]["prompt"] == 9
    assert upstream.bodies[0]["stream_options"] == {"include_usage": True}
    assert upstream.bodies[0]["seed"] == 7
    assert record_of(client, answer, "/request") == upstream.bodies[0]


@MODES
def test_the_clients_own_choice_is_respected(start, upstream, mode):
    upstream.answers = [answering]
    client = start(mode=mode, upstream={"request_usage": True})
    assert '"usage": {' in ask(client, stream_options={"include_usage": True}).text
    assert ask(client, stream_options={"include_usage": False}).text == "".join(chat_events("Thurs", "day."))
    assert [body["stream_options"]["include_usage"] for body in upstream.bodies] == [True, False]
    ask(client, stream_options={"other": 1})
    assert upstream.bodies[-1]["stream_options"] == {"other": 1, "include_usage": True}


@MODES
def test_unknown_servers_are_not_asked_for_usage(start, upstream, mode):
    upstream.answers = [answering]
    ask(start(mode=mode))
    assert "stream_options" not in upstream.bodies[0]


@pytest.mark.parametrize(
    ("upstream", "fit", "remember"),
    [
        ({"url": "https://api.openai.com/v1"}, False, True),
        ({"url": "https://api.openai.com/v1", "request_usage": True}, True, True),
        ({"url": "https://api.openai.com/v1", "request_usage": False}, False, False),
        ({"url": "https://api.mistral.ai/v1"}, False, False),
        ({"url": "http://127.0.0.1:8081/v1"}, False, False),
    ],
)
def test_only_servers_that_report_usage_are_asked_for_it(upstream, fit, remember):
    config = parse_config({"upstreams": [{"name": "up", **upstream}]}, "brimful.toml")
    line = Upstreams(config, environ={"OPENAI_API_KEY": "sk-1", "MISTRAL_API_KEY": "sk-2"}).find(
        find_wire("openai"), "gpt-4o"
    )
    assert (line.requests_usage("fit"), line.requests_usage("remember")) == (fit, remember)


@given(st.lists(st.sampled_from(["a", "usage", "long", "comment"]), max_size=6), st.integers(1, 200), st.booleans())
def test_only_the_usage_event_is_removed_in_any_chunking(kinds, size, crlf):
    events = {
        "a": b'data: {"choices": [{"delta": {"content": "usage"}}], "usage": null}\n\n',
        "usage": b'data: {"choices": [], "usage": {"prompt_tokens": 9}}\n\n',
        "long": b'data: {"choices": [], "usage": "' + b"x" * 9_000 + b'"}\n\n',
        "comment": b': "usage"\n\n',
    }
    data, kept = (
        b"".join(events[kind] for kind in kinds if everything or kind != "usage") for everything in (True, False)
    )
    if crlf:
        data, kept = (text.replace(b"\n", b"\r\n") for text in (data, kept))
    withheld = UsageFilter(find_wire("openai").usage_option)
    fed = b"".join(withheld.feed(data[at : at + size]) for at in range(0, len(data), size))
    assert fed + withheld.end() == kept


COMPLETE = {"model": "gpt-3.5-turbo-instruct", "prompt": "tea", "user": "ada"}
FOLLOW_UP = {"model": "gpt-4o", "input": "And?", "user": "ada", "previous_response_id": "resp_1"}


@pytest.mark.parametrize(("records", "recorded"), [("all", True), ("none", False)])
def test_what_forwarded_requests_and_other_answers_use_is_in_the_statistics(start, upstream, records, recorded):
    async def make_key():
        async with connect(f"sqlite:///{start.store}") as database:
            return await database.api_keys("acme").create(name="x", scopes=["chat", "read", "metrics"], at=1.0)

    async def read():
        async with connect(f"sqlite:///{start.store}") as database:
            store = database.tenant("acme")
            return [(await store.statistics(by=by))[0] for by in ("user", "key")] if recorded else []

    start()
    start.stop()
    key, secret = asyncio.run(make_key())
    client = start(require_keys=True, records=records, telemetry={"metrics": True})
    client.headers["x-api-key"] = secret
    upstream.answers = [{"choices": [], "usage": {"prompt_tokens": 7, "total_tokens": 7}}]
    assert client.post("/v1/completions", json=COMPLETE).is_success
    upstream.answers = [{"output": [], "usage": {"input_tokens": 20, "output_tokens": 2}}]
    assert client.post("/v1/responses", json=FOLLOW_UP).is_success
    upstream.answers = [chat_answer("Thursday.", prompt=100)]
    messages = [{"role": "user", "content": "When?"}]
    answer = client.post(CHAT, json={"model": "gpt-4o", "user": "ada", "messages": messages})
    context = answer.headers["x-brimful-context"]
    if recorded:
        assert client.get(f"/brimful/v1/contexts/{context}").is_success
        assert client.post(f"/brimful/v1/contexts/{context}/answer", json={}).is_success
    start.wait()
    metrics = client.get("/metrics").text
    (dollars,) = re.findall(r'answer_dollars_total{model="gpt-3.5-turbo-instruct",.*} (.*)', metrics)
    assert float(dollars) == pytest.approx(7 * 1.5e-6)
    start.stop()
    for statistics in asyncio.run(read()):
        assert statistics.key in ("ada", key.id)
        assert (statistics.contexts, statistics.answers.total, statistics.answers.prompt) == (1, 4, 227)
        by_model = {each.model: each.answers.prompt for each in statistics.models}
        assert by_model == {"gpt-3.5-turbo-instruct": 7, "gpt-4o": 220}
