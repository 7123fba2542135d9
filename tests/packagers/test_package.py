import math
from datetime import UTC, datetime

import pytest

import brimful
from brimful import ToolCall, ToolResult
from brimful.core.content import Text
from brimful.core.prompt import Message
from brimful.packagers import (
    conversation,
    lorebook_entry,
    media,
    memory,
    message,
    needs_vision,
    package,
    summary,
    tool_turn,
)
from strategies import COUNTER


@pytest.mark.parametrize(("type", "priority"), [("semantic", 8), ("procedural", 7), ("episodic", 6)])
def test_memories_by_type(type, priority):
    made = memory("Ada likes tea.", counter=COUNTER, type=type, relevance=0.7, metadata={"accessCount": 3})
    assert (made.kind, made.flex.priority, made.flex.can_drop) == (f"memory-{type}", priority, True)
    assert made.metadata == {"source": "memory", "accessCount": 3}
    assert made.tokens.tokens == 3


def test_messages():
    current = message("hi", counter=COUNTER, current=True, name="Ada")
    recent = message("hi", counter=COUNTER, role="assistant")
    assert (current.kind, current.flex.can_drop, current.flex.priority, current.importance) == (
        "message-current",
        False,
        10,
        1.0,
    )
    assert (recent.kind, recent.flex.can_drop, recent.flex.priority, recent.importance) == (
        "message-recent",
        True,
        9,
        0.5,
    )
    assert (current.role, recent.role, current.name) == ("user", "assistant", "Ada")


def test_media():
    part = brimful.Media(modality="image", url="https://example.org/a.png", width=64, height=64)
    made = media(part, counter=COUNTER)
    assert (made.kind, made.flex.priority, made.importance, made.flex.can_drop) == ("media-image", 3, 0.3, True)
    assert made.metadata["url"] == part.url


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("look at this", True),
        ("Can you SEE it?", True),
        ("a picture", True),
        ("describe the scene", True),
        ("what's shown here", True),
        ("what is in it", True),
        ("good morning", False),
        ("", False),
    ],
)
def test_needs_vision_by_the_seeds_pattern(text, needed):
    assert needs_vision(text) is needed


def test_lorebook_and_summary():
    entry = lorebook_entry("Elves live long.", counter=COUNTER, book="Eldoria", constant=True)
    assert (entry.metadata, entry.pinned) == ({"source": "Eldoria"}, True)
    short = summary("All about day one.", of="day-1", counter=COUNTER, covers=("a", "b"))
    assert (short.kind, short.cluster, short.covers) == ("summary", "day-1", ("a", "b"))


def test_a_tool_turn_is_one_group():
    calls = [brimful.ToolCall(id="a", name="f"), brimful.ToolCall(id="b", name="f")]
    results = [brimful.ToolResult(id="a", content="1"), brimful.ToolResult(id="b", content="2")]
    turn = tool_turn(calls, results, counter=COUNTER, text="Let me look.", position=5)
    assert [entry.kind for entry in turn] == ["tool-call", "tool-result", "tool-result"]
    assert {entry.group for entry in turn} == {turn[0].id}
    assert [entry.id.removeprefix(turn[0].id) for entry in turn] == ["", "/a", "/b"]
    assert [entry.position for entry in turn] == [5, 6, 7]
    assert turn[0].text == "Let me look."


def test_turns_that_use_an_id_again_do_not_collide():
    def turn(answer="1", **options):
        return tool_turn([ToolCall(id="a", name="f")], [ToolResult(id="a", content=answer)], counter=COUNTER, **options)

    turns = [turn(), turn("2"), turn(timestamp=5), turn(position=5), turn(text="Well.")]
    ids = [entry.id for made in turns for entry in made]
    assert len(set(ids)) == len(ids)
    assert turn() == turns[0]
    assert [entry.id for entry in turn(id="t")] == ["t", "t/a"]
    assert {entry.group for entry in turn(id="t", group="g")} == {"g"}


