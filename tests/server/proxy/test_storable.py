"""`remember` mode rejects what it cannot store, with its position."""

import pytest

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
TALK = {"x-brimful-conversation": "tea"}
TEXT = {"type": "text", "text": "Sum up."}
PDF = {"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}}
AUDIO = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}


def make_request(*messages):
    return {"model": "gpt-4o", "max_tokens": 9, "messages": list(messages)}


def user(content):
    return {"role": "user", "content": content}


@pytest.fixture
def client(start):
    return start(mode="remember")


@pytest.mark.parametrize(
    ("path", "message", "place"),
    [
        (CHAT, user([TEXT, {"type": "file", "file": {"file_id": "file-1"}}]), ".content[1]"),
        (CHAT, user([TEXT, AUDIO]), ".content[1]"),
        (CHAT, user([{"type": "image_url", "image_url": 5}]), ".content[0]"),
        (CHAT, user([5, None]), ".content[0]"),
        (CHAT, user([{"type": "text"}]), ".content[0]"),
        (CHAT, user([]), ".content"),
        (CHAT, user(""), ".content"),
        (CHAT, user(" \n"), ".content"),
        (CHAT, user(None), ".content"),
        (CHAT, user(5), ".content"),
        (CHAT, {"role": "user"}, ".content"),
        (CHAT, {"role": "assistant", "content": 5}, ".content"),
        (CHAT, {"role": "weird", "content": "Hi"}, ".role"),
        (CHAT, {"role": "tool", "tool_call_id": "call-9", "content": "green"}, ""),
        (CHAT, {"role": "tool", "content": "green"}, ".tool_call_id"),
        (MESSAGES, user([PDF, TEXT]), ".content[0]"),
        (MESSAGES, user([{"type": "image", "source": {"type": "file", "file_id": "f"}}]), ".content[0]"),
        (MESSAGES, user([{"type": "tool_result", "tool_use_id": "t", "content": [PDF]}]), ".content[0].content[0]"),
        (MESSAGES, user([{"type": "tool_result", "tool_use_id": "t", "content": "green"}]), ""),
        (MESSAGES, {"role": "tool", "content": "Hi"}, ".role"),
    ],
)
def test_parts_that_cannot_be_stored_are_rejected_with_their_position(shared, upstream, path, message, place):
    answer = shared(mode="remember").post(path, json=make_request(user("Hi"), message), headers=TALK)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith(f"messages[1]{place}: ")
    assert ("type" in answer.json()) == (path == MESSAGES)
    assert upstream.bodies == []


@pytest.mark.parametrize("parts", [[PDF, TEXT], [TEXT, AUDIO]])
def test_fit_mode_forwards_them(client, upstream, parts):
    path = MESSAGES if PDF in parts else CHAT
    request = make_request(user(parts))
    assert client.post(path, json=request, headers={"x-brimful-mode": "fit"}).status_code == 200
    assert upstream.bodies == [request]


def test_images_and_tool_results_without_text_are_stored(client, upstream):
    picture = {"type": "image_url", "image_url": {"url": "https://example.com/a.png", "detail": "low"}}
    assert client.post(CHAT, json=make_request(user([TEXT, picture])), headers=TALK).status_code == 200
    assert upstream.bodies[0]["messages"][-1]["content"] == [TEXT, picture]
    call = {"type": "tool_use", "id": "t1", "name": "look_up", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t1"}
    turns = [user("Look."), {"role": "assistant", "content": [call]}, user([result])]
    assert client.post(MESSAGES, json=make_request(*turns), headers=TALK).status_code == 200


def test_a_single_result_answers_a_stored_call(client, upstream):
    call = {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
    turn = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": turn, "finish_reason": "tool_calls"}
    upstream.answers = [
        {"id": "1", "object": "chat.completion", "created": 1, "model": "up", "choices": [choice]},
        None,
    ]
    client.post(CHAT, json=make_request(user("Look.")), headers=TALK)
    result = {"role": "tool", "tool_call_id": "c1", "content": "green"}
    assert client.post(CHAT, json=make_request(result), headers=TALK).status_code == 200
    assert [message["role"] for message in upstream.bodies[-1]["messages"]] == ["user", "assistant", "tool"]
