"""Anthropic: what is written, and what is refused."""

import pytest

from brimful.core.content import Media, Text, ToolCall, ToolResult
from brimful.core.prompt import Message, Prompt, Tool
from brimful.wires import find_wire
from brimful.wires.anthropic import IMAGE_TYPES

anthropic = find_wire("anthropic")
MARK = {"type": "ephemeral"}


def rendered(*messages, **fields):
    return anthropic.render(Prompt(model="claude-sonnet-5", messages=messages, **fields), window=200_000)


def text_message(role, text, **fields):
    return Message(role=role, parts=(Text(text=text),), **fields)


def text(value, **fields):
    return {"type": "text", "text": value, **fields}


def test_a_whole_request_key_by_key():
    request = rendered(
        text_message("system", "Be kind.", cache=True),
        text_message("user", "Weather?", name="Ada"),
        Message(role="assistant", parts=(ToolCall(id="c1", name="weather", arguments='{"at": "Rome"}'),)),
        Message(role="tool", parts=(ToolResult(id="c1", content="no such place", is_error=True),)),
        tools=(Tool(name="weather"),),
        max_output=500,
    )
    assert list(request) == ["model", "max_tokens", "tools", "system", "messages"]
    assert request["max_tokens"] == 500
    schema = {"properties": {}, "type": "object"}
    assert request["tools"] == [{"name": "weather", "input_schema": schema, "cache_control": MARK}]
    assert request["system"] == [text("Be kind.", cache_control=MARK)]
    used = {"type": "tool_use", "id": "c1", "name": "weather", "input": {"at": "Rome"}}
    answer = {"type": "tool_result", "tool_use_id": "c1", "content": "no such place", "is_error": True}
    assert request["messages"] == [
        {"role": "user", "content": [text("Ada: Weather?")]},
        {"role": "assistant", "content": [used]},
        {"role": "user", "content": [answer]},
    ]


def test_neighbours_of_one_speaker_share_a_turn_a_block_each():
    request = rendered(
        text_message("user", "Hi", name="Ada"),
        text_message("user", "Hello", name="Bob"),
        text_message("system", "It is late."),
    )
    assert request["messages"] == [
        {"role": "user", "content": [text("Ada: Hi"), text("Bob: Hello"), text("It is late.")]},
    ]
    assert "system" not in request


def test_results_come_first_and_what_the_tool_showed_follows():
    picture = Media(modality="image", data="iVBORw0KGgo")
    request = rendered(
        Message(role="assistant", parts=(ToolCall(id="c1", name="draw"), ToolCall(id="c2", name="draw"))),
        Message(role="tool", parts=(ToolResult(id="c2", content="two"), picture)),
        Message(role="tool", parts=(ToolResult(id="c1", content=""),)),
        text_message("user", "Thanks"),
    )
    assert [block["type"] for block in request["messages"][2]["content"]] == ["tool_result"] * 2 + ["image", "text"]
    assert [block["tool_use_id"] for block in request["messages"][2]["content"][:2]] == ["c1", "c2"]


def test_a_history_that_starts_and_ends_with_the_assistant_is_framed():
    assert [turn["content"] for turn in rendered(text_message("assistant", "Welcome! "))["messages"]] == [
        [text("(conversation continues)")],
        [text("Welcome! ")],
        [text("(continue)")],
    ]


def test_only_a_system_prompt_gets_a_turn_to_answer():
    assert rendered(text_message("system", "Be kind."))["messages"] == [
        {"role": "user", "content": [text("(conversation continues)")]},
    ]


def test_the_first_and_the_last_three_of_many_cache_marks_stay():
    messages = [text_message("user", str(n), cache=True) for n in range(7)]
    content = rendered(*messages, tools=(Tool(name="f"),))["messages"][0]["content"]
    assert [block["text"] for block in content if "cache_control" in block] == ["0", "4", "5", "6"]


def test_the_tools_are_not_marked_where_nothing_else_is():
    assert "cache_control" not in rendered(text_message("user", "Hi"), tools=(Tool(name="f"),))["tools"][0]


def test_the_mark_of_a_message_left_out_moves_to_the_one_before():
    content = rendered(text_message("user", "Hi"), text_message("user", " ", cache=True))["messages"][0]["content"]
    assert content == [text("Hi", cache_control=MARK)]


