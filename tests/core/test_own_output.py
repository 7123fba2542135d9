"""Reading our own output back: ledgers, summaries, and the marks of shortened texts."""

import pytest

from brimful.core.content import Text, ToolResult
from brimful.core.labels import HISTORY_CLOSE, HISTORY_OPEN
from brimful.core.ledger_lines import read_counts, read_entry
from brimful.core.own_output import (
    find_mark,
    has_lines,
    is_own_message,
    message_mark,
    read_history,
    read_line,
    without_mark,
)
from brimful.core.prompt import Message


def user(text):
    return Message(role="user", parts=(Text(text=text),))


@pytest.mark.parametrize(
    ("message", "is_own", "lines"),
    [
        (user(f"{HISTORY_OPEN}r3 f(a=1)\n{HISTORY_CLOSE}"), True, True),
        (user(f"{HISTORY_OPEN}calls: f ×9\n{HISTORY_CLOSE}"), True, False),
        (user("(conversation continues)"), True, False),
        (user(f"Look: {HISTORY_OPEN}r3 f(a=1)\n{HISTORY_CLOSE}"), False, False),
        (user(f"{HISTORY_OPEN}r3 f(a=1)\n{HISTORY_CLOSE} Go on."), False, False),
        (Message(role="assistant", parts=(Text(text=HISTORY_OPEN + HISTORY_CLOSE),)), False, False),
        (Message(role="user", parts=(Text(text=HISTORY_OPEN + HISTORY_CLOSE), Text(text="Hi"))), False, False),
        (Message(role="tool", parts=(ToolResult(id="1", content=HISTORY_OPEN + HISTORY_CLOSE),)), False, False),
    ],
)
def test_only_a_whole_message_of_the_user_is_ours(message, is_own, lines):
    assert (is_own_message(message), has_lines(message)) == (is_own, lines)


def test_a_line_begins_with_a_handle_and_is_carried_over_word_for_word():
    rows = [
        "r3 get_order(id=W-17) → cust_88, date 2024-05-01",
        "r4/2 get_order(id=a → b) → c",
        "r5 assistant → Which one, please?",
        "r6: another form",
        "r7",
    ]
    others = ["r8x no handle", "r1234567890 too long", "calls: f ×9", "handles: up to r12x"]
    history = read_history(HISTORY_OPEN + "\n".join([*rows, "handles: up to r40", *others, ""]) + HISTORY_CLOSE)
    assert [line.text for line in history.lines] == rows
    assert history.summary == "".join(f"{row}\n" for row in others)
    assert history.last == 40
    assert [line.call for line in history.lines[:3]] == [("get_order", "id=W-17"), ("get_order", "id=a"), None]


@pytest.mark.parametrize(
    ("text", "mark", "rest"),
    [
        ('One. […]\n[… recall "r12"]', "r12", "One. […]"),
        ('{"a":1,"…":"2 more keys, recall r3/2"}', "r3/2", '{"a":1,"…":"2 more keys"}'),
        ('{"a":1,"…":"recall r3"}', "r3", '{"a":1}'),
        ('[1,"… recall r3"]', "r3", "[1]"),
        ('["… recall r3"]', "r3", "[]"),
        ('[tool result, 900 tokens, left out: {"id": 7, … · recall "r12"]', "r12", '{"id": 7, …'),
        ('[image: cat.png, 64×48, left out · recall "hythy3be"]', "hythy3be", None),
        ('["recall r3"]', "", None),
        ('{"a":"recall r3"}', "", None),
        ('Say [… recall "r12"] again.', "", None),
        ("", "", None),
    ],
)
def test_a_mark_is_at_the_end_of_a_shortened_text(text, mark, rest):
    assert find_mark(text) == mark
    assert without_mark(text) == (text if rest is None else rest)


def test_the_mark_of_a_message_may_be_in_any_of_its_texts():
    marked = ToolResult(id="1", content='[1,"… recall r3"]')
    assert message_mark(Message(role="tool", parts=(Text(text="Hi"), marked))) == "r3"
    assert message_mark(Message(role="user", parts=(Text(text="Hi"),))) == ""


@pytest.mark.parametrize(
    ("row", "values"),
    [
        ("r3 f(a=1)", []),
        ("r3 f(a=1) → cust_88, state sent, total 80", ["cust_88", "sent", "80"]),
        ("r3 f(a=1) → W-1, state sent; W-2, lost", ["W-1", "sent", "W-2", "lost"]),
        ("r3 f(a=1) → left at door, left at gate", ["left at door, left at gate"]),
        ("r3 f(a=1) → Error: no order, none", ["Error: no order, none"]),
        ("r3 assistant → Which one, please?", ["Which one, please?"]),
    ],
)
def test_a_line_that_is_written_again_is_the_same(row, values):
    entry = read_entry(read_line(row))
    assert [value.text for value in entry.values] == values
    assert list(entry.write(range(len(values)))) == [row]


def test_counts_that_are_none_stay_in_the_summary():
    summary = "f state: sent\nf state: sent ×99999\nf total: many numbers, sum 3\ncalls: f\n"
    counts, rest = read_counts(summary)
    assert (counts.values, rest) == ((), summary)
