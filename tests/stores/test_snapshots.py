"""Contexts are stored by reference, restored byte for byte, and emptied of erased content."""

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings

from brimful import fit
from brimful.core.content import Media, Text, ToolCall, ToolResult
from brimful.packagers import media, memory, message, package
from brimful.records import Message, Response, Room, Snapshot, Usage
from stores.samples import known, make_message, words
from strategies import COUNTER, NOW, examples, piles
from support import build, history

CAT = Media(modality="image", url="https://example.org/cat.png", width=64, height=64)
ACCOUNT = "My account number is 1234567890, and I would like to keep it to myself. " * 6


def snapshot(context, id="s1", **more):
    return Snapshot(**({"id": id, "room": "general", "context": context, "at": 7.0, "persona": "helper"} | more))


def pile():
    return [
        package("system-prompt", "You are kind. \x00", counter=COUNTER, id="sys"),
        memory("Ada drinks tea, never coffee.", counter=COUNTER, id="k1", timestamp=NOW - 50),
        memory("Ada has a cat named Ottoline.", counter=COUNTER, id="k2", timestamp=NOW - 60),
        media(CAT, counter=COUNTER, id="pic"),
        *history(5),
        message("What does Ada drink?", counter=COUNTER, id="now", current=True, timestamp=NOW),
    ]


@pytest.mark.parametrize("wire", ["openai", "anthropic", "gemini", "ollama", "text"])
def test_a_build_comes_back_to_the_byte(store, run, wire):
    context = build(pile(), wire=wire)
    run(store.save_context(snapshot(context)))
    found = run(store.snapshot("s1"))
    assert found.context.to_json() == context.to_json()
    assert found == snapshot(context)
    assert run(store.snapshot("s2")) is None


