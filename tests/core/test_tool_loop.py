"""A tool loop: what was found for the user's message stays where it is, to the byte, until the user speaks again."""

import pytest

import brimful
from brimful.core.content import ToolCall, ToolResult
from brimful.core.selection import HistoryStart, RetrievedItem
from brimful.packagers import memory, message
from brimful.testing import WordCounter

COUNTER = WordCounter()
LONG = " ".join(f"The kettle of room {room} stands beside the window and whistles." for room in range(40))


def said(id, text, at, **options):
    return message(text, counter=COUNTER, id=id, timestamp=at, position=at, **options)


def step(at):
    """A call with its result."""
    call = message(
        (ToolCall(id=f"c{at}", name="boil"),), counter=COUNTER, id=f"call{at}", role="assistant", timestamp=at
    )
    result = (ToolResult(id=f"c{at}", content=f"boiled {at}"),)
    return [call, message(result, counter=COUNTER, id=f"result{at}", role="tool", timestamp=at + 0.5)]


def remembered(id, text, relevance):
    return memory(text, counter=COUNTER, id=id, relevance=relevance)


TEA = remembered("tea", "Ada takes tea without milk.", 0.9)
CUP = remembered("cup", "The blue cup is hers.", 0.8)
NEW = remembered("new", "Somebody said that the kettle boils.", 0.99)


def build(*packages, previous=None, policy="agent", **options):
    return brimful.assemble(packages, model="gpt-4o", policy=policy, now=1_000, previous=previous, **options)


def ask(*found, **options):
    return build(said("q", "Tea, please.", 10, current=True), *found, **options)


def go_on(first, *packages, **options):
    question = said("q", "Tea, please.", 10, can_drop=False)
    return build(question, *packages, previous=first, **options)


def messages(context):
    return context.request["messages"]


def test_a_loop_begins_with_its_first_request_and_ends_with_the_result():
    first = ask(TEA, CUP)
    # What was found since is more relevant, and the order by relevance is another one.
    changed = remembered("cup", "The blue cup is hers.", 0.95)
    second = go_on(first, TEA, changed, NEW, *step(11))
    third = go_on(second, TEA, changed, NEW, *step(11), *step(12))
    assert messages(second)[: len(messages(first))] == messages(first)
    assert messages(third)[: len(messages(second))] == messages(second)
    assert [each["role"] for each in messages(second)] == ["user", "user", "assistant", "tool"]
    assert second.decision("new").reason == "unchanged"
    assert third.history.retrieved == second.history.retrieved
    assert [each.id for each in first.history.retrieved] == ["cup", "tea"]


def test_a_new_message_gets_what_is_found_for_it():
    first = ask(TEA)
    answer = said("a", "Done.", 12, role="assistant")
    question = said("q2", "And a cup?", 13, current=True)
    second = build(said("q", "Tea, please.", 10), *step(11), answer, question, TEA, NEW, previous=first)
    assert second.decision("new").included
    assert [each["role"] for each in messages(second)[-2:]] == ["user", "user"]
    assert second.history.question == "q2"


def test_a_loop_without_a_first_request_finds_for_itself():
    other = HistoryStart(first="", question="other", retrieved=(RetrievedItem(id="cup", kind="memory-semantic"),))
    for previous in (None, other):
        context = go_on(previous, TEA, *step(11))
        assert context.decision("tea").included
        assert [each["role"] for each in messages(context)] == ["user", "user", "assistant", "tool"]
        assert messages(context)[1]["content"] == "Tea, please."


def test_deleted_results_are_left_out():
    second = go_on(ask(TEA, CUP), CUP, *step(11))
    assert "without milk" not in str(messages(second))
    assert "blue cup" in messages(second)[0]["content"]


def test_shortened_results_keep_their_form():
    first = ask(remembered("long", LONG, 0.9), overrides={"pools.related.limit.tokens": 120})
    assert first.decision("long").outcome == "shrunk"
    limit = first.history.retrieved[0].limit
    again = remembered("long", LONG, 0.5)
    second = go_on(first, again, *step(11), overrides={"pools.related.limit.tokens": 120})
    assert (limit > 0, messages(second)[:2]) == (True, messages(first))


def test_copies_of_what_was_found_stay_out():
    first = ask(TEA)
    copy = remembered("copy", "Ada takes tea without milk.", 0.9)
    assert not go_on(first, TEA, copy, *step(11)).decision("copy").included


def test_other_items_of_the_pool_are_chosen_as_ever(tmp_path):
    policy = tmp_path / "one.toml"
    policy.write_text('name = "one"\n[[pools]]\nname = "all"\nkinds = ["*"]\noptimize = true\n')
    first = ask(TEA, policy=policy)
    second = go_on(first, TEA, NEW, *step(11), policy=policy)
    assert second.decision("call11").included
    assert second.decision("new").reason == "unchanged"


@pytest.mark.parametrize("order", ["best-first", "time"])
def test_every_order_of_the_block_stays(order):
    overrides = {"layout.order": order}
    first = ask(TEA, CUP, overrides=overrides)
    second = go_on(first, remembered("tea", TEA.text, 0.1), CUP, *step(11), overrides=overrides)
    assert messages(second)[:2] == messages(first)


def test_a_second_breakpoint_ends_with_the_last_result():
    options = {"wire": "anthropic"}
    first = ask(TEA, **options)
    second = go_on(first, TEA, *step(11), **options)
    assert "cache_control" in str(messages(second)[-1])
    assert "cache_control" not in str(messages(first)[-1])


def test_a_conversation_without_turns_is_no_loop():
    context = build(TEA)
    assert context.history is None
