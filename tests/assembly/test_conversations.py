"""Requests of conversations: each continues the one before it, and no conversation touches another."""

import pytest

import brimful
from brimful.errors import InvalidValue

NOW = 1_700_000_000


def chat(turns, topic="tea"):
    messages = [{"role": "system", "content": "You are a friendly assistant."}]
    for n in range(turns):
        messages.append({"role": "user", "content": f"{n}. Tell me more about {topic}, please. {'word ' * 40}"})
        messages.append({"role": "assistant", "content": f"{n}. Here is more about {topic}. {'word ' * 40}"})
    return {"model": "gpt-4o", "max_tokens": 100, "messages": messages[:-1]}


def starts(conversations, id, turns, **options):
    ctx = conversations.fit(id, chat(turns, **options), window=1_500, now=NOW)
    assert ctx.tokens <= 1_400
    return ctx.positions[1]


def test_a_conversation_begins_at_the_same_message_for_as_long_as_possible():
    conversations = brimful.Conversations()
    begins = [starts(conversations, "a", turns) for turns in range(20, 24)]
    assert begins[1] == begins[2] == begins[3]
    assert begins[0] < begins[1], "trimmed in one large step"
    assert brimful.fit(chat(23), window=1_500, now=NOW).positions[1] != begins[3], "otherwise this shows nothing"


def test_a_conversation_continues_although_its_cache_marks_move():
    def mark(turns):
        request = chat(turns)
        text = {"type": "text", "text": request["messages"][-1]["content"], "cache_control": {"type": "ephemeral"}}
        return {**request, "messages": [*request["messages"][:-1], {"role": "user", "content": [text]}]}

    plain, marked = brimful.Conversations(), brimful.Conversations()
    begins = [starts(plain, "a", turns) for turns in range(20, 24)]
    contexts = [marked.fit("a", mark(turns), window=1_500, now=NOW) for turns in range(20, 24)]
    assert [context.positions[1] for context in contexts] == begins


def test_conversations_are_told_apart_even_if_they_begin_the_same():
    conversations = brimful.Conversations()
    starts(conversations, "a", 20)
    assert starts(conversations, "b", 21) == brimful.fit(chat(21), window=1_500, now=NOW).positions[1]


def test_a_conversation_that_starts_over_is_not_trimmed_like_the_old_one():
    conversations = brimful.Conversations()
    starts(conversations, "a", 20)
    fresh = chat(3, topic="coffee")
    assert conversations.fit("a", fresh, window=1_500, now=NOW).request == fresh


def test_another_model_or_window_does_not_continue():
    conversations = brimful.Conversations()
    starts(conversations, "a", 20)
    wider = conversations.fit("a", chat(21), window=2_500, now=NOW)
    assert wider.positions == brimful.fit(chat(21), window=2_500, now=NOW).positions
    begins = [starts(conversations, "b", turns) for turns in range(20, 24)]
    request = chat(23) | {"model": "gpt-4-turbo"}
    other = conversations.fit("b", request, window=1_500, now=NOW)
    assert other.positions == brimful.fit(request, window=1_500, now=NOW).positions
    assert other.positions[1] != begins[3], "otherwise this shows nothing"


def test_the_oldest_requests_are_forgotten():
    conversations = brimful.Conversations(max_requests=1)
    starts(conversations, "a", 20)
    starts(conversations, "b", 20)
    assert starts(conversations, "a", 21) == brimful.fit(chat(21), window=1_500, now=NOW).positions[1]


@pytest.mark.parametrize("wrong", [0, -1, None, "many", 1.5])
def test_a_wrong_limit_is_refused(wrong):
    with pytest.raises(InvalidValue, match="max_requests: must be a positive whole number"):
        brimful.Conversations(max_requests=wrong)


@pytest.mark.parametrize("request_", [None, [], {"model": "gpt-4o"}, {"model": "gpt-4o", "messages": [object()]}])
def test_a_wrong_request_is_refused_by_fit(request_):
    conversations = brimful.Conversations()
    starts(conversations, "a", 20)
    with pytest.raises(brimful.errors.BrimfulError):
        conversations.fit("a", request_)
