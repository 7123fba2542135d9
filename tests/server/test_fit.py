"""The proxy in its mode `fit`, before a fake upstream."""

import json

from server.upstream import OVERFLOW, chat_answer, chat_events

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


def test_a_request_that_fits_goes_through_byte_for_byte(start, upstream):
    client = start()
    raw = json.dumps(body([says("user", "Hi")], n=2, logprobs=True, odd={"x": [1.50, None]}), indent=1)
    answer = client.post(CHAT, content=raw)
    assert answer.status_code == 200
    assert answer.json() == chat_answer()
    assert upstream.bodies == [json.loads(raw)]
    assert answer.headers["x-brimful-context"].startswith("ctx-")


def test_what_is_too_long_is_trimmed_and_the_record_says_what_was_left_out(start, upstream):
    client = start(upstream={"window": 2000})
    messages = long_chat()
    answer = client.post(CHAT, json=body(messages))
    sent = upstream.bodies[0]["messages"]
    assert sent[0] == messages[0]
    assert sent[1:] == messages[-len(sent) + 1 :]
    assert 5 < len(sent) < len(messages)
    record = client.get(f"/brimful/v1/contexts/{answer.headers['x-brimful-context']}").json()
    assert record["left_out"] == len(messages) - len(sent)
    assert record["tokens"] <= record["limit"] == 1900
    out = [each for each in record["decisions"] if each["decision"]["outcome"] == "dropped"]
    assert out[0]["why"].startswith("dropped: ")
    assert record["request"]["messages"] == sent


def test_a_stream_comes_through_as_it_is(start):
    client = start()
    with client.stream("POST", CHAT, json=body([says("user", "Hi")], stream=True)) as answer:
        text = answer.read().decode()
    assert text == "".join(chat_events("Thurs", "day."))
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["x-brimful-context"].startswith("ctx-")


def test_an_overflow_is_learned_from_and_the_request_goes_out_once_more(start, upstream):
    client = start()
    upstream.answers = [(400, OVERFLOW), chat_answer()]
    messages = [*long_chat(6), says("user", "Well?")]
    answer = client.post(CHAT, json=body(messages))
    assert answer.status_code == 200
    assert len(upstream.bodies) == 2
    assert len(upstream.bodies[1]["messages"]) < len(messages)
    record = client.get(f"/brimful/v1/contexts/{answer.headers['x-brimful-context']}").json()
    assert "refused" in record["warnings"][0]
    assert record["window"] <= 256
    upstream.answers = []
    client.post(CHAT, json=body(messages))
    assert len(upstream.bodies) == 3
    assert len(upstream.bodies[2]["messages"]) == len(upstream.bodies[1]["messages"])
