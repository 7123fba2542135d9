import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.core.content import Media, Text, ToolCall, ToolResult
from brimful.core.model import ModelInfo
from brimful.core.prompt import Message, Prompt, Tool
from brimful.counting import approximate_message, approximate_text, counter_for
from brimful.counting.approximate import utf16_length

COUNTER = counter_for(
    ModelInfo(id="gpt-4", provider="openai", window=8192, max_output=4096, wire="openai", image_rule="seed-gpt4v"),
    "approximate",
)


def test_the_example_of_the_rule():
    text = "This is a test message with about twenty words in it for testing purposes."
    assert approximate_message(text, "user", "Joel") == math.ceil((74 + 4 + 4 + 10) / 4) == 23


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("👋👋", 1), ("👋👋é", 2)])
def test_a_quarter_rounded_up(text, tokens):
    assert approximate_text(text) == tokens


@given(st.text())
def test_lengths_are_javascripts(text):
    assert utf16_length(text) == len(text.encode("utf-16-le", "surrogatepass")) // 2


def test_a_prompt_is_the_sum_of_its_messages_as_the_rule_counts_them():
    messages = (
        Message(role="system", parts=(Text(text="Be brief."),)),
        Message(role="user", name="Joel", parts=(Text(text="Hello "), Text(text="world"))),
    )
    count = COUNTER.prompt(Prompt(model="gpt-4", messages=messages))
    assert count.tokens == approximate_message("Be brief.", "system") + approximate_message(
        "Hello world", "user", "Joel"
    )
    assert count.basis == "approximate"
    assert count.tokenizer == COUNTER.tokenizer == "chars/4"


def test_tools_calls_results_and_media_are_counted_too():
    bare = COUNTER.prompt(Prompt(model="gpt-4", messages=()))
    assert bare.tokens == COUNTER.request_overhead() == 0
    parts = (
        ToolCall(id="1", name="now", arguments='{"zone": "UTC"}'),
        ToolResult(id="1", content="12:00"),
        Media(modality="image", url="https://example.com/a.png", width=512, height=512),
    )
    tools = (Tool(name="now"),)
    count = COUNTER.prompt(Prompt(model="gpt-4", messages=(Message(role="assistant", parts=parts),), tools=tools))
    said = approximate_message('now{"zone": "UTC"}12:00', "assistant")
    assert count.tokens == said + 212 + approximate_text('{"name":"now","description":"","parameters":{}}')


def test_parts_counted_alone_are_never_less_than_the_message():
    alone = COUNTER.text("Hello world").tokens + COUNTER.message_overhead("user", "Joel")
    assert alone >= approximate_message("Hello world", "user", "Joel")
    assert COUNTER.texts(["abcde", ""])[0].tokens == 2
    assert COUNTER.tool_calls([ToolCall(id="c", name="now", arguments="{}")]).tokens == 4
