"""Smaller forms of long items: what they look like, and which of them is chosen."""

from brimful import Count, ToolCall, ToolResult
from brimful.core.labels import iso_date
from brimful.packagers import memory, message, tool_turn
from strategies import COUNTER, NOW
from support import build, history, words

STORY = " ".join(f"On day {n} it rained." for n in range(400))


def test_history_has_digests_that_do_not_depend_on_the_current_message():
    long = message(STORY, counter=COUNTER, id="long", timestamp=NOW - 500)
    sent = []
    for text in ("Which day?", "Was it day 200?"):
        current = message(text, counter=COUNTER, id="now", current=True, timestamp=NOW)
        context = build([long, *history(5), current])
        assert context.decision("long").form == "digest"
        sent.append(context.request["messages"][0])
    assert sent[0] == sent[1]


def test_retrieved_content_has_excerpts_for_the_current_message():
    long = memory(STORY.replace("On day 200 it rained.", "On day 200 it snowed."), counter=COUNTER, id="long")
    current = message("When was it that it snowed?", counter=COUNTER, id="now", current=True, timestamp=NOW)
    context = build([long, current])
    assert context.decision("long").form == "excerpt"
    assert "On day 200 it snowed." in str(context.request)


def test_where_not_even_a_digest_fits_one_line_stays():
    large = [message(words(800), counter=COUNTER, id=f"l{n}", name="Ada", timestamp=NOW - 2000 + n) for n in range(4)]
    context = build([*large, *history(3)], window=260, completion=100)
    stubs = [each for each in context.decisions if each.form == "stub"]
    assert stubs
    assert stubs[0].smaller == 0
    day = iso_date(NOW - 2000)
    assert f"[message from Ada, {day}, 800 tokens, left out: word word" in str(context.request)


def test_a_form_stays_from_turn_to_turn():
    large = message(STORY, counter=COUNTER, id="large", timestamp=NOW - 900)
    later = [message("ok", counter=COUNTER, id=f"n{n}", timestamp=NOW + n) for n in range(20)]
    first = build([large, *later[:2]])  # full to the brim
    stepped = build([large, *later[:15]], previous=first.history)
    again = build([large, *later], previous=stepped.history)
    assert stepped.history.forms == again.history.forms != ()
    assert again.request["messages"][:5] == stepped.request["messages"][:5]


def test_only_the_text_of_a_tool_result_is_shortened():
    rows = "\n".join(f"row {n} is fine" for n in range(400))
    turn = tool_turn(
        [ToolCall(id="a", name="look"), ToolCall(id="b", name="look")],
        [ToolResult(id="a", content=rows), ToolResult(id="b", content="short")],
        counter=COUNTER,
        id="turn",
        timestamp=NOW,
    )
    context = build(turn)
    forms = {each.id: each.form for each in context.decisions}
    assert sorted(forms.values()) == ["digest", "full", "full"]
    assert "short" in str(context.request)


def test_a_count_of_the_caller_that_is_too_small_gives_no_excerpt_that_does_not_fit():
    bound = memory(STORY, counter=COUNTER, id="long", tokens=Count(tokens=950, basis="bound"))
    context = build([bound, message("Hi", counter=COUNTER, id="now", current=True)])
    assert context.tokens <= context.budget.hard_limit


def test_what_is_large_and_cannot_be_shortened_enough_stays_whole():
    large = message("one " * 320, counter=COUNTER, id="large", min_tokens=310, timestamp=NOW - 915.5)
    context = build([large, *history(90)])
    assert context.decision("large").form == "full"
    assert context.decision("m080").included
