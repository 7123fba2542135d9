"""Handles, and what they give back: whole items, the parts that match, or the best passages of all."""

import json

import pytest

from brimful import Media, Text, ToolCall, ToolResult, fit
from brimful.assembly.assemble import counter_of
from brimful.core.content import ContentPackage
from brimful.core.handles import Handles, hash_handle
from brimful.core.recall import Item, is_erased, item_text, rank_items, recall_best, recall_item
from brimful.errors import ContentErased, InvalidValue, UnknownRecord
from brimful.packagers import media, memory, message, package, tool_turn
from brimful.testing import WordCounter
from strategies import COUNTER, NOW
from support import build, history, words

LONG_ID = "msg-00c2ec87c9d04a4b8cbee9a0f9a4f4b1"
STORY = " ".join(f"On day {n} it rained." for n in range(400))


def item(text, handle="m", **options):
    return Item(handle=handle, package=message(text, counter=COUNTER, id=handle, timestamp=NOW), **options)


# -- handles ---------------------------------------------------------------------------------------------------------


def test_a_short_plain_id_is_its_own_handle_and_any_other_is_hashed():
    ids = ["msg-12", LONG_ID, 'say "hi"', "грета"]
    handles = [Handles(ids)[id] for id in ids]
    assert handles[0] == "msg-12"
    assert all(len(handle) == 8 and handle.isascii() and handle.isalnum() for handle in handles[1:])
    assert len(set(handles)) == 4


def test_a_handle_does_not_depend_on_other_candidates():
    assert Handles([LONG_ID])[LONG_ID] == Handles([LONG_ID, *(f"{LONG_ID}{n}" for n in range(50))])[LONG_ID]


def test_two_ids_never_share_a_handle():
    own = Handles([LONG_ID])[LONG_ID]
    both = Handles([LONG_ID, own])
    assert both[own] == own
    assert both[LONG_ID] == hash_handle(LONG_ID, {own}) != own
    assert both[LONG_ID].startswith(own)


def test_a_message_whose_number_is_an_id_is_named_by_its_own_id():
    assert Handles(["r12", "msg-000012"])["msg-000012"] == "msg-000012"


def test_a_picture_in_a_fitted_request_can_be_recalled():
    picture = {"type": "image_url", "image_url": {"url": "https://example.org/cat.png"}}
    turns = [{"role": "user", "content": [{"type": "text", "text": words(200)}, picture]} for _ in range(9)]
    context = fit({"model": "gpt-4o", "messages": turns}, window=1500, completion=100, now=NOW)
    assert context.recall("r3", max_tokens=1000).text == f"{words(200)}\n[image, https://example.org/cat.png]"
    assert context.recall(context.handle("msg-000003/image-1")).text == "[image, https://example.org/cat.png]"


def test_a_stub_carries_its_handle():
    large = [message(words(800), counter=COUNTER, id=f"{LONG_ID}{n}", timestamp=NOW - 2000 + n) for n in range(4)]
    context = build([*large, *history(3)], window=260, completion=100)
    stub = next(each for each in context.decisions if each.form == "stub")
    assert f'· recall \\"{context.handle(stub.id)}\\"]' in context.to_json().decode()
    assert context.recall(context.handle(stub.id), max_tokens=10_000).text == words(800)


ROWS = "[" + ", ".join(f'{{"row": {n}}}' for n in range(400)) + "]"
KEYS = "{" + ", ".join(f'"key {n}": {n}' for n in range(400)) + "}"
LONGS = "{" + ", ".join(f'"text {n}": "{words(90)}"' for n in range(6)) + "}"


@pytest.mark.parametrize(
    ("text", "min_tokens", "mark"),
    [(STORY, None, '[… recall "long"]'), (ROWS, None, "… recall long"), (STORY, 9, "")],
)
def test_an_excerpt_ends_with_its_handle(text, min_tokens, mark):
    context = build([memory(text, counter=COUNTER, id="long", min_tokens=min_tokens)], window=900)
    assert context.decision("long").form == "excerpt"
    assert ("recall" in str(context.request)) == bool(mark)
    assert mark in str(context.request)


@pytest.mark.parametrize("text", [ROWS, KEYS, LONGS])
def test_json_with_a_handle_stays_json(text):
    call, result = ToolCall(id="c", name="list"), ToolResult(id="c", content=text)
    turn = tool_turn([call], [result], counter=COUNTER, id="t", timestamp=NOW)
    context = build([*turn, message("Go on.", counter=COUNTER, id="m", current=True, timestamp=NOW + 1)], window=450)
    assert context.decision("t/c").form == "digest"
    data = json.loads(context.request["messages"][1]["content"])
    note = data[-1] if isinstance(data, list) else data["…"]
    assert note.endswith("recall t/c")
    assert context.recall("t/c", max_tokens=10_000).text == text


