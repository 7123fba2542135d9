"""The plain transcript."""

import pytest

from brimful.core.content import Media, Text, ToolCall, ToolResult
from brimful.core.prompt import Message, Prompt, Tool
from brimful.wires import find_wire

text = find_wire("text")


def test_a_whole_transcript():
    prompt = Prompt(
        model="davinci",
        messages=(
            Message(role="system", parts=(Text(text="Be kind."),)),
            Message(role="user", parts=(Text(text="Hi"), Media(modality="image", data="AAAA")), name="Ada"),
            Message(role="assistant", name="Nova", parts=(Text(text="One moment."), ToolCall(id="c1", name="look"))),
            Message(role="tool", parts=(ToolResult(id="c1", content="dark", is_error=True),)),
        ),
        tools=(Tool(name="look"),),
    )
    assert text.render(prompt, window=2048) == {
        "model": "davinci",
        "prompt": (
            'Tools:\n{"name":"look","description":"","parameters":{"properties":{},"type":"object"}}\n\n'
            "System: Be kind.\n\n"
            "Ada: Hi\n\n[image]\n\n"
            "Nova: One moment.\n\n"
            "Nova calls look [c1]: {}\n\n"
            "look fails [c1]: dark\n\n"
            "Nova:"
        ),
    }


def test_an_empty_prompt_still_asks_for_an_answer():
    assert text.render(Prompt(model="m", messages=()), window=2048)["prompt"] == "Assistant:"


INVALID = [
    ([], "request: must be an object, not a list"),
    ({"prompt": "Hi"}, "model: must be a string, but is missing"),
    ({"model": "", "prompt": "Hi"}, "model: must not be empty"),
    ({"model": "m"}, "prompt: must be a string, but is missing"),
    ({"model": "m", "prompt": "\n"}, "prompt: must not be empty"),
    ({"model": "m", "prompt": ["Hi"]}, "prompt: must be a string, not a list"),
    ({"model": "m", "prompt": "Hi", "max_tokens": 0}, "max_tokens: must be a positive integer"),
    ({"model": "m", "prompt": "Hi", "max_tokens": 1.5}, "max_tokens: must be a positive integer"),
]


@pytest.mark.parametrize(("request_", "violation"), INVALID)
def test_invalid_requests_are_named(request_, violation):
    assert text.check(request_) == [violation]
