"""Several upstreams for one model: which are tried, in which order, and what the client and the records say of it."""

import json
import logging

import pytest
from starlette.responses import Response, StreamingResponse

from brimful.errors import ProviderError, ProviderTimeout, ProviderUnavailable
from brimful.server.config import UpstreamConfig, parse_config
from brimful.server.errors import ApiError
from brimful.server.proxy.upstreams import Upstreams, describe_outage, is_outage
from brimful.wires import find_wire
from server.upstream import OVERFLOW, Upstream, chat_answer, serving

HI = {"model": "gpt-4o", "messages": [{"role": "user", "content": "When is the demo?"}]}
LONG = {"model": "gpt-4o", "messages": [{"role": "user", "content": f"Note {n}: {'tea ' * 60}"} for n in range(40)]}
STREAM = HI | {"stream": True}
DOWN = (503, {"error": {"message": "overloaded"}})
DEAD = "http://127.0.0.1:1/v1"
QUICK = {"limits": {"max_attempts": 1}}


@pytest.fixture
def second():
    stand_in = Upstream()
    stand_in.answers = [chat_answer("Friday.")]
    with serving(stand_in.app()) as (address, _):
        stand_in.address = f"{address}/v1"
        yield stand_in


@pytest.fixture
def start_two(start, upstream, second):
    """Return a function that starts a server before two upstreams, with changes to the first and the second."""

    def begin(first=None, other=None, **config):
        one = {"name": "one", "url": f"{upstream.address}/v1", "models": ["gpt-*"]} | QUICK | (first or {})
        two = {"name": "two", "url": second.address, "models": ["gpt-4o"]} | QUICK | (other or {})
        return start(upstreams=[one, two], **config)

    return begin


def text(answer):
    return answer.json()["choices"][0]["message"]["content"]


@pytest.mark.parametrize("mode", ["fit", "remember"])
@pytest.mark.parametrize("status", [408, 429, 500, 503, 529])
def test_the_second_upstream_answers_where_the_first_fails(start_two, upstream, status, mode):
    upstream.answers = [(status, {"error": {"message": "no"}})]
    client = start_two()
    headers = {"x-brimful-mode": mode, "x-brimful-conversation": "c"}
    answer = client.post("/v1/chat/completions", json=HI, headers=headers)
    assert (answer.status_code, text(answer), answer.headers["x-brimful-upstream"]) == (200, "Friday.", "two")
    record = client.get(f"/brimful/v1/contexts/{answer.headers['x-brimful-context']}").json()
    assert [each["facts"] for each in record["degraded"] if each["kind"] == "upstream-failed"] == [
        {"upstream": "one", "status": status}
    ]
    assert [each["upstream"] for each in record["answers"]] == ["two"]
    if mode == "remember":
        messages = client.get("/brimful/v1/rooms/c/messages").json()["messages"]
        assert [each["content"] for each in messages] == ["Friday.", "When is the demo?"]


def test_a_dead_upstream_is_not_tried_again_while_it_rests(start_two, upstream, caplog):
    caplog.set_level(logging.WARNING, logger="brimful.server")
    client = start_two({"url": DEAD})
    for _ in range(3):
        answer = client.post("/v1/chat/completions", json=HI)
        assert answer.headers["x-brimful-upstream"] == "two"
    record = client.get(f"/brimful/v1/contexts/{answer.headers['x-brimful-context']}").json()
    assert [each["upstream"] for each in record["answers"]] == ["two"]  # though no attempt failed
    assert "upstream-failed" not in [each["kind"] for each in record["degraded"]]
    assert caplog.messages == ["the upstream 'one' could not be reached, or broke off; trying the next"]
    assert client.get("/ready").json() == {"status": "ready", "upstreams": {"one": "fails", "two": "answers"}}
    assert not upstream.requests