def test_a_digest_in_history_carries_its_handle():
    long = message(STORY, counter=COUNTER, id="long", timestamp=NOW - 500)
    context = build([long, *history(5), message("Go on.", counter=COUNTER, id="m", current=True, timestamp=NOW)])
    assert context.decision("long").form == "digest"
    assert any(each["content"].endswith('\n[… recall "long"]') for each in context.request["messages"])


# -- one item --------------------------------------------------------------------------------------------------------


def test_items_that_fit_are_recalled_whole_by_handle_and_by_id():
    long = memory(STORY, counter=COUNTER, id=LONG_ID)
    context = build([long, *history(5)])
    by_handle = context.recall(context.handle(LONG_ID), max_tokens=10_000)
    assert by_handle == context.recall(LONG_ID, max_tokens=10_000)
    assert (by_handle.text, by_handle.whole, by_handle.id) == (STORY, True, LONG_ID)
    assert by_handle.tokens == by_handle.size == counter_of(context).text(STORY).upper
    assert (by_handle.form, by_handle.outcome) == ("excerpt", "shrunk")


def test_the_matching_part_of_an_item_that_does_not_fit_is_recalled():
    long = memory(STORY.replace("On day 200 it rained.", "On day 200 it snowed."), counter=COUNTER, id="long")
    part = build([long, *history(5)]).recall("long", query="When was it that it snowed?", max_tokens=60)
    assert "On day 200 it snowed." in part.text
    assert not part.whole
    assert 0 < part.tokens <= 60 < part.size


def test_dropped_and_kept_items_can_be_recalled():
    context = build(history(60), window=300)
    dropped = next(each.id for each in context.decisions if each.outcome == "dropped")
    assert context.recall(dropped).text == words(10)
    assert context.recall(dropped).form is None
    assert (context.recall("m059").outcome, context.recall("m059").form) == ("kept", "full")


def test_if_nothing_fits_nothing_is_returned():
    assert recall_item(item("word"), "", 0, COUNTER).text == ""
    assert recall_item(item("word"), "", 0, COUNTER).tokens == 0


def test_candidates_with_the_same_id_have_handles_of_their_own():
    pair = [memory(text, counter=COUNTER, id="twin", timestamp=NOW + n) for n, text in enumerate(("one", "two"))]
    same = memory("two", counter=COUNTER, id="twin", timestamp=NOW + 2)
    context = build([*pair, same])
    assert sorted(context.recall(handle).text for handle in context.items) == ["one", "two"]
    assert context.recall("twin").outcome == "kept"
    loser = next(handle for handle in context.items if handle != "twin")
    assert context.recall(loser).outcome == "duplicate"


def test_recalling_tools_and_media_returns_their_descriptions():
    call, result = tool_turn(
        [ToolCall(id="c", name="look", arguments='{"at":1}')], [ToolResult(id="c", content="a cup")], counter=COUNTER
    )
    assert item_text(call) == '[called look: {"at":1}]'
    assert item_text(result) == "a cup"
    sound = Media(modality="audio", data="aGk=", media_type="audio/wav", seconds=2.5)
    assert item_text(media(sound, counter=COUNTER)) == "[audio, audio/wav, 2.5 seconds]"
    linked = Media(modality="image", url="https://x.example/cat.png", width=640, height=480)
    assert item_text(media(linked, counter=COUNTER)) == "[image, 640×480, https://x.example/cat.png]"
    inline = Media(modality="image", url="data:image/png;base64,aGk=", width=640)
    assert item_text(media(inline, counter=COUNTER)) == "[image]"


def test_an_unknown_handle_names_near_ones():
    context = build([message("Hi.", counter=COUNTER, id="msg-12")])
    with pytest.raises(UnknownRecord, match=r"no handle 'msg-13'; did you mean 'msg-12'\?") as caught:
        context.recall("msg-13")
    assert caught.value.near == ("msg-12",)
    with pytest.raises(UnknownRecord, match=r"no handle 'zebra'$"):
        context.recall("zebra")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({}, "handle: pass a handle, or a query"),
        ({"handle": 7}, "handle"),
        ({"handle": "m", "query": None}, "query"),
        ({"handle": "m", "max_tokens": 0}, "max_tokens: must be a positive whole number"),
        ({"handle": "m", "max_tokens": True}, "max_tokens"),
    ],
)
def test_bad_arguments_are_named(options, match):
    with pytest.raises(InvalidValue, match=match):
        build([message("Hi.", counter=COUNTER, id="m")]).recall(**options)