@pytest.mark.parametrize(
    ("field", "calls", "results"),
    [
        ("calls", [], []),
        ("calls", [], [ToolResult(id="a", content="1")]),
        ("calls", None, []),
        ("calls", ToolCall(id="a", name="f"), []),
        ("calls", ["a"], []),
        ("results", [ToolCall(id="a", name="f")], None),
        ("results", [ToolCall(id="a", name="f")], ["1"]),
    ],
)
def test_invalid_tool_turns_are_refused(field, calls, results):
    with pytest.raises(brimful.errors.InvalidPackage) as caught:
        tool_turn(calls, results, counter=COUNTER)
    assert caught.value.field == field


def test_without_an_id_the_same_thing_is_one_thing():
    first, second = (package("weather", "sunny", counter=COUNTER, timestamp=5) for _ in range(2))
    assert first == second
    assert package("weather", "sunny", counter=COUNTER, timestamp=6).id != first.id
    with pytest.raises(brimful.errors.InvalidPackage, match=r"^id"):
        package("weather", "sunny", counter=COUNTER, id="")


def test_lone_surrogates_are_replaced_everywhere():
    made = package("weather", "bad \ud800", counter=COUNTER, name="\udfff")
    assert (made.content, made.name) == ("bad \ufffd", "\ufffd")
    parts = [Text(text="\ud800"), brimful.Media(modality="image", url="u")]
    assert package("weather", parts, counter=COUNTER).text == "\ufffd"
    result = brimful.ToolResult(id="a", content="\ud800")
    assert package("tool-result", [result], counter=COUNTER).content[0].content == "\ufffd"


def test_arguments_of_calls_and_names_of_books_are_cleaned_too():
    call = ToolCall(id="a", name="f", arguments='{"q": "\ud800"}')
    assert package("tool-call", [call], counter=COUNTER).content[0].arguments == '{"q": "\ufffd"}'
    assert lorebook_entry("x", counter=COUNTER, book="\ud800").metadata["source"] == "\ufffd"


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("id", {"id": "\ud800"}),
        ("id", {"id": None}),
        ("group", {"group": "\ud800"}),
        ("cluster", {"cluster": "\ud800"}),
        ("covers[0]", {"covers": ["\ud800"]}),
        ("covers[0]", {"covers": [1]}),
        ("covers", {"covers": None}),
        ("covers", {"covers": "ab"}),
        ("covers", {"covers": {"a": 1}}),
        ("name", {"name": None}),
        ("metadata", {"metadata": None}),
        ("metadata", {"metadata": []}),
        ("metadata", {"metadata": 7}),
        ("metadata", {"metadata": {"a": "\ud800"}}),
        ("position", {"position": object()}),
        ("position", {"position": 10**400}),
        ("role", {"role": object()}),
        ("timestamp", {"timestamp": object()}),
        ("timestamp", {"timestamp": 10**400}),
        ("timestamp", {"timestamp": True}),
        ("tokens", {"tokens": 10**400}),
        ("flex.can_drop", {"can_drop": "no"}),
    ],
)
def test_wrong_options_are_named_with_and_without_an_id(field, options):
    for given in (options, {"id": "x"} | options):
        with pytest.raises(brimful.errors.InvalidPackage) as caught:
            package("weather", "sunny", counter=COUNTER, **given)
        assert caught.value.field == field


@pytest.mark.parametrize("kind", [None, [], "", "\ud800"])
def test_invalid_kinds_are_refused(kind):
    with pytest.raises(brimful.errors.InvalidPackage, match=r"^kind"):
        package(kind, "sunny", counter=COUNTER)


