"""OpenAI: what is written, and what is refused."""

import pytest

from brimful.core.content import Media, Text, ToolCall, ToolResult
from brimful.core.prompt import Message, Prompt, Tool
from brimful.errors import InvalidRequest
from brimful.wires import find_wire
from brimful.wires.openai_chat import read_history

openai = find_wire("openai")


def written(*messages):
    return openai.render(Prompt(model="gpt-4o", messages=messages), window=128_000)["messages"]


def user(*parts, name=""):
    return Message(
        role="user", name=name, parts=tuple(Text(text=part) if isinstance(part, str) else part for part in parts)
    )


def test_a_whole_request_key_by_key():
    prompt = Prompt(
        model="gpt-4o",
        messages=(
            Message(role="system", parts=(Text(text="Be kind."),)),
            user("Weather?", name="Ada"),
            Message(role="assistant", parts=(ToolCall(id="c1", name="weather", arguments='{"at": "Rome"}'),)),
            Message(role="tool", parts=(ToolResult(id="c1", content="sunny"),)),
        ),
        tools=(Tool(name="weather", description="Look.", parameters={"type": "object", "properties": {"at": {}}}),),
        max_output=500,
    )
    request = openai.render(prompt, window=128_000)
    assert list(request) == ["model", "max_completion_tokens", "tools", "messages"]
    assert request["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "weather",
                "description": "Look.",
                "parameters": {"properties": {"at": {}}, "type": "object"},
            },
        },
    ]
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"at": "Rome"}'}}
    assert request["messages"] == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "name": "Ada", "content": "Weather?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
    ]


def test_several_results_become_a_message_each():
    call = Message(role="assistant", parts=(ToolCall(id="a", name="x"), ToolCall(id="b", name="y")))
    results = Message(role="tool", parts=(ToolResult(id="b", content="2"), ToolResult(id="a", content="1")))
    assert [(m["tool_call_id"], m["content"]) for m in written(call, results)[1:]] == [("a", "1"), ("b", "2")]


def test_a_name_that_does_not_fit_its_field_is_put_before_the_text():
    assert written(user("Hi", name="Ada Lovelace")) == [{"role": "user", "content": "Ada Lovelace: Hi"}]


def test_texts_without_media_are_one_string_and_with_media_a_list():
    assert written(user("a", "b"))[0]["content"] == "a\n\nb"
    image = Media(modality="image", url="https://a.example/cat.png", detail="low")
    assert written(user("Look:", image))[0]["content"] == [
        {"type": "text", "text": "Look:"},
        {"type": "image_url", "image_url": {"url": "https://a.example/cat.png", "detail": "low"}},
    ]