def test_images_by_address_or_data_and_others_as_text():
    parts = (
        Media(modality="image", url="https://a.example/cat.png"),
        Media(modality="image", url="data:image/webp;base64,UklGRg=="),
        Media(modality="image", data="AAAA", media_type="image/tiff"),
        Media(modality="image", url="http://a.example/cat.png"),
    )
    assert rendered(Message(role="user", name="Ada", parts=parts))["messages"][0]["content"] == [
        text("Ada:"),
        {"type": "image", "source": {"type": "url", "url": "https://a.example/cat.png"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/webp", "data": "UklGRg=="}},
        text("[image]\n\n[image: http://a.example/cat.png]"),
    ]


def test_arguments_that_are_not_an_object_are_stored_under_one_key():
    call = Message(role="assistant", parts=(ToolCall(id="c 1", name="f", arguments='{"q": "te'),))
    turns = rendered(call, Message(role="tool", parts=(ToolResult(id="c 1", content="?"),)))["messages"]
    used, answer = turns[1]["content"][0], turns[2]["content"][0]
    assert used["input"] == {"arguments": '{"q": "te'}
    assert used["id"] == answer["tool_use_id"] != "c 1"


def test_the_default_limit_is_never_above_the_window():
    prompt = Prompt(model="m", messages=(text_message("user", "Hi"),))
    assert anthropic.render(prompt, window=1000)["max_tokens"] == 1000


def test_reading_takes_plain_strings_and_lists_of_texts():
    request = {
        "model": "m",
        "max_tokens": 5,
        "system": "Be kind.",
        "messages": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": [use("c1")]},
            {"role": "user", "content": [answer("c1", content=[text("4"), text("2")]), text("So?")]},
        ],
    }
    read = anthropic.parse(request)
    assert [message.role for message in read.messages] == ["system", "user", "assistant", "tool", "user"]
    assert read.messages[3].parts == (ToolResult(id="c1", name="f", content="42"),)


def use(id="c1", **changed):
    return {"type": "tool_use", "id": id, "name": "f", "input": {}, **changed}


def answer(id="c1", **changed):
    return {"type": "tool_result", "tool_use_id": id, **changed}


def turn(*blocks):
    return {"role": "user", "content": list(blocks)}


def reply(*blocks):
    return {"role": "assistant", "content": list(blocks)}


def image(**source):
    return {"type": "image", "source": source}


HI = turn(text("Hi"))
INVALID_MESSAGES = [
    ([], "messages: must not be empty"),
    ([reply(text("Hi"))], "messages[0]: the first turn must be the user's"),
    ([HI, HI], "messages[1]: two user turns in a row"),
    ([HI, reply(text("a")), reply(text("b"))], "messages[2]: two assistant turns in a row"),
    ([{"role": "tool", "content": "Be kind."}],
     "messages[0].role: must be one of user, assistant, system, not 'tool'"),
    ([turn()], "messages[0].content: must not be empty"),
    ([{"role": "user", "content": " "}], "messages[0].content: must not be empty"),
    ([{"role": "user", "content": 7}], "messages[0].content: must be a list, not a number"),
    ([turn(text(""))], "messages[0].content[0].text: must not be empty"),
    ([turn({"type": "video"})], "messages[0].content[0].type: must be one of text, image, tool_result, not 'video'"),
    ([HI, reply(use())], "messages[1].content[0]: tool call 'c1' without its result"),
    ([turn(answer())], "messages[0].content[0]: tool result for 'c1' without its call"),
    ([HI, reply(use()), HI, reply(text("Well")), turn(answer())],
     "messages[1].content[0]: tool call 'c1' without its result",
     "messages[4].content[0]: tool result for 'c1' without its call"),
    ([HI, reply(use()), turn(text("Here:"), answer())],
     "messages[2].content[1]: tool results must come first in a user turn"),
    ([HI, reply(use(), use()), turn(answer(), answer())], "messages[1].content[1]: tool call id 'c1' is used twice"),
    ([HI, reply(use("c 1")), turn(answer("c 1"))],
     "messages[1].content[0].id: must be of a-z, A-Z, 0-9, _ and -, not 'c 1'"),
    ([HI, reply(use(name="a b", input="{}")), turn(answer())],
     "messages[1].content[0].name: must be 1 to 64 of a-z, A-Z, 0-9, _ and -, not 'a b'",
     "messages[1].content[0].input: must be an object, not a string"),
    ([HI, reply(use()), turn(answer(is_error="yes"))],
     "messages[2].content[0].is_error: must be true or false, not 'yes'"),
    ([turn(use())], "messages[0].content[0].type: must be one of text, image, tool_result, not 'tool_use'"),
    ([HI, reply(text("Well, "))],
     "messages[1].content: the last turn, if the assistant's, must not end with white space"),
    ([HI, {"role": "assistant", "content": "Well, "}],
     "messages[1].content: the last turn, if the assistant's, must not end with white space"),
    ([turn(image(type="url", url="http://a.example"))],
     "messages[0].content[0].source.url: must start with https://, not 'http://a.example'"),
    ([turn(image(type="base64", media_type="image/tiff", data=""))],
     f"messages[0].content[0].source.media_type: must be one of {', '.join(IMAGE_TYPES)}, not 'image/tiff'",
     "messages[0].content[0].source.data: must not be empty"),
    ([turn(*(text(str(n), cache_control=MARK) for n in range(5)))],
     "request: has 5 cache breakpoints, at most 4 are allowed"),
]  # fmt: skip


@pytest.mark.parametrize("case", INVALID_MESSAGES, ids=lambda case: case[1])
def test_invalid_messages_are_named(case):
    messages, *violations = case
    assert anthropic.check({"model": "m", "max_tokens": 9, "messages": messages}) == violations


INVALID_REQUESTS = [
    ({"max_tokens": None}, "max_tokens: must be a positive integer, but is missing"),
    ({"max_tokens": -1}, "max_tokens: must be a positive integer"),
    ({"model": 7}, "model: must be a string, not a number"),
    ({"system": [text(" ")]}, "system[0].text: must not be empty"),
    ({"system": [{"type": "image", "text": "a"}]}, "system[0].type: must be one of text, not 'image'"),
    ({"tools": [{"name": "f"}]}, "tools[0].input_schema: must be an object, but is missing"),
    ({"tools": [{"name": "f", "input_schema": {"type": "array"}}]},
     "tools[0].input_schema.type: must be 'object', not 'array'"),
    ({"tools": [{"name": "", "input_schema": {"type": "object"}}]},
     "tools[0].name: must be 1 to 64 of a-z, A-Z, 0-9, _ and -, not ''"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "violation"), INVALID_REQUESTS)
def test_invalid_requests_are_named(changed, violation):
    assert anthropic.check({"model": "m", "max_tokens": 9, "messages": [HI], **changed}) == [violation]


def note(text):
    return {"role": "system", "content": text}


INVALID_SYSTEM_TURNS = [
    ([note("Be kind."), HI], "messages[0]: the first turn must be the user's"),
    ([HI, reply(text("Hi")), note("Be kind."), reply(text("So?"))],
     "messages[2]: a system turn must follow a user turn"),
    ([HI, note("a"), note("b")], "messages[2]: two system turns in a row"),
    ([HI, note("a"), HI], "messages[2]: a system turn must be followed by an assistant turn"),
    ([HI, {"role": "system", "content": [image(type="url", url="https://a.example/b.png")]}],
     "messages[1].content[0].type: must be one of text, not 'image'"),
    ([HI, reply(use()), note("a"), reply(text("Hi"))],
     "messages[2]: a system turn must follow a user turn",
     "messages[1].content[0]: tool call 'c1' without its result"),
]  # fmt: skip


@pytest.mark.parametrize("case", INVALID_SYSTEM_TURNS, ids=lambda case: case[1])
def test_system_turns_out_of_place_are_named(case):
    messages, *violations = case
    violations += (
        ["messages[1]: a system turn must be followed by an assistant turn"] if messages[0] == note("Be kind.") else []
    )
    assert anthropic.check({"model": "m", "max_tokens": 9, "messages": messages}) == violations


def test_a_system_turn_of_its_own_where_the_model_takes_it():
    spoken = (
        text_message("user", "Hi"),
        text_message("system", "It is late."),
        text_message("system", "Be brief."),
        text_message("assistant", "Yes?"),
    )
    request = rendered(*spoken, text_message("user", "Bye"), text_message("system", "Say goodbye."), system_turns=True)
    assert request["messages"] == [
        {"role": "user", "content": [text("Hi")]},
        {"role": "system", "content": [text("It is late."), text("Be brief.")]},
        {"role": "assistant", "content": [text("Yes?")]},
        {"role": "user", "content": [text("Bye")]},
        {"role": "system", "content": [text("Say goodbye.")]},
    ]
    assert [message.role for message in anthropic.parse(request).messages if message.role == "system"] == ["system"] * 2


def test_a_system_message_that_would_be_refused_there_speaks_as_the_user():
    messages = [
        text_message("user", "Hi"),
        text_message("assistant", "Yes?"),
        text_message("system", "It is late."),
        text_message("user", "Bye"),
    ]
    roles = [turn["role"] for turn in rendered(*messages, system_turns=True)["messages"]]
    assert roles == ["user", "assistant", "user"]
    before = [text_message("user", "Hi"), text_message("system", "It is late."), text_message("user", "Bye")]
    assert [turn["role"] for turn in rendered(*before, system_turns=True)["messages"]] == ["user"]


def test_pictures_in_a_tools_answer_are_read():
    picture = image(type="base64", media_type="image/png", data="iVBO")
    request = {
        "model": "m",
        "max_tokens": 5,
        "messages": [HI, reply(use()), turn(answer(content=[text("Here:"), picture]), text("So?"))],
    }
    read = anthropic.parse(request).messages[2]
    shown = Media(modality="image", data="iVBO", media_type="image/png")
    assert read.parts == (ToolResult(id="c1", name="f", content="Here:"), shown)
    request["messages"][2]["content"][0]["content"][1]["source"]["data"] = ""
    assert anthropic.check(request) == ["messages[2].content[0].content[1].source.data: must not be empty"]
