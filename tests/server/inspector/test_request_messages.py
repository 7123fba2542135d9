"""The request of a context, message by message, and what was left out between them."""

import json

import msgspec
import pytest

import brimful
from brimful.records import Snapshot
from brimful.server.inspector.context_cache import CachedContext
from brimful.server.inspector.request_messages import request_messages
from server.inspector.conftest import ROOT


def build(*packages, model="gpt-4o", **options):
    """Return a context of these packages, with its messages as the API shows them."""
    context = brimful.assemble(packages, model=model, now=0.0, **options)
    snapshot = Snapshot(id=context.id, room="r", context=context)
    return context, request_messages(CachedContext(snapshot, 0.0))


def turns(count, *, model="gpt-4o"):
    """Return a history in which the user and the assistant take turns."""
    for n in range(count):
        text, role = f"Turn {n} of tea. " + "It steeps for a while. " * 20, ("assistant" if n % 2 else "user")
        yield brimful.package("message-recent", text, model=model, id=f"m{n}", role=role, timestamp=1.0 + n)


def question(text="Which tea?", *, model="gpt-4o"):
    return brimful.package("message-current", text, model=model, id="now", timestamp=1_000.0)


def test_the_messages_are_those_of_the_request(get, kept):
    context = get(f"/contexts/{kept.first}")
    shown = get(f"/contexts/{kept.first}/messages")
    request = get(f"/contexts/{kept.first}/request")
    assert [(each["role"], each["text"]) for each in shown["messages"]] == [
        (each["role"], each["content"]) for each in request["messages"]
    ]
    assert sum(each["tokens"] for each in shown["messages"]) + shown["other_tokens"] == context["tokens"]
    placed = [each for each in context["decisions"] if each["position"] is not None]
    in_order = [each["id"] for each in sorted(placed, key=lambda each: each["position"])]
    assert [id for each in shown["messages"] for id in each["items"]] == in_order


def test_dropped_messages_are_where_they_would_have_been(get, kept):
    context = get(f"/contexts/{kept.first}")
    shown = get(f"/contexts/{kept.first}/messages")
    dropped = {each["id"]: each for each in context["decisions"] if each["outcome"] == "dropped"}
    assert sorted(id for each in shown["omissions"] for id in each["items"]) == sorted(dropped)
    unloaded, history, found = shown["omissions"]
    first = next(i for i, each in enumerate(shown["messages"]) if each["text"].startswith("Turn"))
    assert (unloaded["index"], history["index"]) == (first, first)
    assert (unloaded["items"], unloaded["component"]) == ([], "recent")
    assert unloaded["count"] == context["candidates"] - len(context["decisions"]) > 0
    assert history["count"] == len(history["items"])
    assert history["tokens"] == sum(dropped[id]["tokens"] for id in history["items"])
    assert shown["messages"][found["index"] - 1]["text"].startswith("<context>")
    assert found["component"] == "older"


@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "gemini-2.5-pro"])
def test_joined_messages_have_the_items_of_all(model):
    memory = brimful.package("memory-semantic", "Ada drinks sencha.", model=model, id="mem", relevance=0.9)
    context, shown = build(*turns(4, model=model), memory, question(model=model), model=model, window=9_000)
    placed = [each for each in shown.messages if each.items]
    assert [(each.role, each.items) for each in placed] == [
        ("user", ("m0",)),
        ("assistant", ("m1",)),
        ("user", ("m2",)),
        ("assistant", ("m3",)),
        ("user", ("mem", "now")),
    ]
    assert "Ada drinks sencha." in placed[-1].text
    assert sum(each.tokens for each in shown.messages) + shown.other_tokens == context.tokens
    assert shown.omissions == ()


