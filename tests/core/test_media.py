"""The media of messages: items of their own, in full, in low detail or as one line, and left out before any message."""

import msgspec
import pytest

import brimful
from brimful import Media, Text, ToolCall, ToolResult
from brimful.core.content import OPAQUE_TYPE
from brimful.core.context import Component
from brimful.core.frame import with_low_detail, with_text_blocks
from brimful.core.media import asks_about, needs_vision
from brimful.core.policy import Policy, Pool
from brimful.packagers import media, message, package, tool_turn
from brimful.testing import WordCounter
from strategies import COUNTER, NOW
from support import build, history, prompt_order, words

CAT = Media(modality="image", url="https://example.org/cat.png", width=640, height=480)
LINE = '[image: cat.png, 640×480, left out · recall "cat/image-1"]'
ALWAYS = {"media.when": "always"}
BY_DETAIL = {"provider": "openai", "image_rule": "openai-tiles-85-170"}


def shows(*parts, id="cat", at=NOW - 2000, **options):
    return message(
        parts or (Text(text="Before"), CAT, Text(text="after")), counter=COUNTER, id=id, timestamp=at, **options
    )


def says(text, id="now", **options):
    return message(text, counter=COUNTER, id=id, current=True, timestamp=NOW, **options)


def test_a_picture_is_an_item_of_its_own_in_its_place():
    context = build([shows(), says("Look at it")])
    item = context.decision("cat/image-1")
    assert (item.kind, item.pool, item.outcome, item.form, item.tokens, item.cost) == (
        ("media-image", "media", "kept", "full", 100, 100)
    )
    assert context.decision("cat").cost == 2 + 2
    assert context.component("media") == Component(name="media", tokens=100, items=1)
    blocks = context.request["messages"][0]["content"]
    assert [block["type"] for block in blocks] == ["text", "image_url", "text"]
    assert prompt_order(context) == ["cat", "cat/image-1", "now"]
    assert context.candidates[-1].content == (CAT,)
    assert context.items["cat/image-1"].package.tokens.tokens == 100


@pytest.mark.parametrize(
    ("text", "overrides", "reason"),
    [
        ("Thanks, bye!", {}, "not-needed"),
        ("Look at my cat.", {}, "fits"),
        ("And how old is it?", {}, "fits"),
        ("Thanks, bye!", ALWAYS, "fits"),
        ("Look at my cat.", {"media.when": "never"}, "not-needed"),
    ],
)
def test_an_older_picture_is_sent_if_the_message_asks_about_it_or_the_policy_says_so(text, overrides, reason):
    context = build([shows(), says(text)], overrides=overrides)
    item = context.decision("cat/image-1")
    assert (item.reason, item.form) == (reason, "full" if reason == "fits" else "stub")
    if reason != "fits":
        assert context.request["messages"][0]["content"] == f"Before\n\n{LINE}\n\nafter"
        assert (item.cost, item.full, item.larger) == (8, 100, 100)
        assert item.saved == 92
        assert "as a stub (100 in full)" in context.explain("cat/image-1")


def test_a_question_long_after_a_picture_is_not_about_it():
    later = [message("ok", counter=COUNTER, id=f"n{n}", timestamp=NOW - 100 + n) for n in range(8)]
    assert build([shows(), *later, says("And now?")]).decision("cat/image-1").reason == "not-needed"


def test_media_after_the_users_last_message_are_not_older():
    call, result = ToolCall(id="a", name="look"), ToolResult(id="a", content="done")
    turn = tool_turn([call], [result, CAT], counter=COUNTER, id="t", timestamp=NOW)
    context = build([message("Go on.", counter=COUNTER, id="m", timestamp=NOW - 9), *turn])
    assert context.decision("t/a/image-1").form == "full"
    assert context.request["messages"][-1]["content"][0]["type"] == "image_url"


