"""API families with constant overheads, compared with the numbers in their documentation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brimful.core.content import Media, Text, ToolCall, ToolResult
from brimful.core.model import ModelInfo, Prior
from brimful.core.prompt import Message, Prompt, Tool
from brimful.counting import counter_for

GPT_4 = ("cl100k_base", "openai-cl100k")
GPT_4O = ("o200k_base", "openai")

JARGON = (
    (
        "system",
        "",
        "You are a helpful, pattern-following assistant that translates corporate jargon into plain English.",
    ),
    ("system", "example_user", "New synergies will help drive top-line growth."),
    ("system", "example_assistant", "Things working well together will increase revenue."),
    (
        "system",
        "example_user",
        "Let's circle back when we have more bandwidth to touch base on opportunities for increased leverage.",
    ),
    ("system", "example_assistant", "Let's talk later when we're less busy about how to do better."),
    ("user", "", "This late pivot means we don't have time to boil the ocean for the client deliverable."),
)
WEATHER = Tool(
    name="get_current_weather",
    description="Get the current weather in a given location",
    parameters={
        "type": "object",
        "properties": {
            "location": {"type": "string", "description": "The city and state, e.g. San Francisco, CA"},
            "unit": {
                "type": "string",
                "description": "The unit of temperature to return",
                "enum": ["celsius", "fahrenheit"],
            },
        },
        "required": ["location"],
    },
)


def model(tokenizer, overhead, **fields):
    return ModelInfo(
        id="m",
        provider="p",
        window=8192,
        max_output=1024,
        wire="openai",
        tokenizer=tokenizer,
        overhead=overhead,
        **fields,
    )


def text_message(role, text, name=""):
    return Message(role=role, parts=(Text(text=text),), name=name)


def prompt(*messages, tools=()):
    return Prompt(model="m", messages=messages, tools=tools)


@pytest.mark.parametrize(("family", "tokens"), [(GPT_4, 129), (GPT_4O, 124)])
def test_openai_cookbook_messages(family, tokens):
    count = counter_for(model(*family)).prompt(prompt(*(text_message(role, text, name) for role, name, text in JARGON)))
    assert count.tokens == tokens
    assert count.basis == "exact"


@pytest.mark.parametrize(("family", "tokens"), [(GPT_4, 105), (GPT_4O, 101)])
def test_openai_cookbook_tools(family, tokens):
    messages = (
        text_message("system", "You are a helpful assistant that can answer to questions about the weather."),
        text_message("user", "What's the weather like in San Francisco?"),
    )
    count = counter_for(model(*family)).prompt(prompt(*messages, tools=(WEATHER,)))
    assert count.tokens == tokens
    assert count.basis == "calibrated"  # the constants fit this schema; no source says that they fit every one


@pytest.mark.parametrize(("calls", "tokens"), [(1, 40), (2, 89), (3, 114)])
def test_openai_tool_calls_as_users_were_billed(calls, tokens):
    call = ToolCall(id="a", name="calculator", arguments='{"a":2, "b":2}')
    result = Message(role="tool", parts=(ToolResult(id="a", content="4"),))
    message = text_message("user", "How much is 2 plus 2?")
    counter = counter_for(model(*GPT_4))
    whole = counter.prompt(prompt(message, Message(role="assistant", parts=(call,) * calls), *(result,) * calls))
    assert whole.tokens == tokens


@pytest.mark.parametrize("calls", range(1, 6))
def test_the_calls_of_a_message_are_counted_as_in_the_whole(calls):
    counter = counter_for(model(*GPT_4O))
    call = ToolCall(id="a", name="calculator", arguments='{"a":2, "b":2}')
    together = counter.prompt(prompt(Message(role="assistant", parts=(call,) * calls)))
    alone = counter.tool_calls([call] * calls).upper
    assert together.upper == alone + counter.message_overhead("assistant") + counter.request_overhead()


def claude(**fields):
    prior = Prior(tokenizer="o200k_base", factor=1.18, margin=0.1, source="test")
    return counter_for(model(None, "anthropic", prior=prior, **fields))


def test_anthropic_documented_message():
    count = claude().prompt(
        prompt(text_message("system", "You are a scientist"), text_message("user", "Hello, Claude"))
    )
    assert count.basis == "calibrated"
    assert 14 <= count.upper <= 28  # the documentation's example counts 14


def test_anthropic_documented_tool():
    tool = Tool(
        name="get_weather",
        description="Get the current weather in a given location",
        parameters={
            "type": "object",
            "properties": {
                "location": {"type": "string", "description": "The city and state, e.g. San Francisco, CA"},
            },
            "required": ["location"],
        },
    )
    message = text_message("user", "What's the weather like in San Francisco?")
    count = claude(tool_system_tokens=346).prompt(prompt(message, tools=(tool,)))
    assert 403 <= count.upper <= 500  # the documentation's example counts 403


def test_gemini_documented_chat():
    chat = prompt(text_message("user", "Hi my name is Bob"), text_message("assistant", "Hi Bob!"))
    count = counter_for(model("gemma3", "gemini")).prompt(chat)
    assert 10 <= count.upper <= 12  # the documentation's example counts 10


@pytest.mark.parametrize("family", ["anthropic", "gemini"])
def test_names_are_counted_only_where_they_are_sent(family):
    counter = counter_for(model("o200k_base", family))
    assert counter.message_overhead("user", "Ada Lovelace") == counter.message_overhead("user")
    assert counter_for(model(*GPT_4O)).message_overhead("user", "ada") == 6


def test_media_are_counted_by_the_rule_and_never_as_text():
    counter = counter_for(model(*GPT_4O, image_rule="openai-tiles-85-170"))
    picture = Media(modality="image", data="A" * 100_000, width=1024, height=1024)
    whole = counter.prompt(prompt(Message(role="user", parts=(picture, Text(text="hi")))))
    assert whole.tokens == 3 + 4 + 765 + 1
    assert whole.basis == "exact"


def test_an_empty_message_costs_its_frame():
    counter = counter_for(model(*GPT_4O))
    assert counter.prompt(prompt(Message(role="user", parts=()))).tokens == 3 + 4


WORDS = st.text(max_size=60)
MESSAGES = st.lists(st.tuples(st.sampled_from(["system", "user", "assistant"]), WORDS, st.sampled_from(["", "ada"])))


@pytest.mark.parametrize("counter", [counter_for(model(*GPT_4O)), claude()], ids=["exact", "calibrated"])
@given(messages=MESSAGES)
def test_a_prompt_is_the_sum_of_its_parts_but_for_their_rounding(counter, messages):
    whole = counter.prompt(prompt(*(text_message(role, text, name) for role, text, name in messages)))
    parts = sum(counter.text(text).upper + counter.message_overhead(role, name) for role, text, name in messages)
    rounded = 0 if whole.basis == "exact" else 2 * 3 * len(messages)  # tokens and margin of text, role and name
    assert 0 <= parts + counter.request_overhead() - whole.upper <= rounded