def test_joined_messages_of_the_same_words_are_told_apart():
    model = "claude-sonnet-4-5"
    said = [("user", "Yes"), ("user", "Yes"), ("assistant", "Yes"), ("user", "Yes, yes"), ("assistant", "Yes")]
    history = [
        brimful.package("message-recent", text, model=model, id=f"m{n}", role=role, timestamp=1.0 + n)
        for n, (role, text) in enumerate(said)
    ]
    _, shown = build(*history, question("Yes", model=model), model=model)
    assert [each.items for each in shown.messages] == [("m0", "m1"), ("m2",), ("m3",), ("m4",), ("now",)]


def test_a_summary_stands_for_its_messages():
    history = [msgspec.structs.replace(each, cluster="old") for each in turns(6)]
    summary = brimful.package(
        "summary", "They spoke of tea.", model="gpt-4o", id="sum", cluster="old", timestamp=6.0, role="user"
    )
    newest = brimful.package("message-recent", "Fine.", model="gpt-4o", id="m9", role="assistant", timestamp=9.0)
    _, shown = build(*history, summary, newest, question(), window=700, completion=100)
    [omission] = shown.omissions
    assert (omission.summary, omission.count) == ("sum", 5)
    before, after = shown.messages[omission.index - 1], shown.messages[omission.index]
    assert (before.items, after.items) == (("sum",), ("m5",))


def test_dropped_middle_messages_are_shown_in_the_middle():
    history = list(turns(5))
    history[2] = msgspec.structs.replace(history[2], excluded="it is private")
    context, shown = build(*history, question())
    assert context.decision("m2").reason == "excluded"
    assert [each.items for each in shown.messages] == [("m0",), ("m1",), ("m3",), ("m4",), ("now",)]
    assert [(each.index, each.items, each.tokens) for each in shown.omissions] == [
        (2, ("m2",), context.decision("m2").tokens)
    ]


def test_media_are_in_their_message():
    picture = brimful.Media(modality="image", url="https://example.org/cat.png", width=64, height=64)
    said = brimful.package("message-recent", (picture,), model="gpt-4o", id="cat", role="user", timestamp=2.5)
    context, shown = build(*turns(4), said, question("What is in the picture?"))
    assert [each.items for each in shown.messages][2:4] == [("cat", "cat/image-1"), ("m2",)]
    assert sum(each.tokens for each in shown.messages) + shown.other_tokens == context.tokens
    assert shown.messages[2].tokens > 64


def test_duplicates_are_not_left_out():
    twice = [brimful.package("memory-semantic", "Tea.", model="gpt-4o", id=id, relevance=0.9) for id in ("a", "b")]
    context, shown = build(*twice, question())
    assert context.decision("b").outcome == "duplicate"
    assert shown.omissions == ()


def test_erased_content_is_not_in_the_messages(client, get, kept):
    before = get(f"/contexts/{kept.first}/messages")
    assert "hazelnut" in before["messages"][2]["text"]
    client.delete(f"{ROOT}/memories/nuts", params={"erase": True}).raise_for_status()
    after = get(f"/contexts/{kept.first}/messages")
    assert "hazelnut" not in json.dumps(after)
    assert [each["items"] for each in after["messages"]] == [each["items"] for each in before["messages"]]


def test_a_request_that_cannot_be_read_has_no_messages():
    context, _ = build(question())
    broken = msgspec.structs.replace(context, request={"model": "gpt-4o"})
    shown = request_messages(CachedContext(Snapshot(id=context.id, room="r", context=broken), 0.0))
    assert (shown.messages, shown.other_tokens) == ((), context.tokens)


def test_calls_of_tools_and_their_results():
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": json.dumps({"at": "tea"})}}
    messages = [
        {"role": "user", "content": "Look at the tea."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "Sencha. " * 30},
    ]

    context = brimful.fit({"model": "gpt-4o", "messages": messages})
    shown = request_messages(CachedContext(Snapshot(id=context.id, room="r", context=context), 0.0))
    assert [each.role for each in shown.messages] == ["user", "assistant", "tool"]
    assert [len(each.items) for each in shown.messages] == [1, 1, 1]
    assert shown.messages[1].text.startswith("look(")