@pytest.mark.parametrize(
    ("field", "call"),
    [
        ("metadata", lambda: memory("x", counter=COUNTER, metadata=None)),
        ("metadata", lambda: lorebook_entry("x", counter=COUNTER, metadata=None)),
        ("book", lambda: lorebook_entry("x", counter=COUNTER, book=7)),
        ("content", lambda: media(None, counter=COUNTER)),
        ("message", lambda: needs_vision(None)),
        ("messages[0].parts", lambda: conversation([Message(role="user", parts=None)], counter=COUNTER)),
        ("messages", lambda: conversation(None, counter=COUNTER)),
        ("messages", lambda: conversation("hi", counter=COUNTER)),
        ("messages[0]", lambda: conversation([{"role": "user", "content": "hi"}], counter=COUNTER)),
        ("timestamp", lambda: conversation([], counter=COUNTER, start=10**400)),
        ("position", lambda: tool_turn([ToolCall(id="a", name="f")], [], counter=COUNTER, position="1")),
    ],
)
def test_packagers_name_what_is_wrong(field, call):
    with pytest.raises(brimful.errors.InvalidValue) as caught:
        call()
    assert caught.value.field == field


def test_covers_keep_their_order_unless_they_have_none():
    assert package("summary", "x", counter=COUNTER, covers=["b", "a"]).covers == ("b", "a")
    assert package("summary", "x", counter=COUNTER, covers={"b", "a"}).covers == ("a", "b")


def test_times():
    assert message("x", counter=COUNTER, timestamp=datetime(1970, 1, 2, tzinfo=UTC)).timestamp == 86_400
    with pytest.raises(brimful.errors.InvalidPackage, match="time zone"):
        message("x", counter=COUNTER, timestamp=datetime(1970, 1, 2))  # noqa: DTZ001 - that is what is refused
    with pytest.raises(brimful.errors.InvalidPackage, match=r"^timestamp"):
        message("x", counter=COUNTER, timestamp=math.nan)


def test_a_number_of_tokens_is_the_callers_bound():
    assert message("x", counter=COUNTER, tokens=99).tokens == brimful.Count(tokens=99, basis="bound")
    values = brimful.Count(tokens=7, basis="provider")
    assert message("x", counter=COUNTER, tokens=values).tokens is values
    with pytest.raises(brimful.errors.InvalidPackage, match=r"^tokens"):
        message("x", counter=COUNTER, tokens=-1)


@pytest.mark.parametrize("content", [None, 7, {"text": "x"}, b"x", [1], ["x"]])
def test_invalid_content_is_refused(content):
    with pytest.raises(brimful.errors.InvalidPackage, match=r"^content"):
        package("weather", content, counter=COUNTER)


def text_message(role, text):
    return Message(role=role, parts=(Text(text=text),))


def test_a_conversation_requires_its_system_its_last_question_and_its_end():
    call = Message(role="assistant", parts=(brimful.ToolCall(id="a", name="f"),))
    answer = Message(role="tool", parts=(brimful.ToolResult(id="a", content="1"),))
    messages = [
        text_message("system", "s"),
        text_message("user", "q1"),
        text_message("assistant", "a1"),
        text_message("user", "q2"),
        call,
        answer,
    ]
    made = conversation(messages, counter=COUNTER)
    assert [entry.kind for entry in made] == [
        "system-prompt",
        "message-recent",
        "message-recent",
        "message-recent",
        "tool-call",
        "tool-result",
    ]
    assert [entry.flex.can_drop for entry in made] == [False, True, True, False, False, False]
    assert conversation(messages[:4], counter=COUNTER)[-1].kind == "message-current"
    assert conversation([], counter=COUNTER) == []
    orphaned = conversation([text_message("user", "q"), text_message("assistant", "a"), answer], counter=COUNTER)
    assert [entry.flex.can_drop for entry in orphaned] == [False, True, True]
    assert conversation([answer], counter=COUNTER)[0].flex.can_drop


def test_a_system_message_within_a_conversation_keeps_its_position():
    messages = [text_message(role, role) for role in ("system", "system", "user", "assistant", "system", "user")]
    made = conversation((entry for entry in messages), counter=COUNTER, min_tokens=1)
    assert [entry.kind for entry in made] == [
        "system-prompt",
        "system-prompt",
        "message-recent",
        "message-recent",
        "message-recent",
        "message-current",
    ]
    assert [entry.role for entry in made] == [entry.role for entry in messages]
    assert [entry.flex.can_drop for entry in made] == [False, False, True, True, False, False]
    assert made[4].flex.min_tokens is None
