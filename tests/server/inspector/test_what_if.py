"""What-if."""

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brimful import replay
from brimful.stores import connect
from server.inspector.conftest import ROOT, store_of
from server.upstream import chat_answer, message_answer
from strategies import examples


@pytest.fixture
def suppose(reader, kept):
    """Return a function that asks what if, of the first context."""

    def ask(status=200, **body):
        answer = reader.post(f"{ROOT}/contexts/{kept.first}/what-if", json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    return ask


@pytest.fixture
def recorded(kept, tmp_path):
    async def read():
        async with connect(store_of(tmp_path)) as database:
            return (await database.tenant("default").snapshot(kept.first)).context

    return asyncio.run(read())


def test_an_empty_body_changes_nothing(suppose, get, kept):
    data = suppose()
    assert (data["entered"], data["left"], data["changed"], data["exceeded"]) == ([], [], [], None)
    assert data["prefix_share"] == 1
    as_it_was = get(f"/contexts/{kept.first}")
    assert data["context"]["bands"] == as_it_was["bands"]
    assert data["context"]["tokens"] == as_it_was["tokens"]


def test_a_larger_window_includes_more_and_a_smaller_one_less(suppose):
    larger, smaller = suppose(window=8_000), suppose(window=1_500)
    assert larger["entered"]
    assert not larger["left"]
    assert all(change["excerpt"] for change in larger["entered"])
    assert smaller["left"]
    assert not smaller["entered"]
    assert smaller["context"]["window"] == 1_500


@pytest.mark.parametrize(
    "body",
    [
        {"window": 5_000},
        {"completion": 1_000},
        {"model": "claude-sonnet-4-5"},
        {"policy": "window"},
        {"policy": "auction", "window": 4_000, "completion": 200},
        {"overrides": {"pools.recent.max_items": 3}},
    ],
)
def test_the_result_equals_replay(suppose, recorded, body):
    told, expected = suppose(**body)["context"], replay(recorded, **body)
    assert told["tokens"] == expected.tokens
    assert told["window"] == expected.budget.window
    inside = [each["id"] for each in told["decisions"] if each["position"] is not None]
    assert sorted(inside) == list(expected.kept)


def test_required_items_that_do_not_fit_are_reported(suppose):
    data = suppose(window=310)
    assert data["context"] is None
    assert data["exceeded"]["needed"] > data["exceeded"]["limit"]
    assert "need" in data["exceeded"]["message"]
    assert data["exceeded"]["required"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"window": 0}, "window"),
        ({"window": "many"}, "window"),
        ({"completion": -1}, "completion"),
        ({"policy": "/etc/passwd.toml"}, "policy"),
        ({"policy": "../pyproject.toml"}, "policy"),
        ({"policy": "nobody"}, "policy"),
        ({"overrides": {"pools.nobody.max_items": 1}}, "pools.nobody"),
        ({"overrides": {"margin.share": 9}}, "margin"),
        ({"overrides": {"price": -1}}, "price: must be a number from 0"),
        ({"overrides": {"price": True}}, "price"),
        ({"overrides": {"price": "cheap"}}, "one of thrifty, balanced, full"),
        ({"overrides": []}, "overrides"),
        ({"windw": 3}, "windw"),
        ({"model": ""}, "model"),
    ],
)
def test_invalid_settings_are_rejected_by_name(suppose, body, field):
    assert field in suppose(status=400, **body)["error"]["message"]