@pytest.mark.parametrize(("modality", "text"), [("audio", "Who speaks in the recording"), ("video", "Can you see it")])
def test_other_media_are_sent_if_the_message_asks_about_them(modality, text):
    part = Media(modality=modality, data="QUJD", seconds=2.5)
    model = {"modalities": ("text", modality), "wire": "gemini"}
    asked = build([shows(part), says(text)], **model)
    assert asked.decision(f"cat/{modality}-1").form == "full"
    out = build([shows(part), says("Bye!")], **model)
    assert f'[{modality}: 2.5 s, left out · recall "cat/{modality}-1"]' in str(out.request)


def test_documents_are_asked_about_in_words_of_their_own():
    assert asks_about("document", "Summarize page 2")
    assert not asks_about("document", "Bye!")
    assert needs_vision("What's in this screenshot?")


def test_a_required_package_of_media_that_cannot_be_sent_becomes_text():
    fixed = media(CAT, counter=COUNTER, id="pic", can_drop=False)
    context = build([fixed, says("Look!")], modalities=("text",))
    assert context.decision("pic").outcome == "kept"
    assert "[image: https://example.org/cat.png]" in str(context.request)


def test_a_picture_is_left_out_before_any_message():
    many = history(40)
    full = build([*many, says("Bye!")], overrides=ALWAYS, window=620)
    assert all(full.decision(each.id).included for each in many)
    context = build([shows(), *many, says("Bye!")], overrides=ALWAYS, window=640)
    assert all(context.decision(each.id).included for each in many)
    assert (context.decision("cat/image-1").form, context.decision("cat/image-1").reason) == ("stub", "window-full")


def test_pictures_share_what_is_left():
    pile = [shows(id="cat", at=NOW - 20), shows(id="dog", at=NOW - 10), says("Look at them")]
    context = build(pile, window=300, overrides=ALWAYS | {"pools.media.limit.share": 1.0})
    first, second = (context.decision(f"{id}/image-1") for id in ("cat", "dog"))
    assert [(each.form, each.reason) for each in (first, second)] == [("stub", "window-full"), ("full", "fits")]
    assert context.tokens <= context.budget.available


def test_a_picture_that_does_not_fit_is_sent_in_low_detail_where_that_costs_less():
    pile = [shows(), *history(40), says("Bye!")]
    context = build(pile, overrides=ALWAYS, window=680, **BY_DETAIL)
    item = context.decision("cat/image-1")
    assert (item.form, item.outcome, item.cost, item.larger, item.smaller) == ("low", "shrunk", 25, 100, 8)
    assert context.request["messages"][0]["content"][1]["image_url"]["detail"] == "low"
    assert "25 tokens in low detail (100 in full, 8 as a stub)" in context.explain("cat/image-1")
    line = build(pile, overrides=ALWAYS, window=620, **BY_DETAIL).decision("cat/image-1")
    assert (line.form, line.larger, line.full) == ("stub", 25, 100)
    assert build(pile, overrides=ALWAYS, window=680).decision("cat/image-1").form == "stub"
    small = shows(msgspec.structs.replace(CAT, detail="low"))
    assert build([small, *pile[1:]], overrides=ALWAYS, window=620, **BY_DETAIL).decision("cat/image-1").form == "stub"


@pytest.mark.parametrize(
    ("limit", "reason"),
    [({"pools.media.limit.tokens": 150}, "pool-full"), ({"pools.media.max_items": 1}, "max-items")],
)
def test_the_pool_of_media_limits_them_newest_first(limit, reason):
    two = [shows(id="one"), shows(id="two", at=NOW - 5), says("Bye!")]
    context = build(two, overrides=ALWAYS | limit)
    assert context.decision("two/image-1").form == "full"
    assert (context.decision("one/image-1").form, context.decision("one/image-1").reason) == ("stub", reason)
    freely = build(two, overrides=ALWAYS | {"pools.media.limit.tokens": 150, "pools.media.borrow": True})
    assert freely.decision("one/image-1").form == "full"


