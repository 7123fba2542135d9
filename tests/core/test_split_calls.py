"""Chat templates that refuse two calls in one message get one call per message."""

from brimful import assemble, conversation
from brimful.core.chat_rules import split_calls
from brimful.core.content import Media, Text, ToolCall, ToolResult
from brimful.core.prompt import Message
from brimful.models import resolve

PICTURE = Media(modality="image", url="https://example.com/a.png")


def tool_calls(*ids, text="", cache=False):
    texts = (Text(text=text),) if text else ()
    return Message(role="assistant", parts=(*texts, *(ToolCall(id=id, name="f") for id in ids)), cache=cache)


def answered(*ids, more=(), cache=False):
    return Message(role="tool", parts=(*(ToolResult(id=id, content=id) for id in ids), *more), cache=cache)


USER_MESSAGE = Message(role="user", parts=(Text(text="hi"),))


def test_single_calls_stay_as_they_are():
    messages = [USER_MESSAGE, tool_calls("a", text="Let me see."), answered("a"), USER_MESSAGE]
    assert split_calls(messages) == messages


def test_each_call_is_followed_by_its_own_result_wherever_that_stood():
    split = split_calls(
        [USER_MESSAGE, tool_calls("a", "b", "c", text="Let me see."), answered("c", "a"), answered("b"), USER_MESSAGE]
    )
    assert split == [
        USER_MESSAGE,
        *(tool_calls("a", text="Let me see."), answered("a")),
        *(tool_calls("b"), answered("b")),
        *(tool_calls("c"), answered("c")),
        USER_MESSAGE,
    ]


def test_nothing_is_lost():
    split = split_calls(
        [tool_calls("a", "b"), answered("a", more=(PICTURE,)), answered(more=(PICTURE,)), answered("x")]
    )
    assert split == [
        *(tool_calls("a"), answered("a", more=(PICTURE,))),
        *(tool_calls("b"), answered(more=(PICTURE,)), answered("x")),
    ]


def test_the_mark_of_a_stable_prefix_stays_at_its_end():
    split = split_calls([tool_calls("a", "b"), answered("a"), answered("b", cache=True)])
    assert [message.cache for message in split] == [False, False, False, True]


def call(id):
    return {"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}}


def test_llama_gets_its_calls_one_by_one_and_they_are_counted_exactly():
    history = [
        {"role": "user", "content": "Both, please."},
        {"role": "assistant", "content": None, "tool_calls": [call("a"), call("b")]},
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "tool", "tool_call_id": "b", "content": "2"},
        {"role": "user", "content": "Thanks."},
    ]

    def roles(model):
        context = assemble(conversation(history, model=model), model=model, now=0)
        assert context.verification.basis == "exact"
        return [message["role"] for message in context.request["messages"]]

    assert roles("llama-3.1-8b") == ["user", "assistant", "tool", "assistant", "tool", "user"]
    assert roles("qwen2.5-7b") == ["user", "assistant", "tool", "tool", "user"]
    assert resolve("llama-3.3-70b").one_call
