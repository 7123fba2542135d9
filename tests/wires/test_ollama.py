"""Ollama: what is written, and what is refused."""

import pytest

from brimful.core.content import Media, Text, ToolCall, ToolResult
from brimful.core.prompt import Message, Prompt, Tool
from brimful.wires import find_wire

ollama = find_wire("ollama")


def rendered(*messages, **fields):
    return ollama.render(Prompt(model="qwen3", messages=messages, **fields), window=8192)


def test_a_whole_request_key_by_key():
    request = rendered(
        Message(role="system", parts=(Text(text="Be kind."),)),
        Message(role="user", parts=(Text(text="Weather?"),), name="Ada"),
        Message(role="assistant", parts=(ToolCall(id="c1", name="weather", arguments='{"at": "Rome"}'),)),
        Message(role="tool", parts=(ToolResult(id="c1", content="sunny"),)),
        tools=(Tool(name="weather"),),
        max_output=500,
    )
    assert list(request) == ["model", "stream", "truncate", "shift", "options", "tools", "messages"]
    assert (request["stream"], request["truncate"], request["shift"]) == (False, False, False)
    assert request["options"] == {"num_ctx": 8192, "num_predict": 500}
    called = {"id": "c1", "function": {"name": "weather", "arguments": {"at": "Rome"}}}
    assert request["messages"] == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Ada: Weather?"},
        {"role": "assistant", "content": "", "tool_calls": [called]},
        {"role": "tool", "tool_name": "weather", "tool_call_id": "c1", "content": "sunny"},
    ]


def test_the_window_is_always_named():
    assert rendered()["options"] == {"num_ctx": 8192}


def test_images_stand_beside_the_text_and_addresses_within_it():
    parts = (
        Text(text="This"),
        Media(modality="image", data="/9j/4AAQ"),
        Text(text="or this?"),
        Media(modality="image", url="https://a.example/cat.png"),
    )
    assert rendered(Message(role="user", parts=parts))["messages"] == [
        {"role": "user", "content": "This\n\nor this?\n\n[image: https://a.example/cat.png]", "images": ["/9j/4AAQ"]},
    ]


def test_reading_takes_calls_without_ids():
    messages = [
        {"role": "user", "content": "Hi", "images": ["/9j/4AAQ"]},
        {
            "role": "assistant",
            "tool_calls": [{"function": {"name": "f"}}, {"function": {"name": "f", "arguments": {}}}],
        },
        {"role": "tool", "tool_name": "f", "content": "1"},
        {"role": "tool", "tool_name": "f", "content": "2"},
    ]
    read = ollama.parse({"model": "m", "options": {"num_ctx": 9}, "messages": messages})
    assert read.messages[0].parts == (Text(text="Hi"), Media(modality="image", data="/9j/4AAQ"))
    assert [message.parts[0].content for message in read.messages[2:]] == ["1", "2"]


def calling(*calls):
    return {"role": "assistant", "content": "", "tool_calls": list(calls)}


def call(name="f", **fields):
    return {"function": {"name": name, "arguments": {}}, **fields}


def result(**fields):
    return {"role": "tool", "tool_name": "f", "content": "ok", **fields}


HI = {"role": "user", "content": "Hi"}
INVALID_MESSAGES = [
    ([], "messages: must not be empty"),
    ([{"role": "model", "content": "Hi"}],
     "messages[0].role: must be one of system, user, assistant, tool, not 'model'"),
    ([{"role": "user"}], "messages[0].content: must be a string, but is missing"),
    ([{"role": "user", "content": ""}], "messages[0]: must have content, images or tool calls"),
    ([{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
     "messages[0].content: must be a string, not a list"),
    ([{**HI, "images": ["data:image/png;base64,iVBO"]}], "messages[0].images[0]: must be bare base64, not a URL"),
    ([{**HI, "images": [7]}], "messages[0].images[0]: must be a string, not a number"),
    ([HI, result()], "messages[1]: tool result for 'f' without its call"),
    ([calling(call(), call()), result()], "messages[0]: tool call 'f' without its result"),
    ([calling(call(id="c1")), HI, result(tool_call_id="c1")],
     "messages[0]: tool call 'c1' without its result", "messages[2]: tool result for 'c1' without its call"),
    ([calling(call(id="c1"), call(id="c1")), result(tool_call_id="c1"), result(tool_call_id="c1")],
     "messages[0]: tool call id 'c1' is used twice"),
    ([calling({"function": {"name": "f", "arguments": "{}"}}), result()],
     "messages[0].tool_calls[0].function.arguments: must be an object, not a string"),
    ([calling({"name": "f"})], "messages[0].tool_calls[0].function: must be an object, but is missing"),
    ([{**HI, "tool_calls": [call()]}, result()], "messages[0].tool_calls: only an assistant message may call tools"),
    ([calling(call(id="c1")), {"role": "tool", "tool_call_id": "c1", "content": "ok"}],
     "messages[1].tool_name: must be a string, but is missing"),
]  # fmt: skip


@pytest.mark.parametrize("case", INVALID_MESSAGES, ids=lambda case: case[1])
def test_invalid_messages_are_named(case):
    messages, *violations = case
    assert ollama.check({"model": "m", "options": {"num_ctx": 9}, "messages": messages}) == violations


INVALID_REQUESTS = [
    ({"model": " "}, "model: must not be empty"),
    ({"options": None}, "options: must be an object, but is missing"),
    ({"options": {}}, "options.num_ctx: must be a positive integer, but is missing"),
    ({"options": {"num_ctx": 9, "num_predict": 0}}, "options.num_predict: must be a positive integer"),
    ({"stream": "no"}, "stream: must be true or false"),
    ({"tools": [{"type": "tool", "function": {"name": "f"}}]}, "tools[0].type: must be one of function, not 'tool'"),
]


@pytest.mark.parametrize(("changed", "violation"), INVALID_REQUESTS)
def test_invalid_requests_are_named(changed, violation):
    assert ollama.check({"model": "m", "options": {"num_ctx": 9}, "messages": [HI], **changed}) == [violation]