def test_a_policy_without_a_pool_for_media_limits_them_by_the_window_alone():
    pools = {"policy": "pools", "overrides": ALWAYS}
    assert build([shows(), says("Bye!")], window=4000, **pools).decision("cat/image-1").pool == "related"
    only = Policy(name="p", pools=(Pool(name="a", kinds=("message-*",)),))
    context = build([shows(), says("Bye!")], only)
    assert (context.decision("cat/image-1").pool, context.decision("cat/image-1").form) == ("", "full")


def test_media_of_a_message_that_is_not_in_are_not_in():
    context = build([shows(), *history(90), says("Look!")], window=500)
    item = context.decision("cat/image-1")
    assert (item.outcome, item.reason, item.by, item.cost) == ("dropped", "message-dropped", "cat", 0)
    assert "its message 'cat' is not in" in context.explain("cat/image-1")


def test_a_picture_of_the_current_message_is_required_and_gives_way_before_the_words():
    now = message((Text(text=words(40)), CAT), counter=COUNTER, id="now", current=True, timestamp=NOW)
    plenty = build([now], overrides={"media.when": "needed"})
    assert (plenty.decision("now/image-1").reason, plenty.decision("now/image-1").form) == ("required", "full")
    low = build([now], window=200, **BY_DETAIL)
    assert low.decision("now/image-1").form == "low"
    line = build([now], window=160, **BY_DETAIL)
    assert line.decision("now/image-1").form == "stub"
    assert line.decision("now").outcome == "kept"
    (notice,) = [each for each in line.warnings if each.kind == "required-shrunk"]
    assert notice.facts == {"ids": ["now/image-1"]}
    with pytest.raises(brimful.errors.BudgetExceeded):
        build([now], window=140)


def test_a_required_picture_is_a_line_if_media_are_never_sent():
    now = message((Text(text="Look"), CAT), counter=COUNTER, id="now", current=True, timestamp=NOW)
    context = build([now], overrides={"media.when": "never"})
    assert (context.decision("now/image-1").reason, context.decision("now/image-1").form) == ("not-needed", "stub")
    assert context.warnings == ()


def test_media_of_history_keep_their_form_until_somebody_asks():
    said = [shows(), *history(3)]
    asked = build([*said, says("Look at my cat")])
    assert asked.history.media == (("cat/image-1", "full"),)
    later = build([*said, says("Bye!")], previous=asked.history)
    assert later.decision("cat/image-1").form == "full"
    never = build([*said, says("Bye!")], previous=asked.history, overrides={"media.when": "never"})
    assert never.decision("cat/image-1").form == "stub"
    out = build([*said, says("Bye!")], overrides=ALWAYS, window=200)
    assert out.history.media == (("cat/image-1", "stub"),)
    room = build([*said, says("Bye!")], overrides=ALWAYS, previous=out.history)
    assert (room.decision("cat/image-1").form, room.decision("cat/image-1").reason) == ("stub", "unchanged")
    assert "as in the previous context" in room.explain("cat/image-1")
    again = build([*said, says("Look at my cat")], overrides=ALWAYS, previous=out.history)
    assert again.decision("cat/image-1").form == "full"


def test_a_picture_in_low_detail_stays_so():
    said = [shows(), *history(40)]
    low = build([*said, says("Bye!")], overrides=ALWAYS, window=680, **BY_DETAIL)
    later = build([*said, says("Bye!")], overrides=ALWAYS, previous=low.history, **BY_DETAIL)
    assert later.decision("cat/image-1").form == "low"


def test_media_with_a_count_of_the_callers_stay_in_their_message():
    context = build([shows(tokens=50), says("Bye!")])
    assert [each.id for each in context.decisions if each.id.startswith("cat")] == ["cat"]
    assert context.decision("cat").cost == 52


