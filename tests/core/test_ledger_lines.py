"""What the lines of a ledger say."""

from brimful.core.ledger_lines import Entry, Line, count_fields
from brimful.shorten.values import Value


def entries(key, texts):
    values = (Value(text, key) for text in texts)
    return [Entry((Line("get_order", "", (value,), 0, 0),), (value,), is_step=True) for value in values]


def test_a_field_without_usual_values_is_not_counted():
    names = entries("customer", [f"Ada {letter}" for letter in "abcdefgh"])
    assert list(count_fields(names, [], "Who is the customer of each order?")) == []


def test_the_most_frequent_of_many_values_are_counted():
    states = entries("state", [state for at, state in enumerate("abcdefg", start=2) for _ in range(at)])
    (line,) = count_fields(states, [], "Which states are there?")
    assert line == "get_order state: g ×8, f ×7, e ×6, d ×5, c ×4, b ×3"
