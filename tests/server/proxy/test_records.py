"""Records of exchanges in both modes."""

import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from server.upstream import OVERFLOW, chat_answer, chat_events, message_answer

CHAT = "/v1/chat/completions"
MODES = pytest.mark.parametrize("mode", ["fit", "remember"])


def says(role, text):
    return {"role": role, "content": text}


def ask(client, messages, mode, **more):
    headers = {"x-brimful-mode": mode, "x-brimful-conversation": "c1"}
    return client.post(CHAT, headers=headers, json={"model": "gpt-4o", "max_tokens": 100, "messages": messages, **more})


def record_of(client, answer):
    return client.get(f"/brimful/v1/contexts/{answer.headers['x-brimful-context']}").json()


@MODES
def test_expected_and_actual_cached_tokens_are_recorded(start, upstream, mode):
    client = start(upstream={"window": 32_768})
    story = [says("system", "Be brief."), says("user", "A long story. " * 900)]
    later = [*story, says("assistant", "Thursday."), says("user", "And then?")]
    upstream.answers = [chat_answer(prompt=3_600), chat_answer(prompt=3_650)]
    first, second = (record_of(client, ask(client, messages, mode))["answers"][0] for messages in (story, later))
    assert first["expected_cached"] == 0
    assert 3_000 < second["expected_cached"] < 3_700
    assert second["usage"]["cached"] == 0


def test_the_clients_cache_breakpoints_limit_the_expectation(start, upstream):
    client = start(upstream={"window": 64_000})
    mark = {"cache_control": {"type": "ephemeral"}}
    upstream.answers = [message_answer(prompt=9_000)]
    system = [{"type": "text", "text": "Be brief. " * 1_500, **mark}]
    story = [says("user", [{"type": "text", "text": "A long story. " * 900, **mark}])]
    later = [*story, says("assistant", "Thursday."), says("user", "And then?")]

    def expected(messages, system):
        request = {"model": "claude-sonnet-4-5", "max_tokens": 100, "system": system, "messages": messages}
        answer = client.post("/v1/messages", json=request)
        return record_of(client, answer)["answers"][0]["expected_cached"]

    assert expected(story, system) == 0
    assert expected(later, system) > 6_000
    unmarked = [says("user", "A long story. " * 900)]
    assert [expected(unmarked, "Be kind. " * 1_500) for _ in range(2)] == [0, 0]


@pytest.mark.parametrize(("field", "least"), [({"cache_control": {"type": "ephemeral"}}, 6_000), ({}, 0)])
def test_a_breakpoint_of_the_whole_request_is_at_its_end(start, upstream, field, least):
    client = start(upstream={"window": 64_000})
    upstream.answers = [message_answer(prompt=9_000)]
    story = [says("user", "Be brief. " * 1_500 + "A long story. " * 900)]
    later = [*story, says("assistant", "Thursday."), says("user", "And then?")]

    def expected(messages):
        request = {"model": "claude-sonnet-4-5", "max_tokens": 100, "messages": messages, **field}
        return record_of(client, client.post("/v1/messages", json=request))["answers"][0]["expected_cached"]

    assert expected(story) == 0
    assert least <= expected(later) <= 2 * least


@MODES
def test_a_silently_truncated_prompt_is_reported(start, upstream, mode):
    client = start()
    upstream.answers = [chat_answer(prompt=300)]
    record = record_of(client, ask(client, [says("user", "A long story. " * 900)], mode))
    assert "silently truncated" in record["answers"][0]["notices"][0]["text"]


@MODES
def test_an_overflow_in_a_stream_is_learned(start, upstream, mode):
    client = start()
    upstream.answers = [[f"data: {json.dumps(OVERFLOW)}\n\n"], list(chat_events("Thurs", "day."))]
    said = [says("user" if at % 2 == 0 else "assistant", f"{at}: " + "word " * 30) for at in range(20)]
    answer = ask(client, [*said, says("user", "Well?")], mode, stream=True)
    assert answer.text == "".join(chat_events("Thurs", "day."))
    assert [len(body["messages"]) for body in upstream.bodies] == sorted(
        (len(body["messages"]) for body in upstream.bodies), reverse=True
    )
    assert "overflowed" in [warning["kind"] for warning in record_of(client, answer)["warnings"]]