def test_without_rest_the_first_upstream_is_tried_each_time(start_two, upstream):
    upstream.answers = [DOWN, chat_answer("Thursday.")]
    client = start_two({"cooldown": 0})
    answers = [client.post("/v1/chat/completions", json=HI) for _ in range(2)]
    assert [(each.headers["x-brimful-upstream"], text(each)) for each in answers] == [
        ("two", "Friday."),
        ("one", "Thursday."),
    ]


def broken_stream():
    async def pieces():
        yield b": comment\n\n"
        raise RuntimeError

    return StreamingResponse(pieces(), media_type="text/event-stream")


OVERLOADED = Response(b'data: {"error": {"message": "overloaded", "code": 503}}\n\n', media_type="text/event-stream")


@pytest.mark.parametrize("failure", [lambda _: DOWN, lambda _: broken_stream(), lambda _: OVERLOADED])
def test_a_stream_that_fails_before_its_first_event_comes_from_the_second_upstream(
    start_two, upstream, second, failure
):
    upstream.answers, second.answers = [failure], [["Fri", "day."]]
    second.answers = []
    answer = start_two().post("/v1/chat/completions", json=STREAM)
    assert answer.headers["x-brimful-upstream"] == "two"
    assert "overloaded" not in answer.text
    assert answer.text.rstrip().endswith("data: [DONE]")


def test_a_stream_that_breaks_off_later_is_not_sent_again(start_two, upstream, second):
    async def pieces():
        yield b'data: {"choices": [{"index": 0, "delta": {"content": "Thurs"}}]}\n\n'
        raise RuntimeError

    upstream.answers = [lambda _: StreamingResponse(pieces(), media_type="text/event-stream")]
    answer = start_two().post("/v1/chat/completions", json=STREAM)
    assert "Thurs" in answer.text
    assert "broke off" in answer.text
    assert not second.requests


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_request_that_is_refused_is_not_sent_to_another(start_two, upstream, second, status):
    upstream.answers = [(status, {"error": {"message": "no"}})]
    answer = start_two().post("/v1/chat/completions", json=HI)
    assert answer.status_code == (502 if status == 401 else status)
    assert not second.requests


def test_if_all_fail_the_client_gets_the_last_error(start_two, upstream, second):
    upstream.answers = [DOWN]
    second.answers = [(429, {"error": {"message": "slow down"}})]
    client = start_two()
    answer = client.post("/v1/chat/completions", json=HI)
    assert (answer.status_code, answer.json()) == (429, {"error": {"message": "slow down"}})
    assert (len(upstream.requests), len(second.requests)) == (1, 1)
    for _ in range(3):  # both rest, and are tried nevertheless
        assert client.post("/v1/chat/completions", json=HI).status_code == 429
    assert client.get("/ready").json() == {"status": "ready", "upstreams": {"one": "fails", "two": "rests"}}
    second.answers = [chat_answer("Friday.")]
    assert client.post("/v1/chat/completions", json=HI).status_code == 200
    assert client.get("/ready").json()["upstreams"] == {"one": "fails", "two": "answers"}


@pytest.mark.parametrize("status", [408, 429])
def test_an_upstream_that_is_busy_is_not_down(start, upstream, status):
    upstream.answers = [(status, {"error": {"message": "slow down"}})]
    one = {"name": "one", "url": upstream.address} | QUICK
    client = start(upstreams=[one], ready_needs_upstreams=True)
    for _ in range(4):
        assert client.post("/v1/chat/completions", json=HI).status_code == status
    assert client.get("/ready").json() == {"status": "ready", "upstreams": {"one": "rests"}}


@pytest.mark.parametrize("body", [HI, STREAM])
@pytest.mark.parametrize("failure", [lambda _: DOWN, lambda _: broken_stream()])
def test_without_an_upstream_that_answers_a_server_is_ready_unless_told_otherwise(start, upstream, failure, body):
    upstream.answers = [failure]
    one = {"name": "one", "url": upstream.address} | QUICK
    client, strict = start(upstreams=[one]), start(upstreams=[one], ready_needs_upstreams=True)
    for server in (client, strict):
        for _ in range(3):
            assert server.get("/ready").json()["status"] == "ready"
            assert server.post("/v1/chat/completions", json=body).is_error
    assert client.get("/ready").json() == {"status": "ready", "upstreams": {"one": "fails"}}
    ready = strict.get("/ready")
    assert (ready.status_code, ready.json()["error"]["code"]) == (503, "not_ready")


