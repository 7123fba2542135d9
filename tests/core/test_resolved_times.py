"""Dates behind relative times in memories and older messages, counted before the window is filled."""

from hypothesis import given
from hypothesis import strategies as st

from brimful.packagers import lorebook_entry, memory, message, package
from strategies import COUNTER, NOW
from support import build

YESTERDAY = "I moved yesterday."
DATED = "I moved yesterday (14 January 2027)."


def older(text, **options):
    return package("message-older", text, counter=COUNTER, name="Ada", role="user", timestamp=NOW, **options)


def shown(pile, **more):
    now = message("Where do I live?", counter=COUNTER, id="now", current=True, timestamp=NOW)
    context = build([*pile, now], **more)
    return context, "\n".join(str(entry["content"]) for entry in context.request["messages"])


def test_memories_and_older_messages_say_which_day_was_meant():
    pile = [
        older(YESTERDAY, id="m1", relevance=0.5),
        memory("Ada moves tomorrow.", counter=COUNTER, id="m2", timestamp=NOW, relevance=0.5),
        memory("Ada left last week.", counter=COUNTER, id="m3", timestamp=NOW, pinned=True),
    ]
    context, text = shown(pile)
    assert DATED in text
    assert "tomorrow (16 January 2027)" in text
    assert "last week (4–10 January 2027)" in text
    assert context.decision("m1").tokens == COUNTER.text(DATED).tokens
    assert context.tokens == context.verification.tokens


def test_days_are_those_of_the_time_zone():
    _, text = shown([older(YESTERDAY, id="m1")], overrides={"layout.timezone": "Pacific/Honolulu"})
    assert "yesterday (13 January 2027)" in text


def test_history_lore_and_undated_content_stay_as_they_are():
    pile = [
        message(YESTERDAY, counter=COUNTER, id="m1", timestamp=NOW - 1),
        lorebook_entry("The king died yesterday.", counter=COUNTER, id="lore", timestamp=NOW),
        memory("Ada left yesterday.", counter=COUNTER, id="m2"),
    ]
    assert "(14 January 2027)" not in shown(pile)[1]
    assert DATED not in shown([older(YESTERDAY, id="m1")], overrides={"layout.resolve_times": False})[1]
    assert DATED not in shown([older(YESTERDAY, id="m1")], policy="window")[1]


def test_a_message_is_still_a_duplicate_of_itself():
    pile = [message(YESTERDAY, counter=COUNTER, id="m1", timestamp=NOW - 1), older(YESTERDAY, id="m2")]
    context, _ = shown(pile)
    assert context.decision("m2").outcome == "duplicate"


def test_unlikely_packages_are_not_searched_for_times():
    pile = [older(YESTERDAY, id="m1", relevance=0.001), older("I live in Oslo.", id="m2", relevance=0.9)]
    assert shown(pile)[0].decision("m1").tokens == COUNTER.text(YESTERDAY).tokens
    assert shown(pile, overrides={"price": "full"})[0].decision("m1").tokens == COUNTER.text(DATED).tokens


def test_an_excerpt_still_shows_what_was_found():
    start = "I moved yesterday and was tired today. It is next week. " * 12
    found = "A key lies there. "
    text = start + found + "Well, that was that. " * 60
    pile = [older(text, id="m1", relevance=0.9, matches=((len(start), len(start) + len(found)),))]
    context, shown_text = shown(pile, window=320)
    assert context.decision("m1").outcome == "shrunk"
    assert found.strip() in shown_text


@given(st.lists(st.sampled_from(["yesterday", "last week", "tea", "on", "“", "”", "2 days ago", "."]), max_size=30))
def test_every_request_costs_what_it_says(pieces):
    context, _ = shown([older(" ".join(["So", *pieces]), id="m1", relevance=0.9)])
    assert context.tokens <= context.budget.available
    assert context.verification.rounds == 1