@pytest.mark.parametrize("prompt", [[], [says("system", "Be brief.")], [says("developer", "Be brief.")]])
def test_two_unnamed_conversations_are_distinguished(start, upstream, prompt):
    client = start(upstream={"window": 32_768})
    upstream.answers = [chat_answer(prompt=3_600)]
    stories = [says("user", f"{name}: " + "A long story. " * 900) for name in ("one", "two")]
    answers = [
        client.post(CHAT, json={"model": "gpt-4o", "messages": [*prompt, story, *rest]})
        for rest in ([], [says("assistant", "Thursday."), says("user", "And?")])
        for story in stories
    ]
    expected = [record_of(client, answer)["answers"][0]["expected_cached"] for answer in answers]
    assert expected[:2] == [0, 0]
    assert all(tokens > 3_000 for tokens in expected[2:])


def test_a_fast_answer_is_counted_with_its_context(start, upstream):
    client = start()
    upstream.answers = [chat_answer() | {"usage": None}]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda at: ask(client, [says("user", f"Question {at}")], "fit"), range(40)))
    for answer in answers:
        assert len(record_of(client, answer)["answers"]) == 1
    [told] = client.get("/brimful/v1/statistics", params={"by": "policy"}).json()["statistics"]
    assert told["answers"]["total"] == 40


def drop_tables(tmp_path, *tables):
    with closing(sqlite3.connect(tmp_path / "brimful.db")) as database, database:
        for table in tables:
            database.execute(f"DROP TABLE {table}")


def test_answers_say_while_records_cannot_be_written(start, tmp_path, caplog):
    client = start()
    assert "x-brimful-record" not in ask(client, [says("user", "Hi")], "fit").headers
    drop_tables(tmp_path, "snapshots")
    lost = ask(client, [says("user", "Are you there?")], "fit")
    client.get(f"/brimful/v1/contexts/{lost.headers['x-brimful-context']}")  # waits for the record
    answer = ask(client, [says("user", "Hello?")], "fit")
    assert (answer.status_code, answer.headers["x-brimful-record"]) == (200, "unconfirmed")
    failures = [record.getMessage() for record in caplog.records if "recording a context failed" in record.getMessage()]
    assert failures
    assert all("\n" not in line and len(line) < 500 for line in failures)


def test_an_answer_that_cannot_be_stored_says_so(start, upstream, tmp_path):
    client = start()
    upstream.answers = [lambda _: drop_tables(tmp_path, "responses") or chat_answer()]
    answer = ask(client, [says("user", "Hi")], "remember")
    assert (answer.status_code, answer.headers["x-brimful-record"]) == (200, "failed")


@MODES
def test_required_records_are_written_before_the_request_is_sent(start, upstream, tmp_path, mode):
    client = start(records="required")
    answer = ask(client, [says("user", "Hi")], mode)
    assert record_of(client, answer)["id"] == answer.headers["x-brimful-context"]
    assert len(upstream.requests) == 1
    drop_tables(tmp_path, "snapshots")
    refused = ask(client, [says("user", "Are you there?")], mode)
    assert refused.status_code == 503
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_that_must_be_stored_and_cannot_be_is_an_error(start, upstream, tmp_path, stream):
    client = start(records="required")
    answer = list(chat_events("Thurs", "day.")) if stream else chat_answer()
    upstream.answers = [lambda _: drop_tables(tmp_path, "responses") or answer]
    refused = ask(client, [says("user", "Hi")], "remember", stream=stream)
    assert "could not be recorded" in refused.text
    assert "[DONE]" not in refused.text
    assert refused.status_code == (200 if stream else 503)