def test_limits_of_the_key_of_one_client_say_nothing_about_others(start, upstream):
    upstream.answers = [(429, {}), DOWN]
    one = {"name": "one", "url": upstream.address, "authorization": "client"} | QUICK
    client = start(upstreams=[one])
    for status, state in ((429, "untried"), (503, "fails")):
        assert client.post("/v1/chat/completions", json=HI).status_code == status
        assert client.get("/ready").json()["upstreams"] == {"one": state}


def test_each_upstream_gets_what_fits_its_own_window(start_two, upstream, second):
    upstream.answers = [DOWN]
    client = start_two({"window": 8_192}, {"window": 2_048, "rename": {"gpt-4o": "openai/gpt-4o"}})
    answer = client.post("/v1/chat/completions", json=LONG)
    assert (answer.status_code, second.bodies[0]["model"]) == (200, "openai/gpt-4o")
    assert len(LONG["messages"]) == len(upstream.bodies[0]["messages"]) > len(second.bodies[0]["messages"]) > 1
    record = client.get(f"/brimful/v1/contexts/{answer.headers['x-brimful-context']}").json()
    assert (record["window"], record["model"]) == (2_048, "openai/gpt-4o")


def test_if_a_request_does_not_fit_the_second_window_the_client_gets_the_error_of_the_first(
    start_two, upstream, caplog
):
    caplog.set_level(logging.WARNING, logger="brimful.server")
    upstream.answers = [DOWN]
    huge = {"model": "gpt-4o", "messages": [{"role": "system", "content": "tea " * 1_000}, *HI["messages"]]}
    answer = start_two({"window": 8_192}, {"window": 300}).post("/v1/chat/completions", json=huge)
    assert (answer.status_code, answer.json()) == DOWN
    assert "context_length_exceeded" in caplog.messages[-1]
    assert "rejected_by=brimful" in caplog.messages[-1]


def test_an_overflow_is_rebuilt_and_not_sent_to_another(start_two, upstream, second):
    upstream.answers = [(400, OVERFLOW), chat_answer("Thursday.")]
    answer = start_two({"window": 8_192}).post("/v1/chat/completions", json=LONG)
    assert (answer.status_code, text(answer)) == (200, "Thursday.")
    assert not second.requests


def test_only_a_model_ends_the_rest_of_an_upstream(start, upstream):
    upstream.answers = [
        DOWN,
        (501, {"error": {"message": "not implemented"}}),
        {"ok": True},
        {"id": "f"},
        chat_answer(),
    ]
    client = start(upstreams=[{"name": "one", "url": upstream.address} | QUICK])

    def state():
        return client.get("/ready").json()["upstreams"]["one"]

    client.post("/v1/embeddings", json={"model": "gpt-4o", "input": "tea"})
    for method, path in (
        ("GET", "/v1/models"),
        ("POST", "/v1/messages/count_tokens"),
        ("GET", "/v1/files"),
        ("POST", "/v1/batches"),
    ):
        assert client.request(method, path, json=None if method == "GET" else HI).is_success
        assert state() == "fails"
    assert client.post("/v1/chat/completions", json=HI).is_success
    assert state() == "answers"