@settings(max_examples=examples(12), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(piles())
def test_any_build_comes_back_to_the_byte(database, run, pile):
    context = build(pile, window=400)
    kept = snapshot(context, id=context.id)
    store = database.tenant("any")
    run(store.save_context(kept))
    assert run(store.snapshot(context.id)).context.to_json() == context.to_json()


def test_a_request_with_any_integers_comes_back(store, run):
    integers = [2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**400]
    request = {"model": "gpt-4o", "metadata": {"all": integers}, "messages": [{"role": "user", "content": "Hi"}]}
    context = fit(request)
    run(store.save_context(snapshot(context)))
    assert run(store.snapshot("s1")).context.request["metadata"] == {"all": integers}


def test_the_first_build_of_an_id_stands(store, run):
    run(store.save_memories([known("k1")]))
    first, second = build(pile()), build(pile()[:2])
    run(store.save_context(snapshot(first)))
    run(store.save_context(snapshot(second)))
    assert run(store.snapshot("s1")).context == first
    assert len(run(store.inclusions(snapshot="s1"))) == len(first.decisions)
    assert run(store.memories())[0].accesses == 1


def test_a_build_counts_an_access_of_each_memory_in_it(store, run):
    run(store.save_memories([known("k1"), known("k2"), known("k3")]))
    context = build(pile())
    assert {"k1", "k2"} <= set(context.kept)
    run(store.save_context(snapshot(context)))
    assert {(each.id, each.accesses, each.accessed) for each in run(store.memories())} == {
        ("k1", 1, 7.0),
        ("k2", 1, 7.0),
        ("k3", 0, None),
    }


def test_inclusions_tell_what_became_of_an_item(store, run):
    context = build(pile())
    run(store.save_context(snapshot(context)))
    run(store.save_context(snapshot(context, id="s2", at=8.0)))
    rows = run(store.inclusions(item="k1"))
    assert [(row.snapshot, row.at) for row in rows] == [("s2", 8.0), ("s1", 7.0)]
    decision = context.decision("k1")
    assert (rows[0].kind, rows[0].outcome, rows[0].reason, rows[0].tokens) == (
        decision.kind,
        decision.outcome,
        decision.reason,
        decision.tokens,
    )
    assert len(run(store.inclusions(snapshot="s1"))) == len(context.decisions)
    assert len(run(store.inclusions(limit=3))) == 3
    assert run(store.inclusions(item="k1\x00")) == []


def test_builds_are_listed_newest_first(store, run):
    context = build(pile())
    for number, persona in enumerate(("helper", "helper", "other")):
        run(store.save_context(snapshot(context, id=f"s{number}", at=float(number), persona=persona)))
    builds = run(store.builds(room="general"))
    assert [each.id for each in builds] == ["s2", "s1", "s0"]
    assert (builds[0].model, builds[0].policy, builds[0].tokens, builds[0].window) == (
        "m",
        "default",
        context.tokens,
        1000,
    )
    assert builds[0].history == context.history
    older = run(store.builds(room="general", persona="helper", before=builds[1].number))
    assert [each.id for each in older] == ["s0"]
    assert [each.id for each in run(store.builds(limit=1))] == ["s2"]
    assert run(store.builds(room="other")) == []


# -- erasing ---------------------------------------------------------------------------------------------------------


def test_a_deleted_message_stays_in_past_contexts_and_an_erased_one_does_not(store, run):
    run(store.post([make_message("m1", ACCOUNT)]))
    context = build([message(ACCOUNT, counter=COUNTER, id="m1", timestamp=NOW - 1), *pile()])
    run(store.save_context(snapshot(context)))
    run(store.delete("m1"))
    assert run(store.snapshot("s1")).context.to_json() == context.to_json()
    assert run(store.delete("m1", erase=True)) is True
    found = run(store.snapshot("s1")).context
    assert b"1234567890" not in found.to_json()
    assert next(each for each in found.inputs.packages if each.id == "m1").content == ""
    assert next(each for each in found.inputs.packages if each.id == "k1").content != ""
    assert len(found.request["messages"]) == len(context.request["messages"])


def test_a_place_in_a_given_request_is_no_record_of_that_name(store, run):
    messages = [{"role": "user", "content": "What of my account?"}, {"role": "assistant", "content": "It is open."}]
    context = fit({"model": "gpt-4o", "messages": [*messages, {"role": "user", "content": "Thanks."}]}, now=NOW)
    run(store.save_context(snapshot(context)))
    assert run(store.inclusions(item="msg-000001")) == []
    run(store.post([make_message("msg-000001", "Something else")]))
    run(store.delete("msg-000001", erase=True))
    assert run(store.snapshot("s1")).context.to_json() == context.to_json()


def test_a_memory_is_erased_from_the_middle_of_a_block(store, run):
    run(store.save_memories([known("k1", "Ada drinks tea, never coffee.")]))
    context = build(pile())
    run(store.save_context(snapshot(context)))
    assert run(store.remove_memory("k1", erase=True)) is True
    written = run(store.snapshot("s1")).context.to_json()
    assert b"never coffee" not in written
    assert b"Ottoline" in written


def test_a_request_that_holds_a_part_of_what_is_erased_goes_as_a_whole(store, run):
    run(store.post([make_message("long", ACCOUNT)]))
    long = message(ACCOUNT, counter=COUNTER, id="long", timestamp=NOW - 1, min_tokens=5, can_drop=False)
    context = build([long, pile()[-1]], window=80, completion=20)
    assert context.decision("long").outcome == "shrunk"
    run(store.save_context(snapshot(context)))
    run(store.delete("long", erase=True))
    found = run(store.snapshot("s1")).context
    assert found.request == {}
    assert b"1234567890" not in found.to_json()


@pytest.mark.parametrize("name", ["m1/recalled", "message/m1"])
def test_erasing_a_text_removes_it_from_requests_that_have_it_under_another_id(store, run, name):
    text = ACCOUNT + " <memory>"  # told in other words: no text opens a label
    run(store.post([make_message("m1", text)]))
    found = package("message-older", text, counter=COUNTER, id=name, relevance=1.0, timestamp=NOW - 1)
    run(store.save_context(snapshot(build([found, *pile()]))))
    assert b"1234567890" in msgspec.json.encode(run(store.snapshot("s1")).context.request)
    run(store.delete("m1", erase=True))
    run(store.post([make_message("m3", text)]))  # who says the same later does not bring it back
    assert run(store.snapshot("s1")).context.request == {}


def test_editing_a_text_keeps_it_in_requests_that_have_it_under_another_id(store, run):
    run(store.save_memories([known("k1", "Ada drinks tea, never coffee.")]))
    tea = memory("Ada drinks tea, never coffee.", counter=COUNTER, id="memory/k1", relevance=1.0, timestamp=NOW - 1)
    context = build([tea, pile()[-1]])
    run(store.save_context(snapshot(context)))
    run(store.save_memories([known("k1", "Ada drinks coffee.")]))
    assert run(store.snapshot("s1")).context.to_json() == context.to_json()
    run(store.remove_memory("k1", erase=True))
    assert b"never coffee" not in run(store.snapshot("s1")).context.to_json()


def test_the_text_before_an_edit_is_erased_with_the_message(store, run):
    run(store.post([make_message("m1", ACCOUNT), make_message("m2", "unseen secret")]))
    context = build([message(ACCOUNT, counter=COUNTER, id="m1", timestamp=NOW - 1), *pile()])
    run(store.save_context(snapshot(context)))
    run(store.edit("m1", "Never mind.", words("never mind"), at=9.0))
    run(store.edit("m2", "Never mind.", words("never mind"), at=9.0))
    assert run(store.snapshot("s1")).context.to_json() == context.to_json()
    run(store.delete("m1", erase=True))
    assert b"1234567890" not in run(store.snapshot("s1")).context.to_json()


def test_content_that_another_record_still_says_stays(store, run):
    run(
        store.post(
            [make_message("m1", "Ada drinks tea, never coffee."), make_message("m2", "Ada drinks tea, never coffee.")]
        )
    )
    run(store.delete("m1", erase=True))
    assert run(store.messages(["m2"]))[0].content == "Ada drinks tea, never coffee."
    run(store.delete("m2", erase=True))
    run(store.post([make_message("m3", "Ada drinks tea, never coffee.")]))
    assert run(store.messages(["m3"]))[0].content == "Ada drinks tea, never coffee."


def test_an_erased_tool_turn_can_still_be_read(store, run):
    call = (Text(text="Let me see."), ToolCall(id="c1", name="find", arguments='{"who": "Ada Lovelace"}'))
    result = (ToolResult(id="c1", content="Ada Lovelace, 10 December 1815"),)
    run(store.post([(Message(id="call", room="general", content=call, role="assistant"), words(""))]))
    run(store.post([(Message(id="result", room="general", content=result, role="tool"), words(""))]))
    turn = [
        package("tool-call", call, role="assistant", counter=COUNTER, id="call", group="g", timestamp=NOW - 3),
        package("tool-result", result, role="tool", counter=COUNTER, id="result", group="g", timestamp=NOW - 2),
    ]
    context = build([*turn, *pile()])
    run(store.save_context(snapshot(context)))
    assert run(store.snapshot("s1")).context.to_json() == context.to_json()
    for id in ("call", "result"):
        run(store.delete(id, erase=True))
    found = run(store.snapshot("s1")).context
    assert b"Lovelace" not in found.to_json()
    assert [package.id for package in found.inputs.packages] == [package.id for package in context.inputs.packages]


def test_a_room_goes_with_its_builds_and_answers(store, run):
    run(store.put(Room(id="general")))
    run(store.save_context(snapshot(build(pile()))))
    run(store.save_response(Response(id="a1", context="s1", room="general")))
    run(store.remove(Room, "general"))
    assert run(store.snapshot("s1")) is None
    assert run(store.inclusions(item="k1")) == []
    assert run(store.responses(room="general")) == []


def test_a_context_is_removed_with_its_answers_and_stays_in_the_statistics(store, run):
    run(store.put(Room(id="general")))
    run(store.save_context(snapshot(build(pile()))))
    run(store.save_context(snapshot(build(pile()), id="s2")))
    run(store.save_response(Response(id="a1", context="s1", room="general")))
    run(store.save_response(Response(id="a2", context="s2", room="general")))
    other, before = run(store.snapshot("s2")), run(store.statistics())
    assert run(store.remove_context("s1"))
    assert run(store.snapshot("s1")) is None
    assert [each.snapshot for each in run(store.inclusions(item="k1"))] == ["s2"]
    assert [each.id for each in run(store.responses(room="general"))] == ["a2"]
    assert [each.id for each in run(store.builds())] == ["s2"]
    assert [each.id for each in run(store.follow("0")).events] == ["s2", "a2"]
    assert run(store.snapshot("s2")) == other
    assert run(store.statistics()) == before
    assert not run(store.remove_context("s1"))
    assert not run(store.remove_context("unknown"))


# -- answers ---------------------------------------------------------------------------------------------------------


def test_answers_come_newest_first_and_the_first_of_an_id_stands(store, run):
    first = Response(
        id="a1",
        context="s1",
        room="general",
        message="m9",
        model="gpt-4o",
        at=1.0,
        usage=Usage(prompt=9),
        finish="stop",
    )
    run(store.save_response(first))
    run(store.save_response(msgspec.structs.replace(first, finish="length")))
    run(store.save_response(Response(id="a2", context="s2", room="general", at=2.0)))
    assert run(store.responses(room="general"))[1] == first
    assert [each.id for each in run(store.responses(room="general"))] == ["a2", "a1"]
    assert [each.id for each in run(store.responses(context="s1"))] == ["a1"]
    assert [each.id for each in run(store.responses(limit=1))] == ["a2"]