def test_data_becomes_a_data_url_and_sound_an_input():
    image, sound = Media(modality="image", data="/9j/4AAQ"), Media(modality="audio", data="UklGRg==")
    assert written(user(image, sound))[0]["content"] == [
        {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,/9j/4AAQ", "detail": "auto"}},
        {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
    ]


def test_media_that_the_wire_cannot_carry_become_texts():
    video = Media(modality="video", url="https://a.example/v.mp4?token=secret")
    drawn = Message(role="assistant", parts=(Media(modality="image", data="AAAA"),))
    assert written(user(video), drawn) == [
        {"role": "user", "content": "[video: https://a.example/v.mp4]"},
        {"role": "assistant", "content": "[image]"},
    ]


def test_an_empty_prompt_becomes_a_minimal_turn():
    assert written() == written(user(" ")) == [{"role": "user", "content": "(conversation continues)"}]


def test_reading_takes_the_forms_that_others_write():
    request = {
        "model": "gpt-4o",
        "max_tokens": 7,
        "messages": [
            {"role": "developer", "content": [{"type": "text", "text": "Be kind."}]},
            {"role": "user", "content": "Hi", "name": "Ada"},
            {"role": "assistant", "tool_calls": [call("c1")]},
            {
                "role": "tool",
                "tool_call_id": "c1",
                "content": [{"type": "text", "text": "4"}, {"type": "text", "text": "2"}],
            },
        ],
    }
    read = openai.parse(request)
    assert [message.role for message in read.messages] == ["system", "user", "assistant", "tool"]
    assert read.messages[3].parts == (ToolResult(id="c1", name="f", content="42"),)
    assert (read.messages[1].name, read.max_output) == ("Ada", 7)


def test_reading_refuses_an_invalid_request_with_all_its_faults():
    with pytest.raises(InvalidRequest) as caught:
        openai.parse({"messages": []})
    assert caught.value.violations == ("model: must be a string, but is missing", "messages: must not be empty")


def call(id="c1", **changed):
    return {"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}, **changed}


def calling(*calls):
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


def result(id="c1", content="ok"):
    return {"role": "tool", "tool_call_id": id, "content": content}


HI = {"role": "user", "content": "Hi"}
INVALID_MESSAGES = [
    ([], "messages: must not be empty"),
    (None, "messages: must be a list, but is missing"),
    (["Hi"], "messages[0]: must be an object, not a string"),
    ([{"role": "wizard", "content": "Hi"}],
     "messages[0].role: must be one of system, developer, user, assistant, tool, not 'wizard'"),
    ([{"role": "user"}], "messages[0].content: must be a string or a list of parts, but is missing"),
    ([{"role": "assistant", "content": None}],
     "messages[0].content: must be a string or a list of parts, but is missing"),
    ([{"role": "user", "content": 7}], "messages[0].content: must be a string or a list of parts, not a number"),
    ([{"role": "user", "content": []}], "messages[0].content: must not be empty"),
    ([{**HI, "name": "Ada L"}],
     "messages[0].name: must be 1 to 64 characters without spaces, <, |, \\, / and >, not 'Ada L'"),
    ([HI, result("c2")], "messages[1]: tool result for 'c2' without its call"),
    ([HI, calling(call())], "messages[1]: tool call 'c1' without its result"),
    ([calling(call()), HI, result()],
     "messages[0]: tool call 'c1' without its result", "messages[2]: tool result for 'c1' without its call"),
    ([result(), calling(call())],
     "messages[0]: tool result for 'c1' without its call", "messages[1]: tool call 'c1' without its result"),
    ([calling(call()), result(), result()], "messages[2]: tool result for 'c1' without its call"),
    ([calling(call()), result(), calling(call()), result()], "messages[2]: tool call id 'c1' is used twice"),
    ([calling(call("x" * 41)), result("x" * 41)],
     "messages[0].tool_calls[0].id: must have at most 40 characters, not 41"),
    ([calling(call(function={"name": "a b", "arguments": {}})), result()],
     "messages[0].tool_calls[0].function.name: must be 1 to 64 of a-z, A-Z, 0-9, _ and -, not 'a b'",
     "messages[0].tool_calls[0].function.arguments: must be a string, not an object"),
    ([{**HI, "tool_calls": [call()]}, result()],
     "messages[0].tool_calls: only an assistant message may call tools"),
    ([calling(*(call(f"c{n}") for n in range(129))), *(result(f"c{n}") for n in range(129))],
     "messages[0].tool_calls: has 129 calls, at most 128 are allowed"),
    ([calling(call()), result(content=None)], "messages[1].content: must be a string, but is missing"),
    ([{"role": "system", "content": [{"type": "image_url", "image_url": {"url": "https://a.example"}}]}],
     "messages[0].content[0].type: must be one of text, not 'image_url'"),
    ([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "cat.png", "detail": "best"}}]}],
     "messages[0].content[0].image_url.url: must start with https:, http: or data:, not 'cat.png'",
     "messages[0].content[0].image_url.detail: must be one of auto, low, high, original, not 'best'"),
    ([{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "", "format": "ogg"}}]}],
     "messages[0].content[0].input_audio.data: must not be empty",
     "messages[0].content[0].input_audio.format: must be one of wav, mp3, not 'ogg'"),
]  # fmt: skip


@pytest.mark.parametrize("case", INVALID_MESSAGES, ids=lambda case: case[1])
def test_invalid_messages_are_named(case):
    messages, *violations = case
    assert openai.check({"model": "gpt-4o", "messages": messages}) == violations


def tool(**function):
    return {"type": "function", "function": {"name": "f", **function}}


INVALID_REQUESTS = [
    ({"model": ""}, "model: must not be empty"),
    ({"max_completion_tokens": 0}, "max_completion_tokens: must be a positive integer"),
    ({"max_tokens": True}, "max_tokens: must be a positive integer"),
    ({"tools": []}, "tools: must not be empty"),
    ({"tools": [tool(), tool()]}, "tools[1].function.name: 'f' is used twice"),
    ({"tools": [tool(name="web.search")]},
     "tools[0].function.name: must be 1 to 64 of a-z, A-Z, 0-9, _ and -, not 'web.search'"),
    ({"tools": [tool(parameters="{}")]}, "tools[0].function.parameters: must be an object, not a string"),
    ({"tools": [{"type": "function"}]}, "tools[0].function: must be an object, but is missing"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "violation"), INVALID_REQUESTS)
def test_invalid_requests_are_named(changed, violation):
    assert openai.check({"model": "gpt-4o", "messages": [HI], **changed}) == [violation]


def test_a_history_may_hold_what_tools_showed_and_a_request_may_not():
    picture = {"type": "image_url", "image_url": {"url": "https://a.example/cat.png"}}
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    shown = {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "Here."}, picture]}
    messages = [{"role": "assistant", "content": None, "tool_calls": [call]}, shown]
    read = read_history(messages)[1]
    assert read.parts == (
        ToolResult(id="c1", name="look", content="Here."),
        Media(modality="image", url="https://a.example/cat.png"),
    )
    assert openai.check({"model": "m", "messages": messages}) == [
        "messages[1].content[1].type: must be one of text, not 'image_url'"
    ]