def test_media_stay_in_their_message_if_another_candidate_has_their_id():
    other = package("memory-semantic", "tea", counter=COUNTER, id="cat/image-1")
    context = build([shows(), other, says("Bye!")])
    assert context.decision("cat/image-1").kind == "memory-semantic"
    assert context.decision("cat").cost == 2 + 2 + 100


class SmallPictures(WordCounter):
    """A counter for which pictures cost few tokens."""

    def __init__(self, tokens):
        self.size = tokens

    def media(self, part):
        del part
        return brimful.Count(tokens=self.size, basis="exact", tokenizer=self.tokenizer)


def test_a_line_never_costs_more_than_its_picture():
    short = build([shows(), says("Bye!")], counter=SmallPictures(9))
    assert short.request["messages"][0]["content"] == "Before\n\n[image]\n\nafter"
    glued = build([shows(), says("Bye!")], counter=SmallPictures(1))
    assert [each.id for each in glued.decisions] == ["now", "cat"]
    assert glued.request["messages"][0]["content"][1]["type"] == "image_url"


def test_media_that_the_model_cannot_see_are_a_line_with_the_reason():
    context = build([shows(), says("Look!")], modalities=("text",))
    item = context.decision("cat/image-1")
    assert (item.outcome, item.reason, item.form) == ("shrunk", "no-modality", "stub")
    assert "[image: https://example.org/cat.png]" in context.request["messages"][0]["content"]


@pytest.mark.parametrize(("window", "details", "form"), [(300, {}, "full"), (180, BY_DETAIL, "low"), (170, {}, "stub")])
def test_a_package_of_media_has_the_same_forms(window, details, form):
    pile = [media(CAT, counter=COUNTER, id="cat/image-1"), says(words(30))]
    context = build(pile, window=window, overrides={"forms.over": 60, "pools.media.limit.share": 1.0}, **details)
    assert context.decision("cat/image-1").form == form
    assert (LINE in str(context.request)) == (form == "stub")


def test_the_record_names_media_of_unknown_size_that_were_sent():
    part = Media(modality="audio", data="QUJD", media_type="audio/wav")
    pile = [shows(part, id="talk"), shows(part, id="glued", tokens=5), says("Listen!")]
    sent = build(pile, modalities=("text", "audio"))
    assert [each.facts for each in sent.warnings] == [{"ids": ["glued", "talk/audio-1"]}]
    out = build([*pile[:1], says("Bye!")], modalities=("text", "audio"))
    assert out.warnings == ()


def test_a_block_of_media_can_be_replaced_where_it_is():
    image = {"type": "image", "source": {"data": {"\0": [1]}}, "cache_control": {"type": "ephemeral"}}
    text = {"type": "text", "text": {"\0": [1]}, "cache_control": {"type": "ephemeral"}}
    other = {"type": "text", "text": {"\0": [0]}}
    assert with_text_blocks({"content": [other, image], "n": 7}, {1}) == {"content": [other, text], "n": 7}
    nested = {"content": [{"type": "tool_result", "content": [image]}]}
    assert with_text_blocks(nested, {1}) == {"content": [{"type": "tool_result", "content": [text]}]}
    assert with_text_blocks([[image]], {1}) == [[text]]
    assert with_low_detail({"content": [{"image_url": {"url": {"\0": [1]}}}]}, {1}) == {
        "content": [{"image_url": {"url": {"\0": [1]}, "detail": "low"}}]
    }
    assert with_low_detail([{"image_url": {"\0": [1]}}, 7], {1}) == [
        {"image_url": {"url": {"\0": [1]}, "detail": "low"}},
        7,
    ]


def test_media_that_only_the_provider_can_read_stay_in_their_message():
    context = build(
        [shows(Text(text="Before"), Media(modality="document", data="c2ln", media_type=OPAQUE_TYPE)), says("Hi")]
    )
    assert {decision.id for decision in context.decisions} == {"cat", "now"}
