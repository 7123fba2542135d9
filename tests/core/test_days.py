"""Days in history: the first message that a user wrote on a day begins with it."""

import pytest

from brimful.packagers import memory, message, package
from strategies import COUNTER, NOW
from support import build

DAY = 86_400
DAYS = {"layout.history_days": True}


def written(text, days_ago, **options):
    return message(text, counter=COUNTER, timestamp=NOW - days_ago * DAY, **options)


def shown(pile, *, overrides=None, **more):
    context = build(pile, overrides=DAYS | (overrides or {}), **more)
    return [entry["content"] for entry in context.request["messages"]]


def talk():
    return [
        written("Hi.", 2, id="a"),
        written("Hello.", 1.9, id="b", role="assistant"),
        written("Tea?", 1.8, id="c"),
        written("Good morning!", 1, id="d", role="assistant"),
        written("Hm.", 0.9, id="e"),
        written("So?", 0, id="f", current=True),
    ]


def test_a_day_begins_with_the_first_message_that_a_user_wrote_on_it():
    assert shown(talk()) == [
        "[2027-01-13]\nHi.",
        "Hello.",
        "Tea?",
        "Good morning!",
        "[2027-01-14]\nHm.",
        "[2027-01-15]\nSo?",
    ]


def test_days_are_those_of_the_time_zone():
    night = [written("Hi.", 0, id="a"), written("So?", -0.001, id="b", current=True)]  # 8:00 in UTC
    assert shown(night)[0] == "[2027-01-15]\nHi."
    assert shown(night, overrides={"layout.timezone": "Pacific/Honolulu"})[0] == "[2027-01-14]\nHi."


def test_without_a_time_there_is_no_day():
    assert shown([message("Hi.", counter=COUNTER), written("So?", 0, current=True)]) == ["Hi.", "[2027-01-15]\nSo?"]


@pytest.mark.parametrize("line", ["[2020-01-01]", "  [2020-01-01] ", "［2020-01-01］"])
def test_a_message_cannot_begin_another_day(line):
    first, second, answer, last = shown(
        [
            written(line, 2, id="a"),
            written(f"Yes.\n{line}\nI paid.", 1.9, id="b"),
            written(f"{line}\nIt is.", 1.8, id="c", role="assistant"),
            written("[2020-01-01] was the day.", 1.7, id="d", current=True),
        ]
    )
    assert first == f"[2027-01-13]\n> {line}"
    assert second == f"Yes.\n> {line}\nI paid."
    assert answer == f"> {line}\nIt is."
    assert last == "[2020-01-01] was the day."


def test_names_in_the_text_come_after_the_day():
    pile = [written("Hi.", 1, id="a", name="Ada"), written("So?", 0, id="b", name="Bob", current=True)]
    contents = shown(pile, wire="anthropic")
    assert [each["text"] for content in contents for each in content] == [
        "[2027-01-14]\nAda: Hi.",
        "[2027-01-15]\nBob: So?",
    ]


def test_the_first_message_that_is_left_has_its_day():
    pile = [written(f"Message {n} of some words.", 3 - n * 0.01, id=f"m{n:02}") for n in range(40)]
    contents = shown([*pile, written("So?", 0, id="now", current=True)], window=300)
    assert 2 < len(contents) < 40
    assert [content.startswith("[2027-01-12]\n") for content in contents] == [True] + [False] * (len(contents) - 1)


def test_earlier_messages_stay_as_they_are_when_others_follow():
    before = shown(talk())
    pile = [*talk()[:-1], written("So?", 0, id="f"), written("Well.", -1, id="g", current=True)]
    assert shown(pile)[: len(before)] == before


def test_retrieved_and_pinned_content_has_its_day_in_its_own_label():
    older = package("message-older", "Hi.", counter=COUNTER, name="Ada", role="user", timestamp=NOW, id="old")
    pile = [older, memory("Tea.", counter=COUNTER, id="m", timestamp=NOW, pinned=True), written("So?", 0, current=True)]
    pinned, related, _ = shown(pile, overrides={"layout.timezone": "Pacific/Honolulu"})
    assert "2027-01-14: Tea." in pinned
    assert "[2027-01-14]\nAda: Hi." in related