def test_no_handle_for_what_was_no_candidate():
    with pytest.raises(UnknownRecord, match="no candidate 'x'"):
        build([message("Hi.", counter=COUNTER, id="m")]).handle("x")


# -- erased content --------------------------------------------------------------------------------------------------


def erase(entry, content):
    fields = {field: getattr(entry, field) for field in entry.__struct_fields__}
    return ContentPackage(**fields | {"content": content})


@pytest.mark.parametrize(
    ("content", "bare"),
    [
        ("Hi.", ""),
        ((Text(text="Look:"), Media(modality="image", url="u")), (Text(text=""), Media(modality="image", url="u"))),
    ],
)
def test_erased_items_are_known_by_their_hash(content, bare):
    entry = package("message-recent", content, counter=COUNTER, id="m")
    if not isinstance(bare, str):
        bare = (bare[0], Media(modality="image", url="about:blank"))
    assert not is_erased(entry)
    assert is_erased(erase(entry, bare))
    assert not is_erased(message("", counter=COUNTER, id="silent"))


def test_erased_items_cannot_be_recalled_and_are_not_searched():
    gone = erase(memory("The ladder cost 80 euros.", counter=COUNTER, id="gone"), "")
    context = build([gone, message("Hi.", counter=COUNTER, id="m")])
    with pytest.raises(ContentErased, match="the content of memory-semantic 'gone' was deleted"):
        context.recall("gone")
    assert context.recall(query="ladder").passages == ()


# -- search ----------------------------------------------------------------------------------------------------------


def test_a_search_returns_the_best_passages_of_what_the_model_did_not_see():
    texts = {"m003": "The ladder cost 80 euros.", "m059": "Ladder, please."}
    pile = [
        message(texts.get(f"m{n:03d}", words(10)), counter=COUNTER, id=f"m{n:03d}", timestamp=NOW - 1000 + n)
        for n in range(60)
    ]
    context = build(pile, window=300)
    assert context.decision("m059").included
    found = context.recall(query="What did the ladder cost?")
    assert [passage.id for passage in found.passages] == ["m003"]
    assert found.text.splitlines() == ['[message, 2027-01-15, 5 tokens · recall "m003"]', "The ladder cost 80 euros."]
    assert found.whole
    assert found.tokens == counter_of(context).text(found.text).upper
    assert (found.handle, found.id, found.form) == ("", "", None)


def test_a_search_without_a_match_is_empty():
    nothing = build(history(60), window=300).recall(query="zebra")
    assert (nothing.text, nothing.tokens, nothing.passages) == ("", 0, ())


def test_rare_words_decide_and_hits_without_them_come_last():
    common = [item("the tea is ready", f"t{n}") for n in range(9)]
    rare, hit = item("the ladder", "rare"), item("a way up", "hit", relevance=0.7)
    assert [each.handle for each in rank_items([*common, hit, rare], "the ladder")] == ["rare", "hit"]
    assert rank_items([], "the ladder") == []


def test_each_text_is_found_once_and_no_copy_of_what_the_model_sees():
    pile = [message("The ladder is blue.", counter=COUNTER, id=f"m{n}", timestamp=NOW - n) for n in range(3)]
    assert [each.handle for each in rank_items([item("the ladder", "a"), item("The  ladder", "b")], "ladder")] == ["a"]
    context = build([*pile, memory("The ladder is blue.", counter=COUNTER, id="copy", excluded="not now")])
    assert context.decision("copy").outcome == "dropped"
    assert context.recall(query="ladder").passages == ()


def test_the_passages_share_the_tokens():
    items = [item(STORY.replace("day 200", f"the ladder {n}"), f"m{n}") for n in range(3)]
    found = recall_best(items, "ladder", 200, COUNTER)
    assert [passage.handle for passage in found.passages] == ["m0", "m1", "m2"]
    assert 100 < found.tokens <= 200
    assert not found.whole
    small = recall_best(items, "ladder", 30, COUNTER)
    assert len(small.passages) < 3
    assert small.tokens <= 30


def test_a_passage_that_is_too_long_together_with_others_is_left_out():
    class Joining(WordCounter):
        """Counts more for texts with several paragraphs than for the paragraphs alone."""

        def text(self, text):
            return super().text(text + " more" * 50 * text.count("\n\n") * (not text.endswith("\n")))

    found = recall_best([item("the ladder here", f"m{n}") for n in range(3)], "ladder", 60, Joining())
    assert [passage.handle for passage in found.passages] == ["m0"]
