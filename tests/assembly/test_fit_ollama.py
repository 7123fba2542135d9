"""Requests in Ollama's format: read, trimmed, and written as the client wrote them."""

import pytest

from brimful import ToolResult, fit
from brimful.errors import InvalidRequest
from support import words

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
TOOL = {"type": "function", "function": {"name": "look_up", "description": "Look up.", "parameters": {}}}


def user(text, **more):
    return {"role": "user", "content": text, **more}


def call(*names, **more):
    calls = [{"function": {"name": name, "arguments": {"city": "Oslo"}}} for name in names]
    return {"role": "assistant", "content": "", "tool_calls": calls, **more}


def result(name, text):
    return {"role": "tool", "tool_name": name, "content": text}


def fitted(messages, window=1000, completion=100, **fields):
    request = {"model": "qwen3:8b", "messages": messages, **fields}
    return fit(request, wire="ollama", window=window, completion=completion, now=0)


def test_a_request_that_fits_stays_as_it_is():
    messages = [
        {"role": "system", "content": "Be brief."},
        user("Look:", images=[PNG]),
        call("look_up"),
        result("look_up", "4"),
    ]
    request = {
        "model": "qwen3:8b",
        "messages": messages,
        "tools": [TOOL],
        "options": {"num_predict": 99},
        "keep_alive": -1,
    }
    context = fit(request, wire="ollama", window=8000, now=0)
    assert context.request == request
    assert context.budget.completion == 99
    assert {decision.kind for decision in context.decisions} >= {
        "system-prompt",
        "media-image",
        "tool-call",
        "tool-result",
    }


def test_older_messages_are_left_out_and_the_output_limit_is_an_option():
    context = fitted([user(words(200)) for _ in range(9)] + [user("And now?")])
    assert context.request["options"] == {"num_predict": 100}
    assert context.request["messages"][-1] == user("And now?")
    assert 1 < len(context.request["messages"]) < 10
    assert context.tokens <= 900


@pytest.mark.parametrize(
    ("options", "window"), [({"num_ctx": 600}, 600), ({"num_ctx": 5000}, 1000), ({"num_ctx": 0}, 1000)]
)
def test_the_window_that_a_request_asks_for_is_not_exceeded(options, window):
    context = fitted([user(words(100)) for _ in range(20)], options=options)
    assert context.budget.window == window
    assert context.request["options"] == options | {"num_predict": 100}


def test_calls_without_ids_stay_with_their_results():
    steps = [
        each
        for n in range(12)
        for each in (call("look_up", "look_up"), result("look_up", words(60)), result("look_up", f"{n}"))
    ]
    context = fitted([user("Look it up."), *steps], tools=[TOOL], window=1200)
    shown = context.request["messages"]
    calls = sum(len(message.get("tool_calls", ())) for message in shown)
    assert 0 < calls < 24
    assert sum(message["role"] == "tool" for message in shown) == calls


def test_results_without_a_name_answer_calls_in_order():
    context = fitted(
        [user("Look."), call("a", "b"), {"role": "tool", "content": "1"}, {"role": "tool", "content": "2"}]
    )
    ids = [part.id for package in context.candidates for part in package.parts if isinstance(part, ToolResult)]
    assert ids == ["function a", "function b"]


def test_an_image_that_is_left_out_becomes_a_text_of_its_message():
    messages = [user(f"Picture {n}:", images=[PNG]) for n in range(8)] + [user("Which one was red?")]
    context = fitted(messages, window=500, completion=50)
    shown = context.request["messages"]
    texts = [
        message["content"] for message in shown if "images" not in message and message["content"].startswith("Picture")
    ]
    assert texts
    assert all("[image" in text for text in texts)
    assert all(isinstance(image, str) for message in shown for image in message.get("images", ()))


def test_invalid_requests_are_refused():
    with pytest.raises(InvalidRequest, match="ollama would refuse this request: messages: must be a list"):
        fit({"model": "m", "messages": "Hi"}, wire="ollama")