@given(
    body=st.fixed_dictionaries(
        {},
        optional={
            "window": st.integers(-5, 2**41),
            "completion": st.integers(-5, 2**41),
            "model": st.text(max_size=20),
            "policy": st.sampled_from(["fit", "split", "pools", "x"]),
            "overrides": st.dictionaries(
                st.text(max_size=8), st.integers() | st.none() | st.text(max_size=3), max_size=2
            ),
        },
    )
)
@settings(max_examples=examples(20), deadline=None, suppress_health_check=list(HealthCheck))
def test_no_settings_break_it(reader, kept, body):
    answer = reader.post(f"{ROOT}/contexts/{kept.first}/what-if", json=body)
    assert answer.status_code in (200, 400), answer.text
    if answer.status_code == 200:
        data = answer.json()
        assert (data["context"] is None) is not (data["exceeded"] is None)
        assert (
            data["context"] is None or sum(b["tokens"] for b in data["context"]["bands"]) == data["context"]["window"]
        )


# -- answer again ----------------------------------------------------------------------------------------------------


@pytest.fixture
def answer_again(client, kept):
    """Return a function that has the first context answered again."""

    def ask(status=200, **body):
        answer = client.post(f"{ROOT}/contexts/{kept.first}/answer", json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    return ask


def test_a_context_is_answered_again_and_the_answer_is_not_stored(answer_again, get, upstream, kept):
    before = [get(path) for path in ("/contexts", "/rooms/tea/room/messages")]
    upstream.answers = [chat_answer("Gyokuro.", prompt=1_000)]
    answer = answer_again()
    assert (answer["text"], answer["finish"], answer["calls"], answer["model"]) == ("Gyokuro.", "stop", [], "up")
    assert (answer["usage"]["prompt"], answer["seconds"] >= 0) == (1_000, True)
    assert answer["tokens"] == get(f"/contexts/{kept.first}")["tokens"]
    assert upstream.bodies[0]["messages"] == get(f"/contexts/{kept.first}/request")["messages"]
    assert [get(path) for path in ("/contexts", "/rooms/tea/room/messages")] == before


def test_a_context_is_answered_again_with_other_settings_and_a_pin(answer_again, get, upstream, kept):
    small = answer_again(window=1_500)
    assert small["tokens"] < get(f"/contexts/{kept.first}")["tokens"]
    answer_again(window=1_500, model="gpt-4o-mini", pin=["m3"])
    assert [body["model"] for body in upstream.bodies] == ["gpt-4o", "gpt-4o-mini"]
    assert ["Turn 3:" in str(body["messages"]) for body in upstream.bodies] == [False, True]


def test_a_context_is_answered_again_in_the_format_of_the_upstream(start, upstream, kept):
    client = start(upstream={"wires": ["anthropic"]}, remember={"embedder": "none"})
    upstream.answers = [message_answer("Gyokuro.")]
    assert client.post(f"{ROOT}/contexts/{kept.first}/answer", json={}).json()["text"] == "Gyokuro."
    assert upstream.bodies[0]["system"]


def test_answering_again_counts_against_limits(start, upstream, kept):
    client = start(limits={"keys": {"requests_per_minute": 2}}, remember={"embedder": "none"})
    upstream.answers = [(400, {"error": {"message": "no"}}), chat_answer("Gyokuro.")]
    statuses = [client.post(f"{ROOT}/contexts/{kept.first}/answer", json={}).status_code for _ in range(4)]
    assert statuses == [400, 200, 200, 429], "one that fails is not counted"


def test_erased_messages_are_not_sent_again(answer_again, client, upstream):
    answer_again()
    assert client.delete(f"{ROOT}/memories/nuts", params={"erase": "true"}).status_code == 200
    answer_again()
    assert ["hazelnut" in str(body) for body in upstream.bodies] == [True, False]


def test_contexts_that_cannot_be_answered_again_say_why(answer_again, client, start, kept):
    assert answer_again(400, window=300, completion=290)["error"]["code"] == "context_length_exceeded"
    assert answer_again(400, policy="none")["error"]["param"] == "policy"
    assert client.post(f"{ROOT}/contexts/none/answer", json={}).status_code == 404
    closed = start(upstreams=[], remember={"embedder": "none"})
    refused = closed.post(f"{ROOT}/contexts/{kept.second}/answer", json={})
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "model_not_found")