def test_embeddings_have_a_second_upstream_and_what_a_provider_stored_has_none(start_two, upstream, second, caplog):
    caplog.set_level(logging.WARNING, logger="brimful.server")
    upstream.answers, second.answers = [DOWN], [{"data": []}]
    client = start_two({"cooldown": 0}, {"rename": {"gpt-4o": "e"}})
    answer = client.post("/v1/embeddings", json={"model": "gpt-4o", "input": "tea"})
    assert (answer.status_code, answer.headers["x-brimful-upstream"]) == (200, "two")
    assert second.bodies == [{"model": "e", "input": "tea"}]
    assert caplog.messages == ["the upstream 'one' answered 503; trying the next"]
    follow_up = {"model": "gpt-4o", "input": "Hi", "previous_response_id": "resp_1"}
    assert client.post("/v1/responses", json=follow_up).status_code == 503
    assert client.post("/v1/embeddings", json={"model": "gpt-4o"}, headers={"x-brimful-upstream": "?"}).is_success
    assert len(second.requests) == 2


def order(*upstreams, model="gpt-4o", clock=lambda: 0.0):
    config = parse_config({"upstreams": [{"url": DEAD, "wires": ["openai"]} | each for each in upstreams]}, "b.toml")
    found = Upstreams(config, environ={}, clock=clock).find_all(find_wire("openai"), model)
    return [each.config.name for each in found]


def test_an_upstream_for_any_model_stands_in_for_its_kind_only():
    named, any_model = {"name": "named", "models": ["gpt-*"]}, {"name": "any"}
    assert order(named, any_model) == ["named"]
    assert order(any_model, named) == ["any", "named"]
    assert order(any_model, {"name": "other"}) == ["any", "other"]
    assert order(any_model, {"name": "other"}, model="") == ["any", "other"]
    with pytest.raises(ApiError):
        order(named, model="claude")


def test_the_key_of_a_client_goes_to_one_upstream():
    own, client = {"name": "own"}, {"name": "client", "authorization": "client"}
    assert order(own, client) == ["own"]
    assert order(client, own) == ["client"]
    assert order(own, client, {"name": "third"}) == ["own", "third"]


def test_an_upstream_rests_for_as_long_as_it_asks_for():
    now = 0.0
    config = parse_config({"upstreams": [{"name": name, "url": DEAD} for name in "ab"]}, "b.toml")
    upstreams = Upstreams(config, environ={}, clock=lambda: now)
    wire = find_wire("openai")

    def names():
        return "".join(each.config.name for each in upstreams.find_all(wire, "m"))

    first = upstreams.find(wire, "m").health
    assert names() == "ab"
    for error, seconds in (
        (ProviderError("r", "x", status=500), 30.0),
        (ProviderUnavailable("r", "x", status=429, retry_after=5.0), 5.0),
        (ProviderUnavailable("r", "x", status=503, retry_after=1e9), 3_600.0),
    ):
        first.note_outage(error)
        assert names() == "ba"
        now += seconds - 0.1
        assert names() == "ba"
        now += 0.2
        assert names() == "ab"
    assert upstreams.states == {"a": "fails", "b": "untried"}
    first.note_outage(error)
    first.note_answer()
    assert (names(), upstreams.states) == ("ab", {"a": "answers", "b": "untried"})


def test_outages_are_recognized_and_their_text_is_not_shown():
    outages = [ProviderUnavailable("r", "secret"), ProviderTimeout("r", "secret"), ProviderError("r", "s", status=502)]
    assert [is_outage(each) for each in outages] == [True] * 3
    assert [describe_outage(each) for each in outages] == [
        "could not be reached, or broke off",
        "took too long",
        "answered 502",
    ]
    assert not is_outage(ProviderError("r", "the answer is not JSON"))


def test_the_model_in_gemini_paths_is_renamed():
    write = find_wire("gemini").write_model
    assert write("/models/gemini-pro:generateContent", {}, "a/b") == ("/models/a%2Fb:generateContent", {})


def test_names_of_upstreams_are_valid_headers(start, upstream):
    client = start(upstreams=[{"name": "Büro 1", "url": f"{upstream.address}/v1"}])
    answer = client.post("/v1/chat/completions", content=json.dumps(HI))
    assert answer.headers["x-brimful-upstream"] == "B%C3%BCro 1"
    assert UpstreamConfig(name="a", url=DEAD).cooldown == 30.0
